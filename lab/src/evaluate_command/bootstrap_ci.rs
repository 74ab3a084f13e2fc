//! Means, standard errors and bootstrap confidence intervals over units such as games.
//!
//! Positions of a game are much alike: ten thousand of them, from a hundred games, carry the information of a
//! hundred. So standard errors are computed over games, and bootstrap resamples draw whole games.

use tandem_util::random::SplitMix;

/// The contribution of one unit to a metric: a sum over positions, and their number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct UnitSum {
    sum: f64,
    count: f64,
}

/// A mean with its standard error, which is `None` for a single unit, and the number of positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) error: Option<f64>,
    pub(super) count: u64,
}

/// The difference between the metrics of two networks on the same units, with a 95 % bootstrap interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Number of bootstrap resamples for an interval.
const RESAMPLES: usize = 1000;
/// Seed of the resampling, fixed so that the same data gives the same intervals.
const SEED: u64 = 1;

impl UnitSum {
    /// The contribution of `count` positions with this mean.
    pub(super) fn of_mean(mean: Option<f64>, count: u64) -> Self {
        let count = count as f64;
        mean.map_or_else(Self::default, |mean| Self { sum: mean * count, count })
    }

    /// Adds the value of one more position.
    pub(super) fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1.0;
    }

    fn merge(self, other: Self) -> Self {
        Self { sum: self.sum + other.sum, count: self.count + other.count }
    }

    fn mean(self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

impl Estimate {
    /// The mean over all positions of all units; `None` if there are none.
    pub(super) fn of(units: &[UnitSum]) -> Option<Self> {
        let all = units.iter().copied().fold(UnitSum::default(), UnitSum::merge);
        let value = all.mean()?;
        let sampled = units.iter().filter(|unit| unit.count > 0.0).count() as f64;
        // Sums and counts both vary from unit to unit, so this is the standard error of a ratio.
        let squares: f64 = units.iter().map(|unit| (unit.sum - value * unit.count).powi(2)).sum();
        let error = (sampled > 1.0).then(|| (sampled / (sampled - 1.0) * squares).sqrt() / all.count);
        Some(Self { value, error, count: all.count as u64 })
    }
}

impl Difference {
    /// The difference `other - first`; `None` if either metric is missing. Each resample draws the same units
    /// for both networks, so that variation that they share cancels.
    pub(super) fn of(first: &[UnitSum], other: &[UnitSum]) -> Option<Self> {
        let pairs: Vec<[UnitSum; 2]> =
            first.iter().zip(other).map(|(&first, &other)| [first, other]).collect();
        let difference = |set: [UnitSum; 2]| Some(set[1].mean()? - set[0].mean()?);
        let together =
            |sum: [UnitSum; 2], pair: &[UnitSum; 2]| [sum[0].merge(pair[0]), sum[1].merge(pair[1])];
        let value = difference(pairs.iter().fold([UnitSum::default(); 2], together))?;
        let mut random = SplitMix::new(SEED);
        let mut differences: Vec<f64> = (0..RESAMPLES)
            .filter_map(|_| {
                let resample = (0..pairs.len()).map(|_| &pairs[random.below(pairs.len() as u32) as usize]);
                difference(resample.fold([UnitSum::default(); 2], together))
            })
            .collect();
        differences.sort_by(f64::total_cmp);
        let at = |fraction: f64| differences.get((fraction * differences.len() as f64) as usize).copied();
        Some(Self { value, low: at(0.025)?, high: at(0.975)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(random: &mut SplitMix, units: usize, each: usize, shift: f64) -> Vec<UnitSum> {
        let of_unit = |_| {
            // All positions of a unit share one random offset.
            let offset = random.unit() + shift;
            UnitSum { sum: offset * each as f64, count: each as f64 }
        };
        (0..units).map(of_unit).collect()
    }

    #[test]
    fn the_standard_error_is_over_units_and_not_over_positions() {
        let expected = (1.0 / 12.0f64 / 400.0).sqrt();
        for each in [1, 50] {
            let estimate = Estimate::of(&units(&mut SplitMix::new(3), 400, each, 0.0)).unwrap();
            assert!((estimate.value - 0.5).abs() < 3.0 * expected);
            assert!((estimate.error.unwrap() / expected - 1.0).abs() < 0.1, "{estimate:?}");
            assert_eq!(estimate.count, 400 * each as u64);
        }
        assert_eq!(Estimate::of(&[UnitSum::default()]), None);
        let mut one = UnitSum::default();
        one.add(2.0);
        let alone = Estimate { value: 2.0, error: None, count: 1 };
        assert_eq!(Estimate::of(&[UnitSum::default(), one]), Some(alone));
        assert_eq!(UnitSum::of_mean(Some(0.5), 4), UnitSum { sum: 2.0, count: 4.0 });
        assert_eq!(UnitSum::of_mean(None, 0), UnitSum::default());
    }

    #[test]
    fn variation_that_both_networks_share_cancels_in_the_difference() {
        let first = units(&mut SplitMix::new(5), 300, 7, 0.0);
        let same_offsets = units(&mut SplitMix::new(5), 300, 7, 0.01);
        let other_offsets = units(&mut SplitMix::new(6), 300, 7, 0.01);
        let paired = Difference::of(&first, &same_offsets).unwrap();
        assert!((paired.value - 0.01).abs() < 1e-9 && paired.low > 0.009 && paired.high < 0.011);
        let unpaired = Difference::of(&first, &other_offsets).unwrap();
        let width = (unpaired.high - unpaired.low) / (4.0 * (2.0 / 12.0f64 / 300.0).sqrt());
        assert!((width - 1.0).abs() < 0.15, "{unpaired:?}");
        assert_eq!(Difference::of(&first, &vec![UnitSum::default(); 300]), None);
        assert_eq!(Difference::of(&[], &[]), None);
    }
}
