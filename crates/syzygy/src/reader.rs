//! Reading numbers from the bytes of a table, with a check of each offset.

use crate::error::Damage;
use std::ops::Range;

/// Error for a structure that does not end within the file.
pub(crate) fn beyond_end(offset: usize) -> Damage {
    Damage::new(offset, "the file ends too early")
}

/// The bytes of a range; an error if it does not lie within the file.
#[inline]
pub(crate) fn part(file: &[u8], range: Range<usize>) -> Result<&[u8], Damage> {
    let start = range.start;
    file.get(range).ok_or_else(|| beyond_end(start))
}

/// The `n`th little-endian number of 16 bits; `None` beyond the end.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], n: usize) -> Option<u16> {
    let at = n.checked_mul(2)?;
    let number = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(number.try_into().ok()?))
}

/// Reads a header from front to back.
pub(crate) struct Reader<'a> {
    file: &'a [u8],
    /// Offset of the next byte.
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &'a [u8]) -> Self {
        Self { file, at: 0 }
    }

    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// Range of the next `len` bytes, which are skipped.
    pub(crate) fn take(&mut self, len: usize) -> Result<Range<usize>, Damage> {
        let start = self.at;
        let end =
            start.checked_add(len).filter(|&end| end <= self.file.len()).ok_or_else(|| beyond_end(start))?;
        self.at = end;
        Ok(start..end)
    }

    /// The next `len` bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Damage> {
        let range = self.take(len)?;
        part(self.file, range)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let offset = self.at;
        self.bytes(N)?.try_into().map_err(|_| beyond_end(offset))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Damage> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Damage> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Damage> {
        self.array().map(u32::from_le_bytes)
    }

    /// Skips bytes up to the next multiple of `boundary`.
    pub(crate) fn align(&mut self, boundary: usize) -> Result<(), Damage> {
        self.take(self.at.next_multiple_of(boundary) - self.at).map(drop)
    }

    /// An error about the bytes at the current offset.
    pub(crate) fn damage(&self, problem: &'static str) -> Damage {
        Damage::new(self.at, problem)
    }
}
