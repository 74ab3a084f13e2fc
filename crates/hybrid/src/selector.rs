//! The selector: a small classifier that decides if a position is worth a query of the strategist.
//!
//! It runs at every node that is deep enough for a query, so its weights lie in memory as vector instructions
//! read them.

mod features;

pub use features::{FEATURES, Feature, FeatureContext, Features};

use features::NUM_FEATURES;
use tandem_util::random::SplitMix;

const HIDDEN1: usize = 64;
const HIDDEN2: usize = 32;

/// Outputs computed at once, sixteen floats: one AVX-512 register or two of AVX2.
const BLOCK_OUTPUTS: usize = 16;

/// Sixteen outputs of a layer, with the weights of each input side by side, so that a vector instruction
/// multiplies all of them by that input.
#[derive(Clone, Debug, PartialEq)]
#[repr(align(64))]
struct OutputBlock<const I: usize> {
    weights: [[f32; BLOCK_OUTPUTS]; I],
    bias: [f32; BLOCK_OUTPUTS],
}

/// A small network that decides if a position is worth a query of the transformer (the strategist). Its
/// layers have 20, 64, 32 and 1 values, with [`Features`] as input and ReLU between them. Its output is the
/// probability that the strategist's evaluation is closer to a deep search than the NNUE's (the tactician's).
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    first: Box<[OutputBlock<NUM_FEATURES>; HIDDEN1 / BLOCK_OUTPUTS]>,
    second: Box<[OutputBlock<HIDDEN1>; HIDDEN2 / BLOCK_OUTPUTS]>,
    last: [f32; HIDDEN2],
    last_bias: f32,
}

/// Minimum output of the selector, a probability, with which a position is queried.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Threshold {
    probability: f32,
    /// The probability as a logit, so that the search can compare without a sigmoid, whose last bits differ
    /// between machines.
    logit: f32,
}

impl Threshold {
    /// Threshold at a probability; 0 selects every position, 1 none.
    pub fn new(probability: f32) -> Self {
        Self { probability, logit: (probability / (1.0 - probability)).ln() }
    }

    /// The probability from 0 to 1 that was given to [`Self::new`].
    pub fn probability(self) -> f32 {
        self.probability
    }
}

