//! Embedding layers: from the input to one vector for each token.

use super::builder::Builder;
use super::norm::NormLayer;
use super::scratch::TokenBatch;
use super::{Inputs, copied};
use crate::aligned::Aligned;
use crate::architecture::{PIECE_CHANNELS, SQUARES, TEXT_TOKENS};
use crate::blocks::Layers;
use crate::kernels::{Epilogue, Kernels};
use crate::linear::Linear;
use crate::{Activation, Embedding};

#[derive(Debug)]
pub(super) enum EmbeddingLayer {
    /// A table of tokens, already multiplied by the square root of the width, and one of sequence positions.
    Tokens { table: Aligned<f32>, positions: Aligned<f32> },
    /// A linear layer on the channels of each square, and a learned vector for each.
    Squares { squares: Linear, positions: Aligned<f32> },
    /// BT3's dense-board embedding.
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

    /// Embeds the tokens of the planned sequences.
    pub(super) fn apply(&self, kernels: &Kernels, inputs: &Inputs<'_>, batch: &mut TokenBatch) {
        let len = batch.count * batch.width;
        batch.x.buffer(len);
        match (self, inputs) {
            (Self::Tokens { table, positions }, Inputs::Text { tokens, actions }) => {
                embed_text(table, positions, tokens, actions, batch);
            }
            (Self::Squares { squares, positions }, Inputs::Squares(values)) => {
                let values = planned_part(values, squares.inputs(), batch);
                squares.apply(kernels, values, &mut batch.prepared, Epilogue::Assign, &mut batch.x[..len]);
                for board in batch.x_mut().chunks_exact_mut(positions.len()) {
                    add(board, positions);
                }
            }
            (Self::Board(layer), Inputs::Squares(values)) => {
                let own = Some(planned_part(values, layer.channels(), batch));
                layer.apply(kernels, own, None, batch);
            }
            (Self::Board(layer), Inputs::Coded { squares, codes }) => {
                let own = Some(planned_part(squares, layer.channels(), batch));
                layer.apply(kernels, own, Some(planned_part(codes, layer.board_channels(), batch)), batch);
            }
            (Self::Board(layer), Inputs::Codes(codes)) => {
                layer.apply(kernels, None, Some(planned_part(codes, layer.board_channels(), batch)), batch);
            }
            // [`Inputs::check`] has refused all other combinations.
            _ => {}
        }
    }
}

/// The part of the input that belongs to the planned sequences.
fn planned_part<'a>(values: &'a [f32], channels: usize, batch: &TokenBatch) -> &'a [f32] {
    let first = batch.sequences.first().map_or(0, |sequence| sequence.position);
    &values[first * SQUARES * channels..][..batch.count * channels]
}

fn add(to: &mut [f32], values: &[f32]) {
    for (to, number) in to.iter_mut().zip(values) {
        *to += number;
    }
}

fn embed_text(table: &[f32], positions: &[f32], tokens: &[u16], actions: &[&[u16]], batch: &mut TokenBatch) {
    let TokenBatch { x, sequences, width, .. } = batch;
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
    /// Outputs of the dense-board layer for each square.
    fn board_channels(&self) -> usize {
        self.board.outputs() / SQUARES
    }

    fn channels(&self) -> usize {
        self.squares.inputs() - self.board_channels()
    }

    /// Embeds squares from their input channels, from an external board code, or from both.
    fn apply(&self, kernels: &Kernels, own: Option<&[f32]>, code: Option<&[f32]>, batch: &mut TokenBatch) {
        let (board_channels, channels) = (self.board_channels(), self.channels());
        let joined = board_channels + channels;
        let len = batch.count * batch.width;
        let TokenBatch { x, prepared, embedding, feed_forward, count, .. } = batch;
        let x = &mut x[..len];
        // 1. The board code: the dense layer over all pieces, plus the external code.
        let board = embedding.board.buffer(*count * board_channels);
        if let Some(own) = own {
            let pieces = embedding.pieces.buffer(*count * PIECE_CHANNELS);
            for (to, from) in pieces.chunks_exact_mut(PIECE_CHANNELS).zip(own.chunks_exact(channels)) {
                to.copy_from_slice(&from[..PIECE_CHANNELS]);
            }
            self.board.apply(kernels, pieces, prepared, Epilogue::Assign, board);
        } else {
            board.fill(0.0);
        }
        if let Some(code) = code {
            add(board, code);
        }
        // 2. Concatenate the channels of each square and its part of the board code.
        let squares = embedding.joined.buffer(*count * joined);
        for (index, to) in squares.chunks_exact_mut(joined).enumerate() {
            let (of_square, of_board) = to.split_at_mut(channels);
            match own {
                Some(own) => of_square.copy_from_slice(&own[index * channels..][..channels]),
                None => of_square.fill(0.0),
            }
            of_board.copy_from_slice(&board[index * board_channels..][..board_channels]);
        }
        self.squares.apply(kernels, squares, prepared, Epilogue::Activate(self.activation), x);
        self.norm.apply(kernels, x);
        // 3. Scale and offset of each square (gates).
        for board in x.chunks_exact_mut(self.gate_scale.len()) {
            let gates = self.gate_scale.iter().zip(self.gate_offset.iter());
            for (number, (scale, offset)) in board.iter_mut().zip(gates) {
                *number = *number * scale + offset;
            }
        }
        // 4. The feed-forward layer.
        let epilogue = Epilogue::AddScaled(self.factor);
        self.feed_forward.apply(kernels, None, prepared, &mut feed_forward.hidden, epilogue, x);
        self.feed_forward_norm.apply(kernels, x);
    }
}
