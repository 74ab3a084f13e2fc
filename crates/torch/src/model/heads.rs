//! Output heads: policy, values, moves left and values of moves.

use super::tensors::{BoardVector, ModelTensors, MoveLogits};
use super::{Pass, SQUARES};
use std::collections::BTreeMap;
use tandem_chess::move_map::lc0;
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
        let heads = self.model.tensors.text_heads.iter();
        heads.map(|(name, layer)| ((*name).to_owned(), self.linear(last, layer))).collect()
    }

    pub(super) fn square_heads(&self, x: &Tensor) -> BTreeMap<String, Tensor> {
        let ModelTensors { policy, values, moves_left, move_value, .. } = &self.model.tensors;
        let mut outputs = BTreeMap::new();
        if let Some(policy) = policy {
            let squares = self.linear_activation(x, &policy.squares);
            for (name, logits) in &policy.targets {
                outputs.insert((*name).to_owned(), self.move_logits(&squares, logits));
            }
        }
        for (name, head) in values {
            let board = self.board_vector(x, &head.vector);
            let mut insert = |part: &str, values: Tensor| outputs.insert(format!("{name}.{part}"), values);
            insert("wdl", self.linear(&board, &head.wdl));
            if let Some(error) = &head.error {
                insert("error", self.linear(&board, error).sigmoid());
            }
            if let Some(buckets) = &head.buckets {
                insert("buckets", self.linear(&board, buckets));
            }
        }
        if let Some(head) = moves_left {
            let plies = self.linear(&self.board_vector(x, &head.vector), &head.plies);
            outputs.insert("moves_left".into(), plies.relu());
        }
        if let Some(head) = move_value {
            let squares = self.linear_activation(x, &head.squares);
            outputs.insert("move_value".into(), self.move_logits(&squares, &head.logits).tanh());
        }
        outputs
    }

    /// A few values of each square, then one vector of the whole board.
    fn board_vector(&self, x: &Tensor, tensors: &BoardVector) -> Tensor {
        let squares = self.linear_activation(x, &tensors.squares);
        self.linear_activation(&squares.reshape([x.size()[0], -1]), &tensors.board)
    }

    /// A logit for each of lc0's moves, from the dot products of pairs of squares.
    fn move_logits(&self, squares: &Tensor, tensors: &MoveLogits) -> Tensor {
        let query = self.linear(squares, &tensors.query);
        let key = self.linear(squares, &tensors.key);
        let (batch, width) = (query.size()[0], query.size()[2]);
        let logits = query.matmul(&key.transpose(1, 2)) / (width as f64).sqrt();
        // Offsets of promotions to queen, rook and bishop relative to that to a knight, by the square of
        // arrival.
        let offsets = self.linear(&key.narrow(1, 56, 8), &tensors.promotion);
        let offsets = offsets.narrow(2, 0, 3) + offsets.narrow(2, 3, 1);
        let knight_promotions = logits.narrow(1, 48, 8).narrow(2, 56, 8);
        let promotions = (knight_promotions.unsqueeze(3) + offsets.unsqueeze(1)).reshape([batch, -1]);
        Tensor::cat(&[logits.reshape([batch, -1]), promotions], 1).index_select(1, &self.model.move_indices)
    }
}
