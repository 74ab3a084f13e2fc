//! What is done to rows of numbers between products, in plain Rust that is compiled again for each instruction set.
//!
//! Sums go by sixteen lanes that are added up at the end, so that every instruction set gives the same bits.

use super::curves::{self, ROUND, exp};
use super::{PANEL, Store, TILE_BYTES, TILE_ROWS};
use crate::NormKind;
use crate::floats::to_bf16;

const LANES: usize = 16;

/// Lanes joined to one number, half of them to the other half at a time.
#[inline(always)]
fn joined(mut lanes: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
    for step in [8, 4, 2, 1] {
        for lane in 0..step {
            lanes[lane] = join(lanes[lane], lanes[lane + step]);
        }
    }
    lanes[0]
}

/// The sum of `term` over a row.
#[inline(always)]
fn sum(row: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let (parts, rest) = row.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for part in parts {
        for (lane, &value) in lanes.iter_mut().zip(part) {
            *lane += term(value);
        }
    }
    rest.iter().fold(joined(lanes, |left, right| left + right), |sum, &value| sum + term(value))
}

#[inline(always)]
fn larger(left: f32, right: f32) -> f32 {
    if left > right { left } else { right }
}

/// The largest of `size` over a row, at least `least`.
#[inline(always)]
fn largest(row: &[f32], least: f32, size: impl Fn(f32) -> f32) -> f32 {
    let (parts, rest) = row.as_chunks::<LANES>();
    let mut lanes = [least; LANES];
    for part in parts {
        for (lane, &value) in lanes.iter_mut().zip(part) {
            *lane = larger(size(value), *lane);
        }
    }
    rest.iter().fold(joined(lanes, larger), |most, &value| larger(size(value), most))
}

/// Rows of logits become e to their power, less the largest of the row; what would make them sum to one is handed out.
/// `added` has the same rows without a gap between them.
#[inline(always)]
pub(super) fn softmax(
    scores: &mut [f32],
    stride: usize,
    columns: usize,
    added: Option<&[f32]>,
    factors: &mut [f32],
) {
    for (index, factor) in factors.iter_mut().enumerate() {
        let row = &mut scores[index * stride..][..columns];
        if let Some(added) = added {
            for (score, &more) in row.iter_mut().zip(&added[index * columns..][..columns]) {
                *score += more;
            }
        }
        let most = largest(row, f32::MIN, |value| value);
        let (parts, rest) = row.as_chunks_mut::<LANES>();
        for part in parts {
            *part = part.map(|score| exp(score - most));
        }
        for score in rest {
            *score = exp(*score - most);
        }
        *factor = 1.0 / sum(row, |value| value);
    }
}

/// Rows as long as `scale`, each brought to one size.
#[inline(always)]
pub(super) fn norm(rows: &mut [f32], kind: NormKind, epsilon: f32, scale: &[f32], offset: &[f32]) {
    let width = scale.len();
    for row in rows.chunks_exact_mut(width) {
        let mean = match kind {
            NormKind::Layer => sum(row, |value| value) / width as f32,
            NormKind::Rms => 0.0,
        };
        let variance = sum(row, |value| (value - mean) * (value - mean)) / width as f32;
        let factor = 1.0 / (variance + epsilon).sqrt();
        for ((value, &scale), &offset) in row.iter_mut().zip(scale).zip(offset) {
            *value = (*value - mean) * factor * scale + offset;
        }
    }
}

