//! Protocol buffers: a minimal writer and reader of messages with numbered fields, for lc0's networks, ONNX and
//! TensorBoard.
//!
//! Written here instead of using `prost`: readers generated from a `.proto` file copy every tensor and do not say
//! at which byte of the file a field was wrong, and the few messages that we need have no schema of ours.

use std::fmt;

const VARINT: u32 = 0;
const FIXED_64: u32 = 1;
const BYTES: u32 = 2;
const FIXED_32: u32 = 5;

/// Bytes that are not the message that was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    /// Name or number of the field that was being read.
    pub field: String,
    /// Byte offset in the file at which it begins.
    pub offset: usize,
    /// Reason, which follows the field and offset in the message.
    pub problem: String,
}

impl WireError {
    fn new(field: impl Into<String>, offset: usize, problem: impl Into<String>) -> Self {
        Self { field: field.into(), offset, problem: problem.into() }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: {}", self.field, self.offset, self.problem)
    }
}

impl std::error::Error for WireError {}

/// A message under construction, to which fields are appended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message(Vec<u8>);

impl Message {
    /// The encoded message.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The encoded message so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
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

    /// Appends an integer of variable length.
    pub fn varint(&mut self, field: u32, number: u64) {
        self.key(field, VARINT);
        self.put_varint(number);
    }

    /// Appends four bytes.
    pub fn fixed_32(&mut self, field: u32, number: u32) {
        self.key(field, FIXED_32);
        self.0.extend(number.to_le_bytes());
    }

    /// Appends a 32-bit floating-point number.
    pub fn float(&mut self, field: u32, number: f32) {
        self.fixed_32(field, number.to_bits());
    }

    /// Appends a 64-bit floating-point number.
    pub fn double(&mut self, field: u32, number: f64) {
        self.key(field, FIXED_64);
        self.0.extend(number.to_le_bytes());
    }

    /// Appends a packed list of 64-bit floating-point numbers.
    pub fn doubles(&mut self, field: u32, numbers: &[f64]) {
        self.key(field, BYTES);
        self.put_varint(8 * numbers.len() as u64);
        self.0.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }

    /// Appends bytes.
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, BYTES);
        self.put_varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// Appends text.
    pub fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    /// Appends a nested message.
    pub fn message(&mut self, field: u32, message: &Self) {
        self.bytes(field, &message.0);
    }
}

/// A message that is being read, with its offset in the file for error messages.
#[derive(Clone, Copy, Debug)]
pub struct MessageView<'a> {
    /// The encoded message.
    pub bytes: &'a [u8],
    /// Offset of its first byte in the file.
    pub offset: usize,
}

/// Value of a field, by its wire type.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A variable-length integer.
    Varint(u64),
    /// Four bytes.
    Fixed32(u32),
    /// Bytes, text or a nested message.
    Bytes(MessageView<'a>),
    /// Eight bytes, which no field of ours has.
    Fixed64,
}

impl<'a> MessageView<'a> {
    /// All fields, in the order of the file.
    pub fn fields(self) -> Fields<'a> {
        Fields { rest: self.bytes, offset: self.offset }
    }

    /// Values of all fields with this number, in order.
    fn values(self, field: u32) -> impl Iterator<Item = Result<Value<'a>, WireError>> {
        self.fields().filter_map(move |found| match found {
            Ok((number, value)) => (number == field).then_some(Ok(value)),
            Err(error) => Some(Err(error)),
        })
    }

    /// Nested messages or bytes of a field. They are not collected: a compressed file can have more empty
    /// ones than fit in memory.
    pub fn messages(self, field: u32) -> impl Iterator<Item = Result<MessageView<'a>, WireError>> {
        self.values(field).map(move |value| match value? {
            Value::Bytes(part) => Ok(part),
            _ => Err(self.wrong_type(field)),
        })
    }

    /// The last nested message or bytes of a field, if there are any.
    ///
    /// # Errors
    ///
    /// Fails if the message is damaged or the field has another type.
    pub fn message(self, field: u32) -> Result<Option<MessageView<'a>>, WireError> {
        self.messages(field).try_fold(None, |_, part| part.map(Some))
    }

    /// The last integer of a field, if there is one.
    ///
    /// # Errors
    ///
    /// Fails if the message is damaged or the field has another type.
    pub fn varint(self, field: u32) -> Result<Option<u64>, WireError> {
        match self.values(field).last().transpose()? {
            None => Ok(None),
            Some(Value::Varint(number)) => Ok(Some(number)),
            Some(_) => Err(self.wrong_type(field)),
        }
    }

    /// The last four bytes of a field, if there are any.
    ///
    /// # Errors
    ///
    /// Fails if the message is damaged or the field has another type.
    pub fn fixed_32(self, field: u32) -> Result<Option<u32>, WireError> {
        match self.values(field).last().transpose()? {
            None => Ok(None),
            Some(Value::Fixed32(word)) => Ok(Some(word)),
            Some(_) => Err(self.wrong_type(field)),
        }
    }

    fn wrong_type(self, field: u32) -> WireError {
        WireError::new(format!("field {field}"), self.offset, "has a value of another type")
    }
}

/// Iterator over the fields of a message: number and value.
pub struct Fields<'a> {
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

    fn fixed_32(&mut self) -> Option<u32> {
        self.take(4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
    }

    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let key = self.varint()?;
        let field = u32::try_from(key >> 3).ok().filter(|&field| field > 0)?;
        let value = match key as u32 & 7 {
            VARINT => Value::Varint(self.varint()?),
            FIXED_64 => self.take(8).map(|_| Value::Fixed64)?,
            BYTES => {
                let len = usize::try_from(self.varint()?).ok()?;
                let offset = self.offset;
                Value::Bytes(MessageView { bytes: self.take(len)?, offset })
            }
            FIXED_32 => Value::Fixed32(self.fixed_32()?),
            _ => return None,
        };
        Some((field, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let offset = self.offset;
        let field = self.field().ok_or_else(|| {
            self.rest = &[];
            WireError::new(
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
    fn messages_are_read_back() {
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
        let part = MessageView { bytes: &bytes, offset: 0 };
        assert_eq!(part.fixed_32(1).unwrap(), Some(0x1C0));
        assert_eq!(part.message(3).unwrap().unwrap().bytes, b"three");
        assert_eq!(part.varint(7).unwrap(), None);
        let parts: Vec<MessageView<'_>> = part.messages(200).map(Result::unwrap).collect();
        assert_eq!((parts.len(), parts[0].varint(1).unwrap()), (2, Some(300)));
        assert_eq!(parts[0].fixed_32(2).unwrap().map(f32::from_bits), Some(1.5));
        assert_eq!(bytes[parts[0].offset..][..parts[0].bytes.len()], *parts[0].bytes);
    }

    #[test]
    fn damaged_messages_are_refused_with_their_offset() {
        for bytes in
            [&[0x0D, 1][..], &[0x12, 5, 1], &[0xFF; 20], &[0x0B], &[0, 0], &[0x12, 0xFF, 0xFF, 0xFF, 0x7F]]
        {
            let error = MessageView { bytes, offset: 100 }.varint(1).unwrap_err().to_string();
            assert!(error.starts_with("protocol buffer at byte 100"), "{error}");
        }
        let error = MessageView { bytes: &[0x08, 1], offset: 9 }.fixed_32(1).unwrap_err().to_string();
        assert_eq!(error, "field 1 at byte 9: has a value of another type");
    }
}
