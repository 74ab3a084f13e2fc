//! Buffers that begin on a cache line, because aligned vector loads are cheapest.

use bytemuck::{Pod, Zeroable};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// A growable buffer of plain values whose first element is aligned to 64 bytes.
pub(crate) struct Aligned<T> {
    lines: Vec<Line>,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Pod> Aligned<T> {
    pub(crate) fn zeroed(len: usize) -> Self {
        let mut aligned = Self::default();
        aligned.grow(len);
        aligned
    }

    /// The first `len` elements for writing, with unspecified contents. Allocates only if the buffer never
    /// was this long.
    pub(crate) fn buffer(&mut self, len: usize) -> &mut [T] {
        self.grow(len);
        &mut self[..len]
    }

    fn grow(&mut self, len: usize) {
        if len > self.len {
            self.lines.resize((len * size_of::<T>()).div_ceil(size_of::<Line>()), Line([0; 64]));
            self.len = len;
        }
    }
}

impl<T> Default for Aligned<T> {
    fn default() -> Self {
        Self { lines: Vec::new(), len: 0, elements: PhantomData }
    }
}

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

impl<T: Pod> std::fmt::Debug for Aligned<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{} values]", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_on_a_cache_line_and_keeps_its_contents() {
        let mut aligned = Aligned::from(&[1.0f32, 2.0, 3.0][..]);
        assert_eq!(aligned.buffer(1000)[..3], [1.0, 2.0, 3.0]);
        assert_eq!(aligned.as_ptr() as usize % 64, 0);
        let before = aligned.as_ptr();
        assert_eq!(aligned.buffer(7).len(), 7);
        assert_eq!((aligned.len(), aligned.as_ptr()), (1000, before));
    }
}
