//! Stockfish's `.nnue` of all generations before threats became inputs, and Jomfish's `.jnn`, which has the shape of
//! the first.

use super::own::{check_bias, extend};
use super::{LoadError, Reader, UnfitNetwork};
use crate::aligned::Aligned;
use crate::architecture::{Architecture, Buckets, HeadShape, PSQT_BUCKETS, Squeeze, StackShape};
use crate::features::FeatureSet;
use crate::float::FloatNetwork;
use crate::kernels::{Isa, Kernels};
use crate::network::{Dense, FirstLayer, Head, Network, Stack, Stacks};

/// Stockfish 12 and 13.
pub(super) const VERSION_12: u32 = 0x7AF3_2F16;
/// Stockfish 14 to 17.
pub(super) const VERSION_14: u32 = 0x7AF3_2F20;
pub(super) const JOMFISH_MAGIC: u32 = 0x4A4F_4D46;
const JOMFISH_VERSION: u32 = 0x0001_0001;

const HALF_KP: u32 = 0x5D69_D5B8;
const HALF_KA_V2: u32 = 0x5F23_4CB8;
const HALF_KA_V2_HM: u32 = 0x7F23_4CB8;

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

/// What sets one generation apart from another.
struct Shape {
    features: FeatureSet,
    features_hash: u32,
    /// Values of one side's accumulator.
    outputs: usize,
    psqt: bool,
    squeeze: Squeeze,
    /// Outputs of the first dense layer.
    hidden: usize,
    skip: bool,
    stacks: usize,
    pawn: i32,
}

impl Shape {
    fn transformer_hash(&self) -> u32 {
        self.features_hash ^ (2 * self.outputs as u32)
    }

    /// Inputs of the first dense layer.
    fn inputs(&self) -> usize {
        if self.squeeze == Squeeze::Clip { 2 * self.outputs } else { self.outputs }
    }

    fn stack_hash(&self) -> u32 {
        // Pairwise generations still sign with twice the accumulator.
        stack_hash(2 * self.outputs as u32, [self.hidden as u32, 32, 1])
    }

    fn stockfish_12() -> Self {
        Self {
            features: FeatureSet::half_kp_41024(),
            features_hash: HALF_KP,
            outputs: 256,
            psqt: false,
            squeeze: Squeeze::Clip,
            hidden: 32,
            skip: false,
            stacks: 1,
            pawn: PAWN_12,
        }
    }

