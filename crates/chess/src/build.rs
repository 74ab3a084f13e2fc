//! Boards from pieces on squares, with one check more than [`cozy_chess`] makes.

use crate::{Board, BoardBuilder, Color, get_king_moves};
use cozy_chess::BoardBuilderError;
use thiserror::Error;

/// Reason for which a board is not a legal position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BoardError {
    /// A missing or second king, a pawn on the first or last rank, too many pieces, or the opponent in check.
    #[error("the pieces cannot stand as they do")]
    Pieces,
    /// The kings stand on neighbouring squares.
    #[error("the kings stand side by side")]
    KingsTouch,
    /// A castling right without king and rook in place.
    #[error("a castling right has no king and rook in place for it")]
    Castling,
    /// An en passant square that no pawn has just passed.
    #[error("no pawn has just passed the en passant square")]
    EnPassant,
    /// A clock beyond its range, for example a half-move clock above 100.
    #[error("a clock is beyond what a game can have")]
    Clock,
}

/// Builds the board and checks that it is a legal position.
///
/// [`BoardBuilder::build`] alone accepts kings on neighbouring squares, of which one would be captured by the
/// next move.
///
/// # Errors
///
/// Fails with the first rule that the position violates.
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
