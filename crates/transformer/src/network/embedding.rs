//! How the input becomes rows.

use super::builder::Builder;
use super::feed_forward::Layers;
use super::norm::NormLayer;
use super::scratch::Rows;
use super::{Inputs, copied};
use crate::aligned::Aligned;
use crate::architecture::{PIECE_CHANNELS, SQUARES, TEXT_TOKENS};
use crate::kernels::{Kernels, Store};
use crate::linear::Linear;
use crate::{Activation, Embedding};

#[derive(Debug)]
pub(super) enum EmbeddingLayer {
    /// A row for each token, times the root of the width already, and one for each place.
    Tokens { table: Aligned<f32>, positions: Aligned<f32> },
    /// A layer on each square, and a row for each.
    Squares { squares: Linear, positions: Aligned<f32> },
    /// BT3's.
    Board(Box<BoardLayer>),
}

#[derive(Debug)]
pub(super) struct BoardLayer {
    board: Linear,
    squares: Linear,
    activation: Activation,
    norm: NormLayer,
    gate_scale: Aligned<f32>,
    gate_offset: Aligned<f32>,
    feed_forward: Layers,
    factor: f32,
    feed_forward_norm: NormLayer,
}

impl EmbeddingLayer {
    pub(super) fn new(builder: &Builder<'_>) -> Self {
        let architecture = builder.architecture();
        let width = architecture.body.width;
        match (&architecture.embedding, architecture.input.channels()) {
            (Embedding::Positions, None) => {
                let mut table = copied(builder.tensor("embedding.table"));
                table.iter_mut().for_each(|number| *number *= (width as f32).sqrt());
                Self::Tokens { table, positions: copied(builder.tensor("embedding.positions")) }
            }
            (Embedding::Positions, Some(channels)) => Self::Squares {
                squares: builder.linear("embedding.squares", channels),
                positions: copied(builder.tensor("embedding.positions")),
            },
            (Embedding::DenseBoard(board), channels) => {
                let activation = architecture.body.activation;
                Self::Board(Box::new(BoardLayer {
                    board: builder.linear("embedding.board", SQUARES * PIECE_CHANNELS),
                    squares: builder.linear("embedding.squares", channels.unwrap_or(0) + board.channels),
                    activation,
                    norm: builder.norm("embedding.norm"),
                    gate_scale: copied(builder.tensor("embedding.gate.scale")),
                    gate_offset: copied(builder.tensor("embedding.gate.offset")),
                    feed_forward: Layers::new(builder, "embedding.feed_forward", board.feed_forward, false),
                    factor: architecture.branch_factor(),
                    feed_forward_norm: builder.norm("embedding.feed_forward_norm"),
                }))
            }
        }
    }

    /// Makes the rows of the sequences that are planned.
    pub(super) fn apply(&self, kernels: &Kernels, inputs: &Inputs<'_>, rows: &mut Rows) {
        let len = rows.count * rows.width;
        rows.x.room(len);
        match (self, inputs) {
            (Self::Tokens { table, positions }, Inputs::Text { tokens, actions }) => {
                embed_text(table, positions, tokens, actions, rows);
            }
            (Self::Squares { squares, positions }, Inputs::Squares(numbers)) => {
                let numbers = of_group(numbers, squares.inputs(), rows);
                squares.apply(kernels, numbers, &mut rows.prepared, Store::Set, &mut rows.x[..len]);
                for board in rows.x_mut().chunks_exact_mut(positions.len()) {
                    add(board, positions);
                }
            }
            (Self::Board(layer), Inputs::Squares(numbers)) => {
                let own = Some(of_group(numbers, layer.channels(), rows));
                layer.apply(kernels, own, None, rows);
            }
            (Self::Board(layer), Inputs::Coded { squares, codes }) => {
                let own = Some(of_group(squares, layer.channels(), rows));
                layer.apply(kernels, own, Some(of_group(codes, layer.made(), rows)), rows);
            }
            (Self::Board(layer), Inputs::Codes(codes)) => {
                layer.apply(kernels, None, Some(of_group(codes, layer.made(), rows)), rows);
            }
            // Inputs are checked before they come here.
            _ => {}
        }
    }
}

