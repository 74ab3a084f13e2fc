//! Our own format: a header that says everything, then the numbers. `docs/formats.md` describes it for others.

use super::{LoadError, Reader};
use crate::features::FeatureSet;
use crate::kernels::{Activation, Isa, Kernels};
use crate::network::*;
use std::collections::BTreeMap;
use std::fmt::Write;

/// How a file begins. The line ends show whether it was sent as text.
pub(super) const MAGIC: &[u8] = b"TNNUE\r\n\x1A";
const VERSION: u32 = 1;
const CHECKSUM: usize = 8;

/// The header's text, line by line: a key, ` = `, a value.
struct Header {
    values: BTreeMap<String, String>,
    offset: usize,
}

impl Header {
    fn parse(text: &str, offset: usize) -> Result<Self, LoadError> {
        let mut values = BTreeMap::new();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(" = ") else {
                return Err(Reader::error("header", offset, format!("{line:?} is no \"key = value\"")));
            };
            if values.insert(key.into(), value.into()).is_some() {
                return Err(Reader::error("header", offset, format!("{key} stands there twice")));
            }
        }
        Ok(Self { values, offset })
    }

    fn error(&self, key: &str, problem: impl Into<String>) -> LoadError {
        Reader::error(&format!("{key} in the header"), self.offset, problem)
    }

    fn take(&mut self, key: &str) -> Result<String, LoadError> {
        self.values.remove(key).ok_or_else(|| self.error(key, "missing"))
    }

    fn number<T: std::str::FromStr + PartialOrd + std::fmt::Display>(
        &mut self,
        key: &str,
        least: T,
        most: T,
    ) -> Result<T, LoadError> {
        let text = self.take(key)?;
        match text.parse() {
            Ok(number) if number >= least && number <= most => Ok(number),
            _ => Err(self.error(key, format!("{text:?} is no number from {least} to {most}"))),
        }
    }

    fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> Result<T, LoadError> {
        let text = self.take(key)?;
        let found = choices.iter().find(|(name, _)| *name == text);
        found.map(|&(_, choice)| choice).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|&(name, _)| name).collect();
            self.error(key, format!("{text:?} is none of {}", names.join(", ")))
        })
    }

    fn buckets(&mut self) -> Result<Buckets, LoadError> {
        Ok(Buckets {
            count: self.number("buckets", 1, 32)?,
            less: self.number("bucket-less", 0, 32)?,
            pieces: self.number("bucket-pieces", 1, 32)?,
        })
    }

    /// Every key must have been asked for.
    fn end(self) -> Result<(), LoadError> {
        match self.values.keys().next() {
            None => Ok(()),
            Some(key) => Err(self.error(key, "unknown key")),
        }
    }
}

const YES: &[(&str, bool)] = &[("yes", true), ("no", false)];
const ACTIVATIONS: &[(&str, Activation)] =
    &[("relu", Activation::Relu), ("crelu", Activation::Crelu), ("screlu", Activation::Screlu)];
/// Pairwise products by their scale: what stands for one, and the shift that brings the product to at most 127.
const SQUEEZES: &[(&str, Squeeze)] = &[
    ("clip", Squeeze::Clip),
    ("pairwise-127", Squeeze::Pairwise { max: 127, shift: 7 }),
    ("pairwise-255", Squeeze::Pairwise { max: 255, shift: 9 }),
];

