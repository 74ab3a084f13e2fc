//! The embedding and the transformer blocks as ONNX operators.

use super::graph::{Attribute, Graph, Value};
use crate::architecture::{PIECE_CHANNELS, SMOLGEN_EPSILON, SQUARES, TEXT_TOKENS};
use crate::{Attention, Embedding, Experts, FeedForward, Mask, NormKind, NormPlace, Smolgen};

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
        let rows = self.branch(&rows, name, "attention_norm", Self::attention);
        self.branch(&rows, name, "feed_forward_norm", Self::mix)
    }

    fn branch(
        &mut self,
        rows: &Value,
        name: &str,
        norm: &str,
        made: fn(&mut Self, &Value, &str) -> Value,
    ) -> Value {
        let norm = format!("{name}.{norm}");
        match self.weights.architecture().body.norm.place {
            NormPlace::Pre => {
                let normed = self.norm(rows, &norm);
                let made = made(self, &normed, name);
                self.add_residual(rows, &made)
            }
            NormPlace::Post => {
                let made = made(self, rows, name);
                let rows = self.add_residual(rows, &made);
                self.norm(&rows, &norm)
            }
        }
    }

    fn attention(&mut self, rows: &Value, name: &str) -> Value {
        let architecture = self.weights.architecture();
        let (body, tokens) = (&architecture.body, architecture.tokens());
        let depth = body.width / body.heads;
        let mut of_heads = |part: &str, order: &[i64]| {
            let made = self.linear(rows, &format!("{name}.attention.{part}"));
            let made = self.reshape(&made, &[tokens, body.heads, depth]);
            self.transpose(&made, order)
        };
        let query = of_heads("query", &[0, 2, 1, 3]);
        let key = of_heads("key", &[0, 2, 3, 1]);
        let value = of_heads("value", &[0, 2, 1, 3]);
        let query = self.scale(&query, 1.0 / (depth as f32).sqrt());
        let mut logits = self.op("MatMul", &[&query, &key], &[]);
        let added = match &body.attention {
            Attention::Plain { .. } => None,
            Attention::Bias { .. } => Some(self.tensor(&format!("{name}.attention.pairs"))),
            Attention::Smolgen(smolgen) => Some(self.smolgen(rows, &format!("{name}.smolgen"), smolgen)),
        };
        let attention_mask = (body.mask == Mask::Prefix).then(|| self.attention_mask(tokens));
        for more in added.iter().chain(&attention_mask) {
            logits = self.op("Add", &[&logits, more], &[]);
        }
        let weights = self.op("Softmax", &[&logits], &[Attribute::Int("axis", -1)]);
        let attended = self.op("MatMul", &[&weights, &value], &[]);
        let attended = self.transpose(&attended, &[0, 2, 1, 3]);
        let attended = self.reshape(&attended, &[tokens, body.width]);
        self.linear(&attended, &format!("{name}.attention.out"))
    }

    /// Attention mask as logits to add: the position does not attend to the move, which is the last token.
    fn attention_mask(&mut self, tokens: usize) -> Value {
        let last = tokens - 1;
        let pair = |index: usize| index % tokens == last && index / tokens != last;
        let logits: Vec<f32> =
            (0..tokens * tokens).map(|index| if pair(index) { MASKED_LOGIT } else { 0.0 }).collect();
        self.floats(&[tokens, tokens], &logits)
    }

    fn smolgen(&mut self, rows: &Value, name: &str, sizes: &Smolgen) -> Value {
        let heads = self.weights.architecture().body.heads;
        let compressed = self.linear(rows, &format!("{name}.squares"));
        let mut made = self.reshape(&compressed, &[SQUARES * sizes.compressed]);
        for part in ["board", "heads"] {
            made = self.linear(&made, &format!("{name}.{part}"));
            made = self.activate(&made, sizes.activation);
            made = self.norm_of(&made, &format!("{name}.{part}_norm"), NormKind::Layer, SMOLGEN_EPSILON);
        }
        let made = self.reshape(&made, &[heads, sizes.generated]);
        let logits = self.linear(&made, "smolgen.generator");
        self.reshape(&logits, &[heads, SQUARES, SQUARES])
    }

    fn feed_forward(&mut self, rows: &Value, name: &str) -> Value {
        let mut hidden = self.linear_activated(rows, &format!("{name}.in"));
        if self.weights.get(&format!("{name}.gate.weight")).is_some() {
            let gate = self.linear(rows, &format!("{name}.gate"));
            hidden = self.op("Mul", &[&hidden, &gate], &[]);
        }
        self.linear(&hidden, &format!("{name}.out"))
    }

    fn mix(&mut self, rows: &Value, name: &str) -> Value {
        match &self.weights.architecture().body.feed_forward {
            FeedForward::Experts(experts) => self.experts(rows, name, experts),
            _ => self.feed_forward(rows, &format!("{name}.feed_forward")),
        }
    }

    /// Mixture of experts: all experts compute all tokens, and those that were not chosen are multiplied by
    /// zero.
    fn experts(&mut self, rows: &Value, name: &str, experts: &Experts) -> Value {
        let logits = self.linear(rows, &format!("{name}.router"));
        let chosen = self.ints(&[experts.chosen as i64]);
        let [best, which] =
            self.op_with_two_outputs("TopK", &[&logits, &chosen], &[Attribute::Int("axis", -1)]);
        let weights = self.op("Softmax", &[&best], &[Attribute::Int("axis", -1)]);
        let zeros = self.scale(&logits, 0.0);
        let gates = self.op("ScatterElements", &[&zeros, &which, &weights], &[Attribute::Int("axis", 2)]);
        let mut sum = None;
        for expert in 0..experts.count {
            let made = self.feed_forward(rows, &format!("{name}.experts.{expert}"));
            let gate = self.slice(&gates, 2, expert..expert + 1);
            let made = self.op("Mul", &[&made, &gate], &[]);
            sum = Some(match sum {
                None => made,
                Some(sum) => self.op("Add", &[&sum, &made], &[]),
            });
        }
        // There is at least one expert.
        sum.unwrap_or(zeros)
    }
}
