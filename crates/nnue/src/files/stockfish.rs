//! Stockfish's `.nnue` files of versions 12 to 17, all generations before threats became inputs.
//!
//! Stockfish keeps its accumulators in 16 bits and lets them wrap, and so do the kernels here. A network
//! whose weights could leave 16 bits in some position is therefore accepted, because its values are the same
//! as in Stockfish.

use super::leb128::read_array;
use super::reader::bounded;
use super::stacks::{put_stack, read_stack};
use super::{FieldReader, LoadError, UnsupportedArchitecture, extend};
use crate::architecture::{
    Architecture, HeadShape, InputActivation, OutputBuckets, PSQT_BUCKETS, StackShape,
};
use crate::features::FeatureSet;
use crate::first_layer::FirstLayer;
use crate::kernels::Kernels;
use crate::limits::check_psqt;
use crate::network::{Dense, Head, Network, Stack, Stacks};
use tandem_util::isa::Isa;

/// File version of Stockfish 12 and 13.
pub(super) const VERSION_12: u32 = 0x7AF3_2F16;
/// File version of Stockfish 14 to 17.
pub(super) const VERSION_14: u32 = 0x7AF3_2F20;

const HALF_KP: u32 = 0x5D69_D5B8;
const HALF_KA_V2: u32 = 0x5F23_4CB8;
const HALF_KA_V2_HM: u32 = 0x7F23_4CB8;

/// Weight rows are padded to a multiple of 32 inputs.
pub(super) const PADDING: usize = 32;

/// Accumulator widths of all generations: Stockfish 14; the small networks since 16.1; 14.1, 15 and 15.1; 16;
/// a development version; 16.1; 17.
const WIDTHS: [usize; 7] = [512, 128, 1024, 1536, 2048, 2560, 3072];

/// The value of a pawn in Stockfish's internal units: the endgame pawn value before 15.1, and the one
/// normalised by win rate since.
const PAWN_12: i32 = 208;
const PAWN_15: i32 = 361;

/// Hash of a dense layer, computed from that of the layer before it.
fn affine_hash(before: u32, outputs: u32) -> u32 {
    (0xCC03_DAE4_u32.wrapping_add(outputs)) ^ (before >> 1) ^ (before << 31)
}

fn stack_hash(inputs: u32, outputs: [u32; 3]) -> u32 {
    const CLIPPED: u32 = 0x538D_24C7;
    let [first, second, last] = outputs;
    let hash = affine_hash(0xEC42_E90D ^ inputs, first).wrapping_add(CLIPPED);
    affine_hash(affine_hash(hash, second).wrapping_add(CLIPPED), last)
}

/// The architecture and the hashes of one generation of networks.
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
        // Generations with pairwise multiplication still hash twice the accumulator width.
        stack_hash(2 * self.architecture.outputs as u32, [first, second, last])
    }

    /// True if both hashes are those of this generation.
    fn has(&self, transformer: u32, file: u32) -> bool {
        self.transformer_hash() == transformer && self.stack_hash() ^ transformer == file
    }

    /// A generation without pairwise multiplication, skip connection and squared activations.
    fn plain(
        features: FeatureSet,
        features_hash: u32,
        outputs: usize,
        stack: (usize, OutputBuckets),
    ) -> Self {
        let (hidden, buckets) = stack;
        let head = HeadShape::Stacks(StackShape {
            input_activation: InputActivation::Clipped,
            squared_clipped: false,
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
        Self::plain(FeatureSet::half_kp_41024(), HALF_KP, 256, (32, OutputBuckets::ONE))
    }

    fn stockfish_14(outputs: usize) -> Self {
        Self::plain(FeatureSet::half_ka_v2(), HALF_KA_V2, outputs, (16, OutputBuckets::STOCKFISH))
    }

    fn stockfish_14_1(outputs: usize) -> Self {
        Self::plain(FeatureSet::half_ka_v2_hm(), HALF_KA_V2_HM, outputs, (8, OutputBuckets::STOCKFISH))
    }

    /// Stockfish 15.1 and later. Stockfish 15 has the same hashes, but no squared activations.
    fn stockfish_15(outputs: usize) -> Self {
        let mut shape = Self::stockfish_14_1(outputs);
        shape.architecture.head = HeadShape::Stacks(StackShape {
            input_activation: InputActivation::PairwiseMul127,
            squared_clipped: true,
            skip: true,
            hidden: 16,
            second: 32,
            buckets: OutputBuckets::STOCKFISH,
        });
        shape.pawn = PAWN_15;
        shape
    }

    /// The generation of a file of version [`VERSION_14`], from the hashes of its first layer and of the
    /// whole file.
    fn by_hash(transformer: u32, file: u32) -> Option<Self> {
        let generations = [Self::stockfish_14, Self::stockfish_14_1, Self::stockfish_15];
        let mut shapes = generations.iter().flat_map(|generation| WIDTHS.map(generation));
        shapes.find(|shape| shape.has(transformer, file))
    }
}

/// Reads a `.nnue` file.
pub(super) fn read(bytes: &[u8]) -> Result<Network, LoadError> {
    let mut reader = FieldReader::new(bytes);
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
            "{file_hash:#010x}, with {transformer_hash:#010x} at byte {transformer_at}, is not a known architecture \
             (those of Stockfish 12 to 17)"
        );
        return Err(FieldReader::error("hash of the file", hash_at, problem));
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

/// Assembles the network, and recognises those of Stockfish 15.
pub(super) fn finish(
    description: String,
    shape: Shape,
    first: FirstLayer,
    mut stacks: Vec<Stack>,
) -> Network {
    let Shape { architecture: Architecture { features, head, .. }, mut pawn, .. } = shape;
    let HeadShape::Stacks(mut stack) = head else { unreachable!("every generation has stacks") };
    if stack.squared_clipped && is_before_squares(&stacks) {
        stack.squared_clipped = false;
        pawn = PAWN_12;
        for Stack { second, .. } in &mut stacks {
            *second = narrowed(second, second.inputs / 2);
        }
    }
    let StackShape { input_activation, squared_clipped, skip, buckets, .. } = stack;
    let head = Head::Stacks(Stacks { input_activation, squared_clipped, skip, buckets, stacks });
    Network { description, features, first, head, pawn, kernels: Kernels::new(Isa::best()) }
}

/// True if a network with a skip connection is from Stockfish 15, which had no squared activations. Its
/// hashes equal those of the next generation, but all weights of the second layer's upper half of inputs are
/// zero.
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
    reader: &mut FieldReader<'_>,
    architecture: &Architecture,
) -> Result<FirstLayer, LoadError> {
    let (inputs, outputs) = (architecture.features.num_inputs(), architecture.outputs);
    let bias = read_array(reader, "biases of the first layer", outputs)?;
    let weights = read_array(reader, "weights of the first layer", inputs * outputs)?;
    let psqt = if architecture.psqt {
        let offset = reader.at();
        let psqt = read_array(reader, "piece squares", inputs * PSQT_BUCKETS)?;
        check_psqt(&psqt, architecture.features.max_active())
            .map_err(|error| FieldReader::error("piece squares", offset, error.to_string()))?;
        Some(psqt)
    } else {
        None
    };
    Ok(FirstLayer { outputs, width: outputs, bias, weights, psqt, wraps: true })
}

