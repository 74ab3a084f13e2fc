//! How numbers are spread.

/// Numbers counted by bins of equal width from the least to the most.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// The least finite number; zero if there is none.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// How many finite numbers there are.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The sum of their squares.
    pub squares: f64,
    /// How many there are in each bin; a number between two bins is in the upper one. One bin if all numbers are the same.
    pub bins: Vec<u64>,
    /// Shares of the numbers that are exactly the least, and the most: many are where weights are clipped. Zero where all
    /// numbers are the same.
    pub ends: [f64; 2],
    /// How many were infinite or not numbers at all.
    pub not_finite: u64,
}

impl Histogram {
    /// Counts numbers.
    pub fn new(values: &[f32], bins: usize) -> Self {
        let finite = || values.iter().filter(|value| value.is_finite()).map(|&value| f64::from(value));
        let count = finite().count() as u64;
        let not_finite = values.len() as u64 - count;
        if count == 0 {
            return Self { not_finite, ..Self::default() };
        }
        let (least, most) = finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        let width = most - least;
        let mut histogram = Self { least, most, count, not_finite, ..Self::default() };
        histogram.bins = vec![0; if width > 0.0 { bins.max(1) } else { 1 }];
        let last = histogram.bins.len() - 1;
        let mut at_ends = [0u64; 2];
        for value in finite() {
            histogram.sum += value;
            histogram.squares += value * value;
            if width > 0.0 {
                let bin = (value - least) / width * (last + 1) as f64;
                histogram.bins[(bin as usize).min(last)] += 1;
                at_ends[0] += u64::from(value == least);
                at_ends[1] += u64::from(value == most);
            } else {
                histogram.bins[0] += 1;
            }
        }
        histogram.ends = at_ends.map(|at_end| at_end as f64 / count as f64);
        histogram
    }

    /// Where each bin ends.
    pub fn limits(&self) -> impl Iterator<Item = f64> + '_ {
        let count = self.bins.len();
        // The last is the most itself, not what rounding makes of it.
        (1..=count).map(move |bin| {
            let share = bin as f64 / count as f64;
            if bin == count { self.most } else { self.least + (self.most - self.least) * share }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_where_they_are() {
        let histogram = Histogram::new(&[-1.0, -1.0, -0.75, 0.0, 0.5, 1.0], 4);
        assert_eq!(histogram.bins, [3, 0, 1, 2]);
        assert_eq!(histogram.limits().collect::<Vec<_>>(), [-0.5, 0.0, 0.5, 1.0]);
        assert_eq!((histogram.least, histogram.most, histogram.count), (-1.0, 1.0, 6));
        assert_eq!((histogram.sum, histogram.squares), (-1.25, 3.8125));
        assert_eq!(histogram.ends, [2.0 / 6.0, 1.0 / 6.0]);
    }

    #[test]
    fn clipped_weights_are_seen_at_the_ends() {
        let weights: Vec<f32> = (-100..=100).map(|n| (n as f32 / 50.0).clamp(-1.98, 1.0)).collect();
        let [least, most] = Histogram::new(&weights, 64).ends;
        assert_eq!((least, most), (2.0 / 201.0, 51.0 / 201.0));
    }

    #[test]
    fn numbers_of_one_value_or_none_have_a_histogram_too() {
        let same = Histogram::new(&[0.0; 5], 64);
        assert_eq!((same.bins.as_slice(), same.ends), ([5].as_slice(), [0.0, 0.0]));
        assert_eq!(same.limits().collect::<Vec<_>>(), [0.0]);
        assert_eq!(Histogram::new(&[], 64), Histogram::default());
        let wild = Histogram::new(&[f32::NAN, f32::MAX, f32::MIN, f32::NEG_INFINITY], 2);
        assert_eq!((wild.bins.as_slice(), wild.not_finite), ([1, 1].as_slice(), 2));
        assert_eq!(Histogram::new(&[1.0, 2.0], 0).bins, [2]);
    }
}
