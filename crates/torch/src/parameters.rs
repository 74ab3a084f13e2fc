//! Parameters of a network in one flat buffer.
//!
//! A step of the optimiser, an average, an all-reduce and a checkpoint are then single operations on one
//! tensor. Gradients are flat as well, because the tensors of the network are views that autograd joins again
//! in the backward pass.

use crate::shim::TorchError;
use crate::sparsity::two_four_mask;
use tandem_hybrid::Bridge;
use tandem_transformer::{Architecture, NamedTensors, TensorSpec, Weights, WeightsError};
use tch::{Device, Kind, Tensor};

/// Place of a tensor in its layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TensorId(usize);

/// The tensors of a network, in the order of its layout.
pub(crate) struct ParameterViews(Vec<Tensor>);

impl ParameterViews {
    /// The tensor at a place of the layout.
    pub(crate) fn get(&self, id: TensorId) -> &Tensor {
        &self.0[id.0]
    }
}

/// Layout of the flat buffer: the tensors of a network, and of a bridge to it. Those with weight decay come
/// first, so that decay applies to one contiguous range.
#[derive(Clone, Debug)]
pub(crate) struct ParameterLayout {
    specs: Vec<TensorSpec>,
    num_decayed: usize,
}

/// True if a tensor belongs to the bridge, false if to the network.
pub(crate) fn is_bridge_tensor(name: &str) -> bool {
    name.starts_with("bridge.")
}

impl ParameterLayout {
    pub(crate) fn new(architecture: &Architecture, bridge: Option<&Bridge>) -> Self {
        let of_bridge = bridge.iter().flat_map(|bridge| bridge.tensors());
        let of_bridge = of_bridge.map(|(name, shape, _)| TensorSpec { name: name.into(), shape });
        Self::from_specs(architecture.tensors().into_iter().chain(of_bridge))
    }

    pub(crate) fn from_specs(tensors: impl Iterator<Item = TensorSpec>) -> Self {
        // Scales, offsets, biases and gates do not decay.
        let decays = |spec: &TensorSpec| spec.shape.len() > 1 && !spec.name.starts_with("embedding.gate");
        let (mut specs, rest): (Vec<_>, Vec<_>) = tensors.partition(decays);
        let num_decayed = specs.iter().map(TensorSpec::len).sum();
        specs.extend(rest);
        Self { specs, num_decayed }
    }

    /// Number of parameters with weight decay, which are the first of the buffer.
    pub(crate) fn num_decayed(&self) -> i64 {
        self.num_decayed as i64
    }

    pub(crate) fn len(&self) -> i64 {
        self.specs.iter().map(TensorSpec::len).sum::<usize>() as i64
    }

    pub(crate) fn specs(&self) -> &[TensorSpec] {
        &self.specs
    }

    /// Place of the tensor with a name; `None` if the network has none, for example no bias.
    pub(crate) fn find(&self, name: &str) -> Option<TensorId> {
        self.specs.iter().position(|spec| spec.name == name).map(TensorId)
    }

    /// Views of a flat tensor, with their shapes.
    pub(crate) fn views(&self, flat: &Tensor) -> ParameterViews {
        let sizes: Vec<i64> = self.specs.iter().map(|spec| spec.len() as i64).collect();
        let parts = flat.split_with_sizes(sizes, 0);
        let shaped = self.specs.iter().zip(parts).map(|(spec, part)| {
            let shape: Vec<i64> = spec.shape.iter().map(|&size| size as i64).collect();
            part.view(shape.as_slice())
        });
        ParameterViews(shaped.collect())
    }

    /// Copies the parameters of a network, and of a bridge if the layout has one, to a new flat tensor.
    pub(crate) fn flatten(&self, weights: &Weights, bridge: Option<&Bridge>, device: Device) -> Tensor {
        let of_bridge = bridge.map(Bridge::tensors).unwrap_or_default();
        let parts: Vec<Tensor> = self
            .specs
            .iter()
            .map(|spec| {
                let in_bridge = of_bridge.iter().find(|(name, ..)| *name == spec.name);
                match weights.get(&spec.name).or(in_bridge.map(|&(_, _, values)| values)) {
                    Some(values) => Tensor::from_slice(values),
                    None => unreachable!("the architecture or the bridge has {}", spec.name),
                }
            })
            .collect();
        Tensor::cat(&parts, 0).to_device(device)
    }

