//! How wrong a network is about a position, and which way is better.

use serde::{Deserialize, Serialize};
use tandem_data::Record;

/// What is compared, and how.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Loss {
    /// Chances to win: the difference to some power.
    Power {
        /// 2 for the square; leading engines use 2.5.
        #[serde(default = "two")]
        power: f64,
    },
    /// Chances to win: what it costs in surprise. The slope does not fade where the network is sure and wrong.
    CrossEntropy,
    /// Scores as they are, in units of the scale: the square of the difference.
    Score,
}

fn two() -> f64 {
    2.0
}

impl Default for Loss {
    fn default() -> Self {
        Self::Power { power: 2.0 }
    }
}

/// What the network should say of a position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The score in units of the scale.
    pub score: f32,
    /// The chance to win: the score's and the result's, by the share of the result.
    pub chance: f32,
}

/// Scores beyond this are all the same to a loss that compares them as they are: a mate is no 320 pawns.
const MOST_CENTIPAWNS: f64 = 3000.0;

/// The chance to win that a score in units of the scale stands for.
pub fn sigmoid(value: f64) -> f64 {
    1.0 / (1.0 + (-value).exp())
}

impl Target {
    /// For a record: `scale` centipawns are one, and `result_share` is the share of the game's result. What a record lacks
    /// counts as nothing and as a draw.
    pub fn new(record: &Record, scale: f64, result_share: f64) -> Self {
        let score = record.score.map_or(0.0, |score| f64::from(score.centipawns()));
        let points = record.result.map_or(0.5, |result| f64::from(result.points()));
        let chance = (1.0 - result_share) * sigmoid(score / scale) + result_share * points;
        let held = score.clamp(-MOST_CENTIPAWNS, MOST_CENTIPAWNS) / scale;
        Self { score: held as f32, chance: chance as f32 }
    }

    /// The same, if the record has what it takes.
    pub fn known(record: &Record, scale: f64, result_share: f64) -> Option<Self> {
        let scored = record.score.is_some() || result_share >= 1.0;
        let ended = record.result.is_some() || result_share <= 0.0;
        (scored && ended).then(|| Self::new(record, scale, result_share))
    }
}

impl Loss {
    /// The loss for an output, in units of the scale, and its slope by the output.
    pub fn of(self, output: f64, target: Target) -> (f64, f64) {
        let (wanted, wanted_chance) = (f64::from(target.score), f64::from(target.chance));
        match self {
            Self::Power { power } => {
                let chance = sigmoid(output);
                let error = chance - wanted_chance;
                let size = error.abs();
                let by_chance = power * size.powf(power - 1.0) * error.signum();
                (size.powf(power), if size == 0.0 { 0.0 } else { by_chance * chance * (1.0 - chance) })
            }
            Self::CrossEntropy => {
                // ln(1 + e^x) without overflow.
                let soft = output.max(0.0) + (-output.abs()).exp().ln_1p();
                (soft - wanted_chance * output, sigmoid(output) - wanted_chance)
            }
            Self::Score => {
                let error = output - wanted;
                (error * error, 2.0 * error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_finite_differences() {
        const STEP: f64 = 1e-6;
        for loss in [
            Loss::Power { power: 2.0 },
            Loss::Power { power: 2.5 },
            Loss::Power { power: 1.5 },
            Loss::CrossEntropy,
            Loss::Score,
        ] {
            for output in [-6.0, -1.3, 0.01, 0.7, 5.0] {
                for score in [-3.0, 0.2, 2.0] {
                    let target = Target { score: score as f32, chance: (sigmoid(score) * 0.7 + 0.3) as f32 };
                    let (_, slope) = loss.of(output, target);
                    let difference = loss.of(output + STEP, target).0 - loss.of(output - STEP, target).0;
                    let measured = difference / (2.0 * STEP);
                    assert!(
                        (slope - measured).abs() < 1e-6 * measured.abs().max(1.0),
                        "{loss:?} {slope} {measured}"
                    );
                }
            }
        }
    }

    #[test]
    fn nothing_is_lost_where_the_network_is_right() {
        let output = f64::from(0.8f32);
        let target = Target { score: 0.8, chance: sigmoid(output) as f32 };
        for loss in [Loss::Power { power: 2.0 }, Loss::Power { power: 2.5 }, Loss::Score] {
            let (value, slope) = loss.of(output, target);
            assert!(value < 1e-12 && slope.abs() < 1e-7, "{loss:?} {value} {slope}");
        }
        let (_, slope) = Loss::CrossEntropy.of(output, target);
        assert!(slope.abs() < 1e-7);
        for output in [-1e6, 1e6] {
            for loss in [Loss::Power { power: 2.5 }, Loss::CrossEntropy, Loss::Score] {
                let (value, slope) = loss.of(output, target);
                assert!(value.is_finite() && slope.is_finite(), "{loss:?}");
            }
        }
    }
}
