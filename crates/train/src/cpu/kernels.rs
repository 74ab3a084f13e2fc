//! The inner loops of the CPU trainer: written once, and compiled for each instruction set. All give the same
//! bits, because sums are made in lanes of one fixed width and no product is fused with its sum.

use super::head::Head;
use super::{GroupSums, add};
use crate::batch::ActiveFeatures;
use crate::layout::round_to;
use crate::optimiser::{ClampRange, Update};
use std::sync::atomic::{AtomicU32, Ordering};
use tandem_util::isa::Isa;

/// Columns of a weight row that are summed in registers at once: `WIDE` if the width of the accumulator is a
/// multiple of it, otherwise `NARROW`, which divides every width.
const WIDE: usize = 64;
const NARROW: usize = 32;

/// Weights and biases of the first layer, as the forward pass reads them.
pub(super) struct FirstLayer<'a> {
    pub(super) weights: &'a [f32],
    pub(super) bias: &'a [f32],
    pub(super) outputs: usize,
    pub(super) width: usize,
    /// Quantised scale to which weights are rounded, if training is quantisation-aware.
    pub(super) scale: Option<f32>,
}

/// Everything needed to compute the gradients of a weight row of the first layer.
pub(super) struct RowGradients<'a> {
    /// Gradients of each side's accumulator.
    pub(super) grads: &'a [f32],
    /// End of each feature's list, and the lists of the sides for which it is active.
    pub(super) ends: &'a [u32],
    pub(super) sides: &'a [AtomicU32],
    pub(super) outputs: usize,
    pub(super) width: usize,
}

impl RowGradients<'_> {
    /// Sides for which a feature is active.
    #[inline(always)]
    pub(super) fn users_of(&self, row: usize) -> impl Iterator<Item = usize> {
        let start = if row == 0 { 0 } else { self.ends[row - 1] as usize };
        self.sides[start..self.ends[row] as usize].iter().map(|side| side.load(Ordering::Relaxed) as usize)
    }
}

/// Compiles a loop for each instruction set, and chooses one at run time.
macro_rules! for_each_isa {
    ($(#[$doc:meta])* $name:ident = $body:ident($($arg:ident: $type:ty),* $(,)?) $(-> $out:ty)?) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        pub(super) fn $name(isa: Isa, $($arg: $type),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512bw")]
                fn avx512($($arg: $type),*) $(-> $out)? {
                    $body($($arg),*)
                }
                #[target_feature(enable = "avx2")]
                fn avx2($($arg: $type),*) $(-> $out)? {
                    $body($($arg),*)
                }
                match isa {
                    // SAFETY: the trainer never holds an instruction set that this CPU lacks.
                    Isa::Avx512 | Isa::Amx => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    Isa::Avx2 => return unsafe { avx2($($arg),*) },
                    _ => {}
                }
            }
            $body($($arg),*)
        }
    };
}

for_each_isa! {
    /// Computes the accumulators of some sides.
    gather = gather_body(first: &FirstLayer<'_>, features: &ActiveFeatures, sides: &[u32], accumulators: &mut [f32])
}

for_each_isa! {
    /// Computes the layers after the accumulators for some positions, forward and backward.
    head = head_body(
        head: &Head<'_>,
        features: &ActiveFeatures,
        positions: std::ops::Range<usize>,
        accumulators: (&[u32], &[f32]),
        grads: &mut [f32],
        grad_outputs: &mut [f32],
        sums: &mut GroupSums,
    )
}

for_each_isa! {
    /// Computes the layers after the accumulators for some positions, forward only.
    predict = predict_body(
        head: &Head<'_>,
        features: &ActiveFeatures,
        first: usize,
        accumulators: (&[u32], &[f32]),
        outputs: &mut [f32],
    )
}

for_each_isa! {
    /// Sums the gradients of some weight rows of the first layer, and updates the rows if an update is given.
    /// Returns the sum of the squared gradients.
    update_rows = update_rows_body(
        rows: &RowGradients<'_>,
        row: usize,
        update: Option<&Update>,
        range: ClampRange,
        weights: &mut [f32],
        exp_avg: &mut [f32],
        exp_avg_sq: &mut [f32],
        slow_weights: &mut [f32],
    ) -> f64
}

#[inline(always)]
fn gather_body(first: &FirstLayer<'_>, features: &ActiveFeatures, sides: &[u32], accumulators: &mut [f32]) {
    match (first.outputs.is_multiple_of(WIDE), first.scale) {
        (true, None) => gather_with::<WIDE>(|weight| weight, first, features, sides, accumulators),
        (false, None) => gather_with::<NARROW>(|weight| weight, first, features, sides, accumulators),
        (_, Some(scale)) => {
            gather_with::<NARROW>(|weight| round_to(weight, scale), first, features, sides, accumulators);
        }
    }
}

#[inline(always)]
fn gather_with<const N: usize>(
    quantised: impl Fn(f32) -> f32,
    first: &FirstLayer<'_>,
    features: &ActiveFeatures,
    sides: &[u32],
    accumulators: &mut [f32],
) {
    for (&side, accumulator) in sides.iter().zip(accumulators.chunks_exact_mut(first.outputs)) {
        // With separate weights for each perspective, the other side's columns follow those of the side to
        // move. A network with one side has none, and the difference is zero.
        let start = if side % 2 == 1 { first.width - first.outputs } else { 0 };
        let side = features.side(side as usize);
        for (block, out) in accumulator.as_chunks_mut::<N>().0.iter_mut().enumerate() {
            let column = start + block * N;
            let Some(&bias) = first.bias[column..].first_chunk::<N>() else { continue };
            let mut sums = bias;
            for &row in side {
                let Some(weights) = first.weights[row as usize * first.width + column..].first_chunk::<N>()
                else {
                    continue;
                };
                for lane in 0..N {
                    sums[lane] += quantised(weights[lane]);
                }
            }
            *out = sums;
        }
    }
}

/// A function that returns the accumulator of a side of a position, or an empty slice if there is no such
/// side.
#[inline(always)]
fn accumulator_of<'a>(
    head: &Head<'_>,
    (places, accumulators): (&'a [u32], &'a [f32]),
) -> impl Fn(usize, usize) -> &'a [f32] {
    let (sides, outputs) = (head.sides(), head.outputs());
    move |position, side| match side < sides {
        true => &accumulators[places[position * sides + side] as usize * outputs..][..outputs],
        false => &[],
    }
}

