//! Attack sets: the pieces that attack a square, and the squares that a side attacks.

use crate::{
    BitBoard, Board, Color, File, Piece, Square, get_bishop_moves, get_king_moves, get_knight_moves,
    get_pawn_attacks, get_rook_moves,
};

/// Pieces of both sides that attack `square` if exactly the squares in `occupied` are taken. Removing a
/// piece's square from `occupied` finds the attackers behind it.
#[inline]
pub fn attackers_to(board: &Board, square: Square, occupied: BitBoard) -> BitBoard {
    let queens = board.pieces(Piece::Queen);
    get_pawn_attacks(square, Color::White) & board.colored_pieces(Color::Black, Piece::Pawn)
        | get_pawn_attacks(square, Color::Black) & board.colored_pieces(Color::White, Piece::Pawn)
        | get_knight_moves(square) & board.pieces(Piece::Knight)
        | get_king_moves(square) & board.pieces(Piece::King)
        | get_bishop_moves(square, occupied) & (board.pieces(Piece::Bishop) | queens)
        | get_rook_moves(square, occupied) & (board.pieces(Piece::Rook) | queens)
}

/// Squares that the pieces of one side attack, squares of its own pieces included.
#[inline]
pub fn attacks_by(board: &Board, color: Color) -> BitBoard {
    attacks_by_kind(board, color, &Piece::ALL)
}

/// Squares that the pieces of one side and of the given kinds attack.
#[inline]
pub fn attacks_by_kind(board: &Board, color: Color, kinds: &[Piece]) -> BitBoard {
    let occupied = board.occupied();
    let mut attacks = BitBoard::EMPTY;
    for &kind in kinds {
        if kind == Piece::Pawn {
            attacks |= pawn_attacks(board, color);
            continue;
        }
        for square in board.colored_pieces(color, kind) {
            attacks |= match kind {
                Piece::Knight => get_knight_moves(square),
                Piece::Bishop => get_bishop_moves(square, occupied),
                Piece::Rook => get_rook_moves(square, occupied),
                Piece::Queen => get_bishop_moves(square, occupied) | get_rook_moves(square, occupied),
                _ => get_king_moves(square),
            };
        }
    }
    attacks
}

/// Squares that the pawns of one side attack.
#[inline]
pub fn pawn_attacks(board: &Board, color: Color) -> BitBoard {
    pawn_attacks_from(board.colored_pieces(color, Piece::Pawn), color)
}

/// Squares that pawns of one colour would attack from the given squares.
#[inline]
pub(crate) fn pawn_attacks_from(pawns: BitBoard, color: Color) -> BitBoard {
    let east = BitBoard((pawns & !File::H.bitboard()).0 << 1);
    let west = BitBoard((pawns & !File::A.bitboard()).0 >> 1);
    let both = east | west;
    match color {
        Color::White => BitBoard(both.0 << 8),
        Color::Black => BitBoard(both.0 >> 8),
    }
}

/// For each kind of piece, indexed by [`Piece`], the squares from which such a piece of the side to move
/// would give check.
#[inline]
pub fn checking_squares(board: &Board) -> [BitBoard; Piece::NUM] {
    let us = board.side_to_move();
    let (king, occupied) = (board.king(!us), board.occupied());
    let diagonal = get_bishop_moves(king, occupied);
    let straight = get_rook_moves(king, occupied);
    [
        get_pawn_attacks(king, !us),
        get_knight_moves(king),
        diagonal,
        straight,
        diagonal | straight,
        BitBoard::EMPTY,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference by definition: a square is attacked if some piece of the colour is among its attackers.
    #[test]
    fn both_views_of_an_attack_agree() {
        for fen in [
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
            "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
            "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8",
        ] {
            let board: Board = fen.parse().unwrap();
            for color in Color::ALL {
                let slow: BitBoard = Square::ALL
                    .into_iter()
                    .filter(|&square| {
                        !(attackers_to(&board, square, board.occupied()) & board.colors(color)).is_empty()
                    })
                    .collect();
                assert_eq!(attacks_by(&board, color), slow, "{fen} {color}");
            }
        }
    }
}
