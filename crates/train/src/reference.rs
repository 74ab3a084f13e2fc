//! The plain definition of what trainers compute: loss and slopes of a network, one position after the other, in 64 bits.
//! Slow, and the measure for everything fast.

use crate::loss::{Loss, Target};
use tandem_chess::Board;
use tandem_nnue::{Activation, Architecture, FloatLayer, FloatNetwork, HeadShape, PSQT_BUCKETS, StackShape};

/// A position as a network sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Inputs that are on for the side to move.
    pub own: Vec<usize>,
    /// Inputs that are on for the other side.
    pub other: Vec<usize>,
    /// Which output or stack judges.
    pub bucket: usize,
    /// What it should say.
    pub target: Target,
}

impl Sample {
    /// A position with its target.
    pub fn new(architecture: &Architecture, board: &Board, target: Target) -> Self {
        let us = board.side_to_move();
        let active = |side| architecture.features.active(board, side).collect();
        let bucket = architecture.buckets().of(board.occupied().len() as usize);
        Self { own: active(us), other: active(!us), bucket, target }
    }
}

/// The loss of some positions together, and its slope by every weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Slopes {
    /// The mean loss.
    pub loss: f64,
    /// By the first layer's weights.
    pub weights: Vec<f64>,
    /// By its biases.
    pub bias: Vec<f64>,
    /// By piece squares.
    pub psqt: Vec<f64>,
    /// By the weights and biases of each layer of each stack.
    pub stacks: Vec<Vec<(Vec<f64>, Vec<f64>)>>,
}

fn zeros(count: usize) -> Vec<f64> {
    vec![0.0; count]
}

/// A value held between zero and one, and its slope. On the edges there is none.
fn clip(value: f64) -> (f64, f64) {
    (value.clamp(0.0, 1.0), if value > 0.0 && value < 1.0 { 1.0 } else { 0.0 })
}

/// What a value becomes before it meets the output weights, and the slope of that.
fn activate(activation: Activation, value: f64) -> (f64, f64) {
    match activation {
        Activation::Relu => (value.max(0.0), if value > 0.0 { 1.0 } else { 0.0 }),
        Activation::Crelu => clip(value),
        Activation::Screlu => {
            let (held, slope) = clip(value);
            (held * held, 2.0 * held * slope)
        }
    }
}

fn forward(layer: &FloatLayer, inputs: &[f64]) -> Vec<f64> {
    let rows = layer.weights.chunks_exact(inputs.len()).zip(&layer.bias);
    let sum =
        |row: &[f32]| row.iter().zip(inputs).map(|(&weight, input)| f64::from(weight) * input).sum::<f64>();
    rows.map(|(row, &bias)| f64::from(bias) + sum(row)).collect()
}

/// Adds the slopes of a layer's weights and biases, and returns those of its inputs.
fn backward(
    layer: &FloatLayer,
    inputs: &[f64],
    outputs: &[f64],
    sums: &mut (Vec<f64>, Vec<f64>),
) -> Vec<f64> {
    let mut slopes = zeros(inputs.len());
    for (output, &slope) in outputs.iter().enumerate() {
        let row = output * inputs.len()..(output + 1) * inputs.len();
        sums.1[output] += slope;
        for (((sum, input), &weight), by_input) in
            sums.0[row.clone()].iter_mut().zip(inputs).zip(&layer.weights[row]).zip(&mut slopes)
        {
            *sum += slope * input;
            *by_input += slope * f64::from(weight);
        }
    }
    slopes
}

/// The loss of a network on some positions, and its slopes. An output of one is `unit` of the target's scale.
pub fn slopes(network: &FloatNetwork, samples: &[Sample], loss: Loss, unit: f64) -> Slopes {
    let mut sums = Slopes {
        loss: 0.0,
        weights: zeros(network.weights.len()),
        bias: zeros(network.bias.len()),
        psqt: zeros(network.psqt.len()),
        stacks: network
            .stacks
            .iter()
            .map(|stack| {
                stack.iter().map(|layer| (zeros(layer.weights.len()), zeros(layer.bias.len()))).collect()
            })
            .collect(),
    };
    let share = 1.0 / samples.len().max(1) as f64;
    for sample in samples {
        add_sample(network, sample, loss, unit, share, &mut sums);
    }
    sums
}