    /// The network that a flat tensor holds.
    pub(crate) fn weights(
        &self,
        architecture: &Architecture,
        flat: &Tensor,
    ) -> Result<Weights, WeightsError> {
        Weights::new(architecture.clone(), self.to_named(flat, |name| !is_bridge_tensor(name)))
    }

    /// The bridge that a flat tensor holds, with the form and sizes of `start`; `None` if the layout has no
    /// bridge.
    pub(crate) fn bridge(&self, start: &Bridge, flat: &Tensor) -> Option<Bridge> {
        let mut tensors = self.to_named(flat, is_bridge_tensor);
        let (form, inputs, outputs) = (start.form(), start.inputs(), start.outputs());
        let take = |name: &str, _: &[usize]| tensors.remove(name).map(|(_, values)| values).ok_or(());
        Bridge::from_tensors(form, inputs, outputs, take).ok()
    }

    /// Copies the tensors whose names are wanted to the CPU.
    fn to_named(&self, flat: &Tensor, wanted: impl Fn(&str) -> bool) -> NamedTensors {
        let values = to_vec(flat);
        let mut offset = 0;
        let mut tensors = NamedTensors::new();
        for spec in &self.specs {
            let part = offset..offset + spec.len();
            offset = part.end;
            if wanted(&spec.name) {
                tensors.insert(spec.name.clone(), (spec.shape.clone(), values[part].to_vec()));
            }
        }
        tensors
    }

    /// A mask over the flat buffer: 0 for tensors that `is_selected` names, 1 for all others.
    pub(crate) fn mask_without(&self, is_selected: impl Fn(&str) -> bool, device: Device) -> Tensor {
        let mask = Tensor::ones([self.len()], (Kind::Float, device));
        let mut offset = 0;
        for spec in &self.specs {
            let len = spec.len() as i64;
            if is_selected(&spec.name) {
                let _ = mask.narrow(0, offset, len).zero_();
            }
            offset += len;
        }
        mask
    }
}

/// The values of a tensor, in row-major order.
pub(crate) fn to_vec(tensor: &Tensor) -> Vec<f32> {
    let on_cpu = tensor.detach().to_device(Device::Cpu).to_kind(Kind::Float).contiguous().view(-1);
    let mut values = vec![0.0; on_cpu.numel()];
    let count = values.len();
    on_cpu.copy_data(&mut values, count);
    values
}

/// Trainable parameters: a master copy in f32 for the optimiser, and a working copy in the precision of the
/// forward pass, which is the autograd leaf.
pub(crate) struct ParameterBuffer {
    pub(crate) master: Tensor,
    working: Tensor,
    /// Layout for 2:4 sparsity; `None` without. The mask applies to the working copy only: pruned weights go
    /// on training in the master copy, so they can return.
    sparsity: Option<ParameterLayout>,
}

impl ParameterBuffer {
    pub(crate) fn new(master: Tensor, kind: Kind, sparsity: Option<ParameterLayout>) -> Self {
        let working = match (kind, &sparsity) {
            (Kind::Float, None) => master.shallow_clone(),
            _ => master.to_kind(kind).copy(),
        };
        let mut parameters = Self { master, working: working.set_requires_grad(true), sparsity };
        parameters.refresh();
        parameters
    }

    /// The working copy.
    pub(crate) fn working(&self) -> &Tensor {
        &self.working
    }

    fn has_copy(&self) -> bool {
        self.working.kind() != Kind::Float || self.sparsity.is_some()
    }

    /// Updates the working copy after the master copy has changed.
    pub(crate) fn refresh(&mut self) {
        if !self.has_copy() {
            return;
        }
        tch::no_grad(|| match &self.sparsity {
            Some(layout) => self.working.copy_(&(&self.master * two_four_mask(layout, &self.master))),
            None => self.working.copy_(&self.master),
        });
    }

    /// Returns the gradients in f32 and clears them.
    pub(crate) fn take_grads(&mut self) -> Result<Tensor, TorchError> {
        let grads = self.working.f_grad()?;
        let grads_f32 = if grads.kind() == Kind::Float { grads.copy() } else { grads.to_kind(Kind::Float) };
        self.working.zero_grad();
        Ok(grads_f32)
    }
}
