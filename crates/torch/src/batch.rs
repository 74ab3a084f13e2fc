//! Transfer of training samples to the device, and their inputs in the form that the network reads.

use crate::model::ModelInputs;
use crate::shim::pin;
use tandem_train::transformer::{SampleShape, Samples};
use tandem_transformer::Input;
use tch::{Device, Kind, Tensor};

/// Samples of a step on the device. Arrays travel in their compact types, bit masks and 16-bit indices, and
/// are expanded on the device, because the transfer costs more than the expansion. Optional tensors are
/// `None` if the network has no use for them.
pub(crate) struct Batch {
    tokens: Option<Tensor>,
    actions: Option<Tensor>,
    masks: Option<Tensor>,
    levels: Option<Tensor>,
    bridge_inputs: Option<Tensor>,
    pub(crate) policy: Option<Tensor>,
    pub(crate) legal: Option<Tensor>,
    pub(crate) opponent: Option<Tensor>,
    pub(crate) win_probability: Tensor,
    pub(crate) wdl: Tensor,
    pub(crate) search: Option<Tensor>,
    pub(crate) short_term: Option<Tensor>,
    pub(crate) moves_left: Option<Tensor>,
    pub(crate) len: i64,
}

impl Batch {
    pub(crate) fn new(samples: &Samples, shape: &SampleShape, device: Device) -> Self {
        let len = samples.len() as i64;
        let when =
            |is_used: bool, tensor: &dyn Fn() -> Tensor| is_used.then(|| send_to_device(tensor(), device));
        // Indices stay below 2,000, so the cast is exact and an unknown move, 0xffff, becomes -1.
        let indices = |values: &[u16]| Tensor::from_slice(bytemuck::cast_slice::<u16, i16>(values));
        let bit_masks =
            |values: &[u64]| Tensor::from_slice(bytemuck::cast_slice::<u64, i64>(values)).view([len, -1]);
        let outcomes = |values: &[[f32; 3]]| Tensor::from_slice(values.as_flattened()).view([len, 3]);
        let text = shape.input == Input::Text;
        Self {
            tokens: when(text, &|| indices(&samples.tokens).view([len, -1])),
            actions: when(shape.actions, &|| indices(&samples.actions).view([len, 1])),
            masks: when(!text, &|| bit_masks(&samples.masks)),
            levels: when(!text, &|| Tensor::from_slice(&samples.levels).view([len, -1])),
            bridge_inputs: when(shape.bridge_inputs > 0, &|| {
                Tensor::from_slice(&samples.bridge_inputs).view([len, -1])
            }),
            policy: when(!samples.policy.is_empty(), &|| indices(&samples.policy)),
            legal: when(!samples.legal.is_empty(), &|| bit_masks(&samples.legal)),
            opponent: when(!samples.opponent.is_empty(), &|| indices(&samples.opponent)),
            win_probability: send_to_device(Tensor::from_slice(&samples.win_probability), device),
            wdl: send_to_device(outcomes(&samples.wdl), device),
            search: when(!samples.search.is_empty(), &|| outcomes(&samples.search)),
            short_term: when(!samples.short_term.is_empty(), &|| outcomes(&samples.short_term)),
            moves_left: when(!samples.moves_left.is_empty(), &|| Tensor::from_slice(&samples.moves_left)),
            len,
        }
    }

    /// All tensors, in an order that is the same for every batch of a network.
    fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        // Destructured without `..`, so that a new field cannot be forgotten: a replayed step would train on
        // old data.
        let Self {
            tokens,
            actions,
            masks,
            levels,
            bridge_inputs,
            policy,
            legal,
            opponent,
            win_probability,
            wdl,
            search,
            short_term,
            moves_left,
            len: _,
        } = self;
        let maybe = [
            tokens,
            actions,
            masks,
            levels,
            bridge_inputs,
            policy,
            legal,
            opponent,
            search,
            short_term,
            moves_left,
        ];
        maybe.into_iter().flatten().chain([win_probability, wdl])
    }

    /// Copies another batch of the same size into the tensors of this one, because a captured CUDA graph
    /// reads fixed addresses.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        for (target, source) in self.tensors().zip(other.tensors()) {
            let mut target = target.shallow_clone();
            target.copy_(source);
        }
    }

    /// The `len` positions from `first` on, as views that share the memory of this batch.
    pub(crate) fn narrow(&self, first: i64, len: i64) -> Self {
        let slice = |tensor: &Tensor| tensor.narrow(0, first, len);
        let maybe = |tensor: &Option<Tensor>| tensor.as_ref().map(slice);
        Self {
            tokens: maybe(&self.tokens),
            actions: maybe(&self.actions),
            masks: maybe(&self.masks),
            levels: maybe(&self.levels),
            bridge_inputs: maybe(&self.bridge_inputs),
            policy: maybe(&self.policy),
            legal: maybe(&self.legal),
            opponent: maybe(&self.opponent),
            win_probability: slice(&self.win_probability),
            wdl: slice(&self.wdl),
            search: maybe(&self.search),
            short_term: maybe(&self.short_term),
            moves_left: maybe(&self.moves_left),
            len,
        }
    }

    /// Inputs of the network, without the targets.
    pub(crate) fn inputs(&self) -> ModelInputs {
        match (&self.tokens, &self.masks, &self.levels) {
            (Some(tokens), _, _) => {
                let all = match &self.actions {
                    Some(actions) => Tensor::cat(&[tokens, actions], 1),
                    None => tokens.shallow_clone(),
                };
                ModelInputs::Text(all.to_kind(Kind::Int64))
            }
            (None, Some(masks), Some(levels)) => {
                let bridge_inputs = self.bridge_inputs.as_ref().map(Tensor::shallow_clone);
                ModelInputs::Squares {
                    masks: masks.shallow_clone(),
                    levels: levels.shallow_clone(),
                    bridge_inputs,
                }
            }
            _ => unreachable!("a network reads text or squares"),
        }
    }
}

/// Sends a CPU tensor to a device. For a GPU it is pinned first, because only then does the copy overlap with
/// the kernels that are still running; a copy from pageable memory would wait for them.
fn send_to_device(mut tensor: Tensor, device: Device) -> Tensor {
    let pinned = device.is_cuda() && pin(&mut tensor).is_ok();
    tensor.to_device_(device, tensor.kind(), pinned, false)
}
