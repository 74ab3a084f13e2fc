//! How tokens see each other.

use super::{Pass, SQUARES, bent};
use tandem_transformer::{Architecture, Attention, Mask, NormKind, SMOLGEN_EPSILON, Smolgen};
use tch::{Device, Kind, Tensor};

/// Logits that hide the move, which is the last token, from the position.
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
        let rows = self.queries_keys_values(x, name);
        let pairs = match &self.architecture().body.attention {
            Attention::Plain { .. } => None,
            Attention::Bias { .. } => {
                Some(self.tensors.get(&format!("{name}.attention.pairs")).shallow_clone())
            }
            Attention::Smolgen(sizes) => Some(self.smolgen(x, sizes, &format!("{name}.smolgen"))),
        };
        let fused = self.model.fused.as_ref().filter(|_| self.model.mask.is_none());
        let seen = fused.and_then(|fused| fused.attend(&rows, pairs.as_ref()));
        let seen = seen.unwrap_or_else(|| self.attend(&rows, pairs));
        self.linear(&seen, &format!("{name}.attention.out"))
    }

    /// Side by side, by one product: `[batch, tokens, 3 * width]`.
    fn queries_keys_values(&self, x: &Tensor, name: &str) -> Tensor {
        let of_all = |kind: &str| {
            let parts = ["query", "key", "value"];
            let found = parts.map(|part| self.tensors.find(&format!("{name}.attention.{part}.{kind}")));
            let found: Option<Vec<&Tensor>> = found.into_iter().collect();
            found.map(|parts| Tensor::cat(&parts, 0))
        };
        let weights = of_all("weight").unwrap_or_else(|| unreachable!("{name} has no attention"));
        x.linear(&weights, of_all("bias"))
    }

    /// What tokens see of each other, with logits `[heads, tokens, tokens]` or `[batch, heads, tokens, tokens]`.
    fn attend(&self, rows: &Tensor, pairs: Option<Tensor>) -> Tensor {
        let body = &self.architecture().body;
        let (batch, tokens) = (rows.size()[0], rows.size()[1]);
        let parts = rows.view([batch, tokens, 3, body.heads as i64, -1]);
        let of_heads = |part: i64| parts.select(2, part).transpose(1, 2);
        let pairs = pairs.map(|pairs| match pairs.dim() {
            3 => pairs.unsqueeze(0).expand([batch, -1, -1, -1], false),
            _ => pairs,
        });
        let added = match (pairs, &self.model.mask) {
            (Some(pairs), Some(mask)) => Some(pairs + mask),
            (Some(pairs), None) => Some(pairs),
            (None, mask) => mask.as_ref().map(Tensor::shallow_clone),
        };
        let (query, key, value) = (of_heads(0), of_heads(1), of_heads(2));
        let seen = Tensor::scaled_dot_product_attention(&query, &key, &value, added, 0.0, false, None, false);
        seen.transpose(1, 2).reshape([batch, tokens, body.width as i64])
    }

    /// Logits for each pair of squares, made by the position itself.
    fn smolgen(&self, x: &Tensor, sizes: &Smolgen, name: &str) -> Tensor {
        let (batch, heads) = (x.size()[0], self.architecture().body.heads as i64);
        let layer = |rows: &Tensor, part: &str| {
            let rows = bent(&self.linear(rows, &format!("{name}.{part}")), sizes.activation);
            self.norm_of(&rows, &format!("{name}.{part}_norm"), NormKind::Layer, SMOLGEN_EPSILON)
        };
        let squares = self.linear(x, &format!("{name}.squares")).reshape([batch, -1]);
        let made = layer(&layer(&squares, "board"), "heads");
        let made = made.view([batch, heads, sizes.generated as i64]);
        self.linear(&made, "smolgen.generator").view([batch, heads, SQUARES, SQUARES])
    }
}
