//! The memory of a run, kept from one to the next.

use super::norm::NormLayer;
use super::{Inputs, Source};
use crate::aligned::Aligned;
use crate::architecture::{SQUARES, TEXT_TOKENS};
use crate::kernels::Kernels;
use crate::linear::Prepared;
use crate::{Architecture, Mask, Outputs};
use std::ops::Range;

/// The memory of runs, whichever networks they are of.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) rows: Rows,
    pub(super) outputs: Vec<Outputs>,
}

/// Rows that pass through a network at a time; more positions than that go one group after the other, so that what is
/// computed of a group stays near: twice as many would leave the second cache of most processors. Four positions are
/// enough for weights to be worth their way from memory.
fn most_rows(width: usize) -> usize {
    ((1 << 16) / width.max(1)).clamp(4 * SQUARES, 16 * SQUARES)
}

/// Rows that pass through a network, and all that is computed on their way.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) width: usize,
    /// How many.
    pub(super) count: usize,
    pub(super) sequences: Vec<Sequence>,
    /// The rows that heads read, in their order, if it is not all of them.
    read: Vec<usize>,
    /// Whether that is so: networks that read text look at the last row of each sequence, or at the moves alone.
    pub(super) text: bool,
    pub(super) x: Aligned<f32>,
    pub(super) normed: Aligned<f32>,
    pub(super) prepared: Prepared,
    pub(super) embedding: EmbeddingRoom,
    pub(super) attention: AttentionRoom,
    pub(super) feed_forward: FeedForwardRoom,
    pub(super) heads: HeadRoom,
}

/// Rows that see each other.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    /// Those of the position.
    pub(super) tokens: Range<usize>,
    /// Those of its moves: each sees the position and itself, and nobody sees it.
    pub(super) moves: Range<usize>,
    /// Which of the position's own are read by heads.
    pub(super) read: Range<usize>,
    /// Which position it is, and for a move that is seen by all, which.
    pub(super) position: usize,
    pub(super) action: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) struct EmbeddingRoom {
    pub(super) pieces: Aligned<f32>,
    pub(super) board: Aligned<f32>,
    pub(super) joined: Aligned<f32>,
}

#[derive(Debug, Default)]
pub(super) struct AttentionRoom {
    pub(super) projected: Aligned<f32>,
    pub(super) attended: Aligned<f32>,
    pub(super) keys: Aligned<f32>,
    pub(super) values: Aligned<f32>,
    pub(super) scores: Aligned<f32>,
    pub(super) sums: Aligned<f32>,
    pub(super) factors: Aligned<f32>,
    pub(super) pressed: Aligned<f32>,
    pub(super) board: Aligned<f32>,
    pub(super) made: Aligned<f32>,
    pub(super) logits: Aligned<f32>,
}

#[derive(Debug, Default)]
pub(super) struct FeedForwardRoom {
    pub(super) hidden: Aligned<f32>,
    pub(super) gates: Aligned<f32>,
    pub(super) gathered: Aligned<f32>,
    pub(super) out: Aligned<f32>,
    /// For each expert the rows that chose it, with their weights.
    pub(super) chosen: Vec<Vec<(usize, f32)>>,
    pub(super) order: Vec<usize>,
}

#[derive(Debug, Default)]
pub(super) struct HeadRoom {
    pub(super) squares: Aligned<f32>,
    pub(super) projected: Aligned<f32>,
    pub(super) keys: Aligned<f32>,
    pub(super) pairs: Aligned<f32>,
    pub(super) board: Aligned<f32>,
    pub(super) out: Aligned<f32>,
    pub(super) promotions: Aligned<f32>,
}

/// How far a run has come: the next position, and for a network that reads each move with a position of its own, the
/// next move.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    pub(super) position: usize,
    action: usize,
}

