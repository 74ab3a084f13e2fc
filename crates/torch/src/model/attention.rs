//! Self-attention, with an optional bias for each pair of squares.

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
    pub(super) fn attention(&self, x: &Tensor, name: &str) -> Tensor {
        let qkv = self.project_qkv(x, name);
        let bias = match &self.architecture().body.attention {
            Attention::Plain { .. } => None,
            Attention::Bias { .. } => {
                Some(self.parameters.get(&format!("{name}.attention.pairs")).shallow_clone())
            }
            Attention::Smolgen(sizes) => Some(self.smolgen(x, sizes, &format!("{name}.smolgen"))),
        };
        let fused = self.model.fused.as_ref().filter(|_| self.model.mask.is_none());
        let attended = fused.and_then(|fused| fused.attend(&qkv, bias.as_ref()));
        let attended = attended.unwrap_or_else(|| self.attend(&qkv, bias));
        self.linear(&attended, &format!("{name}.attention.out"))
    }

    /// Queries, keys and values side by side, computed as one product: `[batch, tokens, 3 * width]`.
    fn project_qkv(&self, x: &Tensor, name: &str) -> Tensor {
        let concatenated = |kind: &str| {
            let parts = ["query", "key", "value"];
            let tensors = parts.map(|part| self.parameters.find(&format!("{name}.attention.{part}.{kind}")));
            let tensors: Option<Vec<&Tensor>> = tensors.into_iter().collect();
            tensors.map(|parts| Tensor::cat(&parts, 0))
        };
        let weights = concatenated("weight").unwrap_or_else(|| unreachable!("{name} has no attention"));
        x.linear(&weights, concatenated("bias"))
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
    fn smolgen(&self, x: &Tensor, sizes: &Smolgen, name: &str) -> Tensor {
        let (batch, num_heads) = (x.size()[0], self.architecture().body.heads as i64);
        let layer = |hidden: &Tensor, part: &str| {
            let hidden = activate(&self.linear(hidden, &format!("{name}.{part}")), sizes.activation);
            self.plain_norm(&hidden, &format!("{name}.{part}_norm"), NormKind::Layer, SMOLGEN_EPSILON)
        };
        let squares = self.linear(x, &format!("{name}.squares")).reshape([batch, -1]);
        let generated = layer(&layer(&squares, "board"), "heads");
        let generated = generated.view([batch, num_heads, sizes.generated as i64]);
        self.linear(&generated, "smolgen.generator").view([batch, num_heads, SQUARES, SQUARES])
    }
}
