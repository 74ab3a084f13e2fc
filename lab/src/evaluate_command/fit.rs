//! The factor on a network's centipawns that makes its loss least.

use tandem_train::{Loss, Target};

/// What a network said of a position, and what it should have said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) centipawns: f64,
    pub(super) target: Target,
}

/// The best factor, and the loss with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    pub(super) factor: f64,
    pub(super) loss: f64,
}

/// The factor is looked for from 1/16 to 16.
const WIDEST: f64 = 16.0;
/// Each step leaves 0.618 of the range: so many leave less than one part in a million.
const STEPS: usize = 32;

impl Fit {
    /// For these answers; none if there are none.
    pub(super) fn of(answers: &[Answer], scale: f64) -> Option<Self> {
        if answers.is_empty() {
            return None;
        }
        // Over the logarithm, so that twice and half are equally far from one.
        let loss = |log_factor: f64| {
            let factor = log_factor.exp() / scale;
            let losses =
                answers.iter().map(|answer| Loss::default().of(answer.centipawns * factor, answer.target).0);
            losses.sum::<f64>() / answers.len() as f64
        };
        let (log_factor, loss) = golden_section(loss, -WIDEST.ln(), WIDEST.ln());
        Some(Self { factor: log_factor.exp(), loss })
    }
}

/// The place in a range where a function is least, and its value there; right for functions that fall and then rise.
fn golden_section(function: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> (f64, f64) {
    let ratio = (5f64.sqrt() - 1.0) / 2.0;
    let mut left = (high - ratio * (high - low), 0.0);
    let mut right = (low + ratio * (high - low), 0.0);
    left.1 = function(left.0);
    right.1 = function(right.0);
    for _ in 0..STEPS {
        if left.1 < right.1 {
            high = right.0;
            right = left;
            let place = high - ratio * (high - low);
            left = (place, function(place));
        } else {
            low = left.0;
            left = right;
            let place = low + ratio * (high - low);
            right = (place, function(place));
        }
    }
    if left.1 < right.1 { left } else { right }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_train::sigmoid;

    #[test]
    fn the_factor_of_a_network_that_is_only_too_loud_is_found() {
        let answers: Vec<Answer> = (-20..20)
            .map(|n| {
                let score = f64::from(n) * 0.2;
                let target = Target { score: score as f32, chance: sigmoid(score) as f32 };
                Answer { centipawns: score * 400.0 * 2.5, target }
            })
            .collect();
        let fit = Fit::of(&answers, 400.0).unwrap();
        assert!((fit.factor - 0.4).abs() < 1e-4 && fit.loss < 1e-7, "{fit:?}");
        assert!(Fit::of(&[], 400.0).is_none());
    }
}
