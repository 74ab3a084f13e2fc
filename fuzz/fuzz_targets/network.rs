//! Network files. Random bytes, and valid files with a few bytes changed, are either refused with a message
//! or read and evaluated. A network of any architecture and weights is either refused, or gives the same
//! values with every instruction set and nearly the same in floating point.
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

/// Takes bytes from the front of the input; zeros once it is exhausted.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> usize {
        let (&first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        first.into()
    }

    fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.next() % choices.len()]
    }
}

/// An architecture that may be valid or not, with few inputs so that it is fast.
fn architecture(bytes: &mut Bytes<'_>) -> Architecture {
    let features = match bytes.next() % 4 {
        0 => FeatureSet::king_buckets(&std::array::from_fn(|square| (square / 32) as u8)),
        1 => FeatureSet::king_buckets_mirrored(&std::array::from_fn(|square| (square % 3) as u8)),
        _ => Ok(FeatureSet::plain()),
    };
    let buckets = match bytes.next() % 4 {
        0 => OutputBuckets::ONE,
        1 => OutputBuckets::STOCKFISH,
        2 => OutputBuckets::bullet(bytes.next() % 40),
        _ => {
            OutputBuckets { count: bytes.next() % 40, offset: bytes.next() % 40, divisor: bytes.next() % 40 }
        }
    };
    let head = if bytes.next() % 2 == 0 {
        HeadShape::Flat { activation: bytes.choose(&Activation::ALL), buckets }
    } else {
        HeadShape::Stacks(StackShape {
            input_activation: bytes.choose(&[
                InputActivation::Clipped,
                InputActivation::PairwiseMul127,
                InputActivation::PairwiseMul255,
            ]),
            squared_clipped: bytes.next() % 2 == 0,
            skip: bytes.next() % 2 == 0,
            hidden: bytes.choose(&[16, 8, 32, 2, 15, 0, 1, 33]),
            second: bytes.choose(&[32, 1, 16, 7, 0, 33]),
            buckets,
        })
    };
    Architecture {
        features: features.expect("few buckets"),
        outputs: bytes.choose(&[32, 64, 96, 32, 16, 0]),
        tied: bytes.next() % 2 == 0,
        psqt: matches!(head, HeadShape::Stacks(_)) != (bytes.next() % 8 == 7),
        head,
    }
}

/// A network with parameters from the input, which may be invalid.
fn network(bytes: &mut Bytes<'_>) -> (FloatNetwork, Quantisation) {
    let architecture = architecture(bytes);
    let scale = match architecture.head {
        HeadShape::Stacks(_) => bytes.choose(&[600, 600, 600, 400]),
        HeadShape::Flat { .. } => bytes.choose(&[400, 1, 1 << 20, 0, -1, i32::MAX]),
    };
    let pawn = bytes.choose(&[100, 361, 1, 0, -7]);
    let ones = bytes.choose(&[(255, 64), (127, 64), (1, 1), (i16::MAX, 1), (0, 64), (255, -1)]);
    let mut network = FloatNetwork::zeroed(architecture, scale, pawn);
    fill(&mut network, bytes.0);
    if bytes.next() == 77 {
        network.stacks.pop();
    }
    (network, Quantisation { qa: ones.0, qb: ones.1 })
}

/// Fills the parameters by cycling through the bytes: small numbers, and now and then a huge one or NaN.
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

