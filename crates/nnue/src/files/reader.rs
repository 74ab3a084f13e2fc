//! Reading numbers one field after another, with errors that say which and where.

use super::LoadError;
use bytemuck::Pod;
use tandem_memory::Block;

/// More bytes than a header or a description should have.
const MAX_TEXT: usize = 1 << 20;

/// So much of a description is written: a header with it can be read again, and what was no UTF-8 takes more room
/// once it was read.
const MAX_DESCRIPTION: usize = 1 << 19;

/// A description as files may have it.
pub(super) fn bounded(description: &str) -> &str {
    &description[..description.floor_char_boundary(MAX_DESCRIPTION)]
}

/// The bytes of a file, and how far they were read.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
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

    /// So many bytes. Nothing is set aside for a length before it is seen to be there.
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

    /// Whether these bytes come next.
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

    /// A number that must be what it is.
    pub(super) fn expect(&mut self, field: &str, expected: u32) -> Result<(), LoadError> {
        let offset = self.at;
        let found = self.u32(field)?;
        if found == expected {
            return Ok(());
        }
        Err(Self::error(field, offset, format!("{found:#010x} found, {expected:#010x} expected")))
    }

    /// Text after its length.
    pub(super) fn text(&mut self, field: &str) -> Result<String, LoadError> {
        let offset = self.at;
        let len = self.u32(field)? as usize;
        if len > MAX_TEXT {
            return Err(Self::error(field, offset, format!("a length of {len} bytes is absurd")));
        }
        Ok(String::from_utf8_lossy(self.bytes(field, len)?).into_owned())
    }

    /// So many little-endian numbers.
    pub(super) fn numbers<T: Pod + Little>(
        &mut self,
        field: &str,
        count: usize,
    ) -> Result<Block<T>, LoadError> {
        let offset = self.at;
        let len = count
            .checked_mul(size_of::<T>())
            .ok_or_else(|| Self::error(field, offset, format!("{count} numbers are absurd")))?;
        let bytes = self.bytes(field, len)?;
        let mut numbers = Block::<T>::zeroed(count);
        bytemuck::cast_slice_mut::<T, u8>(&mut numbers).copy_from_slice(bytes);
        numbers.iter_mut().for_each(|number| *number = T::from_little(*number));
        Ok(numbers)
    }

    /// Nothing may follow.
    pub(super) fn end(self) -> Result<(), LoadError> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            more => Err(Self::error("end of file", self.at, format!("{more} bytes follow"))),
        }
    }
}

/// Numbers that are stored little-endian.
pub(super) trait Little: Copy {
    /// The number as this machine has it.
    fn from_little(stored: Self) -> Self;
}

macro_rules! little {
    ($($number:ty),*) => {
        $(impl Little for $number {
            #[inline]
            fn from_little(stored: Self) -> Self {
                Self::from_le(stored)
            }
        })*
    };
}

little!(i8, i16, i32);
