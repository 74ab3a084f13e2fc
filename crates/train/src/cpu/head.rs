//! The layers after the accumulators, one position at a time.

use crate::batch::Rows;
use crate::layout::Layout;
use crate::loss::{Loss, Target};
use std::borrow::Cow;
use tandem_nnue::{Activation, HeadShape, Inputs, PSQT_BUCKETS, StackShape};

/// Lanes of a sum.
const LANES: usize = 16;

/// What a square of one becomes in the integers that this stands for.
const SQUARE: f32 = 127.0 / 128.0;

/// The layers after the accumulators.
pub(super) struct Head<'a> {
    shape: HeadShape,
    /// Accumulators that judge together.
    sides: usize,
    outputs: usize,
    numbers: Cow<'a, [f32]>,
    psqt: Option<std::ops::Range<usize>>,
    /// Where each stack begins among the numbers.
    stacks: Vec<usize>,
    /// Where weights and biases of each layer lie within a stack, and their inputs.
    layers: Vec<Layer>,
    stack_len: usize,
    loss: Loss,
    unit: f32,
}

#[derive(Clone, Copy)]
struct Layer {
    weights: usize,
    bias: usize,
    inputs: usize,
    outputs: usize,
}

/// Kept from position to position.
#[derive(Default)]
pub(super) struct Scratch {
    inputs: Vec<f32>,
    first: Vec<f32>,
    hidden: Vec<f32>,
    second: Vec<f32>,
    second_held: Vec<f32>,
    by_inputs: Vec<f32>,
    by_first: Vec<f32>,
    by_hidden: Vec<f32>,
    by_second: Vec<f32>,
}

/// A value held between zero and one, and its slope. On the edges there is none.
#[inline(always)]
fn clip(value: f32) -> (f32, f32) {
    (value.clamp(0.0, 1.0), if value > 0.0 && value < 1.0 { 1.0 } else { 0.0 })
}

#[inline(always)]
fn relu(value: f32) -> (f32, f32) {
    (value.max(0.0), if value > 0.0 { 1.0 } else { 0.0 })
}

#[inline(always)]
fn screlu(value: f32) -> (f32, f32) {
    let (held, slope) = clip(value);
    (held * held, 2.0 * held * slope)
}

#[inline(always)]
fn square(value: f32) -> (f32, f32) {
    let square = value * value * SQUARE;
    (square.min(1.0), if square < 1.0 { 2.0 * value * SQUARE } else { 0.0 })
}

/// The sum of products, in lanes.
#[inline(always)]
fn dot(values: &[f32], weights: &[f32], seen: impl Fn(f32) -> f32) -> f32 {
    let (values, rest) = values.as_chunks::<LANES>();
    let (lanes, weights_rest) = weights.as_chunks::<LANES>();
    let mut sums = [0f32; LANES];
    for (values, weights) in values.iter().zip(lanes) {
        for lane in 0..LANES {
            sums[lane] += seen(values[lane]) * weights[lane];
        }
    }
    let rest: f32 = rest.iter().zip(weights_rest).map(|(&value, weight)| seen(value) * weight).sum();
    sums.iter().sum::<f32>() + rest
}

impl<'a> Head<'a> {
    /// From all numbers of a layout after the first layer's weights.
    pub(super) fn new<I: Inputs>(layout: &Layout<I>, numbers: Cow<'a, [f32]>, loss: Loss, unit: f32) -> Self {
        let architecture = layout.architecture();
        let start = layout.bias().start;
        let stacks: Vec<usize> =
            (0..architecture.buckets().count).map(|stack| layout.layer(stack, 0).0.start - start).collect();
        let layers: Vec<Layer> = architecture
            .layers()
            .into_iter()
            .enumerate()
            .map(|(number, (inputs, outputs))| {
                let (weights, bias) = layout.layer(0, number);
                let first = layout.layer(0, 0).0.start;
                Layer { weights: weights.start - first, bias: bias.start - first, inputs, outputs }
            })
            .collect();
        Self {
            shape: architecture.head,
            sides: I::SIDES,
            outputs: architecture.outputs,
            psqt: layout.psqt().map(|psqt| psqt.start - start..psqt.start + psqt.len - start),
            stack_len: layers.last().map_or(0, |layer| layer.bias + layer.outputs),
            numbers,
            stacks,
            layers,
            loss,
            unit,
        }
    }

    /// Accumulators that judge together.
    pub(super) fn sides(&self) -> usize {
        self.sides
    }

    /// Values of one side's accumulator.
    pub(super) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Numbers of one stack, from the first to the last.
    pub(super) fn stack_len(&self) -> usize {
        self.stack_len
    }

    /// An output on the target's scale.
    #[inline(always)]
    pub(super) fn scaled(&self, output: f32) -> f32 {
        output * self.unit
    }

    /// The loss of an output, and its slope by the output.
    #[inline(always)]
    pub(super) fn loss(&self, output: f32, target: Target) -> (f64, f32) {
        let (value, slope) = self.loss.of(f64::from(self.scaled(output)), target);
        (value, slope as f32 * self.unit)
    }

