//! Evaluates positions, one FEN per line on standard input: `evaluate FILE [ISA] < fens`.
//!
//! For each position it prints, for the side to move, the value in the network's units, the raw piece-square
//! and positional sums (16 times those units for networks with stacks), and centipawns.
//! `scripts/nnue_reference.py` prints the same.

use std::error::Error;
use std::io::BufRead;
use tandem_chess::Position;
use tandem_nnue::{Isa, Network};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: evaluate FILE [ISA] < fens")?;
    let mut network = Network::load(path)?;
    if let Some(isa) = arguments.next() {
        network = network.with_isa(isa.parse::<Isa>()?);
    }
    eprintln!("{} ({})", network.architecture(), network.isa().name());
    for line in std::io::stdin().lock().lines() {
        let position = Position::from_fen(line?.trim())?;
        let evaluation = network.evaluate(position.board());
        let (psqt, positional) = evaluation.raw_parts();
        println!("{} {psqt} {positional} {}", evaluation.value(), evaluation.centipawns());
    }
    Ok(())
}
