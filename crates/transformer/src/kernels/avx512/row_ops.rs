//! Operations on rows between matrix products, on vectors of 512 bits.
//!
//! Shapes that are not whole vectors are left to the plain Rust of [`crate::kernels::row_ops`], which gives
//! the same bits.

use super::f32x16::F32x16;
use crate::NormKind;
use crate::kernels::activations::{Lanes, Unrolled, activate, exp};
use crate::kernels::row_ops::{compiled_for, scale_for_max};
use crate::kernels::{Epilogue, PANEL, Scales, TILE_BYTES, TILE_ROWS, for_row_blocks};
use std::arch::x86_64::*;

compiled_for!("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma");

pub(super) use compiled::convert_bf16;

const LANES: usize = 16;
/// Vectors that are processed side by side, to hide the latency of their operations.
const UNROLL: usize = 4;

#[inline]
#[target_feature(enable = "avx512f")]
fn load(values: &[f32; LANES]) -> __m512 {
    // SAFETY: there are 16 values.
    unsafe { _mm512_loadu_ps(values.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(values: &mut [f32; LANES], vector: __m512) {
    // SAFETY: there is space for 16 values.
    unsafe { _mm512_storeu_ps(values.as_mut_ptr(), vector) }
}

/// Sum of all lanes, adding half of them to the other half at a time.
#[inline]
#[target_feature(enable = "avx512f")]
fn reduce(vector: __m512) -> f32 {
    let eight = _mm512_add_ps(vector, _mm512_shuffle_f32x4::<0b11_10_11_10>(vector, vector));
    let four = _mm512_add_ps(eight, _mm512_shuffle_f32x4::<0b01_01_01_01>(eight, eight));
    let two = _mm512_add_ps(four, _mm512_permute_ps::<0b11_10_11_10>(four));
    let one = _mm512_add_ps(two, _mm512_permute_ps::<0b01_01_01_01>(two));
    _mm512_cvtss_f32(one)
}

/// Softmax of rows that are whole vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub(super) fn softmax(
    scores: &mut [f32],
    stride: usize,
    columns: usize,
    added: Option<&[f32]>,
    factors: &mut [f32],
) {
    if !columns.is_multiple_of(LANES) {
        return compiled::softmax(scores, stride, columns, added, factors);
    }
    for (index, factor) in factors.iter_mut().enumerate() {
        let row = scores[index * stride..][..columns].as_chunks_mut::<LANES>().0;
        let mut max = _mm512_set1_ps(f32::MIN);
        match added {
            Some(added) => {
                let added = added[index * columns..][..columns].as_chunks::<LANES>().0;
                for (scores, added) in row.iter_mut().zip(added) {
                    let sum = _mm512_add_ps(load(scores), load(added));
                    store(scores, sum);
                    max = _mm512_max_ps(sum, max);
                }
            }
            None => row.iter().for_each(|scores| max = _mm512_max_ps(load(scores), max)),
        }
        let max = _mm512_set1_ps(_mm512_reduce_max_ps(max));
        let mut sum = _mm512_setzero_ps();
        let (parts, rest) = row.as_chunks_mut::<UNROLL>();
        for part in parts {
            let mut logits = Unrolled([F32x16(max); UNROLL]);
            for (logit, scores) in logits.0.iter_mut().zip(&*part) {
                *logit = F32x16(_mm512_sub_ps(load(scores), max));
            }
            for (power, scores) in exp(logits).0.into_iter().zip(part) {
                store(scores, power.0);
                sum = _mm512_add_ps(sum, power.0);
            }
        }
        for scores in rest {
            let F32x16(power) = exp(F32x16(_mm512_sub_ps(load(scores), max)));
            store(scores, power);
            sum = _mm512_add_ps(sum, power);
        }
        *factor = 1.0 / reduce(sum);
    }
}

/// Normalises rows that are whole vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub(super) fn norm(rows: &mut [f32], kind: NormKind, epsilon: f32, scale: &[f32], offset: &[f32]) {
    let width = scale.len();
    if width == 0 || !width.is_multiple_of(LANES) || offset.len() != width {
        return compiled::norm(rows, kind, epsilon, scale, offset);
    }
    let count = rows.len() / width;
    for_row_blocks!(count, [4, 1], |row| norm_block(&mut rows[row * width..], kind, epsilon, scale, offset));
}

/// Normalises `ROWS` rows side by side.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
fn norm_block<const ROWS: usize>(
    rows: &mut [f32],
    kind: NormKind,
    epsilon: f32,
    scale: &[f32],
    offset: &[f32],
) {
    let width = scale.len();
    let parts = width / LANES;
    let rows = &mut rows.as_chunks_mut::<LANES>().0[..ROWS * parts];
    let mean = match kind {
        NormKind::Layer => {
            let mut sums = [_mm512_setzero_ps(); ROWS];
            for part in 0..parts {
                for (row, sum) in sums.iter_mut().enumerate() {
                    *sum = _mm512_add_ps(*sum, load(&rows[row * parts + part]));
                }
            }
            sums.map(|sum| _mm512_set1_ps(reduce(sum) / width as f32))
        }
        NormKind::Rms => [_mm512_setzero_ps(); ROWS],
    };
    let mut squares = [_mm512_setzero_ps(); ROWS];
    for part in 0..parts {
        for (row, sum) in squares.iter_mut().enumerate() {
            let off = _mm512_sub_ps(load(&rows[row * parts + part]), mean[row]);
            *sum = _mm512_add_ps(*sum, _mm512_mul_ps(off, off));
        }
    }
    let factor = squares.map(|sum| _mm512_set1_ps(1.0 / (reduce(sum) / width as f32 + epsilon).sqrt()));
    let values = scale.as_chunks::<LANES>().0.iter().zip(offset.as_chunks::<LANES>().0);
    for (part, (scale, offset)) in values.enumerate() {
        let (scale, offset) = (load(scale), load(offset));
        for row in 0..ROWS {
            let value = &mut rows[row * parts + part];
            let normed = _mm512_mul_ps(_mm512_sub_ps(load(value), mean[row]), factor[row]);
            store(value, _mm512_add_ps(_mm512_mul_ps(normed, scale), offset));
        }
    }
}

/// A row of a panel, as two vectors.
type Columns = Unrolled<F32x16, { PANEL / LANES }>;

#[inline]
#[target_feature(enable = "avx512f")]
fn load_columns(values: &[f32; PANEL]) -> Columns {
    let (parts, _) = values.as_chunks();
    Unrolled([F32x16(load(&parts[0])), F32x16(load(&parts[1]))])
}

/// Rows of a panel that are processed side by side.
const ROWS: usize = 4;

/// Stores rows of a whole panel: `value` computes the results of a row, and `combine` merges them with the
/// previous outputs.
#[inline]
#[target_feature(enable = "avx512f")]
fn finish_rows(
    out: &mut [f32],
    stride: usize,
    rows: usize,
    value: impl Fn(usize) -> Columns,
    combine: impl Fn(Unrolled<Columns, ROWS>, Unrolled<Columns, ROWS>) -> Unrolled<Columns, ROWS>,
) {
    for first in (0..rows).step_by(ROWS) {
        // If fewer rows are left, the last one is computed several times.
        let mut before = Unrolled([value(first); ROWS]);
        let mut values = before;
        for index in 0..ROWS {
            let row = (first + index).min(rows - 1);
            before.0[index] = load_columns(out[row * stride..].first_chunk().expect("a panel of each row"));
            values.0[index] = value(row);
        }
        for (index, values) in combine(before, values).0.into_iter().enumerate() {
            let row = (first + index).min(rows - 1);
            for (out, value) in out[row * stride..][..PANEL].as_chunks_mut().0.iter_mut().zip(values.0) {
                store(out, value.0);
            }
        }
    }
}

/// The same for each kind of epilogue.
#[inline]
#[target_feature(enable = "avx512f")]
fn finish_with(
    out: &mut [f32],
    stride: usize,
    rows: usize,
    epilogue: Epilogue,
    value: impl Fn(usize) -> Columns,
) {
    match epilogue {
        Epilogue::Assign => finish_rows(out, stride, rows, value, |_, values| values),
        Epilogue::AddScaled(factor) => {
            let factor = Unrolled::splat(factor);
            finish_rows(out, stride, rows, value, |before, values| before + values * factor);
        }
        Epilogue::Multiply => finish_rows(out, stride, rows, value, |before, values| before * values),
        Epilogue::Activate(activation) => {
            finish_rows(out, stride, rows, value, |_, values| activate(values, activation));
        }
    }
}

/// Stores whole panels; narrower ones are left to plain Rust.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub(super) fn finish(
    out: &mut [f32],
    stride: usize,
    size: (usize, usize),
    epilogue: Epilogue,
    sums: &[f32],
    bias: &[f32; PANEL],
) {
    if size.1 < PANEL {
        return compiled::finish(out, stride, size, epilogue, sums, bias);
    }
    let (sums, bias) = (&sums.as_chunks::<PANEL>().0[..size.0], load_columns(bias));
    finish_with(out, stride, size.0, epilogue, |row| load_columns(&sums[row]) + bias);
}

