//! What happens to each token alone.

use super::{Pass, accurate};
use tandem_transformer::{Experts, FeedForward};
use tch::{Device, Kind, Tensor};

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

    /// Each token passes through the few experts that the router likes best, and no other has a share in what becomes of it.
    fn experts(&self, x: &Tensor, experts: &Experts, name: &str) -> Tensor {
        let rows = x.reshape([-1, self.architecture().body.width as i64]);
        let logits = self.linear(&rows, &format!("{name}.router"));
        let logits = logits.to_kind(accurate(logits.kind()));
        let (best, order) = logits.topk(experts.chosen as i64, -1, true, true);
        let none = logits.zeros_like();
        let shares = none.scatter(1, &order, &best.softmax(-1, logits.kind())).to_kind(rows.kind());
        let chosen = none.scatter_value(1, &order, 1.0);
        let load = chosen.mean_dim(&[0i64][..], false, Kind::Float) / experts.chosen as f64;
        let mixed = if are_asked_at_once(experts, x.device()) {
            self.experts_at_once(&rows, &shares, name)
        } else {
            self.experts_in_turn(&rows, &shares, &chosen, name)
        };
        self.routing.borrow_mut().push(Routing { logits, load });
        mixed.view_as(x)
    }

    /// Each expert with the tokens that chose it.
    pub(super) fn experts_in_turn(
        &self,
        rows: &Tensor,
        shares: &Tensor,
        chosen: &Tensor,
        name: &str,
    ) -> Tensor {
        let mut mixed = rows.zeros_like();
        for expert in 0..shares.size()[1] {
            let tokens = chosen.select(1, expert).nonzero().squeeze_dim(1);
            if tokens.size()[0] == 0 {
                continue;
            }
            let share = shares.select(1, expert).index_select(0, &tokens).unsqueeze(1);
            let out = self.feed_forward(&rows.index_select(0, &tokens), &format!("{name}.experts.{expert}"));
            mixed = mixed.index_add(0, &tokens, &(out * share));
        }
        mixed
    }

    /// All experts as one wide layer, of which a token's share is mostly nothing: more to compute, but nothing to wait for.
    pub(super) fn experts_at_once(&self, rows: &Tensor, shares: &Tensor, name: &str) -> Tensor {
        let count = shares.size()[1];
        let named = |expert: i64, part: &str| format!("{name}.experts.{expert}.{part}");
        let weights = |part: &str, along: i64| {
            let parts: Vec<&Tensor> =
                (0..count).map(|expert| self.tensors.get(&named(expert, part))).collect();
            Tensor::cat(&parts, along)
        };
        let biases = |part: &str| {
            let parts: Option<Vec<&Tensor>> =
                (0..count).map(|expert| self.tensors.find(&named(expert, part))).collect();
            parts.map(|parts| Tensor::stack(&parts, 0))
        };
        let in_bias = biases("in.bias").map(|biases| biases.flatten(0, 1));
        let bent = self.bent_product(rows, &weights("in.weight", 0), in_bias.as_ref());
        let hidden = match self.tensors.find(&named(0, "gate.weight")) {
            Some(_) => {
                let bias = biases("gate.bias").map(|biases| biases.flatten(0, 1));
                bent * rows.linear(&weights("gate.weight", 0), bias)
            }
            None => bent,
        };
        let hidden = hidden.view([rows.size()[0], count, -1]) * shares.unsqueeze(2);
        let mixed = hidden.flatten(1, 2).linear(&weights("out.weight", 1), None::<&Tensor>);
        match biases("out.bias") {
            Some(biases) => mixed + shares.matmul(&biases),
            None => mixed,
        }
    }
}

/// Whether all experts are computed for every token. A card would stand still for each of them to learn how many tokens chose
/// it; a processor knows at once, and there the work itself counts.
pub(crate) fn are_asked_at_once(experts: &Experts, device: Device) -> bool {
    device.is_cuda() && experts.count <= MOST_WORK * experts.chosen
}

/// How many times the work of the chosen experts is worth doing for that: a guess, not measured yet.
const MOST_WORK: usize = 8;
