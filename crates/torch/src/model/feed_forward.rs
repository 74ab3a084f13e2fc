//! Feed-forward layers: dense, gated, and mixtures of experts.

use super::tensors::{FeedForwardTensors, LayerTensors, Linear};
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
    pub(super) fn feed_forward_branch(&self, x: &Tensor, layer: &LayerTensors) -> Tensor {
        match (&self.architecture().body.feed_forward, &layer.router) {
            (FeedForward::Experts(experts), Some(router)) => {
                self.experts(x, experts, router, &layer.feed_forward)
            }
            (FeedForward::Experts(_), None) => unreachable!("a layer of experts has a router"),
            (FeedForward::Dense { .. } | FeedForward::Gated { .. }, _) => {
                self.feed_forward(x, &layer.feed_forward[0])
            }
        }
    }

    pub(super) fn feed_forward(&self, x: &Tensor, tensors: &FeedForwardTensors) -> Tensor {
        let activated = self.linear_activation(x, &tensors.input);
        let hidden = match &tensors.gate {
            Some(gate) => activated * self.linear(x, gate),
            None => activated,
        };
        self.linear(&hidden, &tensors.output)
    }

    /// Top-k routing: each token passes through the `chosen` experts with the highest logits, weighted by the
    /// softmax over those alone.
    fn experts(
        &self,
        x: &Tensor,
        experts: &Experts,
        router: &Linear,
        tensors: &[FeedForwardTensors],
    ) -> Tensor {
        let tokens = x.reshape([-1, self.architecture().body.width as i64]);
        let logits = self.linear(&tokens, router);
        let logits = logits.to_kind(accumulation_kind(logits.kind()));
        let (top_logits, top_experts) = logits.topk(experts.chosen as i64, -1, true, true);
        let zeros = logits.zeros_like();
        let gates =
            zeros.scatter(1, &top_experts, &top_logits.softmax(-1, logits.kind())).to_kind(tokens.kind());
        let chosen = zeros.scatter_value(1, &top_experts, 1.0);
        let load = chosen.mean_dim(&[0i64][..], false, Kind::Float) / experts.chosen as f64;
        let output = if uses_batched_experts(experts, x.device()) {
            self.experts_batched(&tokens, &gates, tensors)
        } else {
            self.experts_sequential(&tokens, &gates, &chosen, tensors)
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
        tensors: &[FeedForwardTensors],
    ) -> Tensor {
        let mut output = x.zeros_like();
        for (expert, tensors) in (0..).zip(tensors) {
            let tokens = chosen.select(1, expert).nonzero().squeeze_dim(1);
            if tokens.size()[0] == 0 {
                continue;
            }
            let gate = gates.select(1, expert).index_select(0, &tokens).unsqueeze(1);
            let out = self.feed_forward(&x.index_select(0, &tokens), tensors);
            output = output.index_add(0, &tokens, &(out * gate));
        }
        output
    }

    /// Runs all experts on all tokens, as one wide layer in which most weights of a token are zero: more
    /// arithmetic, but no synchronisation with the CPU.
    pub(super) fn experts_batched(
        &self,
        tokens: &Tensor,
        gates: &Tensor,
        tensors: &[FeedForwardTensors],
    ) -> Tensor {
        let weights = |part: fn(&FeedForwardTensors) -> &Linear, dim: i64| {
            let parts: Vec<&Tensor> = tensors.iter().map(|expert| self.tensor(part(expert).weight)).collect();
            Tensor::cat(&parts, dim)
        };
        let biases = |part: fn(&FeedForwardTensors) -> Option<&Linear>| {
            let parts: Option<Vec<&Tensor>> =
                tensors.iter().map(|expert| part(expert)?.bias.map(|bias| self.tensor(bias))).collect();
            parts.map(|parts| Tensor::stack(&parts, 0))
        };
        let in_bias = biases(|expert| Some(&expert.input)).map(|biases| biases.flatten(0, 1));
        let in_weights = weights(|expert| &expert.input, 0);
        let activated = self.matmul_activation(tokens, &in_weights, in_bias.as_ref());
        let gate_weights: Option<Vec<&Tensor>> =
            tensors.iter().map(|expert| expert.gate.as_ref().map(|gate| self.tensor(gate.weight))).collect();
        let hidden = match gate_weights {
            Some(gate_weights) => {
                let bias = biases(|expert| expert.gate.as_ref()).map(|biases| biases.flatten(0, 1));
                activated * tokens.linear(&Tensor::cat(&gate_weights, 0), bias)
            }
            None => activated,
        };
        let hidden = hidden.view([tokens.size()[0], tensors.len() as i64, -1]) * gates.unsqueeze(2);
        let out_weights = weights(|expert| &expert.output, 1);
        let output = hidden.flatten(1, 2).linear(&out_weights, None::<&Tensor>);
        match biases(|expert| Some(&expert.output)) {
            Some(biases) => output + gates.matmul(&biases),
            None => output,
        }
    }
}

/// True if the tensors of a step have the same shapes whatever the input, which recording it needs.
pub(crate) fn has_fixed_shapes(layer: &FeedForward, device: Device) -> bool {
    match layer {
        FeedForward::Experts(experts) => uses_batched_experts(experts, device),
        FeedForward::Dense { .. } | FeedForward::Gated { .. } => true,
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
