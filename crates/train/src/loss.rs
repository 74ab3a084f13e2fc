//! Loss functions of NNUE training with their gradients, and the targets that they compare outputs with.

use crate::kinds::{kinds, table_field};
use tandem_data::Record;

kinds! {
    /// A loss function; the key `kind` of a recipe names it.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub enum Loss {
        /// Absolute difference between predicted and target win probability, raised to a power.
        Power = "power" {
            /// Exponent; default 2, the mean squared error. Several engines use about 2.5, so that large
            /// errors count more.
            power: f64 = 2.0,
        },
        /// Cross-entropy of win probabilities. Its gradient does not vanish if the network is confident and
        /// wrong, unlike that of powers.
        CrossEntropy = "cross-entropy",
        /// Squared difference of scores, in units of the target's scale, without a sigmoid.
        Score = "score",
    }
}

table_field!(Loss);

impl Default for Loss {
    fn default() -> Self {
        Self::Power { power: 2.0 }
    }
}

/// Training target of a position, seen by the side to move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Score of the record, limited to ±30 pawns and divided by the recipe's scale, so that its [`sigmoid`]
    /// is a win probability.
    pub score: f32,
    /// Win probability from 0 to 1: a weighted mean of the score's and the game result's, by the recipe's
    /// weight of the result.
    pub win_probability: f32,
}

/// Clamp of scores in centipawns, because a mate must not outweigh everything else if scores are compared
/// directly.
const MAX_CENTIPAWNS: f64 = 3000.0;

/// Win probability of a score in units of the target's scale: 1 / (1 + e^-x).
pub fn sigmoid(value: f64) -> f64 {
    1.0 / (1.0 + (-value).exp())
}

impl Target {
    /// Target of a record: `scale` centipawns are 1.0, and `wdl` is the weight of the game result. A missing
    /// score counts as zero, a missing result as a draw. nnue-pytorch's `lambda` is 1 − `wdl`.
    pub fn new(record: &Record, scale: f64, wdl: f64) -> Self {
        let score = record.score.map_or(0.0, |score| f64::from(score.centipawns()));
        let points = record.result.map_or(0.5, |result| f64::from(result.points()));
        let probability = (1.0 - wdl) * sigmoid(score / scale) + wdl * points;
        let clamped = score.clamp(-MAX_CENTIPAWNS, MAX_CENTIPAWNS) / scale;
        Self { score: clamped as f32, win_probability: probability as f32 }
    }

    /// Target of a record, or `None` if it lacks a field that has a weight above zero.
    pub fn known(record: &Record, scale: f64, wdl: f64) -> Option<Self> {
        let has_score = record.score.is_some() || wdl >= 1.0;
        let has_result = record.result.is_some() || wdl <= 0.0;
        (has_score && has_result).then(|| Self::new(record, scale, wdl))
    }
}

impl Loss {
    /// Loss of a network's output against a target, and its derivative with respect to that output. The
    /// output is a score divided by the recipe's scale, like [`Target::score`].
    pub fn value_and_grad(self, output: f64, target: Target) -> (f64, f64) {
        let (target_score, target_probability) = (f64::from(target.score), f64::from(target.win_probability));
        match self {
            Self::Power { power } => {
                let probability = sigmoid(output);
                let error = probability - target_probability;
                let size = error.abs();
                let by_probability = power * size.powf(power - 1.0) * error.signum();
                (
                    size.powf(power),
                    if size == 0.0 { 0.0 } else { by_probability * probability * (1.0 - probability) },
                )
            }
            Self::CrossEntropy => {
                // ln(1 + e^x) without overflow.
                let soft = output.max(0.0) + (-output.abs()).exp().ln_1p();
                (soft - target_probability * output, sigmoid(output) - target_probability)
            }
            Self::Score => {
                let error = output - target_score;
                (error * error, 2.0 * error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_match_finite_differences() {
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
                    let target =
                        Target { score: score as f32, win_probability: (sigmoid(score) * 0.7 + 0.3) as f32 };
                    let (_, grad) = loss.value_and_grad(output, target);
                    let difference = loss.value_and_grad(output + STEP, target).0
                        - loss.value_and_grad(output - STEP, target).0;
                    let measured = difference / (2.0 * STEP);
                    assert!(
                        (grad - measured).abs() < 1e-6 * measured.abs().max(1.0),
                        "{loss:?} {grad} {measured}"
                    );
                }
            }
        }
    }

    #[test]
    fn loss_and_gradient_vanish_at_the_target() {
        let output = f64::from(0.8f32);
        let target = Target { score: 0.8, win_probability: sigmoid(output) as f32 };
        for loss in [Loss::Power { power: 2.0 }, Loss::Power { power: 2.5 }, Loss::Score] {
            let (value, grad) = loss.value_and_grad(output, target);
            assert!(value < 1e-12 && grad.abs() < 1e-7, "{loss:?} {value} {grad}");
        }
        let (_, grad) = Loss::CrossEntropy.value_and_grad(output, target);
        assert!(grad.abs() < 1e-7);
        for output in [-1e6, 1e6] {
            for loss in [Loss::Power { power: 2.5 }, Loss::CrossEntropy, Loss::Score] {
                let (value, grad) = loss.value_and_grad(output, target);
                assert!(value.is_finite() && grad.is_finite(), "{loss:?}");
            }
        }
    }
}
