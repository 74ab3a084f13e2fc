//! Transformers in other formats.

use super::accuracy::{self, Accuracy};
use super::{ExportArgs, Exported, Losses, Target};
use crate::error::LabError;
use crate::table::Table;
use crate::transformer_file::{TransformerFile, outline};
use clap::ValueEnum;
use tandem_transformer::{Isa, Network, Precision, Storage, Weights, quantisation_losses};

/// So many tensors are printed.
const SHOWN: usize = 10;

/// What the weights of a transformer's layers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Numbers {
    /// Floating point of 32 bits
    #[default]
    F32,
    /// Floating point of 16 bits, the upper half of that
    Bf16,
    /// Bytes, with a scale for each output
    Int8,
}

impl Numbers {
    /// How a file stores them, and how they are computed with.
    fn kinds(self) -> (Storage, Precision) {
        match self {
            Self::F32 => (Storage::F32, Precision::F32),
            Self::Bf16 => (Storage::Bf16, Precision::Bf16),
            Self::Int8 => (Storage::Int8, Precision::Int8),
        }
    }
}

/// A transformer as a file, if the format holds it.
pub(crate) fn encode(
    weights: &Weights,
    target: Target,
    numbers: Option<Numbers>,
    description: &str,
) -> Result<Vec<u8>, LabError> {
    if numbers.is_some_and(|numbers| numbers != Numbers::F32) && target != Target::Ttn {
        let problem = "--precision is for our own files (.ttn); other formats have one of their own";
        return Err(LabError::Usage(problem.into()));
    }
    Ok(match target {
        Target::Ttn => weights.to_bytes(numbers.unwrap_or_default().kinds().0, description),
        Target::Safetensors => weights.to_safetensors(description),
        Target::Onnx => weights.to_onnx(),
        Target::Lc0 => weights.to_lc0()?,
        _ => {
            let problem = format!("the format {} holds NNUEs, and this is a transformer", target.name());
            return Err(LabError::Usage(problem));
        }
    })
}

/// Writes a transformer, and finds what rounding did to it.
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
    let bytes = encode(weights, target, args.precision, &file.said.description)?;
    let mut exported = Exported {
        bytes,
        architecture: outline(weights.architecture()),
        parameters: weights.architecture().parameters(),
        description: file.said.description.clone(),
        is_rounded: false,
        losses: Vec::new(),
        facts: Vec::new(),
    };
    if target == Target::Onnx {
        return Ok(exported);
    }
    // Nothing leaves the house that it could not read itself.
    let again = Weights::from_bytes(&exported.bytes, None)
        .map_err(|error| LabError::Usage(format!("the file would be no network: {error}")))?;
    let (_, precision) = args.precision.unwrap_or_default().kinds();
    if precision == Precision::F32 && again == *weights {
        return Ok(exported);
    }
    exported.is_rounded = true;
    if precision == Precision::Int8 {
        let (heading, table) = ("Quantisation, worst tensors first".into(), tensor_table(weights));
        exported.losses.push(Losses { heading, table, shown: SHOWN });
    }
    let positions = accuracy::positions(args)?;
    if !positions.is_empty() {
        let exact = Network::new(weights, Precision::F32, Isa::best());
        let rounded = Network::new(&again, precision, Isa::best());
        let accuracy = Accuracy::measure(&exact, &rounded, &positions)?;
        let numbers = if target == Target::Lc0 { "lc0's 16 bits" } else { precision.name() };
        let heading = format!("{numbers} against f32, on {} positions", positions.len());
        let table = accuracy.table();
        exported.losses.push(Losses { heading, shown: table.len(), table });
        exported.facts.extend(accuracy.facts());
    }
    Ok(exported)
}

/// What bytes cost each tensor, those that lose most for their size first.
fn tensor_table(weights: &Weights) -> Table {
    let mut losses = quantisation_losses(weights);
    let relative =
        |loss: &tandem_transformer::QuantisationLoss| loss.rms / loss.largest.max(f32::MIN_POSITIVE);
    losses.sort_by(|a, b| relative(b).total_cmp(&relative(a)));
    let mut table = Table::new(&["tensor", "largest", "worst error", "rms error", "rms share"]);
    for loss in losses {
        table.push(vec![
            loss.tensor.clone(),
            format!("{:.4}", loss.largest),
            format!("{:.6}", loss.worst),
            format!("{:.6}", loss.rms),
            format!("{:.3} %", 100.0 * relative(&loss)),
        ]);
    }
    table
}
