//! Software prefetch of weights. Panels are read once for each block of rows and seldom fit into the L2
//! cache, so the next one is requested while the current one is in use.

use super::PANEL;
use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

/// Prefetches the panel that follows the current one in memory, step by step while rows are multiplied, so
/// that it is in cache when it is needed.
#[derive(Clone, Copy)]
pub(super) struct Prefetch {
    at: *const i8,
    step: usize,
}

impl Prefetch {
    /// Starts at the part of the next panel that belongs to the block of rows from `row` on, of which there
    /// are `count`.
    #[inline(always)]
    pub(super) fn new<T>(panel: &[T], row: usize, count: usize) -> Self {
        let offset = size_of_val(panel) * row / count;
        let step = (PANEL * 4 * 8 / count).min(PANEL * 4);
        Self { at: panel.as_ptr_range().end.cast::<i8>().wrapping_add(offset), step }
    }

    /// Prefetches the next step; called once for each group of weights.
    #[inline(always)]
    pub(super) fn fetch(&mut self) {
        // SAFETY: a hint, which reads nothing and cannot fail wherever it points to.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(self.at) };
        self.at = self.at.wrapping_add(self.step);
    }
}