    pub(super) fn scratch(&self) -> Scratch {
        let HeadShape::Stacks(_) = self.shape else { return Scratch::default() };
        let zeros = |count: usize| vec![0f32; count];
        let [first, second, _] = self.layers[..] else { return Scratch::default() };
        Scratch {
            inputs: zeros(first.inputs),
            first: zeros(first.outputs),
            hidden: zeros(second.inputs),
            second: zeros(second.outputs),
            second_held: zeros(second.outputs),
            by_inputs: zeros(first.inputs),
            by_first: zeros(first.outputs),
            by_hidden: zeros(second.inputs),
            by_second: zeros(second.outputs),
        }
    }

    /// What the piece squares of a position add to the output.
    #[inline(always)]
    pub(super) fn psqt(&self, rows: &Rows, position: usize, bucket: usize) -> f32 {
        let Some(psqt) = &self.psqt else { return 0.0 };
        let psqt = &self.numbers[psqt.clone()];
        let sum = |side: usize| -> f32 {
            rows.side(side).iter().map(|&row| psqt[row as usize * PSQT_BUCKETS + bucket]).sum()
        };
        (sum(2 * position) - sum(2 * position + 1)) / 2.0
    }

    #[inline(always)]
    fn stack(&self, bucket: usize) -> &[f32] {
        &self.numbers[self.stacks[bucket]..][..self.stack_len]
    }

    /// The output for the accumulators. Where there is one side, the other's are none.
    #[inline(always)]
    pub(super) fn forth(&self, bucket: usize, values: [&[f32]; 2], scratch: &mut Scratch) -> f32 {
        let stack = self.stack(bucket);
        match self.shape {
            HeadShape::Flat { activation, .. } => {
                let seen = match activation {
                    Activation::Relu => |value| relu(value).0,
                    Activation::Crelu => |value| clip(value).0,
                    Activation::Screlu => |value| screlu(value).0,
                };
                let weights = &stack[..self.sides * self.outputs];
                let (own, other) = weights.split_at(self.outputs);
                dot(values[0], own, seen) + dot(values[1], other, seen) + stack[self.layers[0].bias]
            }
            HeadShape::Stacks(shape) => self.stack_forth(stack, shape, values, scratch),
        }
    }

    /// The output for the accumulators, and back: slopes by the accumulators, and by the numbers of the stack, to which
    /// they are added. Returns the slope by the output.
    #[inline(always)]
    pub(super) fn forth_and_back(
        &self,
        bucket: usize,
        values: [&[f32]; 2],
        slopes: &mut [f32],
        scratch: &mut Scratch,
        sums: &mut [f32],
        judged: impl FnMut(f32) -> f32,
    ) -> f32 {
        let stack = self.stack(bucket);
        match self.shape {
            HeadShape::Flat { activation: Activation::Relu, .. } => {
                self.flat(relu, stack, values, slopes, sums, judged)
            }
            HeadShape::Flat { activation: Activation::Crelu, .. } => {
                self.flat(clip, stack, values, slopes, sums, judged)
            }
            HeadShape::Flat { activation: Activation::Screlu, .. } => {
                self.flat(screlu, stack, values, slopes, sums, judged)
            }
            HeadShape::Stacks(shape) => self.stacks(shape, stack, values, slopes, scratch, sums, judged),
        }
    }

    #[inline(always)]
    fn flat(
        &self,
        activate: impl Fn(f32) -> (f32, f32) + Copy,
        stack: &[f32],
        values: [&[f32]; 2],
        slopes: &mut [f32],
        sums: &mut [f32],
        mut judged: impl FnMut(f32) -> f32,
    ) -> f32 {
        let weights = &stack[..self.sides * self.outputs];
        let seen = |value| activate(value).0;
        let (own, other) = weights.split_at(self.outputs);
        let output = dot(values[0], own, seen) + dot(values[1], other, seen);
        let slope = judged(output + stack[self.layers[0].bias]);
        sums[self.layers[0].bias] += slope;
        let sides = slopes.chunks_exact_mut(self.outputs).zip(sums.chunks_exact_mut(self.outputs));
        for ((values, weights), (slopes, sums)) in values.into_iter().zip([own, other]).zip(sides) {
            for (((value, weight), by_value), sum) in values.iter().zip(weights).zip(slopes).zip(sums) {
                let (activated, steepness) = activate(*value);
                *sum += slope * activated;
                *by_value = slope * weight * steepness;
            }
        }
        slope
    }

    #[inline(always)]
    fn forward(&self, stack: &[f32], layer: usize, inputs: &[f32], outputs: &mut [f32]) {
        let layer = self.layers[layer];
        let rows = stack[layer.weights..][..layer.inputs * layer.outputs].chunks_exact(layer.inputs);
        for ((output, row), bias) in outputs.iter_mut().zip(rows).zip(&stack[layer.bias..]) {
            *output = bias + dot(inputs, row, |input| input);
        }
    }

