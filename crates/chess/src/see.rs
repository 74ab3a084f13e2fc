//! Static exchange evaluation (SEE): the material result of a sequence of captures on one square.

use crate::{BitBoard, Color, Move, Piece, Position, attackers_to, get_bishop_moves, get_rook_moves};

/// Value of each piece in an exchange, in centipawns; 0 for the king, which is never lost in one.
const VALUES: [i32; 6] = [100, 320, 330, 500, 950, 0];

/// Value of a piece in a static exchange evaluation (the balance of captures on one square), in centipawns; 0
/// for the king.
#[inline]
pub fn exchange_value(piece: Piece) -> i32 {
    VALUES[piece as usize]
}

/// True if the exchange that starts with a legal move gains at least `threshold` centipawns for the moving
/// side. Both sides capture with their least valuable piece and may stop at any point. Pins to a king count
/// as long as the pinning piece stands.
pub(crate) fn see_ge(position: &Position, mv: Move, threshold: i32) -> bool {
    let board = position.board();
    if position.is_castling(mv) {
        return threshold <= 0;
    }
    let moving = position.piece_on(mv.from).unwrap_or(Piece::Pawn);
    let en_passant = position.is_en_passant(mv);

    // Immediate gain of the first capture and of a promotion.
    let mut balance = -threshold;
    if let Some(victim) = position.captured_by(mv) {
        balance += exchange_value(victim);
    }
    let mut on_square = exchange_value(moving);
    if let Some(promotion) = mv.promotion {
        balance += exchange_value(promotion) - exchange_value(Piece::Pawn);
        on_square = exchange_value(promotion);
    }
    if balance < 0 {
        return false;
    }
    // The threshold is met even if the piece is lost without compensation.
    if balance >= on_square {
        return true;
    }

    let mut occupied = (board.occupied() & !mv.from.bitboard()) | mv.to.bitboard();
    if en_passant {
        occupied &= !crate::Square::new(mv.to.file(), mv.from.rank()).bitboard();
    }
    let queens = board.pieces(Piece::Queen);
    let diagonal = board.pieces(Piece::Bishop) | queens;
    let straight = board.pieces(Piece::Rook) | queens;
    let mut attackers = attackers_to(board, mv.to, occupied) & occupied;
    // Pins are computed for a side only once it has something to capture with.
    let mut pinned: [Option<Pins>; 2] = [None, None];

    let mut side = board.side_to_move();
    // The side that has to gain next, and the balance from its view.
    balance -= on_square;
    loop {
        side = !side;
        let mut ours = attackers & board.colors(side);
        if ours.is_empty() {
            break;
        }
        let pins = pinned[side as usize].get_or_insert_with(|| Pins::of(position, side));
        if !(pins.pinners & occupied).is_empty() {
            ours &= !pins.pinned | mv.to.bitboard();
        }
        let Some((piece, from)) = least_valuable(position, ours) else { break };
        if piece == Piece::King {
            // The king may capture only if the square is not defended.
            if !(attackers & board.colors(!side)).is_empty() {
                break;
            }
            side = !side;
            break;
        }
        occupied ^= from;
        // With the capturing piece gone, a slider behind it joins in.
        if matches!(piece, Piece::Pawn | Piece::Bishop | Piece::Queen) {
            attackers |= get_bishop_moves(mv.to, occupied) & diagonal;
        }
        if matches!(piece, Piece::Rook | Piece::Queen) {
            attackers |= get_rook_moves(mv.to, occupied) & straight;
        }
        attackers &= occupied;
        balance = -balance - 1 - exchange_value(piece);
        if balance >= 0 {
            side = !side;
            break;
        }
    }
    // The side that cannot continue has lost the exchange.
    side != board.side_to_move()
}

/// Pieces of one side that are pinned to their king, and the opponent's sliders that pin them.
struct Pins {
    pinned: BitBoard,
    pinners: BitBoard,
}

