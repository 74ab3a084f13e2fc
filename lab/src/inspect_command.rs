//! `tandem-lab inspect`.

use crate::error::LabError;
use clap::Args;
use std::path::PathBuf;
use tandem_chess::Position;
use tandem_nnue::{FloatNetwork, Format, Network};

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
        let mut start = [0; 16];
        let read = std::fs::File::open(path).and_then(|mut file| std::io::Read::read(&mut file, &mut start));
        let format = Format::of(&start[..read.unwrap_or(0)]);
        let (architecture, description, evaluation) = if format == Some(Format::Float) {
            let network = FloatNetwork::load(path)?;
            let value = network.evaluate(Position::startpos().board());
            let centipawns = value * 100.0 / f64::from(network.pawn);
            (network.architecture, network.description, format!("{value:.2} ({centipawns:.2} centipawns)"))
        } else {
            let network = Network::load(path)?;
            let evaluation = network.evaluate(Position::startpos().board());
            let told = format!("{} ({} centipawns)", evaluation.value(), evaluation.centipawns());
            (network.architecture(), network.description().to_owned(), told)
        };
        sayln!("{}: {}", path.display(), format.map_or("network", Format::name));
        sayln!("  architecture  {architecture}");
        sayln!("  described as  {description}");
        sayln!("  start position  {evaluation}");
    }
    Ok(())
}
