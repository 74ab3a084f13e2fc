//! Network files: whatever the bytes are, they are refused with a message or read and evaluated; good files with a few
//! bytes changed likewise; and whatever weights a network has, every instruction set computes the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;
use tandem_chess::Position;
use tandem_nnue::*;

const FENS: [&str; 3] = [
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
];

fn architecture(stacks: bool) -> Architecture {
    let head = if stacks {
        let squeeze = Squeeze::Pairwise127;
        let buckets = Buckets::STOCKFISH;
        HeadShape::Stacks(StackShape { squeeze, dual: true, skip: true, hidden: 16, second: 32, buckets })
    } else {
        HeadShape::Flat { activation: Activation::Screlu, buckets: Buckets::bullet(4) }
    };
    Architecture { features: FeatureSet::plain(), outputs: 32, tied: true, psqt: stacks, head }
}

/// Numbers from bytes, over and over: small ones, and now and then one that is as large as can be.
fn fill(network: &mut FloatNetwork, bytes: &[u8]) {
    let mut source = bytes.iter().cycle();
    let mut next = |size: f32| match source.next().copied().unwrap_or(0) as i8 {
        i8::MIN => f32::NAN,
        i8::MAX => 1e9,
        number => f32::from(number) / 127.0 * size,
    };
    network.weights.iter_mut().for_each(|number| *number = next(0.3));
    network.bias.iter_mut().for_each(|number| *number = next(0.5));
    network.psqt.iter_mut().for_each(|number| *number = next(1.0));
    for layer in network.stacks.iter_mut().flatten() {
        layer.weights.iter_mut().for_each(|number| *number = next(2.0));
        layer.bias.iter_mut().for_each(|number| *number = next(20.0));
    }
}

/// Whole files of several formats.
fn files() -> &'static [Vec<u8>] {
    static FILES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    FILES.get_or_init(|| {
        let mut files = Vec::new();
        for stacks in [false, true] {
            let mut network = FloatNetwork::zeroed(architecture(stacks), if stacks { 600 } else { 400 }, 100);
            fill(&mut network, b"some weights that are neither large nor all the same");
            files.push(network.quantise(Quantisation::default()).expect("they fit").0.to_bytes());
            files.push(network.to_safetensors());
        }
        files
    })
}

fn read(bytes: &[u8]) {
    if let Ok(network) = Network::from_bytes(bytes) {
        evaluate(&network);
        let written = network.to_bytes();
        let again = Network::from_bytes(&written).expect("what was read can be written and read again");
        assert_eq!(again.to_bytes(), written);
    }
    if let Ok(network) = FloatNetwork::from_safetensors(bytes)
        && let Ok((network, _)) = network.quantise(Quantisation::default())
    {
        evaluate(&network);
    }
}

fn evaluate(network: &Network) {
    for fen in FENS {
        let position = Position::from_fen(fen).expect("a good position");
        let mut values = Isa::ALL.into_iter().filter(|isa| isa.is_available()).map(|isa| {
            let value = network.clone().with_isa(isa).evaluate(position.board());
            value.centipawns();
            value
        });
        let first = values.next();
        assert!(values.all(|value| Some(value) == first));
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => read(rest),
        1 => {
            let (which, edits) = rest.split_first().unwrap_or((&0, &[]));
            let mut file = files()[usize::from(*which) % files().len()].clone();
            for edit in edits.chunks_exact(5) {
                let place = u32::from_le_bytes([edit[0], edit[1], edit[2], edit[3]]) as usize;
                // Half of them near the beginning, where the words are.
                let len = if place % 2 == 0 { file.len() } else { file.len().min(1000) };
                file[place / 2 % len] = edit[4];
            }
            read(&file);
        }
        stacks => {
            let stacks = stacks == 2;
            let mut network = FloatNetwork::zeroed(architecture(stacks), if stacks { 600 } else { 400 }, 100);
            fill(&mut network, rest);
            if let Ok((network, _)) = network.quantise(Quantisation { qa: 255, qb: 64 }) {
                evaluate(&network);
            }
        }
    }
});
