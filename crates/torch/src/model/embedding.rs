//! Embedding: from inputs to the vectors of the first layer.

use super::tensors::{BoardEmbedding, SquareEmbedding, TextEmbedding};
use super::{Pass, SQUARES};
use tandem_hybrid::BridgeForm;
use tandem_transformer::PIECE_CHANNELS;
use tch::Tensor;

/// [`PIECE_CHANNELS`] as `i64`, the type of sizes in libtorch.
const PIECES: i64 = PIECE_CHANNELS as i64;

impl Pass<'_> {
    pub(super) fn embed_text(&self, tokens: &Tensor, tensors: &TextEmbedding) -> Tensor {
        let width = self.architecture().body.width as f64;
        let vectors = Tensor::embedding(self.tensor(tensors.table), tokens, -1, false, false);
        vectors * width.sqrt() + self.tensor(tensors.positions)
    }

    /// Embeds each square by itself.
    pub(super) fn embed_squares(&self, squares: &Tensor, tensors: &SquareEmbedding) -> Tensor {
        self.linear(squares, &tensors.squares) + self.tensor(tensors.positions)
    }

    /// Embeds squares with the code of the whole board, from a bridge if there is one.
    pub(super) fn embed_board(
        &self,
        squares: &Tensor,
        tensors: &BoardEmbedding,
        bridge_code: Option<(BridgeForm, Tensor)>,
    ) -> Tensor {
        let batch = squares.size()[0];
        let by_square = |bridge_code: &Tensor| bridge_code.view([batch, SQUARES, -1]);
        let own_code = || {
            let pieces = squares.narrow(2, 0, PIECES).reshape([batch, SQUARES * PIECES]);
            by_square(&self.linear(&pieces, &tensors.board))
        };
        let channels = match bridge_code {
            None => Tensor::cat(&[squares, &own_code()], 2),
            Some((BridgeForm::Gated, bridge_code)) => {
                Tensor::cat(&[squares, &(own_code() + by_square(&bridge_code))], 2)
            }
            Some((BridgeForm::Plain, bridge_code)) => {
                Tensor::cat(&[Tensor::zeros_like(squares), by_square(&bridge_code)], 2)
            }
        };
        let x = self.linear_activation(&channels, &tensors.squares);
        let x = self.norm(&x, &tensors.norm);
        let x = x * self.tensor(tensors.gate.scale) + self.tensor(tensors.gate.offset);
        let factor = f64::from(self.architecture().branch_factor());
        let branch = self.feed_forward(&x, &tensors.feed_forward);
        self.add_norm(&x, Some(&branch), factor, &tensors.feed_forward_norm).normed
    }
}
