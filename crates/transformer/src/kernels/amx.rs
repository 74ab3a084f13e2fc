//! Tile products of AMX: matrices of 16 rows of 64 bytes in registers of their own.
//!
//! Rust has no stable intrinsics for these instructions yet, so they are written in assembly. All other
//! operations are those of [`super::avx512`].

use super::{Isa, KernelTable, PANEL, TILE_BYTES, TILE_ROWS, avx512};
use std::arch::asm;
use std::cell::Cell;

pub(super) const TABLE: KernelTable =
    KernelTable { isa: Isa::Amx, multiply_int8, multiply_bf16, ..avx512::TABLE };

const TILE: usize = TILE_ROWS * TILE_BYTES;

/// Tile configuration in the layout of `ldtilecfg`: all tiles have 16 rows of 64 bytes.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

static SHAPES: Shapes = {
    let mut shapes = Shapes { palette: 1, start: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
    let mut tile = 0;
    while tile < 8 {
        shapes.row_bytes[tile] = TILE_BYTES as u16;
        shapes.rows[tile] = TILE_ROWS as u8;
        tile += 1;
    }
    shapes
};

thread_local! {
    static USERS: Cell<usize> = const { Cell::new(0) };
}

/// Configures the tiles of this thread. Calls are counted, so that [`Kernels`](super::Kernels) may be nested.
pub(super) fn start() {
    USERS.set(USERS.get() + 1);
    // SAFETY: only called where there are tiles; the shapes are those that the processor's manual asks for.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const SHAPES, options(nostack, readonly)) };
}

/// Releases the tiles, so that the system does not save them at context switches.
pub(super) fn stop() {
    USERS.set(USERS.get() - 1);
    if USERS.get() == 0 {
        // SAFETY: only called after `start`.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}

/// Multiplies one or two tiles of rows by a panel of weights, which is two tiles wide.
macro_rules! tiles {
    ($one:ident, $two:ident, $multiply:literal) => {
        /// # Safety
        /// `x` has `blocks` tiles, and the panel has twice as many in rows of 128 bytes; `sums` has space for
        /// 16 rows of 32 sums; the tiles are configured; 128 bytes can be read from `start`.
        #[inline]
        unsafe fn $one(sums: *mut u8, x: *const u8, panel: *const u8, blocks: usize, start: *const u8) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    "tileloadd tmm0, [{start} + {zero}*1]",
                    "tileloadd tmm1, [{start} + {zero}*1 + 64]",
                    "2:",
                    "tileloadd tmm4, [{x} + {of_x}*1]",
                    "tileloadd tmm6, [{panel} + {of_panel}*1]",
                    "tileloadd tmm7, [{panel} + {of_panel}*1 + 64]",
                    concat!($multiply, " tmm0, tmm4, tmm6"),
                    concat!($multiply, " tmm1, tmm4, tmm7"),
                    "add {x}, 1024",
                    "add {panel}, 2048",
                    "dec {blocks}",
                    "jnz 2b",
                    "tilestored [{sums} + {of_panel}*1], tmm0",
                    "tilestored [{sums} + {of_panel}*1 + 64], tmm1",
                    x = inout(reg) x => _,
                    panel = inout(reg) panel => _,
                    blocks = inout(reg) blocks => _,
                    start = in(reg) start,
                    zero = in(reg) 0usize,
                    sums = in(reg) sums,
                    of_x = in(reg) TILE_BYTES,
                    of_panel = in(reg) PANEL * 4,
                    options(nostack),
                );
            }
        }

        /// # Safety
        /// As above, with another tile of rows after `blocks` of them, and space for 32 rows of sums.
        /// Meanwhile half a panel is prefetched from `prefetch`, which may point anywhere.
        #[inline]
        unsafe fn $two(
            sums: *mut u8,
            x: *const u8,
            panel: *const u8,
            blocks: usize,
            start: *const u8,
            prefetch: *const u8,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    "tileloadd tmm0, [{start} + {zero}*1]",
                    "tileloadd tmm1, [{start} + {zero}*1 + 64]",
                    "tileloadd tmm2, [{start} + {zero}*1]",
                    "tileloadd tmm3, [{start} + {zero}*1 + 64]",
                    "2:",
                    "tileloadd tmm4, [{x} + {of_x}*1]",
                    "tileloadd tmm6, [{panel} + {of_panel}*1]",
                    "tileloadd tmm7, [{panel} + {of_panel}*1 + 64]",
                    "tileloadd tmm5, [{other} + {of_x}*1]",
                    concat!($multiply, " tmm0, tmm4, tmm6"),
                    "prefetcht0 [{prefetch}]",
                    "prefetcht0 [{prefetch} + 64]",
                    "prefetcht0 [{prefetch} + 128]",
                    "prefetcht0 [{prefetch} + 192]",
                    concat!($multiply, " tmm1, tmm4, tmm7"),
                    "prefetcht0 [{prefetch} + 256]",
                    "prefetcht0 [{prefetch} + 320]",
                    "prefetcht0 [{prefetch} + 384]",
                    "prefetcht0 [{prefetch} + 448]",
                    concat!($multiply, " tmm2, tmm5, tmm6"),
                    "prefetcht0 [{prefetch} + 512]",
                    "prefetcht0 [{prefetch} + 576]",
                    "prefetcht0 [{prefetch} + 640]",
                    "prefetcht0 [{prefetch} + 704]",
                    concat!($multiply, " tmm3, tmm5, tmm7"),
                    "prefetcht0 [{prefetch} + 768]",
                    "prefetcht0 [{prefetch} + 832]",
                    "prefetcht0 [{prefetch} + 896]",
                    "prefetcht0 [{prefetch} + 960]",
                    "add {prefetch}, 1024",
                    "add {x}, 1024",
                    "add {other}, 1024",
                    "add {panel}, 2048",
                    "dec {blocks}",
                    "jnz 2b",
                    "tilestored [{sums} + {of_panel}*1], tmm0",
                    "tilestored [{sums} + {of_panel}*1 + 64], tmm1",
                    "tilestored [{other_sums} + {of_panel}*1], tmm2",
                    "tilestored [{other_sums} + {of_panel}*1 + 64], tmm3",
                    x = inout(reg) x => _,
                    other = inout(reg) x.add(blocks * TILE) => _,
                    prefetch = inout(reg) prefetch => _,
                    panel = inout(reg) panel => _,
                    blocks = inout(reg) blocks => _,
                    start = in(reg) start,
                    zero = in(reg) 0usize,
                    sums = in(reg) sums,
                    other_sums = in(reg) sums.add(TILE_ROWS * PANEL * 4),
                    of_x = in(reg) TILE_BYTES,
                    of_panel = in(reg) PANEL * 4,
                    options(nostack),
                );
            }
        }
    };
}

