//! What is done to rows between products, on vectors of 512 bits.
//!
//! Shapes that are no whole vectors are left to plain Rust, which gives the same bits.

use crate::NormKind;
use crate::kernels::curves::{Lanes, bent, exp};
use crate::kernels::rows::{compiled_for, step_up_to};
use crate::kernels::{PANEL, Scales, Store, TILE_BYTES, TILE_ROWS, by_rows};
use std::arch::x86_64::*;

compiled_for!("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma");

pub(super) use compiled::halve;

impl Lanes for __m512 {
    #[inline(always)]
    fn all(number: f32) -> Self {
        // SAFETY: vectors of this kind are only made by the functions below, which are compiled for their instructions.
        unsafe { _mm512_set1_ps(number) }
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_add_ps(self, other) }
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_sub_ps(self, other) }
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_mul_ps(self, other) }
    }

    #[inline(always)]
    fn over(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_div_ps(self, other) }
    }

    #[inline(always)]
    fn size(self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_abs_ps(self) }
    }

    #[inline(always)]
    fn at_least(self, bound: Self) -> Self {
        // SAFETY: as above. Of two that cannot be compared the instruction takes the second.
        unsafe { _mm512_max_ps(bound, self) }
    }

    #[inline(always)]
    fn at_most(self, bound: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_min_ps(bound, self) }
    }

    #[inline(always)]
    fn if_positive(self, yes: Self, no: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            let positive = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(self, _mm512_setzero_ps());
            _mm512_mask_blend_ps(positive, no, yes)
        }
    }

    #[inline(always)]
    fn power(self) -> Self {
        // SAFETY: as above.
        unsafe {
            let whole = _mm512_slli_epi32::<23>(_mm512_castps_si512(self));
            _mm512_castsi512_ps(_mm512_add_epi32(whole, _mm512_set1_epi32(127 << 23)))
        }
    }
}

/// Numbers in a vector.
const LANES: usize = 16;
/// Vectors whose steps stand side by side.
const BESIDE: usize = 4;

#[inline]
#[target_feature(enable = "avx512f")]
fn load(numbers: &[f32; LANES]) -> __m512 {
    // SAFETY: there are 16 numbers.
    unsafe { _mm512_loadu_ps(numbers.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(numbers: &mut [f32; LANES], vector: __m512) {
    // SAFETY: there is room for 16 numbers.
    unsafe { _mm512_storeu_ps(numbers.as_mut_ptr(), vector) }
}

/// The sum of all lanes, half of them added to the other half at a time.
#[inline]
#[target_feature(enable = "avx512f")]
fn joined(vector: __m512) -> f32 {
    let eight = _mm512_add_ps(vector, _mm512_shuffle_f32x4::<0b11_10_11_10>(vector, vector));
    let four = _mm512_add_ps(eight, _mm512_shuffle_f32x4::<0b01_01_01_01>(eight, eight));
    let two = _mm512_add_ps(four, _mm512_permute_ps::<0b11_10_11_10>(four));
    let one = _mm512_add_ps(two, _mm512_permute_ps::<0b01_01_01_01>(two));
    _mm512_cvtss_f32(one)
}

/// Rows that are whole vectors.
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
        let mut most = _mm512_set1_ps(f32::MIN);
        match added {
            Some(added) => {
                let added = added[index * columns..][..columns].as_chunks::<LANES>().0;
                for (scores, added) in row.iter_mut().zip(added) {
                    let sum = _mm512_add_ps(load(scores), load(added));
                    store(scores, sum);
                    most = _mm512_max_ps(sum, most);
                }
            }
            None => row.iter().for_each(|scores| most = _mm512_max_ps(load(scores), most)),
        }
        let most = _mm512_set1_ps(_mm512_reduce_max_ps(most));
        let mut sum = _mm512_setzero_ps();
        let (parts, rest) = row.as_chunks_mut::<BESIDE>();
        for part in parts {
            let mut powers = [most; BESIDE];
            for (power, scores) in powers.iter_mut().zip(&*part) {
                *power = _mm512_sub_ps(load(scores), most);
            }
            for (power, scores) in exp(powers).into_iter().zip(part) {
                store(scores, power);
                sum = _mm512_add_ps(sum, power);
            }
        }
        for scores in rest {
            let power = exp(_mm512_sub_ps(load(scores), most));
            store(scores, power);
            sum = _mm512_add_ps(sum, power);
        }
        *factor = 1.0 / joined(sum);
    }
}

/// Rows that are whole vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub(super) fn norm(rows: &mut [f32], kind: NormKind, epsilon: f32, scale: &[f32], offset: &[f32]) {
    let width = scale.len();
    if width == 0 || !width.is_multiple_of(LANES) || offset.len() != width {
        return compiled::norm(rows, kind, epsilon, scale, offset);
    }
    let count = rows.len() / width;
    by_rows!(count, [4, 1], |row| norm_block(&mut rows[row * width..], kind, epsilon, scale, offset));
}