    /// Adds the slopes of a layer's weights and biases; those of its inputs go to `by_inputs`.
    #[inline(always)]
    fn backward(
        &self,
        stack: &[f32],
        layer: usize,
        inputs: &[f32],
        by_outputs: &[f32],
        by_inputs: &mut [f32],
        sums: &mut [f32],
    ) {
        let layer = self.layers[layer];
        by_inputs.fill(0.0);
        let place = layer.weights..layer.weights + layer.inputs * layer.outputs;
        let rows = stack[place.clone()].chunks_exact(layer.inputs);
        let row_sums = sums[place].chunks_exact_mut(layer.inputs);
        for ((row, row_sums), &slope) in rows.zip(row_sums).zip(by_outputs) {
            if slope == 0.0 {
                continue;
            }
            for (((weight, sum), input), by_input) in
                row.iter().zip(row_sums).zip(inputs).zip(&mut *by_inputs)
            {
                *sum += slope * input;
                *by_input += slope * weight;
            }
        }
        sums[layer.bias..].iter_mut().zip(by_outputs).for_each(|(sum, slope)| *sum += slope);
    }

    #[inline(always)]
    fn stack_forth(
        &self,
        stack: &[f32],
        shape: StackShape,
        values: [&[f32]; 2],
        scratch: &mut Scratch,
    ) -> f32 {
        let product = shape.squeeze.product() as f32;
        let Scratch { inputs, first, hidden, second, second_held, .. } = scratch;
        let len = inputs.len() / self.sides;
        for (inputs, values) in inputs.chunks_exact_mut(len).zip(values) {
            if shape.squeeze.is_pairwise() {
                let (left, right) = values.split_at(len);
                for ((input, a), b) in inputs.iter_mut().zip(left).zip(right) {
                    *input = clip(*a).0 * clip(*b).0 * product;
                }
            } else {
                inputs.iter_mut().zip(values).for_each(|(input, value)| *input = clip(*value).0);
            }
        }
        self.forward(stack, 0, inputs, first);
        let kept = shape.hidden - usize::from(shape.skip);
        let (squares, clipped) = hidden.split_at_mut(if shape.dual { kept } else { 0 });
        squares.iter_mut().zip(&*first).for_each(|(hidden, &value)| *hidden = square(value).0);
        clipped.iter_mut().zip(&*first).for_each(|(hidden, &value)| *hidden = clip(value).0);
        self.forward(stack, 1, hidden, second);
        second_held.iter_mut().zip(&*second).for_each(|(held, &value)| *held = clip(value).0);
        let mut output = [0f32];
        self.forward(stack, 2, second_held, &mut output);
        output[0] + if shape.skip { first[kept] } else { 0.0 }
    }

    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn stacks(
        &self,
        shape: StackShape,
        stack: &[f32],
        values: [&[f32]; 2],
        slopes: &mut [f32],
        scratch: &mut Scratch,
        sums: &mut [f32],
        mut judged: impl FnMut(f32) -> f32,
    ) -> f32 {
        let slope = judged(self.stack_forth(stack, shape, values, scratch));
        let Scratch { inputs, first, hidden, second, second_held, by_inputs, by_first, by_hidden, by_second } =
            scratch;
        let kept = shape.hidden - usize::from(shape.skip);
        self.backward(stack, 2, second_held, &[slope], by_second, sums);
        by_second.iter_mut().zip(&*second).for_each(|(by, &value)| *by *= clip(value).1);
        self.backward(stack, 1, hidden, by_second, by_hidden, sums);
        let (by_squares, by_clipped) = by_hidden.split_at(if shape.dual { kept } else { 0 });
        for ((by_first, by), &value) in by_first.iter_mut().zip(by_clipped).zip(&*first) {
            *by_first = by * clip(value).1;
        }
        for ((by_first, by), &value) in by_first.iter_mut().zip(by_squares).zip(&*first) {
            *by_first += by * square(value).1;
        }
        if shape.skip {
            by_first[kept] = slope;
        }
        self.backward(stack, 0, inputs, by_first, by_inputs, sums);
        let product = shape.squeeze.product() as f32;
        let len = inputs.len() / self.sides;
        let sides = values.into_iter().zip(by_inputs.chunks_exact(len));
        for ((values, by_inputs), slopes) in sides.zip(slopes.chunks_exact_mut(self.outputs)) {
            if shape.squeeze.is_pairwise() {
                let ((left, right), (by_left, by_right)) = (values.split_at(len), slopes.split_at_mut(len));
                for ((((by, a), b), by_a), by_b) in
                    by_inputs.iter().zip(left).zip(right).zip(by_left).zip(by_right)
                {
                    let ((held_a, steep_a), (held_b, steep_b)) = (clip(*a), clip(*b));
                    *by_a = by * held_b * product * steep_a;
                    *by_b = by * held_a * product * steep_b;
                }
            } else {
                for ((by, value), by_value) in by_inputs.iter().zip(values).zip(slopes) {
                    *by_value = by * clip(*value).1;
                }
            }
        }
        slope
    }
}
