//! `tandem-lab new`.

use crate::error::LabError;
use crate::export_command::{Numbers, Target, encode};
use crate::transformer_file::{architecture_named, outline};
use clap::Args;
use std::path::PathBuf;
use tandem_transformer::Weights;

/// Make a transformer of random numbers
///
/// From a preset (byte, searchless-9m, bt-small, bt3, bt4) or from an architecture of your own: so that files, speed and
/// other programs can be tried without training. The same seed makes the same network.
#[derive(Args, Debug)]
pub(crate) struct NewArgs {
    /// A preset's name, or an architecture in a file of TOML; `tandem-lab inspect --preset NAME` shows one to begin with
    architecture: String,
    /// The file to write: .ttn, .safetensors, .onnx or .pb.gz
    #[arg(short = 'o', long = "output", value_name = "OUT")]
    output: PathBuf,
    /// Its format; by the end of its name if not given
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<Target>,
    /// In .ttn: what the weights of its layers are; f32 if not given
    #[arg(long, value_enum)]
    precision: Option<Numbers>,
    /// What the numbers come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the command.
pub(crate) fn run(args: &NewArgs) -> Result<(), LabError> {
    let target = args.to.map_or_else(|| Target::of_path(&args.output), Ok)?;
    let architecture = architecture_named(&args.architecture)?;
    let weights = Weights::random(architecture, args.seed);
    let description = format!("{}, random numbers of seed {}", args.architecture, args.seed);
    let bytes = encode(&weights, target, args.precision, &description)?;
    tandem_chess::output::write_whole(&args.output, &bytes).map_err(LabError::file(&args.output))?;
    sayln!("{}: {} bytes, {}", args.output.display(), bytes.len(), outline(weights.architecture()));
    Ok(())
}
