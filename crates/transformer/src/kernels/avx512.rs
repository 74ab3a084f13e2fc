//! Matrix products with AVX-512 and VNNI, on vectors of 512 bits.

mod f32x16;
mod row_ops;

use super::prefetch::Prefetch;
use super::{GROUP, Isa, KernelTable, PAIR, PANEL, TILE_BYTES, TILE_ROWS, for_row_blocks};
use std::arch::x86_64::*;

pub(super) const TABLE: KernelTable = KernelTable {
    isa: Isa::Avx512,
    multiply,
    multiply_int8,
    multiply_bf16,
    softmax: row_ops::softmax,
    norm: row_ops::norm,
    finish: row_ops::finish,
    finish_int8: row_ops::finish_int8,
    quantise: row_ops::quantise,
    convert_bf16: row_ops::convert_bf16,
    transpose: row_ops::transpose,
};

#[target_feature(enable = "avx512f")]
fn multiply(sums: &mut [f32], width: usize, x: &[f32], stride: usize, count: usize, panel: &[f32]) {
    for_row_blocks!(count, [8, 4, 2, 1], |row| block(
        &mut sums[row * width..],
        width,
        &x[row * stride..],
        stride,
        panel,
        Prefetch::new(panel, row, count)
    ));
}

#[inline]
#[target_feature(enable = "avx512f")]
fn block<const ROWS: usize>(
    sums: &mut [f32],
    width: usize,
    x: &[f32],
    stride: usize,
    panel: &[f32],
    mut prefetch: Prefetch,
) {
    let depth = panel.len() / PANEL;
    assert!(x.len() >= (ROWS - 1) * stride + depth && sums.len() >= (ROWS - 1) * width + PANEL);
    let mut lanes = [[_mm512_setzero_ps(); 2]; ROWS];
    let (x, mut weights) = (x.as_ptr(), panel.as_ptr());
    // SAFETY: there are `depth` values in each of the rows, and 32 weights for each of those, by the assertion above.
    unsafe {
        for at in 0..depth {
            prefetch.fetch();
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
        // SAFETY: the slice has 32 values.
        unsafe {
            _mm512_storeu_ps(sums.as_mut_ptr(), lanes[0]);
            _mm512_storeu_ps(sums.as_mut_ptr().add(16), lanes[1]);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn multiply_int8(sums: &mut [i32], tiles: &[u8], count: usize, panel: &[i8], start: &[i32; PANEL]) {
    let depth = panel.len() / PANEL;
    for_row_blocks!(count, [8, 4, 2, 1], |row| block_int8(
        &mut sums[row * PANEL..],
        &tiles[row / TILE_ROWS * TILE_ROWS * depth + row % TILE_ROWS * TILE_BYTES..],
        panel,
        start,
        Prefetch::new(panel, row, count)
    ));
}

/// Multiplies `ROWS` rows of the same tile by a panel, tile after tile.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn block_int8<const ROWS: usize>(
    sums: &mut [i32],
    tiles: &[u8],
    panel: &[i8],
    start: &[i32; PANEL],
    mut prefetch: Prefetch,
) {
    const TILE: usize = TILE_ROWS * TILE_BYTES;
    let blocks = panel.len() / (PANEL * TILE_BYTES);
    assert!(sums.len() >= ROWS * PANEL && tiles.len() + TILE >= blocks * TILE + ROWS * TILE_BYTES);
    // SAFETY: `start` has 32 values.
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
                prefetch.fetch();
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
        // SAFETY: the slice has 32 values.
        unsafe {
            _mm512_storeu_si512(sums.as_mut_ptr().cast(), lanes[0]);
            _mm512_storeu_si512(sums.as_mut_ptr().add(16).cast(), lanes[1]);
        }
    }
}

#[target_feature(enable = "avx512f")]
fn multiply_bf16(sums: &mut [f32], tiles: &[u16], count: usize, panel: &[u16]) {
    let depth = panel.len() / PANEL;
    for_row_blocks!(count, [8, 4, 2, 1], |row| block_bf16(
        &mut sums[row * PANEL..],
        &tiles[row / TILE_ROWS * TILE_ROWS * depth + row % TILE_ROWS * TILE_BYTES / 2..],
        panel,
        Prefetch::new(panel, row, count)
    ));
}

/// Two bfloat16 values are the halves of a 32-bit word; masked or shifted to the upper half, each is a valid
/// f32.
#[inline]
#[target_feature(enable = "avx512f")]
fn block_bf16<const ROWS: usize>(sums: &mut [f32], tiles: &[u16], panel: &[u16], mut prefetch: Prefetch) {
    const COLUMNS: usize = TILE_BYTES / 2;
    const TILE: usize = TILE_ROWS * COLUMNS;
    let blocks = panel.len() / (PANEL * COLUMNS);
    assert!(sums.len() >= ROWS * PANEL && tiles.len() + TILE >= blocks * TILE + ROWS * COLUMNS);
    let mut lanes = [[_mm512_setzero_ps(); 2]; ROWS];
    let upper = _mm512_set1_epi32(!0xffff);
    let (mut x, mut weights) = (tiles.as_ptr(), panel.as_ptr());
    // SAFETY: each of `blocks` tiles has the rows' values, and each two of those have two vectors of weights, by the
    // assertion above. The last step makes a pointer that is not read from.
    unsafe {
        for _ in 0..blocks {
            for pair in 0..COLUMNS / PAIR {
                prefetch.fetch();
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
        // SAFETY: the slice has 32 values.
        unsafe {
            _mm512_storeu_ps(sums.as_mut_ptr(), lanes[0]);
            _mm512_storeu_ps(sums.as_mut_ptr().add(16), lanes[1]);
        }
    }
}
