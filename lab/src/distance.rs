//! Statistics of differences between two evaluations of the same positions, for example before and after
//! rounding.

/// Running statistics of differences: how many there are, how many are not zero, the largest and the mean
/// absolute value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Distance {
    count: u64,
    differ: u64,
    largest: f64,
    sum: f64,
}

impl Distance {
    /// Adds one difference, of either sign.
    pub(crate) fn add(&mut self, difference: f64) {
        self.count += 1;
        self.differ += u64::from(difference != 0.0);
        self.largest = self.largest.max(difference.abs());
        self.sum += difference.abs();
    }

    /// The number of differences added.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The number of differences that are not zero.
    pub(crate) fn differ(&self) -> u64 {
        self.differ
    }

    /// The largest absolute difference; 0 if there are none.
    pub(crate) fn largest(&self) -> f64 {
        self.largest
    }

    /// The mean absolute difference; 0 if there are none.
    pub(crate) fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}
