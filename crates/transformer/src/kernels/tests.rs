//! All instruction sets against plain formulas, and against each other.

use super::*;
use crate::linear::{Linear, Plain, Precision, Prepared};
use tandem_chess::random::SplitMix;

fn all() -> impl Iterator<Item = Kernels> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available()).map(Kernels::start)
}

fn numbers(random: &mut SplitMix, count: usize) -> Vec<f32> {
    (0..count).map(|_| (random.unit() * 2.0 - 1.0) as f32).collect()
}

/// Outputs of a layer, rows of which are `x`.
fn apply(kernels: &Kernels, linear: &Linear, x: &[f32], store: Store, before: &[f32]) -> Vec<f32> {
    let mut out = before.to_vec();
    linear.apply(kernels, x, &mut Prepared::default(), store, &mut out);
    out
}

/// Sizes with tails of every kind: rows of a block and of a tile, columns of a panel, inputs of a group and of a tile.
const SIZES: [(usize, usize, usize); 9] = [
    (1, 1, 1),
    (1, 33, 31),
    (2, 64, 32),
    (7, 100, 65),
    (15, 256, 3),
    (16, 65, 96),
    (33, 127, 40),
    (64, 19, 130),
    (79, 300, 64),
];

#[test]
fn this_machine_runs_what_it_has() {
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        assert_eq!(Kernels::start(isa).isa(), isa);
        assert_eq!(isa.name().parse(), Ok(isa));
    }
    assert_eq!("mmx".parse::<Isa>(), Err(IsaError::Unknown("mmx".into())));
    // What is not there is replaced by something that is.
    assert!(Kernels::start(Isa::Amx).isa().is_available());
}

/// Products in full precision: as near to the truth as rounding of each step allows.
#[test]
fn layers_are_products_and_biases() {
    let mut random = SplitMix::new(1);
    for (rows, inputs, outputs) in SIZES {
        let x = numbers(&mut random, rows * inputs);
        let (weights, bias) = (numbers(&mut random, outputs * inputs), numbers(&mut random, outputs));
        let plain = Plain { weights: &weights, bias: Some(&bias), inputs, factor: 0.5 };
        let linear = Linear::new(&[plain], Precision::F32);
        let before = numbers(&mut random, rows * outputs);
        for kernels in all() {
            let relu = Store::Activate(Activation::Relu);
            for (store, combine) in [
                (Store::Set, (|_, sum| sum) as fn(f64, f64) -> f64),
                (Store::Add(0.25), |before, sum| before + 0.25 * sum),
                (Store::Times, |before, sum| before * sum),
                (relu, |_, sum| sum.max(0.0)),
            ] {
                let out = apply(&kernels, &linear, &x, store, &before);
                for (index, &out) in out.iter().enumerate() {
                    let (row, output) = (index / outputs, index % outputs);
                    let products = (0..inputs).map(|input| {
                        f64::from(x[row * inputs + input]) * f64::from(weights[output * inputs + input])
                    });
                    let sum = 0.5 * (products.sum::<f64>() + f64::from(bias[output]));
                    let truth = combine(f64::from(before[index]), sum);
                    assert!((f64::from(out) - truth).abs() < 2e-5, "{:?} {store:?}", kernels.isa());
                }
            }
        }
    }
}

/// Whole numbers leave nothing to rounding: all instruction sets give the same bits, and they are near full precision.
#[test]
fn layers_of_bytes_agree_to_the_bit() {
    let mut random = SplitMix::new(2);
    for (rows, inputs, outputs) in SIZES {
        let mut x = numbers(&mut random, rows * inputs);
        x[0] = -1.0;
        let mut weights = numbers(&mut random, outputs * inputs);
        weights[0] = 1.0;
        let plain = Plain { weights: &weights, bias: None, inputs, factor: 1.0 };
        let [exact, bytes] =
            [Precision::F32, Precision::Int8].map(|precision| Linear::new(&[plain], precision));
        let before = vec![0.0; rows * outputs];
        let truth = apply(&Kernels::start(Isa::Portable), &exact, &x, Store::Set, &before);
        let portable = apply(&Kernels::start(Isa::Portable), &bytes, &x, Store::Set, &before);
        // Each factor is off by at most half a step, which is 1/254 of the largest, and so are the products of the two.
        let bound = inputs as f32 * 2.1 / 254.0;
        for (near, truth) in portable.iter().zip(&truth) {
            assert!((near - truth).abs() < bound, "{near} for {truth}");
        }
        for kernels in all() {
            assert_eq!(apply(&kernels, &bytes, &x, Store::Set, &before), portable, "{:?}", kernels.isa());
        }
    }
}

