//! How long the selector takes to look at a position, its features included.
//!
//! ```sh
//! cargo run --release --package tandem-hybrid --example selector_speed
//! ```

use std::hint::black_box;
use std::time::Instant;
use tandem_chess::Position;
use tandem_chess::random::SplitMix;
use tandem_hybrid::{Circumstances, Features, Selector, Threshold};

const ROUNDS: usize = 2000;

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
    let selector = Selector::random(1);
    let threshold = Threshold::new(0.5);
    let circumstances = Circumstances { depth: 9, discord: 0.7 };
    // The best of many rounds: others may use the machine too.
    let time = |what: &str, look: &mut dyn FnMut(&Position)| {
        let round = || {
            let start = Instant::now();
            positions.iter().for_each(&mut *look);
            start.elapsed().as_secs_f64() * 1e9 / positions.len() as f64
        };
        let best = std::iter::repeat_with(round).take(ROUNDS).fold(f64::MAX, f64::min);
        println!("{what}: {best:.0} ns");
    };
    time("features", &mut |position| {
        black_box(Features::of(black_box(position), circumstances));
    });
    time("features and selector", &mut |position| {
        black_box(selector.chooses(&Features::of(black_box(position), circumstances), threshold));
    });
}
