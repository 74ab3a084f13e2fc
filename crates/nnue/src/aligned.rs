//! Arrays that begin on a cache line, where vector loads are cheapest.

use bytemuck::{Pod, Zeroable};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// A fixed number of plain numbers, the first of them on a cache line.
pub(crate) struct Aligned<T> {
    lines: Vec<Line>,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Pod> Aligned<T> {
    /// So many zeros.
    pub(crate) fn zeroed(len: usize) -> Self {
        let count = (len * size_of::<T>()).div_ceil(size_of::<Line>());
        let mut lines = Vec::with_capacity(count);
        // Pages are handed out as they are touched, so that now is the time to ask for large ones.
        advise_huge_pages(lines.spare_capacity_mut());
        lines.resize(count, Line([0; 64]));
        Self { lines, len, elements: PhantomData }
    }
}

impl<T: Pod> Clone for Aligned<T> {
    fn clone(&self) -> Self {
        Self::from(&self[..])
    }
}

/// Asks for huge pages, which spare the processor most misses of its page table: the rows of a first layer lie far
/// apart.
#[cfg(target_os = "linux")]
fn advise_huge_pages(lines: &mut [MaybeUninit<Line>]) {
    const PAGE: usize = 4096;
    const HUGE_PAGE: usize = 2 << 20;
    let bytes = size_of_val(lines);
    if bytes < 2 * HUGE_PAGE {
        return;
    }
    let start = lines.as_mut_ptr().cast::<u8>();
    let skipped = start.align_offset(PAGE);
    if skipped < bytes {
        // SAFETY: the range lies within the slice, and advice does not change what is in it.
        unsafe { libc::madvise(start.add(skipped).cast(), bytes - skipped, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_: &mut [MaybeUninit<Line>]) {}

impl<T: Pod> From<&[T]> for Aligned<T> {
    fn from(values: &[T]) -> Self {
        let mut copy = Self::zeroed(values.len());
        copy.copy_from_slice(values);
        copy
    }
}

impl<T: Pod> Deref for Aligned<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }
}

impl<T: Pod> DerefMut for Aligned<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}

impl<T: Pod + std::fmt::Debug> std::fmt::Debug for Aligned<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{} numbers]", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_on_a_cache_line_and_holds_what_it_was_given() {
        for len in [0, 1, 31, 32, 33, 1000] {
            let values: Vec<i16> = (0..len).collect();
            let aligned = Aligned::from(&values[..]);
            assert_eq!(aligned.as_ptr() as usize % 64, 0);
            assert_eq!(&aligned[..], &values[..]);
        }
    }
}
