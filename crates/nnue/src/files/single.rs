//! Networks with one hidden layer: the student's binary and bullet's quantised files.
//!
//! The student's format is the binary `HALFKP16` defined by a student's thesis on NNUE, one of the projects
//! whose networks this library set out to read.

use super::reader::bounded;
use super::{FieldReader, LoadError, UnsupportedArchitecture, extend};
use crate::activation::Activation;
use crate::architecture::{Architecture, HeadShape, OutputBuckets};
use crate::features::FeatureSet;
use crate::first_layer::FirstLayer;
use crate::kernels::Kernels;
use crate::limits::check_accumulators;
use crate::network::{Flat, Head, Network};
use tandem_memory::AlignedArray;
use tandem_util::isa::Isa;

/// These formats use centipawns, so a pawn is 100.
const PAWN: i32 = 100;

/// First bytes of the student's binary.
pub(super) const STUDENT_MAGIC: &[u8] = b"HALFKP16";

/// Reads the student's binary: HalfKP with 40,960 inputs, separate weights for the side to move (A1, B1) and
/// the opponent (A2, B2), a clipped hidden layer, one output. `docs/formats.md` has the layout.
pub(super) fn read_student(bytes: &[u8]) -> Result<Network, LoadError> {
    let mut reader = FieldReader::new(bytes);
    reader.bytes("magic", STUDENT_MAGIC.len())?;
    reader.expect("version", 1)?;
    let features = FeatureSet::half_kp();
    reader.expect("number of inputs", features.num_inputs() as u32)?;
    let offset = reader.at();
    let outputs = reader.u32("hidden values")? as usize;
    let head = HeadShape::Flat { activation: Activation::Crelu, buckets: OutputBuckets::ONE };
    let architecture = Architecture { features: features.clone(), outputs, tied: false, psqt: false, head };
    let unsound = |field: &str, offset, problem| Err(FieldReader::error(field, offset, problem));
    if let Err(error) = architecture.check() {
        return unsound("hidden values", offset, error.problem);
    }
    let qa = quant_factor(&mut reader, "QA")?;
    let qb = quant_factor(&mut reader, "QB")?;
    let offset = reader.at();
    let scale = reader.i32("output scale")?;
    if let Err(error) = architecture.check_scale(scale, PAWN) {
        return unsound("output scale", offset, error.problem);
    }
    let description = reader.text("metadata")?;

    let inputs = features.num_inputs();
    let own_at = reader.at();
    let own_weights = reader.array::<i16>("weights A1", inputs * outputs)?;
    let own_bias = reader.array::<i16>("biases B1", outputs)?;
    let other_at = reader.at();
    let other_weights = reader.array::<i16>("weights A2", inputs * outputs)?;
    let other_bias = reader.array::<i16>("biases B2", outputs)?;
    let output_weights = reader.array("output weights", 2 * outputs)?;
    let output_bias = reader.i32("output bias")?;
    reader.end()?;

    // Both sets of weights in one row, so that one pass updates both.
    let width = 2 * outputs;
    let mut weights = AlignedArray::zeroed(inputs * width);
    let rows = weights
        .chunks_exact_mut(width)
        .zip(own_weights.chunks_exact(outputs).zip(other_weights.chunks_exact(outputs)));
    for (row, (own, other)) in rows {
        row[..outputs].copy_from_slice(own);
        row[outputs..].copy_from_slice(other);
    }
    let mut bias = AlignedArray::zeroed(width);
    bias[..outputs].copy_from_slice(&own_bias);
    bias[outputs..].copy_from_slice(&other_bias);
    let first = FirstLayer { outputs, width, bias, weights, psqt: None, wraps: false };
    let shape = (OutputBuckets::ONE, outputs);
    let flat = Flat::new(Activation::Crelu, [qa, qb], scale, shape, output_weights, vec![output_bias]);
    let field = format!("weights A1 or A2 (at byte {other_at})");
    finish(description, features, first, flat, (&field, own_at))
}

