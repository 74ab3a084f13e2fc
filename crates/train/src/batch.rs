//! Batches: the positions of a step with their targets, and the active features that the first layer sees.

use crate::layout::Layout;
use crate::loss::Target;
use rayon::prelude::*;
use tandem_chess::{Color, Piece, Square};
use tandem_data::Packed;
use tandem_nnue::Inputs;

/// Positions of a step with their training targets, in the same order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Positions, packed into 32 bytes each, as data files of the packed format store them.
    pub positions: Vec<Packed>,
    /// Training targets, one for each position and in the same order.
    pub targets: Vec<Target>,
}

impl Batch {
    /// Number of positions in the batch, each with a target.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// True if the batch has no position.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Removes all positions but keeps the memory, so that a batch can be filled again.
    pub fn clear(&mut self) {
        self.positions.clear();
        self.targets.clear();
    }

    /// Appends a position with its target.
    pub fn push(&mut self, position: Packed, target: Target) {
        self.positions.push(position);
        self.targets.push(target);
    }
}

/// Active features of a batch: for each position and side the indices of the weight rows of the first layer
/// that are added up. Networks that are not chess are trained from these directly.
#[derive(Clone, Debug, PartialEq)]
pub struct ActiveFeatures {
    /// Sides (perspectives) of a position: two in chess, one if there is no opponent.
    pub(crate) sides: usize,
    /// Capacity for the features of one side.
    pub(crate) stride: usize,
    /// Feature indices, `stride` for each side: those of the first position's side to move, then of its other
    /// side, then of the next position.
    pub(crate) indices: Vec<u32>,
    /// Number of active features of each side of each position.
    pub(crate) counts: Vec<u32>,
    /// Output bucket of each position, which selects its output weights or stack.
    pub(crate) buckets: Vec<u8>,
    pub(crate) targets: Vec<Target>,
}

/// Positions that one task of the thread pool handles.
const GROUP: usize = 256;

impl ActiveFeatures {
    /// Creates an empty batch with capacity for `stride` active features on each of `sides` sides.
    pub fn new(sides: usize, stride: usize) -> Self {
        Self {
            sides,
            stride,
            indices: Vec::new(),
            counts: Vec::new(),
            buckets: Vec::new(),
            targets: Vec::new(),
        }
    }

    /// Creates an empty batch with the capacity that a layout needs.
    pub fn of<I: Inputs>(layout: &Layout<I>) -> Self {
        Self::new(I::SIDES, layout.max_active())
    }

    /// Removes all positions but keeps the allocated memory, so that a batch can be reused.
    pub fn clear(&mut self) {
        self.indices.clear();
        self.counts.clear();
        self.buckets.clear();
        self.targets.clear();
    }

    /// Number of positions in the batch, each with a bucket and a target.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// True if the batch has no position.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Appends a position by the active features of its sides, the side to move first.
    ///
    /// # Panics
    ///
    /// If a side has more features than the capacity, or if the number of sides is not that of the batch.
    pub fn push(&mut self, sides: &[&[u32]], bucket: u8, target: Target) {
        assert_eq!(sides.len(), self.sides, "sides of a position");
        for side in sides {
            assert!(side.len() <= self.stride, "{} features are active, {} at most", side.len(), self.stride);
            self.indices.extend(*side);
            self.indices.resize(self.indices.len() + self.stride - side.len(), 0);
            self.counts.push(side.len() as u32);
        }
        self.buckets.push(bucket);
        self.targets.push(target);
    }

    /// Replaces the content with the active features of a batch of chess positions, found in parallel.
    pub(crate) fn fill(&mut self, layout: &Layout, batch: &Batch) {
        let stride = layout.max_active();
        self.stride = stride;
        self.indices.resize(2 * stride * batch.len(), 0);
        self.counts.resize(2 * batch.len(), 0);
        self.buckets.resize(batch.len(), 0);
        self.targets.clear();
        self.targets.extend_from_slice(&batch.targets);
        let buckets = layout.architecture().buckets();
        let places = self
            .indices
            .par_chunks_mut(2 * stride * GROUP)
            .zip(self.counts.par_chunks_mut(2 * GROUP))
            .zip(self.buckets.par_chunks_mut(GROUP));
        places.zip(batch.positions.par_chunks(GROUP)).for_each(
            |(((indices, counts), buckets_of_group), positions)| {
                let sides = indices.chunks_exact_mut(2 * stride).zip(counts.chunks_exact_mut(2));
                for ((position, (indices, counts)), bucket) in
                    positions.iter().zip(sides).zip(buckets_of_group)
                {
                    let (own, other) = indices.split_at_mut(stride);
                    let us = position.side_to_move();
                    counts[0] = active(layout, position, us, own);
                    counts[1] = active(layout, position, !us, other);
                    *bucket = buckets.index(position.piece_count()) as u8;
                }
            },
        );
    }

    /// Active features of a side; sides are numbered through all positions.
    #[inline]
    pub(crate) fn side(&self, side: usize) -> &[u32] {
        &self.indices[side * self.stride..][..self.counts[side] as usize]
    }
}

/// Writes the active features of a side and returns their number. The factoriser's features, which all king
/// buckets share, follow the others.
fn active(layout: &Layout, position: &Packed, side: Color, indices: &mut [u32]) -> u32 {
    let features = &layout.architecture().features;
    let king = position.pieces().find(|&(_, color, piece)| (color, piece) == (side, Piece::King));
    // Our own formats never store a board without a king; bullet's does in broken files.
    let king = king.map_or(Square::E1, |(square, _, _)| square);
    let view = features.view(side, king);
    let mut count = 0;
    for (square, color, piece) in position.pieces() {
        if let Some(input) = features.index(view, color == side, piece, square)
            && count < features.max_active()
        {
            indices[count] = input as u32;
            count += 1;
        }
    }
    if layout.options().factoriser {
        let (own, shared) = indices.split_at_mut(count);
        for (input, index) in own.iter().zip(shared) {
            *index = layout.shared_row(*input as usize).unwrap_or_default() as u32;
        }
        count *= 2;
    }
    count as u32
}