impl Selector {
    /// Shapes of the layers, as outputs and inputs.
    const SHAPES: [[usize; 2]; 3] = [[HIDDEN1, NUM_FEATURES], [HIDDEN2, HIDDEN1], [1, HIDDEN2]];
    const NAMES: [[&'static str; 2]; 3] = [
        ["selector.0.weight", "selector.0.bias"],
        ["selector.1.weight", "selector.1.bias"],
        ["selector.2.weight", "selector.2.bias"],
    ];

    /// Creates a selector from tensors, which are requested by the names and shapes that [`Self::tensors`]
    /// gives; weights are row-major, one row per output.
    ///
    /// # Errors
    /// If `tensor` fails; its error is passed on.
    ///
    /// # Panics
    /// If a tensor's length does not match its shape.
    pub fn from_tensors<E>(
        mut tensor: impl FnMut(&'static str, &[usize]) -> Result<Vec<f32>, E>,
    ) -> Result<Self, E> {
        let mut values = |index: usize| -> Result<(Vec<f32>, Vec<f32>), E> {
            let (shape, [weight, bias]) = (Self::SHAPES[index], Self::NAMES[index]);
            let (weights, biases) = (tensor(weight, &shape)?, tensor(bias, &shape[..1])?);
            assert_eq!((weights.len(), biases.len()), (shape[0] * shape[1], shape[0]), "values of {weight}");
            Ok((weights, biases))
        };
        let (first, first_bias) = values(0)?;
        let (second, second_bias) = values(1)?;
        let (last, last_bias) = values(2)?;
        Ok(Self {
            first: layer(&first, &first_bias),
            second: layer(&second, &second_bias),
            last: std::array::from_fn(|at| last[at]),
            last_bias: last_bias[0],
        })
    }

    /// A selector to begin training with: Xavier-uniform weights and zero biases.
    pub fn random(seed: u64) -> Self {
        let mut random = SplitMix::new(seed);
        let made = Self::from_tensors(|_, shape| {
            let bound = match shape {
                [outputs, inputs] => (6.0 / (outputs + inputs) as f64).sqrt(),
                _ => 0.0,
            };
            let value = || ((2.0 * random.unit() - 1.0) * bound) as f32;
            Ok(std::iter::repeat_with(value).take(shape.iter().product()).collect())
        });
        let Ok::<Self, std::convert::Infallible>(selector) = made;
        selector
    }

    /// Tensors with names and shapes, in the order in which files store them and trainers update them.
    pub fn tensors(&self) -> Vec<(&'static str, Vec<usize>, Vec<f32>)> {
        let values = [
            output_major(&self.first[..]),
            output_major(&self.second[..]),
            [self.last.to_vec(), vec![self.last_bias]],
        ];
        let mut tensors = Vec::new();
        for ((shape, [weight, bias]), [weights, biases]) in
            Self::SHAPES.into_iter().zip(Self::NAMES).zip(values)
        {
            tensors.push((weight, shape.to_vec(), weights));
            tensors.push((bias, vec![shape[0]], biases));
        }
        tensors
    }

    /// Output before the sigmoid.
    fn logit(&self, features: &Features) -> f32 {
        let mut hidden = [0.0; HIDDEN1];
        for (values, block) in hidden.as_chunks_mut().0.iter_mut().zip(&*self.first) {
            *values = block.apply(features.values());
        }
        let mut second = [0.0; HIDDEN2];
        for (values, block) in second.as_chunks_mut().0.iter_mut().zip(&*self.second) {
            *values = block.apply(&hidden);
        }
        for (value, weight) in second.iter_mut().zip(&self.last) {
            *value *= weight;
        }
        self.last_bias + halving_sum(second)
    }

    /// Probability, from 0 to 1, that the strategist's evaluation is closer to a deep search than the
    /// tactician's.
    pub fn probability(&self, features: &Features) -> f32 {
        1.0 / (1.0 + (-self.logit(features)).exp())
    }

    /// True if the position is worth a query: the probability is at least the threshold.
    #[inline]
    pub fn selects(&self, features: &Features, threshold: Threshold) -> bool {
        self.logit(features) >= threshold.logit
    }
}

impl<const I: usize> OutputBlock<I> {
    /// Outputs after ReLU. Not inlined, because compiled together with the next layer it takes several times
    /// as long.
    #[inline(never)]
    fn apply(&self, inputs: &[f32; I]) -> [f32; BLOCK_OUTPUTS] {
        // Four independent sums per output, so that no addition waits for the one before.
        let [mut a, mut b, mut c, mut d] =
            [self.bias, [0.0; BLOCK_OUTPUTS], [0.0; BLOCK_OUTPUTS], [0.0; BLOCK_OUTPUTS]];
        let inputs = inputs.as_chunks::<4>().0;
        for ([i, j, k, l], [w, x, y, z]) in inputs.iter().zip(self.weights.as_chunks::<4>().0) {
            a = add_products(a, *i, w);
            b = add_products(b, *j, x);
            c = add_products(c, *k, y);
            d = add_products(d, *l, z);
        }
        std::array::from_fn(|output| ((a[output] + b[output]) + (c[output] + d[output])).max(0.0))
    }
}

/// One fused multiply-add where the build targets machines that have it, which rounds once instead of twice.
/// So builds may differ in the last bit, and in the decision on a position right at the threshold.
#[inline(always)]
fn add_products(
    sums: [f32; BLOCK_OUTPUTS],
    input: f32,
    weights: &[f32; BLOCK_OUTPUTS],
) -> [f32; BLOCK_OUTPUTS] {
    std::array::from_fn(|output| match cfg!(target_feature = "fma") {
        true => input.mul_add(weights[output], sums[output]),
        false => sums[output] + input * weights[output],
    })
}

/// Rearranges row-major weights into blocks.
fn layer<const I: usize, const B: usize>(rows: &[f32], bias: &[f32]) -> Box<[OutputBlock<I>; B]> {
    let weight = |input: usize, output: usize| rows[output * I + input];
    let block = |first: usize| OutputBlock {
        weights: std::array::from_fn(|input| std::array::from_fn(|at| weight(input, first + at))),
        bias: std::array::from_fn(|at| bias[first + at]),
    };
    Box::new(std::array::from_fn(|index| block(index * BLOCK_OUTPUTS)))
}

/// Rearranges the blocks of a layer into row-major weights, and returns them with the biases.
fn output_major<const I: usize>(layer: &[OutputBlock<I>]) -> [Vec<f32>; 2] {
    let row = |block: &OutputBlock<I>, output: usize| block.weights.map(|weights| weights[output]);
    let rows = layer.iter().flat_map(|block| (0..BLOCK_OUTPUTS).flat_map(move |output| row(block, output)));
    [rows.collect(), layer.iter().flat_map(|block| block.bias).collect()]
}

/// Sum of the values by repeated halving, an order that vector instructions can follow.
fn halving_sum(mut values: [f32; HIDDEN2]) -> f32 {
    let mut width = HIDDEN2 / 2;
    while width > 0 {
        for at in 0..width {
            values[at] += values[at + width];
        }
        width /= 2;
    }
    values[0]
}

/// The lowest threshold that selects at most the fraction `usage` of some positions, given the selector's
/// outputs for them. For example `usage = 0.2` selects at most a fifth.
pub fn threshold_for(probabilities: &[f32], usage: f64) -> Threshold {
    let mut falling: Vec<f32> = probabilities.iter().copied().filter(|value| !value.is_nan()).collect();
    falling.sort_by(|a, b| b.total_cmp(a));
    let asked = ((falling.len() as f64 * usage.clamp(0.0, 1.0)).floor() as usize).min(falling.len());
    let Some(&first_left_out) = falling.get(asked) else { return Threshold::new(0.0) };
    // Values equal to the first that is left out are left out with it.
    let least = falling[..asked].iter().copied().rfind(|&probability| probability > first_left_out);
    Threshold::new(least.unwrap_or(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tandem_chess::Position;

    fn features(fen: &str) -> Features {
        Features::of(&Position::from_fen(fen).unwrap(), FeatureContext { depth: 9, psqt_positional_gap: 1.0 })
    }

    #[test]
    fn its_tensors_have_the_declared_shapes() {
        let selector = Selector::random(1);
        let shapes: Vec<Vec<usize>> = selector.tensors().into_iter().map(|(_, shape, _)| shape).collect();
        assert_eq!(shapes, [vec![64, 20], vec![64], vec![32, 64], vec![32], vec![1, 32], vec![1]]);
        for (_, shape, values) in selector.tensors() {
            assert_eq!(values.len(), shape.iter().product::<usize>());
        }
        let again = Selector::from_tensors(|name, _| {
            let found = selector.tensors().into_iter().find(|(other, ..)| *other == name);
            found.map(|(_, _, values)| values).ok_or(())
        });
        assert_eq!(again, Ok(selector));
    }

    /// The reference computes layer after layer in double precision, from the tensors as files hold them.
    #[test]
    fn it_equals_a_double_precision_reference() {
        for seed in 0..20 {
            let selector = Selector::random(seed);
            let features = features("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1");
            let mut row: Vec<f64> = features.values().iter().copied().map(f64::from).collect();
            for (index, layer) in selector.tensors().chunks_exact(2).enumerate() {
                let [(_, _, weights), (_, _, biases)] = layer else { unreachable!() };
                if index > 0 {
                    row.iter_mut().for_each(|value| *value = value.max(0.0));
                }
                let sums = weights.chunks_exact(row.len()).zip(biases).map(|(weights, &bias)| {
                    let products = weights.iter().zip(&row).map(|(&weight, value)| f64::from(weight) * value);
                    f64::from(bias) + products.sum::<f64>()
                });
                row = sums.collect();
            }
            let expected = 1.0 / (1.0 + (-row[0]).exp());
            assert!((f64::from(selector.probability(&features)) - expected).abs() < 1e-5);
        }
    }

    #[test]
    fn positions_are_selected_from_the_threshold_on() {
        let features = features("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1");
        for seed in 0..50 {
            let selector = Selector::random(seed);
            let probability = selector.probability(&features);
            assert!(selector.selects(&features, Threshold::new(probability - 0.001)));
            assert!(!selector.selects(&features, Threshold::new(probability + 0.001)));
            assert!(selector.selects(&features, Threshold::new(0.0)));
            assert!(!selector.selects(&features, Threshold::new(1.0)));
        }
    }

    #[test]
    fn the_threshold_selects_at_most_the_wanted_fraction() {
        let probabilities = [0.1, 0.9, 0.5, 0.7, 0.3];
        let used = |usage: f64| {
            let threshold = threshold_for(&probabilities, usage);
            probabilities.iter().filter(|&&probability| probability >= threshold.probability()).count()
        };
        assert_eq!([0.0, 0.1, 0.2, 0.5, 0.8, 0.99, 1.0].map(used), [0, 0, 1, 2, 4, 4, 5]);
        assert_eq!(threshold_for(&[], 0.5).probability(), 0.0);
        // Equal probabilities are selected together or not at all.
        assert_eq!(threshold_for(&[0.5; 4], 0.5).probability(), 1.0);
        assert_eq!(threshold_for(&[0.8, 0.5, 0.5], 0.7).probability(), 0.8);
    }

    proptest! {
        #[test]
        fn a_threshold_never_selects_more_than_the_wanted_fraction(
            probabilities in prop::collection::vec(0f32..0.999, 1..60),
            usage in 0f64..=1.0,
        ) {
            let threshold = threshold_for(&probabilities, usage).probability();
            let used = probabilities.iter().filter(|&&probability| probability >= threshold).count();
            prop_assert!(used as f64 <= usage * probabilities.len() as f64 + 1e-9);
        }
    }
}
