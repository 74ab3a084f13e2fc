//! Stockfish's `.nnue` of all generations before threats became inputs.
//!
//! Stockfish keeps its accumulators in 16 bits and lets them wrap, and so do our kernels: a network whose weights could
//! leave 16 bits in some position is read as it is, for that is what Stockfish makes of it.

use super::leb128::read_array;
use super::reader::bounded;
use super::stacks::{put_stack, read_stack};
use super::{LoadError, Reader, UnfitNetwork, extend};
use crate::architecture::{Architecture, Buckets, HeadShape, PSQT_BUCKETS, Squeeze, StackShape};
use crate::features::FeatureSet;
use crate::kernels::{Isa, Kernels};
use crate::limits::check_psqt;
use crate::network::{Dense, FirstLayer, Head, Network, Stack, Stacks};

/// Stockfish 12 and 13.
pub(super) const VERSION_12: u32 = 0x7AF3_2F16;
/// Stockfish 14 to 17.
pub(super) const VERSION_14: u32 = 0x7AF3_2F20;

const HALF_KP: u32 = 0x5D69_D5B8;
const HALF_KA_V2: u32 = 0x5F23_4CB8;
const HALF_KA_V2_HM: u32 = 0x7F23_4CB8;

/// Rows of weights are padded to whole vectors of so many inputs.
pub(super) const PADDING: usize = 32;

/// The widths of accumulators that the generations have had: those of Stockfish 14; of the small networks since 16.1;
/// of 14.1, 15 and 15.1; of 16; of the time between; of 16.1; of 17.
const WIDTHS: [usize; 7] = [512, 128, 1024, 1536, 2048, 2560, 3072];

/// What a pawn is worth in Stockfish's own units: by the end of a game, before 15.1; by its chances, since.
const PAWN_12: i32 = 208;
const PAWN_15: i32 = 361;

/// The hash that each layer mixes into that of the layer before it.
fn affine_hash(before: u32, outputs: u32) -> u32 {
    (0xCC03_DAE4_u32.wrapping_add(outputs)) ^ (before >> 1) ^ (before << 31)
}

fn stack_hash(inputs: u32, outputs: [u32; 3]) -> u32 {
    const CLIPPED: u32 = 0x538D_24C7;
    let [first, second, last] = outputs;
    let hash = affine_hash(0xEC42_E90D ^ inputs, first).wrapping_add(CLIPPED);
    affine_hash(affine_hash(hash, second).wrapping_add(CLIPPED), last)
}

/// A generation.
pub(super) struct Shape {
    pub(super) architecture: Architecture,
    features_hash: u32,
    pub(super) pawn: i32,
}

impl Shape {
    fn transformer_hash(&self) -> u32 {
        self.features_hash ^ (2 * self.architecture.outputs as u32)
    }

    fn stack_hash(&self) -> u32 {
        let [first, second, last] = [0, 1, 2].map(|layer| self.architecture.layers()[layer].1 as u32);
        // Pairwise generations still sign with twice the accumulator.
        stack_hash(2 * self.architecture.outputs as u32, [first, second, last])
    }

    /// Whether both hashes are those of this generation.
    fn has(&self, transformer: u32, file: u32) -> bool {
        self.transformer_hash() == transformer && self.stack_hash() ^ transformer == file
    }

    /// One without pairs, skips and squares.
    fn plain(features: FeatureSet, features_hash: u32, outputs: usize, stack: (usize, Buckets)) -> Self {
        let (hidden, buckets) = stack;
        let head = HeadShape::Stacks(StackShape {
            squeeze: Squeeze::Clip,
            dual: false,
            skip: false,
            hidden,
            second: 32,
            buckets,
        });
        let psqt = buckets.count > 1;
        let architecture = Architecture { features, outputs, tied: true, psqt, head };
        Self { architecture, features_hash, pawn: PAWN_12 }
    }

    pub(super) fn stockfish_12() -> Self {
        Self::plain(FeatureSet::half_kp_41024(), HALF_KP, 256, (32, Buckets::ONE))
    }

    fn stockfish_14(outputs: usize) -> Self {
        Self::plain(FeatureSet::half_ka_v2(), HALF_KA_V2, outputs, (16, Buckets::STOCKFISH))
    }

    fn stockfish_14_1(outputs: usize) -> Self {
        Self::plain(FeatureSet::half_ka_v2_hm(), HALF_KA_V2_HM, outputs, (8, Buckets::STOCKFISH))
    }

