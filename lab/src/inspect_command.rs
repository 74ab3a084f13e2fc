//! `tandem-lab inspect`.

mod transformer;

use crate::any_network::{AnyNetwork, parameters};
use crate::error::LabError;
use crate::transformer_file::{TransformerFile, architecture_named};
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::path::{Path, PathBuf};
use tandem_nnue::Format;
use tandem_transformer::Preset;

/// Say what a network file is
///
/// Knows NNUEs: our own networks, Stockfish's of the generations 12 to 17, Jomfish's, the student's (HALFKP16, see
/// docs/formats.md), and those in floating point; and transformers: our own, those in safetensors, lc0's of the BT family,
/// and graphs of ONNX. Of a transformer's description in TOML it says what the network would be. A file that is damaged is
/// refused with the field and the byte where it is.
#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// Network files, or descriptions of transformers (.toml)
    #[arg(required_unless_present = "preset")]
    files: Vec<PathBuf>,
    /// Show a transformer that is known by a name, as TOML with comments
    #[arg(long, conflicts_with_all = ["files", "tensors", "toml"], value_parser = PossibleValuesParser::new(Preset::ALL.map(Preset::name)))]
    preset: Option<String>,
    /// Of a transformer: each tensor, with its shape, its range and its share of zeros
    #[arg(long)]
    tensors: bool,
    /// Of a transformer: its architecture as TOML, and nothing else
    #[arg(long, conflicts_with = "tensors")]
    toml: bool,
    /// The architecture of a file of safetensors that does not say it: a preset's name, or a file of TOML
    #[arg(long, value_name = "NAME")]
    architecture: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: &InspectArgs) -> Result<(), LabError> {
    if let Some(preset) = args.preset.as_deref().and_then(Preset::named) {
        say!("{}", preset.toml());
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
                let problem = "is no transformer; --toml and --tensors are for those";
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
    sayln!("{}: {}", path.display(), format.map_or("network", Format::name));
    sayln!("  architecture  {architecture}");
    sayln!("  parameters  {}", parameters(&architecture));
    sayln!("  described as  {}", network.description());
    sayln!("  start position  {}", network.start_position());
    Ok(())
}
