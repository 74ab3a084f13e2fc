//! The feed-forward layer of a block, dense, gated or as a mixture of experts: its description, checks, tensors,
//! forward pass, precision and ONNX operators.

use crate::Activation;
use crate::aligned::Aligned;
use crate::architecture::{ArchitectureError, Body, List, MAX_COUNT, impossible, sized, within};
use crate::files::onnx::graph::{Attribute, Graph, Value};
use crate::kernels::{Epilogue, Kernels};
use crate::linear::{Linear, LinearScratch};
use crate::network::{Builder, Source, TokenBatch};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Feed-forward layer of a block, applied to each token separately.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum FeedForward {
    /// Two linear layers with an activation between them.
    Dense {
        /// Hidden width: values between the two layers. Usually two to four times the model width.
        width: usize,
        /// Adds biases to both layers, as lc0's networks have them.
        biases: bool,
    },
    /// Gated linear unit: two layers side by side, the activated one times the other, and an output layer.
    Gated {
        /// Hidden width: values of the gate, and between the layers.
        width: usize,
        /// Adds biases to all three layers; searchless chess has none.
        biases: bool,
    },
    /// Mixture of experts: a router chooses a few feed-forward layers for each token.
    Experts(Experts),
}

/// Sizes of a mixture of experts: several feed-forward layers, of which a router (a small linear layer)
/// chooses a few for each token. Only these are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experts {
    /// Number of experts (parallel feed-forward layers) in each block, from 1 to 256.
    pub count: usize,
    /// Experts that a token passes through (top-k routing), from 1 to `count`.
    pub chosen: usize,
    /// Hidden width of one expert: values between its two layers.
    pub width: usize,
    /// Makes each expert a gated linear unit; a dense pair of layers by default.
    #[serde(default)]
    pub gated: bool,
    /// Adds biases to the experts' layers; the router never has any.
    #[serde(default)]
    pub biases: bool,
}

impl FeedForward {
    /// Checks the sizes.
    pub(crate) fn check(&self) -> Result<(), ArchitectureError> {
        match self {
            Self::Dense { width, .. } | Self::Gated { width, .. } => sized("body.feed_forward.width", *width),
            Self::Experts(experts) => {
                sized("body.feed_forward.width", experts.width)?;
                within("body.feed_forward.count", experts.count, MAX_COUNT)?;
                if !(1..=experts.count).contains(&experts.chosen) {
                    return impossible("body.feed_forward.chosen", "must be from 1 to count");
                }
                Ok(())
            }
        }
    }

    /// Lists the tensors of the block with this name.
    pub(crate) fn list(&self, body: &Body, block: &str, list: &mut List) {
        let name = format!("{block}.feed_forward");
        match self {
            Self::Dense { width, biases } => list.feed_forward(&name, body.width, *width, false, *biases),
            Self::Gated { width, biases } => list.feed_forward(&name, body.width, *width, true, *biases),
            Self::Experts(experts) => {
                list.layer(&format!("{block}.router"), body.width, experts.count, false);
                for expert in 0..experts.count {
                    let name = format!("{block}.experts.{expert}");
                    list.feed_forward(&name, body.width, experts.width, experts.gated, experts.biases);
                }
            }
        }
    }

    /// Lower bound of the number of tensors of a block, found without listing them.
    pub(crate) fn min_tensors(&self) -> usize {
        match self {
            Self::Experts(experts) => 2 * experts.count,
            Self::Dense { .. } | Self::Gated { .. } => 2,
        }
    }

    /// Adds the operators of the block with this name to an ONNX graph.
    pub(crate) fn onnx(&self, graph: &mut Graph<'_>, rows: &Value, block: &str) -> Value {
        match self {
            Self::Experts(experts) => experts.onnx(graph, rows, block),
            Self::Dense { .. } | Self::Gated { .. } => {
                graph.feed_forward(rows, &format!("{block}.feed_forward"))
            }
        }
    }
}

