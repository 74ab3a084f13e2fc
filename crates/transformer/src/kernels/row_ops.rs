//! Operations on rows of values between matrix products, in plain Rust that is compiled again for each
//! instruction set.
//!
//! Sums are accumulated in sixteen lanes that are reduced at the end, so that every instruction set gives the
//! same bits.

use super::activations::{ROUND, activate_slice, exp};
use super::{Epilogue, PANEL, TILE_BYTES, TILE_ROWS};
use crate::NormKind;
use crate::floats::to_bf16;

const LANES: usize = 16;

/// Reduces the lanes to one value, combining half of them with the other half at a time.
#[inline(always)]
fn reduce(mut lanes: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            lanes[lane] = join(lanes[lane], lanes[lane + half]);
        }
    }
    lanes[0]
}

/// Sum of `term` over a row.
#[inline(always)]
fn sum(row: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let (parts, rest) = row.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for part in parts {
        for (lane, &value) in lanes.iter_mut().zip(part) {
            *lane += term(value);
        }
    }
    rest.iter().fold(reduce(lanes, |left, right| left + right), |sum, &value| sum + term(value))
}

#[inline(always)]
fn larger(left: f32, right: f32) -> f32 {
    if left > right { left } else { right }
}

/// Maximum of `size` over a row, and at least `least`.
#[inline(always)]
fn largest(row: &[f32], least: f32, size: impl Fn(f32) -> f32) -> f32 {
    let (parts, rest) = row.as_chunks::<LANES>();
    let mut lanes = [least; LANES];
    for part in parts {
        for (lane, &value) in lanes.iter_mut().zip(part) {
            *lane = larger(size(value), *lane);
        }
    }
    rest.iter().fold(reduce(lanes, larger), |max, &value| larger(size(value), max))
}

/// Softmax without the division: logits become e^(logit - maximum), and `factors` receives one over the sum
/// of each row. `added` is a bias of the logits, whose rows follow each other without a gap.
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
        let max = largest(row, f32::MIN, |value| value);
        let (parts, rest) = row.as_chunks_mut::<LANES>();
        for part in parts {
            *part = part.map(|score| exp(score - max));
        }
        for score in rest {
            *score = exp(*score - max);
        }
        *factor = 1.0 / sum(row, |value| value);
    }
}

/// Normalises rows that are as long as `scale`, and applies scale and offset.
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

/// Stores the results of a panel by an epilogue: `value` computes the result of a row and a column.
#[inline(always)]
fn finish_with(
    out: &mut [f32],
    stride: usize,
    (rows, columns): (usize, usize),
    epilogue: Epilogue,
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
    match epilogue {
        Epilogue::Assign => each(out, stride, size, |row, column, _| value(row, column)),
        Epilogue::AddScaled(factor) => {
            each(out, stride, size, |row, column, out| out + factor * value(row, column));
        }
        Epilogue::Multiply => each(out, stride, size, |row, column, out| out * value(row, column)),
        Epilogue::Activate(activation) => {
            each(out, stride, size, |row, column, _| value(row, column));
            for row in 0..rows {
                activate_slice(&mut out[row * stride..][..columns], activation);
            }
        }
    }
}

/// Adds biases to the sums of a panel and stores them by an epilogue.
#[inline(always)]
pub(super) fn finish(
    out: &mut [f32],
    stride: usize,
    size: (usize, usize),
    epilogue: Epilogue,
    sums: &[f32],
    bias: &[f32; PANEL],
) {
    let (sums, _) = sums.as_chunks::<PANEL>();
    let sums = &sums[..size.0];
    finish_with(out, stride, size, epilogue, |row, column| sums[row][column] + bias[column]);
}

/// The same for integer sums, which are first multiplied by the scale of their row and of their column.
#[inline(always)]
pub(super) fn finish_int8(
    out: &mut [f32],
    stride: usize,
    size: (usize, usize),
    epilogue: Epilogue,
    sums: &[i32],
    (row_scales, scales, bias): (&[f32], &[f32; PANEL], &[f32; PANEL]),
) {
    let (sums, _) = sums.as_chunks::<PANEL>();
    let (sums, row_scales) = (&sums[..size.0], &row_scales[..size.0]);
    finish_with(out, stride, size, epilogue, |row, column| {
        sums[row][column] as f32 * (row_scales[row] * scales[column]) + bias[column]
    });
}

/// Writes row `index` into tiles of 16 rows and 64 bytes, value by value, and fills the rest of its last tile
/// with `padding`.
#[inline(always)]
fn write_tiles<T: Copy, const COLUMNS: usize>(
    tiles: &mut [T],
    index: usize,
    row: &[f32],
    padding: T,
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
        *tile = [padding; COLUMNS];
        for (to, &value) in tile.iter_mut().zip(rest) {
            *to = convert(value);
        }
    }
}

