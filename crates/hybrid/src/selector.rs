//! The selector: whether a position is worth the strategist's time.

mod features;

pub use features::{Circumstances, FEATURES, Feature, Features};

use features::COUNT;
use tandem_chess::random::SplitMix;

const FIRST: usize = 64;
const SECOND: usize = 32;

/// Outputs that the machine adds to at once.
const BLOCK: usize = 16;

/// Some outputs of a layer, with their weights by input, where the machine likes to read them.
#[derive(Clone, Debug, PartialEq)]
#[repr(align(64))]
struct Block<const I: usize> {
    weights: [[f32; BLOCK]; I],
    bias: [f32; BLOCK],
}

/// A small network on [`Features`]: 20 numbers, 64, 32, and the probability that the strategist knows better.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    first: Box<[Block<COUNT>; FIRST / BLOCK]>,
    second: Box<[Block<FIRST>; SECOND / BLOCK]>,
    last: [f32; SECOND],
    last_bias: f32,
}

/// How probable it must be that the strategist knows better for it to be asked.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Threshold {
    probability: f32,
    /// The same as the selector's last sum, which spares the search the curve and what machines make of it.
    logit: f32,
}

impl Threshold {
    /// One that asks from a probability on.
    pub fn new(probability: f32) -> Self {
        Self { probability, logit: (probability / (1.0 - probability)).ln() }
    }

    /// The probability.
    pub fn probability(self) -> f32 {
        self.probability
    }
}

