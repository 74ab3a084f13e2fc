//! Arrays that Stockfish packs as signed LEB128.

use super::{LoadError, Reader};
use tandem_memory::Block;

/// How a packed array begins; the length in bytes follows.
const LEB_MAGIC: &[u8] = b"COMPRESSED_LEB128";

/// Numbers that may be packed.
pub(super) trait Packable: bytemuck::Pod + super::reader::Little {
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

/// An array as it is, or packed as signed LEB128.
pub(super) fn read_array<T: Packable>(
    reader: &mut Reader<'_>,
    field: &str,
    count: usize,
) -> Result<Block<T>, LoadError> {
    if !reader.starts_with(LEB_MAGIC) {
        return reader.numbers(field, count);
    }
    reader.bytes(field, LEB_MAGIC.len())?;
    let len = reader.u32(field)? as usize;
    let offset = reader.at();
    let packed = reader.bytes(field, len)?;
    if count > len {
        return Err(Reader::error(
            field,
            offset,
            format!("{count} numbers cannot be packed into {len} bytes"),
        ));
    }
    let mut numbers = Block::zeroed(count);
    let mut rest = packed;
    for number in numbers.iter_mut() {
        let at = offset + len - rest.len();
        let value = unpack(&mut rest).and_then(T::from_wide);
        *number = value.ok_or_else(|| Reader::error(field, at, "no packed number of the right size"))?;
    }
    match rest.len() {
        0 => Ok(numbers),
        more => Err(Reader::error(
            field,
            offset + len - more,
            format!("{more} bytes more than {count} numbers take"),
        )),
    }
}

/// One number of seven bits a byte, the least first; the last byte's sixth bit is the sign.
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
    fn packed_numbers_are_unpacked() {
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
    fn errors_name_the_place_of_the_number() {
        let file = |packed: &[u8]| {
            let mut bytes = LEB_MAGIC.to_vec();
            bytes.extend((packed.len() as u32).to_le_bytes());
            bytes.extend(packed);
            bytes
        };
        let start = LEB_MAGIC.len() + 4;
        let read = |packed: &[u8]| read_array::<i16>(&mut Reader::new(&file(packed)), "numbers", 2);
        assert_eq!(read(&[0xFF, 0x00, 0x7E]).unwrap()[..], [127, -2]);
        // The second number has 21 bits; it is cut off; a third one follows.
        assert_eq!(read(&[2, 0xFF, 0xFF, 0x3F]).unwrap_err().offset, start + 1);
        assert_eq!(read(&[2, 0x80, 0x80]).unwrap_err().offset, start + 1);
        assert_eq!(read(&[2, 3, 4]).unwrap_err().offset, start + 2);
        assert_eq!(read(&[2]).unwrap_err().offset, start);
    }
}
