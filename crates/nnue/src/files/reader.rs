//! Reads binary fields in order, with errors that name the field and its position.

use super::LoadError;
use bytemuck::Pod;
use tandem_memory::AlignedArray;

/// Maximum length in bytes of a header or a description.
const MAX_TEXT: usize = 1 << 20;

/// Maximum length in bytes of a description that is written. It leaves a margin for the rest of the header,
/// and for bytes that were not UTF-8 and grow when replaced.
const MAX_DESCRIPTION: usize = 1 << 19;

/// The description, cut to [`MAX_DESCRIPTION`].
pub(super) fn bounded(description: &str) -> &str {
    &description[..description.floor_char_boundary(MAX_DESCRIPTION)]
}

/// The bytes of a file and the current position.
pub(super) struct FieldReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> FieldReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// An error about the field that begins at `offset`.
    pub(super) fn error(field: &str, offset: usize, problem: impl Into<String>) -> LoadError {
        LoadError { field: field.into(), offset, problem: problem.into() }
    }

    /// Reads `len` bytes. Memory is allocated only after the length has been checked against the file.
    pub(super) fn bytes(&mut self, field: &str, len: usize) -> Result<&'a [u8], LoadError> {
        let left = self.bytes.len() - self.at;
        if len > left {
            let problem = format!("{len} bytes are needed, {left} are left in the file");
            return Err(Self::error(field, self.at, problem));
        }
        let part = &self.bytes[self.at..self.at + len];
        self.at += len;
        Ok(part)
    }

    /// True if these bytes come next.
    pub(super) fn starts_with(&self, wanted: &[u8]) -> bool {
        self.bytes[self.at..].starts_with(wanted)
    }

    pub(super) fn u32(&mut self, field: &str) -> Result<u32, LoadError> {
        let bytes = self.bytes(field, 4)?;
        Ok(u32::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }

    pub(super) fn i32(&mut self, field: &str) -> Result<i32, LoadError> {
        self.u32(field).map(|number| number as i32)
    }

    /// Reads a number that must equal `expected`.
    pub(super) fn expect(&mut self, field: &str, expected: u32) -> Result<(), LoadError> {
        let offset = self.at;
        let found = self.u32(field)?;
        if found == expected {
            return Ok(());
        }
        Err(Self::error(field, offset, format!("{found:#010x} found, {expected:#010x} expected")))
    }

    /// Reads a length and then as many bytes of text.
    pub(super) fn text(&mut self, field: &str) -> Result<String, LoadError> {
        let offset = self.at;
        let len = self.u32(field)? as usize;
        if len > MAX_TEXT {
            return Err(Self::error(field, offset, format!("a length of {len} bytes is absurd")));
        }
        Ok(String::from_utf8_lossy(self.bytes(field, len)?).into_owned())
    }

    /// Reads `count` little-endian numbers.
    pub(super) fn array<T: Pod + LittleEndian>(
        &mut self,
        field: &str,
        count: usize,
    ) -> Result<AlignedArray<T>, LoadError> {
        let offset = self.at;
        let len = count
            .checked_mul(size_of::<T>())
            .ok_or_else(|| Self::error(field, offset, format!("{count} numbers are absurd")))?;
        let bytes = self.bytes(field, len)?;
        let mut numbers = AlignedArray::<T>::zeroed(count);
        bytemuck::cast_slice_mut::<T, u8>(&mut numbers).copy_from_slice(bytes);
        numbers.iter_mut().for_each(|number| *number = T::to_native(*number));
        Ok(numbers)
    }

    /// Checks that no bytes follow.
    pub(super) fn end(self) -> Result<(), LoadError> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            more => Err(Self::error("end of file", self.at, format!("{more} bytes follow"))),
        }
    }
}

/// Numbers that are stored in little-endian order.
pub(super) trait LittleEndian: Copy {
    /// Converts from little-endian to the machine's byte order.
    fn to_native(stored: Self) -> Self;
}

macro_rules! little {
    ($($number:ty),*) => {
        $(impl LittleEndian for $number {
            #[inline]
            fn to_native(stored: Self) -> Self {
                Self::from_le(stored)
            }
        })*
    };
}

little!(i8, i16, i32);
