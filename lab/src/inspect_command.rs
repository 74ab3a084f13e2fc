//! `tandem-lab inspect`.

use crate::error::LabError;
use clap::Args;
use std::path::PathBuf;
use tandem_chess::Position;
use tandem_nnue::{Format, Network};

/// Say what a network file is
///
/// Knows our own networks, Stockfish's of the generations 12 to 17, Jomfish's and the student's. A file that is damaged
/// is refused with the field and the byte where it is.
#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    /// Network files
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &InspectArgs) -> Result<(), LabError> {
    for path in &args.files {
        let network = Network::load(path)?;
        let mut start = [0; 16];
        let read = std::fs::File::open(path).and_then(|mut file| std::io::Read::read(&mut file, &mut start));
        let format = Format::of(&start[..read.unwrap_or(0)]).map_or("network", Format::name);
        let evaluation = network.evaluate(Position::startpos().board());
        sayln!("{}: {format}", path.display());
        sayln!("  architecture  {}", network.architecture());
        sayln!("  described as  {}", network.description());
        sayln!("  start position  {} ({} centipawns)", evaluation.value(), evaluation.centipawns());
    }
    Ok(())
}
