//! Boards from what stands on their squares.

use crate::{Board, BoardBuilder, Color, get_king_moves};
use cozy_chess::BoardBuilderError;
use thiserror::Error;

/// Why a game cannot go on from a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BoardError {
    /// A king too many or too few, a pawn where none can be, too many pieces, or the side that just moved stands in check.
    #[error("the pieces cannot stand as they do")]
    Pieces,
    /// One king could take the other.
    #[error("the kings stand side by side")]
    KingsTouch,
    /// A castling right without king and rook in place.
    #[error("a castling right has no king and rook in place for it")]
    Castling,
    /// An en passant square that no pawn has just passed.
    #[error("no pawn has just passed the en passant square")]
    EnPassant,
    /// More than a clock can say.
    #[error("a clock is beyond what a game can have")]
    Clock,
}

/// The board that is described, if a game can go on from it.
///
/// [`BoardBuilder::build`] does not mind kings that stand side by side, of which one would be taken by the next move.
pub fn build(builder: &BoardBuilder) -> Result<Board, BoardError> {
    let board = builder.build().map_err(|error| match error {
        BoardBuilderError::InvalidBoard => BoardError::Pieces,
        BoardBuilderError::InvalidCastlingRights => BoardError::Castling,
        BoardBuilderError::InvalidEnPassant => BoardError::EnPassant,
        BoardBuilderError::InvalidHalfMoveClock | BoardBuilderError::InvalidFullmoveNumber => {
            BoardError::Clock
        }
    })?;
    if get_king_moves(board.king(Color::White)).has(board.king(Color::Black)) {
        return Err(BoardError::KingsTouch);
    }
    Ok(board)
}
