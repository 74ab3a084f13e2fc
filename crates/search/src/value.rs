//! The search's own scale of values, and the score that it shows the world.

use std::fmt;

/// A value inside the search: centipawns for the side to move, with mates and table results at the far ends.
pub(crate) type Value = i32;

/// Longest line the search follows from the root.
pub(crate) const MAX_PLY: usize = 246;

pub(crate) const DRAW: Value = 0;
/// Mate on the board; mate in n plies is `MATE - n`.
pub(crate) const MATE: Value = 32_000;
pub(crate) const INFINITE: Value = 32_001;
/// No value is known.
pub(crate) const NONE: Value = 32_002;
/// Every value beyond this is a forced mate.
pub(crate) const MATE_BOUND: Value = MATE - MAX_PLY as Value;
/// A win in the tables, found at the root; `TB_WIN - n` if found n plies later.
pub(crate) const TB_WIN: Value = MATE_BOUND - 1;
/// Every value beyond this is a proven win: a mate or a win in the tables.
pub(crate) const PROVEN: Value = TB_WIN - MAX_PLY as Value;
/// What a win in the tables looks like from outside.
const SHOWN_TB_WIN: i32 = 20_000;
/// Evaluations stay within this, clear of everything proven.
pub(crate) const MAX_EVAL: Value = PROVEN - 1;

/// Mated at `ply`.
#[inline]
pub(crate) fn mated_in(ply: usize) -> Value {
    ply as Value - MATE
}

/// Mating at `ply`.
#[inline]
pub(crate) fn mate_in(ply: usize) -> Value {
    MATE - ply as Value
}

/// Whether a value is a proven win or loss rather than an estimate.
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

/// A number of centipawns, for the side to move unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Centipawns(pub i32);

/// What the search says a position is worth, for the side to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// An estimate.
    Centipawns(Centipawns),
    /// A forced mate in so many moves; negative if the side to move is the one mated.
    Mate(i32),
}

impl Score {
    pub(crate) fn from_value(value: Value) -> Self {
        if value >= MATE_BOUND {
            Self::Mate((MATE - value + 1) / 2)
        } else if value <= -MATE_BOUND {
            Self::Mate(-(MATE + value) / 2)
        } else if is_proven(value) {
            // Won or lost by the endgame tables, so many plies from here: beyond every estimate.
            let plies = TB_WIN - value.abs();
            Self::Centipawns(Centipawns((SHOWN_TB_WIN - plies) * value.signum()))
        } else {
            Self::Centipawns(Centipawns(value))
        }
    }

    /// The score as one number that sorts rightly: mates lie beyond every number of centipawns.
    pub fn sort_key(self) -> i32 {
        match self {
            Self::Centipawns(Centipawns(value)) => value,
            Self::Mate(moves) if moves > 0 => MATE - moves,
            Self::Mate(moves) => -MATE - moves,
        }
    }
}

/// As UCI writes it: `cp 13` or `mate -3`.
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