impl Network {
    /// Writes the network in the HALFKP16 format, HalfKP with separate weights for each perspective.
    ///
    /// # Errors
    /// The network does not have HalfKP inputs, separate weights for each perspective, a clipped hidden layer
    /// and a single output, or is not in centipawns.
    pub fn to_student(&self) -> Result<Vec<u8>, UnsupportedArchitecture> {
        let unsupported = |but: &str| UnsupportedArchitecture {
            architecture: format!("{}{but}", self.architecture()),
            format: "the student's".into(),
        };
        let Head::Flat(flat) = &self.head else { return Err(unsupported("")) };
        let first = &self.first;
        let fits = self.features == FeatureSet::half_kp()
            && !first.is_tied()
            && flat.activation == Activation::Crelu
            && flat.buckets.count == 1;
        if !fits {
            return Err(unsupported(""));
        }
        if self.pawn != PAWN {
            return Err(unsupported(" whose pawn is not 100 units"));
        }
        let outputs = first.outputs;
        let mut bytes = STUDENT_MAGIC.to_vec();
        let header = [
            1,
            self.features.num_inputs() as u32,
            outputs as u32,
            flat.qa as u32,
            flat.qb as u32,
            flat.scale as u32,
        ];
        extend(&mut bytes, &header, u32::to_le_bytes);
        let description = bounded(&self.description);
        extend(&mut bytes, &[description.len() as u32], u32::to_le_bytes);
        bytes.extend(description.as_bytes());
        for columns in [0..outputs, outputs..2 * outputs] {
            for row in first.weights.chunks_exact(first.width) {
                extend(&mut bytes, &row[columns.clone()], i16::to_le_bytes);
            }
            extend(&mut bytes, &first.bias[columns], i16::to_le_bytes);
        }
        extend(&mut bytes, &flat.weights, i16::to_le_bytes);
        extend(&mut bytes, &flat.bias, i32::to_le_bytes);
        Ok(bytes)
    }
}

/// The properties of a network that bullet's quantised file does not contain, and that are needed to read it.
#[derive(Clone, Debug)]
pub struct BulletLayout {
    /// The feature set, which bullet's file does not state.
    pub features: FeatureSet,
    /// Number of accumulator values of one side.
    pub outputs: usize,
    /// The activation function between the accumulators and the output.
    pub activation: Activation,
    /// QA: the integer that represents 1.0 in the accumulators.
    pub qa: i16,
    /// QB: the integer that represents 1.0 in the output weights.
    pub qb: i16,
    /// Output scale: the value of an output of 1.0 in centipawns.
    pub scale: i32,
    /// Number of output buckets, 1 to 32. Their weights are stored one bucket after the other.
    pub buckets: usize,
}

impl Network {
    /// Reads bullet's quantised network with one hidden layer: weights and biases of 16 bits, padded to a
    /// multiple of 64 bytes.
    ///
    /// # Errors
    /// The layout is invalid, the file's length does not match it, or the weights could overflow an
    /// accumulator.
    pub fn from_bullet(bytes: &[u8], layout: &BulletLayout) -> Result<Self, LoadError> {
        let mut reader = FieldReader::new(bytes);
        let BulletLayout { ref features, outputs, activation, qa, qb, scale, buckets } = *layout;
        let buckets = OutputBuckets::bullet(buckets);
        let head = HeadShape::Flat { activation, buckets };
        let architecture =
            Architecture { features: features.clone(), outputs, tied: true, psqt: false, head };
        architecture.check().and_then(|()| architecture.check_scale(scale, PAWN)).map_err(|error| {
            FieldReader::error(&format!("{} in the layout", error.part), 0, error.problem)
        })?;
        if qa <= 0 || qb <= 0 {
            let problem = format!("qa of {qa} and qb of {qb}: both must be above zero");
            return Err(FieldReader::error("scales in the layout", 0, problem));
        }
        let weights = reader.array("weights of the hidden layer", features.num_inputs() * outputs)?;
        let bias = reader.array("biases of the hidden layer", outputs)?;
        let output_weights = reader.array("output weights", 2 * outputs * buckets.count)?;
        let output_bias = reader.array::<i16>("output biases", buckets.count)?;
        let offset = reader.at();
        let padding = bytes.len() - offset;
        if padding >= 64 {
            let problem = format!("{padding} bytes follow, where at most 63 may pad the file");
            return Err(FieldReader::error("end of file", offset, problem));
        }
        let first = FirstLayer { outputs, width: outputs, bias, weights, psqt: None, wraps: false };
        let bias_sums = output_bias.iter().map(|&bias| i32::from(bias)).collect();
        let flat = Flat::new(activation, [qa, qb], scale, (buckets, outputs), output_weights, bias_sums);
        let field = ("weights of the hidden layer", 0);
        finish("a network of bullet's".into(), features.clone(), first, flat, field)
    }
}

