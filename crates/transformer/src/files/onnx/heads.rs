//! The output heads as ONNX operators. Every output has the name of its head.

use super::graph::{Attribute, Graph, Value};
use crate::architecture::{SQUARES, VOCABULARY};
use crate::{PolicyKind, ValueHead};
use tandem_chess::move_map::lc0;

/// Promotion logits: from eight files to eight files, to queen, rook and bishop.
const PROMOTIONS: usize = 8 * 8 * 3;
/// Squares of the seventh and eighth rank.
const SEVENTH: std::ops::Range<usize> = 48..56;
const EIGHTH: std::ops::Range<usize> = 56..64;

impl Graph<'_> {
    /// Computes and declares all outputs.
    pub(super) fn heads(&mut self, rows: &Value) {
        let architecture = self.weights.architecture();
        let heads = &architecture.heads;
        let of_text = [
            ("action_value", heads.action_value.map(|head| head.buckets)),
            ("state_value", heads.state_value.map(|head| head.buckets)),
            (
                "policy",
                heads.policy.as_ref().filter(|head| head.kind == PolicyKind::Actions).map(|_| VOCABULARY),
            ),
        ];
        for (name, size) in of_text {
            if let Some(size) = size {
                let place = self.int(architecture.tokens() as i64 - 1);
                let last = self.op("Gather", &[rows, &place], &[Attribute::Int("axis", 1)]);
                let logits = self.linear(&last, name);
                self.output(name, &logits, size);
            }
        }
        if let Some(head) = heads.policy.as_ref().filter(|head| head.kind == PolicyKind::Attention) {
            let squares = self.linear_activated(rows, "policy.squares");
            for name in std::iter::once("policy").chain(head.aux_targets.iter().map(|target| target.name())) {
                let logits = self.pairs(&squares, name, head.width);
                self.output(name, &logits, lc0::COUNT);
            }
        }
        for (name, head) in heads.values() {
            if let Some(head) = head {
                self.value(rows, name, &head);
            }
        }
        if let Some(head) = heads.moves_left {
            let board = self.compressed(rows, "moves_left", head.channels);
            let plies = self.linear(&board, "moves_left.plies");
            let plies = self.op("Relu", &[&plies], &[]);
            self.output("moves_left", &plies, 1);
        }
        if let Some(head) = heads.move_value {
            let squares = self.linear_activated(rows, "move_value.squares");
            let logits = self.pairs(&squares, "move_value", head.width);
            let values = self.op("Tanh", &[&logits], &[]);
            self.output("move_value", &values, lc0::COUNT);
        }
    }

    /// Compresses every square to a few channels, and then the board to a hidden vector.
    fn compressed(&mut self, rows: &Value, name: &str, channels: usize) -> Value {
        let squares = self.linear_activated(rows, &format!("{name}.squares"));
        let squares = self.reshape(&squares, &[SQUARES * channels]);
        self.linear_activated(&squares, &format!("{name}.board"))
    }

    fn value(&mut self, rows: &Value, name: &str, head: &ValueHead) {
        let board = self.compressed(rows, name, head.channels);
        let wdl = self.linear(&board, &format!("{name}.wdl"));
        self.output(&format!("{name}.wdl"), &wdl, 3);
        if head.error {
            let error = self.linear(&board, &format!("{name}.error"));
            let error = self.op("Sigmoid", &[&error], &[]);
            self.output(&format!("{name}.error"), &error, 1);
        }
        if head.buckets > 0 {
            let buckets = self.linear(&board, &format!("{name}.buckets"));
            self.output(&format!("{name}.buckets"), &buckets, head.buckets);
        }
    }

    /// Logits of lc0's moves from pairs of squares.
    fn pairs(&mut self, squares: &Value, name: &str, width: usize) -> Value {
        let query = self.linear(squares, &format!("{name}.query"));
        let key = self.linear(squares, &format!("{name}.key"));
        let turned = self.transpose(&key, &[0, 2, 1]);
        let query = self.scale(&query, 1.0 / (width as f32).sqrt());
        let logits = self.op("MatMul", &[&query, &turned], &[]);
        // 1. Offsets of promotions relative to the knight's, by the square of arrival.
        let arrivals = self.slice(&key, 1, EIGHTH);
        let offsets = self.linear(&arrivals, &format!("{name}.promotion"));
        let others = self.slice(&offsets, 2, 0..3);
        let knight = self.slice(&offsets, 2, 3..4);
        let offsets = self.op("Add", &[&others, &knight], &[]);
        let offsets = self.unsqueeze(&offsets, 1);
        // 2. Promotion logits.
        let last = self.slice(&logits, 1, SEVENTH);
        let last = self.slice(&last, 2, EIGHTH);
        let last = self.unsqueeze(&last, 3);
        let promotions = self.op("Add", &[&last, &offsets], &[]);
        let promotions = self.reshape(&promotions, &[PROMOTIONS]);
        // 3. Gather lc0's moves.
        let logits = self.reshape(&logits, &[SQUARES * SQUARES]);
        let all = self.op("Concat", &[&logits, &promotions], &[Attribute::Int("axis", 1)]);
        let indices: Vec<i64> = lc0::PolicyIndex::all().map(logit_index).collect();
        let indices = self.ints(&indices);
        self.op("Gather", &[&all, &indices], &[Attribute::Int("axis", 1)])
    }
}

/// Index of a move's logit: among those of pairs of squares, or after them among those of promotions.
fn logit_index(index: lc0::PolicyIndex) -> i64 {
    let (from, to, piece) = lc0::parts_of(index);
    let place = match piece {
        None => from as usize * SQUARES + to as usize,
        Some(piece) => SQUARES * SQUARES + 24 * from.file() as usize + 3 * to.file() as usize + piece,
    };
    place as i64
}
