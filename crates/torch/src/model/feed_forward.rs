//! Feed-forward layers: dense, gated, and mixtures of experts.

use super::{Pass, accumulation_kind};
use tandem_transformer::{Experts, FeedForward};
use tch::{Device, Kind, Tensor};

/// Routing of one layer of experts, for the load-balancing losses and their metrics.
pub(crate) struct Routing {
    /// Logits of the router: `[tokens, experts]`.
    pub(crate) logits: Tensor,
    /// Fraction of all choices that fell on each expert.
    pub(crate) load: Tensor,
}

impl Pass<'_> {
    pub(super) fn feed_forward_branch(&self, x: &Tensor, name: &str) -> Tensor {
        match &self.architecture().body.feed_forward {
            FeedForward::Dense { .. } | FeedForward::Gated { .. } => {
                self.feed_forward(x, &format!("{name}.feed_forward"))
            }
            FeedForward::Experts(experts) => self.experts(x, experts, name),
        }
    }

    pub(super) fn feed_forward(&self, x: &Tensor, name: &str) -> Tensor {
        let activated = self.linear_activation(x, &format!("{name}.in"));
        let hidden = match self.parameters.find(&format!("{name}.gate.weight")) {
            Some(_) => activated * self.linear(x, &format!("{name}.gate")),
            None => activated,
        };
        self.linear(&hidden, &format!("{name}.out"))
    }

    /// Top-k routing: each token passes through the `chosen` experts with the highest logits, weighted by the
    /// softmax over those alone.
    fn experts(&self, x: &Tensor, experts: &Experts, name: &str) -> Tensor {
        let tokens = x.reshape([-1, self.architecture().body.width as i64]);
        let logits = self.linear(&tokens, &format!("{name}.router"));
        let logits = logits.to_kind(accumulation_kind(logits.kind()));
        let (top_logits, top_experts) = logits.topk(experts.chosen as i64, -1, true, true);
        let zeros = logits.zeros_like();
        let gates =
            zeros.scatter(1, &top_experts, &top_logits.softmax(-1, logits.kind())).to_kind(tokens.kind());
        let chosen = zeros.scatter_value(1, &top_experts, 1.0);
        let load = chosen.mean_dim(&[0i64][..], false, Kind::Float) / experts.chosen as f64;
        let output = if uses_batched_experts(experts, x.device()) {
            self.experts_batched(&tokens, &gates, name)
        } else {
            self.experts_sequential(&tokens, &gates, &chosen, name)
        };
        self.routing.borrow_mut().push(Routing { logits, load });
        output.view_as(x)
    }

    /// Runs each expert on the tokens that chose it.
    pub(super) fn experts_sequential(
        &self,
        x: &Tensor,
        gates: &Tensor,
        chosen: &Tensor,
        name: &str,
    ) -> Tensor {
        let mut output = x.zeros_like();
        for expert in 0..gates.size()[1] {
            let tokens = chosen.select(1, expert).nonzero().squeeze_dim(1);
            if tokens.size()[0] == 0 {
                continue;
            }
            let gate = gates.select(1, expert).index_select(0, &tokens).unsqueeze(1);
            let out = self.feed_forward(&x.index_select(0, &tokens), &format!("{name}.experts.{expert}"));
            output = output.index_add(0, &tokens, &(out * gate));
        }
        output
    }

    /// Runs all experts on all tokens, as one wide layer in which most weights of a token are zero: more
    /// arithmetic, but no synchronisation with the CPU.
    pub(super) fn experts_batched(&self, tokens: &Tensor, gates: &Tensor, name: &str) -> Tensor {
        let num_experts = gates.size()[1];
        let tensor_name = |expert: i64, part: &str| format!("{name}.experts.{expert}.{part}");
        let weights = |part: &str, dim: i64| {
            let parts: Vec<&Tensor> =
                (0..num_experts).map(|expert| self.parameters.get(&tensor_name(expert, part))).collect();
            Tensor::cat(&parts, dim)
        };
        let biases = |part: &str| {
            let parts: Option<Vec<&Tensor>> =
                (0..num_experts).map(|expert| self.parameters.find(&tensor_name(expert, part))).collect();
            parts.map(|parts| Tensor::stack(&parts, 0))
        };
        let in_bias = biases("in.bias").map(|biases| biases.flatten(0, 1));
        let activated = self.matmul_activation(tokens, &weights("in.weight", 0), in_bias.as_ref());
        let hidden = match self.parameters.find(&tensor_name(0, "gate.weight")) {
            Some(_) => {
                let bias = biases("gate.bias").map(|biases| biases.flatten(0, 1));
                activated * tokens.linear(&weights("gate.weight", 0), bias)
            }
            None => activated,
        };
        let hidden = hidden.view([tokens.size()[0], num_experts, -1]) * gates.unsqueeze(2);
        let output = hidden.flatten(1, 2).linear(&weights("out.weight", 1), None::<&Tensor>);
        match biases("out.bias") {
            Some(biases) => output + gates.matmul(&biases),
            None => output,
        }
    }
}

/// True if all experts are computed for every token. Selecting the tokens of each expert would make a GPU
/// wait for the CPU, which needs their number; on a CPU that is free, and the arithmetic is what costs.
pub(crate) fn uses_batched_experts(experts: &Experts, device: Device) -> bool {
    device.is_cuda() && experts.count <= MAX_BATCHED_WORK * experts.chosen
}

/// Largest ratio of all experts to the chosen ones at which the batched form is used. A guess that has not
/// been measured.
const MAX_BATCHED_WORK: usize = 8;
