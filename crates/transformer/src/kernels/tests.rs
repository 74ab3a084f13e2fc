//! Compares all instruction sets with plain formulas, and with each other.

use super::*;
use crate::linear::{Linear, LinearScratch, Precision, UnpackedLinear};
use tandem_util::random::SplitMix;

/// Instruction sets with kernels of their own.
fn available() -> impl Iterator<Item = Isa> {
    Isa::available().filter(|isa| *isa != Isa::Sse41)
}

fn all() -> impl Iterator<Item = Kernels> {
    available().map(Kernels::start)
}

fn values(random: &mut SplitMix, count: usize) -> Vec<f32> {
    (0..count).map(|_| (random.unit() * 2.0 - 1.0) as f32).collect()
}

/// Outputs of a layer for the rows of `x`.
fn apply(kernels: &Kernels, linear: &Linear, x: &[f32], epilogue: Epilogue, before: &[f32]) -> Vec<f32> {
    let mut out = before.to_vec();
    linear.apply(kernels, x, &mut LinearScratch::default(), epilogue, &mut out);
    out
}

/// Sizes with all kinds of tails: rows of a block and of a tile, columns of a panel, inputs of a group and of
/// a tile.
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
fn available_instruction_sets_are_used() {
    for isa in available() {
        assert_eq!(Kernels::start(isa).isa(), isa);
    }
    assert_eq!(Kernels::start(Isa::Sse41).isa(), Isa::Portable);
    // An instruction set that is missing is replaced by one that is available.
    assert!(Kernels::start(Isa::Amx).isa().is_available());
}

/// Full-precision products are as accurate as the rounding of each step allows.
#[test]
fn layers_match_the_formula() {
    let mut random = SplitMix::new(1);
    for (rows, inputs, outputs) in SIZES {
        let x = values(&mut random, rows * inputs);
        let (weights, bias) = (values(&mut random, outputs * inputs), values(&mut random, outputs));
        let unpacked = UnpackedLinear { weights: &weights, bias: Some(&bias), inputs, factor: 0.5 };
        let linear = Linear::new(&[unpacked], Precision::F32);
        let before = values(&mut random, rows * outputs);
        for kernels in all() {
            let relu = Epilogue::Activate(Activation::Relu);
            for (epilogue, combine) in [
                (Epilogue::Assign, (|_, sum| sum) as fn(f64, f64) -> f64),
                (Epilogue::AddScaled(0.25), |before, sum| before + 0.25 * sum),
                (Epilogue::Multiply, |before, sum| before * sum),
                (relu, |_, sum| sum.max(0.0)),
            ] {
                let out = apply(&kernels, &linear, &x, epilogue, &before);
                for (index, &out) in out.iter().enumerate() {
                    let (row, output) = (index / outputs, index % outputs);
                    let products = (0..inputs).map(|input| {
                        f64::from(x[row * inputs + input]) * f64::from(weights[output * inputs + input])
                    });
                    let sum = 0.5 * (products.sum::<f64>() + f64::from(bias[output]));
                    let truth = combine(f64::from(before[index]), sum);
                    assert!((f64::from(out) - truth).abs() < 2e-5, "{:?} {epilogue:?}", kernels.isa());
                }
            }
        }
    }
}

/// Integer sums do not round: all instruction sets give the same bits, and they are near full precision.
#[test]
fn int8_layers_agree_to_the_bit() {
    let mut random = SplitMix::new(2);
    for (rows, inputs, outputs) in SIZES {
        let mut x = values(&mut random, rows * inputs);
        x[0] = -1.0;
        let mut weights = values(&mut random, outputs * inputs);
        weights[0] = 1.0;
        let unpacked = UnpackedLinear { weights: &weights, bias: None, inputs, factor: 1.0 };
        let [exact, bytes] =
            [Precision::F32, Precision::Int8].map(|precision| Linear::new(&[unpacked], precision));
        let before = vec![0.0; rows * outputs];
        let truth = apply(&Kernels::start(Isa::Portable), &exact, &x, Epilogue::Assign, &before);
        let portable = apply(&Kernels::start(Isa::Portable), &bytes, &x, Epilogue::Assign, &before);
        // Each factor is off by at most half a step, which is 1/254 of the largest, and so are the products
        // of the two.
        let bound = inputs as f32 * 2.1 / 254.0;
        for (near, truth) in portable.iter().zip(&truth) {
            assert!((near - truth).abs() < bound, "{near} for {truth}");
        }
        for kernels in all() {
            assert_eq!(
                apply(&kernels, &bytes, &x, Epilogue::Assign, &before),
                portable,
                "{:?}",
                kernels.isa()
            );
        }
    }
}

/// The largest possible sums, of bytes at both ends of their range.
#[test]
fn int8_sums_do_not_overflow() {
    let inputs = 1 << 16;
    let x = vec![1.0; inputs];
    let weights = [vec![1.0; inputs], vec![-1.0; inputs]].concat();
    let linear = Linear::new(
        &[UnpackedLinear { weights: &weights, bias: None, inputs, factor: 1.0 }],
        Precision::Int8,
    );
    for kernels in all() {
        let out = apply(&kernels, &linear, &x, Epilogue::Assign, &[0.0; 2]);
        assert!((out[0] - 65536.0).abs() < 1.0 && (out[1] + 65536.0).abs() < 1.0, "{out:?}");
    }
}

