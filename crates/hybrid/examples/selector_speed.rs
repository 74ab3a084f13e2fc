//! Time that the selector takes for a position, features included. One feature comes from the NNUE's later
//! layers, whose accumulators a search has at hand.
//!
//! ```sh
//! cargo run --release --package tandem-hybrid --example selector_speed
//! ```

use std::hint::black_box;
use std::time::Instant;
use tandem_chess::Position;
use tandem_hybrid::{FeatureContext, Features, Hybrid, Threshold};
use tandem_nnue::{Accumulators, Network};
use tandem_util::random::SplitMix;

const ROUNDS: usize = 2000;
const NETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../nets");

fn main() {
    let mut random = SplitMix::new(1);
    let mut positions = Vec::new();
    while positions.len() < 500 {
        let mut position = Position::startpos();
        for _ in 0..80 {
            let moves = position.legal_moves();
            if moves.is_empty() {
                break;
            }
            position.play(moves[random.below(moves.len() as u32) as usize]);
            positions.push(position.clone());
        }
    }
    let network = Network::load(format!("{NETS}/tandem.tnn")).expect("the network that ships");
    let hybrid = Hybrid::load(format!("{NETS}/tandem.hybrid")).expect("the hybrid that ships");
    let selector = hybrid.selector.expect("a selector");
    let threshold = Threshold::new(hybrid.threshold);
    let context = FeatureContext { depth: 9, psqt_positional_gap: 0.7 };
    // The best of many rounds, because other programs may use the machine.
    let time = |what: &str, work: &mut dyn FnMut(&Position)| {
        let round = || {
            let start = Instant::now();
            positions.iter().for_each(&mut *work);
            start.elapsed().as_secs_f64() * 1e9 / positions.len() as f64
        };
        let best = std::iter::repeat_with(round).take(ROUNDS).fold(f64::MAX, f64::min);
        println!("{what}: {best:.0} ns");
    };
    time("features", &mut |position| {
        black_box(Features::of(black_box(position), context));
    });
    time("features and selector", &mut |position| {
        black_box(selector.selects(&Features::of(black_box(position), context), threshold));
    });
    // A single position, because each needs accumulators of its own.
    let position = &positions[40];
    let mut accumulators = Accumulators::new(&network);
    accumulators.reset(&network, position.board());
    time("the NNUE's later layers", &mut |_| {
        black_box(accumulators.evaluate(&network, black_box(position).board()).psqt_positional_gap());
    });
}
