//! Kernels for the vector instructions of x86-64.

use super::{Activation, Isa, Kernels, Rows, portable};
use std::arch::x86_64::*;

/// The portable kernels once more, compiled for an instruction set, and the table that names them.
macro_rules! kernels {
    ($table:ident, $isa:expr, $features:literal, $module:ident, $affine:path) => {
        pub(super) const $table: Kernels = Kernels {
            isa: $isa,
            update: $module::update,
            clip: $module::clip,
            pairwise: $module::pairwise,
            affine: $affine,
            dot: $module::dot,
        };

        mod $module {
            use super::*;

            #[target_feature(enable = $features)]
            pub(super) fn update(out: &mut [i16], from: &[i16], rows: Rows<'_>, adds: &[u32], subs: &[u32]) {
                portable::update(out, from, rows, adds, subs);
            }

            #[target_feature(enable = $features)]
            pub(super) fn clip(out: &mut [u8], values: &[i16]) {
                portable::clip(out, values);
            }

            #[target_feature(enable = $features)]
            pub(super) fn pairwise(out: &mut [u8], left: &[i16], right: &[i16], max: i16, shift: u32) {
                portable::pairwise(out, left, right, max, shift);
            }

            #[target_feature(enable = $features)]
            pub(super) fn dot(activation: Activation, values: &[i16], weights: &[i16], one: i16) -> i32 {
                portable::dot(activation, values, weights, one)
            }
        }
    };
}

kernels!(SSE41, Isa::Sse41, "sse4.1", sse41, affine_sse41);
kernels!(AVX2, Isa::Avx2, "avx2", avx2, affine_avx2);
kernels!(AVX512, Isa::Avx512, "avx512f,avx512bw,avx512vl,avx512vnni", avx512, affine_avx512);

/// The positions of words that are not zero, from a mask of those that are not.
struct Bits(u32);

impl Iterator for Bits {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        (self.0 != 0).then(|| {
            let index = self.0.trailing_zeros() as usize;
            self.0 &= self.0 - 1;
            index
        })
    }
}

/// Four inputs as one word, to be spread over a vector.
#[inline(always)]
fn word(input: &[u8], index: usize) -> i32 {
    let [a, b, c, d] = input[4 * index..][..4] else { return 0 };
    i32::from_le_bytes([a, b, c, d])
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn affine_avx512(out: &mut [i32], input: &[u8], weights: &[i8]) {
    match out.len() {
        16 => affine_avx512_by::<1>(out, input, weights),
        32 => affine_avx512_by::<2>(out, input, weights),
        _ => portable::affine(out, input, weights),
    }
}

/// Words of input at a time, so that the list of those that count has a place on the stack.
const WORDS: usize = 1024;

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn affine_avx512_by<const N: usize>(out: &mut [i32], input: &[u8], weights: &[i8]) {
    assert!(out.len() == 16 * N && weights.len() == input.len() * 16 * N);
    // Four sums for each vector of outputs: an instruction need not wait for the one before it.
    let mut sums = [[_mm512_setzero_si512(); N]; 4];
    for (input, weights) in input.chunks(4 * WORDS).zip(weights.chunks(4 * WORDS * 16 * N)) {
        let mut list = [0u16; WORDS + 16];
        let count = list_avx512(input, &mut list);
        let mut add = |turn: usize, index: u16| {
            let index = usize::from(index);
            let spread = _mm512_set1_epi32(word(input, index));
            for (block, sum) in sums[turn].iter_mut().enumerate() {
                let group = &weights[(index * N + block) * 64..][..64];
                // SAFETY: the slice has 64 bytes.
                let group = unsafe { _mm512_loadu_si512(group.as_ptr().cast()) };
                *sum = _mm512_dpbusd_epi32(*sum, spread, group);
            }
        };
        let (fours, rest) = list[..count].as_chunks::<4>();
        for &[a, b, c, d] in fours {
            add(0, a);
            add(1, b);
            add(2, c);
            add(3, d);
        }
        for &index in rest {
            add(0, index);
        }
    }
    let [a, b, c, d] = sums;
    for (block, out) in out.chunks_exact_mut(16).enumerate() {
        let left = _mm512_add_epi32(a[block], b[block]);
        let right = _mm512_add_epi32(c[block], d[block]);
        // SAFETY: the chunk has 16 numbers of 32 bits.
        unsafe {
            let bias = _mm512_loadu_si512(out.as_ptr().cast());
            let sum = _mm512_add_epi32(_mm512_add_epi32(left, right), bias);
            _mm512_storeu_si512(out.as_mut_ptr().cast(), sum);
        }
    }
}

/// Lists the words that are not zero, and returns how many there are.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn list_avx512(input: &[u8], list: &mut [u16; WORDS + 16]) -> usize {
    let step = _mm512_set1_epi32(16);
    let mut numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let mut count = 0;
    for part in input.chunks(64) {
        let mask = if part.len() == 64 {
            // SAFETY: the slice has 64 bytes.
            let part = unsafe { _mm512_loadu_si512(part.as_ptr().cast()) };
            _mm512_test_epi32_mask(part, part)
        } else {
            (1 << (part.len() / 4)) - 1
        };
        let kept = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(mask, numbers));
        let place = &mut list[count..count + 16];
        // SAFETY: the slice has 16 numbers of 16 bits.
        unsafe { _mm256_storeu_si256(place.as_mut_ptr().cast(), kept) };
        count += mask.count_ones() as usize;
        numbers = _mm512_add_epi32(numbers, step);
    }
    count
}

