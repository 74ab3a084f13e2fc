//! Samples on the device that computes.

use crate::model::ModelInputs;
use crate::shim::pin;
use tandem_train::transformer::{SampleShape, Samples};
use tandem_transformer::Input;
use tch::{Device, Kind, Tensor};

/// What travels to the device: every array as it is, small, and to be unfolded there.
pub(crate) struct Batch {
    tokens: Option<Tensor>,
    actions: Option<Tensor>,
    masks: Option<Tensor>,
    levels: Option<Tensor>,
    seen: Option<Tensor>,
    pub(crate) policy: Option<Tensor>,
    pub(crate) legal: Option<Tensor>,
    pub(crate) opponent: Option<Tensor>,
    pub(crate) chance: Tensor,
    pub(crate) wdl: Tensor,
    pub(crate) search: Option<Tensor>,
    pub(crate) short_term: Option<Tensor>,
    pub(crate) moves_left: Option<Tensor>,
    pub(crate) len: i64,
}

impl Batch {
    pub(crate) fn new(samples: &Samples, shape: &SampleShape, device: Device) -> Self {
        let len = samples.len() as i64;
        let there = |is_there: bool, tensor: &dyn Fn() -> Tensor| is_there.then(|| sent(tensor(), device));
        // Move numbers stay below 2,000, so that one that is not known becomes -1.
        let numbers = |values: &[u16]| Tensor::from_slice(bytemuck::cast_slice::<u16, i16>(values));
        let words =
            |values: &[u64]| Tensor::from_slice(bytemuck::cast_slice::<u64, i64>(values)).view([len, -1]);
        let outcomes = |values: &[[f32; 3]]| Tensor::from_slice(values.as_flattened()).view([len, 3]);
        let text = shape.input == Input::Text;
        Self {
            tokens: there(text, &|| numbers(&samples.tokens).view([len, -1])),
            actions: there(shape.actions, &|| numbers(&samples.actions).view([len, 1])),
            masks: there(!text, &|| words(&samples.masks)),
            levels: there(!text, &|| Tensor::from_slice(&samples.levels).view([len, -1])),
            seen: there(shape.seen > 0, &|| Tensor::from_slice(&samples.seen).view([len, -1])),
            policy: there(!samples.policy.is_empty(), &|| numbers(&samples.policy)),
            legal: there(!samples.legal.is_empty(), &|| words(&samples.legal)),
            opponent: there(!samples.opponent.is_empty(), &|| numbers(&samples.opponent)),
            chance: sent(Tensor::from_slice(&samples.chance), device),
            wdl: sent(outcomes(&samples.wdl), device),
            search: there(!samples.search.is_empty(), &|| outcomes(&samples.search)),
            short_term: there(!samples.short_term.is_empty(), &|| outcomes(&samples.short_term)),
            moves_left: there(!samples.moves_left.is_empty(), &|| Tensor::from_slice(&samples.moves_left)),
            len,
        }
    }

    /// All tensors, in one order.
    fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        // Named one by one, so that none is forgotten: a recorded step would learn from what is old.
        let Self {
            tokens,
            actions,
            masks,
            levels,
            seen,
            policy,
            legal,
            opponent,
            chance,
            wdl,
            search,
            short_term,
            moves_left,
            len: _,
        } = self;
        let maybe =
            [tokens, actions, masks, levels, seen, policy, legal, opponent, search, short_term, moves_left];
        maybe.into_iter().flatten().chain([chance, wdl])
    }

    /// Takes over another batch of the same size, in the same memory: what a recorded step reads.
    pub(crate) fn refill(&mut self, other: &Self) {
        for (mine, theirs) in self.tensors().zip(other.tensors()) {
            let mut mine = mine.shallow_clone();
            mine.copy_(theirs);
        }
    }

    /// A part of it.
    pub(crate) fn part(&self, first: i64, len: i64) -> Self {
        let cut = |tensor: &Tensor| tensor.narrow(0, first, len);
        let maybe = |tensor: &Option<Tensor>| tensor.as_ref().map(cut);
        Self {
            tokens: maybe(&self.tokens),
            actions: maybe(&self.actions),
            masks: maybe(&self.masks),
            levels: maybe(&self.levels),
            seen: maybe(&self.seen),
            policy: maybe(&self.policy),
            legal: maybe(&self.legal),
            opponent: maybe(&self.opponent),
            chance: cut(&self.chance),
            wdl: cut(&self.wdl),
            search: maybe(&self.search),
            short_term: maybe(&self.short_term),
            moves_left: maybe(&self.moves_left),
            len,
        }
    }

    /// What the network reads.
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
                let seen = self.seen.as_ref().map(Tensor::shallow_clone);
                ModelInputs::Squares { masks: masks.shallow_clone(), levels: levels.shallow_clone(), seen }
            }
            _ => unreachable!("a network reads text or squares"),
        }
    }
}

/// A tensor of the processor on its way to a device. A card fetches it while it still computes what it was asked before; out of
/// memory that is not pinned it would be waited for.
fn sent(mut tensor: Tensor, device: Device) -> Tensor {
    let pinned = device.is_cuda() && pin(&mut tensor).is_ok();
    tensor.to_device_(device, tensor.kind(), pinned, false)
}
