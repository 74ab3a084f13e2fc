//! Protocol buffers: messages of numbered fields.

use super::LoadError;

const VARINT: u32 = 0;
const FIXED_64: u32 = 1;
const BYTES: u32 = 2;
const FIXED_32: u32 = 5;

/// A message that is written, field after field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn put_varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn key(&mut self, field: u32, kind: u32) {
        self.put_varint(u64::from(field << 3 | kind));
    }

    pub(super) fn varint(&mut self, field: u32, number: u64) {
        self.key(field, VARINT);
        self.put_varint(number);
    }

    pub(super) fn fixed_32(&mut self, field: u32, number: u32) {
        self.key(field, FIXED_32);
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn float(&mut self, field: u32, number: f32) {
        self.fixed_32(field, number.to_bits());
    }

    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, BYTES);
        self.put_varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    pub(super) fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    pub(super) fn message(&mut self, field: u32, message: &Self) {
        self.bytes(field, &message.0);
    }
}

/// A message that is read, and where it stands in its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) offset: usize,
}

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// A whole number.
    Number(u64),
    /// Four bytes.
    Word(u32),
    /// Bytes, text or another message.
    Part(Part<'a>),
    /// Eight bytes, which nothing we read has.
    Long,
}

impl<'a> Part<'a> {
    /// The fields, one after the other.
    pub(super) fn fields(self) -> Fields<'a> {
        Fields { rest: self.bytes, offset: self.offset }
    }

    /// The fields of a number, in their order.
    fn all(self, field: u32) -> impl Iterator<Item = Result<Value<'a>, LoadError>> {
        self.fields().filter_map(move |found| match found {
            Ok((number, value)) => (number == field).then_some(Ok(value)),
            Err(error) => Some(Err(error)),
        })
    }

    /// Messages or bytes of a number. They are not gathered: a packed file can have more empty ones than memory has room for.
    pub(super) fn parts(self, field: u32) -> impl Iterator<Item = Result<Part<'a>, LoadError>> {
        self.all(field).map(move |value| match value? {
            Value::Part(part) => Ok(part),
            _ => Err(self.of_another_kind(field)),
        })
    }

    /// The last message or bytes of a number, if there are any.
    pub(super) fn part(self, field: u32) -> Result<Option<Part<'a>>, LoadError> {
        self.parts(field).try_fold(None, |_, part| part.map(Some))
    }

    /// The last whole number of a field, if there is one.
    pub(super) fn number(self, field: u32) -> Result<Option<u64>, LoadError> {
        match self.all(field).last().transpose()? {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(_) => Err(self.of_another_kind(field)),
        }
    }

    /// The last four bytes of a field, if there are any.
    pub(super) fn word(self, field: u32) -> Result<Option<u32>, LoadError> {
        match self.all(field).last().transpose()? {
            None => Ok(None),
            Some(Value::Word(word)) => Ok(Some(word)),
            Some(_) => Err(self.of_another_kind(field)),
        }
    }

    fn of_another_kind(self, field: u32) -> LoadError {
        LoadError::new(format!("field {field}"), self.offset, "holds something of another kind")
    }
}

/// The fields of a message.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        self.offset += len;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for place in 0..10 {
            let byte = *self.take(1)?.first()?;
            number |= u64::from(byte & 0x7F) << (7 * place);
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn word(&mut self) -> Option<u32> {
        self.take(4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
    }

    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let key = self.varint()?;
        let field = u32::try_from(key >> 3).ok().filter(|&field| field > 0)?;
        let value = match key as u32 & 7 {
            VARINT => Value::Number(self.varint()?),
            FIXED_64 => self.take(8).map(|_| Value::Long)?,
            BYTES => {
                let len = usize::try_from(self.varint()?).ok()?;
                let offset = self.offset;
                Value::Part(Part { bytes: self.take(len)?, offset })
            }
            FIXED_32 => Value::Word(self.word()?),
            _ => return None,
        };
        Some((field, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), LoadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let offset = self.offset;
        let field = self.field().ok_or_else(|| {
            self.rest = &[];
            LoadError::new(
                "protocol buffer",
                offset,
                "no field can be read here: the file is damaged or cut short",
            )
        });
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let mut inner = Message::default();
        inner.varint(1, 300);
        inner.float(2, 1.5);
        let mut message = Message::default();
        message.fixed_32(1, 0x1C0);
        message.message(200, &inner);
        message.text(3, "three");
        message.message(200, &Message::default());
        let bytes = message.into_bytes();
        assert_eq!(bytes[..5], [0x0D, 0xC0, 0x01, 0, 0]);
        let part = Part { bytes: &bytes, offset: 0 };
        assert_eq!(part.word(1).unwrap(), Some(0x1C0));
        assert_eq!(part.part(3).unwrap().unwrap().bytes, b"three");
        assert_eq!(part.number(7).unwrap(), None);
        let parts: Vec<Part<'_>> = part.parts(200).map(Result::unwrap).collect();
        assert_eq!((parts.len(), parts[0].number(1).unwrap()), (2, Some(300)));
        assert_eq!(parts[0].word(2).unwrap().map(f32::from_bits), Some(1.5));
        assert_eq!(bytes[parts[0].offset..][..parts[0].bytes.len()], *parts[0].bytes);
    }

    #[test]
    fn what_is_no_message_is_refused_where_it_ends() {
        for bytes in
            [&[0x0D, 1][..], &[0x12, 5, 1], &[0xFF; 20], &[0x0B], &[0, 0], &[0x12, 0xFF, 0xFF, 0xFF, 0x7F]]
        {
            let error = Part { bytes, offset: 100 }.number(1).unwrap_err().to_string();
            assert!(error.starts_with("protocol buffer at byte 100"), "{error}");
        }
        let error = Part { bytes: &[0x08, 1], offset: 9 }.word(1).unwrap_err().to_string();
        assert_eq!(error, "field 1 at byte 9: holds something of another kind");
    }
}
