//! A plain definition of what trainers compute: the loss of a network and its gradients, one position after
//! the other, in double precision.
//!
//! It is slow and simple, written to be compared with: every trainer is tested against it, and it against
//! finite differences.

use crate::loss::{Loss, Target};
use tandem_chess::Board;
use tandem_nnue::activation::crelu as clip;
use tandem_nnue::{Architecture, FloatLayer, FloatNetwork, HeadShape, PSQT_BUCKETS, StackShape};

/// A position as active features of both sides, with its target.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Indices of the active features, from the view of the side to move.
    pub own: Vec<usize>,
    /// Indices of the active features, from the view of the other side.
    pub other: Vec<usize>,
    /// Output bucket, which selects the stack of dense layers.
    pub bucket: usize,
    /// Training target, as the side to move sees it.
    pub target: Target,
}

impl Sample {
    /// Finds the active features and the bucket of a position.
    pub fn new(architecture: &Architecture, board: &Board, target: Target) -> Self {
        let us = board.side_to_move();
        let active = |side| architecture.features.active(board, side).collect();
        let bucket = architecture.buckets().index(board.occupied().len() as usize);
        Self { own: active(us), other: active(!us), bucket, target }
    }
}

/// Mean loss of some positions, and its gradient with respect to every parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients {
    /// Mean loss over the positions, in units of the loss function.
    pub loss: f64,
    /// Gradients of the first layer's weights, in the order of the network.
    pub weights: Vec<f64>,
    /// Gradients of the first layer's biases, in the order of the network.
    pub bias: Vec<f64>,
    /// Gradients of the piece-square values; empty if there are none.
    pub psqt: Vec<f64>,
    /// Gradients of weights and biases, for each layer of each stack.
    pub stacks: Vec<Vec<(Vec<f64>, Vec<f64>)>>,
}

fn zeros(count: usize) -> Vec<f64> {
    vec![0.0; count]
}

fn forward(layer: &FloatLayer, inputs: &[f64]) -> Vec<f64> {
    let rows = layer.weights.chunks_exact(inputs.len()).zip(&layer.bias);
    let sum =
        |row: &[f32]| row.iter().zip(inputs).map(|(&weight, input)| f64::from(weight) * input).sum::<f64>();
    rows.map(|(row, &bias)| f64::from(bias) + sum(row)).collect()
}

/// Adds the gradients of a layer's weights and biases to `sums`, and returns those of its inputs.
fn backward(
    layer: &FloatLayer,
    inputs: &[f64],
    outputs: &[f64],
    sums: &mut (Vec<f64>, Vec<f64>),
) -> Vec<f64> {
    let mut grads = zeros(inputs.len());
    for (output, &grad) in outputs.iter().enumerate() {
        let row = output * inputs.len()..(output + 1) * inputs.len();
        sums.1[output] += grad;
        for (((sum, input), &weight), by_input) in
            sums.0[row.clone()].iter_mut().zip(inputs).zip(&layer.weights[row]).zip(&mut grads)
        {
            *sum += grad * input;
            *by_input += grad * f64::from(weight);
        }
    }
    grads
}

