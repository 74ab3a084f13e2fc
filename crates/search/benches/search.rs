//! Benchmark of searches with one thread and with two: `cargo bench -p tandem-search`.
//!
//! Throughput is in nodes per second. The searches with the hand-written evaluation show the cost of the search
//! itself; those with the network that ships show what games see. Node counts are the same each time with one
//! thread.

use divan::Bencher;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tandem_chess::Position;
use tandem_nnue::Network;
use tandem_search::{Bootstrap, Evaluator, EvaluatorFactory, Limits, Nnue, STACK_SIZE, Searcher};

/// An opening, a middlegame and an endgame.
const FENS: [&str; 3] = [
    "r1bq1rk1/pp2bppp/2n1pn2/2pp4/3P1B2/2PBPN2/PP1N1PPP/R2QK2R w KQ - 0 8",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
];

const NETWORK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../nets/tandem.tnn");

fn main() {
    // Benchmarks run on this thread, so it needs the stack of a search.
    let thread = std::thread::Builder::new().stack_size(STACK_SIZE).spawn(divan::main);
    thread.expect("a thread").join().expect("no panic");
}

fn bootstrap() -> Arc<EvaluatorFactory> {
    Arc::new(|| Box::new(Bootstrap::default()) as Box<dyn Evaluator>)
}

fn nnue() -> Arc<EvaluatorFactory> {
    let network = Arc::new(Network::load(NETWORK).expect("the network that ships"));
    Arc::new(move || Box::new(Nnue::new(Arc::clone(&network))) as Box<dyn Evaluator>)
}

/// Searches all positions from an empty hash table, and returns the number of nodes.
fn search_all(searcher: &mut Searcher, positions: &[Position], limits: &Limits) -> u64 {
    searcher.clear(&AtomicBool::new(false));
    let search = |position| {
        searcher.signals().arm(false);
        searcher.search(position, limits, &mut |_| ()).nodes
    };
    positions.iter().map(search).sum()
}

fn bench(bencher: Bencher<'_, '_>, factory: Arc<EvaluatorFactory>, threads: usize) {
    let mut searcher = Searcher::new(factory, 16).expect("16 MiB");
    searcher.set_threads(threads);
    let positions = FENS.map(|fen| Position::from_fen(fen).expect("a legal position"));
    let limits = Limits { nodes: Some(50_000), ..Limits::default() };
    let nodes = search_all(&mut searcher, &positions, &limits);
    bencher.counter(nodes).bench_local(|| search_all(&mut searcher, &positions, &limits));
}

#[divan::bench(args = [1, 2])]
fn hand_written_evaluation(bencher: Bencher<'_, '_>, threads: usize) {
    bench(bencher, bootstrap(), threads);
}

#[divan::bench(args = [1, 2])]
fn network_that_ships(bencher: Bencher<'_, '_>, threads: usize) {
    bench(bencher, nnue(), threads);
}