impl Selector {
    /// The shapes of its layers, as `outputs` and `inputs`.
    const SHAPES: [[usize; 2]; 3] = [[FIRST, COUNT], [SECOND, FIRST], [1, SECOND]];
    const NAMES: [[&'static str; 2]; 3] = [
        ["selector.0.weight", "selector.0.bias"],
        ["selector.1.weight", "selector.1.bias"],
        ["selector.2.weight", "selector.2.bias"],
    ];

    /// A selector of tensors that are asked for by name and shape, as [`Self::tensors`] gives them: weights have a row for
    /// each output.
    ///
    /// # Panics
    /// If a tensor has more or fewer numbers than its shape.
    pub fn of_tensors<E>(
        mut tensor: impl FnMut(&'static str, &[usize]) -> Result<Vec<f32>, E>,
    ) -> Result<Self, E> {
        let mut numbers = |index: usize| -> Result<(Vec<f32>, Vec<f32>), E> {
            let (shape, [weight, bias]) = (Self::SHAPES[index], Self::NAMES[index]);
            let (weights, biases) = (tensor(weight, &shape)?, tensor(bias, &shape[..1])?);
            assert_eq!((weights.len(), biases.len()), (shape[0] * shape[1], shape[0]), "numbers of {weight}");
            Ok((weights, biases))
        };
        let (first, first_bias) = numbers(0)?;
        let (second, second_bias) = numbers(1)?;
        let (last, last_bias) = numbers(2)?;
        Ok(Self {
            first: layer(&first, &first_bias),
            second: layer(&second, &second_bias),
            last: std::array::from_fn(|at| last[at]),
            last_bias: last_bias[0],
        })
    }

    /// A start for training.
    pub fn random(seed: u64) -> Self {
        let mut random = SplitMix::new(seed);
        let made = Self::of_tensors(|_, shape| {
            let bound = match shape {
                [outputs, inputs] => (6.0 / (outputs + inputs) as f64).sqrt(),
                _ => 0.0,
            };
            let number = || ((2.0 * random.unit() - 1.0) * bound) as f32;
            Ok(std::iter::repeat_with(number).take(shape.iter().product()).collect())
        });
        let Ok::<Self, std::convert::Infallible>(selector) = made;
        selector
    }

    /// Its tensors with their names and shapes, as files hold them and trainers change them.
    pub fn tensors(&self) -> Vec<(&'static str, Vec<usize>, Vec<f32>)> {
        let numbers = [
            by_output(&self.first[..]),
            by_output(&self.second[..]),
            [self.last.to_vec(), vec![self.last_bias]],
        ];
        let mut tensors = Vec::new();
        for ((shape, [weight, bias]), [weights, biases]) in
            Self::SHAPES.into_iter().zip(Self::NAMES).zip(numbers)
        {
            tensors.push((weight, shape.to_vec(), weights));
            tensors.push((bias, vec![shape[0]], biases));
        }
        tensors
    }

    /// The logit of the probability that the strategist knows better.
    fn logit(&self, features: &Features) -> f32 {
        let mut hidden = [0.0; FIRST];
        for (numbers, block) in hidden.as_chunks_mut().0.iter_mut().zip(&*self.first) {
            *numbers = block.apply(features.numbers());
        }
        let mut second = [0.0; SECOND];
        for (numbers, block) in second.as_chunks_mut().0.iter_mut().zip(&*self.second) {
            *numbers = block.apply(&hidden);
        }
        for (number, weight) in second.iter_mut().zip(&self.last) {
            *number *= weight;
        }
        self.last_bias + folded(second)
    }

    /// The probability that the strategist knows better.
    pub fn probability(&self, features: &Features) -> f32 {
        1.0 / (1.0 + (-self.logit(features)).exp())
    }

    /// Whether the strategist should be asked.
    #[inline]
    pub fn chooses(&self, features: &Features, threshold: Threshold) -> bool {
        self.logit(features) >= threshold.logit
    }
}

impl<const I: usize> Block<I> {
    /// The positive parts of its outputs. Compiled together with what comes after it, it would take several times as long.
    #[inline(never)]
    fn apply(&self, inputs: &[f32; I]) -> [f32; BLOCK] {
        // Four sums for each output, so that none waits for another.
        let [mut a, mut b, mut c, mut d] = [self.bias, [0.0; BLOCK], [0.0; BLOCK], [0.0; BLOCK]];
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

/// In one step where the program was built for machines that have it, which rounds once instead of twice. So builds may
/// differ in the last bit, and on a position that stands at the very threshold.
#[inline(always)]
fn add_products(sums: [f32; BLOCK], input: f32, weights: &[f32; BLOCK]) -> [f32; BLOCK] {
    std::array::from_fn(|output| match cfg!(target_feature = "fma") {
        true => input.mul_add(weights[output], sums[output]),
        false => sums[output] + input * weights[output],
    })
}

/// A layer of weights with a row for each output.
fn layer<const I: usize, const B: usize>(rows: &[f32], bias: &[f32]) -> Box<[Block<I>; B]> {
    let weight = |input: usize, output: usize| rows[output * I + input];
    let block = |first: usize| Block {
        weights: std::array::from_fn(|input| std::array::from_fn(|at| weight(input, first + at))),
        bias: std::array::from_fn(|at| bias[first + at]),
    };
    Box::new(std::array::from_fn(|index| block(index * BLOCK)))
}

/// The weights of a layer, with a row for each output, and its biases.
fn by_output<const I: usize>(layer: &[Block<I>]) -> [Vec<f32>; 2] {
    let row = |block: &Block<I>, output: usize| block.weights.map(|weights| weights[output]);
    let rows = layer.iter().flat_map(|block| (0..BLOCK).flat_map(move |output| row(block, output)));
    [rows.collect(), layer.iter().flat_map(|block| block.bias).collect()]
}

/// The sum of numbers, by halves.
fn folded(mut numbers: [f32; SECOND]) -> f32 {
    let mut width = SECOND / 2;
    while width > 0 {
        for at in 0..width {
            numbers[at] += numbers[at + width];
        }
        width /= 2;
    }
    numbers[0]
}

/// The least threshold that asks the strategist about no more than a part of all positions, by the probabilities that a
/// selector gives to a sample of them.
pub fn threshold_for(probabilities: &[f32], usage: f64) -> Threshold {
    let mut falling: Vec<f32> = probabilities.iter().copied().filter(|number| !number.is_nan()).collect();
    falling.sort_by(|a, b| b.total_cmp(a));
    let asked = ((falling.len() as f64 * usage.clamp(0.0, 1.0)).floor() as usize).min(falling.len());
    let Some(&first_left_out) = falling.get(asked) else { return Threshold::new(0.0) };
    // Those that are as probable as the first that is left out are left out with it.
    let least = falling[..asked].iter().copied().rfind(|&probability| probability > first_left_out);
    Threshold::new(least.unwrap_or(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tandem_chess::Position;

    fn features(fen: &str) -> Features {
        Features::of(&Position::from_fen(fen).unwrap(), Circumstances { depth: 9, discord: 1.0 })
    }

    #[test]
    fn it_has_the_shape_it_says() {
        let selector = Selector::random(1);
        let shapes: Vec<Vec<usize>> = selector.tensors().into_iter().map(|(_, shape, _)| shape).collect();
        assert_eq!(shapes, [vec![64, 20], vec![64], vec![32, 64], vec![32], vec![1, 32], vec![1]]);
        for (_, shape, numbers) in selector.tensors() {
            assert_eq!(numbers.len(), shape.iter().product::<usize>());
        }
        let again = Selector::of_tensors(|name, _| {
            let found = selector.tensors().into_iter().find(|(other, ..)| *other == name);
            found.map(|(_, _, numbers)| numbers).ok_or(())
        });
        assert_eq!(again, Ok(selector));
    }

    /// The layers one after the other, in double precision, from the tensors as files hold them.
    #[test]
    fn it_computes_what_it_says() {
        for seed in 0..20 {
            let selector = Selector::random(seed);
            let features = features("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1");
            let mut row: Vec<f64> = features.numbers().iter().copied().map(f64::from).collect();
            for (index, layer) in selector.tensors().chunks_exact(2).enumerate() {
                let [(_, _, weights), (_, _, biases)] = layer else { unreachable!() };
                if index > 0 {
                    row.iter_mut().for_each(|number| *number = number.max(0.0));
                }
                let sums = weights.chunks_exact(row.len()).zip(biases).map(|(weights, &bias)| {
                    let products =
                        weights.iter().zip(&row).map(|(&weight, number)| f64::from(weight) * number);
                    f64::from(bias) + products.sum::<f64>()
                });
                row = sums.collect();
            }
            let expected = 1.0 / (1.0 + (-row[0]).exp());
            assert!((f64::from(selector.probability(&features)) - expected).abs() < 1e-5);
        }
    }

    #[test]
    fn the_threshold_is_the_probability_from_which_it_asks() {
        let features = features("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1");
        for seed in 0..50 {
            let selector = Selector::random(seed);
            let probability = selector.probability(&features);
            assert!(selector.chooses(&features, Threshold::new(probability - 0.001)));
            assert!(!selector.chooses(&features, Threshold::new(probability + 0.001)));
            assert!(selector.chooses(&features, Threshold::new(0.0)));
            assert!(!selector.chooses(&features, Threshold::new(1.0)));
        }
    }

    #[test]
    fn as_many_are_asked_about_as_were_wanted() {
        let probabilities = [0.1, 0.9, 0.5, 0.7, 0.3];
        let used = |usage: f64| {
            let threshold = threshold_for(&probabilities, usage);
            probabilities.iter().filter(|&&probability| probability >= threshold.probability()).count()
        };
        assert_eq!([0.0, 0.1, 0.2, 0.5, 0.8, 0.99, 1.0].map(used), [0, 0, 1, 2, 4, 4, 5]);
        assert_eq!(threshold_for(&[], 0.5).probability(), 0.0);
        // Those that cannot be told apart are asked about together or not at all.
        assert_eq!(threshold_for(&[0.5; 4], 0.5).probability(), 1.0);
        assert_eq!(threshold_for(&[0.8, 0.5, 0.5], 0.7).probability(), 0.8);
    }

    proptest! {
        #[test]
        fn never_more_than_was_wanted(
            probabilities in prop::collection::vec(0f32..0.999, 1..60),
            usage in 0f64..=1.0,
        ) {
            let threshold = threshold_for(&probabilities, usage).probability();
            let used = probabilities.iter().filter(|&&probability| probability >= threshold).count();
            prop_assert!(used as f64 <= usage * probabilities.len() as f64 + 1e-9);
        }
    }
}
