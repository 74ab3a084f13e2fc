//! What is read off at the end.

use super::{Pass, SQUARES};
use std::collections::BTreeMap;
use tandem_chess::move_map::lc0;
use tandem_transformer::{PolicyHead, PolicyKind};
use tch::Tensor;

/// Where each of lc0's 1858 moves stands among 64 x 64 pairs of squares and, after them, promotions by the files that
/// they leave and reach and what they become.
pub(super) fn places_of_moves() -> Vec<i64> {
    let place = |index| {
        let (from, to, piece) = lc0::parts_of(index);
        match piece {
            None => from as i64 * SQUARES + to as i64,
            Some(piece) => SQUARES * SQUARES + 24 * from.file() as i64 + 3 * to.file() as i64 + piece as i64,
        }
    };
    lc0::PolicyIndex::all().map(place).collect()
}

impl Pass<'_> {
    pub(super) fn text_heads(&self, last: &Tensor) -> BTreeMap<String, Tensor> {
        let heads = &self.architecture().heads;
        let has = [
            ("action_value", heads.action_value.is_some()),
            ("state_value", heads.state_value.is_some()),
            ("policy", heads.policy.is_some()),
        ];
        let there = has.into_iter().filter(|(_, there)| *there);
        there.map(|(name, _)| (name.to_owned(), self.linear(last, name))).collect()
    }

    pub(super) fn square_heads(&self, x: &Tensor) -> BTreeMap<String, Tensor> {
        let heads = &self.architecture().heads;
        let mut said = BTreeMap::new();
        if let Some(PolicyHead { kind: PolicyKind::Attention, beside, .. }) = &heads.policy {
            let squares = self.bent_linear(x, "policy.squares");
            said.insert("policy".into(), self.pairs(&squares, "policy"));
            for target in beside {
                said.insert(target.name().into(), self.pairs(&squares, target.name()));
            }
        }
        for (name, head) in heads.values() {
            let Some(head) = head else { continue };
            let board = self.pressed(x, name);
            let mut say = |part: &str, numbers: Tensor| said.insert(format!("{name}.{part}"), numbers);
            say("wdl", self.linear(&board, &format!("{name}.wdl")));
            if head.error {
                say("error", self.linear(&board, &format!("{name}.error")).sigmoid());
            }
            if head.buckets > 0 {
                say("buckets", self.linear(&board, &format!("{name}.buckets")));
            }
        }
        if heads.moves_left.is_some() {
            let plies = self.linear(&self.pressed(x, "moves_left"), "moves_left.plies");
            said.insert("moves_left".into(), plies.relu());
        }
        if heads.move_value.is_some() {
            let squares = self.bent_linear(x, "move_value.squares");
            said.insert("move_value".into(), self.pairs(&squares, "move_value").tanh());
        }
        said
    }

    /// Each square in a few numbers, and the board in a few more.
    fn pressed(&self, x: &Tensor, name: &str) -> Tensor {
        let squares = self.bent_linear(x, &format!("{name}.squares"));
        self.bent_linear(&squares.reshape([x.size()[0], -1]), &format!("{name}.board"))
    }

    /// A number for each of lc0's moves, from pairs of squares.
    fn pairs(&self, squares: &Tensor, name: &str) -> Tensor {
        let query = self.linear(squares, &format!("{name}.query"));
        let key = self.linear(squares, &format!("{name}.key"));
        let (batch, width) = (query.size()[0], query.size()[2]);
        let logits = query.matmul(&key.transpose(1, 2)) / (width as f64).sqrt();
        // What a promotion to queen, rook or bishop adds to that to a knight, by the square of arrival.
        let offsets = self.linear(&key.narrow(1, 56, 8), &format!("{name}.promotion"));
        let offsets = offsets.narrow(2, 0, 3) + offsets.narrow(2, 3, 1);
        let moves = logits.narrow(1, 48, 8).narrow(2, 56, 8);
        let promotions = (moves.unsqueeze(3) + offsets.unsqueeze(1)).reshape([batch, -1]);
        Tensor::cat(&[logits.reshape([batch, -1]), promotions], 1).index_select(1, &self.model.moves)
    }
}