/// The numbers of the squares that are planned.
fn of_group<'a>(numbers: &'a [f32], channels: usize, rows: &Rows) -> &'a [f32] {
    let first = rows.sequences.first().map_or(0, |sequence| sequence.position);
    &numbers[first * SQUARES * channels..][..rows.count * channels]
}

fn add(to: &mut [f32], numbers: &[f32]) {
    for (to, number) in to.iter_mut().zip(numbers) {
        *to += number;
    }
}

fn embed_text(table: &[f32], positions: &[f32], tokens: &[u16], actions: &[&[u16]], rows: &mut Rows) {
    let Rows { x, sequences, width, .. } = rows;
    let width = *width;
    let mut put = |row: usize, token: u16, place: usize| {
        let to = &mut x[row * width..][..width];
        to.copy_from_slice(&table[usize::from(token) * width..][..width]);
        add(to, &positions[place * width..][..width]);
    };
    for sequence in sequences {
        let board = &tokens[sequence.position * TEXT_TOKENS..][..TEXT_TOKENS];
        for (place, &token) in board.iter().enumerate() {
            put(sequence.tokens.start + place, token, place);
        }
        if let Some(action) = sequence.action {
            put(sequence.tokens.end - 1, actions[sequence.position][action], TEXT_TOKENS);
        }
        for (index, row) in sequence.moves.clone().enumerate() {
            put(row, actions[sequence.position][index], TEXT_TOKENS);
        }
    }
}

impl BoardLayer {
    /// Numbers that the layer over the whole board makes for each square.
    fn made(&self) -> usize {
        self.board.outputs() / SQUARES
    }

    /// Numbers that each square has of its own.
    fn channels(&self) -> usize {
        self.squares.inputs() - self.made()
    }

    /// Embeds squares with their own numbers, with a code of somebody else's, or with both.
    fn apply(&self, kernels: &Kernels, own: Option<&[f32]>, code: Option<&[f32]>, rows: &mut Rows) {
        let (made, channels) = (self.made(), self.channels());
        let joined = made + channels;
        let len = rows.count * rows.width;
        let Rows { x, prepared, embedding, feed_forward, count, .. } = rows;
        let x = &mut x[..len];
        // 1. The pieces of the whole board, and what else is known of it.
        let board = embedding.board.room(*count * made);
        if let Some(own) = own {
            let pieces = embedding.pieces.room(*count * PIECE_CHANNELS);
            for (to, from) in pieces.chunks_exact_mut(PIECE_CHANNELS).zip(own.chunks_exact(channels)) {
                to.copy_from_slice(&from[..PIECE_CHANNELS]);
            }
            self.board.apply(kernels, pieces, prepared, Store::Set, board);
        } else {
            board.fill(0.0);
        }
        if let Some(code) = code {
            add(board, code);
        }
        // 2. All that, after each square's own numbers.
        let squares = embedding.joined.room(*count * joined);
        for (index, to) in squares.chunks_exact_mut(joined).enumerate() {
            let (of_square, of_board) = to.split_at_mut(channels);
            match own {
                Some(own) => of_square.copy_from_slice(&own[index * channels..][..channels]),
                None => of_square.fill(0.0),
            }
            of_board.copy_from_slice(&board[index * made..][..made]);
        }
        self.squares.apply(kernels, squares, prepared, Store::Activate(self.activation), x);
        self.norm.apply(kernels, x);
        // 3. Gates for each square.
        for board in x.chunks_exact_mut(self.gate_scale.len()) {
            let gates = self.gate_scale.iter().zip(self.gate_offset.iter());
            for (number, (scale, offset)) in board.iter_mut().zip(gates) {
                *number = *number * scale + offset;
            }
        }
        // 4. A feed-forward layer.
        let store = Store::Add(self.factor);
        self.feed_forward.apply(kernels, None, prepared, &mut feed_forward.hidden, store, x);
        self.feed_forward_norm.apply(kernels, x);
    }
}
