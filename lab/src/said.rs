//! What a transformer said of a batch of samples, sample by sample.

use tandem_train::transformer::Answers;
use tandem_transformer::Prospect;
use tandem_transformer::encoding::buckets::Buckets;

/// The numbers of a sample among those of all; none where a head is missing.
pub(crate) fn row_of(numbers: &[f32], samples: usize, row: usize) -> &[f32] {
    let each = numbers.len() / samples.max(1);
    &numbers[each * row..][..each]
}

/// The chance to win in a position, a draw counting half, of networks that say it of positions.
pub(crate) fn chance_of(answers: &Answers<'_>, samples: usize, row: usize) -> Option<f64> {
    let wdl = <[f32; 3]>::try_from(row_of(answers.value.wdl, samples, row)).ok();
    wdl.map(|wdl| Prospect::of_outcomes(wdl).chance())
        .or_else(|| of_buckets(row_of(answers.state_value, samples, row)))
}

/// The chance to win after the move that was read, of networks that read one.
pub(crate) fn chance_after_move(answers: &Answers<'_>, samples: usize, row: usize) -> Option<f64> {
    of_buckets(row_of(answers.action_value, samples, row))
}

fn of_buckets(logits: &[f32]) -> Option<f64> {
    Buckets::new(logits.len()).map(|buckets| buckets.chance(logits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_train::transformer::ValueAnswers;

    #[test]
    fn each_sample_has_its_own_numbers() {
        let wdl = [0.0, 0.0, 0.0, 50.0, 0.0, 0.0];
        let value = ValueAnswers { wdl: &wdl, ..ValueAnswers::default() };
        let answers = Answers { value, action_value: &[0.0, 50.0, 50.0, 0.0], ..Answers::default() };
        let near = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-6;
        assert!(near(chance_of(&answers, 2, 0), 0.5) && near(chance_of(&answers, 2, 1), 1.0));
        assert!(near(chance_after_move(&answers, 2, 0), 0.75));
        assert!(near(chance_after_move(&answers, 2, 1), 0.25));
        assert_eq!(chance_of(&Answers::default(), 2, 1), None);
        assert_eq!(chance_after_move(&Answers::default(), 0, 0), None);
    }
}
