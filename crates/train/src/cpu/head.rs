//! The layers after the accumulators, forward and backward, one position at a time.

use crate::batch::ActiveFeatures;
use crate::layout::Layout;
use crate::loss::{Loss, Target};
use std::borrow::Cow;
use tandem_nnue::activation::crelu as clip;
use tandem_nnue::{HeadShape, Inputs, PSQT_BUCKETS, StackShape, with_activation};

/// Lanes of a sum; fixed, so that the result does not depend on the instruction set.
const LANES: usize = 16;

/// Square of 1.0 in the quantised network's integer arithmetic, which the forward pass imitates: 1.0 is
/// stored as 127, and 127 * 127 is divided by 128.
const SQUARE: f32 = 127.0 / 128.0;

/// The layers after the accumulators, with their parameters and the loss.
pub(super) struct Head<'a> {
    shape: HeadShape,
    /// Accumulators of a position: two in chess, one if there is no opponent.
    sides: usize,
    outputs: usize,
    parameters: Cow<'a, [f32]>,
    psqt: Option<std::ops::Range<usize>>,
    /// Start of each stack within the parameters.
    stacks: Vec<usize>,
    /// Places of weights and biases within a stack, and the sizes of each layer.
    layers: Vec<Layer>,
    stack_len: usize,
    loss: Loss,
    output_scale: f32,
}

#[derive(Clone, Copy)]
struct Layer {
    weights: usize,
    bias: usize,
    inputs: usize,
    outputs: usize,
}

/// Intermediate values, reused from position to position.
#[derive(Default)]
pub(super) struct Scratch {
    inputs: Vec<f32>,
    first: Vec<f32>,
    hidden: Vec<f32>,
    second: Vec<f32>,
    second_clipped: Vec<f32>,
    grad_inputs: Vec<f32>,
    grad_first: Vec<f32>,
    grad_hidden: Vec<f32>,
    grad_second: Vec<f32>,
}

#[inline(always)]
fn square(value: f32) -> (f32, f32) {
    let square = value * value * SQUARE;
    (square.min(1.0), if square < 1.0 { 2.0 * value * SQUARE } else { 0.0 })
}

/// Dot product, summed in lanes.
#[inline(always)]
fn dot(values: &[f32], weights: &[f32], activation_value: impl Fn(f32) -> f32) -> f32 {
    let (values, rest) = values.as_chunks::<LANES>();
    let (lanes, weights_rest) = weights.as_chunks::<LANES>();
    let mut sums = [0f32; LANES];
    for (values, weights) in values.iter().zip(lanes) {
        for lane in 0..LANES {
            sums[lane] += activation_value(values[lane]) * weights[lane];
        }
    }
    let rest: f32 =
        rest.iter().zip(weights_rest).map(|(&value, weight)| activation_value(value) * weight).sum();
    sums.iter().sum::<f32>() + rest
}

