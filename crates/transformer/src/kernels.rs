//! Kernels: matrix products and the operations between them, for every instruction set.
//!
//! Matrix products are written by hand for each instruction set. The operations between them ([`row_ops`],
//! [`activations`]) are plain Rust, compiled again for each one, with hand-written vector code for AVX-512,
//! and give the same bits everywhere. Integer products do so too; floating-point products differ in their
//! rounding.
//!
//! Weights are stored in panels of 32 outputs, in the order in which they are read; all instruction sets
//! share this layout.

mod activations;
#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
#[cfg(target_arch = "x86_64")]
mod prefetch;
mod row_ops;
#[cfg(test)]
mod tests;

use crate::{Activation, NormKind};
use std::marker::PhantomData;
use tandem_util::isa::Isa;

pub(crate) use activations::{sigmoid, tanh};
pub(crate) use row_ops::quantisation_residual;

/// Outputs of a panel of weights: two AVX-512 vectors of f32, or two AMX tiles.
pub(crate) const PANEL: usize = 32;
/// int8 values whose products with as many others are summed by one instruction.
pub(crate) const GROUP: usize = 4;
/// The same for bfloat16 values.
pub(crate) const PAIR: usize = 2;
/// Rows of a tile of input bytes or bfloat16 values, as AMX defines it.
pub(crate) const TILE_ROWS: usize = 16;
/// Bytes in each row of a tile, a cache line.
pub(crate) const TILE_BYTES: usize = 64;

/// Epilogue of a matrix product: the operation by which its results are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Epilogue {
    /// The result replaces the output.
    Assign,
    /// The activated result replaces the output.
    Activate(Activation),
    /// The result is multiplied by this factor and added to the output.
    AddScaled(f32),
    /// The output is multiplied by the result.
    Multiply,
}

// The arguments are documented at the methods of `Kernels`.
type Multiply = unsafe fn(&mut [f32], usize, &[f32], usize, usize, &[f32]);
type MultiplyInt8 = unsafe fn(&mut [i32], &[u8], usize, &[i8], &[i32; PANEL]);
type Softmax = unsafe fn(&mut [f32], usize, usize, Option<&[f32]>, &mut [f32]);
type Finish = unsafe fn(&mut [f32], usize, (usize, usize), Epilogue, &[f32], &[f32; PANEL]);
type FinishInt8 = unsafe fn(&mut [f32], usize, (usize, usize), Epilogue, &[i32], Scales<'_>);
type Scales<'a> = (&'a [f32], &'a [f32; PANEL], &'a [f32; PANEL]);

/// Function pointers to the kernels of one instruction set.
#[derive(Clone, Copy)]
struct KernelTable {
    isa: Isa,
    multiply: Multiply,
    multiply_int8: MultiplyInt8,
    multiply_bf16: unsafe fn(&mut [f32], &[u16], usize, &[u16]),
    softmax: Softmax,
    norm: unsafe fn(&mut [f32], NormKind, f32, &[f32], &[f32]),
    finish: Finish,
    finish_int8: FinishInt8,
    quantise: unsafe fn(&mut [u8], &mut [f32], &[f32], usize, usize),
    convert_bf16: unsafe fn(&mut [u16], usize, &[f32], usize, usize),
    transpose: unsafe fn(&mut [f32], &[f32], usize, usize, usize),
}

/// Kernels of one instruction set, set up for the current thread.
pub(crate) struct Kernels {
    table: KernelTable,
    /// Makes the type `!Send`, because the configuration of AMX tiles belongs to a thread.
    thread: PhantomData<*const ()>,
}

impl Kernels {
    /// Kernels of an instruction set, or of the best one below it if this machine does not have it.
    pub(crate) fn start(isa: Isa) -> Self {
        let best = Isa::available().filter(|other| *other <= isa).last();
        let table = match best {
            #[cfg(target_arch = "x86_64")]
            Some(Isa::Avx2) => avx2::TABLE,
            #[cfg(target_arch = "x86_64")]
            Some(Isa::Avx512) => avx512::TABLE,
            #[cfg(target_arch = "x86_64")]
            Some(Isa::Amx) => {
                amx::start();
                amx::TABLE
            }
            _ => portable::TABLE,
        };
        Self { table, thread: PhantomData }
    }

    /// The instruction set in use, which may be lower than the requested one.
    pub(crate) fn isa(&self) -> Isa {
        self.table.isa
    }

    /// Multiplies `count` rows of `x`, which begin `stride` apart, by a panel of weights (32 for each element
    /// of a row). Each row has 32 sums; rows of sums begin `width` apart.
    #[inline]
    pub(crate) fn multiply(
        &self,
        sums: &mut [f32],
        width: usize,
        x: &[f32],
        stride: usize,
        count: usize,
        panel: &[f32],
    ) {
        let depth = panel.len() / PANEL;
        assert!(count > 0 && x.len() >= (count - 1) * stride + depth);
        assert!(width >= PANEL && sums.len() >= (count - 1) * width + PANEL);
        // SAFETY: kernels are only handed out where the processor has their instructions; the lengths are
        // checked.
        unsafe { (self.table.multiply)(sums, width, x, stride, count, panel) }
    }