/// So many rows, side by side.
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
            sums.map(|sum| _mm512_set1_ps(joined(sum) / width as f32))
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
    let factor = squares.map(|sum| _mm512_set1_ps(1.0 / (joined(sum) / width as f32 + epsilon).sqrt()));
    let numbers = scale.as_chunks::<LANES>().0.iter().zip(offset.as_chunks::<LANES>().0);
    for (part, (scale, offset)) in numbers.enumerate() {
        let (scale, offset) = (load(scale), load(offset));
        for row in 0..ROWS {
            let value = &mut rows[row * parts + part];
            let normed = _mm512_mul_ps(_mm512_sub_ps(load(value), mean[row]), factor[row]);
            store(value, _mm512_add_ps(_mm512_mul_ps(normed, scale), offset));
        }
    }
}

/// A row of a panel.
type Columns = [__m512; PANEL / LANES];

#[inline]
#[target_feature(enable = "avx512f")]
fn load_columns(numbers: &[f32; PANEL]) -> Columns {
    let (parts, _) = numbers.as_chunks();
    [load(&parts[0]), load(&parts[1])]
}

/// Rows of a panel whose steps stand side by side.
const ROWS: usize = 4;

/// Rows of a whole panel: `value` makes those of the sums, and `combine` joins them to what was there before.
#[inline]
#[target_feature(enable = "avx512f")]
fn finish_rows(
    out: &mut [f32],
    stride: usize,
    rows: usize,
    value: impl Fn(usize) -> Columns,
    combine: impl Fn([Columns; ROWS], [Columns; ROWS]) -> [Columns; ROWS],
) {
    for first in (0..rows).step_by(ROWS) {
        // Where they are fewer, the last stands beside itself.
        let mut before = [value(first); ROWS];
        let mut values = before;
        for index in 0..ROWS {
            let row = (first + index).min(rows - 1);
            before[index] = load_columns(out[row * stride..].first_chunk().expect("a panel of each row"));
            values[index] = value(row);
        }
        for (index, values) in combine(before, values).into_iter().enumerate() {
            let row = (first + index).min(rows - 1);
            for (out, value) in out[row * stride..][..PANEL].as_chunks_mut().0.iter_mut().zip(values) {
                store(out, value);
            }
        }
    }
}

/// The same for each way to store them.
#[inline]
#[target_feature(enable = "avx512f")]
fn finish_with(out: &mut [f32], stride: usize, rows: usize, how: Store, value: impl Fn(usize) -> Columns) {
    match how {
        Store::Set => finish_rows(out, stride, rows, value, |_, values| values),
        Store::Add(factor) => {
            let factor = Lanes::all(factor);
            finish_rows(out, stride, rows, value, |before, values| before.plus(values.times(factor)));
        }
        Store::Times => finish_rows(out, stride, rows, value, |before, values| before.times(values)),
        Store::Activate(activation) => {
            finish_rows(out, stride, rows, value, |_, values| bent(values, activation));
        }
    }
}

/// Whole panels.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub(super) fn finish(
    out: &mut [f32],
    stride: usize,
    size: (usize, usize),
    how: Store,
    sums: &[f32],
    bias: &[f32; PANEL],
) {
    if size.1 < PANEL {
        return compiled::finish(out, stride, size, how, sums, bias);
    }
    let (sums, bias) = (&sums.as_chunks::<PANEL>().0[..size.0], load_columns(bias));
    finish_with(out, stride, size.0, how, |row| load_columns(&sums[row]).plus(bias));
}

