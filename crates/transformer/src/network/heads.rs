//! What is read off at the end.

mod pairs;
mod values;

use super::builder::Builder;
use super::scratch::Rows;
use crate::kernels::{Kernels, Store, tanh};
use crate::linear::Linear;
use crate::{Activation, Outputs, PolicyKind};
use pairs::PairsLayer;
use values::{MovesLeftLayer, ValueLayer};

/// The heads of a network.
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
                .map(|head| PairsLayer::new(builder, "policy", head.width, &head.beside)),
            values: heads.values().map(|(name, head)| head.map(|head| ValueLayer::new(builder, name, head))),
            moves_left: heads.moves_left.map(|head| MovesLeftLayer::new(builder, head)),
            move_value: heads.move_value.map(|head| PairsLayer::new(builder, "move_value", head.width, &[])),
        }
    }

    /// Reads the answers off the rows: one off each for text, one off 64 for squares.
    pub(super) fn apply(&self, kernels: &Kernels, rows: &mut Rows, outputs: &mut [Outputs]) {
        let Rows { x, prepared, heads: room, count, width, .. } = rows;
        let x = &x[..*count * *width];
        let mut linear = |layer: &Option<Linear>, to: fn(&mut Outputs) -> &mut Vec<f32>| {
            let Some(layer) = layer else { return };
            let out = room.out.room(outputs.len() * layer.outputs());
            layer.apply(kernels, x, prepared, Store::Set, out);
            for (outputs, out) in outputs.iter_mut().zip(out.chunks_exact(layer.outputs())) {
                fill(to(outputs), out);
            }
        };
        linear(&self.action_value, |outputs| &mut outputs.action_value);
        linear(&self.state_value, |outputs| &mut outputs.state_value);
        linear(&self.actions, |outputs| &mut outputs.policy);
        if let Some(policy) = &self.policy {
            policy.apply(kernels, x, self.activation, prepared, room, |position, target, logits| {
                let outputs = &mut outputs[position];
                match target {
                    None => fill(&mut outputs.policy, logits),
                    Some((index, target)) => {
                        if outputs.beside.len() <= index {
                            outputs.beside.resize_with(index + 1, || (target, Vec::new()));
                        }
                        outputs.beside[index].0 = target;
                        fill(&mut outputs.beside[index].1, logits);
                    }
                }
            });
        }
        if let Some(head) = &self.move_value {
            head.apply(kernels, x, self.activation, prepared, room, |position, _, logits| {
                let values = &mut outputs[position].move_value;
                fill(values, logits);
                values.iter_mut().for_each(|value| *value = tanh(*value));
            });
        }
        for (index, layer) in self.values.iter().enumerate() {
            if let Some(layer) = layer {
                let outputs = outputs.iter_mut().map(|outputs| outputs.values[index].get_or_insert_default());
                layer.apply(kernels, x, self.activation, prepared, room, outputs);
            }
        }
        if let Some(layer) = &self.moves_left {
            let outputs = outputs.iter_mut().map(|outputs| &mut outputs.moves_left);
            layer.apply(kernels, x, self.activation, prepared, room, outputs);
        }
        outputs.iter_mut().for_each(|outputs| self.forget_others(outputs));
    }

    /// Empties what this network does not say, and another with the same memory may have said.
    fn forget_others(&self, outputs: &mut Outputs) {
        let lacking = [
            (self.action_value.is_none(), &mut outputs.action_value),
            (self.state_value.is_none(), &mut outputs.state_value),
            (self.policy.is_none() && self.actions.is_none(), &mut outputs.policy),
            (self.move_value.is_none(), &mut outputs.move_value),
        ];
        for (_, numbers) in lacking.into_iter().filter(|(lacking, _)| *lacking) {
            numbers.clear();
        }
        outputs.beside.truncate(self.policy.as_ref().map_or(0, PairsLayer::beside));
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

/// Replaces numbers, without new memory where there was enough before.
fn fill(to: &mut Vec<f32>, from: &[f32]) {
    to.clear();
    to.extend_from_slice(from);
}
