//! The loops that the time goes into: written once, compiled for each set of instructions. All give the same bits: sums
//! are made in lanes of one fixed width, and no product is fused with its sum.

use super::head::Head;
use super::{GroupSums, add};
use crate::batch::Rows;
use crate::layout::round_to;
use crate::optimiser::{Range, Update};
use std::sync::atomic::{AtomicU32, Ordering};
use tandem_nnue::Isa;

/// Columns of a row that are summed up in registers. All widths are multiples of the smaller.
const WIDE: usize = 64;
const NARROW: usize = 32;

/// The first layer.
pub(super) struct FirstLayer<'a> {
    pub(super) weights: &'a [f32],
    pub(super) bias: &'a [f32],
    pub(super) outputs: usize,
    pub(super) width: usize,
    /// Weights are rounded to this.
    pub(super) grid: Option<f32>,
}

/// What the rows of the first layer are visited with.
pub(super) struct RowUpdate<'a> {
    /// By the accumulators of each side.
    pub(super) slopes: &'a [f32],
    /// Where the sides of each row end, and the sides.
    pub(super) ends: &'a [u32],
    pub(super) sides: &'a [AtomicU32],
    pub(super) outputs: usize,
    pub(super) width: usize,
}

impl RowUpdate<'_> {
    /// The sides that a row is on for.
    #[inline(always)]
    pub(super) fn users_of(&self, row: usize) -> impl Iterator<Item = usize> {
        let start = if row == 0 { 0 } else { self.ends[row - 1] as usize };
        self.sides[start..self.ends[row] as usize].iter().map(|side| side.load(Ordering::Relaxed) as usize)
    }
}

/// Compiles a loop for each set of instructions, and chooses when the program runs.
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
                    // SAFETY: the trainer has no set of instructions that the processor lacks.
                    Isa::Avx512 => return unsafe { avx512($($arg),*) },
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
    /// The accumulators of some sides.
    gather = gather_body(first: &FirstLayer<'_>, rows: &Rows, sides: &[u32], accumulators: &mut [f32])
}

for_each_isa! {
    /// The layers after the accumulators for some positions, forth and back.
    head = head_body(
        head: &Head<'_>,
        rows: &Rows,
        positions: std::ops::Range<usize>,
        accumulators: (&[u32], &[f32]),
        slopes: &mut [f32],
        by_output: &mut [f32],
        sums: &mut GroupSums,
    )
}

for_each_isa! {
    /// The layers after the accumulators for some positions, forth only.
    judge = judge_body(
        head: &Head<'_>,
        rows: &Rows,
        first: usize,
        accumulators: (&[u32], &[f32]),
        outputs: &mut [f32],
    )
}

for_each_isa! {
    /// Adds up the slopes of some rows of the first layer, and moves the rows if an update is given. Returns the sum of the
    /// squares of the slopes.
    visit = visit_body(
        rows: &RowUpdate<'_>,
        row: usize,
        update: Option<&Update>,
        range: Range,
        weights: &mut [f32],
        first: &mut [f32],
        second: &mut [f32],
        slow: &mut [f32],
    ) -> f64
}

#[inline(always)]
fn gather_body(first: &FirstLayer<'_>, rows: &Rows, sides: &[u32], accumulators: &mut [f32]) {
    match (first.outputs.is_multiple_of(WIDE), first.grid) {
        (true, None) => gather_with::<WIDE>(|weight| weight, first, rows, sides, accumulators),
        (false, None) => gather_with::<NARROW>(|weight| weight, first, rows, sides, accumulators),
        (_, Some(grid)) => {
            gather_with::<NARROW>(|weight| round_to(weight, grid), first, rows, sides, accumulators);
        }
    }
}

#[inline(always)]
fn gather_with<const N: usize>(
    seen: impl Fn(f32) -> f32,
    first: &FirstLayer<'_>,
    rows: &Rows,
    sides: &[u32],
    accumulators: &mut [f32],
) {
    for (&side, accumulator) in sides.iter().zip(accumulators.chunks_exact_mut(first.outputs)) {
        // Where the perspectives have weights of their own, the other's columns follow those of the side to move.
        // One side alone has none, and the difference is zero.
        let start = if side % 2 == 1 { first.width - first.outputs } else { 0 };
        let side = rows.side(side as usize);
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
                    sums[lane] += seen(weights[lane]);
                }
            }
            *out = sums;
        }
    }
}

