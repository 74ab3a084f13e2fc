//! Evaluates positions with an NNUE: a single one, and all positions of a line of play with incremental
//! updates, as inside a search.
//!
//! ```sh
//! cargo run --release -p tandem-examples --example evaluate_positions -- nets/tandem.tnn
//! ```
//!
//! The file may also be one of Stockfish's, bullet's or Jomfish's networks.

use std::error::Error;
use tandem_chess::{Position, fen, uci};
use tandem_nnue::{Accumulators, Network};

const POSITIONS: [&str; 3] = [
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "r1bqkbnr/pppp1ppp/2n5/4p2Q/2B1P3/8/PPPP1PPP/RNB1K1NR w KQkq - 2 4",
    "8/8/4k3/8/8/3QK3/8/8 b - - 0 1",
];

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: evaluate_positions NETWORK")?;
    let network = Network::load(path)?;
    println!("{} ({})", network.architecture(), network.isa().name());

    // Single positions: every evaluation begins from nothing.
    for text in POSITIONS {
        let board = fen::parse(text)?;
        println!("{:6} centipawns for the side to move: {text}", network.evaluate(&board).centipawns());
    }

    // A line of play: only the inputs that a move changes are added to and subtracted from the first layer.
    let mut position = Position::startpos();
    let mut accumulators = Accumulators::new(&network);
    for text in ["e2e4", "c7c5", "g1f3", "d7d6"] {
        position.play(uci::parse(position.board(), text)?);
        accumulators.push(&network, position.changes());
        let evaluation = accumulators.evaluate(&network, position.board());
        println!("{:6} centipawns for the side to move after {text}", evaluation.centipawns());
        assert_eq!(evaluation, network.evaluate(position.board()), "the update is exact");
    }
    Ok(())
}
