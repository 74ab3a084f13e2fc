//! The search's internal scale of values, and the score reported outside.

use std::fmt;

/// A value inside the search: centipawns for the side to move, with mates and table results at both ends of
/// the scale.
pub(crate) type Value = i32;

/// Maximum ply: the longest line that the search follows from the root.
pub(crate) const MAX_PLY: usize = 246;

pub(crate) const DRAW: Value = 0;
/// Mate on the board; a mate in `n` plies is `MATE - n`.
pub(crate) const MATE: Value = 32_000;
pub(crate) const INFINITE: Value = 32_001;
/// Marks an unknown value; beyond all others.
pub(crate) const NONE: Value = 32_002;
/// Values from here on are forced mates.
pub(crate) const MATE_BOUND: Value = MATE - MAX_PLY as Value;
/// A win by the endgame tables found at the root; `TB_WIN - n` if found `n` plies later.
pub(crate) const TB_WIN: Value = MATE_BOUND - 1;
/// Values from here on are proven wins: mates or table wins.
pub(crate) const PROVEN: Value = TB_WIN - MAX_PLY as Value;
/// Centipawns reported for a table win, less the plies until the tables are reached.
const SHOWN_TB_WIN: i32 = 20_000;
/// Bound of evaluations, so that they never look like a proven result.
pub(crate) const MAX_EVAL: Value = PROVEN - 1;

/// Value of being mated at `ply`.
#[inline]
pub(crate) fn mated_in(ply: usize) -> Value {
    ply as Value - MATE
}

/// Value of mating at `ply`.
#[inline]
pub(crate) fn mate_in(ply: usize) -> Value {
    MATE - ply as Value
}

/// True for a proven win or loss, false for an estimate.
#[inline]
pub(crate) fn is_proven(value: Value) -> bool {
    value.abs() >= PROVEN
}

#[inline]
pub(crate) fn is_win(value: Value) -> bool {
    value >= PROVEN
}

#[inline]
pub(crate) fn is_loss(value: Value) -> bool {
    value <= -PROVEN
}

/// An evaluation in hundredths of a pawn, positive if the side to move is better, unless documented
/// otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Centipawns(pub i32);

/// Result of a search, as the score of a position for the side to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// An estimate in centipawns, or a win or loss that the endgame tables prove: ±20,000 less the plies
    /// until they are reached.
    Centipawns(Centipawns),
    /// A forced mate in this many moves; negative if the side to move is mated, 0 if it is mated already.
    Mate(i32),
}

impl Score {
    pub(crate) fn from_value(value: Value) -> Self {
        if value >= MATE_BOUND {
            Self::Mate((MATE - value + 1) / 2)
        } else if value <= -MATE_BOUND {
            Self::Mate(-(MATE + value) / 2)
        } else if is_proven(value) {
            // Won or lost by the endgame tables, which are reached after this number of plies: beyond every
            // estimate.
            let plies = TB_WIN - value.abs();
            Self::Centipawns(Centipawns((SHOWN_TB_WIN - plies) * value.signum()))
        } else {
            Self::Centipawns(Centipawns(value))
        }
    }

    /// An integer that sorts scores: centipawns as they are, mates beyond every number of centipawns, and
    /// shorter mates beyond longer ones.
    pub fn sort_key(self) -> i32 {
        match self {
            Self::Centipawns(Centipawns(value)) => value,
            Self::Mate(moves) if moves > 0 => MATE - moves,
            Self::Mate(moves) => -MATE - moves,
        }
    }
}

/// Written as in UCI: `cp 13` or `mate -3`.
impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Centipawns(Centipawns(value)) => write!(f, "cp {value}"),
            Self::Mate(moves) => write!(f, "mate {moves}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mates_are_counted_in_moves() {
        assert_eq!(Score::from_value(mate_in(1)), Score::Mate(1));
        assert_eq!(Score::from_value(mate_in(3)), Score::Mate(2));
        assert_eq!(Score::from_value(mated_in(0)), Score::Mate(0));
        assert_eq!(Score::from_value(mated_in(2)), Score::Mate(-1));
        assert_eq!(Score::from_value(mated_in(4)), Score::Mate(-2));
        assert_eq!(Score::from_value(TB_WIN), Score::Centipawns(Centipawns(SHOWN_TB_WIN)));
    }

    #[test]
    fn sort_keys_keep_the_order() {
        let rising = [
            Score::Mate(-1),
            Score::Mate(-5),
            Score::Centipawns(Centipawns(-900)),
            Score::Centipawns(Centipawns(0)),
            Score::Mate(5),
            Score::Mate(1),
        ];
        assert!(rising.windows(2).all(|pair| pair[0].sort_key() < pair[1].sort_key()));
    }
}
