//! The numbers of a network, all in one row.
//!
//! An optimiser's step, an average, a sum over machines, a checkpoint: each is then one operation on one tensor, and
//! slopes come in such a row by themselves, since what a row was split into is joined again on the way back.

use crate::shim::TorchError;
use crate::sparsity::two_of_four;
use std::collections::HashMap;
use tandem_hybrid::Bridge;
use tandem_transformer::{Architecture, NamedTensors, TensorSpec, Weights, WeightsError};
use tch::{Device, Kind, Tensor};

/// The tensors of a network by their names.
pub(crate) struct Named(HashMap<String, Tensor>);

impl Named {
    /// One that the architecture has.
    pub(crate) fn get(&self, name: &str) -> &Tensor {
        self.find(name).unwrap_or_else(|| unreachable!("the architecture has no {name}"))
    }

    /// One that it may have.
    pub(crate) fn find(&self, name: &str) -> Option<&Tensor> {
        self.0.get(name)
    }
}

/// Where the numbers of a network, and of a bridge to it, are in the row: those that an optimiser lets decay come first.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    specs: Vec<TensorSpec>,
    decayed: usize,
}

/// Whether a tensor is a bridge's and not the network's.
pub(crate) fn is_of_bridge(name: &str) -> bool {
    name.starts_with("bridge.")
}

impl Row {
    pub(crate) fn of(architecture: &Architecture, bridge: Option<&Bridge>) -> Self {
        let of_bridge = bridge.iter().flat_map(|bridge| bridge.tensors());
        let of_bridge = of_bridge.map(|(name, shape, _)| TensorSpec { name: name.into(), shape });
        Self::new(architecture.tensors().into_iter().chain(of_bridge))
    }

    pub(crate) fn new(tensors: impl Iterator<Item = TensorSpec>) -> Self {
        // Scales, offsets, biases and gates stay as they are learnt.
        let decays = |spec: &TensorSpec| spec.shape.len() > 1 && !spec.name.starts_with("embedding.gate");
        let (mut specs, rest): (Vec<_>, Vec<_>) = tensors.partition(decays);
        let decayed = specs.iter().map(TensorSpec::len).sum();
        specs.extend(rest);
        Self { specs, decayed }
    }

    /// The numbers from the start that decay.
    pub(crate) fn decayed(&self) -> i64 {
        self.decayed as i64
    }

    pub(crate) fn len(&self) -> i64 {
        self.specs.iter().map(TensorSpec::len).sum::<usize>() as i64
    }

    pub(crate) fn specs(&self) -> &[TensorSpec] {
        &self.specs
    }

    /// The tensors within a row.
    pub(crate) fn split(&self, row: &Tensor) -> Named {
        let sizes: Vec<i64> = self.specs.iter().map(|spec| spec.len() as i64).collect();
        let parts = row.split_with_sizes(sizes, 0);
        let shaped = self.specs.iter().zip(parts).map(|(spec, part)| {
            let shape: Vec<i64> = spec.shape.iter().map(|&size| size as i64).collect();
            (spec.name.clone(), part.view(shape.as_slice()))
        });
        Named(shaped.collect())
    }

    /// A row with the numbers of a network, and of a bridge if the row has one.
    pub(crate) fn join(&self, weights: &Weights, bridge: Option<&Bridge>, device: Device) -> Tensor {
        let of_bridge = bridge.map(Bridge::tensors).unwrap_or_default();
        let parts: Vec<Tensor> = self
            .specs
            .iter()
            .map(|spec| {
                let beside = of_bridge.iter().find(|(name, ..)| *name == spec.name);
                match weights.get(&spec.name).or(beside.map(|&(_, _, numbers)| numbers)) {
                    Some(numbers) => Tensor::from_slice(numbers),
                    None => unreachable!("the architecture or the bridge has {}", spec.name),
                }
            })
            .collect();
        Tensor::cat(&parts, 0).to_device(device)
    }