impl Experts {
    /// Mixture of experts: all experts compute all tokens, and those that were not chosen are multiplied by
    /// zero.
    fn onnx(&self, graph: &mut Graph<'_>, rows: &Value, name: &str) -> Value {
        let logits = graph.linear(rows, &format!("{name}.router"));
        let chosen = graph.ints(&[self.chosen as i64]);
        let [best, which] =
            graph.op_with_two_outputs("TopK", &[&logits, &chosen], &[Attribute::Int("axis", -1)]);
        let weights = graph.op("Softmax", &[&best], &[Attribute::Int("axis", -1)]);
        let zeros = graph.scale(&logits, 0.0);
        let gates = graph.op("ScatterElements", &[&zeros, &which, &weights], &[Attribute::Int("axis", 2)]);
        let mut sum = None;
        for expert in 0..self.count {
            let made = graph.feed_forward(rows, &format!("{name}.experts.{expert}"));
            let gate = graph.slice(&gates, 2, expert..expert + 1);
            let made = graph.op("Mul", &[&made, &gate], &[]);
            sum = Some(match sum {
                None => made,
                Some(sum) => graph.op("Add", &[&sum, &made], &[]),
            });
        }
        // There is at least one expert.
        sum.unwrap_or(zeros)
    }
}

/// Kind and sizes in words, for example `2 of 8 experts, gated 128`.
impl fmt::Display for FeedForward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = |biases: bool| if biases { ", biases" } else { "" };
        match self {
            Self::Dense { width, biases } => write!(f, "dense {width}{}", with(*biases)),
            Self::Gated { width, biases } => write!(f, "gated {width}{}", with(*biases)),
            Self::Experts(experts) => {
                let kind = if experts.gated { "gated" } else { "dense" };
                let Experts { chosen, count, width, biases, .. } = experts;
                write!(f, "{chosen} of {count} experts, {kind} {width}{}", with(*biases))
            }
        }
    }
}

/// Layers of a block that stay in full precision: see [`crate::is_quantised`].
pub(crate) const EXACT: [&str; 1] = ["router"];

/// True for the layers that read the residual of their int8 input.
pub(crate) fn reads_residual(layer: &str) -> bool {
    let is_mixed = layer.contains("feed_forward.") || layer.contains(".experts.");
    is_mixed && (layer.ends_with(".in") || layer.ends_with(".gate"))
}

#[derive(Debug, Default)]
pub(crate) struct FeedForwardScratch {
    pub(crate) hidden: Aligned<f32>,
    pub(crate) gates: Aligned<f32>,
    pub(crate) gathered: Aligned<f32>,
    pub(crate) out: Aligned<f32>,
    /// For each expert the tokens that are routed to it, with their weights.
    pub(crate) chosen: Vec<Vec<(usize, f32)>>,
    pub(crate) order: Vec<usize>,
}

/// Tokens that are processed at a time, so that the hidden values stay in cache.
const ROWS: usize = 128;

#[derive(Debug)]
pub(crate) enum FeedForwardLayer {
    Dense(Box<Layers>),
    Experts { router: Linear, experts: Vec<Layers>, chosen: usize },
}

/// Two linear layers, or three with a gate.
#[derive(Debug)]
pub(crate) struct Layers {
    input: Linear,
    gate: Option<Linear>,
    out: Linear,
    activation: Activation,
}

impl FeedForwardLayer {
    pub(crate) fn new(builder: &Builder<'_>, block: &str) -> Self {
        let body = &builder.architecture().body;
        let name = format!("{block}.feed_forward");
        match body.feed_forward {
            FeedForward::Dense { width, .. } => {
                Self::Dense(Box::new(Layers::new(builder, &name, width, false)))
            }
            FeedForward::Gated { width, .. } => {
                Self::Dense(Box::new(Layers::new(builder, &name, width, true)))
            }
            FeedForward::Experts(experts) => Self::Experts {
                router: builder.linear(&format!("{block}.router"), body.width),
                experts: (0..experts.count)
                    .map(|expert| {
                        let name = format!("{block}.experts.{expert}");
                        Layers::new(builder, &name, experts.width, experts.gated)
                    })
                    .collect(),
                chosen: experts.chosen,
            },
        }
    }

    /// Computes the layer for the tokens of `source`, and adds the result to the residual stream, times a
    /// factor.
    pub(crate) fn apply(&self, kernels: &Kernels, batch: &mut TokenBatch, source: Source, factor: f32) {
        let len = batch.count * batch.width;
        let TokenBatch { x, normed, prepared, feed_forward: scratch, width, .. } = batch;
        let x = &mut x[..len];
        match self {
            Self::Dense(layers) => {
                let input = (source == Source::Normed).then(|| &normed[..len]);
                layers.apply(kernels, input, prepared, &mut scratch.hidden, Epilogue::AddScaled(factor), x);
            }
            Self::Experts { router, experts, chosen } => {
                let normed = normed.buffer(len);
                if source == Source::Stream {
                    normed.copy_from_slice(x);
                }
                route(kernels, router, *chosen, normed, prepared, scratch);
                for (expert, layers) in experts.iter().enumerate() {
                    layers.apply_chosen(kernels, expert, normed, prepared, scratch, factor, (x, *width));
                }
            }
        }
    }
}

