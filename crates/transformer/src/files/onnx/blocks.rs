//! The embedding and the transformer blocks as ONNX operators.

use super::graph::{Attribute, Graph, Value};
use crate::architecture::{PIECE_CHANNELS, SQUARES, TEXT_TOKENS};
use crate::{Embedding, NormPlace};

/// Added to the attention logit of a masked pair, so that its softmax weight is zero.
const MASKED_LOGIT: f32 = -1e9;

impl Graph<'_> {
    /// Declares the input and embeds it.
    pub(super) fn embedding(&mut self) -> Value {
        let architecture = self.weights.architecture();
        match (&architecture.embedding, architecture.input.channels()) {
            (_, None) => self.embed_text(),
            (Embedding::Positions, Some(channels)) => {
                let squares = self.float_input("squares", &[SQUARES, channels]);
                let rows = self.linear(&squares, "embedding.squares");
                let positions = self.tensor("embedding.positions");
                self.op("Add", &[&rows, &positions], &[])
            }
            (Embedding::DenseBoard(board), Some(channels)) => {
                let squares = self.float_input("squares", &[SQUARES, channels]);
                self.embed_board(&squares, board.channels)
            }
        }
    }

    fn embed_text(&mut self) -> Value {
        let mut tokens = self.int_input("tokens", &[TEXT_TOKENS]);
        if self.weights.architecture().heads.action_value.is_some() {
            let action = self.int_input("action", &[]);
            let action = self.unsqueeze(&action, 1);
            tokens = self.op("Concat", &[&tokens, &action], &[Attribute::Int("axis", 1)]);
        }
        let (shape, values) = self.stored("embedding.table");
        let root = (self.weights.architecture().body.width as f32).sqrt();
        let scaled: Vec<f32> = values.iter().map(|number| number * root).collect();
        let table = self.floats(&shape, &scaled);
        let rows = self.op("Gather", &[&table, &tokens], &[Attribute::Int("axis", 0)]);
        let positions = self.tensor("embedding.positions");
        self.op("Add", &[&rows, &positions], &[])
    }

    fn embed_board(&mut self, squares: &Value, channels: usize) -> Value {
        let pieces = self.slice(squares, 2, 0..PIECE_CHANNELS);
        let pieces = self.reshape(&pieces, &[SQUARES * PIECE_CHANNELS]);
        let board = self.linear(&pieces, "embedding.board");
        let board = self.reshape(&board, &[SQUARES, channels]);
        let joined = self.op("Concat", &[squares, &board], &[Attribute::Int("axis", 2)]);
        let rows = self.linear_activated(&joined, "embedding.squares");
        let rows = self.norm(&rows, "embedding.norm");
        let scale = self.tensor("embedding.gate.scale");
        let offset = self.tensor("embedding.gate.offset");
        let rows = self.op("Mul", &[&rows, &scale], &[]);
        let rows = self.op("Add", &[&rows, &offset], &[]);
        let made = self.feed_forward(&rows, "embedding.feed_forward");
        let rows = self.add_residual(&rows, &made);
        self.norm(&rows, "embedding.feed_forward_norm")
    }

    /// Adds a branch to the residual stream.
    fn add_residual(&mut self, rows: &Value, branch: &Value) -> Value {
        let factor = self.weights.architecture().branch_factor();
        if factor == 1.0 {
            return self.op("Add", &[rows, branch], &[]);
        }
        let branch = self.scale(branch, factor);
        self.op("Add", &[rows, &branch], &[])
    }

    /// A block: attention and the feed-forward layer, each as a residual branch.
    pub(super) fn block(&mut self, rows: Value, name: &str) -> Value {
        let body = &self.weights.architecture().body;
        let rows = self.branch(&rows, &format!("{name}.attention_norm"), |graph, rows| {
            body.attention.onnx(graph, rows, name)
        });
        self.branch(&rows, &format!("{name}.feed_forward_norm"), |graph, rows| {
            body.feed_forward.onnx(graph, rows, name)
        })
    }

    fn branch(&mut self, rows: &Value, norm: &str, made: impl Fn(&mut Self, &Value) -> Value) -> Value {
        match self.weights.architecture().body.norm.place {
            NormPlace::Pre => {
                let normed = self.norm(rows, norm);
                let made = made(self, &normed);
                self.add_residual(rows, &made)
            }
            NormPlace::Post => {
                let made = made(self, rows);
                let rows = self.add_residual(rows, &made);
                self.norm(&rows, norm)
            }
        }
    }

    /// Attention mask as logits to add: the position does not attend to the move, which is the last token.
    pub(crate) fn attention_mask(&mut self, tokens: usize) -> Value {
        let last = tokens - 1;
        let pair = |index: usize| index % tokens == last && index / tokens != last;
        let logits: Vec<f32> =
            (0..tokens * tokens).map(|index| if pair(index) { MASKED_LOGIT } else { 0.0 }).collect();
        self.floats(&[tokens, tokens], &logits)
    }

    /// Two linear layers, or three with a gate.
    pub(crate) fn feed_forward(&mut self, rows: &Value, name: &str) -> Value {
        let mut hidden = self.linear_activated(rows, &format!("{name}.in"));
        if self.weights.get(&format!("{name}.gate.weight")).is_some() {
            let gate = self.linear(rows, &format!("{name}.gate"));
            hidden = self.op("Mul", &[&hidden, &gate], &[]);
        }
        self.linear(&hidden, &format!("{name}.out"))
    }
}
