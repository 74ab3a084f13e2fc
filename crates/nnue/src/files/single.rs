//! Networks of one hidden layer: the student's binary, and what bullet writes.

use super::{LoadError, Reader};
use crate::aligned::Aligned;
use crate::features::FeatureSet;
use crate::kernels::{Activation, Isa, Kernels};
use crate::network::{Buckets, FirstLayer, Flat, Head, Network};

/// How the student's binary begins.
pub(super) const STUDENT_MAGIC: &[u8] = b"HALFKP16";

/// Reads the student's binary: HalfKP with 40,960 inputs, weights of its own for the side to move (A1, B1) and for the
/// other (A2, B2), a clipped hidden layer, one output. `docs/formats.md` has the layout.
pub(super) fn read_student(bytes: &[u8]) -> Result<Network, LoadError> {
    let mut reader = Reader::new(bytes);
    reader.bytes("magic", STUDENT_MAGIC.len())?;
    reader.expect("version", 1)?;
    let features = FeatureSet::half_kp();
    reader.expect("number of inputs", features.inputs() as u32)?;
    let offset = reader.at();
    let outputs = reader.u32("hidden values")? as usize;
    check_outputs(outputs, offset)?;
    let qa = scale(&mut reader, "QA")?;
    let qb = scale(&mut reader, "QB")?;
    let value = reader.i32("output scale")?;
    let description = reader.text("metadata")?;

    let inputs = features.inputs();
    let own_weights = reader.numbers::<i16>("weights A1", inputs * outputs)?;
    let own_bias = reader.numbers::<i16>("biases B1", outputs)?;
    let other_weights = reader.numbers::<i16>("weights A2", inputs * outputs)?;
    let other_bias = reader.numbers::<i16>("biases B2", outputs)?;
    let output_weights = reader.numbers("output weights", 2 * outputs)?;
    let output_bias = reader.i32("output bias")?;
    reader.end()?;

    // Both sets side by side, so that one pass keeps both.
    let width = 2 * outputs;
    let mut weights = Aligned::zeroed(inputs * width);
    let rows = weights
        .chunks_exact_mut(width)
        .zip(own_weights.chunks_exact(outputs).zip(other_weights.chunks_exact(outputs)));
    for (row, (own, other)) in rows {
        row[..outputs].copy_from_slice(own);
        row[outputs..].copy_from_slice(other);
    }
    let mut bias = Aligned::zeroed(width);
    bias[..outputs].copy_from_slice(&own_bias);
    bias[outputs..].copy_from_slice(&other_bias);
    let first = FirstLayer { outputs, width, bias, weights, psqt: None };
    let flat = Flat {
        activation: Activation::Crelu,
        qa,
        qb,
        scale: value,
        buckets: Buckets::ONE,
        weights: output_weights,
        bias: vec![output_bias],
        wide: false,
    };
    finish(description, features, first, flat)
}

/// What bullet's file does not say of itself.
#[derive(Clone, Debug)]
pub struct BulletLayout {
    /// The inputs.
    pub features: FeatureSet,
    /// Values of one side's accumulator.
    pub outputs: usize,
    /// Between them and the output.
    pub activation: Activation,
    /// What stands for one in the accumulators.
    pub qa: i16,
    /// What stands for one in the output weights.
    pub qb: i16,
    /// What an output of one is worth in centipawns.
    pub scale: i32,
    /// Output buckets, their weights one bucket after the other.
    pub buckets: usize,
}

impl Network {
    /// Reads bullet's quantised network of one hidden layer: weights and biases of 16 bits, padded to 64 bytes.
    pub fn from_bullet(bytes: &[u8], layout: &BulletLayout) -> Result<Self, LoadError> {
        let mut reader = Reader::new(bytes);
        let BulletLayout { ref features, outputs, activation, qa, qb, scale, buckets } = *layout;
        check_outputs(outputs, 0)?;
        let buckets = Buckets::bullet(buckets);
        let weights = reader.numbers("weights of the hidden layer", features.inputs() * outputs)?;
        let bias = reader.numbers("biases of the hidden layer", outputs)?;
        let output_weights = reader.numbers("output weights", 2 * outputs * buckets.count)?;
        let output_bias = reader.numbers::<i16>("output biases", buckets.count)?;
        let offset = reader.at();
        let padding = bytes.len() - offset;
        if padding >= 64 {
            let problem = format!("{padding} bytes follow, where at most 63 may pad the file");
            return Err(Reader::error("end of file", offset, problem));
        }
        let first = FirstLayer { outputs, width: outputs, bias, weights, psqt: None };
        let flat = Flat {
            activation,
            qa,
            qb,
            scale,
            buckets,
            weights: output_weights,
            bias: output_bias.iter().map(|&bias| i32::from(bias)).collect(),
            wide: false,
        };
        finish("a network of bullet's".into(), features.clone(), first, flat)
    }
}

fn scale(reader: &mut Reader<'_>, field: &str) -> Result<i16, LoadError> {
    let offset = reader.at();
    let number = reader.u32(field)?;
    match i16::try_from(number) {
        Ok(scale) if scale > 0 => Ok(scale),
        _ => Err(Reader::error(field, offset, format!("{number} is no scale: 1 to 32767"))),
    }
}

/// Hidden layers that the kernels can work on.
pub(super) fn check_outputs(outputs: usize, offset: usize) -> Result<(), LoadError> {
    if outputs > 0 && outputs <= 1 << 14 && outputs.is_multiple_of(32) {
        return Ok(());
    }
    let problem = format!("{outputs} is no width: a multiple of 32, at most 16384");
    Err(Reader::error("hidden values", offset, problem))
}

/// Puts a network together, after a look at what could overflow.
pub(super) fn finish(
    description: String,
    features: FeatureSet,
    first: FirstLayer,
    mut flat: Flat,
) -> Result<Network, LoadError> {
    super::own::check_accumulators(&features, &first)?;
    flat.wide = flat.needs_wide();
    let kernels = Kernels::new(Isa::best());
    Ok(Network { description, features, first, head: Head::Flat(flat), pawn: 100, kernels })
}