/// The same for sums in whole numbers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub(super) fn finish_int8(
    out: &mut [f32],
    stride: usize,
    size: (usize, usize),
    how: Store,
    sums: &[i32],
    scales: Scales<'_>,
) {
    if size.1 < PANEL {
        return compiled::finish_int8(out, stride, size, how, sums, scales);
    }
    let (row_scales, scales, bias) = scales;
    let (scales, bias) = (load_columns(scales), load_columns(bias));
    let (sums, row_scales) = (&sums.as_chunks::<PANEL>().0[..size.0], &row_scales[..size.0]);
    finish_with(out, stride, size.0, how, |row| {
        // SAFETY: there are 32 numbers.
        let sums = [0, LANES].map(|at| unsafe { _mm512_loadu_si512(sums[row].as_ptr().add(at).cast()) });
        let sums = sums.map(|sums| _mm512_cvtepi32_ps(sums));
        sums.times([_mm512_set1_ps(row_scales[row]); 2].times(scales)).plus(bias)
    });
}

/// Rows that are whole tiles.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub(super) fn quantise(tiles: &mut [u8], scales: &mut [f32], rows: &[f32], stride: usize, depth: usize) {
    if !depth.is_multiple_of(TILE_BYTES) {
        return compiled::quantise(tiles, scales, rows, stride, depth);
    }
    let zero = _mm512_set1_epi8(-128);
    // Where each four bytes stand after vectors were packed in halves of halves.
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (index, scale) in scales.iter_mut().enumerate() {
        let row = rows[index * stride..][..depth].as_chunks::<LANES>().0.as_chunks::<BESIDE>().0;
        let mut most = [_mm512_setzero_ps(); BESIDE];
        for part in row {
            for (most, part) in most.iter_mut().zip(part) {
                *most = _mm512_max_ps(_mm512_abs_ps(load(part)), *most);
            }
        }
        let most = _mm512_max_ps(_mm512_max_ps(most[0], most[1]), _mm512_max_ps(most[2], most[3]));
        let most = _mm512_reduce_max_ps(most);
        let factor;
        (*scale, factor) = step_up_to(most);
        let factor = _mm512_set1_ps(factor);
        let first = index / TILE_ROWS * TILE_ROWS * depth + index % TILE_ROWS * TILE_BYTES;
        let tiles = tiles[first..].as_chunks_mut::<TILE_BYTES>().0;
        for (tile, part) in tiles.iter_mut().step_by(TILE_ROWS).zip(row) {
            let mut whole = [_mm512_setzero_si512(); BESIDE];
            for (whole, part) in whole.iter_mut().zip(part) {
                *whole = _mm512_cvtps_epi32(_mm512_mul_ps(load(part), factor));
            }
            let [a, b, c, d] = whole;
            let bytes = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
            let bytes = _mm512_xor_si512(_mm512_permutexvar_epi32(order, bytes), zero);
            // SAFETY: there is room for 64 bytes.
            unsafe { _mm512_storeu_si512(tile.as_mut_ptr().cast(), bytes) };
        }
    }
}

/// Sixteen rows at a time; the rest are left to plain Rust.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub(super) fn turn(panels: &mut [f32], rows: &[f32], stride: usize, count: usize, depth: usize) {
    let whole = count / PANEL * PANEL;
    if stride > i32::MAX as usize / LANES {
        return compiled::turn(panels, rows, stride, count, depth);
    }
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let places = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(stride as i32));
    for first in (0..whole).step_by(LANES) {
        let from = &rows[first * stride..][..(LANES - 1) * stride + depth];
        let panel = &mut panels[first / PANEL * depth * PANEL..][..depth * PANEL];
        for (at, to) in panel.as_chunks_mut::<PANEL>().0.iter_mut().enumerate() {
            // SAFETY: number `at` of each of the sixteen rows lies within the slice, and there is room for sixteen.
            unsafe {
                let turned = _mm512_i32gather_ps::<4>(places, from.as_ptr().add(at).cast());
                _mm512_storeu_ps(to.as_mut_ptr().add(first % PANEL), turned);
            }
        }
    }
    if whole < count {
        compiled::turn(&mut panels[whole * depth..], &rows[whole * stride..], stride, count - whole, depth);
    }
}
