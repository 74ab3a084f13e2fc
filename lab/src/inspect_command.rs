//! `tandem-lab inspect`.

use crate::any_network::{AnyNetwork, parameters};
use crate::error::LabError;
use clap::Args;
use std::path::PathBuf;
use tandem_nnue::Format;

/// Say what a network file is
///
/// Knows our own networks, Stockfish's of the generations 12 to 17, Jomfish's, the student's (HALFKP16, see
/// docs/formats.md), and networks in floating point. A file that is damaged is refused with the field and the byte where
/// it is.
#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// Network files
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &InspectArgs) -> Result<(), LabError> {
    for path in &args.files {
        let (network, format) = AnyNetwork::load(path)?;
        let architecture = network.architecture();
        sayln!("{}: {}", path.display(), format.map_or("network", Format::name));
        sayln!("  architecture  {architecture}");
        sayln!("  parameters  {}", parameters(&architecture));
        sayln!("  described as  {}", network.description());
        sayln!("  start position  {}", network.start_position());
    }
    Ok(())
}