impl<'a> Head<'a> {
    /// Creates the head from all parameters of a layout after the first layer's weights.
    pub(super) fn new<I: Inputs>(
        layout: &Layout<I>,
        parameters: Cow<'a, [f32]>,
        loss: Loss,
        output_scale: f32,
    ) -> Self {
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
            parameters,
            stacks,
            layers,
            loss,
            output_scale,
        }
    }

    /// Number of accumulators of a position.
    pub(super) fn sides(&self) -> usize {
        self.sides
    }

    /// Width of one side's accumulator.
    pub(super) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Number of parameters of one stack, with the gaps between tensors.
    pub(super) fn stack_len(&self) -> usize {
        self.stack_len
    }

    /// Converts a raw output to the scale of the targets.
    #[inline(always)]
    pub(super) fn scaled(&self, output: f32) -> f32 {
        output * self.output_scale
    }

    /// Loss of a raw output, and its gradient with respect to that output.
    #[inline(always)]
    pub(super) fn loss(&self, output: f32, target: Target) -> (f64, f32) {
        let (value, grad) = self.loss.value_and_grad(f64::from(self.scaled(output)), target);
        (value, grad as f32 * self.output_scale)
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
            second_clipped: zeros(second.outputs),
            grad_inputs: zeros(first.inputs),
            grad_first: zeros(first.outputs),
            grad_hidden: zeros(second.inputs),
            grad_second: zeros(second.outputs),
        }
    }

    /// Contribution of the piece-square values to the raw output.
    #[inline(always)]
    pub(super) fn psqt(&self, features: &ActiveFeatures, position: usize, bucket: usize) -> f32 {
        let Some(psqt) = &self.psqt else { return 0.0 };
        let psqt = &self.parameters[psqt.clone()];
        let sum = |side: usize| -> f32 {
            features.side(side).iter().map(|&index| psqt[index as usize * PSQT_BUCKETS + bucket]).sum()
        };
        (sum(2 * position) - sum(2 * position + 1)) / 2.0
    }

    #[inline(always)]
    fn stack(&self, bucket: usize) -> &[f32] {
        &self.parameters[self.stacks[bucket]..][..self.stack_len]
    }

    /// Raw output for a position's accumulators. With one side, the second slice is empty.
    #[inline(always)]
    pub(super) fn forward(&self, bucket: usize, values: [&[f32]; 2], scratch: &mut Scratch) -> f32 {
        let stack = self.stack(bucket);
        match self.shape {
            HeadShape::Flat { activation, .. } => {
                let weights = &stack[..self.sides * self.outputs];
                let (own, other) = weights.split_at(self.outputs);
                with_activation!(activation, |activate| {
                    let value = |x: f32| activate(x).0;
                    dot(values[0], own, value) + dot(values[1], other, value) + stack[self.layers[0].bias]
                })
            }
            HeadShape::Stacks(shape) => self.forward_stack(stack, shape, values, scratch),
        }
    }

    /// Raw output and backward pass: writes the gradients of the accumulators to `grads`, and adds those of
    /// the stack's parameters to `sums`. Returns the gradient of the output, which `loss_grad` computes from
    /// it.
    #[inline(always)]
    pub(super) fn forward_backward(
        &self,
        bucket: usize,
        values: [&[f32]; 2],
        grads: &mut [f32],
        scratch: &mut Scratch,
        sums: &mut [f32],
        loss_grad: impl FnMut(f32) -> f32,
    ) -> f32 {
        let stack = self.stack(bucket);
        match self.shape {
            HeadShape::Flat { activation, .. } => with_activation!(activation, |activate| {
                self.forward_backward_flat(activate, stack, values, grads, sums, loss_grad)
            }),
            HeadShape::Stacks(shape) => {
                self.forward_backward_stack(shape, stack, values, grads, scratch, sums, loss_grad)
            }
        }
    }

    #[inline(always)]
    fn forward_backward_flat(
        &self,
        activate: impl Fn(f32) -> (f32, f32) + Copy,
        stack: &[f32],
        values: [&[f32]; 2],
        grads: &mut [f32],
        sums: &mut [f32],
        mut loss_grad: impl FnMut(f32) -> f32,
    ) -> f32 {
        let weights = &stack[..self.sides * self.outputs];
        let activation_value = |value| activate(value).0;
        let (own, other) = weights.split_at(self.outputs);
        let output = dot(values[0], own, activation_value) + dot(values[1], other, activation_value);
        let grad = loss_grad(output + stack[self.layers[0].bias]);
        sums[self.layers[0].bias] += grad;
        let sides = grads.chunks_exact_mut(self.outputs).zip(sums.chunks_exact_mut(self.outputs));
        for ((values, weights), (grads, sums)) in values.into_iter().zip([own, other]).zip(sides) {
            for (((value, weight), grad_value), sum) in values.iter().zip(weights).zip(grads).zip(sums) {
                let (activated, derivative) = activate(*value);
                *sum += grad * activated;
                *grad_value = grad * weight * derivative;
            }
        }
        grad
    }

    #[inline(always)]
    fn dense_forward(&self, stack: &[f32], layer: usize, inputs: &[f32], outputs: &mut [f32]) {
        let layer = self.layers[layer];
        let rows = stack[layer.weights..][..layer.inputs * layer.outputs].chunks_exact(layer.inputs);
        for ((output, row), bias) in outputs.iter_mut().zip(rows).zip(&stack[layer.bias..]) {
            *output = bias + dot(inputs, row, |input| input);
        }
    }

    /// Adds the gradients of a layer's weights and biases to `sums`, and writes those of its inputs to
    /// `grad_inputs`.
    #[inline(always)]
    fn dense_backward(
        &self,
        stack: &[f32],
        layer: usize,
        inputs: &[f32],
        grad_outputs: &[f32],
        grad_inputs: &mut [f32],
        sums: &mut [f32],
    ) {
        let layer = self.layers[layer];
        grad_inputs.fill(0.0);
        let place = layer.weights..layer.weights + layer.inputs * layer.outputs;
        let rows = stack[place.clone()].chunks_exact(layer.inputs);
        let row_sums = sums[place].chunks_exact_mut(layer.inputs);
        for ((row, row_sums), &grad) in rows.zip(row_sums).zip(grad_outputs) {
            if grad == 0.0 {
                continue;
            }
            for (((weight, sum), input), grad_input) in
                row.iter().zip(row_sums).zip(inputs).zip(&mut *grad_inputs)
            {
                *sum += grad * input;
                *grad_input += grad * weight;
            }
        }
        sums[layer.bias..].iter_mut().zip(grad_outputs).for_each(|(sum, grad)| *sum += grad);
    }

    #[inline(always)]
    fn forward_stack(
        &self,
        stack: &[f32],
        shape: StackShape,
        values: [&[f32]; 2],
        scratch: &mut Scratch,
    ) -> f32 {
        let product = shape.input_activation.product_of_ones() as f32;
        let Scratch { inputs, first, hidden, second, second_clipped, .. } = scratch;
        let len = inputs.len() / self.sides;
        for (inputs, values) in inputs.chunks_exact_mut(len).zip(values) {
            if shape.input_activation.is_pairwise() {
                let (left, right) = values.split_at(len);
                for ((input, a), b) in inputs.iter_mut().zip(left).zip(right) {
                    *input = clip(*a).0 * clip(*b).0 * product;
                }
            } else {
                inputs.iter_mut().zip(values).for_each(|(input, value)| *input = clip(*value).0);
            }
        }
        self.dense_forward(stack, 0, inputs, first);
        let kept = shape.hidden - usize::from(shape.skip);
        let (squares, clipped) = hidden.split_at_mut(if shape.squared_clipped { kept } else { 0 });
        squares.iter_mut().zip(&*first).for_each(|(hidden, &value)| *hidden = square(value).0);
        clipped.iter_mut().zip(&*first).for_each(|(hidden, &value)| *hidden = clip(value).0);
        self.dense_forward(stack, 1, hidden, second);
        second_clipped.iter_mut().zip(&*second).for_each(|(clipped, &value)| *clipped = clip(value).0);
        let mut output = [0f32];
        self.dense_forward(stack, 2, second_clipped, &mut output);
        output[0] + if shape.skip { first[kept] } else { 0.0 }
    }

    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn forward_backward_stack(
        &self,
        shape: StackShape,
        stack: &[f32],
        values: [&[f32]; 2],
        grads: &mut [f32],
        scratch: &mut Scratch,
        sums: &mut [f32],
        mut loss_grad: impl FnMut(f32) -> f32,
    ) -> f32 {
        let grad = loss_grad(self.forward_stack(stack, shape, values, scratch));
        let Scratch {
            inputs,
            first,
            hidden,
            second,
            second_clipped,
            grad_inputs,
            grad_first,
            grad_hidden,
            grad_second,
        } = scratch;
        let kept = shape.hidden - usize::from(shape.skip);
        self.dense_backward(stack, 2, second_clipped, &[grad], grad_second, sums);
        grad_second.iter_mut().zip(&*second).for_each(|(by, &value)| *by *= clip(value).1);
        self.dense_backward(stack, 1, hidden, grad_second, grad_hidden, sums);
        let (grad_squares, grad_clipped) = grad_hidden.split_at(if shape.squared_clipped { kept } else { 0 });
        for ((grad_first, by), &value) in grad_first.iter_mut().zip(grad_clipped).zip(&*first) {
            *grad_first = by * clip(value).1;
        }
        for ((grad_first, by), &value) in grad_first.iter_mut().zip(grad_squares).zip(&*first) {
            *grad_first += by * square(value).1;
        }
        if shape.skip {
            grad_first[kept] = grad;
        }
        self.dense_backward(stack, 0, inputs, grad_first, grad_inputs, sums);
        let product = shape.input_activation.product_of_ones() as f32;
        let len = inputs.len() / self.sides;
        let sides = values.into_iter().zip(grad_inputs.chunks_exact(len));
        for ((values, grad_inputs), grads) in sides.zip(grads.chunks_exact_mut(self.outputs)) {
            if shape.input_activation.is_pairwise() {
                let ((left, right), (grad_left, grad_right)) =
                    (values.split_at(len), grads.split_at_mut(len));
                for ((((by, a), b), grad_a), grad_b) in
                    grad_inputs.iter().zip(left).zip(right).zip(grad_left).zip(grad_right)
                {
                    let ((clipped_a, derivative_a), (clipped_b, derivative_b)) = (clip(*a), clip(*b));
                    *grad_a = by * clipped_b * product * derivative_a;
                    *grad_b = by * clipped_a * product * derivative_b;
                }
            } else {
                for ((by, value), grad_value) in grad_inputs.iter().zip(values).zip(grads) {
                    *grad_value = by * clip(*value).1;
                }
            }
        }
        grad
    }
}