fn add_sample(network: &FloatNetwork, sample: &Sample, loss: Loss, unit: f64, share: f64, sums: &mut Slopes) {
    let architecture = &network.architecture;
    let (width, outputs) = (architecture.width(), architecture.outputs);
    // Where the perspectives have weights of their own, the other's columns follow those of the side to move.
    let starts = [0, width - outputs];
    let sides = [&sample.own, &sample.other];
    let accumulators = [0, 1].map(|side| {
        let columns = starts[side]..starts[side] + outputs;
        let mut values: Vec<f64> = network.bias[columns.clone()].iter().copied().map(f64::from).collect();
        for &input in sides[side] {
            let row = &network.weights[input * width..][columns.clone()];
            values.iter_mut().zip(row).for_each(|(value, &weight)| *value += f64::from(weight));
        }
        values
    });
    let column = |input: &usize| input * PSQT_BUCKETS + sample.bucket;
    let psqt = if network.psqt.is_empty() {
        0.0
    } else {
        let sum =
            |side: usize| sides[side].iter().map(|input| f64::from(network.psqt[column(input)])).sum::<f64>();
        (sum(0) - sum(1)) / 2.0
    };

    let stack = &network.stacks[sample.bucket];
    let sums_of_stack = &mut sums.stacks[sample.bucket];
    let judge = |output: f64| {
        let (value, slope) = loss.of((output + psqt) * unit, sample.target);
        (value * share, slope * share * unit)
    };
    // Forth to the output and back to the accumulators.
    let (slope, by_values) = match architecture.head {
        HeadShape::Flat { activation, .. } => {
            let both: Vec<(f64, f64)> =
                accumulators.iter().flatten().map(|&value| activate(activation, value)).collect();
            let inputs: Vec<f64> = both.iter().map(|&(value, _)| value).collect();
            let (value, slope) = judge(forward(&stack[0], &inputs)[0]);
            sums.loss += value;
            let by_inputs = backward(&stack[0], &inputs, &[slope], &mut sums_of_stack[0]);
            let by_values = by_inputs.iter().zip(&both).map(|(by, (_, slope))| by * slope).collect();
            (slope, by_values)
        }
        HeadShape::Stacks(shape) => {
            let (value, slope, by_values) = through_stack(stack, &accumulators, shape, judge, sums_of_stack);
            sums.loss += value;
            (slope, by_values)
        }
    };
    let by_values: Vec<f64> = by_values;
    for side in [0, 1] {
        let by_side = &by_values[side * outputs..(side + 1) * outputs];
        let columns = starts[side]..starts[side] + outputs;
        sums.bias[columns.clone()].iter_mut().zip(by_side).for_each(|(sum, by)| *sum += by);
        for input in sides[side] {
            let row = &mut sums.weights[input * width..][columns.clone()];
            row.iter_mut().zip(by_side).for_each(|(sum, by)| *sum += by);
            if !network.psqt.is_empty() {
                sums.psqt[column(input)] += if side == 0 { slope / 2.0 } else { -slope / 2.0 };
            }
        }
    }
}

