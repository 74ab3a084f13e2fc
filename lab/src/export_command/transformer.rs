//! Exporting transformers: other formats, other precisions, and the error of rounding.

use super::accuracy::{self, Accuracy};
use super::{ExportArgs, Exported, RoundingErrors, Target};
use crate::error::LabError;
use crate::table::Table;
use crate::transformer_file::{TransformerFile, outline};
use clap::ValueEnum;
use tandem_transformer::{Isa, Network, Precision, Storage, Weights, quantisation_losses};

/// Number of tensors that are printed, those with the largest error first.
const SHOWN: usize = 10;

/// The precision of the weights of a transformer's layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightPrecision {
    /// 32-bit floating point
    #[default]
    F32,
    /// 16-bit floating point with the exponent range of f32 (bfloat16)
    Bf16,
    /// 8-bit integers, with a scale factor for each output of a layer
    Int8,
}

impl WeightPrecision {
    /// The precision in the file, and that of the computation.
    fn kinds(self) -> (Storage, Precision) {
        match self {
            Self::F32 => (Storage::F32, Precision::F32),
            Self::Bf16 => (Storage::Bf16, Precision::Bf16),
            Self::Int8 => (Storage::Int8, Precision::Int8),
        }
    }
}

/// The bytes of a transformer in a format.
///
/// # Errors
///
/// When the format holds NNUEs, cannot hold this architecture, or has no choice of precision.
pub(crate) fn encode(
    weights: &Weights,
    target: Target,
    precision: Option<WeightPrecision>,
    description: &str,
) -> Result<Vec<u8>, LabError> {
    if precision.is_some_and(|precision| precision != WeightPrecision::F32) && target != Target::Ttn {
        let problem = "--precision is for our own files (.ttn); other formats have a fixed one";
        return Err(LabError::Usage(problem.into()));
    }
    Ok(match target {
        Target::Ttn => weights.to_bytes(precision.unwrap_or_default().kinds().0, description),
        Target::Safetensors => weights.to_safetensors(description),
        Target::Onnx => weights.to_onnx(),
        Target::Lc0 => weights.to_lc0()?,
        _ => {
            let problem = format!("the format {} holds NNUEs, and this is a transformer", target.name());
            return Err(LabError::Usage(problem));
        }
    })
}

/// Converts a transformer to the target format, and measures the effect of rounding.
///
/// # Errors
///
/// When the format cannot hold it, or the positions for the comparison cannot be read.
pub(super) fn export(
    file: &TransformerFile,
    target: Target,
    args: &ExportArgs,
) -> Result<Exported, LabError> {
    if args.qa.is_some() || args.qb.is_some() {
        let problem = "--qa and --qb are for NNUEs; a transformer's bytes have a scale for each output";
        return Err(LabError::Usage(problem.into()));
    }
    let weights = file.weights()?;
    let bytes = encode(weights, target, args.precision, &file.header.description)?;
    let mut exported = Exported {
        bytes,
        architecture: outline(weights.architecture()),
        parameters: weights.architecture().parameters(),
        description: file.header.description.clone(),
        summary: None,
        is_rounded: false,
        rounding_errors: Vec::new(),
        facts: Vec::new(),
    };
    if target == Target::Onnx {
        return Ok(exported);
    }
    // Every file is read back before it is written to disk.
    let again = Weights::from_bytes(&exported.bytes, None)
        .map_err(|error| LabError::Usage(format!("the file cannot be read back: {error}")))?;
    let (_, precision) = args.precision.unwrap_or_default().kinds();
    if precision == Precision::F32 && again == *weights {
        return Ok(exported);
    }
    exported.is_rounded = true;
    if precision == Precision::Int8 {
        let (heading, table) = ("Quantisation, worst tensors first".into(), tensor_table(weights));
        exported.rounding_errors.push(RoundingErrors { heading, table, shown: SHOWN });
    }
    let positions = accuracy::positions(args)?;
    if !positions.is_empty() {
        let exact = Network::new(weights, Precision::F32, Isa::best());
        let rounded = Network::new(&again, precision, Isa::best());
        let accuracy = Accuracy::measure(&exact, &rounded, &positions)?;
        let name = if target == Target::Lc0 { "lc0's 16 bits" } else { precision.name() };
        let heading = format!("{name} against f32, on {} positions", positions.len());
        let table = accuracy.table();
        exported.rounding_errors.push(RoundingErrors { heading, shown: table.len(), table });
        exported.facts.extend(accuracy.facts());
    }
    Ok(exported)
}

/// The int8 quantisation error of each tensor, those with the largest relative error first.
fn tensor_table(weights: &Weights) -> Table {
    let mut rounding_errors = quantisation_losses(weights);
    let relative =
        |loss: &tandem_transformer::QuantisationLoss| loss.rms_error / loss.max_abs.max(f32::MIN_POSITIVE);
    rounding_errors.sort_by(|a, b| relative(b).total_cmp(&relative(a)));
    let mut table = Table::new(&["tensor", "max weight", "max error", "RMS error", "relative RMS"]);
    for loss in rounding_errors {
        table.push(vec![
            loss.tensor.clone(),
            format!("{:.4}", loss.max_abs),
            format!("{:.6}", loss.max_error),
            format!("{:.6}", loss.rms_error),
            format!("{:.3} %", 100.0 * relative(&loss)),
        ]);
    }
    table
}
