//! Captures and promotions without the quiet moves, because quiescence search, where most positions are,
//! needs no others.

use crate::attacks::pawn_attacks_from;
use crate::{
    BitBoard, Board, Move, Piece, PieceMoves, Rank, Square, attackers_to, get_bishop_moves, get_king_moves,
    get_knight_moves, get_line_rays, get_pawn_attacks, get_pawn_quiets, get_rook_moves,
};

/// Generates the legal captures (en passant included) and promotions of a position, and calls `listener` with
/// those of one piece at a time.
#[inline]
pub fn generate_noisy(board: &Board, mut listener: impl FnMut(PieceMoves)) {
    let us = board.side_to_move();
    let theirs = board.colors(!us);
    let last_rank = Rank::Eighth.relative_to(us).bitboard();
    let en_passant = board.en_passant().map(|file| Square::new(file, Rank::Sixth.relative_to(us)));

    // In check there are few moves of any kind, and their rules are better kept in one place.
    if !board.checkers().is_empty() {
        board.generate_moves(|mut moves| {
            moves.to &= match moves.piece {
                Piece::Pawn => theirs | last_rank | en_passant.map_or(BitBoard::EMPTY, Square::bitboard),
                _ => theirs,
            };
            if !moves.to.is_empty() {
                listener(moves);
            }
            false
        });
        return;
    }

    let ours = board.colors(us);
    let occupied = board.occupied();
    let pinned = board.pinned();
    let king = board.king(us);
    let mut hand_out = |piece: Piece, from: Square, mut to: BitBoard| {
        if pinned.has(from) {
            to &= get_line_rays(king, from);
        }
        if !to.is_empty() {
            listener(PieceMoves { piece, from, to });
        }
    };

    let pawns = ours & board.pieces(Piece::Pawn);
    let seventh = Rank::Seventh.relative_to(us).bitboard();
    // Most pawns have nothing to capture; they are skipped all at once.
    for from in pawns & (pawn_attacks_from(theirs, !us) | seventh) {
        let mut to = get_pawn_attacks(from, us) & theirs;
        if seventh.has(from) {
            to |= get_pawn_quiets(from, us, occupied);
        }
        hand_out(Piece::Pawn, from, to);
    }
    for from in ours & board.pieces(Piece::Knight) {
        hand_out(Piece::Knight, from, get_knight_moves(from) & theirs);
    }
    for from in ours & board.pieces(Piece::Bishop) {
        hand_out(Piece::Bishop, from, get_bishop_moves(from, occupied) & theirs);
    }
    for from in ours & board.pieces(Piece::Rook) {
        hand_out(Piece::Rook, from, get_rook_moves(from, occupied) & theirs);
    }
    for from in ours & board.pieces(Piece::Queen) {
        let reach = get_bishop_moves(from, occupied) | get_rook_moves(from, occupied);
        hand_out(Piece::Queen, from, reach & theirs);
    }
    let guarded = |to: Square| !(attackers_to(board, to, occupied ^ king.bitboard()) & theirs).is_empty();
    let king_takes: BitBoard =
        (get_king_moves(king) & theirs).into_iter().filter(|&to| !guarded(to)).collect();
    hand_out(Piece::King, king, king_takes);

    if let Some(to) = en_passant {
        for from in get_pawn_attacks(to, !us) & ours & board.pieces(Piece::Pawn) {
            if board.is_legal(Move { from, to, promotion: None }) {
                listener(PieceMoves { piece: Piece::Pawn, from, to: to.bitboard() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Position;

    fn check_tree(position: &mut Position, depth: u32) {
        let sorted = |mut moves: Vec<String>| {
            moves.sort();
            moves
        };
        let mut noisy = Vec::new();
        generate_noisy(position.board(), |moves| noisy.extend(moves.into_iter().map(|mv| mv.to_string())));
        let expected = position
            .legal_moves()
            .into_iter()
            .filter(|&mv| position.captured_by(mv).is_some() || mv.promotion.is_some())
            .map(|mv| mv.to_string())
            .collect();
        assert_eq!(sorted(noisy), sorted(expected), "{}", position.fen());
        if depth > 0 {
            for mv in position.legal_moves() {
                position.play(mv);
                check_tree(position, depth - 1);
                position.undo();
            }
        }
    }

    #[test]
    fn equals_the_noisy_part_of_all_moves() {
        for fen in [
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
            "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
            "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
            "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
            "8/8/8/8/k2pP2R/8/8/4K3 b - e3 0 1",
            "1rk1r3/8/8/8/8/8/8/1RK1R3 w EBeb - 0 1",
        ] {
            check_tree(&mut Position::from_fen(fen).unwrap(), 3);
        }
    }
}
