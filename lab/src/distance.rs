//! How far numbers are from those that they are measured by.

/// What is known of some differences.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Distance {
    count: u64,
    differ: u64,
    largest: f64,
    sum: f64,
}

impl Distance {
    /// One more difference.
    pub(crate) fn add(&mut self, difference: f64) {
        self.count += 1;
        self.differ += u64::from(difference != 0.0);
        self.largest = self.largest.max(difference.abs());
        self.sum += difference.abs();
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// How many are not zero.
    pub(crate) fn differ(&self) -> u64 {
        self.differ
    }

    /// The largest, whatever its sign.
    pub(crate) fn largest(&self) -> f64 {
        self.largest
    }

    /// What they are on average, whatever their signs.
    pub(crate) fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}
