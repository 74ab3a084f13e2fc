//! The inner loops, in one small vocabulary for every instruction set.
//!
//! Products are written by hand for each; what is done to rows between them ([`rows`], [`curves`]) is plain Rust,
//! compiled again for each, with whole vectors by hand for AVX-512, and gives the same bits on all. So do the products
//! of whole numbers. Products of floating point differ in how they round.
//!
//! Weights stand in panels of 32 outputs, in the order in which they are used; all instruction sets read the same ones.

#[cfg(target_arch = "x86_64")]
mod ahead;
#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod curves;
mod portable;
mod rows;
#[cfg(test)]
mod tests;

use crate::{Activation, NormKind};
use std::marker::PhantomData;
use std::str::FromStr;
use thiserror::Error;

pub(crate) use curves::{sigmoid, tanh};
pub(crate) use rows::left_by_bytes;

/// Outputs of a panel of weights.
pub(crate) const PANEL: usize = 32;
/// Bytes whose products with as many others are added up by one instruction.
pub(crate) const GROUP: usize = 4;
/// The same for numbers of 16 bits.
pub(crate) const PAIR: usize = 2;
/// Rows of a tile of bytes or 16-bit numbers.
pub(crate) const TILE_ROWS: usize = 16;
/// Bytes in each of them.
pub(crate) const TILE_BYTES: usize = 64;

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Whatever every processor of the target has.
    Portable,
    /// 256-bit vectors, and products that are added at once.
    Avx2,
    /// 512-bit vectors with neural-network instructions.
    Avx512,
    /// Tiles: products of small matrices of bytes and of 16-bit numbers.
    Amx,
}

impl Isa {
    /// All of them, the best last.
    pub const ALL: [Self; 4] = [Self::Portable, Self::Avx2, Self::Avx512, Self::Amx];

    /// The best that this processor has and the system lets us use.
    pub fn best() -> Self {
        Self::ALL.into_iter().rfind(|isa| isa.is_available()).unwrap_or(Self::Portable)
    }

    /// Whether this processor has it and the system lets us use it.
    pub fn is_available(self) -> bool {
        self == Self::Portable || hardware_has(self)
    }

    /// The name, as [`Self::from_str`] reads it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Amx => "amx",
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn hardware_has(isa: Isa) -> bool {
    match isa {
        Isa::Portable => true,
        Isa::Avx2 => avx2::is_here(),
        Isa::Avx512 => avx512::is_here(),
        Isa::Amx => amx::is_here(),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn hardware_has(isa: Isa) -> bool {
    isa == Isa::Portable
}

impl FromStr for Isa {
    type Err = IsaError;

    /// Reads a name that [`Self::name`] gives; the processor must have what it names.
    fn from_str(text: &str) -> Result<Self, IsaError> {
        let found = Self::ALL.into_iter().find(|isa| isa.name() == text);
        let isa = found.ok_or_else(|| IsaError::Unknown(text.into()))?;
        if isa.is_available() { Ok(isa) } else { Err(IsaError::NotHere(isa)) }
    }
}

/// A name that is no instruction set to use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IsaError {
    /// There is none of that name.
    #[error("no instruction set {0:?}; there are portable, avx2, avx512, amx")]
    Unknown(String),
    /// This processor does not have it, or the system keeps it back.
    #[error("this machine has no {}", .0.name())]
    NotHere(Isa),
}

/// What becomes of a layer's sums.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Store {
    /// They are the output.
    Set,
    /// They are, bent.
    Activate(Activation),
    /// They join what is there, times a factor.
    Add(f32),
    /// What is there is multiplied by them.
    Times,
}

// What the arguments are is told at the methods of `Kernels`.
type Multiply = unsafe fn(&mut [f32], usize, &[f32], usize, usize, &[f32]);
type MultiplyInt8 = unsafe fn(&mut [i32], &[u8], usize, &[i8], &[i32; PANEL]);
type Softmax = unsafe fn(&mut [f32], usize, usize, Option<&[f32]>, &mut [f32]);
type Finish = unsafe fn(&mut [f32], usize, (usize, usize), Store, &[f32], &[f32; PANEL]);
type FinishInt8 = unsafe fn(&mut [f32], usize, (usize, usize), Store, &[i32], Scales<'_>);
type Scales<'a> = (&'a [f32], &'a [f32; PANEL], &'a [f32; PANEL]);

/// The kernels of one instruction set.
#[derive(Clone, Copy)]
struct Table {
    isa: Isa,
    multiply: Multiply,
    multiply_int8: MultiplyInt8,
    multiply_bf16: unsafe fn(&mut [f32], &[u16], usize, &[u16]),
    softmax: Softmax,
    norm: unsafe fn(&mut [f32], NormKind, f32, &[f32], &[f32]),
    finish: Finish,
    finish_int8: FinishInt8,
    quantise: unsafe fn(&mut [u8], &mut [f32], &[f32], usize, usize),
    halve: unsafe fn(&mut [u16], usize, &[f32], usize, usize),
    turn: unsafe fn(&mut [f32], &[f32], usize, usize, usize),
}

/// The kernels of one instruction set, ready to be used by this thread.
pub(crate) struct Kernels {
    table: Table,
    /// Tiles belong to a thread.
    thread: PhantomData<*const ()>,
}

impl Kernels {
    /// Those of an instruction set, or the best ones below it where the machine does not have it.
    pub(crate) fn start(isa: Isa) -> Self {
        let best = Isa::ALL.into_iter().rfind(|other| *other <= isa && other.is_available());
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

    /// Which they are.
    pub(crate) fn isa(&self) -> Isa {
        self.table.isa
    }

    /// Products of `count` rows of `x`, which begin `stride` apart, and a panel of weights (32 for each number of a
    /// row). A row's sums are 32; they begin `width` apart.
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
        // SAFETY: kernels are only handed out where the processor has their instructions; the lengths are checked.
        unsafe { (self.table.multiply)(sums, width, x, stride, count, panel) }
    }

