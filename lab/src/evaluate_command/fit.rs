//! Fits the scale of a network's centipawns that minimises its loss, for `evaluate --fit-scale`.

use tandem_train::{Loss, Target};

/// The score of a position by a network, with the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScoredPosition {
    pub(super) centipawns: f64,
    pub(super) target: Target,
}

/// The best scale, as a multiple of `--scale`, and the loss with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScaleFit {
    pub(super) scale: f64,
    pub(super) loss: f64,
}

/// The fitted scale is searched from 1/16 to 16.
const MAX_SCALE: f64 = 16.0;
/// Each step keeps 0.618 of the range, so that this number leaves less than one millionth of it.
const STEPS: usize = 32;

impl ScaleFit {
    /// Fits the scale to these scores; `None` if there are none.
    pub(super) fn of(positions: &[ScoredPosition], scale: f64) -> Option<Self> {
        if positions.is_empty() {
            return None;
        }
        // The search is over the logarithm, so that twice and half are equally far from one.
        let loss = |log_scale: f64| {
            let factor = log_scale.exp() / scale;
            let losses = positions.iter().map(|position| {
                Loss::default().value_and_grad(position.centipawns * factor, position.target).0
            });
            losses.sum::<f64>() / positions.len() as f64
        };
        let (log_scale, loss) = golden_section(loss, -MAX_SCALE.ln(), MAX_SCALE.ln());
        Some(Self { scale: log_scale.exp(), loss })
    }
}

/// Golden-section search: the minimum of a unimodal function in a range, as position and value.
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
    fn the_scale_of_a_network_with_too_large_scores_is_found() {
        let positions: Vec<ScoredPosition> = (-20..20)
            .map(|n| {
                let score = f64::from(n) * 0.2;
                let target = Target { score: score as f32, win_probability: sigmoid(score) as f32 };
                ScoredPosition { centipawns: score * 400.0 * 2.5, target }
            })
            .collect();
        let fit = ScaleFit::of(&positions, 400.0).unwrap();
        assert!((fit.scale - 0.4).abs() < 1e-4 && fit.loss < 1e-7, "{fit:?}");
        assert!(ScaleFit::of(&[], 400.0).is_none());
    }
}
