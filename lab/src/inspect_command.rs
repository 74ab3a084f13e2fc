//! `tandem-lab inspect`: prints the format, architecture and parameters of network files.

mod transformer;

use crate::any_network::{AnyNetwork, parameters};
use crate::error::LabError;
use crate::transformer_file::{TransformerFile, architecture_named};
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::path::{Path, PathBuf};
use tandem_nnue::Format;
use tandem_transformer::Preset;

/// Describe network files
///
/// Supports NNUEs: our own networks, Stockfish's of versions 12 to 17, Jomfish's, the student's (HALFKP16,
/// see docs/formats.md), and those in floating point; and transformers: our own, those in safetensors, lc0's
/// of the BT family, and ONNX graphs. For a transformer's description in TOML, prints the network it
/// describes. Damaged files are rejected with the field and the byte at which they are damaged.
#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// Network files, or descriptions of transformers (.toml)
    #[arg(required_unless_present = "preset")]
    files: Vec<PathBuf>,
    /// Print a predefined transformer as TOML with comments
    #[arg(long, conflicts_with_all = ["files", "tensors", "toml"], value_parser = PossibleValuesParser::new(Preset::ALL.map(Preset::name)))]
    preset: Option<String>,
    /// List the tensors of a transformer, each with its shape, range and fraction of zeros
    #[arg(long)]
    tensors: bool,
    /// Print only the architecture of a transformer, as TOML
    #[arg(long, conflicts_with = "tensors")]
    toml: bool,
    /// Architecture of a safetensors file that does not state it: a preset's name, or a TOML file
    #[arg(long, value_name = "NAME")]
    architecture: Option<String>,
}

/// Runs the command.
///
/// # Errors
///
/// When a file is missing, damaged or not a network.
pub(crate) fn run(args: &InspectArgs) -> Result<(), LabError> {
    if let Some(preset) = args.preset.as_deref().and_then(Preset::named) {
        out!("{}", preset.toml());
        return Ok(());
    }
    let given = args.architecture.as_deref().map(architecture_named).transpose()?;
    for path in &args.files {
        if path.extension().is_some_and(|extension| extension == "toml") {
            transformer::inspect_description(path)?;
            continue;
        }
        match TransformerFile::load(path, given.as_ref())? {
            Some(file) if args.toml => transformer::toml(path, &file)?,
            Some(file) => transformer::inspect(path, &file, args.tensors)?,
            None if args.toml || args.tensors => {
                let problem = "is not a transformer; --toml and --tensors are for those";
                return Err(LabError::Usage(format!("{}: {problem}", path.display())));
            }
            None => inspect_nnue(path)?,
        }
    }
    Ok(())
}

fn inspect_nnue(path: &Path) -> Result<(), LabError> {
    let (network, format) = AnyNetwork::load(path)?;
    let architecture = network.architecture();
    outln!("{}: {}", path.display(), format.map_or("network", Format::name));
    outln!("  architecture  {architecture}");
    outln!("  parameters  {}", parameters(&architecture));
    outln!("  described as  {}", network.description());
    outln!("  start position  {}", network.start_position());
    Ok(())
}
