//! Cost of the hybrid in a search, without the transformer: `cargo bench -p tandem-hybrid`.
//!
//! The selector's features, the selector, and the look-up of a position are on the search's path. One feature
//! comes from the NNUE's later layers, whose accumulators a search has at hand.

use divan::Bencher;
use std::hint::black_box;
use std::sync::Arc;
use tandem_chess::Position;
use tandem_hybrid::*;
use tandem_nnue::{Accumulators, Network};
use tandem_search::Strategist;
use tandem_transformer::{Isa, Precision, Preset, Weights};
use tandem_util::random::SplitMix;

const NETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../nets");
const CONTEXT: FeatureContext = FeatureContext { depth: 9, psqt_positional_gap: 0.7 };

fn main() {
    divan::main();
}

/// The positions of random games.
fn positions() -> Vec<Position> {
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
    positions
}

fn nnue() -> Network {
    Network::load(format!("{NETS}/tandem.tnn")).expect("the network that ships")
}

/// The hybrid that ships.
fn hybrid() -> Hybrid {
    Hybrid::load(format!("{NETS}/tandem.hybrid")).expect("the hybrid that ships")
}

/// The smallest transformer with a board code, with random weights.
fn networks() -> Arc<HybridNetworks> {
    let mut architecture = Preset::BtSmall.architecture();
    architecture.body.layers = 1;
    let weights = Weights::random(architecture, 1);
    let network = tandem_transformer::Network::new(&weights, Precision::F32, Isa::best());
    Arc::new(HybridNetworks::new(Arc::new(network), None).expect("a network with a policy"))
}

#[divan::bench]
fn features(bencher: Bencher<'_, '_>) {
    let positions = positions();
    bencher.counter(positions.len()).bench_local(|| {
        for position in &positions {
            black_box(Features::of(black_box(position), CONTEXT));
        }
    });
}

#[divan::bench]
fn features_and_selector(bencher: Bencher<'_, '_>) {
    let (positions, hybrid) = (positions(), hybrid());
    let (selector, threshold) = (hybrid.selector.expect("a selector"), Threshold::new(hybrid.threshold));
    bencher.counter(positions.len()).bench_local(|| {
        positions
            .iter()
            .filter(|position| selector.selects(&Features::of(black_box(position), CONTEXT), threshold))
            .count()
    });
}

/// A single position, because each needs accumulators of its own.
#[divan::bench]
fn later_layers_of_the_nnue(bencher: Bencher<'_, '_>) {
    let (network, position) = (nnue(), Position::startpos());
    let mut accumulators = Accumulators::new(&network);
    accumulators.reset(&network, position.board());
    bencher
        .bench_local(|| accumulators.evaluate(&network, black_box(position.board())).psqt_positional_gap());
}

#[divan::bench]
fn accumulators_for_the_bridge(bencher: Bencher<'_, '_>) {
    let positions = positions();
    let mut reader = AccumulatorReader::new(Arc::new(nnue()));
    let mut accumulators = Vec::new();
    bencher.counter(positions.len()).bench_local(|| {
        for position in &positions {
            reader.read(black_box(position.board()), &mut accumulators);
        }
        accumulators.len()
    });
}

#[divan::bench(args = [BridgeForm::Gated, BridgeForm::Plain])]
fn bridge(bencher: Bencher<'_, '_>, form: &BridgeForm) {
    let network = nnue();
    let bridge = Bridge::random(*form, AccumulatorReader::width(&network), 512, 1);
    let mut accumulators = Vec::new();
    AccumulatorReader::new(Arc::new(network)).read(Position::startpos().board(), &mut accumulators);
    let mut code = vec![0.0; 512];
    bencher.bench_local(|| bridge.forward(black_box(&accumulators), &mut code));
}

/// Look-ups in a cache in which no position is known, as nearly all are not.
#[divan::bench]
fn look_up(bencher: Bencher<'_, '_>) {
    let positions = positions();
    let settings = ClientSettings::new(ClientSettings::IN_SEARCH);
    let handle = Arc::new(StrategistClient::new(networks(), settings)).handle();
    bencher.counter(positions.len()).bench_local(|| {
        positions.iter().filter(|position| handle.lookup(black_box(position.key())).is_some()).count()
    });
}

/// One layer with random weights: the work around the transformer's body.
#[divan::bench]
fn evaluation_with_one_layer(bencher: Bencher<'_, '_>) {
    let (position, mut evaluator) = (Position::startpos(), StrategistEvaluator::new(networks()));
    bencher.bench_local(|| evaluator.evaluate(black_box(&position)));
}
