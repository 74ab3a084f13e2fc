//! Tensors in lc0's files: 16-bit integers between the minimum and the maximum of the tensor.

use super::super::LoadError;
use crate::floats::{from_bf16, from_f16};
use tandem_util::protobuf::{Message, MessageView};

const MIN: u32 = 1;
const MAX: u32 = 2;
const PARAMS: u32 = 3;
const ENCODING: u32 = 4;

/// Largest stored integer.
const STEPS: f64 = 65535.0;

/// Number format of a tensor, which newer files may declare for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Linear16,
    Float16,
    Bfloat16,
    Float32,
}

/// Encodes a tensor as a message.
pub(super) fn write(values: &[f32]) -> Message {
    let least = values.iter().copied().fold(f32::INFINITY, f32::min);
    let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let (low, range) = (f64::from(least), f64::from(most) - f64::from(least));
    let step = |&number: &f32| {
        let fraction = if range > 0.0 { (f64::from(number) - low) / range } else { 0.0 };
        (fraction * STEPS).round() as u16
    };
    let params: Vec<u8> = values.iter().map(step).flat_map(u16::to_le_bytes).collect();
    let mut message = Message::default();
    message.float(MIN, least);
    message.float(MAX, most);
    message.bytes(PARAMS, &params);
    message
}

/// A tensor in a file, whose elements are decoded on demand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer<'a> {
    encoding: Encoding,
    range: [f32; 2],
    params: MessageView<'a>,
}

impl<'a> Layer<'a> {
    pub(super) fn new(part: MessageView<'a>) -> Result<Self, LoadError> {
        let encoding = match part.varint(ENCODING)?.unwrap_or(0) {
            0 | 1 => Encoding::Linear16,
            2 => Encoding::Float16,
            3 => Encoding::Bfloat16,
            4 => Encoding::Float32,
            other => {
                return Err(LoadError::new(
                    "encoding of a tensor",
                    part.offset,
                    format!("{other} is unknown"),
                ));
            }
        };
        let bound = |field| part.fixed_32(field).map(|word| f32::from_bits(word.unwrap_or(0)));
        let empty = MessageView { bytes: &[], offset: part.offset };
        Ok(Self {
            encoding,
            range: [bound(MIN)?, bound(MAX)?],
            params: part.message(PARAMS)?.unwrap_or(empty),
        })
    }

    pub(super) fn offset(&self) -> usize {
        self.params.offset
    }

    pub(super) fn len(&self) -> usize {
        self.params.bytes.len() / if self.encoding == Encoding::Float32 { 4 } else { 2 }
    }

    /// Largest rounding error of an element: half the distance of two stored values, and a little.
    pub(super) fn rounding(&self) -> f32 {
        match self.encoding {
            Encoding::Linear16 => {
                let [least, most] = self.range.map(f64::from);
                ((most - least) / STEPS * 0.501) as f32
            }
            Encoding::Float16 | Encoding::Bfloat16 | Encoding::Float32 => 0.0,
        }
    }

    pub(super) fn values(&self) -> Vec<f32> {
        let halves = || self.params.bytes.as_chunks().0.iter().map(|&bytes| u16::from_le_bytes(bytes));
        let [least, most] = self.range.map(f64::from);
        match self.encoding {
            // The minimum and the maximum are restored exactly.
            Encoding::Linear16 => {
                let number = |step: u16| (least * (STEPS - f64::from(step)) + most * f64::from(step)) / STEPS;
                halves().map(|step| number(step) as f32).collect()
            }
            Encoding::Float16 => halves().map(from_f16).collect(),
            Encoding::Bfloat16 => halves().map(from_bf16).collect(),
            Encoding::Float32 => {
                self.params.bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Vec<f32> {
        Layer::new(MessageView { bytes, offset: 0 }).unwrap().values()
    }

    #[test]
    fn rounding_errors_are_at_most_half_a_step_and_do_not_grow() {
        let values: Vec<f32> = (0..1000).map(|index| (index as f32 * 0.37).sin() * 3.0 + 1.7).collect();
        let bytes = write(&values).into_bytes();
        let again = read(&bytes);
        let worst = values.iter().zip(&again).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
        assert!(worst <= 6.0 / 65535.0 / 2.0 * 1.01 && worst > 0.0, "{worst}");
        assert_eq!(write(&again).into_bytes(), bytes);
    }

    #[test]
    fn few_or_equal_values_are_restored_exactly() {
        for values in [&[][..], &[0.25], &[-3.5; 4], &[1.0, 1.0 + f32::EPSILON], &[f32::MIN, f32::MAX]] {
            assert_eq!(read(&write(values).into_bytes()), values);
        }
    }

    #[test]
    fn other_encodings_are_read() {
        for (encoding, params, expected) in
            [(2, vec![0x00, 0x3C], 1.0), (3, vec![0x80, 0x3F], 1.0), (4, 0.1f32.to_le_bytes().to_vec(), 0.1)]
        {
            let mut message = Message::default();
            message.bytes(PARAMS, &params);
            message.varint(ENCODING, encoding);
            assert_eq!(read(&message.into_bytes()), [expected]);
        }
        let mut message = Message::default();
        message.varint(ENCODING, 9);
        let bytes = message.into_bytes();
        assert!(Layer::new(MessageView { bytes: &bytes, offset: 3 }).is_err());
    }
}
