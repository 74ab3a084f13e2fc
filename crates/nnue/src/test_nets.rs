//! Networks with random weights, for the tests of this crate.

use crate::activation::Activation;
use crate::architecture::*;
use crate::features::FeatureSet;
use crate::first_layer::FirstLayer;
use crate::kernels::Kernels;
use crate::network::*;
use tandem_memory::AlignedArray;
use tandem_util::isa::Isa;
use tandem_util::random::SplitMix;

struct Random(SplitMix);

impl Random {
    /// Random integer from `-limit` to `limit`.
    fn next(&mut self, limit: i32) -> i32 {
        self.0.below(2 * limit as u32 + 1) as i32 - limit
    }

    fn numbers<T>(&mut self, count: usize, limit: i32, convert: impl Fn(i32) -> T) -> Vec<T> {
        (0..count).map(|_| convert(self.next(limit))).collect()
    }
}

fn first(features: &FeatureSet, outputs: usize, width: usize, psqt: bool, random: &mut Random) -> FirstLayer {
    let i16s = |numbers: Vec<i16>| AlignedArray::from(&numbers[..]);
    FirstLayer {
        outputs,
        width,
        bias: i16s(random.numbers(width, 60, |n| n as i16)),
        weights: i16s(random.numbers(features.num_inputs() * width, 60, |n| n as i16)),
        psqt: psqt.then(|| {
            AlignedArray::from(&random.numbers(features.num_inputs() * PSQT_BUCKETS, 3000, |n| n)[..])
        }),
        wraps: false,
    }
}

fn flat_head(outputs: usize, random: &mut Random) -> Head {
    let weights = AlignedArray::from(&random.numbers(16 * outputs, 100, |n| n as i16)[..]);
    let bias = random.numbers(8, 10_000, |n| n);
    Head::Flat(Flat::new(
        Activation::Screlu,
        [255, 64],
        400,
        (OutputBuckets::bullet(8), outputs),
        weights,
        bias,
    ))
}

fn network(features: FeatureSet, first: FirstLayer, head: Head) -> Network {
    let kernels = Kernels::new(Isa::best());
    Network { description: "test".into(), features, first, head, pawn: 100, kernels }
}

/// One hidden layer with squared clipped ReLU, and eight output buckets.
pub(crate) fn flat(features: FeatureSet, outputs: usize, seed: u64) -> Network {
    let mut random = Random(SplitMix::new(seed));
    let first = first(&features, outputs, outputs, false, &mut random);
    let head = flat_head(outputs, &mut random);
    network(features, first, head)
}

/// Like [`flat`], with separate weights for each perspective.
pub(crate) fn untied(features: FeatureSet, outputs: usize, seed: u64) -> Network {
    let mut random = Random(SplitMix::new(seed));
    let first = first(&features, outputs, 2 * outputs, false, &mut random);
    let head = flat_head(outputs, &mut random);
    network(features, first, head)
}

/// Pairwise multiplication, eight stacks, piece-square values: like Stockfish 15.1.
pub(crate) fn stacks(features: FeatureSet, outputs: usize, seed: u64) -> Network {
    let mut random = Random(SplitMix::new(seed));
    let first = first(&features, outputs, outputs, true, &mut random);
    let stacks = (0..8).map(|_| {
        let bias = random.numbers(16, 4000, |n| n);
        let rows = random.numbers(16 * outputs, 127, |n| n as i8);
        let first = Dense::new(outputs, &bias, &rows, outputs);
        let bias = random.numbers(32, 4000, |n| n);
        let rows = random.numbers(32 * 32, 127, |n| n as i8);
        let second = Dense::new(30, &bias, &rows, 32);
        Stack { first, second, last_bias: random.next(9000), last: random.numbers(32, 127, |n| n as i8) }
    });
    let head = Head::Stacks(Stacks {
        input_activation: InputActivation::PairwiseMul127,
        squared_clipped: true,
        skip: true,
        buckets: OutputBuckets::STOCKFISH,
        stacks: stacks.collect(),
    });
    network(features, first, head)
}

/// One network of each kind.
pub(crate) fn all() -> [Network; 3] {
    [
        flat(FeatureSet::plain(), 32, 1),
        stacks(FeatureSet::half_ka_v2_hm(), 64, 2),
        untied(FeatureSet::half_kp(), 32, 3),
    ]
}
