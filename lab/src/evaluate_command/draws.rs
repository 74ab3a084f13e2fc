//! Figures of things that are drawn as wholes, such as games, and how sure they are.
//!
//! Positions of a game are much alike: ten thousand of them, of a hundred games, say what a hundred say. So a figure's error
//! is reckoned from game to game, and chance draws games.

use tandem_chess::random::SplitMix;

/// What one draw adds to a figure: a sum, and of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Part {
    sum: f64,
    count: f64,
}

/// A mean and its standard error, which one draw alone does not have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) error: Option<f64>,
    pub(super) count: u64,
}

/// How far a figure is from another's on the same draws, and where 95 % of the drawn sets have it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Sets of draws that a difference is looked at in.
const SETS: usize = 1000;
/// What chance starts from, so that the same data gives the same intervals.
const SEED: u64 = 1;

impl Part {
    /// A mean of so many.
    pub(super) fn of_mean(mean: Option<f64>, count: u64) -> Self {
        let count = count as f64;
        mean.map_or_else(Self::default, |mean| Self { sum: mean * count, count })
    }

    /// One more.
    pub(super) fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1.0;
    }

    fn plus(self, other: Self) -> Self {
        Self { sum: self.sum + other.sum, count: self.count + other.count }
    }

    fn mean(self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

impl Estimate {
    /// The mean over all draws; none if there is nothing.
    pub(super) fn of(parts: &[Part]) -> Option<Self> {
        let all = parts.iter().copied().fold(Part::default(), Part::plus);
        let value = all.mean()?;
        let draws = parts.iter().filter(|part| part.count > 0.0).count() as f64;
        // Sums and counts both vary from draw to draw: the error of a ratio.
        let squares: f64 = parts.iter().map(|part| (part.sum - value * part.count).powi(2)).sum();
        let error = (draws > 1.0).then(|| (draws / (draws - 1.0) * squares).sqrt() / all.count);
        Some(Self { value, error, count: all.count as u64 })
    }
}

impl Difference {
    /// How much larger a figure is than the first one's; none where either is missing. Both have the same draws, and each
    /// set of them is drawn for both.
    pub(super) fn of(first: &[Part], other: &[Part]) -> Option<Self> {
        let pairs: Vec<[Part; 2]> = first.iter().zip(other).map(|(&first, &other)| [first, other]).collect();
        let difference = |set: [Part; 2]| Some(set[1].mean()? - set[0].mean()?);
        let together = |sum: [Part; 2], pair: &[Part; 2]| [sum[0].plus(pair[0]), sum[1].plus(pair[1])];
        let value = difference(pairs.iter().fold([Part::default(); 2], together))?;
        let mut random = SplitMix::new(SEED);
        let mut found: Vec<f64> = (0..SETS)
            .filter_map(|_| {
                let drawn = (0..pairs.len()).map(|_| &pairs[random.below(pairs.len() as u32) as usize]);
                difference(drawn.fold([Part::default(); 2], together))
            })
            .collect();
        found.sort_by(f64::total_cmp);
        let at = |share: f64| found.get((share * found.len() as f64) as usize).copied();
        Some(Self { value, low: at(0.025)?, high: at(0.975)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(random: &mut SplitMix, draws: usize, each: usize, shift: f64) -> Vec<Part> {
        let of_draw = |_| {
            // All of a draw have the same luck.
            let luck = random.unit() + shift;
            Part { sum: luck * each as f64, count: each as f64 }
        };
        (0..draws).map(of_draw).collect()
    }

    #[test]
    fn an_error_is_one_of_draws_and_not_of_what_is_in_them() {
        let expected = (1.0 / 12.0f64 / 400.0).sqrt();
        for each in [1, 50] {
            let estimate = Estimate::of(&parts(&mut SplitMix::new(3), 400, each, 0.0)).unwrap();
            assert!((estimate.value - 0.5).abs() < 3.0 * expected);
            assert!((estimate.error.unwrap() / expected - 1.0).abs() < 0.1, "{estimate:?}");
            assert_eq!(estimate.count, 400 * each as u64);
        }
        assert_eq!(Estimate::of(&[Part::default()]), None);
        let mut one = Part::default();
        one.add(2.0);
        let alone = Estimate { value: 2.0, error: None, count: 1 };
        assert_eq!(Estimate::of(&[Part::default(), one]), Some(alone));
        assert_eq!(Part::of_mean(Some(0.5), 4), Part { sum: 2.0, count: 4.0 });
        assert_eq!(Part::of_mean(None, 0), Part::default());
    }

    #[test]
    fn what_both_share_does_not_blur_a_difference() {
        let first = parts(&mut SplitMix::new(5), 300, 7, 0.0);
        let same_luck = parts(&mut SplitMix::new(5), 300, 7, 0.01);
        let other_luck = parts(&mut SplitMix::new(6), 300, 7, 0.01);
        let paired = Difference::of(&first, &same_luck).unwrap();
        assert!((paired.value - 0.01).abs() < 1e-9 && paired.low > 0.009 && paired.high < 0.011);
        let blurred = Difference::of(&first, &other_luck).unwrap();
        let width = (blurred.high - blurred.low) / (4.0 * (2.0 / 12.0f64 / 300.0).sqrt());
        assert!((width - 1.0).abs() < 0.15, "{blurred:?}");
        assert_eq!(Difference::of(&first, &vec![Part::default(); 300]), None);
        assert_eq!(Difference::of(&[], &[]), None);
    }
}
