//! Moves in sixteen bits, for transposition tables and data sets.

use crate::{Move, Piece, Square};

/// A move in sixteen bits: from (6), to (6), promotion (3). Castling is the king taking its own rook, as in
/// [`Move`]. Zero, which no move packs to, stands for "no move".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PackedMove(u16);

impl PackedMove {
    /// The value that stands for the absence of a move.
    pub const NONE: Self = Self(0);

    /// Packs a move into sixteen bits; `None` becomes [`Self::NONE`].
    #[inline]
    pub fn new(mv: Option<Move>) -> Self {
        match mv {
            Some(mv) => {
                let promotion = mv.promotion.map_or(0, |piece| piece as u16);
                Self(mv.from as u16 | (mv.to as u16) << 6 | promotion << 12)
            }
            None => Self::NONE,
        }
    }

    /// The sixteen bits of the move, for storing them elsewhere.
    #[inline]
    pub fn bits(self) -> u16 {
        self.0
    }

    /// A packed move from stored bits, which may be arbitrary.
    #[inline]
    pub fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Unpacks the move, without checking that it is legal; `None` for [`Self::NONE`].
    #[inline]
    pub fn unpack(self) -> Option<Move> {
        if self.0 & 0xFFF == 0 {
            return None;
        }
        let promotion = match (self.0 >> 12) & 7 {
            1 => Some(Piece::Knight),
            2 => Some(Piece::Bishop),
            3 => Some(Piece::Rook),
            4 => Some(Piece::Queen),
            _ => None,
        };
        Some(Move {
            from: Square::index(usize::from(self.0 & 63)),
            to: Square::index(usize::from((self.0 >> 6) & 63)),
            promotion,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_move_survives() {
        for from in Square::ALL {
            for to in Square::ALL {
                for promotion in
                    [None, Some(Piece::Knight), Some(Piece::Bishop), Some(Piece::Rook), Some(Piece::Queen)]
                {
                    let mv = Move { from, to, promotion };
                    if from != to {
                        assert_eq!(PackedMove::new(Some(mv)).unpack(), Some(mv));
                    }
                }
            }
        }
        assert_eq!(PackedMove::NONE.unpack(), None);
    }
}