impl Rows {
    /// Takes as many positions as fit, from the cursor on, and gives each its rows. Returns where to go on.
    pub(super) fn plan(
        &mut self,
        inputs: &Inputs<'_>,
        architecture: &Architecture,
        mut cursor: Cursor,
        positions: usize,
    ) -> Cursor {
        self.sequences.clear();
        self.read.clear();
        (self.count, self.width) = (0, architecture.body.width);
        self.text = matches!(inputs, Inputs::Text { .. });
        let most_rows = most_rows(self.width);
        match (inputs, architecture.body.mask) {
            (Inputs::Text { actions, .. }, Mask::Prefix) => {
                while cursor.position < positions {
                    let moves = actions[cursor.position].len();
                    if self.count > 0 && self.count + TEXT_TOKENS + moves > most_rows {
                        break;
                    }
                    self.add(TEXT_TOKENS, cursor.position, None).moves = 0..moves;
                    self.count += moves;
                    cursor.position += 1;
                }
                self.put_moves_last();
            }
            (Inputs::Text { actions, .. }, Mask::Full) => {
                while cursor.position < positions {
                    let moves = actions.get(cursor.position).map(|moves| moves.len());
                    while cursor.action < moves.unwrap_or(1) {
                        if self.count + TEXT_TOKENS + 1 > most_rows {
                            return cursor;
                        }
                        let tokens = TEXT_TOKENS + usize::from(moves.is_some());
                        let sequence = self.add(tokens, cursor.position, moves.map(|_| cursor.action));
                        sequence.read = sequence.tokens.end - 1..sequence.tokens.end;
                        let read = sequence.read.start;
                        self.read.push(read);
                        cursor.action += 1;
                    }
                    cursor = Cursor { position: cursor.position + 1, action: 0 };
                }
            }
            (Inputs::Squares(_) | Inputs::Coded { .. } | Inputs::Codes(_), _) => {
                while cursor.position < positions && self.count + SQUARES <= most_rows {
                    self.add(SQUARES, cursor.position, None);
                    cursor.position += 1;
                }
            }
        }
        cursor
    }

    /// Adds rows of a position.
    fn add(&mut self, tokens: usize, position: usize, action: Option<usize>) -> &mut Sequence {
        let tokens = self.count..self.count + tokens;
        self.count = tokens.end;
        self.sequences.push(Sequence { tokens, moves: 0..0, read: 0..0, position, action });
        self.sequences.last_mut().expect("one was pushed")
    }

    /// The positions' rows come first, and the moves of all after them.
    fn put_moves_last(&mut self) {
        let (mut row, mut move_row) = (0, TEXT_TOKENS * self.sequences.len());
        for Sequence { tokens, moves, .. } in &mut self.sequences {
            *tokens = row..row + TEXT_TOKENS;
            *moves = move_row..move_row + moves.len();
            (row, move_row) = (tokens.end, moves.end);
            self.read.extend(moves.clone());
        }
    }

    /// How many answers the network gives.
    pub(super) fn answers(&self) -> usize {
        if self.text { self.read.len() } else { self.count / SQUARES }
    }

    /// The rows themselves.
    pub(super) fn x_mut(&mut self) -> &mut [f32] {
        let len = self.count * self.width;
        &mut self.x[..len]
    }

    /// What a branch reads: with a norm before it, a normed copy.
    pub(super) fn branch(&mut self, norm: Option<&NormLayer>, kernels: &Kernels) -> Source {
        let Some(norm) = norm else { return Source::Stream };
        let len = self.count * self.width;
        let normed = self.normed.room(len);
        normed.copy_from_slice(&self.x[..len]);
        norm.apply(kernels, normed);
        Source::Normed
    }

    /// Leaves only the rows that heads read.
    pub(super) fn keep_what_is_read(&mut self) {
        for (to, &from) in self.read.iter().enumerate() {
            self.x.copy_within(from * self.width..(from + 1) * self.width, to * self.width);
        }
        self.count = self.read.len();
    }
}