    /// From 15.1 on. Stockfish 15, which did not square yet, has the same hashes.
    fn stockfish_15(outputs: usize) -> Self {
        let mut shape = Self::stockfish_14_1(outputs);
        shape.architecture.head = HeadShape::Stacks(StackShape {
            squeeze: Squeeze::Pairwise127,
            dual: true,
            skip: true,
            hidden: 16,
            second: 32,
            buckets: Buckets::STOCKFISH,
        });
        shape.pawn = PAWN_15;
        shape
    }

    /// The generation of a file of version [`VERSION_14`], by the hash of its first layer and of the whole.
    fn by_hash(transformer: u32, file: u32) -> Option<Self> {
        let generations = [Self::stockfish_14, Self::stockfish_14_1, Self::stockfish_15];
        let mut shapes = generations.iter().flat_map(|generation| WIDTHS.map(generation));
        shapes.find(|shape| shape.has(transformer, file))
    }
}

/// Reads a `.nnue`.
pub(super) fn read(bytes: &[u8]) -> Result<Network, LoadError> {
    let mut reader = Reader::new(bytes);
    let version = reader.u32("version")?;
    let hash_at = reader.at();
    let file_hash = reader.u32("hash of the file")?;
    let description = reader.text("description")?;
    let transformer_at = reader.at();
    let transformer_hash = reader.u32("hash of the first layer")?;
    let shape = if version == VERSION_12 {
        Some(Shape::stockfish_12()).filter(|shape| shape.has(transformer_hash, file_hash))
    } else {
        Shape::by_hash(transformer_hash, file_hash)
    };
    let Some(shape) = shape else {
        let problem = format!(
            "{file_hash:#010x}, with {transformer_hash:#010x} at byte {transformer_at}, is no architecture we know \
             (those of Stockfish 12 to 17)"
        );
        return Err(Reader::error("hash of the file", hash_at, problem));
    };
    let first = read_first_layer(&mut reader, &shape.architecture)?;
    let layers = shape.architecture.layers();
    let mut stacks = Vec::new();
    for number in 0..shape.architecture.buckets().count {
        reader.expect(&format!("hash of layer stack {number}"), shape.stack_hash())?;
        stacks.push(read_stack(&mut reader, &layers, PADDING, number)?);
    }
    reader.end()?;
    Ok(finish(description, shape, first, stacks))
}

/// Puts a network together.
pub(super) fn finish(
    description: String,
    shape: Shape,
    first: FirstLayer,
    mut stacks: Vec<Stack>,
) -> Network {
    let Shape { architecture: Architecture { features, head, .. }, mut pawn, .. } = shape;
    let HeadShape::Stacks(mut stack) = head else { unreachable!("every generation has stacks") };
    if stack.dual && is_before_squares(&stacks) {
        stack.dual = false;
        pawn = PAWN_12;
        for Stack { second, .. } in &mut stacks {
            *second = narrowed(second, second.inputs / 2);
        }
    }
    let StackShape { squeeze, dual, skip, buckets, .. } = stack;
    let head = Head::Stacks(Stacks { squeeze, dual, skip, buckets, stacks });
    Network { description, features, first, head, pawn, kernels: Kernels::new(Isa::best()) }
}

/// Whether a network with a skip is of the generation of Stockfish 15, which did not square: its hashes are those of
/// the next one, but nothing meets the second half of the inputs of its second layer.
fn is_before_squares(stacks: &[Stack]) -> bool {
    stacks.iter().all(|stack| {
        (0..stack.second.outputs).all(|output| stack.second.row(output).skip(15).all(|weight| weight == 0))
    })
}

fn narrowed(dense: &Dense, inputs: usize) -> Dense {
    let rows: Vec<i8> = (0..dense.outputs).flat_map(|output| dense.row(output).take(inputs)).collect();
    Dense::new(inputs, dense.bias(), &rows, inputs)
}

pub(super) fn read_first_layer(
    reader: &mut Reader<'_>,
    architecture: &Architecture,
) -> Result<FirstLayer, LoadError> {
    let (inputs, outputs) = (architecture.features.inputs(), architecture.outputs);
    let bias = read_array(reader, "biases of the first layer", outputs)?;
    let weights = read_array(reader, "weights of the first layer", inputs * outputs)?;
    let psqt = if architecture.psqt {
        let offset = reader.at();
        let psqt = read_array(reader, "piece squares", inputs * PSQT_BUCKETS)?;
        check_psqt(&psqt, architecture.features.max_active())
            .map_err(|error| Reader::error("piece squares", offset, error.to_string()))?;
        Some(psqt)
    } else {
        None
    };
    Ok(FirstLayer { outputs, width: outputs, bias, weights, psqt, wraps: true })
}

