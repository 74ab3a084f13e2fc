//! Buffers of a forward pass, which are reused by the next one.

use super::norm::NormLayer;
use super::{Inputs, Source};
use crate::aligned::Aligned;
use crate::architecture::{SQUARES, TEXT_TOKENS};
use crate::blocks::{AttentionScratch, FeedForwardScratch};
use crate::kernels::Kernels;
use crate::linear::LinearScratch;
use crate::{Architecture, Mask, Outputs};
use std::ops::Range;

/// Buffers of forward passes. One scratch serves networks of any architecture, one call at a time.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) batch: TokenBatch,
    pub(super) outputs: Vec<Outputs>,
}

/// Tokens in one pass through the network; more positions are split into groups, so that the activations stay
/// in cache: twice as many would exceed the L2 cache of most processors. Four positions are enough to
/// amortise loading the weights from memory.
fn max_tokens(width: usize) -> usize {
    ((1 << 16) / width.max(1)).clamp(4 * SQUARES, 16 * SQUARES)
}

/// The tokens of a pass and all their activations.
#[derive(Debug, Default)]
pub(crate) struct TokenBatch {
    pub(crate) width: usize,
    pub(crate) count: usize,
    pub(crate) sequences: Vec<Sequence>,
    /// Tokens that heads read, in output order, if they are not all of them.
    read: Vec<usize>,
    /// True for networks that read text, whose heads read only the last token of each sequence, or only the
    /// moves.
    pub(crate) text: bool,
    pub(crate) x: Aligned<f32>,
    pub(crate) normed: Aligned<f32>,
    pub(crate) prepared: LinearScratch,
    pub(super) embedding: EmbeddingScratch,
    pub(crate) attention: AttentionScratch,
    pub(crate) feed_forward: FeedForwardScratch,
    pub(super) heads: HeadScratch,
}

/// Tokens that attend to each other.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub(crate) tokens: Range<usize>,
    /// Tokens of its moves: each attends to the position and itself, and no other token attends to it.
    pub(crate) moves: Range<usize>,
    /// Tokens of the position that heads read.
    pub(crate) read: Range<usize>,
    /// Index of the position, and of the move if the sequence is that of a single move.
    pub(crate) position: usize,
    pub(crate) action: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) struct EmbeddingScratch {
    pub(super) pieces: Aligned<f32>,
    pub(super) board: Aligned<f32>,
    pub(super) joined: Aligned<f32>,
}

#[derive(Debug, Default)]
pub(super) struct HeadScratch {
    pub(super) squares: Aligned<f32>,
    pub(super) projected: Aligned<f32>,
    pub(super) keys: Aligned<f32>,
    pub(super) pairs: Aligned<f32>,
    pub(super) board: Aligned<f32>,
    pub(super) out: Aligned<f32>,
    pub(super) promotions: Aligned<f32>,
}

/// Progress through the inputs: the next position and, for a network that computes a sequence for each move,
/// the next move.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    pub(super) position: usize,
    action: usize,
}

impl TokenBatch {
    /// Assigns tokens to as many positions as fit, from the cursor on. Returns the cursor after them.
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
        let max_tokens = max_tokens(self.width);
        match (inputs, architecture.body.mask) {
            (Inputs::Text { actions, .. }, Mask::Prefix) => {
                while cursor.position < positions {
                    let moves = actions[cursor.position].len();
                    if self.count > 0 && self.count + TEXT_TOKENS + moves > max_tokens {
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
                        if self.count + TEXT_TOKENS + 1 > max_tokens {
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
                while cursor.position < positions && self.count + SQUARES <= max_tokens {
                    self.add(SQUARES, cursor.position, None);
                    cursor.position += 1;
                }
            }
        }
        cursor
    }

    fn add(&mut self, tokens: usize, position: usize, action: Option<usize>) -> &mut Sequence {
        let tokens = self.count..self.count + tokens;
        self.count = tokens.end;
        self.sequences.push(Sequence { tokens, moves: 0..0, read: 0..0, position, action });
        self.sequences.last_mut().expect("one was pushed")
    }

    /// Orders the tokens: those of all positions first, then those of all moves.
    fn put_moves_last(&mut self) {
        let (mut row, mut move_row) = (0, TEXT_TOKENS * self.sequences.len());
        for Sequence { tokens, moves, .. } in &mut self.sequences {
            *tokens = row..row + TEXT_TOKENS;
            *moves = move_row..move_row + moves.len();
            (row, move_row) = (tokens.end, moves.end);
            self.read.extend(moves.clone());
        }
    }

    /// Number of outputs of the planned sequences.
    pub(super) fn num_outputs(&self) -> usize {
        if self.text { self.read.len() } else { self.count / SQUARES }
    }

    pub(super) fn x_mut(&mut self) -> &mut [f32] {
        let len = self.count * self.width;
        &mut self.x[..len]
    }

    /// Input of a residual branch: with a norm before it, a normalised copy.
    pub(super) fn branch(&mut self, norm: Option<&NormLayer>, kernels: &Kernels) -> Source {
        let Some(norm) = norm else { return Source::Stream };
        let len = self.count * self.width;
        let normed = self.normed.buffer(len);
        normed.copy_from_slice(&self.x[..len]);
        norm.apply(kernels, normed);
        Source::Normed
    }

    /// Drops all tokens that heads do not read.
    pub(super) fn keep_read_tokens(&mut self) {
        for (to, &from) in self.read.iter().enumerate() {
            self.x.copy_within(from * self.width..(from + 1) * self.width, to * self.width);
        }
        self.count = self.read.len();
    }
}