/// The error for a network that `format` cannot represent.
pub(super) fn unsupported(network: &Network, format: &str) -> UnsupportedArchitecture {
    UnsupportedArchitecture { architecture: network.architecture().to_string(), format: format.into() }
}

impl Network {
    /// Writes the network as an uncompressed `.nnue` file for Stockfish.
    ///
    /// # Errors
    /// The architecture is not one of these: HalfKP 256x2-32-32-1 for Stockfish 12; that of 14 or 14.1;
    /// HalfKAv2_hm with pairwise multiplication, eight stacks and piece-square values for 15.1 to 17, by its
    /// width. Stockfish 15 is not supported.
    pub fn to_stockfish(&self) -> Result<Vec<u8>, UnsupportedArchitecture> {
        let (version, shape) = self.shape().ok_or_else(|| unsupported(self, "Stockfish's"))?;
        let Head::Stacks(stacks) = &self.head else { return Err(unsupported(self, "Stockfish's")) };
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

    /// The generation with this network's architecture, and its file version.
    pub(super) fn shape(&self) -> Option<(u32, Shape)> {
        let mut own = self.architecture();
        if let HeadShape::Stacks(stack) = &mut own.head
            && stack.buckets.count == 1
        {
            stack.buckets = OutputBuckets::ONE;
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
    fn files_survive_a_round_trip() {
        let network = test_nets::stacks(FeatureSet::half_ka_v2_hm(), 128, 4);
        let bytes = network.to_stockfish().unwrap();
        let again = Network::from_bytes(&bytes).unwrap();
        assert_eq!(again.to_stockfish().unwrap(), bytes);
        assert_eq!(again.architecture(), network.architecture());
        assert!(network.to_jomfish().is_err());
        assert!(test_nets::flat(FeatureSet::plain(), 32, 1).to_stockfish().is_err());
    }

    /// The first layer's and the file's hash of every released generation. Files of 12, of 14 and of the
    /// small network are available; the other hashes come from another program's formula.
    #[test]
    fn hashes_equal_those_of_released_networks() {
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

    /// Stockfish 15 has the hashes of 15.1, but no weights for squared activations.
    #[test]
    fn networks_of_stockfish_15_are_recognised_by_zero_weights() {
        let mut network = test_nets::stacks(FeatureSet::half_ka_v2_hm(), 128, 4);
        let mut expected = network.clone();
        let [Head::Stacks(wide), Head::Stacks(narrow)] = [&mut network.head, &mut expected.head] else {
            panic!("both have stacks");
        };
        narrow.squared_clipped = false;
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

    /// All hashes differ, so the order in which generations are tried does not matter.
    #[test]
    fn every_generation_has_distinct_hashes() {
        let generations = [Shape::stockfish_14, Shape::stockfish_14_1, Shape::stockfish_15];
        let shapes = generations.iter().flat_map(|generation| WIDTHS.map(generation));
        let mut hashes: Vec<_> = shapes.map(|shape| (shape.transformer_hash(), shape.stack_hash())).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 3 * WIDTHS.len());
    }

    /// As in Stockfish, weights that could leave 16 bits are accepted; `.tnn` files mark them with `wraps`.
    #[test]
    fn networks_whose_accumulators_wrap_are_accepted() {
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
    fn long_descriptions_are_cut_at_a_character_boundary() {
        let mut network = test_nets::stacks(FeatureSet::half_ka_v2_hm(), 128, 4);
        network.description = "é".repeat(1 << 20);
        for bytes in [network.to_stockfish().unwrap(), network.to_bytes()] {
            let again = Network::from_bytes(&bytes).unwrap();
            assert_eq!(again.description(), "é".repeat(1 << 18));
        }
    }

    #[test]
    fn damaged_files_are_refused_with_the_field_at_fault() {
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
