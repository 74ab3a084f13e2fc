//! Memory that the standard library does not provide: fixed-size arrays that are aligned to a cache line and, if they
//! are large, lie on huge pages, and files mapped into memory ([`MappedFile`]).
//!
//! Use [`AlignedArray`] instead of a boxed slice for large tables with random access, such as a hash table or the
//! weights of a network. With pages of 4 KiB, such accesses miss the translation lookaside buffer (TLB) most
//! of the time. Linux gives out huge pages to programs that ask before they touch fresh memory, which
//! [`AlignedArray::zeroed`] does. Small or growing arrays are better served by a `Vec`.
//! [`has_room`] tells beforehand if much memory can be had.
//!
//! ```
//! use tandem_memory::AlignedArray;
//!
//! let mut scores = AlignedArray::<i16>::zeroed(1 << 20);
//! scores[77] = -3;
//! assert_eq!(scores.iter().filter(|&&score| score != 0).count(), 1);
//! ```

mod mapped_file;
mod room;

pub use mapped_file::MappedFile;
pub use room::has_room;

use bytemuck::Zeroable;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Size and alignment of a huge page in bytes (2 MiB).
const HUGE_PAGE: usize = 2 << 20;
/// Arrays from this size on get huge pages of their own. The last page may be mostly empty, which is
/// acceptable because a search has only a handful of such arrays.
const LARGE: usize = HUGE_PAGE / 4;
/// Alignment of smaller arrays in bytes, because vector loads that cross a cache line are slower.
const CACHE_LINE: usize = 64;

/// A fixed-size array, zeroed at first, that dereferences to a slice.
pub struct AlignedArray<T> {
    /// Start of the allocation, as returned by the allocator.
    base: NonNull<u8>,
    layout: Layout,
    /// First aligned address within the allocation, where the elements begin.
    first: NonNull<T>,
    len: usize,
}

// SAFETY: the memory belongs to this array alone, as that of a boxed slice does.
unsafe impl<T: Send> Send for AlignedArray<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for AlignedArray<T> {}

impl<T: Zeroable> AlignedArray<T> {
    /// Allocates `len` zeroed elements. If the machine is out of memory the program is aborted, as for any
    /// other allocation.
    ///
    /// # Panics
    ///
    /// If the size in bytes exceeds `isize::MAX`.
    pub fn zeroed(len: usize) -> Self {
        let layout = Layout::array::<T>(len).expect("a length that memory could have");
        Self::try_zeroed(len).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// Allocates `len` zeroed elements, or returns `None` if the machine is out of memory. Physical pages are
    /// assigned when they are first touched.
    pub fn try_zeroed(len: usize) -> Option<Self> {
        const {
            assert!(!std::mem::needs_drop::<T>(), "elements are forgotten, not dropped");
            assert!(align_of::<T>() <= CACHE_LINE, "arrays begin on a cache line, and no more is promised");
        }
        let bytes = len.checked_mul(size_of::<T>())?;
        let large = bytes >= LARGE;
        let boundary = if large { HUGE_PAGE } else { CACHE_LINE };
        let whole = bytes.checked_next_multiple_of(boundary)?;
        // One boundary more than needed, so that the elements can be aligned. If the allocator were asked for
        // the alignment, it would write the zeros itself, and the pages it touches would stay small.
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

impl<T> Deref for AlignedArray<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `len` elements were allocated here, aligned, zeroed, which is valid for them, and live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for AlignedArray<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `&mut self` makes this access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<T> Drop for AlignedArray<T> {
    fn drop(&mut self) {
        // SAFETY: allocated in `try_zeroed` with this very layout.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

impl<T: Zeroable + Copy> From<&[T]> for AlignedArray<T> {
    fn from(values: &[T]) -> Self {
        let mut copy = Self::zeroed(values.len());
        copy.copy_from_slice(values);
        copy
    }
}

impl<T: Zeroable + Copy> Clone for AlignedArray<T> {
    fn clone(&self) -> Self {
        Self::from(&self[..])
    }
}

impl<T> std::fmt::Debug for AlignedArray<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{} elements]", self.len)
    }
}

#[cfg(target_os = "linux")]
fn advise_huge_pages(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the range was just allocated, is aligned to a page, and the advice does not change its
    // contents. If it is refused, only speed is lost.
    unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_: NonNull<u8>, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_aligned_and_zeroed_even_in_reused_memory() {
        for len in [0, 1, 31, 32, 33, 1000, LARGE / 2 - 1, LARGE / 2, HUGE_PAGE / 2, HUGE_PAGE + 7] {
            let mut before = AlignedArray::<i16>::zeroed(len);
            before.fill(-1);
            drop(before);
            let zeros = AlignedArray::<i16>::zeroed(len);
            let boundary = if len * 2 >= LARGE { HUGE_PAGE } else { CACHE_LINE };
            assert_eq!(zeros.as_ptr() as usize % boundary, 0, "{len}");
            assert_eq!(zeros.len(), len);
            assert!(zeros.iter().all(|&number| number == 0));
        }
    }

    #[test]
    fn clones_are_equal_and_independent() {
        let values: Vec<u32> = (0..700_000).collect();
        let first = AlignedArray::from(&values[..]);
        let mut second = first.clone();
        assert_eq!(&second[..], &values[..]);
        second[699_999] = 7;
        assert_eq!((first[699_999], second[699_998], second[699_999]), (699_999, 699_998, 7));
    }

    #[test]
    fn any_number_of_zero_sized_elements_is_allowed() {
        assert_eq!(AlignedArray::<()>::zeroed(usize::MAX).len(), usize::MAX);
    }

    #[test]
    fn sizes_beyond_memory_are_refused() {
        assert!(AlignedArray::<u64>::try_zeroed(usize::MAX).is_none());
        assert!(AlignedArray::<u64>::try_zeroed(usize::MAX / 8).is_none());
        assert!(AlignedArray::<u8>::try_zeroed(isize::MAX as usize).is_none());
        // A valid size, but more memory than the machine has.
        assert!(AlignedArray::<u8>::try_zeroed(isize::MAX as usize - 3 * HUGE_PAGE).is_none());
    }
}
