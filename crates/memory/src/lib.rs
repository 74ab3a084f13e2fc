//! Arrays that begin on a cache line and, where they are large, lie on huge pages.
//!
//! A search jumps about in its tables and networks: on pages of 4 KiB it waits for the processor to find out where each of
//! them is. Linux gives huge pages to those who ask before they touch fresh memory, and that is done here.
//!
//! ```
//! use tandem_memory::Block;
//!
//! let mut scores = Block::<i16>::zeroed(1 << 20);
//! scores[77] = -3;
//! assert_eq!(scores.iter().filter(|&&score| score != 0).count(), 1);
//! ```

use bytemuck::Zeroable;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Size and alignment of a huge page.
const HUGE_PAGE: usize = 2 << 20;
/// Blocks from this size on get huge pages of their own, the last of which may be mostly empty: a search has only a handful
/// of such blocks, and is in the middle of most of them at any time.
const LARGE: usize = HUGE_PAGE / 4;
/// What smaller ones begin on: vector loads are cheapest there.
const CACHE_LINE: usize = 64;

/// A fixed number of elements.
pub struct Block<T> {
    /// What the allocator gave.
    base: NonNull<u8>,
    layout: Layout,
    /// The first boundary in it.
    first: NonNull<T>,
    len: usize,
}

// SAFETY: the memory belongs to this block alone, as that of a boxed slice does.
unsafe impl<T: Send> Send for Block<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Block<T> {}

impl<T: Zeroable> Block<T> {
    /// So many zeros. A machine without room for them ends the program, as it does with any other allocation.
    ///
    /// # Panics
    ///
    /// Where there could be no array of this length.
    pub fn zeroed(len: usize) -> Self {
        let layout = Layout::array::<T>(len).expect("a length that memory could have");
        Self::try_zeroed(len).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// So many zeros, if the machine has room for them. Fresh pages are handed out as they are touched.
    pub fn try_zeroed(len: usize) -> Option<Self> {
        const {
            assert!(!std::mem::needs_drop::<T>(), "elements are forgotten, not dropped");
            assert!(align_of::<T>() <= CACHE_LINE, "blocks begin on a cache line, and no more is promised");
        }
        let bytes = len.checked_mul(size_of::<T>())?;
        let large = bytes >= LARGE;
        let boundary = if large { HUGE_PAGE } else { CACHE_LINE };
        let whole = bytes.checked_next_multiple_of(boundary)?;
        // Room for a boundary more, to begin on one. Asking the allocator for the alignment itself would make it write the
        // zeros, and whatever pages it writes to stay small.
        let layout = Layout::from_size_align(whole.checked_add(boundary)?, 1).ok()?;
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        // SAFETY: the offset is less than the boundary, by which more was allocated.
        let first = unsafe { base.add(base.align_offset(boundary)) };
        if large {
            advise_huge_pages(first, whole);
        }
        Some(Self { base, layout, first: first.cast(), len })
    }
}

impl<T> Deref for Block<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` elements were allocated here, aligned, zeroed, which is valid for them, and live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Block<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and nobody else has them.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        // SAFETY: allocated in `try_zeroed` with this very layout.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

impl<T: Zeroable + Copy> From<&[T]> for Block<T> {
    fn from(values: &[T]) -> Self {
        let mut copy = Self::zeroed(values.len());
        copy.copy_from_slice(values);
        copy
    }
}

impl<T: Zeroable + Copy> Clone for Block<T> {
    fn clone(&self) -> Self {
        Self::from(&self[..])
    }
}

impl<T> std::fmt::Debug for Block<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{} elements]", self.len)
    }
}

#[cfg(target_os = "linux")]
fn advise_huge_pages(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the range was just allocated, is aligned to a page, and the advice changes no contents. A refusal costs speed
    // only.
    unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_: NonNull<u8>, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_on_a_boundary_and_is_zero_even_where_something_was() {
        for len in [0, 1, 31, 32, 33, 1000, LARGE / 2 - 1, LARGE / 2, HUGE_PAGE / 2, HUGE_PAGE + 7] {
            let mut before = Block::<i16>::zeroed(len);
            before.fill(-1);
            drop(before);
            let zeros = Block::<i16>::zeroed(len);
            let boundary = if len * 2 >= LARGE { HUGE_PAGE } else { CACHE_LINE };
            assert_eq!(zeros.as_ptr() as usize % boundary, 0, "{len}");
            assert_eq!(zeros.len(), len);
            assert!(zeros.iter().all(|&number| number == 0));
        }
    }

    #[test]
    fn a_copy_holds_the_same_and_is_its_own() {
        let values: Vec<u32> = (0..700_000).collect();
        let first = Block::from(&values[..]);
        let mut second = first.clone();
        assert_eq!(&second[..], &values[..]);
        second[699_999] = 7;
        assert_eq!((first[699_999], second[699_998], second[699_999]), (699_999, 699_998, 7));
    }

    #[test]
    fn elements_of_no_size_are_as_many_as_one_likes() {
        assert_eq!(Block::<()>::zeroed(usize::MAX).len(), usize::MAX);
    }

    #[test]
    fn absurd_sizes_are_refused() {
        assert!(Block::<u64>::try_zeroed(usize::MAX).is_none());
        assert!(Block::<u64>::try_zeroed(usize::MAX / 8).is_none());
        assert!(Block::<u8>::try_zeroed(isize::MAX as usize).is_none());
        // What could be, but is not there.
        assert!(Block::<u8>::try_zeroed(isize::MAX as usize - 3 * HUGE_PAGE).is_none());
    }
}
