//! Output heads: policies, values, moves left, and the distributions of networks that read text.

mod pairs;
mod values;

use super::builder::Builder;
use super::scratch::TokenBatch;
use crate::kernels::{Epilogue, Kernels, tanh};
use crate::linear::Linear;
use crate::{Activation, Outputs, PolicyKind};
use pairs::PairsLayer;
use values::{MovesLeftLayer, ValueLayer};

#[derive(Debug)]
pub(super) struct HeadLayers {
    activation: Activation,
    action_value: Option<Linear>,
    state_value: Option<Linear>,
    actions: Option<Linear>,
    policy: Option<PairsLayer>,
    values: [Option<ValueLayer>; 3],
    moves_left: Option<MovesLeftLayer>,
    move_value: Option<PairsLayer>,
}

impl HeadLayers {
    pub(super) fn new(builder: &Builder<'_>) -> Self {
        let architecture = builder.architecture();
        let (width, heads) = (architecture.body.width, &architecture.heads);
        let of_kind = |kind| heads.policy.as_ref().filter(|policy| policy.kind == kind);
        Self {
            activation: architecture.body.activation,
            action_value: heads.action_value.map(|_| builder.linear("action_value", width)),
            state_value: heads.state_value.map(|_| builder.linear("state_value", width)),
            actions: of_kind(PolicyKind::Actions).map(|_| builder.linear("policy", width)),
            policy: of_kind(PolicyKind::Attention)
                .map(|head| PairsLayer::new(builder, "policy", head.width, &head.aux_targets)),
            values: heads.values().map(|(name, head)| head.map(|head| ValueLayer::new(builder, name, head))),
            moves_left: heads.moves_left.map(|head| MovesLeftLayer::new(builder, head)),
            move_value: heads.move_value.map(|head| PairsLayer::new(builder, "move_value", head.width, &[])),
        }
    }

    /// Computes the outputs: from one token each for text, from 64 tokens each for squares.
    pub(super) fn apply(&self, kernels: &Kernels, batch: &mut TokenBatch, outputs: &mut [Outputs]) {
        let TokenBatch { x, prepared, heads: scratch, count, width, .. } = batch;
        let x = &x[..*count * *width];
        let mut linear = |layer: &Option<Linear>, to: fn(&mut Outputs) -> &mut Vec<f32>| {
            let Some(layer) = layer else { return };
            let out = scratch.out.buffer(outputs.len() * layer.outputs());
            layer.apply(kernels, x, prepared, Epilogue::Assign, out);
            for (outputs, out) in outputs.iter_mut().zip(out.chunks_exact(layer.outputs())) {
                fill(to(outputs), out);
            }
        };
        linear(&self.action_value, |outputs| &mut outputs.action_value);
        linear(&self.state_value, |outputs| &mut outputs.state_value);
        linear(&self.actions, |outputs| &mut outputs.policy);
        if let Some(policy) = &self.policy {
            policy.apply(kernels, x, self.activation, prepared, scratch, |position, target, logits| {
                let outputs = &mut outputs[position];
                match target {
                    None => fill(&mut outputs.policy, logits),
                    Some((index, target)) => {
                        if outputs.aux_policies.len() <= index {
                            outputs.aux_policies.resize_with(index + 1, || (target, Vec::new()));
                        }
                        outputs.aux_policies[index].0 = target;
                        fill(&mut outputs.aux_policies[index].1, logits);
                    }
                }
            });
        }
        if let Some(head) = &self.move_value {
            head.apply(kernels, x, self.activation, prepared, scratch, |position, _, logits| {
                let values = &mut outputs[position].move_value;
                fill(values, logits);
                values.iter_mut().for_each(|value| *value = tanh(*value));
            });
        }
        for (index, layer) in self.values.iter().enumerate() {
            if let Some(layer) = layer {
                let outputs = outputs.iter_mut().map(|outputs| outputs.values[index].get_or_insert_default());
                layer.apply(kernels, x, self.activation, prepared, scratch, outputs);
            }
        }
        if let Some(layer) = &self.moves_left {
            let outputs = outputs.iter_mut().map(|outputs| &mut outputs.moves_left);
            layer.apply(kernels, x, self.activation, prepared, scratch, outputs);
        }
        outputs.iter_mut().for_each(|outputs| self.clear_missing_heads(outputs));
    }

    /// Clears outputs of heads that this network lacks and another network with the same scratch may have
    /// written.
    fn clear_missing_heads(&self, outputs: &mut Outputs) {
        let lacking = [
            (self.action_value.is_none(), &mut outputs.action_value),
            (self.state_value.is_none(), &mut outputs.state_value),
            (self.policy.is_none() && self.actions.is_none(), &mut outputs.policy),
            (self.move_value.is_none(), &mut outputs.move_value),
        ];
        for (_, values) in lacking.into_iter().filter(|(lacking, _)| *lacking) {
            values.clear();
        }
        outputs.aux_policies.truncate(self.policy.as_ref().map_or(0, PairsLayer::num_aux));
        for (layer, value) in self.values.iter().zip(&mut outputs.values) {
            if layer.is_none() {
                *value = None;
            }
        }
        if self.moves_left.is_none() {
            outputs.moves_left = None;
        }
    }
}

/// Replaces the contents, reusing the memory if there is enough.
fn fill(to: &mut Vec<f32>, from: &[f32]) {
    to.clear();
    to.extend_from_slice(from);
}