/// The largest sums there can be, with bytes at both ends.
#[test]
fn bytes_do_not_overflow() {
    let inputs = 1 << 16;
    let x = vec![1.0; inputs];
    let weights = [vec![1.0; inputs], vec![-1.0; inputs]].concat();
    let linear =
        Linear::new(&[Plain { weights: &weights, bias: None, inputs, factor: 1.0 }], Precision::Int8);
    for kernels in all() {
        let out = apply(&kernels, &linear, &x, Store::Set, &[0.0; 2]);
        assert!((out[0] - 65536.0).abs() < 1.0 && (out[1] + 65536.0).abs() < 1.0, "{out:?}");
    }
}

/// Factors of 16 bits are off by at most 2^-9 of themselves; sums differ only in the order of their terms.
#[test]
fn layers_of_short_numbers_agree() {
    let mut random = SplitMix::new(3);
    for (rows, inputs, outputs) in SIZES {
        let x = numbers(&mut random, rows * inputs);
        let weights = numbers(&mut random, outputs * inputs);
        let plain = Plain { weights: &weights, bias: None, inputs, factor: 1.0 };
        let [exact, short] =
            [Precision::F32, Precision::Bf16].map(|precision| Linear::new(&[plain], precision));
        let before = vec![0.0; rows * outputs];
        let portable = Kernels::start(Isa::Portable);
        let truth = apply(&portable, &exact, &x, Store::Set, &before);
        let expected = apply(&portable, &short, &x, Store::Set, &before);
        for (near, truth) in expected.iter().zip(&truth) {
            assert!((near - truth).abs() < inputs as f32 * 2.1 / 512.0, "{near} for {truth}");
        }
        for kernels in all() {
            let out = apply(&kernels, &short, &x, Store::Set, &before);
            for (out, expected) in out.iter().zip(&expected) {
                assert!((out - expected).abs() < 2e-5, "{:?}: {out} for {expected}", kernels.isa());
            }
        }
    }
}

/// Where products are whole numbers all else must agree too, whatever becomes of the sums.
#[test]
fn curves_agree_to_the_bit() {
    let mut random = SplitMix::new(5);
    let (rows, inputs, outputs) = (9, 64, 70);
    let x: Vec<f32> = numbers(&mut random, rows * inputs).iter().map(|x| x * 3.0).collect();
    let weights = numbers(&mut random, outputs * inputs);
    let before = numbers(&mut random, rows * outputs);
    let bias = numbers(&mut random, outputs);
    let plain = Plain { weights: &weights, bias: Some(&bias), inputs, factor: 1.0 };
    let linear = Linear::new(&[plain], Precision::Int8);
    let curves =
        [Activation::Silu, Activation::Mish, Activation::Gelu, Activation::SquaredRelu, Activation::Relu];
    let stores = curves.map(Store::Activate).into_iter().chain([Store::Set, Store::Add(0.3), Store::Times]);
    for store in stores {
        let expected = apply(&Kernels::start(Isa::Portable), &linear, &x, store, &before);
        for kernels in all() {
            assert_eq!(
                apply(&kernels, &linear, &x, store, &before),
                expected,
                "{:?} {store:?}",
                kernels.isa()
            );
        }
    }
}