/// A network that a format has no place for.
pub(super) fn unfit(network: &Network, format: &str) -> UnfitNetwork {
    UnfitNetwork { architecture: network.architecture().to_string(), format: format.into() }
}

impl Network {
    /// The network as a file for Stockfish, not packed, if it has the architecture of a generation that we read other
    /// than 15's: HalfKP 256x2-32-32-1 for Stockfish 12; HalfKAv2_hm with pairwise products, eight stacks and piece
    /// squares for 15.1 to 17, by its width.
    pub fn to_stockfish(&self) -> Result<Vec<u8>, UnfitNetwork> {
        let (version, shape) = self.shape().ok_or_else(|| unfit(self, "Stockfish's"))?;
        let Head::Stacks(stacks) = &self.head else { return Err(unfit(self, "Stockfish's")) };
        let mut bytes = Vec::new();
        put_u32(&mut bytes, version);
        put_u32(&mut bytes, shape.transformer_hash() ^ shape.stack_hash());
        put_text(&mut bytes, &self.description);
        put_u32(&mut bytes, shape.transformer_hash());
        put_first_layer(&mut bytes, &self.first);
        for stack in &stacks.stacks {
            put_u32(&mut bytes, shape.stack_hash());
            put_stack(&mut bytes, stack, PADDING);
        }
        Ok(bytes)
    }

    /// The generation whose architecture this network has, and its version.
    pub(super) fn shape(&self) -> Option<(u32, Shape)> {
        let mut own = self.architecture();
        if let HeadShape::Stacks(stack) = &mut own.head
            && stack.buckets.count == 1
        {
            stack.buckets = Buckets::ONE;
        }
        let generations = [Shape::stockfish_14, Shape::stockfish_14_1, Shape::stockfish_15];
        let shapes = generations.map(|generation| (VERSION_14, generation(own.outputs)));
        let mut shapes = shapes.into_iter().chain([(VERSION_12, Shape::stockfish_12())]);
        shapes
            .find(|(_, shape)| shape.architecture == own)
            .filter(|(version, _)| *version == VERSION_12 || WIDTHS.contains(&own.outputs))
    }
}

pub(super) fn put_u32(bytes: &mut Vec<u8>, number: u32) {
    bytes.extend(number.to_le_bytes());
}

pub(super) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let text = bounded(text);
    put_u32(bytes, text.len() as u32);
    bytes.extend(text.as_bytes());
}

