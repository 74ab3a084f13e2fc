//! Records that belong together: the same game, one move after the other.

use crate::packed::Packed;
use crate::record::Record;
use tandem_chess::{Board, Move};

/// Follows records and tells whether the next goes on where the last one stopped.
#[derive(Clone, Debug, Default)]
pub struct Follower {
    /// The board after the last record's move.
    next: Option<(Board, Packed)>,
}

impl Follower {
    /// Whether this record is the position that the last one's move led to, in the same game.
    pub fn goes_on(&self, record: &Record) -> bool {
        !record.starts_game && self.next.as_ref().is_some_and(|(_, packed)| is_same(packed, record))
    }

    /// Takes the record in, as the next of a game or the first of another. Returns the board of the position, on which
    /// the record's move, if it has one, is legal; a reason if there is none.
    pub fn follow(&mut self, record: &Record) -> Result<Board, String> {
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

/// Whether a record holds a position. It may have noted a right to take en passant that nobody can use.
fn is_same(position: &Packed, record: &Record) -> bool {
    *position == record.position || *position == record.position.without_passant()
}

/// The board after a legal move.
fn after(board: &Board, mv: Move) -> Result<(Board, Packed), String> {
    let mut next = board.clone();
    next.try_play(mv).map_err(|_| format!("{mv} is not a legal move here"))?;
    let packed = Packed::new(&next).ok_or("more than 32 pieces")?;
    Ok((next, packed))
}
