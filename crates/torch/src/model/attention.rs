//! How tokens see each other.

use super::{Pass, SQUARES, bent};
use tandem_transformer::{Architecture, Attention, Mask, NormKind, Smolgen};
use tch::{Device, Kind, Tensor};

const SMOLGEN_EPSILON: f32 = 1e-3;

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
        let body = &self.architecture().body;
        let (batch, tokens) = (x.size()[0], x.size()[1]);
        let of_heads = |part: &str| {
            let rows = self.linear(x, &format!("{name}.attention.{part}"));
            rows.view([batch, tokens, body.heads as i64, -1]).transpose(1, 2)
        };
        let pairs = match &body.attention {
            Attention::Plain { .. } => None,
            Attention::Bias { .. } => {
                let pairs = self.tensors.get(&format!("{name}.attention.pairs"));
                Some(pairs.unsqueeze(0).expand([batch, -1, -1, -1], false))
            }
            Attention::Smolgen(sizes) => Some(self.smolgen(x, sizes, &format!("{name}.smolgen"))),
        };
        let added = match (pairs, &self.model.mask) {
            (Some(pairs), Some(mask)) => Some(pairs + mask),
            (Some(pairs), None) => Some(pairs),
            (None, mask) => mask.as_ref().map(Tensor::shallow_clone),
        };
        let (query, key, value) = (of_heads("query"), of_heads("key"), of_heads("value"));
        let seen = Tensor::scaled_dot_product_attention(&query, &key, &value, added, 0.0, false, None, false);
        let rows = seen.transpose(1, 2).reshape([batch, tokens, body.width as i64]);
        self.linear(&rows, &format!("{name}.attention.out"))
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
