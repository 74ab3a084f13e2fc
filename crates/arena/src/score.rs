//! Evaluations as engines report them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An evaluation from the side to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Score {
    /// Hundredths of a pawn.
    Cp(i32),
    /// Mate in so many moves of the winner; negative when the side to move is mated, and zero when it is mated now.
    Mate(i32),
}

impl Score {
    /// One number for comparisons: mates lie beyond every evaluation.
    pub fn centipawns(self) -> i32 {
        const MATE: i32 = 100_000;
        match self {
            Self::Cp(value) => value.clamp(-MATE / 2, MATE / 2),
            Self::Mate(moves) if moves > 0 => MATE - moves.min(MATE / 2),
            Self::Mate(moves) => -MATE - moves.max(-MATE / 2),
        }
    }

    /// The same evaluation from the other side.
    pub fn turned(self) -> Self {
        match self {
            Self::Cp(value) => Self::Cp(value.saturating_neg()),
            Self::Mate(moves) => Self::Mate(moves.saturating_neg()),
        }
    }
}

/// `0.35`, `-1.20`, `#5`, `#-3`: the form of PGN's `%eval`.
impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match *self {
            Self::Cp(value) => write!(f, "{:.2}", f64::from(value) / 100.0),
            Self::Mate(moves) => write!(f, "#{moves}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mates_lie_beyond_every_evaluation() {
        let order = [Score::Mate(-1), Score::Mate(-9), Score::Cp(i32::MIN), Score::Cp(-1), Score::Cp(30_000)];
        let order = order.into_iter().chain([Score::Mate(30), Score::Mate(2)]);
        let values: Vec<i32> = order.map(Score::centipawns).collect();
        assert!(values.is_sorted_by(|a, b| a < b), "{values:?}");
    }

    #[test]
    fn text_is_that_of_pgn() {
        assert_eq!(Score::Cp(-120).to_string(), "-1.20");
        assert_eq!(Score::Cp(5).to_string(), "0.05");
        assert_eq!(Score::Mate(-3).to_string(), "#-3");
    }
}
