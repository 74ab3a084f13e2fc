//! Positions of a step, as a network sees them.

use crate::loss::Target;
use tandem_chess::{Color, Piece};
use tandem_data::Record;
use tandem_nnue::Architecture;

/// Positions of a step: which inputs are on, which output judges, what it should say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The inputs of the side to move of the first position, those of its other side, those of the next position.
    pub(crate) inputs: Vec<u32>,
    /// Where each side's end.
    pub(crate) ends: Vec<u32>,
    pub(crate) buckets: Vec<u8>,
    pub(crate) targets: Vec<Target>,
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
        self.inputs.clear();
        self.ends.clear();
        self.buckets.clear();
        self.targets.clear();
    }

    /// Adds a position. False, and nothing is added, if a king is missing.
    pub fn push(&mut self, architecture: &Architecture, record: &Record, target: Target) -> bool {
        let position = &record.position;
        let mut kings = [None; 2];
        for (square, color, piece) in position.pieces() {
            if piece == Piece::King {
                kings[color as usize] = Some(square);
            }
        }
        let [Some(white), Some(black)] = kings else { return false };
        let features = &architecture.features;
        let us = position.side_to_move();
        for side in [us, !us] {
            let view = features.view(side, if side == Color::White { white } else { black });
            let rows = position
                .pieces()
                .filter_map(|(square, color, piece)| features.index(view, color == side, piece, square));
            self.inputs.extend(rows.map(|row| row as u32));
            self.ends.push(self.inputs.len() as u32);
        }
        self.buckets.push(architecture.buckets().of(position.piece_count()) as u8);
        self.targets.push(target);
        true
    }

    /// The inputs of one side of a position; sides are counted through.
    pub(crate) fn side(&self, row: usize) -> &[u32] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] as usize };
        &self.inputs[start..self.ends[row] as usize]
    }
}
