//! The first layer: weight rows of the sparse inputs, and the accumulators that sum them.

use crate::architecture::PSQT_BUCKETS;
use crate::kernels::{Kernels, WeightRows};
use tandem_memory::AlignedArray;

/// The first layer's sums for one side's view: the bias plus the weight rows of all active inputs, for any
/// kind of inputs.
#[derive(Clone, Debug)]
pub struct Accumulator {
    pub(crate) hidden: AlignedArray<i16>,
    pub(crate) psqt: [i32; PSQT_BUCKETS],
}

/// The first layer, from the sparse inputs to the accumulators.
#[derive(Clone, Debug)]
pub(crate) struct FirstLayer {
    /// Accumulator width of one side, as the head reads it.
    pub(crate) outputs: usize,
    /// Sums kept for each side: twice `outputs` if the perspectives have weights of their own, because each
    /// side is both the side to move and the opponent in turn.
    pub(crate) width: usize,
    pub(crate) bias: AlignedArray<i16>,
    /// One weight row of `width` values for each input.
    pub(crate) weights: AlignedArray<i16>,
    /// One row of [`PSQT_BUCKETS`] piece-square values for each input, if the network has them.
    pub(crate) psqt: Option<AlignedArray<i32>>,
    /// The accumulators are defined modulo 2^16, as in Stockfish, so weights that could leave 16 bits are
    /// allowed.
    pub(crate) wraps: bool,
}

impl FirstLayer {
    /// True if both perspectives share their weights.
    pub(crate) fn is_tied(&self) -> bool {
        self.width == self.outputs
    }

    /// The accumulator with no active inputs.
    pub(crate) fn empty(&self) -> Accumulator {
        Accumulator { hidden: self.bias.clone(), psqt: [0; PSQT_BUCKETS] }
    }

    /// Sets `to` to `from` plus the rows `added` minus the rows `removed`, in one pass.
    #[inline]
    pub(crate) fn update(
        &self,
        kernels: &Kernels,
        to: &mut Accumulator,
        from: &Accumulator,
        added: &[u32],
        removed: &[u32],
    ) {
        let rows = WeightRows { weights: &self.weights, width: self.width };
        kernels.update(&mut to.hidden, &from.hidden, rows, added, removed);
        let Some(psqt) = &self.psqt else { return };
        let row = |index: u32| &psqt[index as usize * PSQT_BUCKETS..][..PSQT_BUCKETS];
        to.psqt = from.psqt;
        for &index in added {
            to.psqt.iter_mut().zip(row(index)).for_each(|(sum, weight)| *sum = sum.wrapping_add(*weight));
        }
        for &index in removed {
            to.psqt.iter_mut().zip(row(index)).for_each(|(sum, weight)| *sum = sum.wrapping_sub(*weight));
        }
    }
}
