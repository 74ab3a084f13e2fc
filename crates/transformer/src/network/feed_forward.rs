//! Feed-forward layers, dense, gated or as a mixture of experts.

use super::Source;
use super::builder::Builder;
use super::scratch::{FeedForwardScratch, TokenBatch};
use crate::aligned::Aligned;
use crate::kernels::{Epilogue, Kernels};
use crate::linear::{Linear, LinearScratch};
use crate::{Activation, FeedForward};

/// Tokens that are processed at a time, so that the hidden values stay in cache.
const ROWS: usize = 128;

#[derive(Debug)]
pub(super) enum FeedForwardLayer {
    Dense(Box<Layers>),
    Experts { router: Linear, experts: Vec<Layers>, chosen: usize },
}

/// Two linear layers, or three with a gate.
#[derive(Debug)]
pub(super) struct Layers {
    input: Linear,
    gate: Option<Linear>,
    out: Linear,
    activation: Activation,
}

impl FeedForwardLayer {
    pub(super) fn new(builder: &Builder<'_>, block: &str) -> Self {
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
    pub(super) fn apply(&self, kernels: &Kernels, batch: &mut TokenBatch, source: Source, factor: f32) {
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
    pub(super) fn new(builder: &Builder<'_>, name: &str, inner: usize, gated: bool) -> Self {
        let body = &builder.architecture().body;
        Self {
            input: builder.linear(&format!("{name}.in"), body.width),
            gate: gated.then(|| builder.linear(&format!("{name}.gate"), body.width)),
            out: builder.linear(&format!("{name}.out"), inner),
            activation: body.activation,
        }
    }

    /// Passes tokens through the layers: those of `input` or, without one, the previous contents of `out`.
    pub(super) fn apply(
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