/// bfloat16 factors are off by at most 2^-9 of themselves; sums differ only in the order of their terms.
#[test]
fn bf16_layers_agree() {
    let mut random = SplitMix::new(3);
    for (rows, inputs, outputs) in SIZES {
        let x = values(&mut random, rows * inputs);
        let weights = values(&mut random, outputs * inputs);
        let unpacked = UnpackedLinear { weights: &weights, bias: None, inputs, factor: 1.0 };
        let [exact, short] =
            [Precision::F32, Precision::Bf16].map(|precision| Linear::new(&[unpacked], precision));
        let before = vec![0.0; rows * outputs];
        let portable = Kernels::start(Isa::Portable);
        let truth = apply(&portable, &exact, &x, Epilogue::Assign, &before);
        let expected = apply(&portable, &short, &x, Epilogue::Assign, &before);
        for (near, truth) in expected.iter().zip(&truth) {
            assert!((near - truth).abs() < inputs as f32 * 2.1 / 512.0, "{near} for {truth}");
        }
        for kernels in all() {
            let out = apply(&kernels, &short, &x, Epilogue::Assign, &before);
            for (out, expected) in out.iter().zip(&expected) {
                assert!((out - expected).abs() < 2e-5, "{:?}: {out} for {expected}", kernels.isa());
            }
        }
    }
}

/// With integer products the epilogues must agree too, including all activation functions.
#[test]
fn epilogues_agree_to_the_bit() {
    let mut random = SplitMix::new(5);
    let (rows, inputs, outputs) = (9, 64, 70);
    let x: Vec<f32> = values(&mut random, rows * inputs).iter().map(|x| x * 3.0).collect();
    let weights = values(&mut random, outputs * inputs);
    let before = values(&mut random, rows * outputs);
    let bias = values(&mut random, outputs);
    let unpacked = UnpackedLinear { weights: &weights, bias: Some(&bias), inputs, factor: 1.0 };
    let linear = Linear::new(&[unpacked], Precision::Int8);
    let activations =
        [Activation::Silu, Activation::Mish, Activation::Gelu, Activation::SquaredRelu, Activation::Relu];
    let epilogues = activations.map(Epilogue::Activate).into_iter().chain([
        Epilogue::Assign,
        Epilogue::AddScaled(0.3),
        Epilogue::Multiply,
    ]);
    for epilogue in epilogues {
        let expected = apply(&Kernels::start(Isa::Portable), &linear, &x, epilogue, &before);
        for kernels in all() {
            assert_eq!(
                apply(&kernels, &linear, &x, epilogue, &before),
                expected,
                "{:?} {epilogue:?}",
                kernels.isa()
            );
        }
    }
}

/// A row that is too small to be divided by becomes zero bytes, and all of it remains as residual.
#[test]
fn a_row_too_small_to_quantise_becomes_zero() {
    let row = [1e-38f32; TILE_BYTES];
    let mut rest = [0.0; TILE_BYTES];
    quantisation_residual(&mut rest, &row, TILE_BYTES);
    assert_eq!(rest, row);
    for kernels in all() {
        let (mut tiles, mut scales) = (vec![0; TILE_ROWS * TILE_BYTES], [f32::NAN]);
        kernels.quantise(&mut tiles, &mut scales, &row, TILE_BYTES, TILE_BYTES);
        assert_eq!(scales, [0.0], "{:?}", kernels.isa());
        assert!(tiles[..TILE_BYTES].iter().all(|byte| *byte == 128), "{:?}", kernels.isa());
    }
}

/// Overflow, infinities and NaN give the same results on each instruction set.
#[test]
fn overflow_and_nan_agree_to_the_bit() {
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
            let bits = |values: &[f32]| values.iter().map(|number| number.to_bits()).collect::<Vec<u32>>();
            // Any NaN is as good as another.
            let known = |values: Vec<f32>| -> Vec<f32> {
                values.into_iter().map(|number| if number.is_nan() { 0.25 } else { number }).collect()
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
fn row_operations_agree_to_the_bit() {
    // More rows than any kernel processes side by side.
    const ROWS: usize = 6;
    let mut random = SplitMix::new(4);
    for columns in [1, 15, 16, 64, 78, 79, 80] {
        let stride = columns + 5;
        let scores: Vec<f32> = values(&mut random, ROWS * stride).iter().map(|score| score * 30.0).collect();
        let added = values(&mut random, ROWS * columns);
        let scale = values(&mut random, columns);
        let run = |kernels: &Kernels| {
            let (mut soft, mut factors) = (scores.clone(), [0.0; ROWS]);
            kernels.softmax(&mut soft, stride, columns, Some(&added), &mut factors);
            let normed = [(NormKind::Layer, 1e-3), (NormKind::Rms, 1e-5)].map(|(kind, epsilon)| {
                let mut rows = scores[..ROWS * columns].to_vec();
                kernels.norm(&mut rows, kind, epsilon, &scale, &added[..columns]);
                rows
            });
            let mut turned = vec![0.0; columns.next_multiple_of(PANEL) * 3];
            kernels.transpose(&mut turned, &scores, 3, columns, 3);
            (soft, factors, normed, turned)
        };
        let expected = run(&Kernels::start(Isa::Portable));
        for (row, (score, factor)) in expected.0.chunks(stride).zip(expected.1).enumerate() {
            let logit =
                |at: usize| f64::from(scores[row * stride + at]) + f64::from(added[row * columns + at]);
            let sum: f64 = (0..columns).map(|at| logit(at).exp()).sum();
            for (at, &score) in score[..columns].iter().enumerate() {
                let probability = f64::from(score) * f64::from(factor);
                assert!((probability - logit(at).exp() / sum).abs() < 1e-5);
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