#[inline(always)]
fn head_body(
    head: &Head<'_>,
    features: &ActiveFeatures,
    positions: std::ops::Range<usize>,
    (places, accumulators): (&[u32], &[f32]),
    grads: &mut [f32],
    grad_outputs: &mut [f32],
    sums: &mut GroupSums,
) {
    let outputs = head.outputs();
    let row = accumulator_of(head, (places, accumulators));
    let inv_count = 1.0 / features.len() as f32;
    let mut scratch = head.scratch();
    let starts = [0, sums.bias.len() - outputs];
    for ((position, grads), grad_outputs) in
        positions.zip(grads.chunks_exact_mut(head.sides() * outputs)).zip(grad_outputs)
    {
        let values = [0, 1].map(|side| row(position, side));
        let bucket = usize::from(features.buckets[position]);
        let stack = sums.stacks[bucket].get_or_insert_with(|| vec![0.0; head.stack_len()]);
        let psqt = head.psqt(features, position, bucket);
        let target = features.targets[position];
        let mut loss = 0.0;
        let loss_grad = |output: f32| {
            let (value, grad) = head.loss(output + psqt, target);
            loss = value;
            grad * inv_count
        };
        *grad_outputs = head.forward_backward(bucket, values, grads, &mut scratch, stack, loss_grad);
        sums.loss += loss;
        for (start, side_grads) in starts.into_iter().zip(grads.chunks_exact(outputs)) {
            add(&mut sums.bias[start..start + outputs], side_grads);
        }
    }
}

#[inline(always)]
fn predict_body(
    head: &Head<'_>,
    features: &ActiveFeatures,
    first: usize,
    (places, accumulators): (&[u32], &[f32]),
    outputs: &mut [f32],
) {
    let row = accumulator_of(head, (places, accumulators));
    let mut scratch = head.scratch();
    for (position, output) in (first..).zip(outputs) {
        let values = [0, 1].map(|side| row(position, side));
        let bucket = usize::from(features.buckets[position]);
        *output =
            head.scaled(head.forward(bucket, values, &mut scratch) + head.psqt(features, position, bucket));
    }
}

#[allow(clippy::too_many_arguments)]
#[inline(always)]
fn update_rows_body(
    rows: &RowGradients<'_>,
    row: usize,
    update: Option<&Update>,
    range: ClampRange,
    weights: &mut [f32],
    exp_avg: &mut [f32],
    exp_avg_sq: &mut [f32],
    slow_weights: &mut [f32],
) -> f64 {
    let width = rows.width;
    let mut grads = vec![0f32; width];
    let mut square = 0.0;
    for (number, weights) in weights.chunks_exact_mut(width).enumerate() {
        if rows.outputs.is_multiple_of(WIDE) {
            sum_grads::<WIDE>(rows, row + number, &mut grads);
        } else {
            sum_grads::<NARROW>(rows, row + number, &mut grads);
        }
        square += sum_of_squares(&grads);
        if let Some(update) = update {
            let place = number * width..(number + 1) * width;
            let part = |buffer: &[f32]| if buffer.is_empty() { 0..0 } else { place.clone() };
            let (exp_avg_span, exp_avg_sq_span, slow_span) =
                (part(exp_avg), part(exp_avg_sq), part(slow_weights));
            update.apply(
                weights,
                &grads,
                &mut exp_avg[exp_avg_span],
                &mut exp_avg_sq[exp_avg_sq_span],
                &mut slow_weights[slow_span],
                range,
            );
        }
    }
    square
}

/// Gradients of one weight row: the sum over all sides for which its feature is active.
#[inline(always)]
fn sum_grads<const N: usize>(rows: &RowGradients<'_>, row: usize, grads: &mut [f32]) {
    let untied = rows.width > rows.outputs;
    for (block, out) in grads.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        let (parity, column) = (block * N / rows.outputs, block * N % rows.outputs);
        let mut sums = [0f32; N];
        for side in rows.users_of(row) {
            if untied && side % 2 != parity {
                continue;
            }
            let Some(side_grads) = rows.grads[side * rows.outputs + column..].first_chunk::<N>() else {
                continue;
            };
            for lane in 0..N {
                sums[lane] += side_grads[lane];
            }
        }
        *out = sums;
    }
}

#[inline(always)]
fn sum_of_squares(values: &[f32]) -> f64 {
    let mut sums = [0f32; 16];
    for lanes in values.as_chunks::<16>().0 {
        for lane in 0..16 {
            sums[lane] += lanes[lane] * lanes[lane];
        }
    }
    sums.iter().map(|&sum| f64::from(sum)).sum()
}
