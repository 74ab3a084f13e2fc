//! Evaluates positions, one FEN a line on standard input, with a network: `evaluate FILE [ISA] < fens`.
//! Prints the value in the network's own units, its two parts, and centipawns, for the side to move.

use std::error::Error;
use std::io::BufRead;
use tandem_chess::Position;
use tandem_nnue::{Isa, Network};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: evaluate FILE [ISA] < fens")?;
    let mut network = Network::load(path.as_ref())?;
    if let Some(isa) = arguments.next() {
        network = network.with_isa(isa.parse::<Isa>()?);
    }
    eprintln!("{} ({})", network.architecture(), network.isa().name());
    for line in std::io::stdin().lock().lines() {
        let position = Position::from_fen(line?.trim())?;
        let evaluation = network.evaluate(position.board());
        println!(
            "{} {} {} {}",
            evaluation.value(),
            evaluation.psqt,
            evaluation.positional,
            evaluation.centipawns()
        );
    }
    Ok(())
}