/// Mean loss of a network on some positions, and its gradients. An output is multiplied by `output_scale`
/// before the loss.
pub fn gradients(network: &FloatNetwork, samples: &[Sample], loss: Loss, output_scale: f64) -> Gradients {
    let mut sums = Gradients {
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
    let inv_count = 1.0 / samples.len().max(1) as f64;
    for sample in samples {
        add_sample(network, sample, loss, output_scale, inv_count, &mut sums);
    }
    sums
}

fn add_sample(
    network: &FloatNetwork,
    sample: &Sample,
    loss: Loss,
    output_scale: f64,
    inv_count: f64,
    sums: &mut Gradients,
) {
    let architecture = &network.architecture;
    let (width, outputs) = (architecture.width(), architecture.outputs);
    // With separate weights for each perspective, the other side's columns follow those of the side to move.
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
    let loss_grad = |output: f64| {
        let (value, grad) = loss.value_and_grad((output + psqt) * output_scale, sample.target);
        (value * inv_count, grad * inv_count * output_scale)
    };
    // Forward to the output and back to the accumulators.
    let (grad, by_values) = match architecture.head {
        HeadShape::Flat { activation, .. } => {
            let both: Vec<(f64, f64)> =
                accumulators.iter().flatten().map(|&value| activation.value_and_derivative(value)).collect();
            let inputs: Vec<f64> = both.iter().map(|&(value, _)| value).collect();
            let (value, grad) = loss_grad(forward(&stack[0], &inputs)[0]);
            sums.loss += value;
            let by_inputs = backward(&stack[0], &inputs, &[grad], &mut sums_of_stack[0]);
            let by_values = by_inputs.iter().zip(&both).map(|(by, (_, grad))| by * grad).collect();
            (grad, by_values)
        }
        HeadShape::Stacks(shape) => {
            let (value, grad, by_values) =
                through_stack(stack, &accumulators, shape, loss_grad, sums_of_stack);
            sums.loss += value;
            (grad, by_values)
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
                sums.psqt[column(input)] += if side == 0 { grad / 2.0 } else { -grad / 2.0 };
            }
        }
    }
}

