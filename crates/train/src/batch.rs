//! Positions of a step.

use crate::layout::Layout;
use crate::loss::Target;
use rayon::prelude::*;
use tandem_chess::{Color, Piece, Square};
use tandem_data::Packed;
use tandem_nnue::Inputs;

/// Positions of a step, and what should be said of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The positions.
    pub positions: Vec<Packed>,
    /// One for each of them.
    pub targets: Vec<Target>,
}

impl Batch {
    /// How many positions there are.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.positions.clear();
        self.targets.clear();
    }

    /// Adds a position with its target.
    pub fn push(&mut self, position: Packed, target: Target) {
        self.positions.push(position);
        self.targets.push(target);
    }
}

/// Positions as the first layer sees them: the rows that are on for each side. What is no chess is trained with these.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// Sides that judge a position together.
    pub(crate) sides: usize,
    /// Places for the rows of one side.
    pub(crate) stride: usize,
    /// The rows of the side to move of the first position, those of its other side, those of the next position.
    pub(crate) rows: Vec<u32>,
    /// How many there are for each side.
    pub(crate) counts: Vec<u32>,
    /// Which output judges.
    pub(crate) buckets: Vec<u8>,
    pub(crate) targets: Vec<Target>,
}

/// Positions that are looked at together.
const GROUP: usize = 256;

impl Rows {
    /// Room for so many rows of one side, of as many sides as judge together.
    pub fn new(sides: usize, stride: usize) -> Self {
        Self { sides, stride, rows: Vec::new(), counts: Vec::new(), buckets: Vec::new(), targets: Vec::new() }
    }

    /// Room for the rows of a layout.
    pub fn of<I: Inputs>(layout: &Layout<I>) -> Self {
        Self::new(I::SIDES, layout.max_active())
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.counts.clear();
        self.buckets.clear();
        self.targets.clear();
    }

    /// How many positions there are.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Adds a position by the rows of its sides, the one to move first.
    ///
    /// # Panics
    /// If there are more than there is room for, or more or fewer sides.
    pub fn push(&mut self, sides: &[&[u32]], bucket: u8, target: Target) {
        assert_eq!(sides.len(), self.sides, "sides of a position");
        for side in sides {
            assert!(side.len() <= self.stride, "{} rows are on, {} at most", side.len(), self.stride);
            self.rows.extend(*side);
            self.rows.resize(self.rows.len() + self.stride - side.len(), 0);
            self.counts.push(side.len() as u32);
        }
        self.buckets.push(bucket);
        self.targets.push(target);
    }

    /// Finds the rows of a batch.
    pub(crate) fn fill(&mut self, layout: &Layout, batch: &Batch) {
        let stride = layout.max_active();
        self.stride = stride;
        self.rows.resize(2 * stride * batch.len(), 0);
        self.counts.resize(2 * batch.len(), 0);
        self.buckets.resize(batch.len(), 0);
        self.targets.clear();
        self.targets.extend_from_slice(&batch.targets);
        let buckets = layout.architecture().buckets();
        let places = self
            .rows
            .par_chunks_mut(2 * stride * GROUP)
            .zip(self.counts.par_chunks_mut(2 * GROUP))
            .zip(self.buckets.par_chunks_mut(GROUP));
        places.zip(batch.positions.par_chunks(GROUP)).for_each(|(((rows, counts), numbers), positions)| {
            let sides = rows.chunks_exact_mut(2 * stride).zip(counts.chunks_exact_mut(2));
            for ((position, (rows, counts)), bucket) in positions.iter().zip(sides).zip(numbers) {
                let (own, other) = rows.split_at_mut(stride);
                let us = position.side_to_move();
                counts[0] = active(layout, position, us, own);
                counts[1] = active(layout, position, !us, other);
                *bucket = buckets.of(position.piece_count()) as u8;
            }
        });
    }

    /// The rows that are on for a side; sides are counted through.
    #[inline]
    pub(crate) fn side(&self, side: usize) -> &[u32] {
        &self.rows[side * self.stride..][..self.counts[side] as usize]
    }
}

/// The rows that are on for a side, and how many there are. Own rows come first, then those that all kings share.
fn active(layout: &Layout, position: &Packed, side: Color, rows: &mut [u32]) -> u32 {
    let features = &layout.architecture().features;
    let king = position.pieces().find(|&(_, color, piece)| (color, piece) == (side, Piece::King));
    // A board without a king comes from nowhere in our own formats, and from bullet's in broken files.
    let king = king.map_or(Square::E1, |(square, _, _)| square);
    let view = features.view(side, king);
    let mut count = 0;
    for (square, color, piece) in position.pieces() {
        if let Some(input) = features.index(view, color == side, piece, square)
            && count < features.max_active()
        {
            rows[count] = input as u32;
            count += 1;
        }
    }
    if layout.shape().factoriser {
        let (own, shared) = rows.split_at_mut(count);
        for (input, row) in own.iter().zip(shared) {
            *row = layout.shared_row(*input as usize).unwrap_or_default() as u32;
        }
        count *= 2;
    }
    count as u32
}