    /// The network of a row.
    pub(crate) fn weights(&self, architecture: &Architecture, row: &Tensor) -> Result<Weights, WeightsError> {
        Weights::new(architecture.clone(), self.named_numbers(row, |name| !is_of_bridge(name)))
    }

    /// The bridge of a row that begins as another does; none where the row has none.
    pub(crate) fn bridge(&self, start: &Bridge, row: &Tensor) -> Option<Bridge> {
        let mut tensors = self.named_numbers(row, is_of_bridge);
        let (form, inputs, outputs) = (start.form(), start.inputs(), start.outputs());
        let taken = |name: &str, _: &[usize]| tensors.remove(name).map(|(_, numbers)| numbers).ok_or(());
        Bridge::of_tensors(form, inputs, outputs, taken).ok()
    }

    /// The tensors of a row that are wanted.
    fn named_numbers(&self, row: &Tensor, wanted: impl Fn(&str) -> bool) -> NamedTensors {
        let numbers = numbers_of(row);
        let mut at = 0;
        let mut tensors = NamedTensors::new();
        for spec in &self.specs {
            let part = at..at + spec.len();
            at = part.end;
            if wanted(&spec.name) {
                tensors.insert(spec.name.clone(), (spec.shape.clone(), numbers[part].to_vec()));
            }
        }
        tensors
    }

    /// A row of ones and, for the tensors that are named, of zeros.
    pub(crate) fn ones_but(&self, named: impl Fn(&str) -> bool, device: Device) -> Tensor {
        let ones = Tensor::ones([self.len()], (Kind::Float, device));
        let mut at = 0;
        for spec in &self.specs {
            let len = spec.len() as i64;
            if named(&spec.name) {
                let _ = ones.narrow(0, at, len).zero_();
            }
            at += len;
        }
        ones
    }
}

/// The numbers of a tensor.
pub(crate) fn numbers_of(tensor: &Tensor) -> Vec<f32> {
    let plain = tensor.detach().to_device(Device::Cpu).to_kind(Kind::Float).contiguous().view(-1);
    let mut numbers = vec![0.0; plain.numel()];
    let count = numbers.len();
    plain.copy_data(&mut numbers, count);
    numbers
}

/// A row of numbers that are learnt: in full precision for the optimiser, and as what is computed with.
pub(crate) struct Parameters {
    pub(crate) masters: Tensor,
    working: Tensor,
    /// Two of every four weights alone are computed with. All go on learning, so that the choice can change.
    sparse: Option<Row>,
}

impl Parameters {
    pub(crate) fn new(masters: Tensor, kind: Kind, sparse: Option<Row>) -> Self {
        let working = match (kind, &sparse) {
            (Kind::Float, None) => masters.shallow_clone(),
            _ => masters.to_kind(kind).copy(),
        };
        let mut parameters = Self { masters, working: working.set_requires_grad(true), sparse };
        parameters.refresh();
        parameters
    }

    /// What is computed with.
    pub(crate) fn working(&self) -> &Tensor {
        &self.working
    }

    fn is_copied(&self) -> bool {
        self.working.kind() != Kind::Float || self.sparse.is_some()
    }

    /// After the masters have changed.
    pub(crate) fn refresh(&mut self) {
        if !self.is_copied() {
            return;
        }
        tch::no_grad(|| match &self.sparse {
            Some(row) => self.working.copy_(&(&self.masters * two_of_four(row, &self.masters))),
            None => self.working.copy_(&self.masters),
        });
    }

    /// The slopes of the last step in full precision, taken away from where the next step would add to them.
    pub(crate) fn take_slopes(&mut self) -> Result<Tensor, TorchError> {
        let slopes = self.working.f_grad()?;
        let taken = if slopes.kind() == Kind::Float { slopes.copy() } else { slopes.to_kind(Kind::Float) };
        self.working.zero_grad();
        Ok(taken)
    }
}