/// Forward and backward through three dense layers: the loss, the gradient of the output, and those of the
/// accumulators.
fn through_stack(
    stack: &[FloatLayer],
    accumulators: &[Vec<f64>; 2],
    shape: StackShape,
    loss_grad: impl Fn(f64) -> (f64, f64),
    sums: &mut [(Vec<f64>, Vec<f64>)],
) -> (f64, f64, Vec<f64>) {
    // Product of 1.0 and 1.0 in the quantised network's integer arithmetic, which this imitates.
    let product = shape.input_activation.product_of_ones();
    let clipped: [Vec<(f64, f64)>; 2] =
        [0, 1].map(|side| accumulators[side].iter().map(|&value| clip(value)).collect());
    let inputs: Vec<f64> = if shape.input_activation.is_pairwise() {
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
    let squares = first[..kept].iter().filter(|_| shape.squared_clipped).map(|&value| {
        let square = value * value * SQUARE;
        (square.min(1.0), if square < 1.0 { 2.0 * value * SQUARE } else { 0.0 })
    });
    let hidden: Vec<(f64, f64)> = squares.chain(first[..kept].iter().map(|&value| clip(value))).collect();
    let hidden_values: Vec<f64> = hidden.iter().map(|&(value, _)| value).collect();
    let second: Vec<(f64, f64)> = forward(&stack[1], &hidden_values).into_iter().map(clip).collect();
    let second_values: Vec<f64> = second.iter().map(|&(value, _)| value).collect();
    let skipped = if shape.skip { first[kept] } else { 0.0 };
    let (value, grad) = loss_grad(forward(&stack[2], &second_values)[0] + skipped);

    let by_second = backward(&stack[2], &second_values, &[grad], &mut sums[2]);
    let by_second: Vec<f64> = by_second.iter().zip(&second).map(|(by, (_, grad))| by * grad).collect();
    let by_hidden = backward(&stack[1], &hidden_values, &by_second, &mut sums[1]);
    let mut by_first = zeros(shape.hidden);
    for (at, (by, (_, grad))) in by_hidden.iter().zip(&hidden).enumerate() {
        by_first[at % kept] += by * grad;
    }
    if shape.skip {
        by_first[kept] = grad;
    }
    let by_inputs = backward(&stack[0], &inputs, &by_first, &mut sums[0]);
    let len = accumulators[0].len();
    let mut by_values = zeros(2 * len);
    for side in [0, 1] {
        for at in 0..len {
            let (_, grad) = clipped[side][at];
            by_values[side * len + at] = grad
                * if shape.input_activation.is_pairwise() {
                    let half = len / 2;
                    let partner = clipped[side][(at + half) % len].0;
                    by_inputs[side * half + at % half] * partner * product
                } else {
                    by_inputs[side * len + at]
                };
        }
    }
    (value, grad, by_values)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tandem_chess::Position;
    use tandem_nnue::{Activation, FeatureSet, InputActivation, OutputBuckets};
    use tandem_util::random::SplitMix;

    pub(crate) fn architectures() -> Vec<Architecture> {
        let flat = |activation, tied| Architecture {
            features: FeatureSet::plain(),
            outputs: 32,
            tied,
            psqt: false,
            head: HeadShape::Flat { activation, buckets: OutputBuckets::bullet(4) },
        };
        let stacks = |input_activation, squared_clipped, skip, psqt| Architecture {
            features: FeatureSet::plain(),
            outputs: 32,
            tied: true,
            psqt,
            head: HeadShape::Stacks(StackShape {
                input_activation,
                squared_clipped,
                skip,
                hidden: 8,
                second: 6,
                buckets: OutputBuckets::STOCKFISH,
            }),
        };
        let flat = Activation::ALL
            .into_iter()
            .enumerate()
            .map(|(index, activation)| flat(activation, index % 2 == 0));
        let stacks = [
            stacks(InputActivation::Clipped, false, false, false),
            stacks(InputActivation::PairwiseMul127, true, true, true),
            stacks(InputActivation::PairwiseMul255, true, false, true),
        ];
        flat.chain(stacks).collect()
    }

    pub(crate) fn random_network(architecture: Architecture, random: &mut SplitMix) -> FloatNetwork {
        let mut network = FloatNetwork::zeroed(architecture, 600, 100);
        let mut fill = |values: &mut [f32], size: f64| {
            values.iter_mut().for_each(|number| *number = ((random.unit() * 2.0 - 1.0) * size) as f32);
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

    /// A position of a random game with a random target.
    pub(crate) fn random_position(random: &mut SplitMix) -> (Position, Target) {
        let mut position = Position::startpos();
        for _ in 0..random.below(70) {
            let moves = position.legal_moves();
            if moves.is_empty() {
                break;
            }
            position.play(moves[random.below(moves.len() as u32) as usize]);
        }
        (
            position,
            Target { score: (random.unit() * 4.0 - 2.0) as f32, win_probability: random.unit() as f32 },
        )
    }

    fn samples(architecture: &Architecture, random: &mut SplitMix) -> Vec<Sample> {
        let mut samples = Vec::new();
        while samples.len() < 6 {
            let (position, target) = random_position(random);
            samples.push(Sample::new(architecture, position.board(), target));
        }
        samples
    }

    /// Every kind of weight is compared with finite differences.
    #[test]
    fn gradients_match_finite_differences() {
        let mut random = SplitMix::new(11);
        for architecture in architectures() {
            let network = random_network(architecture.clone(), &mut random);
            let samples = samples(&architecture, &mut random);
            for loss in
                [Loss::Power { power: 2.0 }, Loss::Power { power: 2.5 }, Loss::CrossEntropy, Loss::Score]
            {
                let sums = gradients(&network, &samples, loss, 1.5);
                let mut checked = 0;
                let mut check = |grad: f64, change: &dyn Fn(&mut FloatNetwork, f32) -> f64| {
                    const STEP: f32 = 1.0 / 65_536.0;
                    let at = |step: f32| {
                        let mut changed = network.clone();
                        let moved = change(&mut changed, step);
                        (gradients(&changed, &samples, loss, 1.5).loss, moved)
                    };
                    let ((high, up), (low, down)) = (at(STEP), at(-STEP));
                    let measured = (high - low) / (up - down);
                    let slack = 2e-3 * measured.abs().max(0.02);
                    assert!((grad - measured).abs() < slack, "{architecture} {loss:?}: {grad} {measured}");
                    checked += usize::from(grad != 0.0);
                };
                // Returns the value after rounding to 32 bits, because that is the change that was really
                // made.
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
                assert!(checked > 10, "most gradients should not be zero: {checked}");
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
            let target = Target { score: 0.7, win_probability: 0.6 };
            let sample = Sample::new(&architecture, position.board(), target);
            let sums = gradients(&network, &[sample], Loss::Score, 2.0);
            let expected = Loss::Score.value_and_grad(2.0 * output, target).0;
            assert!((sums.loss - expected).abs() < 1e-9 * expected.max(1.0), "{architecture}");
        }
    }
}
