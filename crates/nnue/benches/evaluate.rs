//! Benchmark of moves and evaluations for each instruction set: `cargo bench -p tandem-nnue`.
//!
//! Some networks have random weights. Real ones are measured if `TANDEM_DATA` names a folder that contains
//! them, or if `../shared/data` exists beside the repository.

use divan::Bencher;
use std::hint::black_box;
use std::path::PathBuf;
use tandem_chess::{Board, Changes, Position};
use tandem_nnue::*;
use tandem_util::random::SplitMix;

fn main() {
    divan::main();
}

fn isas() -> Vec<&'static str> {
    Isa::available().filter(|isa| *isa <= Isa::Avx512).map(Isa::name).collect()
}

/// A network with random weights, quantised with the default factors.
fn made_up(architecture: Architecture) -> Network {
    let scale = if matches!(architecture.head, HeadShape::Stacks(_)) { 600 } else { 400 };
    let mut network = FloatNetwork::zeroed(architecture, scale, 100);
    let mut random = SplitMix::new(9);
    let mut fill = |numbers: &mut [f32], size: f32| {
        numbers.iter_mut().for_each(|number| *number = (2.0 * random.unit() as f32 - 1.0) * size);
    };
    fill(&mut network.weights, 0.3);
    fill(&mut network.psqt, 0.3);
    for layer in network.stacks.iter_mut().flatten() {
        fill(&mut layer.weights, 1.0);
    }
    network.quantise(Quantisation::default()).expect("a network made to fit").0
}

/// HalfKP 40,960 -> 256x2 -> 1, the smallest network in use.
fn half_kp(activation: Activation, tied: bool) -> Network {
    let head = HeadShape::Flat { activation, buckets: OutputBuckets::ONE };
    made_up(Architecture { features: FeatureSet::half_kp(), outputs: 256, tied, psqt: false, head })
}

/// The architecture of Stockfish 15.1, with random weights.
fn stockfish_15() -> Network {
    let (input_activation, buckets) = (InputActivation::PairwiseMul127, OutputBuckets::STOCKFISH);
    let stack =
        StackShape { input_activation, squared_clipped: true, skip: true, hidden: 16, second: 32, buckets };
    let head = HeadShape::Stacks(stack);
    made_up(Architecture {
        features: FeatureSet::half_ka_v2_hm(),
        outputs: 1024,
        tied: true,
        psqt: true,
        head,
    })
}

fn real(name: &str) -> Option<Network> {
    let data = std::env::var_os("TANDEM_DATA")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")));
    Network::load(data.join("nets/nnue").join(name)).ok()
}

/// The moves of a random game, each with the board after it.
fn line(plies: usize) -> (Board, Vec<(Changes, Board)>) {
    let mut random = SplitMix::new(3);
    let mut position = Position::startpos();
    let mut line = Vec::new();
    for _ in 0..plies {
        let moves = position.legal_moves();
        if moves.is_empty() {
            break;
        }
        position.play(moves[random.below(moves.len() as u32) as usize]);
        line.push((*position.changes(), position.board().clone()));
    }
    (Board::default(), line)
}

/// Makes and evaluates every move of a line. The time reported is that of the whole line of 100 plies.
fn follow(bencher: Bencher<'_, '_>, network: Option<Network>, isa: &str) {
    let (Some(network), Ok(isa)) = (network, isa.parse()) else { return };
    let network = network.with_isa(isa);
    let (start, line) = line(100);
    let mut accumulators = Accumulators::new(&network);
    bencher.counter(line.len()).bench_local(|| {
        accumulators.reset(&network, &start);
        let mut sum = 0;
        for (changes, board) in &line {
            accumulators.push(&network, changes);
            sum += accumulators.evaluate(&network, black_box(board)).value();
        }
        sum
    });
}

#[divan::bench(args = isas())]
fn half_kp_256_line_of_100(bencher: Bencher<'_, '_>, isa: &str) {
    follow(bencher, Some(half_kp(Activation::Screlu, true)), isa);
}

#[divan::bench(args = isas())]
fn student_line_of_100(bencher: Bencher<'_, '_>, isa: &str) {
    follow(bencher, Some(half_kp(Activation::Crelu, false)), isa);
}

#[divan::bench(args = isas())]
fn stockfish_15_line_of_100(bencher: Bencher<'_, '_>, isa: &str) {
    follow(bencher, Some(stockfish_15()), isa);
}

#[divan::bench(args = isas())]
fn stockfish_12_line_of_100(bencher: Bencher<'_, '_>, isa: &str) {
    follow(bencher, real("nn-82215d0fd0df.nnue"), isa);
}

#[divan::bench(args = isas())]
fn stockfish_14_line_of_100(bencher: Bencher<'_, '_>, isa: &str) {
    follow(bencher, real("nn-76a8a7ffb820.nnue"), isa);
}

#[divan::bench]
fn load_48_megabytes(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| real("nn-76a8a7ffb820.nnue"));
}
