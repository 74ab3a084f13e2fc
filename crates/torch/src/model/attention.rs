//! Self-attention, with an optional bias for each pair of squares.

use super::tensors::{AttentionTensors, LayerTensors, Linear, Norm, SmolgenTensors};
use super::{Pass, SQUARES, activate};
use tandem_transformer::{Architecture, Attention, Mask, NormKind, SMOLGEN_EPSILON, Smolgen};
use tch::{Device, Kind, Tensor};

/// Additive mask that hides the move, which is the last token, from the position; `None` if all tokens attend
/// to each other.
pub(super) fn mask(architecture: &Architecture, kind: Kind, device: Device) -> Option<Tensor> {
    if architecture.body.mask == Mask::Full {
        return None;
    }
    let tokens = architecture.tokens() as i64;
    let mask = Tensor::zeros([tokens, tokens], (kind, device));
    let _ = mask.narrow(0, 0, tokens - 1).narrow(1, tokens - 1, 1).fill_(f64::NEG_INFINITY);
    Some(mask)
}

impl Pass<'_> {
    pub(super) fn attention(&self, x: &Tensor, layer: &LayerTensors) -> Tensor {
        let qkv = self.project_qkv(x, &layer.attention);
        let pairs = layer.attention.pairs.map(|pairs| self.tensor(pairs).shallow_clone());
        let bias = match (&self.architecture().body.attention, &layer.smolgen, &self.model.tensors.generator)
        {
            (Attention::Smolgen(sizes), Some(tensors), Some(generator)) => {
                Some(self.smolgen(x, sizes, tensors, generator))
            }
            _ => pairs,
        };
        let fused = self.model.fused.as_ref().filter(|_| self.model.mask.is_none());
        let attended = fused.and_then(|fused| fused.attend(&qkv, bias.as_ref()));
        let attended = attended.unwrap_or_else(|| self.attend(&qkv, bias));
        self.linear(&attended, &layer.attention.output)
    }

    /// Queries, keys and values side by side, computed as one product: `[batch, tokens, 3 * width]`.
    fn project_qkv(&self, x: &Tensor, tensors: &AttentionTensors) -> Tensor {
        let parts = [&tensors.query, &tensors.key, &tensors.value];
        let weights = Tensor::cat(&parts.map(|part| self.tensor(part.weight)), 0);
        let biases: Option<Vec<&Tensor>> =
            parts.iter().map(|part| part.bias.map(|bias| self.tensor(bias))).collect();
        x.linear(&weights, biases.map(|biases| Tensor::cat(&biases, 0)))
    }

    /// Scaled dot-product attention with a bias `[heads, tokens, tokens]` or `[batch, heads, tokens,
    /// tokens]`.
    fn attend(&self, qkv: &Tensor, bias: Option<Tensor>) -> Tensor {
        let body = &self.architecture().body;
        let (batch, tokens) = (qkv.size()[0], qkv.size()[1]);
        let parts = qkv.view([batch, tokens, 3, body.heads as i64, -1]);
        let of_heads = |part: i64| parts.select(2, part).transpose(1, 2);
        let bias = bias.map(|bias| match bias.dim() {
            3 => bias.unsqueeze(0).expand([batch, -1, -1, -1], false),
            _ => bias,
        });
        let mask = match (bias, &self.model.mask) {
            (Some(bias), Some(mask)) => Some(bias + mask),
            (Some(bias), None) => Some(bias),
            (None, mask) => mask.as_ref().map(Tensor::shallow_clone),
        };
        let (query, key, value) = (of_heads(0), of_heads(1), of_heads(2));
        let attended =
            Tensor::scaled_dot_product_attention(&query, &key, &value, mask, 0.0, false, None, false);
        attended.transpose(1, 2).reshape([batch, tokens, body.width as i64])
    }

    /// Smolgen of lc0: a bias for each pair of squares, generated from the position.
    fn smolgen(&self, x: &Tensor, sizes: &Smolgen, tensors: &SmolgenTensors, generator: &Linear) -> Tensor {
        let (batch, num_heads) = (x.size()[0], self.architecture().body.heads as i64);
        let layer = |hidden: &Tensor, linear: &Linear, norm: &Norm| {
            let hidden = activate(&self.linear(hidden, linear), sizes.activation);
            self.plain_norm(&hidden, norm, NormKind::Layer, SMOLGEN_EPSILON)
        };
        let squares = self.linear(x, &tensors.squares).reshape([batch, -1]);
        let board = layer(&squares, &tensors.board, &tensors.board_norm);
        let generated = layer(&board, &tensors.heads, &tensors.heads_norm);
        let generated = generated.view([batch, num_heads, sizes.generated as i64]);
        self.linear(&generated, generator).view([batch, num_heads, SQUARES, SQUARES])
    }
}
