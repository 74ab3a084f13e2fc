//! Products in plain Rust.

use super::{GROUP, Isa, PAIR, PANEL, TILE_BYTES, TILE_ROWS, Table, rows};

pub(super) const TABLE: Table = Table {
    isa: Isa::Portable,
    multiply,
    multiply_int8,
    multiply_bf16,
    softmax: rows::softmax,
    norm: rows::norm,
    finish: rows::finish,
    finish_int8: rows::finish_int8,
    quantise: rows::quantise,
    halve: rows::halve,
    turn: rows::turn,
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

fn multiply_int8(sums: &mut [i32], tiles: &[u8], count: usize, panel: &[i8], start: &[i32; PANEL]) {
    let (groups, _) = panel.as_chunks::<{ GROUP * PANEL }>();
    let blocks = groups.len() * GROUP / TILE_BYTES;
    for (row, sums) in sums.chunks_exact_mut(PANEL).take(count).enumerate() {
        let first = (row / TILE_ROWS * blocks * TILE_ROWS + row % TILE_ROWS) * TILE_BYTES;
        let x = (0..blocks).flat_map(|block| &tiles[first + block * TILE_ROWS * TILE_BYTES..][..TILE_BYTES]);
        sums.copy_from_slice(start);
        for (at, &x) in x.enumerate() {
            for (column, sum) in sums.iter_mut().enumerate() {
                *sum += i32::from(x) * i32::from(groups[at / GROUP][column * GROUP + at % GROUP]);
            }
        }
    }
}

fn multiply_bf16(sums: &mut [f32], tiles: &[u16], count: usize, panel: &[u16]) {
    const COLUMNS: usize = TILE_BYTES / 2;
    let full = |half: u16| f32::from_bits(u32::from(half) << 16);
    let (pairs, _) = panel.as_chunks::<{ PAIR * PANEL }>();
    let blocks = pairs.len() * PAIR / COLUMNS;
    for (row, sums) in sums.chunks_exact_mut(PANEL).take(count).enumerate() {
        let first = (row / TILE_ROWS * blocks * TILE_ROWS + row % TILE_ROWS) * COLUMNS;
        let x = (0..blocks).flat_map(|block| &tiles[first + block * TILE_ROWS * COLUMNS..][..COLUMNS]);
        sums.fill(0.0);
        for (at, &x) in x.enumerate() {
            for (column, sum) in sums.iter_mut().enumerate() {
                *sum += full(x) * full(pairs[at / PAIR][column * PAIR + at % PAIR]);
            }
        }
    }
}