/// A row that is too small to be divided by becomes bytes of nothing, and is left whole.
#[test]
fn a_row_too_small_for_bytes_is_none() {
    let row = [1e-38f32; TILE_BYTES];
    let mut rest = [0.0; TILE_BYTES];
    left_by_bytes(&mut rest, &row, TILE_BYTES);
    assert_eq!(rest, row);
    for kernels in all() {
        let (mut tiles, mut scales) = (vec![0; TILE_ROWS * TILE_BYTES], [f32::NAN]);
        kernels.quantise(&mut tiles, &mut scales, &row, TILE_BYTES, TILE_BYTES);
        assert_eq!(scales, [0.0], "{:?}", kernels.isa());
        assert!(tiles[..TILE_BYTES].iter().all(|byte| *byte == 128), "{:?}", kernels.isa());
    }
}

/// What networks beyond all measure come to is the same with each instruction set.
#[test]
fn numbers_beyond_measure_agree_to_the_bit() {
    const COLUMNS: usize = 80;
    let strange =
        [90.0, -90.0, 87.5, -87.5, 1e30, -1e30, f32::MAX, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    for (at, &number) in strange.iter().enumerate() {
        let mut scores = vec![0.5f32; 3 * COLUMNS];
        scores[at] = number;
        scores[COLUMNS + at] = number;
        scores[COLUMNS + at + 20] = -number;
        let run = |kernels: &Kernels| {
            let (mut soft, mut factors) = (scores.clone(), [0.0; 3]);
            kernels.softmax(&mut soft, COLUMNS, COLUMNS, None, &mut factors);
            let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<u32>>();
            // One number that is none is as good as another.
            let known = |numbers: Vec<f32>| -> Vec<f32> {
                numbers.into_iter().map(|number| if number.is_nan() { 0.25 } else { number }).collect()
            };
            (bits(&known(soft)), bits(&known(factors.to_vec())))
        };
        let expected = run(&Kernels::start(Isa::Portable));
        for kernels in all() {
            assert_eq!(run(&kernels), expected, "{:?} {number}", kernels.isa());
        }
    }
}

#[test]
fn rows_between_products_agree_to_the_bit() {
    // More rows than stand side by side anywhere.
    const ROWS: usize = 6;
    let mut random = SplitMix::new(4);
    for columns in [1, 15, 16, 64, 78, 79, 80] {
        let stride = columns + 5;
        let scores: Vec<f32> = numbers(&mut random, ROWS * stride).iter().map(|score| score * 30.0).collect();
        let added = numbers(&mut random, ROWS * columns);
        let scale = numbers(&mut random, columns);
        let run = |kernels: &Kernels| {
            let (mut soft, mut factors) = (scores.clone(), [0.0; ROWS]);
            kernels.softmax(&mut soft, stride, columns, Some(&added), &mut factors);
            let normed = [(NormKind::Layer, 1e-3), (NormKind::Rms, 1e-5)].map(|(kind, epsilon)| {
                let mut rows = scores[..ROWS * columns].to_vec();
                kernels.norm(&mut rows, kind, epsilon, &scale, &added[..columns]);
                rows
            });
            let mut turned = vec![0.0; columns.next_multiple_of(PANEL) * 3];
            kernels.turn(&mut turned, &scores, 3, columns, 3);
            (soft, factors, normed, turned)
        };
        let expected = run(&Kernels::start(Isa::Portable));
        for (row, (score, factor)) in expected.0.chunks(stride).zip(expected.1).enumerate() {
            let logit =
                |at: usize| f64::from(scores[row * stride + at]) + f64::from(added[row * columns + at]);
            let sum: f64 = (0..columns).map(|at| logit(at).exp()).sum();
            for (at, &score) in score[..columns].iter().enumerate() {
                let share = f64::from(score) * f64::from(factor);
                assert!((share - logit(at).exp() / sum).abs() < 1e-5);
            }
        }
        for (at, &turned) in expected.3.iter().enumerate() {
            let (panel, depth, column) = (at / (3 * PANEL), at / PANEL % 3, at % PANEL);
            let row = panel * PANEL + column;
            assert!(row >= columns || turned == scores[row * 3 + depth]);
        }
        for kernels in all() {
            assert_eq!(run(&kernels), expected, "{:?}", kernels.isa());
        }
    }
}
