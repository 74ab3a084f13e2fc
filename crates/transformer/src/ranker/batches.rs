//! Sizes of the batches in which moves are evaluated, so that a clock is not overstepped by a batch.

use std::time::Duration;

/// Largest batch of positions. More would not be faster, and would take longer to notice that the caller has stopped
/// waiting.
pub(super) const MAX_BATCH: usize = 16;

/// Chooses the size of each batch by the time that the one before took.
pub(super) struct Batches<F> {
    /// Says if a batch that is expected to take so long may still be run.
    may_run: F,
    next_size: usize,
    max_size: usize,
    /// Time for one element of the last batch; `None` before the first.
    time_each: Option<Duration>,
}

impl<F: FnMut(Duration) -> bool> Batches<F> {
    /// Batches of one position, then of up to [`MAX_BATCH`].
    pub(super) fn growing(may_run: F) -> Self {
        Self { may_run, next_size: 1, max_size: MAX_BATCH, time_each: None }
    }

    /// One batch, for networks that evaluate all moves in about the time of one.
    pub(super) fn single(may_run: F) -> Self {
        Self { may_run, next_size: usize::MAX, max_size: usize::MAX, time_each: None }
    }

    /// Size of the next batch if `left` elements are left; `None` if there is no time for even one. The first batch is
    /// always run, so that there is a move to play.
    pub(super) fn next(&mut self, left: usize) -> Option<usize> {
        let mut size = self.next_size.min(left);
        if let Some(each) = self.time_each {
            while size > 0 && !(self.may_run)(each.saturating_mul(u32::try_from(size).unwrap_or(u32::MAX))) {
                size /= 2;
            }
        }
        (size > 0).then_some(size)
    }

    /// Notes the time that a batch took.
    pub(super) fn record(&mut self, size: usize, time: Duration) {
        self.time_each = Some(time / u32::try_from(size.max(1)).unwrap_or(u32::MAX));
        self.next_size = size.saturating_mul(2).min(self.max_size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Sizes of the batches of 40 moves if an element takes 5 ms, and the time that they take.
    fn sizes(allowed_ms: u64) -> (Vec<usize>, u64) {
        let now = Cell::new(0);
        let mut batches =
            Batches::growing(|expected: Duration| now.get() + expected.as_millis() as u64 <= allowed_ms);
        let (mut sizes, mut left) = (Vec::new(), 40);
        while left > 0
            && let Some(size) = batches.next(left)
        {
            sizes.push(size);
            left -= size;
            now.set(now.get() + 5 * size as u64);
            batches.record(size, Duration::from_millis(5 * size as u64));
        }
        (sizes, now.get())
    }

    #[test]
    fn batches_grow_while_there_is_time_and_never_overstep_it() {
        assert_eq!(sizes(1000), (vec![1, 2, 4, 8, 16, 9], 200));
        assert_eq!(sizes(0), (vec![1], 5), "there is always a move to play");
        assert_eq!(sizes(12), (vec![1, 1], 10));
        for allowed in 5..300 {
            let (sizes, time) = sizes(allowed);
            assert!(time <= allowed, "{allowed}: {sizes:?}");
            assert!(time + 5 > allowed.min(200), "{allowed}: {sizes:?} leaves time for another move");
        }
    }
}