impl Network {
    /// Writes the network as bullet does, and returns the layout needed to read it, because the file does not
    /// contain it.
    ///
    /// # Errors
    /// The network does not have one hidden layer with shared weights and bullet's output buckets, is not in
    /// centipawns, or has an output bias of more than 16 bits.
    pub fn to_bullet(&self) -> Result<(Vec<u8>, BulletLayout), UnsupportedArchitecture> {
        let unsupported = |but: &str| UnsupportedArchitecture {
            architecture: format!("{}{but}", self.architecture()),
            format: "bullet's".into(),
        };
        let Head::Flat(flat) = &self.head else { return Err(unsupported("")) };
        let first = &self.first;
        let buckets = flat.buckets.count;
        if !first.is_tied() || (buckets > 1 && flat.buckets != OutputBuckets::bullet(buckets)) {
            return Err(unsupported(""));
        }
        if self.pawn != PAWN {
            return Err(unsupported(" whose pawn is not 100 units"));
        }
        let narrow = flat.bias.iter().map(|&bias| i16::try_from(bias));
        let bias: Vec<i16> = narrow
            .collect::<Result<_, _>>()
            .map_err(|_| unsupported(" with output biases of more than 16 bits"))?;
        let mut bytes = Vec::new();
        for part in [&first.weights[..], &first.bias, &flat.weights, &bias] {
            extend(&mut bytes, part, i16::to_le_bytes);
        }
        let padding = bytes.len().next_multiple_of(64) - bytes.len();
        bytes.extend(b"bullet".iter().cycle().take(padding));
        let layout = BulletLayout {
            features: self.features.clone(),
            outputs: first.outputs,
            activation: flat.activation,
            qa: flat.qa,
            qb: flat.qb,
            scale: flat.scale,
            buckets,
        };
        Ok((bytes, layout))
    }
}

/// Reads a quantisation factor, which must be positive.
fn quant_factor(reader: &mut FieldReader<'_>, field: &str) -> Result<i16, LoadError> {
    let offset = reader.at();
    let number = reader.u32(field)?;
    match i16::try_from(number) {
        Ok(scale) if scale > 0 => Ok(scale),
        _ => Err(FieldReader::error(
            field,
            offset,
            format!("{number} is not a quantisation factor: 1 to 32767"),
        )),
    }
}

