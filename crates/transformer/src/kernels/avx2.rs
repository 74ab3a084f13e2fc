//! Matrix products with AVX2 and FMA, on vectors of 256 bits.

use super::prefetch::Prefetch;
use super::row_ops::compiled_for;
use super::{GROUP, Isa, KernelTable, PAIR, PANEL, TILE_BYTES, TILE_ROWS, for_row_blocks};
use std::arch::x86_64::*;

compiled_for!("avx2,fma");

pub(super) const TABLE: KernelTable = KernelTable {
    isa: Isa::Avx2,
    multiply,
    multiply_int8,
    multiply_bf16,
    softmax: compiled::softmax,
    norm: compiled::norm,
    finish: compiled::finish,
    finish_int8: compiled::finish_int8,
    quantise: compiled::quantise,
    convert_bf16: compiled::convert_bf16,
    transpose: compiled::transpose,
};

/// Columns of a panel that are computed at a time: the sums of four rows fill half of the registers.
const HALF: usize = PANEL / 2;

#[target_feature(enable = "avx2,fma")]
fn multiply(sums: &mut [f32], width: usize, x: &[f32], stride: usize, count: usize, panel: &[f32]) {
    for_row_blocks!(count, [4, 2, 1], |row| block(
        &mut sums[row * width..],
        width,
        &x[row * stride..],
        stride,
        panel,
        Prefetch::new(panel, row, count)
    ));
}

