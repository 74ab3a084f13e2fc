//! What happens to each row alone.

use super::Source;
use super::builder::Builder;
use super::scratch::{FeedForwardRoom, Rows};
use crate::aligned::Aligned;
use crate::kernels::{Kernels, Store};
use crate::linear::{Linear, Prepared};
use crate::{Activation, FeedForward};

/// Rows at a time, so that what is between two layers stays near.
const ROWS: usize = 128;

#[derive(Debug)]
pub(super) enum FeedForwardLayer {
    Dense(Box<Layers>),
    Experts { router: Linear, experts: Vec<Layers>, chosen: usize },
}

/// Two layers, or three with a gate.
#[derive(Debug)]
pub(super) struct Layers {
    input: Linear,
    gate: Option<Linear>,
    out: Linear,
    activation: Activation,
}

impl FeedForwardLayer {
    /// That of a block.
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

    /// Adds what it makes of `source` to the rows, times a factor.
    pub(super) fn apply(&self, kernels: &Kernels, rows: &mut Rows, source: Source, factor: f32) {
        let len = rows.count * rows.width;
        let Rows { x, normed, prepared, feed_forward: room, width, .. } = rows;
        let x = &mut x[..len];
        match self {
            Self::Dense(layers) => {
                let input = (source == Source::Normed).then(|| &normed[..len]);
                layers.apply(kernels, input, prepared, &mut room.hidden, Store::Add(factor), x);
            }
            Self::Experts { router, experts, chosen } => {
                let normed = normed.room(len);
                if source == Source::Stream {
                    normed.copy_from_slice(x);
                }
                route(kernels, router, *chosen, normed, prepared, room);
                for (expert, layers) in experts.iter().enumerate() {
                    layers.apply_chosen(kernels, expert, normed, prepared, room, factor, (x, *width));
                }
            }
        }
    }
}

/// Finds for each expert the rows that choose it: the gates of a row's chosen experts sum to one.
fn route(
    kernels: &Kernels,
    router: &Linear,
    chosen: usize,
    input: &[f32],
    prepared: &mut Prepared,
    room: &mut FeedForwardRoom,
) {
    let experts = router.outputs();
    let count = input.len() / router.inputs();
    let gates = room.gates.room(count * experts);
    router.apply(kernels, input, prepared, Store::Set, gates);
    room.chosen.resize_with(room.chosen.len().max(experts), Vec::new);
    room.chosen.iter_mut().for_each(Vec::clear);
    for (row, gates) in gates.chunks_exact_mut(experts).enumerate() {
        kernels.softmax(gates, experts, experts, None, &mut [0.0]);
        room.order.clear();
        room.order.extend(0..experts);
        // Of two alike the first is chosen.
        room.order
            .sort_unstable_by(|&left, &right| gates[right].total_cmp(&gates[left]).then(left.cmp(&right)));
        let sum: f32 = room.order[..chosen].iter().map(|&expert| gates[expert]).sum();
        for &expert in &room.order[..chosen] {
            room.chosen[expert].push((row, gates[expert] / sum));
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

    /// Passes rows through the layers: those of the input or, without one, what is in `out` before.
    pub(super) fn apply(
        &self,
        kernels: &Kernels,
        input: Option<&[f32]>,
        prepared: &mut Prepared,
        hidden: &mut Aligned<f32>,
        store: Store,
        out: &mut [f32],
    ) {
        for (group, out) in out.chunks_mut(ROWS * self.out.outputs()).enumerate() {
            let count = out.len() / self.out.outputs();
            let first = group * ROWS * self.input.inputs();
            let input = input.map_or(&*out, |input| &input[first..][..count * self.input.inputs()]);
            let hidden = hidden.room(count * self.input.outputs());
            self.input.apply(kernels, input, prepared, Store::Activate(self.activation), hidden);
            if let Some(gate) = &self.gate {
                gate.apply_prepared(kernels, input, prepared, Store::Times, hidden);
            }
            self.out.apply(kernels, hidden, prepared, store, out);
        }
    }

    /// Passes the rows that chose this expert through it, and adds what it makes of them, weighted.
    #[allow(clippy::too_many_arguments, reason = "the parts of one memory, borrowed apart")]
    fn apply_chosen(
        &self,
        kernels: &Kernels,
        expert: usize,
        input: &[f32],
        prepared: &mut Prepared,
        room: &mut FeedForwardRoom,
        factor: f32,
        (x, width): (&mut [f32], usize),
    ) {
        let FeedForwardRoom { hidden, gathered, out, chosen, .. } = room;
        let chosen = &chosen[expert];
        if chosen.is_empty() {
            return;
        }
        let gathered = gathered.room(chosen.len() * width);
        for (to, &(row, _)) in gathered.chunks_exact_mut(width).zip(chosen) {
            to.copy_from_slice(&input[row * width..][..width]);
        }
        let out = out.room(chosen.len() * width);
        self.apply(kernels, Some(gathered), prepared, hidden, Store::Set, out);
        for (from, &(row, gate)) in out.chunks_exact(width).zip(chosen) {
            for (to, from) in x[row * width..][..width].iter_mut().zip(from) {
                *to += factor * gate * from;
            }
        }
    }
}