/// Quantises rows to bytes, where 128 is zero and the largest absolute value of a row becomes 1 or 255, and
/// writes them in tiles of 16 rows and 64 bytes.
#[inline(always)]
pub(super) fn quantise(tiles: &mut [u8], scales: &mut [f32], rows: &[f32], stride: usize, depth: usize) {
    for (index, scale) in scales.iter_mut().enumerate() {
        let row = &rows[index * stride..][..depth];
        let factor;
        (*scale, factor) = scale_and_inverse(row);
        // The lowest byte of the rounded value is the integer itself.
        let byte = |value: f32| (value * factor + (ROUND + 128.0)).to_bits() as u8;
        write_tiles::<u8, TILE_BYTES>(tiles, index, row, 128, byte);
    }
}

/// Scale of a row's bytes, and its inverse.
#[inline(always)]
fn scale_and_inverse(row: &[f32]) -> (f32, f32) {
    scale_for_max(largest(row, 0.0, f32::abs))
}

/// The same for a row whose largest absolute value is `max`; both are zero if it is too small to be divided
/// by.
#[inline(always)]
pub(super) fn scale_for_max(max: f32) -> (f32, f32) {
    let factor = 127.0 / max;
    if factor.is_finite() { (max / 127.0, factor) } else { (0.0, 0.0) }
}

/// Residual of rows after [`quantise`]: the input minus its dequantised bytes.
pub(crate) fn quantisation_residual(rest: &mut [f32], rows: &[f32], depth: usize) {
    for (rest, row) in rest.chunks_exact_mut(depth).zip(rows.chunks_exact(depth)) {
        let (scale, factor) = scale_and_inverse(row);
        for (rest, &number) in rest.iter_mut().zip(row) {
            *rest = number - ((number * factor + ROUND) - ROUND) * scale;
        }
    }
}

/// Converts rows to bfloat16, in tiles of 16 rows and 64 bytes.
#[inline(always)]
pub(super) fn convert_bf16(tiles: &mut [u16], count: usize, rows: &[f32], stride: usize, depth: usize) {
    for index in 0..count {
        let row = &rows[index * stride..][..depth];
        write_tiles::<u16, { TILE_BYTES / 2 }>(tiles, index, row, 0, to_bf16);
    }
}

/// Transposes rows into panels, of which they become the columns.
#[inline(always)]
pub(super) fn transpose(panels: &mut [f32], rows: &[f32], stride: usize, count: usize, depth: usize) {
    for (panel, first) in panels.chunks_exact_mut(depth * PANEL).zip((0..count).step_by(PANEL)) {
        for column in 0..PANEL.min(count - first) {
            let row = &rows[(first + column) * stride..][..depth];
            for (at, &value) in row.iter().enumerate() {
                panel[at * PANEL + column] = value;
            }
        }
    }
}

/// Compiles the kernels above for the features of an instruction set, in a module `compiled`.
macro_rules! compiled_for {
    ($features:literal) => {
        mod compiled {
            use crate::NormKind;
            use crate::kernels::{Epilogue, PANEL, row_ops};

            #[target_feature(enable = $features)]
            pub(in crate::kernels) fn softmax(
                scores: &mut [f32],
                stride: usize,
                columns: usize,
                added: Option<&[f32]>,
                factors: &mut [f32],
            ) {
                row_ops::softmax(scores, stride, columns, added, factors);
            }

            #[target_feature(enable = $features)]
            pub(in crate::kernels) fn norm(
                rows: &mut [f32],
                kind: NormKind,
                epsilon: f32,
                scale: &[f32],
                offset: &[f32],
            ) {
                row_ops::norm(rows, kind, epsilon, scale, offset);
            }

            #[target_feature(enable = $features)]
            pub(in crate::kernels) fn finish(
                out: &mut [f32],
                stride: usize,
                size: (usize, usize),
                epilogue: Epilogue,
                sums: &[f32],
                bias: &[f32; PANEL],
            ) {
                row_ops::finish(out, stride, size, epilogue, sums, bias);
            }

            #[target_feature(enable = $features)]
            pub(in crate::kernels) fn finish_int8(
                out: &mut [f32],
                stride: usize,
                size: (usize, usize),
                epilogue: Epilogue,
                sums: &[i32],
                scales: (&[f32], &[f32; PANEL], &[f32; PANEL]),
            ) {
                row_ops::finish_int8(out, stride, size, epilogue, sums, scales);
            }

            #[target_feature(enable = $features)]
            pub(in crate::kernels) fn quantise(
                tiles: &mut [u8],
                scales: &mut [f32],
                rows: &[f32],
                stride: usize,
                depth: usize,
            ) {
                row_ops::quantise(tiles, scales, rows, stride, depth);
            }

            #[target_feature(enable = $features)]
            pub(in crate::kernels) fn convert_bf16(
                tiles: &mut [u16],
                count: usize,
                rows: &[f32],
                stride: usize,
                depth: usize,
            ) {
                row_ops::convert_bf16(tiles, count, rows, stride, depth);
            }

            #[target_feature(enable = $features)]
            pub(in crate::kernels) fn transpose(
                panels: &mut [f32],
                rows: &[f32],
                stride: usize,
                count: usize,
                depth: usize,
            ) {
                row_ops::transpose(panels, rows, stride, count, depth);
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub(super) use compiled_for;