#[inline]
#[target_feature(enable = "avx2,fma")]
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
    for first in [0, HALF] {
        let mut lanes = [[_mm256_setzero_ps(); 2]; ROWS];
        // SAFETY: there are `depth` values in each of the rows, and 32 weights for each of those, by the assertion
        // above.
        unsafe {
            for at in 0..depth {
                prefetch.fetch();
                let weights = panel.as_ptr().add(at * PANEL + first);
                let pair = [_mm256_loadu_ps(weights), _mm256_loadu_ps(weights.add(8))];
                for (row, lanes) in lanes.iter_mut().enumerate() {
                    let x = _mm256_set1_ps(*x.as_ptr().add(row * stride + at));
                    lanes[0] = _mm256_fmadd_ps(x, pair[0], lanes[0]);
                    lanes[1] = _mm256_fmadd_ps(x, pair[1], lanes[1]);
                }
            }
        }
        for (row, lanes) in lanes.into_iter().enumerate() {
            store(&mut sums[row * width + first..][..HALF], lanes);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn store(sums: &mut [f32], lanes: [__m256; 2]) {
    assert!(sums.len() >= HALF);
    // SAFETY: there is space for 16 values.
    unsafe {
        _mm256_storeu_ps(sums.as_mut_ptr(), lanes[0]);
        _mm256_storeu_ps(sums.as_mut_ptr().add(8), lanes[1]);
    }
}

/// Converts the input to signed bytes, so that `start` is not needed.
#[target_feature(enable = "avx2,fma")]
fn multiply_int8(sums: &mut [i32], tiles: &[u8], count: usize, panel: &[i8], _start: &[i32; PANEL]) {
    let depth = panel.len() / PANEL;
    for_row_blocks!(count, [4, 2, 1], |row| block_int8(
        &mut sums[row * PANEL..],
        &tiles[row / TILE_ROWS * TILE_ROWS * depth + row % TILE_ROWS * TILE_BYTES..],
        panel,
        Prefetch::new(panel, row, count)
    ));
}

/// The byte product takes unsigned left factors, so their signs are moved to the right factors. Two products
/// fit into 16 bits, because neither factor is -128: 2 · 127² < 2^15.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn block_int8<const ROWS: usize>(sums: &mut [i32], tiles: &[u8], panel: &[i8], mut prefetch: Prefetch) {
    const TILE: usize = TILE_ROWS * TILE_BYTES;
    let blocks = panel.len() / (PANEL * TILE_BYTES);
    assert!(sums.len() >= ROWS * PANEL && tiles.len() + TILE >= blocks * TILE + ROWS * TILE_BYTES);
    let (ones, zero_byte) = (_mm256_set1_epi16(1), _mm256_set1_epi8(-128));
    for first in [0, HALF] {
        let mut lanes = [[_mm256_setzero_si256(); 2]; ROWS];
        for group in 0..blocks * TILE_BYTES / GROUP {
            prefetch.fetch();
            // SAFETY: each of `blocks` tiles has the rows' bytes, and each four of those have four vectors of weights,
            // by the assertion above.
            unsafe {
                let weights = panel.as_ptr().add((group * PANEL + first) * GROUP);
                let pair = [0, 32].map(|at| _mm256_loadu_si256(weights.add(at).cast()));
                let at = group * GROUP / TILE_BYTES * TILE + group * GROUP % TILE_BYTES;
                for (row, lanes) in lanes.iter_mut().enumerate() {
                    let four = tiles.as_ptr().add(at + row * TILE_BYTES).cast::<i32>().read_unaligned();
                    let four = _mm256_xor_si256(_mm256_set1_epi32(four), zero_byte);
                    let size = _mm256_abs_epi8(four);
                    for (lane, weights) in lanes.iter_mut().zip(pair) {
                        let products = _mm256_maddubs_epi16(size, _mm256_sign_epi8(weights, four));
                        *lane = _mm256_add_epi32(*lane, _mm256_madd_epi16(products, ones));
                    }
                }
            }
        }
        for (sums, lanes) in sums.chunks_exact_mut(PANEL).zip(lanes) {
            let sums = &mut sums[first..][..HALF];
            // SAFETY: the slice has 16 values.
            unsafe {
                _mm256_storeu_si256(sums.as_mut_ptr().cast(), lanes[0]);
                _mm256_storeu_si256(sums.as_mut_ptr().add(8).cast(), lanes[1]);
            }
        }
    }
}

#[target_feature(enable = "avx2,fma")]
fn multiply_bf16(sums: &mut [f32], tiles: &[u16], count: usize, panel: &[u16]) {
    let depth = panel.len() / PANEL;
    for_row_blocks!(count, [4, 2, 1], |row| block_bf16(
        &mut sums[row * PANEL..],
        &tiles[row / TILE_ROWS * TILE_ROWS * depth + row % TILE_ROWS * TILE_BYTES / 2..],
        panel,
        Prefetch::new(panel, row, count)
    ));
}

/// Two bfloat16 values are the halves of a 32-bit word; masked or shifted to the upper half, each is a valid
/// f32.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn block_bf16<const ROWS: usize>(sums: &mut [f32], tiles: &[u16], panel: &[u16], mut prefetch: Prefetch) {
    const COLUMNS: usize = TILE_BYTES / 2;
    const TILE: usize = TILE_ROWS * COLUMNS;
    let blocks = panel.len() / (PANEL * COLUMNS);
    assert!(sums.len() >= ROWS * PANEL && tiles.len() + TILE >= blocks * TILE + ROWS * COLUMNS);
    let upper = _mm256_set1_epi32(!0xffff);
    for first in [0, HALF] {
        let mut lanes = [[_mm256_setzero_ps(); 2]; ROWS];
        for pair in 0..blocks * COLUMNS / PAIR {
            prefetch.fetch();
            // SAFETY: each of `blocks` tiles has the rows' values, and each two of those have four vectors of
            // weights, by the assertion above.
            unsafe {
                let weights = panel.as_ptr().add((pair * PANEL + first) * PAIR);
                let pairs = [0, 16].map(|at| _mm256_loadu_si256(weights.add(at).cast()));
                let even = pairs.map(|pairs| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(pairs)));
                let odd = pairs.map(|pairs| _mm256_castsi256_ps(_mm256_and_si256(pairs, upper)));
                let at = pair * PAIR / COLUMNS * TILE + pair * PAIR % COLUMNS;
                for (row, lanes) in lanes.iter_mut().enumerate() {
                    let two = tiles.as_ptr().add(at + row * COLUMNS).cast::<i32>().read_unaligned();
                    let two = _mm256_set1_epi32(two);
                    let left = _mm256_castsi256_ps(_mm256_slli_epi32::<16>(two));
                    let right = _mm256_castsi256_ps(_mm256_and_si256(two, upper));
                    for half in 0..2 {
                        lanes[half] = _mm256_fmadd_ps(left, even[half], lanes[half]);
                        lanes[half] = _mm256_fmadd_ps(right, odd[half], lanes[half]);
                    }
                }
            }
        }
        for (sums, lanes) in sums.chunks_exact_mut(PANEL).zip(lanes) {
            store(&mut sums[first..], lanes);
        }
    }
}
