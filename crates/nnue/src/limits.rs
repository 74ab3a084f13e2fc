//! Limits on weights that guarantee that no sum overflows.
//!
//! They are checked once, when a network is loaded or quantised, so that the kernels can use narrow integers
//! without checks.

use crate::first_layer::FirstLayer;
use crate::inputs::Inputs;
use thiserror::Error;

/// Weights with which the sums of some position could overflow, as a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct OverflowError(String);

/// Maximum magnitude of a bias in a dense layer. Sums of products in a dense layer stay below 2^29 (twice
/// 16,384 inputs of at most 127, weights of at most 128), so they fit with such a bias, and so does the skip
/// connection's rescaled sum.
const LIMIT: u32 = 1 << 23;

/// Maximum sum of one side's piece-square values. Twice that also stays below 2^29.
const PSQT_SUM: u32 = 1 << 28;

/// Refuses biases that could overflow together with the sums they are added to.
pub(crate) fn check_bias(bias: &[i32]) -> Result<(), OverflowError> {
    check(bias, "bias", LIMIT)
}

/// Refuses piece-square values of which `active` could overflow when added.
pub(crate) fn check_psqt(psqt: &[i32], active: usize) -> Result<(), OverflowError> {
    check(psqt, "piece square", PSQT_SUM / u32::try_from(active.max(1)).unwrap_or(u32::MAX))
}

fn check(numbers: &[i32], what: &str, limit: u32) -> Result<(), OverflowError> {
    match numbers.iter().find(|number| number.unsigned_abs() > limit) {
        None => Ok(()),
        Some(number) => Err(OverflowError(format!("a {what} of {number} could overflow"))),
    }
}

/// Refuses a first layer whose accumulators could leave 16 bits. For each group of inputs (in chess, each
/// king bucket) and each output, it adds the bias and the largest weights of as many inputs as can be active.
pub(crate) fn check_accumulators<I: Inputs>(features: &I, first: &FirstLayer) -> Result<(), OverflowError> {
    let rows = features.stride();
    let active = features.max_active();
    for bucket in 0..features.num_inputs() / rows.max(1) {
        let weights = &first.weights[bucket * rows * first.width..][..rows * first.width];
        // A cheap bound first; only the columns that it does not clear are examined closely.
        let mut greatest = vec![0u16; first.width];
        for row in weights.chunks_exact(first.width) {
            for (most, weight) in greatest.iter_mut().zip(row) {
                *most = (*most).max(weight.unsigned_abs());
            }
        }
        for (column, &most) in greatest.iter().enumerate() {
            let bias = i64::from(first.bias[column]).abs();
            if bias + i64::from(most) * active as i64 > i64::from(i16::MAX) {
                let sum = match features.may_repeat() {
                    true => i64::from(most) * active as i64,
                    false => greatest_sum(weights, first.width, column, active),
                };
                let sum = bias + sum;
                if sum > i64::from(i16::MAX) {
                    return Err(OverflowError(format!(
                        "value {column} could reach {sum} with inputs of group {bucket}: it would overflow"
                    )));
                }
            }
        }
    }
    Ok(())
}

/// The largest magnitude of a sum of `count` weights of one column, positive or negative.
fn greatest_sum(weights: &[i16], width: usize, column: usize, count: usize) -> i64 {
    let mut values: Vec<i16> = weights.iter().skip(column).step_by(width).copied().collect();
    values.sort_unstable();
    let down: i64 = values.iter().take(count).map(|&value| i64::from(value.min(0))).sum();
    let up: i64 = values.iter().rev().take(count).map(|&value| i64::from(value.max(0))).sum();
    up.max(-down)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::FeatureSet;
    use crate::test_nets;

    #[test]
    fn accumulators_are_bounded_by_the_largest_sum() {
        let mut network = test_nets::flat(FeatureSet::plain(), 32, 1);
        assert!(check_accumulators(&network.features, &network.first).is_ok());
        for row in 0..40 {
            network.first.weights[row * 32 + 5] = 1500;
        }
        let error = check_accumulators(&network.features, &network.first).unwrap_err();
        assert!(error.to_string().starts_with("value 5 could reach"), "{error}");
        // Equally large weights, but fewer than needed for an overflow.
        for row in 20..40 {
            network.first.weights[row * 32 + 5] = 0;
        }
        assert!(check_accumulators(&network.features, &network.first).is_ok());
    }

    #[test]
    fn large_biases_are_refused() {
        assert!(check_bias(&[1 << 23, -(1 << 23)]).is_ok());
        assert!(check_bias(&[0, i32::MIN]).is_err());
        assert!(check_psqt(&[1 << 23], 32).is_ok() && check_psqt(&[(1 << 23) + 1], 32).is_err());
        assert!(check_psqt(&[1 << 23], 33).is_err());
    }

    /// Inputs that may be active several times at once.
    #[derive(Clone, Debug, PartialEq)]
    struct Coins;

    impl Inputs for Coins {
        const SIDES: usize = 1;

        fn name(&self) -> &str {
            "coins"
        }

        fn num_inputs(&self) -> usize {
            40
        }

        fn max_active(&self) -> usize {
            30
        }

        fn may_repeat(&self) -> bool {
            true
        }
    }

    /// A single large weight is enough, because its input may count up to `max_active` times.
    #[test]
    fn repeated_inputs_are_bounded_by_their_maximum_count() {
        let mut first = test_nets::flat(FeatureSet::plain(), 32, 1).first;
        first.bias.fill(0);
        first.weights.fill(0);
        first.weights[5 * 32 + 7] = 1092;
        assert!(check_accumulators(&Coins, &first).is_ok());
        first.weights[5 * 32 + 7] = 1093;
        assert!(check_accumulators(&Coins, &first).unwrap_err().to_string().contains("value 7"));
    }
}