/// Through three dense layers and back: the loss, the slope by the output, and those by the accumulators.
fn through_stack(
    stack: &[FloatLayer],
    accumulators: &[Vec<f64>; 2],
    shape: StackShape,
    judge: impl Fn(f64) -> (f64, f64),
    sums: &mut [(Vec<f64>, Vec<f64>)],
) -> (f64, f64, Vec<f64>) {
    // What a product of two ones becomes in the integers that this stands for.
    let product = shape.squeeze.product();
    let clipped: [Vec<(f64, f64)>; 2] =
        [0, 1].map(|side| accumulators[side].iter().map(|&value| clip(value)).collect());
    let inputs: Vec<f64> = if shape.squeeze.is_pairwise() {
        let pairs = |values: &Vec<(f64, f64)>| {
            let (left, right) = values.split_at(values.len() / 2);
            left.iter().zip(right).map(|(a, b)| a.0 * b.0 * product).collect::<Vec<f64>>()
        };
        clipped.iter().flat_map(pairs).collect()
    } else {
        clipped.iter().flatten().map(|&(value, _)| value).collect()
    };
    let first = forward(&stack[0], &inputs);
    let kept = shape.hidden - usize::from(shape.skip);
    const SQUARE: f64 = 127.0 / 128.0;
    let squares = first[..kept].iter().filter(|_| shape.dual).map(|&value| {
        let square = value * value * SQUARE;
        (square.min(1.0), if square < 1.0 { 2.0 * value * SQUARE } else { 0.0 })
    });
    let hidden: Vec<(f64, f64)> = squares.chain(first[..kept].iter().map(|&value| clip(value))).collect();
    let hidden_values: Vec<f64> = hidden.iter().map(|&(value, _)| value).collect();
    let second: Vec<(f64, f64)> = forward(&stack[1], &hidden_values).into_iter().map(clip).collect();
    let second_values: Vec<f64> = second.iter().map(|&(value, _)| value).collect();
    let skipped = if shape.skip { first[kept] } else { 0.0 };
    let (value, slope) = judge(forward(&stack[2], &second_values)[0] + skipped);

    let by_second = backward(&stack[2], &second_values, &[slope], &mut sums[2]);
    let by_second: Vec<f64> = by_second.iter().zip(&second).map(|(by, (_, slope))| by * slope).collect();
    let by_hidden = backward(&stack[1], &hidden_values, &by_second, &mut sums[1]);
    let mut by_first = zeros(shape.hidden);
    for (at, (by, (_, slope))) in by_hidden.iter().zip(&hidden).enumerate() {
        by_first[at % kept] += by * slope;
    }
    if shape.skip {
        by_first[kept] = slope;
    }
    let by_inputs = backward(&stack[0], &inputs, &by_first, &mut sums[0]);
    let len = accumulators[0].len();
    let mut by_values = zeros(2 * len);
    for side in [0, 1] {
        for at in 0..len {
            let (_, slope) = clipped[side][at];
            by_values[side * len + at] = slope
                * if shape.squeeze.is_pairwise() {
                    let half = len / 2;
                    let partner = clipped[side][(at + half) % len].0;
                    by_inputs[side * half + at % half] * partner * product
                } else {
                    by_inputs[side * len + at]
                };
        }
    }
    (value, slope, by_values)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tandem_chess::Position;
    use tandem_chess::random::SplitMix;
    use tandem_nnue::{Buckets, FeatureSet, Squeeze};

    pub(crate) fn architectures() -> Vec<Architecture> {
        let flat = |activation, tied| Architecture {
            features: FeatureSet::plain(),
            outputs: 32,
            tied,
            psqt: false,
            head: HeadShape::Flat { activation, buckets: Buckets::bullet(4) },
        };
        let stacks = |squeeze, dual, skip, psqt| Architecture {
            features: FeatureSet::plain(),
            outputs: 32,
            tied: true,
            psqt,
            head: HeadShape::Stacks(StackShape {
                squeeze,
                dual,
                skip,
                hidden: 8,
                second: 6,
                buckets: Buckets::STOCKFISH,
            }),
        };
        vec![
            flat(Activation::Relu, true),
            flat(Activation::Crelu, false),
            flat(Activation::Screlu, true),
            stacks(Squeeze::Clip, false, false, false),
            stacks(Squeeze::Pairwise127, true, true, true),
            stacks(Squeeze::Pairwise255, true, false, true),
        ]
    }

    pub(crate) fn random_network(architecture: Architecture, random: &mut SplitMix) -> FloatNetwork {
        let mut network = FloatNetwork::zeroed(architecture, 600, 100);
        let mut fill = |numbers: &mut [f32], size: f64| {
            numbers.iter_mut().for_each(|number| *number = ((random.unit() * 2.0 - 1.0) * size) as f32);
        };
        fill(&mut network.weights, 0.15);
        fill(&mut network.bias, 0.5);
        fill(&mut network.psqt, 0.2);
        for layer in network.stacks.iter_mut().flatten() {
            fill(&mut layer.weights, 0.6);
            fill(&mut layer.bias, 0.4);
        }
        network
    }

    /// A position of a random game, and something to say of it.
    pub(crate) fn random_position(random: &mut SplitMix) -> (Position, Target) {
        let mut position = Position::startpos();
        for _ in 0..random.below(70) {
            let moves = position.legal_moves();
            if moves.is_empty() {
                break;
            }
            position.play(moves[random.below(moves.len() as u32) as usize]);
        }
        (position, Target { score: (random.unit() * 4.0 - 2.0) as f32, chance: random.unit() as f32 })
    }

    fn samples(architecture: &Architecture, random: &mut SplitMix) -> Vec<Sample> {
        let mut samples = Vec::new();
        while samples.len() < 6 {
            let (position, target) = random_position(random);
            samples.push(Sample::new(architecture, position.board(), target));
        }
        samples
    }

    /// Every kind of weight, by finite differences.
    #[test]
    fn slopes_are_those_of_finite_differences() {
        let mut random = SplitMix::new(11);
        for architecture in architectures() {
            let network = random_network(architecture.clone(), &mut random);
            let samples = samples(&architecture, &mut random);
            for loss in
                [Loss::Power { power: 2.0 }, Loss::Power { power: 2.5 }, Loss::CrossEntropy, Loss::Score]
            {
                let sums = slopes(&network, &samples, loss, 1.5);
                let mut checked = 0;
                let mut check = |slope: f64, change: &dyn Fn(&mut FloatNetwork, f32) -> f64| {
                    const STEP: f32 = 1.0 / 65_536.0;
                    let at = |step: f32| {
                        let mut changed = network.clone();
                        let moved = change(&mut changed, step);
                        (slopes(&changed, &samples, loss, 1.5).loss, moved)
                    };
                    let ((high, up), (low, down)) = (at(STEP), at(-STEP));
                    let measured = (high - low) / (up - down);
                    let slack = 2e-3 * measured.abs().max(0.02);
                    assert!((slope - measured).abs() < slack, "{architecture} {loss:?}: {slope} {measured}");
                    checked += usize::from(slope != 0.0);
                };
                // The change that was really made: weights have 32 bits.
                fn nudge(number: &mut f32, step: f32) -> f64 {
                    *number += step;
                    f64::from(*number)
                }
                let width = architecture.width();
                for _ in 0..12 {
                    let sample = &samples[random.below(6) as usize];
                    let input = sample.own[random.below(sample.own.len() as u32) as usize];
                    let at = input * width + random.below(width as u32) as usize;
                    check(sums.weights[at], &|network, step| nudge(&mut network.weights[at], step));
                    let at = random.below(width as u32) as usize;
                    check(sums.bias[at], &|network, step| nudge(&mut network.bias[at], step));
                    if architecture.psqt {
                        let at = input * PSQT_BUCKETS + sample.bucket;
                        check(sums.psqt[at], &|network, step| nudge(&mut network.psqt[at], step));
                    }
                    let bucket = sample.bucket;
                    let layer = random.below(network.stacks[bucket].len() as u32) as usize;
                    let (weights, bias) = &sums.stacks[bucket][layer];
                    let at = random.below(weights.len() as u32) as usize;
                    let of = move |network: &mut FloatNetwork, at: usize, step: f32| {
                        nudge(&mut network.stacks[bucket][layer].weights[at], step)
                    };
                    check(weights[at], &|network, step| of(network, at, step));
                    let at = random.below(bias.len() as u32) as usize;
                    check(bias[at], &|network, step| {
                        nudge(&mut network.stacks[bucket][layer].bias[at], step)
                    });
                }
                assert!(checked > 10, "most slopes should not be nothing: {checked}");
            }
        }
    }

    #[test]
    fn the_loss_is_that_of_the_networks_own_evaluation() {
        let mut random = SplitMix::new(5);
        for architecture in architectures() {
            let network = random_network(architecture.clone(), &mut random);
            let position = Position::startpos();
            let output = network.evaluate(position.board()) / f64::from(network.scale);
            let target = Target { score: 0.7, chance: 0.6 };
            let sample = Sample::new(&architecture, position.board(), target);
            let sums = slopes(&network, &[sample], Loss::Score, 2.0);
            let expected = Loss::Score.of(2.0 * output, target).0;
            assert!((sums.loss - expected).abs() < 1e-9 * expected.max(1.0), "{architecture}");
        }
    }
}