/// Assembles the network after checking that its accumulators cannot overflow.
fn finish(
    description: String,
    features: FeatureSet,
    first: FirstLayer,
    flat: Flat,
    (field, offset): (&str, usize),
) -> Result<Network, LoadError> {
    check_accumulators(&features, &first)
        .map_err(|error| FieldReader::error(field, offset, error.to_string()))?;
    let kernels = Kernels::new(Isa::best());
    Ok(Network { description, features, first, head: Head::Flat(flat), pawn: PAWN, kernels })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::tests::random_positions;
    use crate::test_nets;
    use tandem_util::random::SplitMix;

    #[test]
    fn the_students_format_survives_a_round_trip() {
        let mut network = test_nets::untied(FeatureSet::half_kp(), 32, 5);
        let Head::Flat(flat) = &mut network.head else { unreachable!("a flat network was asked for") };
        flat.activation = Activation::Crelu;
        flat.buckets = OutputBuckets::ONE;
        flat.weights = AlignedArray::from(&flat.weights[..64]);
        flat.bias.truncate(1);
        let bytes = network.to_student().unwrap();
        let again = Network::from_bytes(&bytes).unwrap();
        assert_eq!(again.to_student().unwrap(), bytes);
        for position in random_positions(31, 50) {
            assert_eq!(again.evaluate(position.board()), network.evaluate(position.board()));
        }
        for len in [7, 11, 30, 1000, bytes.len() - 1] {
            assert!(Network::from_bytes(&bytes[..len]).is_err());
        }
        network.pawn = 208;
        assert!(network.to_student().unwrap_err().to_string().contains("whose pawn is not 100 units"));
        // Hidden values, QA, QB, output scale.
        for (at, field) in [(16, "hidden values"), (20, "QA"), (24, "QB"), (28, "output scale")] {
            for number in [0u32, u32::MAX, (1 << 20) + 1] {
                let mut absurd = bytes.clone();
                absurd[at..at + 4].copy_from_slice(&number.to_le_bytes());
                let error = Network::from_bytes(&absurd).unwrap_err();
                assert_eq!((error.field.as_str(), error.offset), (field, at));
            }
        }
    }

    #[test]
    fn bullets_format_survives_a_round_trip() {
        let network = test_nets::flat(FeatureSet::plain(), 32, 9);
        let (bytes, layout) = network.to_bullet().unwrap();
        assert!(bytes.len().is_multiple_of(64));
        let again = Network::from_bullet(&bytes, &layout).unwrap();
        for position in random_positions(32, 50) {
            assert_eq!(again.evaluate(position.board()), network.evaluate(position.board()));
        }
        assert!(test_nets::stacks(FeatureSet::plain(), 32, 9).to_bullet().is_err());
        assert!(test_nets::untied(FeatureSet::plain(), 32, 9).to_bullet().is_err());
        let mut wide = network;
        let Head::Flat(flat) = &mut wide.head else { unreachable!("a flat network was asked for") };
        flat.bias[2] = 40_000;
        assert!(wide.to_bullet().unwrap_err().to_string().contains("more than 16 bits"));
    }

    /// The formula of bullet's own example, computed in `i64`.
    #[test]
    fn bullets_network_gives_the_values_of_bullets_formula() {
        let mut random = SplitMix::new(77);
        let mut random = |limit: i16| random.below(2 * limit as u32 + 1) as i16 - limit;
        const HIDDEN: usize = 32;
        let weights: Vec<i16> = (0..768 * HIDDEN).map(|_| random(80)).collect();
        let bias: Vec<i16> = (0..HIDDEN).map(|_| random(80)).collect();
        let outputs: Vec<i16> = (0..2 * HIDDEN).map(|_| random(120)).collect();
        let output_bias = 1234i16;
        let mut bytes = Vec::new();
        for part in [&weights, &bias, &outputs, &vec![output_bias]] {
            extend(&mut bytes, part, i16::to_le_bytes);
        }
        while bytes.len() % 64 != 0 {
            bytes.push(b"bullet"[bytes.len() % 6]);
        }
        let layout = BulletLayout {
            features: FeatureSet::plain(),
            outputs: HIDDEN,
            activation: Activation::Screlu,
            qa: 255,
            qb: 64,
            scale: 400,
            buckets: 1,
        };
        let network = Network::from_bullet(&bytes, &layout).unwrap();
        for position in random_positions(41, 100) {
            let board = position.board();
            let us = board.side_to_move();
            let mut sum = 0i64;
            for (half, side) in [us, !us].into_iter().enumerate() {
                let mut hidden: Vec<i64> = bias.iter().map(|&bias| i64::from(bias)).collect();
                for row in FeatureSet::plain().active(board, side) {
                    for (value, &weight) in hidden.iter_mut().zip(&weights[row * HIDDEN..]) {
                        *value += i64::from(weight);
                    }
                }
                for (value, &weight) in hidden.iter().zip(&outputs[half * HIDDEN..]) {
                    sum += value.clamp(&0, &255).pow(2) * i64::from(weight);
                }
            }
            let expected = (sum / 255 + i64::from(output_bias)) * 400 / (255 * 64);
            assert_eq!(i64::from(network.evaluate(board).value()), expected);
        }
        assert!(Network::from_bullet(&bytes[..bytes.len() - 64], &layout).is_err());
        for wrong in [
            BulletLayout { outputs: 40, ..layout.clone() },
            BulletLayout { outputs: 0, ..layout.clone() },
            BulletLayout { qa: 0, ..layout.clone() },
            BulletLayout { qb: -1, ..layout.clone() },
            BulletLayout { scale: 0, ..layout.clone() },
            BulletLayout { scale: i32::MAX, ..layout.clone() },
            BulletLayout { buckets: 0, ..layout.clone() },
            BulletLayout { buckets: 33, ..layout },
        ] {
            let error = Network::from_bullet(&bytes, &wrong).unwrap_err();
            assert!(error.field.ends_with("in the layout"), "{error}");
        }
    }
}