    /// The generation of a file of version [`VERSION_14`], by the hash of its first layer and of the whole.
    fn by_hash(transformer: u32, file: u32) -> Option<Self> {
        let widths = [512, 128, 1024, 1536, 3072];
        let old = |features, features_hash, hidden| {
            move |outputs| Self {
                features,
                features_hash,
                outputs,
                psqt: true,
                squeeze: Squeeze::Clip,
                hidden,
                skip: false,
                stacks: 8,
                pawn: PAWN_12,
            }
        };
        let candidates = widths.into_iter().flat_map(|outputs| {
            [
                old(FeatureSet::half_ka_v2(), HALF_KA_V2, 16)(outputs),
                old(FeatureSet::half_ka_v2_hm(), HALF_KA_V2_HM, 16)(outputs),
                old(FeatureSet::half_ka_v2_hm(), HALF_KA_V2_HM, 8)(outputs),
                Self {
                    squeeze: Squeeze::Pairwise127,
                    skip: true,
                    pawn: PAWN_15,
                    ..old(FeatureSet::half_ka_v2_hm(), HALF_KA_V2_HM, 16)(outputs)
                },
            ]
        });
        let mut found: Vec<Self> = candidates
            .filter(|shape| {
                shape.transformer_hash() == transformer && shape.stack_hash() ^ transformer == file
            })
            .collect();
        // Where both fit, the later generation is meant.
        found.pop()
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
        Some(Shape::stockfish_12())
            .filter(|shape| shape.transformer_hash() == transformer_hash)
            .filter(|shape| shape.stack_hash() ^ transformer_hash == file_hash)
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
    let first = read_first_layer(&mut reader, &shape)?;
    let mut stacks = Vec::with_capacity(shape.stacks);
    for number in 0..shape.stacks {
        reader.expect(&format!("hash of layer stack {number}"), shape.stack_hash())?;
        stacks.push(read_stack(&mut reader, &shape, number)?);
    }
    reader.end()?;
    let dual = shape.skip && !is_before_squares(&stacks);
    if !dual && shape.skip {
        for stack in &mut stacks {
            stack.second = narrowed(&stack.second, shape.hidden - 1);
        }
    }
    Ok(Network {
        description,
        features: shape.features,
        first,
        head: Head::Stacks(Stacks {
            squeeze: shape.squeeze,
            dual,
            skip: shape.skip,
            buckets: if shape.stacks == 1 { Buckets::ONE } else { Buckets::STOCKFISH },
            stacks,
        }),
        pawn: shape.pawn,
        kernels: Kernels::new(Isa::best()),
    })
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

fn read_first_layer(reader: &mut Reader<'_>, shape: &Shape) -> Result<FirstLayer, LoadError> {
    let inputs = shape.features.inputs();
    let bias = read_array(reader, "biases of the first layer", shape.outputs)?;
    let weights = read_array(reader, "weights of the first layer", inputs * shape.outputs)?;
    let psqt =
        if shape.psqt { Some(read_array(reader, "piece squares", inputs * PSQT_BUCKETS)?) } else { None };
    Ok(FirstLayer { outputs: shape.outputs, width: shape.outputs, bias, weights, psqt })
}

const LEB_MAGIC: &[u8] = b"COMPRESSED_LEB128";

/// Numbers that may be packed.
trait Packable: bytemuck::Pod + super::reader::Little {
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
fn read_array<T: Packable>(
    reader: &mut Reader<'_>,
    field: &str,
    count: usize,
) -> Result<Aligned<T>, LoadError> {
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
    let mut numbers = Aligned::zeroed(count);
    let mut rest = packed;
    for number in numbers.iter_mut() {
        let value = unpack(&mut rest).and_then(T::from_wide);
        let at = offset + len - rest.len();
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

fn read_stack(reader: &mut Reader<'_>, shape: &Shape, number: usize) -> Result<Stack, LoadError> {
    let name = |layer: &str| format!("{layer} of layer stack {number}");
    let first = read_dense(reader, &name("first layer"), shape.inputs(), shape.hidden)?;
    let second_inputs = if shape.skip { 2 * (shape.hidden - 1) } else { shape.hidden };
    let second = read_dense(reader, &name("second layer"), second_inputs, 32)?;
    let offset = reader.at();
    let last_bias = reader.i32(&name("last bias"))?;
    check_bias(&name("last bias"), offset, &[last_bias])?;
    let last = reader.numbers(&name("last layer"), 32)?.to_vec();
    Ok(Stack { first, second, last_bias, last })
}

/// Rows are padded to whole vectors of 32 inputs.
fn read_dense(
    reader: &mut Reader<'_>,
    field: &str,
    inputs: usize,
    outputs: usize,
) -> Result<Dense, LoadError> {
    let offset = reader.at();
    let bias = reader.numbers::<i32>(field, outputs)?;
    check_bias(field, offset, &bias)?;
    let stride = inputs.next_multiple_of(32);
    let weights = reader.numbers(field, outputs * stride)?;
    Ok(Dense::new(inputs, &bias, &weights, stride))
}

/// Reads a `.jnn`, whose layers are those of Stockfish 12 without hashes.
pub(super) fn read_jomfish(bytes: &[u8]) -> Result<Network, LoadError> {
    let mut reader = Reader::new(bytes);
    reader.expect("magic", JOMFISH_MAGIC)?;
    reader.expect("version", JOMFISH_VERSION)?;
    let description = reader.text("description")?;
    let shape = Shape::stockfish_12();
    let first = read_first_layer(&mut reader, &shape)?;
    let stack = read_stack(&mut reader, &shape, 0)?;
    reader.end()?;
    Ok(Network {
        description,
        features: shape.features,
        first,
        head: Head::Stacks(Stacks {
            squeeze: Squeeze::Clip,
            dual: false,
            skip: false,
            buckets: Buckets::ONE,
            stacks: vec![stack],
        }),
        pawn: shape.pawn,
        kernels: Kernels::new(Isa::best()),
    })
}

/// A network that a format has no place for.
fn unfit(network: &Network, format: &str) -> UnfitNetwork {
    UnfitNetwork { architecture: network.architecture().to_string(), format: format.into() }
}

impl Network {
    /// The network as a file for Stockfish: one of HalfKP 256x2-32-32-1 for Stockfish 12, one of HalfKAv2_hm with
    /// pairwise products, eight stacks and piece squares for Stockfish 15.1 and 16, by its width.
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
            put_stack(&mut bytes, stack);
        }
        Ok(bytes)
    }

    /// The network as Jomfish's `.jnn`, if it is one of HalfKP 256x2-32-32-1.
    pub fn to_jomfish(&self) -> Result<Vec<u8>, UnfitNetwork> {
        let (Some((VERSION_12, _)), Head::Stacks(stacks)) = (self.shape(), &self.head) else {
            return Err(unfit(self, "Jomfish's"));
        };
        let mut bytes = Vec::new();
        put_u32(&mut bytes, JOMFISH_MAGIC);
        put_u32(&mut bytes, JOMFISH_VERSION);
        put_text(&mut bytes, &self.description);
        put_first_layer(&mut bytes, &self.first);
        put_stack(&mut bytes, &stacks.stacks[0]);
        Ok(bytes)
    }

    /// The generation whose architecture this network has, of those that we write.
    fn shape(&self) -> Option<(u32, Shape)> {
        let Head::Stacks(stacks) = &self.head else { return None };
        let Stack { first, second, last, .. } = stacks.stacks.first()?;
        let old = Shape::stockfish_12();
        let (version, shape) = if self.features == old.features {
            (VERSION_12, old)
        } else {
            let transformer = HALF_KA_V2_HM ^ (2 * self.first.outputs as u32);
            let stack = stack_hash(2 * self.first.outputs as u32, [first.outputs as u32, 32, 1]);
            (VERSION_14, Shape::by_hash(transformer, transformer ^ stack)?)
        };
        let dual_inputs = 2 * (shape.hidden - 1);
        let fits = self.features == shape.features
            && self.first.is_tied()
            && self.first.outputs == shape.outputs
            && self.first.psqt.is_some() == shape.psqt
            && stacks.squeeze == shape.squeeze
            && stacks.skip == shape.skip
            && stacks.dual == shape.skip
            && stacks.stacks.len() == shape.stacks
            && first.outputs == shape.hidden
            && second.inputs == if shape.skip { dual_inputs } else { shape.hidden }
            && second.outputs == 32
            && last.len() == 32;
        fits.then_some((version, shape))
    }
}

impl FloatNetwork {
    /// The network as Jomfish's own exporter writes it, to the byte. Its scales for the hidden layers and for the output
    /// have changed places, so that no program that computes as Stockfish does gives the network's values:
    /// [`Network::to_jomfish`] writes files that do.
    pub fn to_jomfish_literal(&self) -> Result<Vec<u8>, UnfitNetwork> {
        let shape = Shape::stockfish_12();
        let head = HeadShape::Stacks(StackShape {
            squeeze: Squeeze::Clip,
            dual: false,
            skip: false,
            hidden: shape.hidden,
            second: 32,
            buckets: Buckets::ONE,
        });
        let Architecture { features, outputs, tied, psqt, .. } = &self.architecture;
        let fits = (features, *outputs, *tied, *psqt) == (&shape.features, shape.outputs, true, false)
            && self.architecture.head == head;
        if !fits {
            let architecture = self.architecture.to_string();
            return Err(UnfitNetwork { architecture, format: "Jomfish's".into() });
        }
        let rounded = |number: f32, scale: f32| (number * scale).round();
        let mut bytes = Vec::new();
        put_u32(&mut bytes, JOMFISH_MAGIC);
        put_u32(&mut bytes, JOMFISH_VERSION);
        put_text(&mut bytes, &self.description);
        for numbers in [&self.bias, &self.weights] {
            bytes.extend(numbers.iter().flat_map(|&number| (rounded(number, 127.0) as i16).to_le_bytes()));
        }
        for (layer, is_output) in self.stacks[0].iter().zip([false, false, true]) {
            let bias_scale = if is_output { 64.0 * 127.0 } else { 9600.0 };
            let weight_scale: f32 = bias_scale / 127.0;
            let greatest = 127.0 / weight_scale;
            for &bias in &layer.bias {
                bytes.extend((rounded(bias, bias_scale) as i32).to_le_bytes());
            }
            for &weight in &layer.weights {
                bytes.push(rounded(weight.clamp(-greatest, greatest), weight_scale) as i8 as u8);
            }
        }
        Ok(bytes)
    }
}

fn put_u32(bytes: &mut Vec<u8>, number: u32) {
    bytes.extend(number.to_le_bytes());
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_u32(bytes, text.len() as u32);
    bytes.extend(text.as_bytes());
}

fn put_first_layer(bytes: &mut Vec<u8>, first: &FirstLayer) {
    extend(bytes, &first.bias, i16::to_le_bytes);
    extend(bytes, &first.weights, i16::to_le_bytes);
    if let Some(psqt) = &first.psqt {
        extend(bytes, psqt, i32::to_le_bytes);
    }
}

fn put_stack(bytes: &mut Vec<u8>, stack: &Stack) {
    for dense in [&stack.first, &stack.second] {
        extend(bytes, dense.bias(), i32::to_le_bytes);
        for output in 0..dense.outputs {
            bytes.extend(dense.row(output).map(|weight| weight as u8));
            bytes.resize(bytes.len() + dense.inputs.next_multiple_of(32) - dense.inputs, 0);
        }
    }
    bytes.extend(stack.last_bias.to_le_bytes());
    bytes.extend(stack.last.iter().map(|&weight| weight as u8));
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

    #[test]
    fn jomfish_gets_sound_scales_or_its_own() {
        let architecture = Architecture {
            features: FeatureSet::half_kp_41024(),
            outputs: 256,
            tied: true,
            psqt: false,
            head: HeadShape::Stacks(StackShape {
                squeeze: Squeeze::Clip,
                dual: false,
                skip: false,
                hidden: 32,
                second: 32,
                buckets: Buckets::ONE,
            }),
        };
        let mut float = FloatNetwork::zeroed(architecture, 600, PAWN_12);
        float.description = "jom".into();
        float.bias[0] = 0.5;
        float.weights[256] = -0.25;
        float.stacks[0][0].bias[0] = 1.0;
        float.stacks[0][0].weights[1] = 1.0;
        float.stacks[0][2].bias[0] = 1.0;
        float.stacks[0][2].weights[31] = 9.0;
        let sound = float.quantise(crate::Quantisation::default()).unwrap().0.to_jomfish().unwrap();
        assert_eq!(Network::from_bytes(&sound).unwrap().to_jomfish().unwrap(), sound);
        let literal = float.to_jomfish_literal().unwrap();
        assert_eq!(literal.len(), sound.len());
        // The header, the first layer; then the first dense layer, and the output layer at the end.
        let dense = 15 + 2 * 256 * 41_025;
        assert_eq!(literal[..dense], sound[..dense]);
        assert_eq!(literal[15..17], 64i16.to_le_bytes());
        assert_eq!(literal[15 + 512 + 512..][..2], (-32i16).to_le_bytes());
        let scales = |bytes: &[u8]| {
            let end = bytes.len();
            let int = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            (int(dense), bytes[dense + 129] as i8, int(end - 36), bytes[end - 1] as i8)
        };
        assert_eq!(scales(&sound), (8128, 64, 9600, 127));
        assert_eq!(scales(&literal), (9600, 76, 8128, 127));
        assert!(test_nets::stacks(FeatureSet::plain(), 64, 2).to_float().to_jomfish_literal().is_err());
    }

    #[test]
    fn hashes_are_those_of_the_field() {
        assert_eq!(Shape::stockfish_12().transformer_hash(), 0x5D69_D7B8);
        assert_eq!(Shape::stockfish_12().stack_hash(), 0x6333_7156);
        assert_eq!(stack_hash(256, [16, 32, 1]), 0x6333_712A);
    }

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
