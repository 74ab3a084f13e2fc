//! Numbers of any width in a stream of bits, in the two bit orders that Stockfish's formats use.

/// Reads bits from the lowest of each byte to the highest, as the 40-byte positions store them.
pub(super) struct LowFirst<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> LowFirst<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Next number of at most 32 bits; zeros follow the end of the data.
    #[inline]
    pub(super) fn read(&mut self, count: usize) -> u32 {
        let byte = self.at / 8;
        let word = match self.bytes.get(byte..byte + 8) {
            Some(word) => u64::from_le_bytes(word.try_into().unwrap_or_default()),
            None => {
                let mut padded = [0; 8];
                let rest = self.bytes.get(byte..).unwrap_or(&[]);
                padded[..rest.len()].copy_from_slice(rest);
                u64::from_le_bytes(padded)
            }
        };
        let value = word >> (self.at % 8) & ((1 << count) - 1);
        self.at += count;
        value as u32
    }

    /// Next 32 bits, without consuming them.
    #[inline]
    pub(super) fn peek(&self) -> u32 {
        let mut ahead = Self { ..*self };
        ahead.read(32)
    }

    #[inline]
    pub(super) fn skip(&mut self, count: usize) {
        self.at += count;
    }

    /// Number of bits that were consumed.
    pub(super) fn position(&self) -> usize {
        self.at
    }
}

/// Writes bits from the lowest of each byte to the highest.
#[derive(Default)]
pub(super) struct LowFirstWriter {
    pub(super) bytes: Vec<u8>,
    at: usize,
}

impl LowFirstWriter {
    pub(super) fn write(&mut self, value: u32, count: usize) {
        for bit in 0..count {
            if self.at.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let last = self.bytes.len() - 1;
            self.bytes[last] |= ((value >> bit & 1) as u8) << (self.at % 8);
            self.at += 1;
        }
    }
}

/// Reads bits from the highest of each byte to the lowest, as binpacks store them.
pub(super) struct HighFirst<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> HighFirst<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Next number of at most 16 bits; `None` if fewer bits are left.
    #[inline]
    pub(super) fn read(&mut self, count: usize) -> Option<u32> {
        if count == 0 {
            return Some(0);
        }
        let byte = self.at / 8;
        if self.at + count > 8 * self.bytes.len() {
            return None;
        }
        let word = match self.bytes.get(byte..byte + 4) {
            Some(word) => u32::from_be_bytes(word.try_into().unwrap_or_default()),
            None => {
                let mut padded = [0; 4];
                let rest = &self.bytes[byte..];
                padded[..rest.len()].copy_from_slice(rest);
                u32::from_be_bytes(padded)
            }
        };
        let value = word << (self.at % 8) >> (32 - count);
        self.at += count;
        Some(value)
    }

    /// Number of bytes that were consumed, the last one perhaps in part.
    pub(super) fn bytes_read(&self) -> usize {
        self.at.div_ceil(8)
    }
}

/// Writes bits from the highest of each byte to the lowest.
#[derive(Default)]
pub(super) struct HighFirstWriter {
    pub(super) bytes: Vec<u8>,
    at: usize,
}

impl HighFirstWriter {
    pub(super) fn write(&mut self, value: u32, count: usize) {
        for bit in (0..count).rev() {
            if self.at.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let last = self.bytes.len() - 1;
            self.bytes[last] |= ((value >> bit & 1) as u8) << (7 - self.at % 8);
            self.at += 1;
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_round_trip(numbers in prop::collection::vec((any::<u32>(), 1usize..=16), 0..100)) {
            let numbers: Vec<(u32, usize)> =
                numbers.into_iter().map(|(value, count)| (value & ((1 << count) - 1), count)).collect();
            let mut low = LowFirstWriter::default();
            let mut high = HighFirstWriter::default();
            for &(value, count) in &numbers {
                low.write(value, count);
                high.write(value, count);
            }
            let mut low_reader = LowFirst::new(&low.bytes);
            let mut high_reader = HighFirst::new(&high.bytes);
            for &(value, count) in &numbers {
                prop_assert_eq!(low_reader.read(count), value);
                prop_assert_eq!(high_reader.read(count), Some(value));
            }
            prop_assert_eq!(high_reader.bytes_read(), high.bytes.len());
            prop_assert_eq!(high_reader.read(8), None);
        }
    }
}