/// Complete files of the formats that can be small. Files of Stockfish, Jomfish and the student have millions
/// of weights, so for those only the headers are fuzzed, from random bytes.
fn files() -> &'static [Vec<u8>] {
    static FILES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    FILES.get_or_init(|| {
        let mut files = Vec::new();
        // A flat head; stacks with piece-square values; the same without pairwise multiplication; a flat head
        // with separate weights for each perspective.
        for choices in [&[2u8, 2, 4, 0, 2][..], &[2, 1, 1, 1, 0, 0], &[2, 1, 1, 0, 1, 1], &[2, 0, 0, 1, 0, 1]]
        {
            let mut network = FloatNetwork::zeroed(architecture(&mut Bytes(choices)), 600, 100);
            fill(&mut network, b"some weights that are neither large nor all the same");
            let quantised = network.quantise(Quantisation::default()).expect("they fit").0;
            files.push(quantised.to_bytes());
            files.push(network.to_safetensors().expect("it is valid"));
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
    if let Ok(network) = FloatNetwork::from_safetensors(bytes) {
        network.check().expect("what was read is valid");
        evaluate_float(&network);
        if let Ok((network, _)) = network.quantise(Quantisation::default()) {
            evaluate(&network);
        }
    }
}

fn evaluate_float(network: &FloatNetwork) -> Vec<f64> {
    let position = |fen: &&str| Position::from_fen(fen).expect("a good position");
    FENS.iter().map(|fen| network.evaluate(position(fen).board())).collect()
}

/// Tolerance between the integer network and its parameters in floating point: the rounding error of each
/// layer, propagated through the weights of the next.
fn tolerance(network: &FloatNetwork, ones: Quantisation) -> f64 {
    let sizes = |layer: &FloatLayer| {
        let inputs = layer.weights.len() / layer.bias.len();
        let rows = layer.weights.chunks(inputs.max(1));
        rows.map(|row| row.iter().map(|&weight| f64::from(weight.abs())).sum()).fold(0.0, f64::max)
    };
    let scale = f64::from(network.scale);
    let mut worst: f64 = 0.0;
    for stack in &network.stacks {
        worst = worst.max(match network.architecture.head {
            HeadShape::Flat { .. } => {
                let step = 1.0 / (f64::from(ones.qa) * f64::from(ones.qb));
                scale * (step + 1e-4 * (1.0 + sizes(&stack[0])))
            }
            HeadShape::Stacks(shape) => {
                let step = 1.0 / 127.0;
                let inputs = if shape.input_activation.is_pairwise() { step } else { 0.0 };
                let first = inputs * sizes(&stack[0]);
                // The derivative of a square is at most 2, and an error cannot exceed the range from 0 to 1.
                let second = (2.0 * first + 2.0 * step).min(1.0) * sizes(&stack[1]);
                let last = (second + step).min(1.0) * sizes(&stack[2]);
                scale * (last + if shape.skip { first } else { 0.0 }) + 0.01 * scale
            }
        });
    }
    worst + 2.0
}

/// Compares integers with floating point. Plain ReLU is left out, because its sums have no bound.
fn compare(network: &Network) {
    let architecture = network.architecture();
    if matches!(architecture.head, HeadShape::Flat { activation, .. } if activation.upper_bound().is_none()) {
        return;
    }
    let float = network.to_float();
    let tolerance = tolerance(&float, network.quantisation());
    for (fen, exact) in FENS.into_iter().zip(evaluate_float(&float)) {
        let position = Position::from_fen(fen).expect("a good position");
        let value = f64::from(network.evaluate(position.board()).value());
        let held = exact.clamp(f64::from(i32::MIN), f64::from(i32::MAX));
        let near = tolerance + 1e-3 * exact.abs();
        assert!((held - value).abs() <= near, "{architecture}: {value} but {exact}, {near} allowed");
    }
}

fn evaluate(network: &Network) {
    for fen in FENS {
        let position = Position::from_fen(fen).expect("a good position");
        let mut values = Isa::available().map(|isa| {
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
    let mut rest = Bytes(rest);
    match kind % 4 {
        0 => read(rest.0),
        // A valid file with some bytes changed and the checksum corrected.
        1 => {
            let which = rest.next();
            let mut file = match which % 2 {
                0 => files()[which / 2 % files().len()].clone(),
                _ => {
                    let (network, ones) = network(&mut rest);
                    match network.quantise(ones) {
                        Ok((network, _)) => network.to_bytes(),
                        Err(_) => return,
                    }
                }
            };
            for edit in rest.0.chunks_exact(5) {
                let place = u32::from_le_bytes([edit[0], edit[1], edit[2], edit[3]]) as usize;
                // Half of them near the beginning, where the header is.
                let len = if place % 2 == 0 { file.len() } else { file.len().min(1000) };
                file[place / 2 % len] = edit[4];
            }
            if Format::of(&file) == Some(Format::Tandem) {
                reseal(&mut file);
            }
            read(&file);
        }
        2 => {
            let (network, ones) = network(&mut rest);
            if let Ok((network, _)) = network.quantise(ones) {
                evaluate(&network);
                compare(&network);
                let written = network.to_bytes();
                assert_eq!(Network::from_bytes(&written).expect("ours").to_bytes(), written);
            }
        }
        // Bullet's file has no header, so the layout is fuzzed as well.
        _ => {
            let layout = BulletLayout {
                features: FeatureSet::plain(),
                outputs: rest.choose(&[32, 64, 0, 31]),
                activation: rest.choose(&Activation::ALL),
                qa: rest.choose(&[255, 1, i16::MAX, 0, -1]),
                qb: rest.choose(&[64, 1, i16::MAX, 0, -1]),
                scale: rest.choose(&[400, 1 << 20, 0, i32::MAX]),
                buckets: rest.next() % 40,
            };
            let numbers = layout.outputs * 769 + (2 * layout.outputs + 1) * layout.buckets;
            let small = rest.next() as i16 + 1;
            let source = rest.0.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]) / small);
            let file: Vec<u8> = source
                .chain([7])
                .collect::<Vec<_>>()
                .into_iter()
                .cycle()
                .take(numbers)
                .flat_map(i16::to_le_bytes)
                .collect();
            if let Ok(network) = Network::from_bullet(&file, &layout) {
                evaluate(&network);
                compare(&network);
            }
        }
    }
});
