//! Output heads: policy, values, moves left and values of moves.

use super::{Pass, SQUARES};
use std::collections::BTreeMap;
use tandem_chess::move_map::lc0;
use tandem_transformer::{PolicyHead, PolicyKind};
use tch::Tensor;

/// Index of each of lc0's 1858 moves among the 64 x 64 pairs of squares and, after them, the promotions by
/// file of departure, file of arrival and piece.
pub(super) fn move_indices() -> Vec<i64> {
    let index_of = |index| {
        let (from, to, piece) = lc0::parts_of(index);
        match piece {
            None => from as i64 * SQUARES + to as i64,
            Some(piece) => SQUARES * SQUARES + 24 * from.file() as i64 + 3 * to.file() as i64 + piece as i64,
        }
    };
    lc0::PolicyIndex::all().map(index_of).collect()
}

impl Pass<'_> {
    pub(super) fn text_heads(&self, last: &Tensor) -> BTreeMap<String, Tensor> {
        let heads = &self.architecture().heads;
        let has = [
            ("action_value", heads.action_value.is_some()),
            ("state_value", heads.state_value.is_some()),
            ("policy", heads.policy.is_some()),
        ];
        let present = has.into_iter().filter(|(_, present)| *present);
        present.map(|(name, _)| (name.to_owned(), self.linear(last, name))).collect()
    }

    pub(super) fn square_heads(&self, x: &Tensor) -> BTreeMap<String, Tensor> {
        let heads = &self.architecture().heads;
        let mut outputs = BTreeMap::new();
        if let Some(PolicyHead { kind: PolicyKind::Attention, aux_targets, .. }) = &heads.policy {
            let squares = self.linear_activation(x, "policy.squares");
            outputs.insert("policy".into(), self.move_logits(&squares, "policy"));
            for target in aux_targets {
                outputs.insert(target.name().into(), self.move_logits(&squares, target.name()));
            }
        }
        for (name, head) in heads.values() {
            let Some(head) = head else { continue };
            let board = self.board_vector(x, name);
            let mut insert = |part: &str, values: Tensor| outputs.insert(format!("{name}.{part}"), values);
            insert("wdl", self.linear(&board, &format!("{name}.wdl")));
            if head.error {
                insert("error", self.linear(&board, &format!("{name}.error")).sigmoid());
            }
            if head.buckets > 0 {
                insert("buckets", self.linear(&board, &format!("{name}.buckets")));
            }
        }
        if heads.moves_left.is_some() {
            let plies = self.linear(&self.board_vector(x, "moves_left"), "moves_left.plies");
            outputs.insert("moves_left".into(), plies.relu());
        }
        if heads.move_value.is_some() {
            let squares = self.linear_activation(x, "move_value.squares");
            outputs.insert("move_value".into(), self.move_logits(&squares, "move_value").tanh());
        }
        outputs
    }

    /// A few values of each square, then one vector of the whole board.
    fn board_vector(&self, x: &Tensor, name: &str) -> Tensor {
        let squares = self.linear_activation(x, &format!("{name}.squares"));
        self.linear_activation(&squares.reshape([x.size()[0], -1]), &format!("{name}.board"))
    }

    /// A logit for each of lc0's moves, from the dot products of pairs of squares.
    fn move_logits(&self, squares: &Tensor, name: &str) -> Tensor {
        let query = self.linear(squares, &format!("{name}.query"));
        let key = self.linear(squares, &format!("{name}.key"));
        let (batch, width) = (query.size()[0], query.size()[2]);
        let logits = query.matmul(&key.transpose(1, 2)) / (width as f64).sqrt();
        // Offsets of promotions to queen, rook and bishop relative to that to a knight, by the square of
        // arrival.
        let offsets = self.linear(&key.narrow(1, 56, 8), &format!("{name}.promotion"));
        let offsets = offsets.narrow(2, 0, 3) + offsets.narrow(2, 3, 1);
        let knight_promotions = logits.narrow(1, 48, 8).narrow(2, 56, 8);
        let promotions = (knight_promotions.unsqueeze(3) + offsets.unsqueeze(1)).reshape([batch, -1]);
        Tensor::cat(&[logits.reshape([batch, -1]), promotions], 1).index_select(1, &self.model.move_indices)
    }
}
