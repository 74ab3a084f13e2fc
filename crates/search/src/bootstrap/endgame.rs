//! Endgames in which material misleads: drawish ones, and won ones that need a plan.

use super::pawns::distance;
use tandem_chess::{BitBoard, Board, Color, Piece, Square};

/// Result of [`winnable`] for an ordinary endgame.
pub(crate) const FULL_SCALE: i32 = 64;

/// Value of the pieces of one side without pawns, in pawns.
fn pieces_worth(board: &Board, color: Color) -> i32 {
    let count = |piece| board.colored_pieces(color, piece).len() as i32;
    3 * (count(Piece::Knight) + count(Piece::Bishop)) + 5 * count(Piece::Rook) + 9 * count(Piece::Queen)
}

/// Scale of one side's endgame advantage in 64ths, lower in drawish endings such as those with
/// opposite-coloured bishops.
#[inline]
pub(crate) fn winnable(board: &Board, strong: Color) -> i32 {
    let pawns = board.colored_pieces(strong, Piece::Pawn).len() as i32;
    if pawns == 0 {
        let (ours, theirs) = (pieces_worth(board, strong), pieces_worth(board, !strong));
        if ours - theirs <= 3 {
            return match ours {
                0..5 => 0,
                _ if theirs <= 3 => 6,
                _ => 16,
            };
        }
        return FULL_SCALE;
    }
    let bishops = board.pieces(Piece::Bishop);
    let [white, black] = Color::ALL.map(|color| bishops & board.colors(color));
    let dark = BitBoard::DARK_SQUARES;
    if white.len() == 1 && black.len() == 1 && (white & dark).is_empty() != (black & dark).is_empty() {
        let others = board.pieces(Piece::Knight) | board.pieces(Piece::Rook) | board.pieces(Piece::Queen);
        return if others.is_empty() { 28 } else { 50 };
    }
    (40 + 6 * pawns).min(FULL_SCALE)
}

/// Bonus for a side that only has to mate: for the opponent's king near the edge and its own king close to
/// it.
pub(super) fn mop_up(board: &Board, strong: Color) -> i32 {
    if !board.colored_pieces(!strong, Piece::Pawn).is_empty()
        || pieces_worth(board, strong) - pieces_worth(board, !strong) < 5
    {
        return 0;
    }
    let (own_king, bare_king) = (board.king(strong), board.king(!strong));
    let knights = board.colored_pieces(strong, Piece::Knight);
    let bishops = board.colored_pieces(strong, Piece::Bishop);
    let driven = if pieces_worth(board, strong) == 6 && knights.len() == 1 && bishops.len() == 1 {
        // Bishop and knight can mate only in a corner of the bishop's colour.
        let corners = if (bishops & BitBoard::DARK_SQUARES).is_empty() {
            [Square::A8, Square::H1]
        } else {
            [Square::A1, Square::H8]
        };
        20 * (7 - corners.map(|corner| distance(corner, bare_king)).into_iter().min().unwrap_or(0) as i32)
    } else {
        let from_edge = |index: usize| index.min(7 - index) as i32;
        16 * (6 - from_edge(bare_king.file() as usize) - from_edge(bare_king.rank() as usize))
    };
    150 + driven + 8 * (7 - distance(own_king, bare_king) as i32)
}
