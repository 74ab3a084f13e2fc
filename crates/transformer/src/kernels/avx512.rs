//! Products on vectors of 512 bits.

use super::curves::{Lanes, ROUND, bent, exp};
use super::rows::compiled_for;
use super::{GROUP, Isa, PAIR, PANEL, Scales, Store, TILE_BYTES, TILE_ROWS, Table, by_rows};
use std::arch::x86_64::*;

compiled_for!("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma");

pub(super) const TABLE: Table = Table {
    isa: Isa::Avx512,
    multiply,
    multiply_int8,
    multiply_bf16,
    softmax,
    norm: compiled::norm,
    finish,
    finish_int8,
    quantise,
    halve: compiled::halve,
    turn,
};

/// Whether this processor has what the kernels here are compiled for.
pub(super) fn is_here() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni")
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
}

#[target_feature(enable = "avx512f")]
fn multiply(sums: &mut [f32], width: usize, x: &[f32], stride: usize, count: usize, panel: &[f32]) {
    by_rows!(count, [8, 4, 2, 1], |row| block(
        &mut sums[row * width..],
        width,
        &x[row * stride..],
        stride,
        panel,
        Ahead::new(panel, row, count)
    ));
}

/// Weights that are needed next: those of the panel that follows. They are fetched bit by bit while rows are multiplied
/// by this one, so that they are there when their turn comes.
#[derive(Clone, Copy)]
struct Ahead {
    at: *const i8,
    step: usize,
}

impl Ahead {
    /// For rows from `row` on, of which there are `count`.
    #[inline(always)]
    fn new<T>(panel: &[T], row: usize, count: usize) -> Self {
        let share = size_of_val(panel) * row / count;
        let step = (PANEL * 4 * 8 / count).min(PANEL * 4);
        Self { at: panel.as_ptr_range().end.cast::<i8>().wrapping_add(share), step }
    }

