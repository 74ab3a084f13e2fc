//! Our own format: a header that says everything, then the numbers. `docs/formats.md` describes it for others.

use super::header::{Header, lines_of};
use super::{LoadError, Reader};
use crate::architecture::*;
use crate::features::FeatureSet;
use crate::kernels::{Isa, Kernels};
use crate::network::*;

/// How a file begins. The line ends show whether it was sent as text.
pub(super) const MAGIC: &[u8] = b"TNNUE\r\n\x1A";
const VERSION: u32 = 1;
const CHECKSUM: usize = 8;

pub(super) fn read(bytes: &[u8]) -> Result<Network, LoadError> {
    let mut reader = Reader::new(bytes);
    reader.bytes("magic", MAGIC.len())?;
    reader.expect("version", VERSION)?;
    let offset = reader.at();
    let text = reader.text("header")?;
    let mut header = Header::parse(&text, offset)?;

    let architecture = header.architecture()?;
    let pawn = header.number("pawn", 1, 100_000)?;
    let description = header.take("description").unwrap_or_default();
    let flat = match architecture.head {
        HeadShape::Stacks(_) => None,
        HeadShape::Flat { .. } => Some((
            header.number("qa", 1, i16::MAX)?,
            header.number("qb", 1, i16::MAX)?,
            header.number("scale", 1, 1 << 20)?,
        )),
    };
    header.end()?;

    let (outputs, width) = (architecture.outputs, architecture.width());
    let inputs = architecture.features.inputs();
    let first = FirstLayer {
        outputs,
        width,
        bias: reader.numbers("biases of the first layer", width)?,
        weights: reader.numbers("weights of the first layer", inputs * width)?,
        psqt: match architecture.psqt {
            true => Some(reader.numbers("piece squares", inputs * PSQT_BUCKETS)?),
            false => None,
        },
    };
    let head = match (architecture.head, flat) {
        (HeadShape::Flat { activation, buckets }, Some((qa, qb, scale))) => {
            let weights = reader.numbers("output weights", 2 * outputs * buckets.count)?;
            let bias = reader.numbers("output biases", buckets.count)?.to_vec();
            Head::Flat(Flat::new(activation, [qa, qb], scale, buckets, weights, bias))
        }
        (HeadShape::Stacks(StackShape { squeeze, dual, skip, buckets, .. }), _) => {
            let layers = architecture.layers();
            let stacks = (0..buckets.count).map(|number| read_stack(&mut reader, &layers, number));
            Head::Stacks(Stacks { squeeze, dual, skip, buckets, stacks: stacks.collect::<Result<_, _>>()? })
        }
        (HeadShape::Flat { .. }, None) => unreachable!("a flat head's scales were read above"),
    };
    let end = reader.at();
    let stored = reader.bytes("checksum", CHECKSUM)?;
    reader.end()?;
    if stored != checksum(&bytes[..end]).to_le_bytes() {
        return Err(Reader::error("checksum", end, "does not fit: the file is damaged"));
    }
    let features = architecture.features;
    check_accumulators(&features, &first)?;
    Ok(Network { description, features, first, head, pawn, kernels: Kernels::new(Isa::best()) })
}

fn read_stack(reader: &mut Reader<'_>, layers: &[(usize, usize)], number: usize) -> Result<Stack, LoadError> {
    let name = |layer: &str| format!("{layer} of layer stack {number}");
    let mut dense = |field: &str, (inputs, outputs): (usize, usize)| -> Result<Dense, LoadError> {
        let offset = reader.at();
        let bias = reader.numbers::<i32>(field, outputs)?;
        check_bias(field, offset, &bias)?;
        let weights = reader.numbers(field, outputs * inputs)?;
        Ok(Dense::new(inputs, &bias, &weights, inputs))
    };
    let first = dense(&name("first layer"), layers[0])?;
    let second = dense(&name("second layer"), layers[1])?;
    let offset = reader.at();
    let last_bias = reader.i32(&name("last bias"))?;
    check_bias(&name("last bias"), offset, &[last_bias])?;
    let last = reader.numbers(&name("last layer"), layers[2].0)?.to_vec();
    Ok(Stack { first, second, last_bias, last })
}

/// Sums of products stay below 2^28 (16,384 inputs of at most 127, weights of at most 128), so they fit with a bias
/// below 2^23; and so does what a skip makes of the sum in 64 bits.
pub(crate) fn check_bias(field: &str, offset: usize, bias: &[i32]) -> Result<(), LoadError> {
    const LIMIT: u32 = 1 << 23;
    match bias.iter().find(|bias| bias.unsigned_abs() > LIMIT) {
        None => Ok(()),
        Some(bias) => Err(Reader::error(field, offset, format!("a bias of {bias} could overflow"))),
    }
}

/// Refuses a first layer whose accumulators could leave 16 bits in some position: for each king's rows and each
/// value, the bias and the greatest weights of as many squares as pieces can stand on.
pub(crate) fn check_accumulators(features: &FeatureSet, first: &FirstLayer) -> Result<(), LoadError> {
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
        let mut lines = lines_of(&self.architecture());
        lines.push(("pawn", self.pawn.to_string()));
        if !self.description.is_empty() {
            lines.push(("description", self.description.replace(['\r', '\n'], " ")));
        }
        if let Head::Flat(flat) = &self.head {
            lines.push(("qa", flat.qa.to_string()));
            lines.push(("qb", flat.qb.to_string()));
            lines.push(("scale", flat.scale.to_string()));
        }
        lines.into_iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
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
