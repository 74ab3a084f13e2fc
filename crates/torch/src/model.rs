//! The forward pass, as tensors that know their slopes. It must say what `tandem_transformer::Network` says.

mod attention;
mod bridge;
mod embedding;
mod feed_forward;
mod heads;
#[cfg(test)]
mod tests;

pub(crate) use feed_forward::{Routing, are_asked_at_once};

use crate::fused::Fused;
use crate::parameters::Named;
use crate::shim::{Joined, NormNumbers};
use std::cell::RefCell;
use std::collections::BTreeMap;
use tandem_hybrid::BridgeForm;
use tandem_transformer::{Activation, Architecture, Input, NormKind, NormPlace};
use tch::{Device, Kind, Tensor};

pub(crate) const SQUARES: i64 = 64;

/// What a network reads, on the device that it computes on.
pub(crate) enum ModelInputs {
    /// Tokens of the text, and of the action where there is one: `[batch, 78 or 79]`.
    Text(Tensor),
    /// For each position and channel the squares that have it as bits of a number, and what they have: `[batch, channels]`.
    /// And for a bridge what an NNUE sees, in bytes: `[batch, numbers]`.
    Squares { masks: Tensor, levels: Tensor, seen: Option<Tensor> },
}

/// What a network says, by the names of its heads, and how its experts were chosen.
pub(crate) struct Said {
    pub(crate) heads: BTreeMap<String, Tensor>,
    pub(crate) routing: Vec<Routing>,
}

/// Numbers that every pass needs and no pass changes.
pub(crate) struct Model {
    architecture: Architecture,
    kind: Kind,
    /// 0 to 63.
    squares: Tensor,
    /// Where lc0's moves stand among pairs of squares and promotions.
    moves: Tensor,
    /// What hides the move from the position.
    mask: Option<Tensor>,
    /// Kernels of our own, where there are some.
    fused: Option<Fused>,
    /// How the network is given what a bridge makes, where there is one.
    bridge: Option<BridgeForm>,
}

impl Model {
    pub(crate) fn new(architecture: &Architecture, kind: Kind, device: Device) -> Self {
        Self {
            architecture: architecture.clone(),
            kind,
            squares: Tensor::arange(SQUARES, (Kind::Int64, device)),
            moves: Tensor::from_slice(&heads::places_of_moves()).to_device(device),
            mask: attention::mask(architecture, kind, device),
            fused: Fused::of(architecture, kind, device),
            bridge: None,
        }
    }

    /// The same with a bridge to it.
    pub(crate) fn with_bridge(self, form: Option<BridgeForm>) -> Self {
        Self { bridge: form, ..self }
    }

    /// Computes with libtorch's kernels alone.
    #[cfg(test)]
    pub(crate) fn use_plain(&mut self) {
        self.fused = None;
    }

    /// Whether kernels of our own are in use.
    #[cfg(test)]
    pub(crate) fn has_kernels(&self) -> bool {
        self.fused.as_ref().is_some_and(Fused::is_well)
    }

    /// What the network with these tensors says.
    pub(crate) fn forward(&self, tensors: &Named, inputs: &ModelInputs) -> Said {
        self.forward_without(tensors, inputs, 0.0)
    }

    /// The same while it learns, without a share of the bridge's numbers, which are chosen by chance.
    pub(crate) fn forward_without(&self, tensors: &Named, inputs: &ModelInputs, dropout: f64) -> Said {
        let pass = Pass { model: self, tensors, routing: RefCell::default() };
        let x = match inputs {
            ModelInputs::Text(tokens) => pass.embed_text(tokens),
            ModelInputs::Squares { masks, levels, seen } => {
                let code = seen.as_ref().zip(self.bridge);
                let code = code.map(|(seen, form)| (form, pass.cross(seen, dropout)));
                pass.embed_squares(&self.expand(masks, levels), code)
            }
        };
        let x = pass.blocks(x);
        let heads = match self.architecture.input {
            Input::Text => pass.text_heads(&x.select(1, -1)),
            Input::Squares | Input::Planes | Input::LonePlanes => pass.square_heads(&x),
        };
        Said { heads, routing: pass.routing.into_inner() }
    }

    /// Numbers for each square: `[batch, 64, channels]`.
    fn expand(&self, masks: &Tensor, levels: &Tensor) -> Tensor {
        let bits = masks.unsqueeze(1).bitwise_right_shift(&self.squares.view([1, SQUARES, 1])).bitwise_and(1);
        bits.to_kind(self.kind) * levels.unsqueeze(1).to_kind(self.kind)
    }
}

/// One pass through a network.
struct Pass<'a> {
    model: &'a Model,
    tensors: &'a Named,
    routing: RefCell<Vec<Routing>>,
}

