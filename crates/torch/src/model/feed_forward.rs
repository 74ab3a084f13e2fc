//! What happens to each token alone.

use super::{Pass, accurate};
use tandem_transformer::{Experts, FeedForward};
use tch::{Kind, Tensor};

/// How the experts of a layer were chosen.
pub(crate) struct Routing {
    /// What the router said: `[tokens, experts]`.
    pub(crate) logits: Tensor,
    /// The share of all choices that fell on each expert.
    pub(crate) load: Tensor,
}

impl Pass<'_> {
    pub(super) fn mix(&self, x: &Tensor, name: &str) -> Tensor {
        match &self.architecture().body.feed_forward {
            FeedForward::Dense { .. } | FeedForward::Gated { .. } => {
                self.feed_forward(x, &format!("{name}.feed_forward"))
            }
            FeedForward::Experts(experts) => self.experts(x, experts, name),
        }
    }

    pub(super) fn feed_forward(&self, x: &Tensor, name: &str) -> Tensor {
        let bent = self.bent_linear(x, &format!("{name}.in"));
        let hidden = match self.tensors.find(&format!("{name}.gate.weight")) {
            Some(_) => bent * self.linear(x, &format!("{name}.gate")),
            None => bent,
        };
        self.linear(&hidden, &format!("{name}.out"))
    }

    /// Each token passes through the few experts that the router likes best, and no token through another.
    fn experts(&self, x: &Tensor, experts: &Experts, name: &str) -> Tensor {
        let rows = x.reshape([-1, self.architecture().body.width as i64]);
        let logits = self.linear(&rows, &format!("{name}.router"));
        let logits = logits.to_kind(accurate(logits.kind()));
        let (best, order) = logits.topk(experts.chosen as i64, -1, true, true);
        let gates = best.softmax(-1, logits.kind());
        let mut mixed = Tensor::zeros_like(&rows);
        let mut loads = Vec::with_capacity(experts.count);
        for expert in 0..experts.count {
            let chosen = order.eq(expert as i64);
            let tokens = chosen.any_dim(1, false).nonzero().squeeze_dim(1);
            loads.push(tokens.size()[0] as f32);
            if tokens.size()[0] == 0 {
                continue;
            }
            let weight = (&gates * chosen.to_kind(gates.kind())).sum_dim_intlist(1, true, gates.kind());
            let weight = weight.index_select(0, &tokens).to_kind(rows.kind());
            let out = self.feed_forward(&rows.index_select(0, &tokens), &format!("{name}.experts.{expert}"));
            mixed = mixed.index_add(0, &tokens, &(out * weight));
        }
        let load = Tensor::from_slice(&loads).to_device(x.device());
        let load = &load / load.sum(Kind::Float);
        self.routing.borrow_mut().push(Routing { logits, load });
        mixed.view_as(x)
    }
}
