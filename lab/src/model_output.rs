//! Reading single samples out of the batched output of a transformer.
//!
//! The output of a head is one flat slice for the whole batch; the functions here find the part of one sample
//! and turn it into a win probability.

use tandem_train::transformer::HeadOutputs;
use tandem_transformer::ValueEstimate;
use tandem_transformer::encoding::buckets::Buckets;

/// The values of one sample (`row`) within the output of a head for `samples` samples; empty if the network
/// lacks the head.
pub(crate) fn sample_values(values: &[f32], samples: usize, row: usize) -> &[f32] {
    let each = values.len() / samples.max(1);
    &values[each * row..][..each]
}

/// The win probability of a position, from 0 to 1, with a draw counting one half; `None` if the network has
/// no head for the value of positions. The WDL head is preferred to value buckets.
pub(crate) fn win_probability(outputs: &HeadOutputs<'_>, samples: usize, row: usize) -> Option<f64> {
    let wdl = <[f32; 3]>::try_from(sample_values(outputs.value.wdl, samples, row)).ok();
    wdl.map(|wdl| ValueEstimate::from_wdl_logits(wdl).win_probability())
        .or_else(|| from_buckets(sample_values(outputs.state_value, samples, row)))
}

/// The win probability after the move that the sample contains; `None` for networks without an action-value
/// head.
pub(crate) fn win_probability_after_move(
    outputs: &HeadOutputs<'_>,
    samples: usize,
    row: usize,
) -> Option<f64> {
    from_buckets(sample_values(outputs.action_value, samples, row))
}

fn from_buckets(logits: &[f32]) -> Option<f64> {
    Buckets::new(logits.len()).map(|buckets| buckets.win_probability(logits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_train::transformer::ValueHeadOutputs;

    #[test]
    fn each_sample_has_its_own_values() {
        let wdl = [0.0, 0.0, 0.0, 50.0, 0.0, 0.0];
        let value = ValueHeadOutputs { wdl: &wdl, ..ValueHeadOutputs::default() };
        let outputs = HeadOutputs { value, action_value: &[0.0, 50.0, 50.0, 0.0], ..HeadOutputs::default() };
        let near = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-6;
        assert!(near(win_probability(&outputs, 2, 0), 0.5) && near(win_probability(&outputs, 2, 1), 1.0));
        assert!(near(win_probability_after_move(&outputs, 2, 0), 0.75));
        assert!(near(win_probability_after_move(&outputs, 2, 1), 0.25));
        assert_eq!(win_probability(&HeadOutputs::default(), 2, 1), None);
        assert_eq!(win_probability_after_move(&HeadOutputs::default(), 0, 0), None);
    }
}
