//! The forward pass, as tensors that know their slopes. It must say what `tandem_transformer::Network` says.

mod attention;
mod embedding;
mod feed_forward;
mod heads;
#[cfg(test)]
mod tests;

pub(crate) use feed_forward::Routing;

use crate::parameters::Named;
use std::cell::RefCell;
use std::collections::BTreeMap;
use tandem_transformer::{Activation, Architecture, Input, NormKind, NormPlace};
use tch::{Device, Kind, Tensor};

pub(crate) const SQUARES: i64 = 64;

/// What a network reads, on the device that it computes on.
pub(crate) enum ModelInputs {
    /// Tokens of the text, and of the action where there is one: `[batch, 78 or 79]`.
    Text(Tensor),
    /// For each position and channel the squares that have it as bits of a number, and what they have: `[batch, channels]`.
    Squares { masks: Tensor, levels: Tensor },
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
}

impl Model {
    pub(crate) fn new(architecture: &Architecture, kind: Kind, device: Device) -> Self {
        Self {
            architecture: architecture.clone(),
            kind,
            squares: Tensor::arange(SQUARES, (Kind::Int64, device)),
            moves: Tensor::from_slice(&heads::places_of_moves()).to_device(device),
            mask: attention::mask(architecture, kind, device),
        }
    }

    /// What the network with these tensors says.
    pub(crate) fn forward(&self, tensors: &Named, inputs: &ModelInputs) -> Said {
        let pass = Pass { model: self, tensors, routing: RefCell::default() };
        let mut x = match inputs {
            ModelInputs::Text(tokens) => pass.embed_text(tokens),
            ModelInputs::Squares { masks, levels } => pass.embed_squares(&self.expand(masks, levels)),
        };
        for layer in 0..self.architecture.body.layers {
            x = pass.block(&x, &format!("layers.{layer}"));
        }
        if self.architecture.body.norm.last {
            x = pass.norm(&x, "last_norm");
        }
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

    fn bend(&self, x: &Tensor) -> Tensor {
        bent(x, self.architecture().body.activation)
    }

    fn norm(&self, x: &Tensor, name: &str) -> Tensor {
        let norm = &self.architecture().body.norm;
        self.norm_of(x, name, norm.kind, norm.epsilon)
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

    /// Attention and what happens to each token alone, each joined to the rows.
    fn block(&self, x: &Tensor, name: &str) -> Tensor {
        let x = self.branch(x, &format!("{name}.attention_norm"), |rows| self.attention(rows, name));
        self.branch(&x, &format!("{name}.feed_forward_norm"), |rows| self.mix(rows, name))
    }

    fn branch(&self, x: &Tensor, norm: &str, work: impl Fn(&Tensor) -> Tensor) -> Tensor {
        match self.architecture().body.norm.place {
            NormPlace::Pre => x + work(&self.norm(x, norm)),
            NormPlace::Post => {
                let factor = f64::from(self.architecture().branch_factor());
                self.norm(&(x + work(x) * factor), norm)
            }
        }
    }
}

/// What sums of many numbers are made in.
fn accurate(kind: Kind) -> Kind {
    if kind == Kind::Double { Kind::Double } else { Kind::Float }
}

fn bent(x: &Tensor, activation: Activation) -> Tensor {
    match activation {
        Activation::Silu => x.silu(),
        Activation::Mish => x.mish(),
        Activation::Gelu => x.gelu("none"),
        Activation::SquaredRelu => x.relu().square(),
        Activation::Relu => x.relu(),
    }
}
