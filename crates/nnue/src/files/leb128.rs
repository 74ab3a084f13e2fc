//! Arrays compressed as signed LEB128, as Stockfish writes them since version 16.

use super::{FieldReader, LoadError};
use tandem_memory::AlignedArray;

/// First bytes of a compressed array, before its length in bytes.
const LEB_MAGIC: &[u8] = b"COMPRESSED_LEB128";

/// Integers that may be stored compressed.
pub(super) trait Packable: bytemuck::Pod + super::reader::LittleEndian {
    fn from_wide(number: i64) -> Option<Self>;
}

impl Packable for i16 {
    fn from_wide(number: i64) -> Option<Self> {
        number.try_into().ok()
    }
}

impl Packable for i32 {
    fn from_wide(number: i64) -> Option<Self> {
        number.try_into().ok()
    }
}

/// Reads an array that is either plain or compressed as signed LEB128.
pub(super) fn read_array<T: Packable>(
    reader: &mut FieldReader<'_>,
    field: &str,
    count: usize,
) -> Result<AlignedArray<T>, LoadError> {
    if !reader.starts_with(LEB_MAGIC) {
        return reader.array(field, count);
    }
    reader.bytes(field, LEB_MAGIC.len())?;
    let len = reader.u32(field)? as usize;
    let offset = reader.at();
    let packed = reader.bytes(field, len)?;
    if count > len {
        return Err(FieldReader::error(
            field,
            offset,
            format!("{count} numbers cannot be packed into {len} bytes"),
        ));
    }
    let mut numbers = AlignedArray::zeroed(count);
    let mut rest = packed;
    for number in numbers.iter_mut() {
        let at = offset + len - rest.len();
        let value = unpack(&mut rest).and_then(T::from_wide);
        *number =
            value.ok_or_else(|| FieldReader::error(field, at, "not a packed number of the right size"))?;
    }
    match rest.len() {
        0 => Ok(numbers),
        more => Err(FieldReader::error(
            field,
            offset + len - more,
            format!("{more} bytes more than {count} numbers take"),
        )),
    }
}

/// Decodes one integer: seven bits per byte, lowest first; bit 6 of the last byte is the sign.
fn unpack(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0i64;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= i64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            let sign = byte & 0x40 != 0;
            return Some(if sign { value - (1i64 << (shift + 7)) } else { value });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_integers_are_decoded() {
        for (bytes, number) in
            [(&[0x02u8][..], 2), (&[0x7E], -2), (&[0xFF, 0x00], 127), (&[0x80, 0x7F], -128)]
        {
            let mut rest = bytes;
            assert_eq!(unpack(&mut rest), Some(number));
            assert!(rest.is_empty());
        }
        assert_eq!(unpack(&mut &[0x80u8; 9][..]), None);
        assert_eq!(unpack(&mut &[0x80u8][..]), None);
    }

    #[test]
    fn errors_give_the_offset_of_the_integer() {
        let file = |packed: &[u8]| {
            let mut bytes = LEB_MAGIC.to_vec();
            bytes.extend((packed.len() as u32).to_le_bytes());
            bytes.extend(packed);
            bytes
        };
        let start = LEB_MAGIC.len() + 4;
        let read = |packed: &[u8]| read_array::<i16>(&mut FieldReader::new(&file(packed)), "numbers", 2);
        assert_eq!(read(&[0xFF, 0x00, 0x7E]).unwrap()[..], [127, -2]);
        // The second number has 21 bits; it is cut off; a third one follows.
        assert_eq!(read(&[2, 0xFF, 0xFF, 0x3F]).unwrap_err().offset, start + 1);
        assert_eq!(read(&[2, 0x80, 0x80]).unwrap_err().offset, start + 1);
        assert_eq!(read(&[2, 3, 4]).unwrap_err().offset, start + 2);
        assert_eq!(read(&[2]).unwrap_err().offset, start);
    }
}
