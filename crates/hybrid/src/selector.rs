//! The selector: whether a position is worth the strategist's time.

mod features;

pub use features::{Circumstances, FEATURES, Feature, Features};

use features::COUNT;
use tandem_chess::random::SplitMix;

const FIRST: usize = 64;
const SECOND: usize = 32;

/// A small network on [`Features`]: 20 numbers, 64, 32, and the probability that the strategist knows better.
///
/// Weights stand by input, so that all outputs of a layer are added to at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    first: Box<[[f32; FIRST]; COUNT]>,
    first_bias: [f32; FIRST],
    second: Box<[[f32; SECOND]; FIRST]>,
    second_bias: [f32; SECOND],
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

    /// A selector of tensors that are asked for by name and shape; weights have a row for each output.
    pub(crate) fn of_tensors<E>(
        mut tensor: impl FnMut(&'static str, &[usize]) -> Result<Vec<f32>, E>,
    ) -> Result<Self, E> {
        let mut layer = |index: usize| -> Result<(Vec<f32>, Vec<f32>), E> {
            let (shape, [weight, bias]) = (Self::SHAPES[index], Self::NAMES[index]);
            Ok((tensor(weight, &shape)?, tensor(bias, &shape[..1])?))
        };
        let (first, first_bias) = layer(0)?;
        let (second, second_bias) = layer(1)?;
        let (last, last_bias) = layer(2)?;
        Ok(Self {
            first: by_input(&first),
            first_bias: std::array::from_fn(|at| first_bias[at]),
            second: by_input(&second),
            second_bias: std::array::from_fn(|at| second_bias[at]),
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
            [by_output(&self.first), self.first_bias.to_vec()],
            [by_output(&self.second), self.second_bias.to_vec()],
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
        let mut hidden = self.first_bias;
        add_products(&mut hidden, features.numbers(), &self.first);
        let mut second = self.second_bias;
        add_products(&mut second, &hidden.map(|number| number.max(0.0)), &self.second);
        let products = second.iter().zip(&self.last).map(|(number, weight)| number.max(0.0) * weight);
        self.last_bias + products.sum::<f32>()
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

#[inline]
fn add_products<const I: usize, const O: usize>(
    sums: &mut [f32; O],
    inputs: &[f32; I],
    weights: &[[f32; O]; I],
) {
    for (input, row) in inputs.iter().zip(weights) {
        for (sum, weight) in sums.iter_mut().zip(row) {
            *sum += input * weight;
        }
    }
}

/// Rows for each output as rows for each input.
fn by_input<const I: usize, const O: usize>(rows: &[f32]) -> Box<[[f32; O]; I]> {
    Box::new(std::array::from_fn(|input| std::array::from_fn(|output| rows[output * I + input])))
}

/// And back.
fn by_output<const I: usize, const O: usize>(columns: &[[f32; O]; I]) -> Vec<f32> {
    (0..O).flat_map(|output| columns.iter().map(move |column| column[output])).collect()
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