/// What becomes of the sums of a panel: `value` makes a number of a row and a column from them.
#[inline(always)]
fn finish_with(
    out: &mut [f32],
    stride: usize,
    (rows, columns): (usize, usize),
    store: Store,
    value: impl Fn(usize, usize) -> f32,
) {
    #[inline(always)]
    fn each(
        out: &mut [f32],
        stride: usize,
        (rows, columns): (usize, usize),
        combine: impl Fn(usize, usize, f32) -> f32,
    ) {
        for row in 0..rows {
            let out = &mut out[row * stride..][..columns];
            if let Some(out) = out.as_mut_array::<PANEL>() {
                for (column, out) in out.iter_mut().enumerate() {
                    *out = combine(row, column, *out);
                }
            } else {
                for (column, out) in out.iter_mut().enumerate() {
                    *out = combine(row, column, *out);
                }
            }
        }
    }
    let size = (rows, columns);
    match store {
        Store::Set => each(out, stride, size, |row, column, _| value(row, column)),
        Store::Add(factor) => {
            each(out, stride, size, |row, column, out| out + factor * value(row, column));
        }
        Store::Times => each(out, stride, size, |row, column, out| out * value(row, column)),
        Store::Activate(activation) => {
            each(out, stride, size, |row, column, _| value(row, column));
            for row in 0..rows {
                curves::activate(&mut out[row * stride..][..columns], activation);
            }
        }
    }
}

/// Sums of a panel with its biases, to where they belong.
#[inline(always)]
pub(super) fn finish(
    out: &mut [f32],
    stride: usize,
    size: (usize, usize),
    store: Store,
    sums: &[f32],
    bias: &[f32; PANEL],
) {
    let (sums, _) = sums.as_chunks::<PANEL>();
    let sums = &sums[..size.0];
    finish_with(out, stride, size, store, |row, column| sums[row][column] + bias[column]);
}

/// The same for sums in whole numbers, with the scale of each row and of each column.
#[inline(always)]
pub(super) fn finish_int8(
    out: &mut [f32],
    stride: usize,
    size: (usize, usize),
    store: Store,
    sums: &[i32],
    (row_scales, scales, bias): (&[f32], &[f32; PANEL], &[f32; PANEL]),
) {
    let (sums, _) = sums.as_chunks::<PANEL>();
    let (sums, row_scales) = (&sums[..size.0], &row_scales[..size.0]);
    finish_with(out, stride, size, store, |row, column| {
        sums[row][column] as f32 * (row_scales[row] * scales[column]) + bias[column]
    });
}

/// A row in tiles of 16 rows and 64 bytes: row `index` of all, number by number; behind it stands `nothing`.
#[inline(always)]
fn put_in_tiles<T: Copy, const COLUMNS: usize>(
    tiles: &mut [T],
    index: usize,
    row: &[f32],
    nothing: T,
    convert: impl Fn(f32) -> T,
) {
    let blocks = row.len().div_ceil(COLUMNS);
    let tiles = tiles[index / TILE_ROWS * blocks * TILE_ROWS * COLUMNS..].as_chunks_mut::<COLUMNS>().0;
    let mut tiles = tiles[index % TILE_ROWS..].iter_mut().step_by(TILE_ROWS).take(blocks);
    let (parts, rest) = row.as_chunks::<COLUMNS>();
    for (part, tile) in parts.iter().zip(tiles.by_ref()) {
        *tile = part.map(&convert);
    }
    if let Some(tile) = tiles.next() {
        *tile = [nothing; COLUMNS];
        for (to, &value) in tile.iter_mut().zip(rest) {
            *to = convert(value);
        }
    }
}

/// Rows in bytes: 128 stands for zero, and the largest number of a row for 127 more or less. They stand in tiles of
/// 16 rows and 64 bytes.
#[inline(always)]
pub(super) fn quantise(tiles: &mut [u8], scales: &mut [f32], rows: &[f32], stride: usize, depth: usize) {
    for (index, scale) in scales.iter_mut().enumerate() {
        let row = &rows[index * stride..][..depth];
        let factor;
        (*scale, factor) = step(row);
        // The lowest byte of the rounded number is the whole number itself.
        let byte = |value: f32| (value * factor + (ROUND + 128.0)).to_bits() as u8;
        put_in_tiles::<u8, TILE_BYTES>(tiles, index, row, 128, byte);
    }
}

/// What one of a row's bytes is worth, and how many of them one is.
#[inline(always)]
fn step(row: &[f32]) -> (f32, f32) {
    step_up_to(largest(row, 0.0, f32::abs))
}