/// The same for integer sums.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub(super) fn finish_int8(
    out: &mut [f32],
    stride: usize,
    size: (usize, usize),
    epilogue: Epilogue,
    sums: &[i32],
    scales: Scales<'_>,
) {
    if size.1 < PANEL {
        return compiled::finish_int8(out, stride, size, epilogue, sums, scales);
    }
    let (row_scales, scales, bias) = scales;
    let (scales, bias) = (load_columns(scales), load_columns(bias));
    let (sums, row_scales) = (&sums.as_chunks::<PANEL>().0[..size.0], &row_scales[..size.0]);
    finish_with(out, stride, size.0, epilogue, |row| {
        // SAFETY: there are 32 sums.
        let sums = [0, LANES].map(|at| unsafe { _mm512_loadu_si512(sums[row].as_ptr().add(at).cast()) });
        let sums = Unrolled(sums.map(|sums| F32x16(_mm512_cvtepi32_ps(sums))));
        sums * (Columns::splat(row_scales[row]) * scales) + bias
    });
}

/// Quantises rows that are whole tiles.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub(super) fn quantise(tiles: &mut [u8], scales: &mut [f32], rows: &[f32], stride: usize, depth: usize) {
    if !depth.is_multiple_of(TILE_BYTES) {
        return compiled::quantise(tiles, scales, rows, stride, depth);
    }
    let zero = _mm512_set1_epi8(-128);
    // Order of the four-byte groups, because vectors are packed within 128-bit lanes.
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (index, scale) in scales.iter_mut().enumerate() {
        let row = rows[index * stride..][..depth].as_chunks::<LANES>().0.as_chunks::<UNROLL>().0;
        let mut max = [_mm512_setzero_ps(); UNROLL];
        for part in row {
            for (max, part) in max.iter_mut().zip(part) {
                *max = _mm512_max_ps(_mm512_abs_ps(load(part)), *max);
            }
        }
        let max = _mm512_max_ps(_mm512_max_ps(max[0], max[1]), _mm512_max_ps(max[2], max[3]));
        let max = _mm512_reduce_max_ps(max);
        let factor;
        (*scale, factor) = scale_for_max(max);
        let factor = _mm512_set1_ps(factor);
        let first = index / TILE_ROWS * TILE_ROWS * depth + index % TILE_ROWS * TILE_BYTES;
        let tiles = tiles[first..].as_chunks_mut::<TILE_BYTES>().0;
        for (tile, part) in tiles.iter_mut().step_by(TILE_ROWS).zip(row) {
            let mut whole = [_mm512_setzero_si512(); UNROLL];
            for (whole, part) in whole.iter_mut().zip(part) {
                *whole = _mm512_cvtps_epi32(_mm512_mul_ps(load(part), factor));
            }
            let [a, b, c, d] = whole;
            let bytes = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
            let bytes = _mm512_xor_si512(_mm512_permutexvar_epi32(order, bytes), zero);
            // SAFETY: there is space for 64 bytes.
            unsafe { _mm512_storeu_si512(tile.as_mut_ptr().cast(), bytes) };
        }
    }
}

/// Transposes sixteen rows at a time; the remaining ones are left to plain Rust.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub(super) fn transpose(panels: &mut [f32], rows: &[f32], stride: usize, count: usize, depth: usize) {
    let whole = count / PANEL * PANEL;
    if stride > i32::MAX as usize / LANES {
        return compiled::transpose(panels, rows, stride, count, depth);
    }
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let places = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(stride as i32));
    for first in (0..whole).step_by(LANES) {
        let from = &rows[first * stride..][..(LANES - 1) * stride + depth];
        let panel = &mut panels[first / PANEL * depth * PANEL..][..depth * PANEL];
        for (at, to) in panel.as_chunks_mut::<PANEL>().0.iter_mut().enumerate() {
            // SAFETY: element `at` of each of the sixteen rows lies within the slice, and there is space for
            // sixteen.
            unsafe {
                let turned = _mm512_i32gather_ps::<4>(places, from.as_ptr().add(at).cast());
                _mm512_storeu_ps(to.as_mut_ptr().add(first % PANEL), turned);
            }
        }
    }
    if whole < count {
        compiled::transpose(
            &mut panels[whole * depth..],
            &rows[whole * stride..],
            stride,
            count - whole,
            depth,
        );
    }
}
