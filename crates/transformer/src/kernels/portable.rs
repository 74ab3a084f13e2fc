//! Matrix products in plain Rust: the fallback on every CPU, and the reference that the other kernels are
//! tested against.

use super::{GROUP, Isa, KernelTable, PAIR, PANEL, TILE_BYTES, TILE_ROWS, row_ops};
use crate::floats::from_bf16;

pub(super) const TABLE: KernelTable = KernelTable {
    isa: Isa::Portable,
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

fn multiply(sums: &mut [f32], width: usize, x: &[f32], stride: usize, count: usize, panel: &[f32]) {
    let (panel, _) = panel.as_chunks::<PANEL>();
    for row in 0..count {
        let mut lanes = [0.0; PANEL];
        for (&x, weights) in x[row * stride..].iter().zip(panel) {
            for (lane, &weight) in lanes.iter_mut().zip(weights) {
                *lane += x * weight;
            }
        }
        sums[row * width..][..PANEL].copy_from_slice(&lanes);
    }
}

/// The segments of a row, one in each tile.
fn parts<T, const COLUMNS: usize>(
    tiles: &[T],
    row: usize,
    blocks: usize,
) -> impl Iterator<Item = &[T; COLUMNS]> {
    let tiles = &tiles.as_chunks::<COLUMNS>().0[row / TILE_ROWS * blocks * TILE_ROWS..];
    tiles[row % TILE_ROWS..].iter().step_by(TILE_ROWS).take(blocks)
}

fn multiply_int8(sums: &mut [i32], tiles: &[u8], count: usize, panel: &[i8], start: &[i32; PANEL]) {
    let groups = panel.as_chunks::<GROUP>().0.as_chunks::<PANEL>().0;
    let blocks = groups.len() * GROUP / TILE_BYTES;
    for (row, sums) in sums.as_chunks_mut::<PANEL>().0.iter_mut().take(count).enumerate() {
        let x = parts::<u8, TILE_BYTES>(tiles, row, blocks).flat_map(|part| part.as_chunks::<GROUP>().0);
        *sums = *start;
        for (x, weights) in x.zip(groups) {
            let x = x.map(i32::from);
            for (sum, weights) in sums.iter_mut().zip(weights) {
                let [a, b, c, d] = weights.map(i32::from);
                *sum += x[0] * a + x[1] * b + x[2] * c + x[3] * d;
            }
        }
    }
}

fn multiply_bf16(sums: &mut [f32], tiles: &[u16], count: usize, panel: &[u16]) {
    const COLUMNS: usize = TILE_BYTES / 2;
    let pairs = panel.as_chunks::<PAIR>().0.as_chunks::<PANEL>().0;
    let blocks = pairs.len() * PAIR / COLUMNS;
    for (row, sums) in sums.as_chunks_mut::<PANEL>().0.iter_mut().take(count).enumerate() {
        let x = parts::<u16, COLUMNS>(tiles, row, blocks).flat_map(|part| part.as_chunks::<PAIR>().0);
        *sums = [0.0; PANEL];
        for (x, weights) in x.zip(pairs) {
            let x = x.map(from_bf16);
            for (sum, weights) in sums.iter_mut().zip(weights) {
                let [a, b] = weights.map(from_bf16);
                *sum = *sum + x[0] * a + x[1] * b;
            }
        }
    }
}