tiles!(one_int8, two_int8, "tdpbusd");
tiles!(one_bf16, two_bf16, "tdpbf16ps");

/// Start of the half of the next panel to prefetch while rows from `row` on are multiplied.
fn prefetch(panel: *const u8, blocks: usize, row: usize) -> *const u8 {
    let half = row / (2 * TILE_ROWS) % 2;
    panel.wrapping_add(2 * TILE * blocks + half * TILE * blocks)
}

/// # Safety
/// The tiles of this thread must be configured.
unsafe fn multiply_int8(sums: &mut [i32], tiles: &[u8], count: usize, panel: &[i8], start: &[i32; PANEL]) {
    let blocks = panel.len() / (PANEL * TILE_BYTES);
    let whole = count.next_multiple_of(TILE_ROWS);
    assert!(blocks > 0 && sums.len() >= whole * PANEL && tiles.len() >= whole * blocks * TILE_BYTES);
    for row in (0..count).step_by(2 * TILE_ROWS) {
        let sums = sums[row * PANEL..].as_mut_ptr().cast();
        let x = tiles[row * blocks * TILE_BYTES..].as_ptr();
        let (panel, start) = (panel.as_ptr().cast(), start.as_ptr().cast());
        // SAFETY: the assertion above, and the caller's promise.
        unsafe {
            if row + TILE_ROWS < count {
                two_int8(sums, x, panel, blocks, start, prefetch(panel, blocks, row));
            } else {
                one_int8(sums, x, panel, blocks, start);
            }
        }
    }
}

/// # Safety
/// The tiles of this thread must be configured.
unsafe fn multiply_bf16(sums: &mut [f32], tiles: &[u16], count: usize, panel: &[u16]) {
    const NOTHING: [f32; PANEL] = [0.0; PANEL];
    let blocks = panel.len() / (PANEL * TILE_BYTES / 2);
    let whole = count.next_multiple_of(TILE_ROWS);
    assert!(blocks > 0 && sums.len() >= whole * PANEL && tiles.len() >= whole * blocks * TILE_BYTES / 2);
    for row in (0..count).step_by(2 * TILE_ROWS) {
        let sums = sums[row * PANEL..].as_mut_ptr().cast();
        let x = tiles[row * blocks * TILE_BYTES / 2..].as_ptr().cast();
        let (panel, start) = (panel.as_ptr().cast(), NOTHING.as_ptr().cast());
        // SAFETY: as above.
        unsafe {
            if row + TILE_ROWS < count {
                two_bf16(sums, x, panel, blocks, start, prefetch(panel, blocks, row));
            } else {
                one_bf16(sums, x, panel, blocks, start);
            }
        }
    }
}