    /// Multiplies `count` rows of bytes in tiles, which [`Self::quantise`] makes, by a panel of int8 weights
    /// in groups of four. Zero is stored as 128 in a byte; `start` has the negated sums of a row of zeros.
    /// `sums` has space for whole tiles.
    #[inline]
    pub(crate) fn multiply_int8(
        &self,
        sums: &mut [i32],
        tiles: &[u8],
        count: usize,
        panel: &[i8],
        start: &[i32; PANEL],
    ) {
        let whole = count.next_multiple_of(TILE_ROWS);
        assert!(panel.len().is_multiple_of(TILE_BYTES * PANEL) && sums.len() >= whole * PANEL);
        assert!(tiles.len() >= whole * (panel.len() / PANEL));
        // SAFETY: as above.
        unsafe { (self.table.multiply_int8)(sums, tiles, count, panel, start) }
    }

    /// The same for bfloat16 tiles, which [`Self::convert_bf16`] makes, and weights in pairs.
    #[inline]
    pub(crate) fn multiply_bf16(&self, sums: &mut [f32], tiles: &[u16], count: usize, panel: &[u16]) {
        let whole = count.next_multiple_of(TILE_ROWS);
        assert!(panel.len().is_multiple_of(TILE_BYTES / 2 * PANEL) && sums.len() >= whole * PANEL);
        assert!(tiles.len() >= whole * (panel.len() / PANEL));
        // SAFETY: as above.
        unsafe { (self.table.multiply_bf16)(sums, tiles, count, panel) }
    }

    /// Dispatches to [`row_ops::softmax`].
    #[inline]
    pub(crate) fn softmax(
        &self,
        scores: &mut [f32],
        stride: usize,
        columns: usize,
        added: Option<&[f32]>,
        factors: &mut [f32],
    ) {
        // SAFETY: as above.
        unsafe { (self.table.softmax)(scores, stride, columns, added, factors) }
    }

    /// Dispatches to [`row_ops::norm`].
    #[inline]
    pub(crate) fn norm(&self, rows: &mut [f32], kind: NormKind, epsilon: f32, scale: &[f32], offset: &[f32]) {
        // SAFETY: as above.
        unsafe { (self.table.norm)(rows, kind, epsilon, scale, offset) }
    }

    /// Dispatches to [`row_ops::finish`].
    #[inline]
    pub(crate) fn finish(
        &self,
        out: &mut [f32],
        stride: usize,
        size: (usize, usize),
        epilogue: Epilogue,
        sums: &[f32],
        bias: &[f32; PANEL],
    ) {
        // SAFETY: as above.
        unsafe { (self.table.finish)(out, stride, size, epilogue, sums, bias) }
    }

    /// Dispatches to [`row_ops::finish_int8`].
    #[inline]
    pub(crate) fn finish_int8(
        &self,
        out: &mut [f32],
        stride: usize,
        size: (usize, usize),
        epilogue: Epilogue,
        sums: &[i32],
        scales: Scales<'_>,
    ) {
        // SAFETY: as above.
        unsafe { (self.table.finish_int8)(out, stride, size, epilogue, sums, scales) }
    }

    /// Dispatches to [`row_ops::quantise`].
    #[inline]
    pub(crate) fn quantise(
        &self,
        tiles: &mut [u8],
        scales: &mut [f32],
        rows: &[f32],
        stride: usize,
        depth: usize,
    ) {
        // SAFETY: as above.
        unsafe { (self.table.quantise)(tiles, scales, rows, stride, depth) }
    }

    /// Dispatches to [`row_ops::convert_bf16`].
    #[inline]
    pub(crate) fn convert_bf16(
        &self,
        tiles: &mut [u16],
        count: usize,
        rows: &[f32],
        stride: usize,
        depth: usize,
    ) {
        // SAFETY: as above.
        unsafe { (self.table.convert_bf16)(tiles, count, rows, stride, depth) }
    }

    /// Dispatches to [`row_ops::transpose`].
    #[inline]
    pub(crate) fn transpose(
        &self,
        panels: &mut [f32],
        rows: &[f32],
        stride: usize,
        count: usize,
        depth: usize,
    ) {
        // SAFETY: as above.
        unsafe { (self.table.transpose)(panels, rows, stride, count, depth) }
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for Kernels {
    fn drop(&mut self) {
        if self.table.isa == Isa::Amx {
            amx::stop();
        }
    }
}

/// Calls a block kernel for the largest block of rows that fits, until all rows are done.
#[cfg(target_arch = "x86_64")]
macro_rules! for_row_blocks {
    ($count:ident, [$($size:literal),*], |$row:ident| $block:ident $arguments:tt) => {
        let mut $row = 0;
        while $row < $count {
            $(
                if $count - $row >= $size {
                    $block::<$size> $arguments;
                    $row += $size;
                    continue;
                }
            )*
        }
    };
}
#[cfg(target_arch = "x86_64")]
use for_row_blocks;