/// Routes each token to its experts: top-k of the softmax, renormalised to sum to one.
fn route(
    kernels: &Kernels,
    router: &Linear,
    chosen: usize,
    input: &[f32],
    prepared: &mut LinearScratch,
    scratch: &mut FeedForwardScratch,
) {
    let experts = router.outputs();
    let count = input.len() / router.inputs();
    let gates = scratch.gates.buffer(count * experts);
    router.apply(kernels, input, prepared, Epilogue::Assign, gates);
    scratch.chosen.resize_with(scratch.chosen.len().max(experts), Vec::new);
    scratch.chosen.iter_mut().for_each(Vec::clear);
    for (row, gates) in gates.chunks_exact_mut(experts).enumerate() {
        kernels.softmax(gates, experts, experts, None, &mut [0.0]);
        scratch.order.clear();
        scratch.order.extend(0..experts);
        // Of equal gates the first expert is chosen.
        scratch
            .order
            .sort_unstable_by(|&left, &right| gates[right].total_cmp(&gates[left]).then(left.cmp(&right)));
        let sum: f32 = scratch.order[..chosen].iter().map(|&expert| gates[expert]).sum();
        for &expert in &scratch.order[..chosen] {
            scratch.chosen[expert].push((row, gates[expert] / sum));
        }
    }
}

impl Layers {
    pub(crate) fn new(builder: &Builder<'_>, name: &str, inner: usize, gated: bool) -> Self {
        let body = &builder.architecture().body;
        Self {
            input: builder.linear(&format!("{name}.in"), body.width),
            gate: gated.then(|| builder.linear(&format!("{name}.gate"), body.width)),
            out: builder.linear(&format!("{name}.out"), inner),
            activation: body.activation,
        }
    }

    /// Passes tokens through the layers: those of `input` or, without one, the previous contents of `out`.
    pub(crate) fn apply(
        &self,
        kernels: &Kernels,
        input: Option<&[f32]>,
        prepared: &mut LinearScratch,
        hidden: &mut Aligned<f32>,
        epilogue: Epilogue,
        out: &mut [f32],
    ) {
        for (group, out) in out.chunks_mut(ROWS * self.out.outputs()).enumerate() {
            let count = out.len() / self.out.outputs();
            let first = group * ROWS * self.input.inputs();
            let input = input.map_or(&*out, |input| &input[first..][..count * self.input.inputs()]);
            let hidden = hidden.buffer(count * self.input.outputs());
            self.input.apply(kernels, input, prepared, Epilogue::Activate(self.activation), hidden);
            if let Some(gate) = &self.gate {
                gate.apply_prepared(kernels, input, prepared, Epilogue::Multiply, hidden);
            }
            self.out.apply(kernels, hidden, prepared, epilogue, out);
        }
    }

    /// Passes the tokens that were routed to this expert through it, and adds the weighted results.
    #[allow(clippy::too_many_arguments, reason = "the parts of one memory, borrowed apart")]
    fn apply_chosen(
        &self,
        kernels: &Kernels,
        expert: usize,
        input: &[f32],
        prepared: &mut LinearScratch,
        scratch: &mut FeedForwardScratch,
        factor: f32,
        (x, width): (&mut [f32], usize),
    ) {
        let FeedForwardScratch { hidden, gathered, out, chosen, .. } = scratch;
        let chosen = &chosen[expert];
        if chosen.is_empty() {
            return;
        }
        let gathered = gathered.buffer(chosen.len() * width);
        for (to, &(row, _)) in gathered.chunks_exact_mut(width).zip(chosen) {
            to.copy_from_slice(&input[row * width..][..width]);
        }
        let out = out.buffer(chosen.len() * width);
        self.apply(kernels, Some(gathered), prepared, hidden, Epilogue::Assign, out);
        for (from, &(row, gate)) in out.chunks_exact(width).zip(chosen) {
            for (to, from) in x[row * width..][..width].iter_mut().zip(from) {
                *to += factor * gate * from;
            }
        }
    }
}