fn name_of<T: PartialEq>(choices: &[(&'static str, T)], wanted: &T) -> &'static str {
    choices.iter().find(|(_, choice)| choice == wanted).map_or("?", |&(name, _)| name)
}

pub(super) fn read(bytes: &[u8]) -> Result<Network, LoadError> {
    let mut reader = Reader::new(bytes);
    reader.bytes("magic", MAGIC.len())?;
    reader.expect("version", VERSION)?;
    let offset = reader.at();
    let text = reader.text("header")?;
    let mut header = Header::parse(&text, offset)?;

    let features = header.take("features")?;
    let features =
        FeatureSet::by_name(&features).map_err(|unknown| header.error("features", unknown.to_string()))?;
    let outputs = header.number("outputs", 32, 1 << 14)?;
    super::single::check_outputs(outputs, offset)?;
    let tied = header.choice("tied", YES)?;
    let psqt = header.choice("psqt", YES)?;
    let pawn = header.number("pawn", 1, 100_000)?;
    let description = header.take("description").unwrap_or_default();
    let head = header.choice("head", &[("flat", false), ("stacks", true)])?;

    let width = if tied { outputs } else { 2 * outputs };
    let inputs = features.inputs();
    let read_first = |reader: &mut Reader<'_>| -> Result<FirstLayer, LoadError> {
        Ok(FirstLayer {
            outputs,
            width,
            bias: reader.numbers("biases of the first layer", width)?,
            weights: reader.numbers("weights of the first layer", inputs * width)?,
            psqt: match psqt {
                true => Some(reader.numbers("piece squares", inputs * PSQT_BUCKETS)?),
                false => None,
            },
        })
    };
    let (first, head) = if head {
        let squeeze = header.choice("squeeze", SQUEEZES)?;
        let dual = header.choice("dual", YES)?;
        let skip = header.choice("skip", YES)?;
        let hidden = header.number("hidden", 2, MAX_OUTPUTS)?;
        let second = header.number("second", 1, MAX_OUTPUTS)?;
        let buckets = header.buckets()?;
        header.end()?;
        let first = read_first(&mut reader)?;
        let shape = StackShape { squeeze, dual, skip, hidden, second, outputs };
        let stacks = (0..buckets.count).map(|number| read_stack(&mut reader, &shape, number));
        let stacks = stacks.collect::<Result<_, _>>()?;
        (first, Head::Stacks(Stacks { squeeze, dual, skip, buckets, stacks }))
    } else {
        let activation = header.choice("activation", ACTIVATIONS)?;
        let qa = header.number("qa", 1, i16::MAX)?;
        let qb = header.number("qb", 1, i16::MAX)?;
        let scale = header.number("scale", 1, 1 << 20)?;
        let buckets = header.buckets()?;
        header.end()?;
        let first = read_first(&mut reader)?;
        let weights = reader.numbers("output weights", 2 * outputs * buckets.count)?;
        let bias = reader.numbers("output biases", buckets.count)?.to_vec();
        let mut flat = Flat { activation, qa, qb, scale, buckets, weights, bias, wide: false };
        flat.wide = flat.needs_wide();
        (first, Head::Flat(flat))
    };
    let end = reader.at();
    let stored = reader.bytes("checksum", CHECKSUM)?;
    reader.end()?;
    if stored != checksum(&bytes[..end]).to_le_bytes() {
        return Err(Reader::error("checksum", end, "does not fit: the file is damaged"));
    }
    check_accumulators(&features, &first)?;
    Ok(Network { description, features, first, head, pawn, kernels: Kernels::new(Isa::best()) })
}

struct StackShape {
    squeeze: Squeeze,
    dual: bool,
    skip: bool,
    hidden: usize,
    second: usize,
    outputs: usize,
}

fn read_stack(reader: &mut Reader<'_>, shape: &StackShape, number: usize) -> Result<Stack, LoadError> {
    let name = |layer: &str| format!("{layer} of layer stack {number}");
    let inputs = if shape.squeeze == Squeeze::Clip { 2 * shape.outputs } else { shape.outputs };
    let kept = shape.hidden - usize::from(shape.skip);
    let second_inputs = if shape.dual { 2 * kept } else { kept };
    let mut dense = |field: &str, inputs: usize, outputs: usize| -> Result<Dense, LoadError> {
        let offset = reader.at();
        let bias = reader.numbers::<i32>(field, outputs)?;
        check_bias(field, offset, &bias)?;
        let weights = reader.numbers(field, outputs * inputs)?;
        Ok(Dense::new(inputs, &bias, &weights, inputs))
    };
    let first = dense(&name("first layer"), inputs, shape.hidden)?;
    let second = dense(&name("second layer"), second_inputs, shape.second)?;
    let offset = reader.at();
    let last_bias = reader.i32(&name("last bias"))?;
    check_bias(&name("last bias"), offset, &[last_bias])?;
    let last = reader.numbers(&name("last layer"), shape.second)?.to_vec();
    Ok(Stack { first, second, last_bias, last })
}

/// Sums of products stay below 2^28 (16,384 inputs of at most 127, weights of at most 128), so they fit with a bias
/// below 2^23; and so does what a skip makes of the sum in 64 bits.
pub(super) fn check_bias(field: &str, offset: usize, bias: &[i32]) -> Result<(), LoadError> {
    const LIMIT: u32 = 1 << 23;
    match bias.iter().find(|bias| bias.unsigned_abs() > LIMIT) {
        None => Ok(()),
        Some(bias) => Err(Reader::error(field, offset, format!("a bias of {bias} could overflow"))),
    }
}

/// Refuses a first layer whose accumulators could leave 16 bits in some position: for each king's rows and each
/// value, the bias and the greatest weights of as many squares as pieces can stand on.
pub(super) fn check_accumulators(features: &FeatureSet, first: &FirstLayer) -> Result<(), LoadError> {
    let rows = features.inputs() / features.kings();
    let active = features.max_active();
    for bucket in 0..features.kings() {
        let weights = &first.weights[bucket * rows * first.width..][..rows * first.width];
        // A cheap bound first; only what it cannot clear is looked at closely.
        let mut greatest = vec![0u16; first.width];
        for row in weights.chunks_exact(first.width) {
            for (most, weight) in greatest.iter_mut().zip(row) {
                *most = (*most).max(weight.unsigned_abs());
            }
        }
        for (column, &most) in greatest.iter().enumerate() {
            let bias = i64::from(first.bias[column]).abs();
            if bias + i64::from(most) * active as i64 > i64::from(i16::MAX) {
                let sum = bias + greatest_sum(weights, first.width, column, active);
                if sum > i64::from(i16::MAX) {
                    let problem = format!(
                        "value {column} could reach {sum} with the king in bucket {bucket}: it would overflow"
                    );
                    return Err(Reader::error("weights of the first layer", 0, problem));
                }
            }
        }
    }
    Ok(())
}

/// The greatest sum, up or down, of so many weights of one column.
fn greatest_sum(weights: &[i16], width: usize, column: usize, count: usize) -> i64 {
    let mut values: Vec<i16> = weights.iter().skip(column).step_by(width).copied().collect();
    values.sort_unstable();
    let down: i64 = values.iter().take(count).map(|&value| i64::from(value.min(0))).sum();
    let up: i64 = values.iter().rev().take(count).map(|&value| i64::from(value.max(0))).sum();
    up.max(-down)
}

/// A hash of eight bytes at a time; the last ones are filled up with zeros, and the length counts too.
fn checksum(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut hash = bytes.len() as u64;
    for word in bytes.chunks(8) {
        let mut padded = [0; 8];
        padded[..word.len()].copy_from_slice(word);
        hash = (hash ^ u64::from_le_bytes(padded)).wrapping_mul(FACTOR).rotate_left(29);
    }
    hash
}

impl Network {
    /// The network as a file of our own format.
    pub fn to_bytes(&self) -> Vec<u8> {
        let text = self.header();
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
        extend(&mut bytes, &self.first.bias, i16::to_le_bytes);
        extend(&mut bytes, &self.first.weights, i16::to_le_bytes);
        if let Some(psqt) = &self.first.psqt {
            extend(&mut bytes, psqt, i32::to_le_bytes);
        }
        match &self.head {
            Head::Flat(flat) => {
                extend(&mut bytes, &flat.weights, i16::to_le_bytes);
                extend(&mut bytes, &flat.bias, i32::to_le_bytes);
            }
            Head::Stacks(stacks) => {
                for stack in &stacks.stacks {
                    for dense in [&stack.first, &stack.second] {
                        extend(&mut bytes, dense.bias(), i32::to_le_bytes);
                        for output in 0..dense.outputs {
                            bytes.extend(dense.row(output).map(|weight| weight as u8));
                        }
                    }
                    bytes.extend(stack.last_bias.to_le_bytes());
                    bytes.extend(stack.last.iter().map(|&weight| weight as u8));
                }
            }
        }
        bytes.extend(checksum(&bytes).to_le_bytes());
        bytes
    }

    fn header(&self) -> String {
        let yes = |is: bool| name_of(YES, &is);
        let mut text = String::new();
        let mut line = |key: &str, value: &dyn std::fmt::Display| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{key} = {value}");
        };
        line("features", &self.features.name());
        line("outputs", &self.first.outputs);
        line("tied", &yes(self.first.is_tied()));
        line("psqt", &yes(self.first.psqt.is_some()));
        line("pawn", &self.pawn);
        if !self.description.is_empty() {
            line("description", &self.description.replace(['\r', '\n'], " "));
        }
        let buckets = match &self.head {
            Head::Flat(flat) => {
                line("head", &"flat");
                line("activation", &name_of(ACTIVATIONS, &flat.activation));
                line("qa", &flat.qa);
                line("qb", &flat.qb);
                line("scale", &flat.scale);
                flat.buckets
            }
            Head::Stacks(stacks) => {
                line("head", &"stacks");
                line("squeeze", &name_of(SQUEEZES, &stacks.squeeze));
                line("dual", &yes(stacks.dual));
                line("skip", &yes(stacks.skip));
                line("hidden", &stacks.stacks[0].first.outputs);
                line("second", &stacks.stacks[0].second.outputs);
                stacks.buckets
            }
        };
        line("buckets", &buckets.count);
        line("bucket-less", &buckets.less);
        line("bucket-pieces", &buckets.pieces);
        text
    }
}

/// Numbers, one after the other.
pub(super) fn extend<T: Copy, const N: usize>(
    bytes: &mut Vec<u8>,
    numbers: &[T],
    to_le: impl Fn(T) -> [u8; N],
) {
    bytes.reserve(N * numbers.len());
    for &number in numbers {
        bytes.extend(to_le(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::tests::random_positions;
    use crate::test_nets;

    fn nets() -> [Network; 3] {
        [
            test_nets::flat(FeatureSet::plain(), 32, 1),
            test_nets::stacks(FeatureSet::half_ka_v2_hm(), 64, 2),
            test_nets::untied(FeatureSet::half_kp(), 32, 3),
        ]
    }

    #[test]
    fn what_is_written_is_read_again() {
        for network in nets() {
            let bytes = network.to_bytes();
            let again = Network::from_bytes(&bytes).unwrap();
            assert_eq!(again.to_bytes(), bytes);
            for position in random_positions(21, 50) {
                assert_eq!(again.evaluate(position.board()), network.evaluate(position.board()));
            }
        }
    }

    #[test]
    fn every_cut_and_every_damage_is_refused() {
        let bytes = test_nets::flat(FeatureSet::plain(), 32, 1).to_bytes();
        for len in [0, 3, 8, 11, 12, 15, 100, 400, bytes.len() / 2, bytes.len() - 9, bytes.len() - 1] {
            let error = Network::from_bytes(&bytes[..len]).unwrap_err();
            assert!(error.offset <= len, "{error}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(Network::from_bytes(&longer).unwrap_err().field, "end of file");
        for at in [20, 60, bytes.len() / 2, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            assert!(Network::from_bytes(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn weights_that_could_overflow_are_refused() {
        let mut network = test_nets::flat(FeatureSet::plain(), 32, 1);
        for row in 0..40 {
            network.first.weights[row * 32 + 5] = 1500;
        }
        let error = Network::from_bytes(&network.to_bytes()).unwrap_err();
        assert!(error.problem.contains("value 5 could reach"), "{error}");
    }
}
