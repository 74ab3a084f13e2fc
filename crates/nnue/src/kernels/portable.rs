//! Kernels in plain Rust, inlined into their callers so that each is compiled with the caller's instruction
//! set.

use super::{Isa, Kernels, Products, WeightRows};

pub(super) const KERNELS: Kernels = Kernels { isa: Isa::Portable, update, clip, pairwise, affine, dot };

#[inline(always)]
pub(super) fn update(out: &mut [i16], from: &[i16], rows: WeightRows<'_>, adds: &[u32], subs: &[u32]) {
    match (adds, subs) {
        // A quiet move, a capture and castling, each in one pass.
        (&[a], &[s]) => fused(out, from, [rows.row(a)], [rows.row(s)]),
        (&[a], &[s, t]) => fused(out, from, [rows.row(a)], [rows.row(s), rows.row(t)]),
        (&[a, b], &[s, t]) => fused(out, from, [rows.row(a), rows.row(b)], [rows.row(s), rows.row(t)]),
        _ if rows.width.is_multiple_of(128) => tiled::<128>(out, from, rows, adds, subs),
        _ => tiled::<32>(out, from, rows, adds, subs),
    }
}

/// Adds and subtracts a fixed number of rows in one pass over the values.
#[inline(always)]
fn fused<const A: usize, const S: usize>(
    out: &mut [i16],
    from: &[i16],
    adds: [&[i16]; A],
    subs: [&[i16]; S],
) {
    // Chunks of a constant length, which the compiler vectorises without a run-time check for overlapping
    // slices.
    const CHUNK: usize = 32;
    let out = out.as_chunks_mut::<CHUNK>().0;
    let count = out.len();
    let from = &from.as_chunks::<CHUNK>().0[..count];
    let adds = adds.map(|row| &row.as_chunks::<CHUNK>().0[..count]);
    let subs = subs.map(|row| &row.as_chunks::<CHUNK>().0[..count]);
    for part in 0..count {
        let mut values = from[part];
        for row in adds {
            for (value, &weight) in values.iter_mut().zip(&row[part]) {
                *value = value.wrapping_add(weight);
            }
        }
        for row in subs {
            for (value, &weight) in values.iter_mut().zip(&row[part]) {
                *value = value.wrapping_sub(weight);
            }
        }
        out[part] = values;
    }
}

/// Adds and subtracts any number of rows, one tile of `N` values at a time that stays in registers.
#[inline(always)]
fn tiled<const N: usize>(out: &mut [i16], from: &[i16], rows: WeightRows<'_>, adds: &[u32], subs: &[u32]) {
    for (at, (out, from)) in out.chunks_exact_mut(N).zip(from.chunks_exact(N)).enumerate() {
        let mut sums = [0i16; N];
        sums.copy_from_slice(from);
        for &row in adds {
            let row = &rows.row(row)[at * N..][..N];
            for index in 0..N {
                sums[index] = sums[index].wrapping_add(row[index]);
            }
        }
        for &row in subs {
            let row = &rows.row(row)[at * N..][..N];
            for index in 0..N {
                sums[index] = sums[index].wrapping_sub(row[index]);
            }
        }
        out.copy_from_slice(&sums);
    }
}

#[inline(always)]
pub(super) fn clip(out: &mut [u8], values: &[i16]) {
    for (out, &value) in out.iter_mut().zip(values) {
        *out = value.clamp(0, 127) as u8;
    }
}

#[inline(always)]
pub(super) fn pairwise(out: &mut [u8], left: &[i16], right: &[i16], max: i16, shift: u32) {
    for ((out, &left), &right) in out.iter_mut().zip(left).zip(right) {
        let product = left.clamp(0, max) as u16 * right.clamp(0, max) as u16;
        *out = (product >> shift) as u8;
    }
}

#[inline(always)]
pub(super) fn affine(out: &mut [i32], input: &[u8], weights: &[i8]) {
    let outputs = out.len();
    for (four, weights) in input.chunks_exact(4).zip(weights.chunks_exact(4 * outputs)) {
        if four != [0; 4] {
            for (sum, weights) in out.iter_mut().zip(weights.chunks_exact(4)) {
                for index in 0..4 {
                    *sum += i32::from(four[index]) * i32::from(weights[index]);
                }
            }
        }
    }
}

#[inline(always)]
pub(super) fn dot(is_squared: bool, products: Products, values: &[i16], weights: &[i16], max: i16) -> i32 {
    let clipped = |value: i16| value.clamp(0, max);
    // Products of two 16-bit integers summed in 32 bits, for which there are instructions (`pmaddwd`).
    match (is_squared, products) {
        (false, _) => sum(values, weights, |value, weight| (clipped(value), weight)),
        (true, Products::Narrow) => {
            sum(values, weights, |value, weight| (clipped(value), clipped(value).wrapping_mul(weight)))
        }
        (true, _) => values.iter().zip(weights).fold(0i32, |sum, (&value, &weight)| {
            let value = i32::from(clipped(value));
            sum.wrapping_add(value * value * i32::from(weight))
        }),
    }
}

#[inline(always)]
fn sum(values: &[i16], weights: &[i16], factors: impl Fn(i16, i16) -> (i16, i16)) -> i32 {
    values.iter().zip(weights).fold(0i32, |sum, (&value, &weight)| {
        let (left, right) = factors(value, weight);
        sum.wrapping_add(i32::from(left) * i32::from(right))
    })
}
