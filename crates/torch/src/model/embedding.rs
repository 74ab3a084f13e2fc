//! How the input becomes rows of numbers.

use super::{Pass, SQUARES};
use tandem_hybrid::BridgeForm;
use tandem_transformer::{Embedding, PIECE_CHANNELS};
use tch::Tensor;

/// [`PIECE_CHANNELS`], as tensors are counted.
const PIECES: i64 = PIECE_CHANNELS as i64;

impl Pass<'_> {
    pub(super) fn embed_text(&self, tokens: &Tensor) -> Tensor {
        let width = self.architecture().body.width as f64;
        let rows = Tensor::embedding(self.tensors.get("embedding.table"), tokens, -1, false, false);
        rows * width.sqrt() + self.tensors.get("embedding.positions")
    }

    /// Squares, with somebody else's code of the whole board where there is one.
    pub(super) fn embed_squares(&self, squares: &Tensor, code: Option<(BridgeForm, Tensor)>) -> Tensor {
        let Embedding::DenseBoard(sizes) = &self.architecture().embedding else {
            return self.linear(squares, "embedding.squares") + self.tensors.get("embedding.positions");
        };
        let batch = squares.size()[0];
        let by_square = |code: &Tensor| code.view([batch, SQUARES, sizes.channels as i64]);
        let own = || {
            let pieces = squares.narrow(2, 0, PIECES).reshape([batch, SQUARES * PIECES]);
            by_square(&self.linear(&pieces, "embedding.board"))
        };
        let joined = match code {
            None => Tensor::cat(&[squares, &own()], 2),
            Some((BridgeForm::Gated, code)) => Tensor::cat(&[squares, &(own() + by_square(&code))], 2),
            Some((BridgeForm::Plain, code)) => {
                Tensor::cat(&[Tensor::zeros_like(squares), by_square(&code)], 2)
            }
        };
        let x = self.bent_linear(&joined, "embedding.squares");
        let x = self.norm(&x, "embedding.norm");
        let x = x * self.tensors.get("embedding.gate.scale") + self.tensors.get("embedding.gate.offset");
        let factor = f64::from(self.architecture().branch_factor());
        let made = self.feed_forward(&x, "embedding.feed_forward");
        self.join(&x, Some(&made), factor, "embedding.feed_forward_norm").normed
    }
}
