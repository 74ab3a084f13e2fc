//! The pieces that a move removes and adds, for observers that follow a game piece by piece.
//!
//! An incrementally updated network needs only this: it never has to look at the board.

use crate::{Color, Piece, Square};
use thiserror::Error;

/// A piece with its colour and its square.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placed {
    /// Kind of the piece.
    pub piece: Piece,
    /// Colour of the piece.
    pub color: Color,
    /// Square on which the piece stands.
    pub square: Square,
}

/// Pieces that a move takes off the board and puts on it, for evaluators that update their sums move by move.
///
/// A quiet move removes one piece and adds one; a capture removes two and adds one; castling removes two and
/// adds two; a promotion removes a pawn and adds the new piece; a null move changes nothing. The moving piece
/// always comes first in both lists.
#[derive(Clone, Copy, Debug)]
pub struct Changes {
    removed: [Placed; 2],
    added: [Placed; 2],
    removed_len: u8,
    added_len: u8,
}

/// Error for lists of removed and added pieces that no single move can cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadChanges {
    /// More than two pieces removed or added.
    #[error("{0} pieces removed or added; a move changes two at most")]
    TooMany(usize),
    /// Two pieces on one square of the same list.
    #[error("{0} stands twice among the pieces removed or added")]
    Twice(Square),
}

const NOTHING: Placed = Placed { piece: Piece::Pawn, color: Color::White, square: Square::A1 };

impl Changes {
    /// No pieces removed or added: the changes of a null move (a pass), and of a position that was set up
    /// rather than reached.
    pub const NONE: Self = Self { removed: [NOTHING; 2], added: [NOTHING; 2], removed_len: 0, added_len: 0 };

    /// The changes of a move, for programs with a board of their own: up to two pieces removed and two added,
    /// the moving piece first in both.
    ///
    /// # Errors
    ///
    /// Fails if there are more than two pieces in a list, or two on the same square.
    pub fn new(removed: &[Placed], added: &[Placed]) -> Result<Self, BadChanges> {
        let mut changes = Self::NONE;
        for (list, kept) in [(removed, &mut changes.removed), (added, &mut changes.added)] {
            kept.get_mut(..list.len()).ok_or(BadChanges::TooMany(list.len()))?.copy_from_slice(list);
            if let [first, second] = list
                && first.square == second.square
            {
                return Err(BadChanges::Twice(first.square));
            }
        }
        (changes.removed_len, changes.added_len) = (removed.len() as u8, added.len() as u8);
        Ok(changes)
    }

    pub(crate) fn moved(from: Placed, to: Placed) -> Self {
        Self { removed: [from, NOTHING], added: [to, NOTHING], removed_len: 1, added_len: 1 }
    }

    pub(crate) fn capturing(mut self, victim: Placed) -> Self {
        self.removed[1] = victim;
        self.removed_len = 2;
        self
    }

    pub(crate) fn castling(king: [Placed; 2], rook: [Placed; 2]) -> Self {
        Self { removed: [king[0], rook[0]], added: [king[1], rook[1]], removed_len: 2, added_len: 2 }
    }

    /// Pieces taken off the board, the moving piece first.
    #[inline]
    pub fn removed(&self) -> &[Placed] {
        &self.removed[..usize::from(self.removed_len)]
    }

    /// Pieces put on the board, the moving piece first.
    #[inline]
    pub fn added(&self) -> &[Placed] {
        &self.added[..usize::from(self.added_len)]
    }

    /// The opponent's piece that was captured; `None` for quiet moves and castling.
    #[inline]
    pub fn captured(&self) -> Option<Placed> {
        (self.removed_len == 2 && self.added_len == 1).then_some(self.removed[1])
    }
}

impl PartialEq for Changes {
    fn eq(&self, other: &Self) -> bool {
        self.removed() == other.removed() && self.added() == other.added()
    }
}

impl Eq for Changes {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Position, uci};

    #[test]
    fn changes_made_by_others_are_those_of_the_position() {
        let mut position = Position::startpos();
        position.play(uci::parse(position.board(), "e2e4").unwrap());
        let pawn = |square| Placed { piece: Piece::Pawn, color: Color::White, square };
        let made = Changes::new(&[pawn(Square::E2)], &[pawn(Square::E4)]).unwrap();
        assert_eq!(&made, position.changes());
        assert_eq!(Changes::new(&[], &[]), Ok(Changes::NONE));
        assert_eq!(Changes::new(&[pawn(Square::E2); 3], &[]), Err(BadChanges::TooMany(3)));
        assert_eq!(Changes::new(&[], &[pawn(Square::E2); 2]), Err(BadChanges::Twice(Square::E2)));
    }
}