#[target_feature(enable = "avx2")]
fn affine_avx2(out: &mut [i32], input: &[u8], weights: &[i8]) {
    match out.len() {
        16 => affine_avx2_by::<2>(out, input, weights),
        32 => affine_avx2_by::<4>(out, input, weights),
        _ => portable::affine(out, input, weights),
    }
}

#[target_feature(enable = "avx2")]
fn affine_avx2_by<const N: usize>(out: &mut [i32], input: &[u8], weights: &[i8]) {
    assert!(out.len() == 8 * N && weights.len() == input.len() * 8 * N);
    let ones = _mm256_set1_epi16(1);
    let mut sums = [_mm256_setzero_si256(); N];
    let words = input.len() / 4;
    for start in (0..words).step_by(8) {
        let mask = if words - start >= 8 {
            let part = &input[4 * start..][..32];
            // SAFETY: the slice has 32 bytes.
            let part = unsafe { _mm256_loadu_si256(part.as_ptr().cast()) };
            let zero = _mm256_cmpeq_epi32(part, _mm256_setzero_si256());
            !_mm256_movemask_ps(_mm256_castsi256_ps(zero)) as u32 & 0xFF
        } else {
            (1 << (words - start)) - 1
        };
        for index in Bits(mask) {
            let index = start + index;
            let spread = _mm256_set1_epi32(word(input, index));
            for (block, sum) in sums.iter_mut().enumerate() {
                let group = &weights[(index * N + block) * 32..][..32];
                // SAFETY: the slice has 32 bytes.
                let group = unsafe { _mm256_loadu_si256(group.as_ptr().cast()) };
                // Inputs are at most 127, so two products fit into 16 bits: 2 · 127 · 128 < 2^15.
                let pairs = _mm256_maddubs_epi16(spread, group);
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
            }
        }
    }
    for (out, sum) in out.chunks_exact_mut(8).zip(sums) {
        // SAFETY: the chunk has 8 numbers of 32 bits.
        unsafe {
            let bias = _mm256_loadu_si256(out.as_ptr().cast());
            _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_add_epi32(sum, bias));
        }
    }
}

#[target_feature(enable = "sse4.1")]
fn affine_sse41(out: &mut [i32], input: &[u8], weights: &[i8]) {
    match out.len() {
        16 => affine_sse41_by::<4>(out, input, weights),
        32 => affine_sse41_by::<8>(out, input, weights),
        _ => portable::affine(out, input, weights),
    }
}

#[target_feature(enable = "sse4.1")]
fn affine_sse41_by<const N: usize>(out: &mut [i32], input: &[u8], weights: &[i8]) {
    assert!(out.len() == 4 * N && weights.len() == input.len() * 4 * N);
    let ones = _mm_set1_epi16(1);
    let mut sums = [_mm_setzero_si128(); N];
    let words = input.len() / 4;
    for start in (0..words).step_by(4) {
        let mask = if words - start >= 4 {
            let part = &input[4 * start..][..16];
            // SAFETY: the slice has 16 bytes.
            let part = unsafe { _mm_loadu_si128(part.as_ptr().cast()) };
            let zero = _mm_cmpeq_epi32(part, _mm_setzero_si128());
            !_mm_movemask_ps(_mm_castsi128_ps(zero)) as u32 & 0xF
        } else {
            (1 << (words - start)) - 1
        };
        for index in Bits(mask) {
            let index = start + index;
            let spread = _mm_set1_epi32(word(input, index));
            for (block, sum) in sums.iter_mut().enumerate() {
                let group = &weights[(index * N + block) * 16..][..16];
                // SAFETY: the slice has 16 bytes.
                let group = unsafe { _mm_loadu_si128(group.as_ptr().cast()) };
                // As above: two products fit into 16 bits.
                let pairs = _mm_maddubs_epi16(spread, group);
                *sum = _mm_add_epi32(*sum, _mm_madd_epi16(pairs, ones));
            }
        }
    }
    for (out, sum) in out.chunks_exact_mut(4).zip(sums) {
        // SAFETY: the chunk has 4 numbers of 32 bits.
        unsafe {
            let bias = _mm_loadu_si128(out.as_ptr().cast());
            _mm_storeu_si128(out.as_mut_ptr().cast(), _mm_add_epi32(sum, bias));
        }
    }
}
