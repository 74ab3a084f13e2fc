//! Evaluations in the form in which UCI engines report them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Evaluation for the side to move, as an engine reports it by `score cp` or `score mate` of UCI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UciScore {
    /// Hundredths of a pawn; engines differ in what they call a pawn.
    Cp(i32),
    /// Mate in `n` moves of the winner: positive if the side to move mates, negative if it is mated, zero if
    /// it is checkmated already.
    Mate(i32),
}

impl UciScore {
    /// A number that sorts evaluations: centipawns limited to ±50,000, and mates as ±100,000 less the number
    /// of moves, so that they lie beyond all others and shorter ones further out.
    pub fn centipawns(self) -> i32 {
        const MATE: i32 = 100_000;
        match self {
            Self::Cp(value) => value.clamp(-MATE / 2, MATE / 2),
            Self::Mate(moves) if moves > 0 => MATE - moves.min(MATE / 2),
            Self::Mate(moves) => -MATE - moves.max(-MATE / 2),
        }
    }

    /// The same evaluation for the opponent: the number with its sign changed.
    pub fn flipped(self) -> Self {
        match self {
            Self::Cp(value) => Self::Cp(value.saturating_neg()),
            Self::Mate(moves) => Self::Mate(moves.saturating_neg()),
        }
    }
}

/// `0.35`, `-1.20`, `#5` or `#-3`: the form of `%eval` comments in PGN.
impl fmt::Display for UciScore {
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
        let order = [
            UciScore::Mate(-1),
            UciScore::Mate(-9),
            UciScore::Cp(i32::MIN),
            UciScore::Cp(-1),
            UciScore::Cp(30_000),
        ];
        let order = order.into_iter().chain([UciScore::Mate(30), UciScore::Mate(2)]);
        let values: Vec<i32> = order.map(UciScore::centipawns).collect();
        assert!(values.is_sorted_by(|a, b| a < b), "{values:?}");
    }

    #[test]
    fn text_has_the_form_of_pgn() {
        assert_eq!(UciScore::Cp(-120).to_string(), "-1.20");
        assert_eq!(UciScore::Cp(5).to_string(), "0.05");
        assert_eq!(UciScore::Mate(-3).to_string(), "#-3");
    }
}
