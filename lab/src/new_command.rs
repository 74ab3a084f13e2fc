//! `tandem-lab new`: writes a transformer with random weights.

use crate::error::LabError;
use crate::export_command::{Target, WeightPrecision, encode};
use crate::transformer_file::{architecture_named, outline};
use clap::Args;
use std::path::PathBuf;
use tandem_transformer::Weights;

/// Create a transformer with random weights
///
/// Useful to try file formats, inference speed and other programs without training a network. The
/// architecture is a preset (byte, searchless-9m, bt-small, bt3, bt4) or a TOML file of your own. The same
/// seed gives the same network.
#[derive(Args, Debug)]
pub(crate) struct NewArgs {
    /// Name of a preset, or a TOML file that describes an architecture; `tandem-lab inspect --preset NAME`
    /// prints a preset as such a file, to start from
    architecture: String,
    /// Network file to write: .ttn, .safetensors, .onnx or .pb.gz
    #[arg(short = 'o', long = "output", value_name = "OUT")]
    output: PathBuf,
    /// Format of the file to write (default: chosen by the extension of OUT)
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<Target>,
    /// Precision in which a .ttn file stores the weights of linear layers (default: f32); other formats have
    /// a fixed one
    #[arg(long, value_enum)]
    precision: Option<WeightPrecision>,
    /// Seed of the random number generator that draws the weights
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the command.
///
/// # Errors
///
/// When the architecture is unknown or invalid, the format cannot hold it, or the file cannot be written.
pub(crate) fn run(args: &NewArgs) -> Result<(), LabError> {
    let target = args.to.map_or_else(|| Target::of_path(&args.output), Ok)?;
    let architecture = architecture_named(&args.architecture)?;
    let weights = Weights::random(architecture, args.seed);
    let description = format!("{}, random weights of seed {}", args.architecture, args.seed);
    let bytes = encode(&weights, target, args.precision, &description)?;
    tandem_util::output::write_atomically(&args.output, &bytes).map_err(LabError::file(&args.output))?;
    outln!("{}: {} bytes, {}", args.output.display(), bytes.len(), outline(weights.architecture()));
    Ok(())
}