impl Pins {
    #[inline]
    fn of(position: &Position, color: Color) -> Self {
        let board = position.board();
        let king = board.king(color);
        let queens = board.pieces(Piece::Queen);
        let snipers = board.colors(!color)
            & (crate::get_bishop_rays(king) & (board.pieces(Piece::Bishop) | queens)
                | crate::get_rook_rays(king) & (board.pieces(Piece::Rook) | queens));
        let mut pins = Self { pinned: BitBoard::EMPTY, pinners: BitBoard::EMPTY };
        for sniper in snipers {
            let between = crate::get_between_rays(sniper, king) & board.occupied();
            if between.len() == 1 && !(between & board.colors(color)).is_empty() {
                pins.pinned |= between;
                pins.pinners |= sniper.bitboard();
            }
        }
        pins
    }
}

/// The least valuable piece among `candidates`, as a set of one square.
#[inline]
fn least_valuable(position: &Position, candidates: BitBoard) -> Option<(Piece, BitBoard)> {
    if candidates.is_empty() {
        return None;
    }
    Piece::ALL.into_iter().find_map(|piece| {
        let square = (candidates & position.board().pieces(piece)).next_square()?;
        Some((piece, square.bitboard()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uci;

    /// Reference by recursion: capture with the least valuable piece, or stop. Only legal moves count, so
    /// pins are exact.
    fn exchange(position: &mut Position, mv: Move) -> i32 {
        let gain = position.captured_by(mv).map_or(0, exchange_value)
            + mv.promotion.map_or(0, |piece| exchange_value(piece) - exchange_value(Piece::Pawn));
        position.play(mv);
        let mut replies: Vec<Move> = position
            .legal_moves()
            .into_iter()
            .filter(|reply| reply.to == mv.to && reply.promotion.is_none())
            .collect();
        replies.retain(|&reply| position.captured_by(reply).is_some());
        replies.sort_by_key(|reply| position.piece_on(reply.from).map(|piece| piece as usize));
        let answer = replies.first().map_or(0, |&reply| exchange(position, reply).max(0));
        position.undo();
        gain - answer
    }

    #[test]
    fn equals_the_recursive_definition() {
        // Positions without discovered checks or promotions on the exchange square, where the two definitions
        // agree.
        for fen in [
            "1k1r4/1pp4p/p7/4p3/8/P5P1/1PP4P/2K1R3 w - - 0 1",
            "1k1r3q/1ppn3p/p4b2/4p3/8/P2N2P1/1PP1R1BP/2K1Q3 w - - 0 1",
            "r1bqkb1r/pppp1ppp/2n2n2/4p3/2B1P3/5N2/PPPP1PPP/RNBQ1RK1 w kq - 0 1",
            "r2q1rk1/1b2bppp/p2ppn2/1p6/3NPP2/1BN1B3/PPP3PP/R2Q1RK1 w - - 0 1",
            "4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1",
        ] {
            let mut position = Position::from_fen(fen).unwrap();
            for mv in position.legal_moves() {
                if position.gives_check(mv) || mv.promotion.is_some() {
                    continue;
                }
                let value = exchange(&mut position, mv);
                assert!(position.see_ge(mv, value), "{mv} in {fen} gains {value}");
                assert!(!position.see_ge(mv, value + 1), "{mv} in {fen} gains only {value}");
            }
        }
    }

    #[test]
    fn known_exchanges() {
        for (fen, text, value) in [
            ("1k1r4/1pp4p/p7/4p3/8/P5P1/1PP4P/2K1R3 w - - 0 1", "e1e5", 100),
            ("1k1r3q/1ppn3p/p4b2/4p3/8/P2N2P1/1PP1R1BP/2K1Q3 w - - 0 1", "d3e5", -220),
            ("8/4P3/8/8/8/8/k6r/4K3 w - - 0 1", "e7e8q", 850),
            ("4r1k1/3P4/8/8/8/8/8/4K3 w - - 0 1", "d7e8q", 500 + 850),
            ("4k2r/8/8/8/8/8/8/4K2R w Kk - 0 1", "e1h1", 0),
        ] {
            let position = Position::from_fen(fen).unwrap();
            let mv = uci::parse(position.board(), text).unwrap();
            assert!(position.see_ge(mv, value), "{text} in {fen}");
            assert!(!position.see_ge(mv, value + 1), "{text} in {fen}");
        }
    }
}
