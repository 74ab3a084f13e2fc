//! Weights that are needed next.

use super::PANEL;
use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

/// The panel that follows one. It is fetched bit by bit while rows are multiplied by that one, so that it is there when
/// its turn comes.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    at: *const i8,
    step: usize,
}

impl Ahead {
    /// For a block of rows from `row` on, of which there are `count`.
    #[inline(always)]
    pub(super) fn new<T>(panel: &[T], row: usize, count: usize) -> Self {
        let share = size_of_val(panel) * row / count;
        let step = (PANEL * 4 * 8 / count).min(PANEL * 4);
        Self { at: panel.as_ptr_range().end.cast::<i8>().wrapping_add(share), step }
    }

    /// The next bit, for each group of numbers that a row is multiplied by.
    #[inline(always)]
    pub(super) fn fetch(&mut self) {
        // SAFETY: a hint, which reads nothing and cannot fail wherever it points to.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(self.at) };
        self.at = self.at.wrapping_add(self.step);
    }
}