/// The same if this is the largest number of the row. One that is too small to be divided by is taken for zero.
#[inline(always)]
pub(super) fn step_up_to(most: f32) -> (f32, f32) {
    let factor = 127.0 / most;
    if factor.is_finite() { (most / 127.0, factor) } else { (0.0, 0.0) }
}

/// What is left of rows after [`quantise`] has made bytes of them.
pub(crate) fn left_by_bytes(rest: &mut [f32], rows: &[f32], depth: usize) {
    for (rest, row) in rest.chunks_exact_mut(depth).zip(rows.chunks_exact(depth)) {
        let (scale, factor) = step(row);
        for (rest, &number) in rest.iter_mut().zip(row) {
            *rest = number - ((number * factor + ROUND) - ROUND) * scale;
        }
    }
}

/// Rows in 16 bits, in tiles of 16 rows and 64 bytes.
#[inline(always)]
pub(super) fn halve(tiles: &mut [u16], count: usize, rows: &[f32], stride: usize, depth: usize) {
    for index in 0..count {
        let row = &rows[index * stride..][..depth];
        put_in_tiles::<u16, { TILE_BYTES / 2 }>(tiles, index, row, 0, to_bf16);
    }
}

/// Rows turned into panels whose columns they are.
#[inline(always)]
pub(super) fn turn(panels: &mut [f32], rows: &[f32], stride: usize, count: usize, depth: usize) {
    for (panel, first) in panels.chunks_exact_mut(depth * PANEL).zip((0..count).step_by(PANEL)) {
        for column in 0..PANEL.min(count - first) {
            let row = &rows[(first + column) * stride..][..depth];
            for (at, &value) in row.iter().enumerate() {
                panel[at * PANEL + column] = value;
            }
        }
    }
}

/// The kernels above once more, compiled for an instruction set.
macro_rules! compiled_for {
    ($features:literal) => {
        mod compiled {
            use crate::NormKind;
            use crate::kernels::{PANEL, Store, rows};

            #[target_feature(enable = $features)]
            pub(in crate::kernels) fn softmax(
                scores: &mut [f32],
                stride: usize,
                columns: usize,
                added: Option<&[f32]>,
                factors: &mut [f32],
            ) {
                rows::softmax(scores, stride, columns, added, factors);
            }

            #[target_feature(enable = $features)]
            pub(in crate::kernels) fn norm(
                rows: &mut [f32],
                kind: NormKind,
                epsilon: f32,
                scale: &[f32],
                offset: &[f32],
            ) {
                rows::norm(rows, kind, epsilon, scale, offset);
            }

            #[target_feature(enable = $features)]
            pub(in crate::kernels) fn finish(
                out: &mut [f32],
                stride: usize,
                size: (usize, usize),
                store: Store,
                sums: &[f32],
                bias: &[f32; PANEL],
            ) {
                rows::finish(out, stride, size, store, sums, bias);
            }

            #[target_feature(enable = $features)]
            pub(in crate::kernels) fn finish_int8(
                out: &mut [f32],
                stride: usize,
                size: (usize, usize),
                store: Store,
                sums: &[i32],
                scales: (&[f32], &[f32; PANEL], &[f32; PANEL]),
            ) {
                rows::finish_int8(out, stride, size, store, sums, scales);
            }

            #[target_feature(enable = $features)]
            pub(in crate::kernels) fn quantise(
                tiles: &mut [u8],
                scales: &mut [f32],
                rows: &[f32],
                stride: usize,
                depth: usize,
            ) {
                rows::quantise(tiles, scales, rows, stride, depth);
            }

            #[target_feature(enable = $features)]
            pub(in crate::kernels) fn halve(
                tiles: &mut [u16],
                count: usize,
                rows: &[f32],
                stride: usize,
                depth: usize,
            ) {
                rows::halve(tiles, count, rows, stride, depth);
            }

            #[target_feature(enable = $features)]
            pub(in crate::kernels) fn turn(
                panels: &mut [f32],
                rows: &[f32],
                stride: usize,
                count: usize,
                depth: usize,
            ) {
                rows::turn(panels, rows, stride, count, depth);
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub(super) use compiled_for;