    /// Products of `count` rows of bytes in tiles, which [`Self::quantise`] makes, and a panel of weights in groups of
    /// four. A byte's zero is 128; `start` is what 128 in every place sums up to, negated. There is room for sums of
    /// whole tiles.
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

    /// The same for numbers of 16 bits, which [`Self::halve`] makes, and weights in pairs.
    #[inline]
    pub(crate) fn multiply_bf16(&self, sums: &mut [f32], tiles: &[u16], count: usize, panel: &[u16]) {
        let whole = count.next_multiple_of(TILE_ROWS);
        assert!(panel.len().is_multiple_of(TILE_BYTES / 2 * PANEL) && sums.len() >= whole * PANEL);
        assert!(tiles.len() >= whole * (panel.len() / PANEL));
        // SAFETY: as above.
        unsafe { (self.table.multiply_bf16)(sums, tiles, count, panel) }
    }

    /// See [`rows::softmax`].
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

    /// See [`rows::norm`].
    #[inline]
    pub(crate) fn norm(&self, rows: &mut [f32], kind: NormKind, epsilon: f32, scale: &[f32], offset: &[f32]) {
        // SAFETY: as above.
        unsafe { (self.table.norm)(rows, kind, epsilon, scale, offset) }
    }

    /// See [`rows::finish`].
    #[inline]
    pub(crate) fn finish(
        &self,
        out: &mut [f32],
        stride: usize,
        size: (usize, usize),
        store: Store,
        sums: &[f32],
        bias: &[f32; PANEL],
    ) {
        // SAFETY: as above.
        unsafe { (self.table.finish)(out, stride, size, store, sums, bias) }
    }

    /// See [`rows::finish_int8`].
    #[inline]
    pub(crate) fn finish_int8(
        &self,
        out: &mut [f32],
        stride: usize,
        size: (usize, usize),
        store: Store,
        sums: &[i32],
        scales: Scales<'_>,
    ) {
        // SAFETY: as above.
        unsafe { (self.table.finish_int8)(out, stride, size, store, sums, scales) }
    }

    /// See [`rows::quantise`].
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

    /// See [`rows::halve`].
    #[inline]
    pub(crate) fn halve(&self, tiles: &mut [u16], count: usize, rows: &[f32], stride: usize, depth: usize) {
        // SAFETY: as above.
        unsafe { (self.table.halve)(tiles, count, rows, stride, depth) }
    }

    /// See [`rows::turn`].
    #[inline]
    pub(crate) fn turn(&self, panels: &mut [f32], rows: &[f32], stride: usize, count: usize, depth: usize) {
        // SAFETY: as above.
        unsafe { (self.table.turn)(panels, rows, stride, count, depth) }
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

/// Calls a block of rows as large as fits, until none are left.
#[cfg(target_arch = "x86_64")]
macro_rules! by_rows {
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
use by_rows;
