//! Runs a transformer on a position and prints its policy: the probability of each legal move, and the win
//! probability.
//!
//! ```sh
//! cargo run --release -p tandem-examples --example run_transformer -- nets/strategist.ttn
//! ```
//!
//! A FEN may follow. Networks of lc0 (.pb.gz) and of searchless chess are read as well, if they have a policy.

use std::error::Error;
use std::sync::Arc;
use tandem_chess::{Position, uci};
use tandem_transformer::{Isa, Method, MoveRanker, Network, Precision, Weights};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: run_transformer NETWORK [FEN]")?;
    let mut position = match arguments.next() {
        Some(fen) => Position::from_fen(&fen)?,
        None => Position::startpos(),
    };

    // The file stores its architecture. The precision and the instructions are chosen here: int8 is twice as fast
    // as f32, and the best instructions of this machine are found at run time.
    let weights = Weights::load(&path, None)?;
    let network = Arc::new(Network::new(&weights, Precision::Int8, Isa::best()));
    println!("{} parameters, {}", weights.architecture().parameters(), Isa::best().name());

    let mut ranker = MoveRanker::new(network, Method::Policy)?;
    let ranked = ranker.rank_moves(&mut position);
    for scored in ranked.moves.iter().take(10) {
        println!("{:6} {:5.1} %", uci::format(position.board(), scored.mv, false), 100.0 * scored.score);
    }
    if let Some(value) = ranked.moves.first().and_then(|scored| scored.value) {
        println!("win probability: {:.1} %", 100.0 * value.win_probability());
    }
    Ok(())
}