pub(super) fn put_first_layer(bytes: &mut Vec<u8>, first: &FirstLayer) {
    extend(bytes, &first.bias, i16::to_le_bytes);
    extend(bytes, &first.weights, i16::to_le_bytes);
    if let Some(psqt) = &first.psqt {
        extend(bytes, psqt, i32::to_le_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_nets;

    #[test]
    fn what_is_written_is_read_again() {
        let network = test_nets::stacks(FeatureSet::half_ka_v2_hm(), 128, 4);
        let bytes = network.to_stockfish().unwrap();
        let again = Network::from_bytes(&bytes).unwrap();
        assert_eq!(again.to_stockfish().unwrap(), bytes);
        assert_eq!(again.architecture(), network.architecture());
        assert!(network.to_jomfish().is_err());
        assert!(test_nets::flat(FeatureSet::plain(), 32, 1).to_stockfish().is_err());
    }

    /// The first layer's and the file's hash of every generation that was released. The files of 12, of 14 and of the
    /// small network are at hand, and the rest come from another program's formula.
    #[test]
    fn hashes_are_those_of_the_field() {
        assert!(Shape::stockfish_12().has(0x5D69_D7B8, 0x3E5A_A6EE));
        assert_eq!(Shape::stockfish_12().stack_hash(), 0x6333_7156);
        let released: [(u32, u32, Shape); 8] = [
            (0x5F23_48B8, 0x3C10_3E72, Shape::stockfish_14(512)),
            (0x7F23_44B8, 0x1C10_2EEC, Shape::stockfish_14_1(1024)),
            (0x7F23_44B8, 0x1C10_2EF2, Shape::stockfish_15(1024)),
            (0x7F23_4DB8, 0x1C10_3C92, Shape::stockfish_15(128)),
            (0x7F23_40B8, 0x1C10_2B72, Shape::stockfish_15(1536)),
            (0x7F23_5CB8, 0x1C10_37F2, Shape::stockfish_15(2048)),
            (0x7F23_58B8, 0x1C10_3072, Shape::stockfish_15(2560)),
            (0x7F23_54B8, 0x1C10_20F2, Shape::stockfish_15(3072)),
        ];
        for (transformer, file, shape) in released {
            let found = Shape::by_hash(transformer, file).unwrap();
            assert_eq!((found.architecture, found.pawn), (shape.architecture, shape.pawn));
        }
        assert!(Shape::by_hash(0x7F23_54B8, 0x1C10_3072).is_none());
    }

    /// Stockfish 15 has the hashes of 15.1, and nothing that would meet squares.
    #[test]
    fn networks_of_stockfish_15_are_known_by_their_zeros() {
        let mut network = test_nets::stacks(FeatureSet::half_ka_v2_hm(), 128, 4);
        let mut expected = network.clone();
        let [Head::Stacks(wide), Head::Stacks(narrow)] = [&mut network.head, &mut expected.head] else {
            panic!("both have stacks");
        };
        narrow.dual = false;
        for (wide, narrow) in wide.stacks.iter_mut().zip(&mut narrow.stacks) {
            let mut rows = [0; 32 * 32];
            for (output, row) in rows.chunks_exact_mut(32).enumerate() {
                row.iter_mut().zip(wide.second.row(output).take(15)).for_each(|(to, weight)| *to = weight);
            }
            narrow.second = Dense::new(15, wide.second.bias(), &rows, 32);
            wide.second = Dense::new(30, wide.second.bias(), &rows, 32);
        }
        let read = Network::from_bytes(&network.to_stockfish().unwrap()).unwrap();
        assert_eq!((read.architecture(), read.pawn), (expected.architecture(), PAWN_12));
        for position in crate::features::tests::random_positions(62, 20) {
            let [left, right] = [&read, &expected].map(|network| network.evaluate(position.board()));
            assert_eq!(left.raw_parts(), right.raw_parts());
        }
    }

    /// No two generations have the same hashes, so that it does not matter which is looked at first.
    #[test]
    fn hashes_tell_generations_apart() {
        let generations = [Shape::stockfish_14, Shape::stockfish_14_1, Shape::stockfish_15];
        let shapes = generations.iter().flat_map(|generation| WIDTHS.map(generation));
        let mut hashes: Vec<_> = shapes.map(|shape| (shape.transformer_hash(), shape.stack_hash())).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 3 * WIDTHS.len());
    }

    /// As Stockfish does: weights that could leave 16 bits are read, and our own format carries them with a word.
    #[test]
    fn accumulators_may_wrap() {
        let mut network = test_nets::stacks(FeatureSet::half_ka_v2_hm(), 128, 4);
        network.first.weights.iter_mut().step_by(128).for_each(|weight| *weight = 20_000);
        let read = Network::from_bytes(&network.to_stockfish().unwrap()).unwrap();
        let bytes = read.to_bytes();
        assert!(bytes.windows(12).any(|part| part == b"wraps = yes\n"));
        let again = Network::from_bytes(&bytes).unwrap();
        assert_eq!(again.to_bytes(), bytes);
        for position in crate::features::tests::random_positions(61, 20) {
            let [left, right] = [&again, &network].map(|network| network.evaluate(position.board()));
            assert_eq!(left.raw_parts(), right.raw_parts());
        }
        let error = Network::from_bytes(&network.to_bytes()).unwrap_err();
        assert!(error.problem.contains("would overflow"), "{error}");
        assert!(read.to_float().quantise(crate::Quantisation::default()).is_err());
    }

    #[test]
    fn long_descriptions_are_cut_where_a_letter_ends() {
        let mut network = test_nets::stacks(FeatureSet::half_ka_v2_hm(), 128, 4);
        network.description = "é".repeat(1 << 20);
        for bytes in [network.to_stockfish().unwrap(), network.to_bytes()] {
            let again = Network::from_bytes(&bytes).unwrap();
            assert_eq!(again.description(), "é".repeat(1 << 18));
        }
    }

    #[test]
    fn damage_is_refused_and_named() {
        let bytes = test_nets::stacks(FeatureSet::half_ka_v2_hm(), 128, 4).to_stockfish().unwrap();
        for len in [5, 9, 15, 1000, bytes.len() - 1] {
            assert!(Network::from_bytes(&bytes[..len]).unwrap_err().offset <= len);
        }
        let mut hash = bytes.clone();
        hash[4] ^= 1;
        assert_eq!(Network::from_bytes(&hash).unwrap_err().field, "hash of the file");
        let mut absurd = bytes;
        absurd[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Network::from_bytes(&absurd).unwrap_err().problem.contains("absurd"));
    }
}
