//! Continuity of records: whether one is the next position of the same game.
//!
//! Encoders of formats that store games need it, because a stream of records does not always mark where games
//! begin.

use crate::packed::Packed;
use crate::record::Record;
use tandem_chess::{Board, Move};

/// Tells for each record of a stream whether it continues the game of the record before it:
/// [`Self::continues_game`] asks about the next record, then [`Self::advance`] takes it in.
#[derive(Clone, Debug, Default)]
pub struct GameTracker {
    /// Board after the last record's move, with its packed form.
    next: Option<(Board, Packed)>,
}

impl GameTracker {
    /// True if the record's position is the one that the move of the last record led to, and the record is
    /// not marked as the first of a game.
    pub fn continues_game(&self, record: &Record) -> bool {
        !record.starts_game && self.next.as_ref().is_some_and(|(_, packed)| is_same(packed, record))
    }

    /// Takes in a record, as the next of a game or the first of another, and returns the board of its
    /// position. The record's move, if it has one, is legal on it.
    ///
    /// # Errors
    ///
    /// Fails with a reason if the position is not a legal board or the move is illegal.
    pub fn advance(&mut self, record: &Record) -> Result<Board, String> {
        let board = match self.next.take() {
            Some((board, packed)) if is_same(&packed, record) => board,
            _ => record.position.board().map_err(|error| error.to_string())?,
        };
        if let Some(mv) = record.mv {
            self.next = Some(after(&board, mv)?);
        }
        Ok(board)
    }
}

/// True if a record holds this position. The record may have noted an en passant right that no pawn can use.
fn is_same(position: &Packed, record: &Record) -> bool {
    *position == record.position || *position == record.position.without_passant()
}

/// Board after a legal move, with its packed form.
fn after(board: &Board, mv: Move) -> Result<(Board, Packed), String> {
    let mut next = board.clone();
    next.try_play(mv).map_err(|_| format!("{mv} is not a legal move here"))?;
    let packed = Packed::new(&next).ok_or("more than 32 pieces")?;
    Ok((next, packed))
}