    #[inline(always)]
    fn fetch(&mut self) {
        // SAFETY: a hint, which reads nothing and cannot fail wherever it points to.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(self.at) };
        self.at = self.at.wrapping_add(self.step);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn block<const ROWS: usize>(
    sums: &mut [f32],
    width: usize,
    x: &[f32],
    stride: usize,
    panel: &[f32],
    mut ahead: Ahead,
) {
    let depth = panel.len() / PANEL;
    assert!(x.len() >= (ROWS - 1) * stride + depth && sums.len() >= (ROWS - 1) * width + PANEL);
    let mut lanes = [[_mm512_setzero_ps(); 2]; ROWS];
    let (x, mut weights) = (x.as_ptr(), panel.as_ptr());
    // SAFETY: there are `depth` numbers in each of the rows, and 32 weights for each of those, by the assertion above.
    unsafe {
        for at in 0..depth {
            ahead.fetch();
            let pair = [_mm512_loadu_ps(weights), _mm512_loadu_ps(weights.add(16))];
            for (row, lanes) in lanes.iter_mut().enumerate() {
                let x = _mm512_set1_ps(*x.add(row * stride + at));
                lanes[0] = _mm512_fmadd_ps(x, pair[0], lanes[0]);
                lanes[1] = _mm512_fmadd_ps(x, pair[1], lanes[1]);
            }
            weights = weights.add(PANEL);
        }
    }
    for (row, lanes) in lanes.into_iter().enumerate() {
        let sums = &mut sums[row * width..][..PANEL];
        // SAFETY: the slice has 32 numbers.
        unsafe {
            _mm512_storeu_ps(sums.as_mut_ptr(), lanes[0]);
            _mm512_storeu_ps(sums.as_mut_ptr().add(16), lanes[1]);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn multiply_int8(sums: &mut [i32], tiles: &[u8], count: usize, panel: &[i8], start: &[i32; PANEL]) {
    let depth = panel.len() / PANEL;
    by_rows!(count, [8, 4, 2, 1], |row| block_int8(
        &mut sums[row * PANEL..],
        &tiles[row / TILE_ROWS * TILE_ROWS * depth + row % TILE_ROWS * TILE_BYTES..],
        panel,
        start,
        Ahead::new(panel, row, count)
    ));
}

/// Rows of one tile after the other; all are of the same tiles.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn block_int8<const ROWS: usize>(
    sums: &mut [i32],
    tiles: &[u8],
    panel: &[i8],
    start: &[i32; PANEL],
    mut ahead: Ahead,
) {
    const TILE: usize = TILE_ROWS * TILE_BYTES;
    let blocks = panel.len() / (PANEL * TILE_BYTES);
    assert!(sums.len() >= ROWS * PANEL && tiles.len() + TILE >= blocks * TILE + ROWS * TILE_BYTES);
    // SAFETY: `start` has 32 numbers.
    let start = unsafe {
        [_mm512_loadu_si512(start.as_ptr().cast()), _mm512_loadu_si512(start.as_ptr().add(16).cast())]
    };
    let mut lanes = [start; ROWS];
    let (mut x, mut weights) = (tiles.as_ptr(), panel.as_ptr());
    // SAFETY: each of `blocks` tiles has the rows' bytes, and each four of those have two vectors of weights, by the
    // assertion above. The last step makes a pointer that is not read from.
    unsafe {
        for _ in 0..blocks {
            for group in 0..TILE_BYTES / GROUP {
                ahead.fetch();
                let pair = [_mm512_loadu_si512(weights.cast()), _mm512_loadu_si512(weights.add(64).cast())];
                for (row, lanes) in lanes.iter_mut().enumerate() {
                    let four = x.add(row * TILE_BYTES + group * GROUP).cast::<i32>().read_unaligned();
                    let four = _mm512_set1_epi32(four);
                    lanes[0] = _mm512_dpbusd_epi32(lanes[0], four, pair[0]);
                    lanes[1] = _mm512_dpbusd_epi32(lanes[1], four, pair[1]);
                }
                weights = weights.add(GROUP * PANEL);
            }
            x = x.wrapping_add(TILE);
        }
    }
    for (sums, lanes) in sums.chunks_exact_mut(PANEL).zip(lanes) {
        // SAFETY: the slice has 32 numbers.
        unsafe {
            _mm512_storeu_si512(sums.as_mut_ptr().cast(), lanes[0]);
            _mm512_storeu_si512(sums.as_mut_ptr().add(16).cast(), lanes[1]);
        }
    }
}

#[target_feature(enable = "avx512f")]
fn multiply_bf16(sums: &mut [f32], tiles: &[u16], count: usize, panel: &[u16]) {
    let depth = panel.len() / PANEL;
    by_rows!(count, [8, 4, 2, 1], |row| block_bf16(
        &mut sums[row * PANEL..],
        &tiles[row / TILE_ROWS * TILE_ROWS * depth + row % TILE_ROWS * TILE_BYTES / 2..],
        panel,
        Ahead::new(panel, row, count)
    ));
}

/// Two numbers of 16 bits stand in the halves of one of 32, whose upper half alone is such a number again.
#[inline]
#[target_feature(enable = "avx512f")]
fn block_bf16<const ROWS: usize>(sums: &mut [f32], tiles: &[u16], panel: &[u16], mut ahead: Ahead) {
    const COLUMNS: usize = TILE_BYTES / 2;
    const TILE: usize = TILE_ROWS * COLUMNS;
    let blocks = panel.len() / (PANEL * COLUMNS);
    assert!(sums.len() >= ROWS * PANEL && tiles.len() + TILE >= blocks * TILE + ROWS * COLUMNS);
    let mut lanes = [[_mm512_setzero_ps(); 2]; ROWS];
    let upper = _mm512_set1_epi32(!0xffff);
    let (mut x, mut weights) = (tiles.as_ptr(), panel.as_ptr());
    // SAFETY: each of `blocks` tiles has the rows' numbers, and each two of those have two vectors of weights, by the
    // assertion above. The last step makes a pointer that is not read from.
    unsafe {
        for _ in 0..blocks {
            for pair in 0..COLUMNS / PAIR {
                ahead.fetch();
                let pairs = [0, 32].map(|at| _mm512_loadu_si512(weights.add(at).cast()));
                let even = pairs.map(|pairs| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs)));
                let odd = pairs.map(|pairs| _mm512_castsi512_ps(_mm512_and_si512(pairs, upper)));
                for (row, lanes) in lanes.iter_mut().enumerate() {
                    let two = x.add(row * COLUMNS + pair * PAIR).cast::<i32>().read_unaligned();
                    let two = _mm512_set1_epi32(two);
                    let first = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(two));
                    let second = _mm512_castsi512_ps(_mm512_and_si512(two, upper));
                    for half in 0..2 {
                        lanes[half] = _mm512_fmadd_ps(first, even[half], lanes[half]);
                        lanes[half] = _mm512_fmadd_ps(second, odd[half], lanes[half]);
                    }
                }
                weights = weights.add(PAIR * PANEL);
            }
            x = x.wrapping_add(TILE);
        }
    }
    for (sums, lanes) in sums.chunks_exact_mut(PANEL).zip(lanes) {
        // SAFETY: the slice has 32 numbers.
        unsafe {
            _mm512_storeu_ps(sums.as_mut_ptr(), lanes[0]);
            _mm512_storeu_ps(sums.as_mut_ptr().add(16), lanes[1]);
        }
    }
}

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

/// Rows that are whole vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
fn softmax(scores: &mut [f32], stride: usize, columns: usize, added: Option<&[f32]>, factors: &mut [f32]) {
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
        for scores in row {
            let power = exp(_mm512_sub_ps(load(scores), most));
            store(scores, power);
            sum = _mm512_add_ps(sum, power);
        }
        *factor = 1.0 / joined(sum);
    }
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

/// A vector to where it belongs.
#[inline]
#[target_feature(enable = "avx512f")]
fn put(out: &mut [f32; LANES], value: __m512, how: Store) {
    let value = match how {
        Store::Set => value,
        Store::Activate(activation) => bent(value, activation),
        Store::Add(factor) => _mm512_add_ps(load(out), _mm512_mul_ps(_mm512_set1_ps(factor), value)),
        Store::Times => _mm512_mul_ps(load(out), value),
    };
    store(out, value);
}

/// Whole panels; parts of one are left to plain Rust.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
fn finish(
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
    let bias = bias.as_chunks::<LANES>().0;
    for (row, sums) in sums.as_chunks::<PANEL>().0.iter().take(size.0).enumerate() {
        let out = out[row * stride..][..PANEL].as_chunks_mut::<LANES>().0;
        for ((out, sums), bias) in out.iter_mut().zip(sums.as_chunks().0).zip(bias) {
            put(out, _mm512_add_ps(load(sums), load(bias)), how);
        }
    }
}

/// The same for sums in whole numbers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
fn finish_int8(
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
    let (scales, bias) = (scales.as_chunks::<LANES>().0, bias.as_chunks::<LANES>().0);
    let rows = sums.as_chunks::<PANEL>().0.iter().zip(&row_scales[..size.0]);
    for (row, (sums, &row_scale)) in rows.enumerate() {
        let out = out[row * stride..][..PANEL].as_chunks_mut::<LANES>().0;
        let row_scale = _mm512_set1_ps(row_scale);
        for (half, out) in out.iter_mut().enumerate() {
            let sums = &sums.as_chunks::<LANES>().0[half];
            // SAFETY: there are 16 numbers.
            let sums = _mm512_cvtepi32_ps(unsafe { _mm512_loadu_si512(sums.as_ptr().cast()) });
            let scale = _mm512_mul_ps(row_scale, load(&scales[half]));
            put(out, _mm512_add_ps(_mm512_mul_ps(sums, scale), load(&bias[half])), how);
        }
    }
}

/// Rows that are whole tiles.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
fn quantise(tiles: &mut [u8], scales: &mut [f32], rows: &[f32], stride: usize, depth: usize) {
    if !depth.is_multiple_of(TILE_BYTES) {
        return compiled::quantise(tiles, scales, rows, stride, depth);
    }
    let zero = _mm512_set1_ps(ROUND + 128.0);
    for (index, scale) in scales.iter_mut().enumerate() {
        let row = rows[index * stride..][..depth].as_chunks::<LANES>().0;
        let mut most = [_mm512_setzero_ps(); 2];
        for [left, right] in row.as_chunks().0 {
            most[0] = _mm512_max_ps(_mm512_abs_ps(load(left)), most[0]);
            most[1] = _mm512_max_ps(_mm512_abs_ps(load(right)), most[1]);
        }
        let most = _mm512_reduce_max_ps(_mm512_max_ps(most[0], most[1]));
        *scale = most / 127.0;
        let factor = _mm512_set1_ps(if most > 0.0 { 127.0 / most } else { 0.0 });
        let first = index / TILE_ROWS * TILE_ROWS * depth + index % TILE_ROWS * TILE_BYTES;
        let tiles = tiles[first..].as_chunks_mut::<LANES>().0;
        for (block, row) in row.as_chunks::<{ TILE_BYTES / LANES }>().0.iter().enumerate() {
            let tile = &mut tiles[block * TILE_ROWS * TILE_BYTES / LANES..][..TILE_BYTES / LANES];
            for (tile, row) in tile.iter_mut().zip(row) {
                let rounded = _mm512_add_ps(_mm512_mul_ps(load(row), factor), zero);
                let bytes = _mm512_cvtepi32_epi8(_mm512_castps_si512(rounded));
                // SAFETY: there is room for 16 bytes.
                unsafe { _mm_storeu_si128(tile.as_mut_ptr().cast(), bytes) };
            }
        }
    }
}

/// Sixteen rows at a time; the rest are left to plain Rust.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
fn turn(panels: &mut [f32], rows: &[f32], stride: usize, count: usize, depth: usize) {
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
