//! Kernels for x86-64 with SSE 4.1, AVX2 and AVX-512. Macros generate the three variants of `dot` and
//! `affine`.

use super::{Isa, Kernels, Products, WeightRows, portable};
use std::arch::x86_64::*;

/// Compiles the portable kernels again for an instruction set.
macro_rules! compiled_for {
    ($features:literal, $module:ident) => {
        #[allow(dead_code, reason = "some are written by hand for some instruction sets")]
        mod $module {
            use super::*;

            #[target_feature(enable = $features)]
            pub(super) fn update(
                out: &mut [i16],
                from: &[i16],
                rows: WeightRows<'_>,
                adds: &[u32],
                subs: &[u32],
            ) {
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
        }
    };
}

compiled_for!("sse4.1", sse41);
compiled_for!("avx2", avx2);
compiled_for!("avx512f,avx512bw,avx512vl,avx512vnni", avx512);

pub(super) const SSE41: Kernels = Kernels {
    isa: Isa::Sse41,
    update: sse41::update,
    clip: sse41::clip,
    pairwise: sse41::pairwise,
    affine: affine_sse41,
    dot: dot_sse41,
};

pub(super) const AVX2: Kernels = Kernels {
    isa: Isa::Avx2,
    update: avx2::update,
    clip: avx2::clip,
    pairwise: avx2::pairwise,
    affine: affine_avx2,
    dot: dot_avx2,
};

// The compiler prefers 256-bit vectors even where 512 bits are available, so the most important kernels are
// written by hand.
pub(super) const AVX512: Kernels = Kernels {
    isa: Isa::Avx512,
    update: update_avx512,
    clip: avx512::clip,
    pairwise: pairwise_avx512,
    affine: affine_avx512,
    dot: dot_avx512,
};

/// Values of 16 bits in a vector of 512 bits.
const LANES: usize = 32;

/// Splits a row into vectors. Its length is a multiple of [`LANES`].
#[inline(always)]
fn vectors(values: &[i16]) -> &[[i16; LANES]] {
    values.as_chunks().0
}

#[inline(always)]
fn vectors_mut(values: &mut [i16]) -> &mut [[i16; LANES]] {
    values.as_chunks_mut().0
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(values: &[i16; LANES]) -> __m512i {
    // SAFETY: the array has 64 bytes.
    unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(values: &mut [i16; LANES], vector: __m512i) {
    // SAFETY: the array has 64 bytes.
    unsafe { _mm512_storeu_si512(values.as_mut_ptr().cast(), vector) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn update_avx512(out: &mut [i16], from: &[i16], rows: WeightRows<'_>, adds: &[u32], subs: &[u32]) {
    match (adds, subs) {
        // A quiet move, a capture and castling, each in one pass.
        (&[a], &[s]) => fused_avx512(out, from, rows, [a], [s]),
        (&[a], &[s, t]) => fused_avx512(out, from, rows, [a], [s, t]),
        (&[a, b], &[s, t]) => fused_avx512(out, from, rows, [a, b], [s, t]),
        _ if rows.width.is_multiple_of(8 * LANES) => tiled_avx512::<8>(out, from, rows, adds, subs),
        _ => portable::update(out, from, rows, adds, subs),
    }
}

/// Adds and subtracts a fixed number of rows in one pass over the values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn fused_avx512<const A: usize, const S: usize>(
    out: &mut [i16],
    from: &[i16],
    rows: WeightRows<'_>,
    adds: [u32; A],
    subs: [u32; S],
) {
    let out = vectors_mut(out);
    let count = out.len();
    let from = &vectors(from)[..count];
    let adds = adds.map(|row| &vectors(rows.row(row))[..count]);
    let subs = subs.map(|row| &vectors(rows.row(row))[..count]);
    for index in 0..count {
        let mut value = load(&from[index]);
        for row in adds {
            value = _mm512_add_epi16(value, load(&row[index]));
        }
        for row in subs {
            value = _mm512_sub_epi16(value, load(&row[index]));
        }
        store(&mut out[index], value);
    }
}

/// Adds and subtracts any number of rows, one tile of `N` vectors at a time that stays in registers.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn tiled_avx512<const N: usize>(
    out: &mut [i16],
    from: &[i16],
    rows: WeightRows<'_>,
    adds: &[u32],
    subs: &[u32],
) {
    let tiles = vectors_mut(out).as_chunks_mut::<N>().0.iter_mut().zip(vectors(from).as_chunks::<N>().0);
    for (at, (out, from)) in tiles.enumerate() {
        let tile = |row: u32| &vectors(rows.row(row)).as_chunks::<N>().0[at];
        let mut sums = [_mm512_setzero_si512(); N];
        for (sum, from) in sums.iter_mut().zip(from) {
            *sum = load(from);
        }
        for &row in adds {
            for (sum, row) in sums.iter_mut().zip(tile(row)) {
                *sum = _mm512_add_epi16(*sum, load(row));
            }
        }
        for &row in subs {
            for (sum, row) in sums.iter_mut().zip(tile(row)) {
                *sum = _mm512_sub_epi16(*sum, load(row));
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            store(out, sum);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn pairwise_avx512(out: &mut [u8], left: &[i16], right: &[i16], max: i16, shift: u32) {
    let (zero, one) = (_mm512_setzero_si512(), _mm512_set1_epi16(max));
    let down = _mm_cvtsi32_si128(shift as i32);
    // Packing interleaves the 128-bit lanes of both vectors; this permutation restores their order.
    let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    let product = |left: &[i16; LANES], right: &[i16; LANES]| {
        let clipped = |values| _mm512_min_epi16(_mm512_max_epi16(load(values), zero), one);
        _mm512_srl_epi16(_mm512_mullo_epi16(clipped(left), clipped(right)), down)
    };
    let (whole, rest) = out.as_chunks_mut::<64>();
    let (left_pairs, left_rest) = left.as_chunks::<64>();
    let (right_pairs, right_rest) = right.as_chunks::<64>();
    for ((out, left), right) in whole.iter_mut().zip(left_pairs).zip(right_pairs) {
        let ([a, b], [c, d]) = (vectors(left), vectors(right)) else { continue };
        let packed = _mm512_packus_epi16(product(a, c), product(b, d));
        // SAFETY: the chunk has 64 bytes.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), _mm512_permutexvar_epi64(order, packed)) };
    }
    portable::pairwise(rest, left_rest, right_rest, max, shift);
}

/// Generates a dot product of 16-bit values and weights, one vector at a time. A weight too large for a
/// 16-bit product is split into 128 times an upper part, plus a lower part.
macro_rules! dot {
    (
        $name:ident, $sums:ident, $features:literal, $lanes:literal, $vector:ty, $zero:ident, $set1:ident, $load:ident,
        $store:ident, $min:ident, $max:ident, $mullo:ident, $add:ident, $sub:ident, $shl:ident, $shr:ident, |$sum:ident, $left:ident, $right:ident| $product:expr
    ) => {
        #[target_feature(enable = $features)]
        fn $name(is_squared: bool, products: Products, values: &[i16], weights: &[i16], max: i16) -> i32 {
            match (is_squared, products) {
                (true, Products::Narrow) => $sums::<true, false>(values, weights, max),
                (true, Products::Split) => $sums::<true, true>(values, weights, max),
                (true, Products::Any) => portable::dot(is_squared, products, values, weights, max),
                (false, _) => $sums::<false, false>(values, weights, max),
            }
        }

        /// The sum for values clipped to `0..=max` and optionally squared.
        #[target_feature(enable = $features)]
        fn $sums<const SQUARED: bool, const SPLIT: bool>(values: &[i16], weights: &[i16], max: i16) -> i32 {
            let (limit, half) = ($set1(max), $set1(64));
            let (parts, rest) = values.as_chunks::<{ 2 * $lanes }>();
            let (weight_parts, weight_rest) = weights.as_chunks::<{ 2 * $lanes }>();
            // Two alternating sums, so that a product does not wait for the previous one.
            let mut sums = [$zero(); 2];
            let mut upper_sums = [$zero(); 2];
            for (part, weights) in parts.iter().zip(weight_parts) {
                for turn in 0..2 {
                    // SAFETY: the array is as long as two vectors.
                    let values: $vector = unsafe { $load(part.as_ptr().add(turn * $lanes).cast()) };
                    // SAFETY: so is this.
                    let weights: $vector = unsafe { $load(weights.as_ptr().add(turn * $lanes).cast()) };
                    let $left = $min($max(values, $zero()), limit);
                    let upper = $shr::<7>($add(weights, half));
                    let lower = if SPLIT { $sub(weights, $shl::<7>(upper)) } else { weights };
                    let $right = if SQUARED { $mullo($left, lower) } else { weights };
                    let $sum = sums[turn];
                    sums[turn] = $product;
                    if SPLIT {
                        let ($sum, $right) = (upper_sums[turn], $mullo($left, upper));
                        upper_sums[turn] = $product;
                    }
                }
            }
            let total = |vector: $vector| {
                let mut numbers = [0i32; $lanes / 2];
                // SAFETY: the array is as long as a vector.
                unsafe { $store(numbers.as_mut_ptr().cast(), vector) };
                numbers.iter().fold(0i32, |total, &number| total.wrapping_add(number))
            };
            let rest = rest.iter().zip(weight_rest).fold(0i32, |total, (&value, &weight)| {
                let value = i32::from(value.clamp(0, max));
                let power = if SQUARED { value * value } else { value };
                total.wrapping_add(power.wrapping_mul(i32::from(weight)))
            });
            let whole = rest.wrapping_add(total(sums[0])).wrapping_add(total(sums[1]));
            if !SPLIT {
                return whole;
            }
            let upper = total(upper_sums[0]).wrapping_add(total(upper_sums[1]));
            whole.wrapping_add(upper.wrapping_shl(7))
        }
    };
}

dot!(
    dot_avx512,
    sums_avx512,
    "avx512f,avx512bw,avx512vl,avx512vnni",
    32,
    __m512i,
    _mm512_setzero_si512,
    _mm512_set1_epi16,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    _mm512_min_epi16,
    _mm512_max_epi16,
    _mm512_mullo_epi16,
    _mm512_add_epi16,
    _mm512_sub_epi16,
    _mm512_slli_epi16,
    _mm512_srai_epi16,
    |sum, left, right| _mm512_dpwssd_epi32(sum, left, right)
);

dot!(
    dot_avx2,
    sums_avx2,
    "avx2",
    16,
    __m256i,
    _mm256_setzero_si256,
    _mm256_set1_epi16,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_min_epi16,
    _mm256_max_epi16,
    _mm256_mullo_epi16,
    _mm256_add_epi16,
    _mm256_sub_epi16,
    _mm256_slli_epi16,
    _mm256_srai_epi16,
    |sum, left, right| _mm256_add_epi32(sum, _mm256_madd_epi16(left, right))
);

dot!(
    dot_sse41,
    sums_sse41,
    "sse4.1",
    8,
    __m128i,
    _mm_setzero_si128,
    _mm_set1_epi16,
    _mm_loadu_si128,
    _mm_storeu_si128,
    _mm_min_epi16,
    _mm_max_epi16,
    _mm_mullo_epi16,
    _mm_add_epi16,
    _mm_sub_epi16,
    _mm_slli_epi16,
    _mm_srai_epi16,
    |sum, left, right| _mm_add_epi32(sum, _mm_madd_epi16(left, right))
);

/// Words of four inputs processed at a time, so that the list of non-zero words fits on the stack.
const WORDS_AT_A_TIME: usize = 256;

/// Indices of the non-zero words, with padding because a whole vector is written even if only part of it is
/// used.
type NonZeroList = [u16; WORDS_AT_A_TIME + 16];

/// Up to this number of inputs, building the list costs more than multiplying by zeros.
const DENSE_LIMIT: usize = 64;

/// Reads a word of four inputs.
///
/// # Safety
/// The input has more words than `index`.
#[inline(always)]
unsafe fn word(input: &[u8], index: usize) -> i32 {
    debug_assert!(4 * index + 4 <= input.len());
    // SAFETY: the caller's promise.
    unsafe { input.as_ptr().cast::<i32>().add(index).read_unaligned() }
}

/// Generates a matrix product of inputs and weights that skips zero inputs: it lists the non-zero words, then
/// adds `$product` for each of them.
macro_rules! affine {
    (
        $name:ident, $by:ident, $features:literal, $list:ident, $lanes:literal, $vector:ty, $zero:ident, $set1:ident,
        $load:ident, $store:ident, $add:ident, |$to:ident, $inputs:ident, $group:ident| $product:expr
    ) => {
        #[target_feature(enable = $features)]
        fn $name(out: &mut [i32], input: &[u8], weights: &[i8]) {
            match out.len() {
                16 => $by::<{ 16 / $lanes }>(out, input, weights),
                32 => $by::<{ 32 / $lanes }>(out, input, weights),
                _ => portable::affine(out, input, weights),
            }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn $by<const N: usize>(out: &mut [i32], input: &[u8], weights: &[i8]) {
            assert!(out.len() == N * $lanes && input.len().is_multiple_of(4));
            assert!(weights.len() == input.len() * N * $lanes);
            // Two sums per vector of outputs, so that an instruction does not wait for the previous one.
            let mut sums = [[$zero(); N]; 2];
            for (input, weights) in
                input.chunks(4 * WORDS_AT_A_TIME).zip(weights.chunks(4 * WORDS_AT_A_TIME * N * $lanes))
            {
                let mut add_word = |turn: usize, index: usize| {
                    // SAFETY: the list holds only indices of words within the input, and there are N vectors
                    // of weights for each of them, by the assertion above.
                    unsafe {
                        let $inputs = $set1(word(input, index));
                        let weights = weights.as_ptr().cast::<$vector>().add(index * N);
                        for (block, sum) in sums[turn].iter_mut().enumerate() {
                            let $group = $load(weights.add(block));
                            let $to = *sum;
                            *sum = $product;
                        }
                    }
                };
                if input.len() <= DENSE_LIMIT {
                    for index in 0..input.len() / 4 {
                        add_word(index % 2, index);
                    }
                    continue;
                }
                let mut list = [0; WORDS_AT_A_TIME + 16];
                let (pairs, last) = $list(input, &mut list).as_chunks::<2>();
                for &[a, b] in pairs {
                    add_word(0, a.into());
                    add_word(1, b.into());
                }
                for &index in last {
                    add_word(0, index.into());
                }
            }
            let [left, right] = sums;
            for ((out, left), right) in out.chunks_exact_mut($lanes).zip(left).zip(right) {
                // SAFETY: the chunk is as long as a vector.
                unsafe {
                    let bias = $load(out.as_ptr().cast());
                    $store(out.as_mut_ptr().cast(), $add($add(left, right), bias));
                }
            }
        }
    };
}

affine!(
    affine_avx512,
    affine_avx512_by,
    "avx512f,avx512bw,avx512vl,avx512vnni",
    list_avx512,
    16,
    __m512i,
    _mm512_setzero_si512,
    _mm512_set1_epi32,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    _mm512_add_epi32,
    |sum, inputs, weights| _mm512_dpbusd_epi32(sum, inputs, weights)
);

// Inputs are at most 127, so two products fit into 16 bits: 2 · 127 · 128 < 2^15.
affine!(
    affine_avx2,
    affine_avx2_by,
    "avx2",
    list_avx2,
    8,
    __m256i,
    _mm256_setzero_si256,
    _mm256_set1_epi32,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_add_epi32,
    |sum, inputs, weights| {
        let pairs = _mm256_maddubs_epi16(inputs, weights);
        _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
    }
);

affine!(
    affine_sse41,
    affine_sse41_by,
    "sse4.1",
    list_sse41,
    4,
    __m128i,
    _mm_setzero_si128,
    _mm_set1_epi32,
    _mm_loadu_si128,
    _mm_storeu_si128,
    _mm_add_epi32,
    |sum, inputs, weights| {
        let pairs = _mm_maddubs_epi16(inputs, weights);
        _mm_add_epi32(sum, _mm_madd_epi16(pairs, _mm_set1_epi16(1)))
    }
);

/// Lists the indices of the non-zero words, 16 at a time by compression.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn list_avx512<'a>(input: &[u8], list: &'a mut NonZeroList) -> &'a [u16] {
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
    &list[..count]
}

/// The positions of the one bits in each byte, lowest first.
const ONES: [[u16; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut count) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte][count] = bit;
                count += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// Lists the indices of the non-zero words in two steps: a byte marks which of eight words are non-zero, and
/// [`ONES`] turns it into indices.
#[inline(always)]
fn list_by_bytes<'a>(
    input: &[u8],
    list: &'a mut NonZeroList,
    not_zero: impl Fn(&[u8; 32]) -> u8,
) -> &'a [u16] {
    let mut count = 0;
    let (whole, rest) = input.as_chunks::<32>();
    let last = (!rest.is_empty()).then_some((1u16 << (rest.len() / 4)).wrapping_sub(1) as u8);
    for (number, byte) in whole.iter().map(not_zero).chain(last).enumerate() {
        let place = &mut list[count..count + 8];
        for (place, bit) in place.iter_mut().zip(ONES[usize::from(byte)]) {
            *place = 8 * number as u16 + bit;
        }
        count += byte.count_ones() as usize;
    }
    &list[..count]
}

#[inline]
#[target_feature(enable = "avx2")]
fn list_avx2<'a>(input: &[u8], list: &'a mut NonZeroList) -> &'a [u16] {
    list_by_bytes(input, list, |part| {
        // SAFETY: the array has 32 bytes.
        let part = unsafe { _mm256_loadu_si256(part.as_ptr().cast()) };
        let zero = _mm256_cmpeq_epi32(part, _mm256_setzero_si256());
        !_mm256_movemask_ps(_mm256_castsi256_ps(zero)) as u8
    })
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn list_sse41<'a>(input: &[u8], list: &'a mut NonZeroList) -> &'a [u16] {
    list_by_bytes(input, list, |part| {
        let zeros = |part: &[u8]| {
            // SAFETY: both halves have 16 bytes.
            let part = unsafe { _mm_loadu_si128(part.as_ptr().cast()) };
            _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(part, _mm_setzero_si128())))
        };
        let (low, high) = part.split_at(16);
        !(zeros(low) | zeros(high) << 4) as u8
    })
}
