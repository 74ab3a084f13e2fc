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

/// Print the format, architecture and size of network files
///
/// Supports NNUEs: Tandem's own, Stockfish's of versions 12 to 17, Jomfish's, the HALFKP16 format (see
/// docs/formats.md), and those in floating point; and transformers: Tandem's own, safetensors, lc0's of the
/// BT family, and ONNX graphs. For a transformer's description in TOML, prints the network it describes. A
/// damaged file is rejected with the field and the byte offset of the damage.
#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// Network files to inspect, or TOML files that describe transformers
    #[arg(required_unless_present = "preset")]
    files: Vec<PathBuf>,
    /// Print the architecture of a predefined transformer as a commented TOML file, and exit
    #[arg(long, conflicts_with_all = ["files", "tensors", "toml"], value_parser = PossibleValuesParser::new(Preset::ALL.map(Preset::name)))]
    preset: Option<String>,
    /// Also list the tensors of a transformer, each with its shape, range of values and fraction of zeros
    #[arg(long)]
    tensors: bool,
    /// Print nothing but the architecture of a transformer, as TOML, for example as input of `tandem-lab new`
    #[arg(long, conflicts_with = "tensors")]
    toml: bool,
    /// Architecture to assume for a safetensors file that does not state its own: the name of a preset (see
    /// --preset), or a TOML file
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
