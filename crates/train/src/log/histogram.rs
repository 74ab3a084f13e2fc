//! Histograms of weights, in the form that TensorBoard stores.

/// Values counted in bins of equal width between the minimum and the maximum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Smallest finite value; zero if there are no finite values.
    pub min: f64,
    /// Largest finite value; zero if there are no finite values.
    pub max: f64,
    /// Number of finite values, the total of all bins.
    pub count: u64,
    /// Sum of the finite values, from which TensorBoard derives their mean.
    pub sum: f64,
    /// Sum of the squares of the finite values, from which TensorBoard derives their deviation.
    pub sum_of_squares: f64,
    /// Number of values in each bin; a value between two bins is in the upper one. A single bin if all values
    /// are equal.
    pub bins: Vec<u64>,
    /// Fractions of the values that are exactly the minimum and the maximum, which is many if weights are
    /// clamped. Zero if all values are equal.
    pub fraction_at_bounds: [f64; 2],
    /// Number of values that were infinite or NaN, which are in no bin.
    pub not_finite: u64,
}

impl Histogram {
    /// Counts values in `bins` bins, at least one; a constant tensor gets a single bin.
    pub fn new(values: &[f32], bins: usize) -> Self {
        let finite = || values.iter().filter(|value| value.is_finite()).map(|&value| f64::from(value));
        let count = finite().count() as u64;
        let not_finite = values.len() as u64 - count;
        if count == 0 {
            return Self { not_finite, ..Self::default() };
        }
        let (min, max) = finite()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), value| (min.min(value), max.max(value)));
        let width = max - min;
        let mut histogram = Self { min, max, count, not_finite, ..Self::default() };
        histogram.bins = vec![0; if width > 0.0 { bins.max(1) } else { 1 }];
        let last = histogram.bins.len() - 1;
        let mut at_ends = [0u64; 2];
        for value in finite() {
            histogram.sum += value;
            histogram.sum_of_squares += value * value;
            if width > 0.0 {
                let bin = (value - min) / width * (last + 1) as f64;
                histogram.bins[(bin as usize).min(last)] += 1;
                at_ends[0] += u64::from(value == min);
                at_ends[1] += u64::from(value == max);
            } else {
                histogram.bins[0] += 1;
            }
        }
        histogram.fraction_at_bounds = at_ends.map(|at_end| at_end as f64 / count as f64);
        histogram
    }

    /// Upper bound of each bin, in increasing order; the last one is [`Self::max`].
    pub fn limits(&self) -> impl Iterator<Item = f64> + '_ {
        let count = self.bins.len();
        // The last bound is the maximum itself, without rounding.
        (1..=count).map(move |bin| {
            let fraction = bin as f64 / count as f64;
            if bin == count { self.max } else { self.min + (self.max - self.min) * fraction }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_in_their_bins() {
        let histogram = Histogram::new(&[-1.0, -1.0, -0.75, 0.0, 0.5, 1.0], 4);
        assert_eq!(histogram.bins, [3, 0, 1, 2]);
        assert_eq!(histogram.limits().collect::<Vec<_>>(), [-0.5, 0.0, 0.5, 1.0]);
        assert_eq!((histogram.min, histogram.max, histogram.count), (-1.0, 1.0, 6));
        assert_eq!((histogram.sum, histogram.sum_of_squares), (-1.25, 3.8125));
        assert_eq!(histogram.fraction_at_bounds, [2.0 / 6.0, 1.0 / 6.0]);
    }

    #[test]
    fn clamped_weights_are_seen_at_the_bounds() {
        let weights: Vec<f32> = (-100..=100).map(|n| (n as f32 / 50.0).clamp(-1.98, 1.0)).collect();
        let [at_min, at_max] = Histogram::new(&weights, 64).fraction_at_bounds;
        assert_eq!((at_min, at_max), (2.0 / 201.0, 51.0 / 201.0));
    }

    #[test]
    fn equal_values_or_none_have_a_histogram_too() {
        let same = Histogram::new(&[0.0; 5], 64);
        assert_eq!((same.bins.as_slice(), same.fraction_at_bounds), ([5].as_slice(), [0.0, 0.0]));
        assert_eq!(same.limits().collect::<Vec<_>>(), [0.0]);
        assert_eq!(Histogram::new(&[], 64), Histogram::default());
        let wild = Histogram::new(&[f32::NAN, f32::MAX, f32::MIN, f32::NEG_INFINITY], 2);
        assert_eq!((wild.bins.as_slice(), wild.not_finite), ([1, 1].as_slice(), 2));
        assert_eq!(Histogram::new(&[1.0, 2.0], 0).bins, [2]);
    }
}