impl Pass<'_> {
    fn architecture(&self) -> &Architecture {
        &self.model.architecture
    }

    fn linear(&self, x: &Tensor, name: &str) -> Tensor {
        x.linear(self.tensors.get(&format!("{name}.weight")), self.tensors.find(&format!("{name}.bias")))
    }

    /// A layer and the curve after it.
    fn bent_linear(&self, x: &Tensor, name: &str) -> Tensor {
        let bias = self.tensors.find(&format!("{name}.bias"));
        self.bent_product(x, self.tensors.get(&format!("{name}.weight")), bias)
    }

    fn bent_product(&self, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let activation = self.architecture().body.activation;
        let Some(fused) = &self.model.fused else { return bent(&x.linear(weight, bias), activation) };
        // The bias waits for the curve, whose kernel also sums the bias's slopes.
        let product = x.linear(weight, None::<&Tensor>);
        fused.bend(&product, bias).unwrap_or_else(|| match bias {
            Some(bias) => bent(&(product + bias), activation),
            None => bent(&product, activation),
        })
    }

    fn norm(&self, x: &Tensor, name: &str) -> Tensor {
        self.join(x, None, 1.0, name).normed
    }

    /// A branch joins the rows, weighted by a factor, and the norm that comes then is made of them.
    fn join(&self, x: &Tensor, branch: Option<&Tensor>, factor: f64, name: &str) -> Joined {
        let norm = &self.architecture().body.norm;
        let numbers = NormNumbers {
            scale: self.tensors.get(&format!("{name}.scale")),
            offset: self.tensors.find(&format!("{name}.offset")),
            epsilon: f64::from(norm.epsilon),
            centred: norm.kind == NormKind::Layer,
        };
        let fused = self.model.fused.as_ref();
        fused.and_then(|fused| fused.add_norm(x, branch, factor, numbers)).unwrap_or_else(|| {
            let sum = match branch {
                Some(branch) if factor == 1.0 => x + branch,
                Some(branch) => x + branch * factor,
                None => x.shallow_clone(),
            };
            let normed = self.norm_of(&sum, name, norm.kind, norm.epsilon);
            Joined { sum, normed }
        })
    }

    fn norm_of(&self, x: &Tensor, name: &str, kind: NormKind, epsilon: f32) -> Tensor {
        let (scale, epsilon) = (self.tensors.get(&format!("{name}.scale")), f64::from(epsilon));
        match kind {
            NormKind::Layer => {
                let offset = self.tensors.find(&format!("{name}.offset"));
                x.layer_norm(scale.size(), Some(scale), offset, epsilon, true)
            }
            NormKind::Rms => {
                let wide = x.to_kind(accurate(x.kind()));
                let size = (wide.square().mean_dim(&[-1i64][..], true, wide.kind()) + epsilon).rsqrt();
                (wide * size).to_kind(x.kind()) * scale
            }
        }
    }

    /// Attention and what happens to each token alone, layer after layer, each joined to the rows.
    fn blocks(&self, x: Tensor) -> Tensor {
        match self.architecture().body.norm.place {
            NormPlace::Pre => self.blocks_after_norms(x),
            NormPlace::Post => self.blocks_before_norms(x),
        }
    }

    fn blocks_after_norms(&self, mut x: Tensor) -> Tensor {
        // What a branch makes joins the rows when the next norm is made.
        let mut made: Option<Tensor> = None;
        for (layer, branch) in self.branches() {
            let joined = self.join(&x, made.as_ref(), 1.0, &branch.norm(&layer));
            made = Some(self.branch(branch, &joined.normed, &layer));
            x = joined.sum;
        }
        match made {
            made if self.architecture().body.norm.last => {
                self.join(&x, made.as_ref(), 1.0, "last_norm").normed
            }
            Some(made) => x + made,
            None => x,
        }
    }

    fn blocks_before_norms(&self, mut x: Tensor) -> Tensor {
        let factor = f64::from(self.architecture().branch_factor());
        for (layer, branch) in self.branches() {
            let made = self.branch(branch, &x, &layer);
            x = self.join(&x, Some(&made), factor, &branch.norm(&layer)).normed;
        }
        if self.architecture().body.norm.last { self.norm(&x, "last_norm") } else { x }
    }

    /// All branches, in their order, with the names of their layers.
    fn branches(&self) -> impl Iterator<Item = (String, Branch)> {
        let layers = 0..self.architecture().body.layers;
        layers.flat_map(|layer| Branch::ALL.map(|branch| (format!("layers.{layer}"), branch)))
    }

    fn branch(&self, branch: Branch, x: &Tensor, layer: &str) -> Tensor {
        match branch {
            Branch::Attention => self.attention(x, layer),
            Branch::FeedForward => self.mix(x, layer),
        }
    }
}

/// The halves of a block.
#[derive(Clone, Copy)]
enum Branch {
    Attention,
    FeedForward,
}

impl Branch {
    const ALL: [Self; 2] = [Self::Attention, Self::FeedForward];

    fn norm(self, layer: &str) -> String {
        match self {
            Self::Attention => format!("{layer}.attention_norm"),
            Self::FeedForward => format!("{layer}.feed_forward_norm"),
        }
    }
}

/// What sums of many numbers are made in.
fn accurate(kind: Kind) -> Kind {
    if kind == Kind::Double { Kind::Double } else { Kind::Float }
}

/// A curve.
pub(crate) fn bent(x: &Tensor, activation: Activation) -> Tensor {
    match activation {
        Activation::Silu => x.silu(),
        Activation::Mish => x.mish(),
        Activation::Gelu => x.gelu("none"),
        Activation::SquaredRelu => x.relu().square(),
        Activation::Relu => x.relu(),
    }
}