/// The accumulator of a side of a position; none, where it has no such side.
#[inline(always)]
fn values_of<'a>(
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
    rows: &Rows,
    positions: std::ops::Range<usize>,
    (places, accumulators): (&[u32], &[f32]),
    slopes: &mut [f32],
    by_output: &mut [f32],
    sums: &mut GroupSums,
) {
    let outputs = head.outputs();
    let row = values_of(head, (places, accumulators));
    let share = 1.0 / rows.len() as f32;
    let mut scratch = head.scratch();
    let starts = [0, sums.bias.len() - outputs];
    for ((position, slopes), by_output) in
        positions.zip(slopes.chunks_exact_mut(head.sides() * outputs)).zip(by_output)
    {
        let values = [0, 1].map(|side| row(position, side));
        let bucket = usize::from(rows.buckets[position]);
        let stack = sums.stacks[bucket].get_or_insert_with(|| vec![0.0; head.stack_len()]);
        let psqt = head.psqt(rows, position, bucket);
        let target = rows.targets[position];
        let mut loss = 0.0;
        let judged = |output: f32| {
            let (value, slope) = head.loss(output + psqt, target);
            loss = value;
            slope * share
        };
        *by_output = head.forth_and_back(bucket, values, slopes, &mut scratch, stack, judged);
        sums.loss += loss;
        for (start, by_values) in starts.into_iter().zip(slopes.chunks_exact(outputs)) {
            add(&mut sums.bias[start..start + outputs], by_values);
        }
    }
}

#[inline(always)]
fn judge_body(
    head: &Head<'_>,
    rows: &Rows,
    first: usize,
    (places, accumulators): (&[u32], &[f32]),
    outputs: &mut [f32],
) {
    let row = values_of(head, (places, accumulators));
    let mut scratch = head.scratch();
    for (position, output) in (first..).zip(outputs) {
        let values = [0, 1].map(|side| row(position, side));
        let bucket = usize::from(rows.buckets[position]);
        *output = head.scaled(head.forth(bucket, values, &mut scratch) + head.psqt(rows, position, bucket));
    }
}

#[allow(clippy::too_many_arguments)]
#[inline(always)]
fn visit_body(
    rows: &RowUpdate<'_>,
    row: usize,
    update: Option<&Update>,
    range: Range,
    weights: &mut [f32],
    first: &mut [f32],
    second: &mut [f32],
    slow: &mut [f32],
) -> f64 {
    let width = rows.width;
    let mut slopes = vec![0f32; width];
    let mut square = 0.0;
    for (number, weights) in weights.chunks_exact_mut(width).enumerate() {
        if rows.outputs.is_multiple_of(WIDE) {
            sum_up::<WIDE>(rows, row + number, &mut slopes);
        } else {
            sum_up::<NARROW>(rows, row + number, &mut slopes);
        }
        square += sum_of_squares(&slopes);
        if let Some(update) = update {
            let place = number * width..(number + 1) * width;
            let part = |numbers: &[f32]| if numbers.is_empty() { 0..0 } else { place.clone() };
            let (of_first, of_second, of_slow) = (part(first), part(second), part(slow));
            update.apply(
                weights,
                &slopes,
                &mut first[of_first],
                &mut second[of_second],
                &mut slow[of_slow],
                range,
            );
        }
    }
    square
}

/// The slopes of one row: those of all sides that it is on for.
#[inline(always)]
fn sum_up<const N: usize>(rows: &RowUpdate<'_>, row: usize, slopes: &mut [f32]) {
    let untied = rows.width > rows.outputs;
    for (block, out) in slopes.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        let (parity, column) = (block * N / rows.outputs, block * N % rows.outputs);
        let mut sums = [0f32; N];
        for side in rows.users_of(row) {
            if untied && side % 2 != parity {
                continue;
            }
            let Some(by_side) = rows.slopes[side * rows.outputs + column..].first_chunk::<N>() else {
                continue;
            };
            for lane in 0..N {
                sums[lane] += by_side[lane];
            }
        }
        *out = sums;
    }
}

#[inline(always)]
fn sum_of_squares(numbers: &[f32]) -> f64 {
    let mut sums = [0f32; 16];
    for lanes in numbers.as_chunks::<16>().0 {
        for lane in 0..16 {
            sums[lane] += lanes[lane] * lanes[lane];
        }
    }
    sums.iter().map(|&sum| f64::from(sum)).sum()
}
