//! The forward pass with autograd. Its outputs must equal those of `tandem_transformer::Network`, which a
//! test checks.

mod attention;
mod bridge;
mod embedding;
mod feed_forward;
mod heads;
mod tensors;
#[cfg(test)]
mod tests;

pub(crate) use feed_forward::{Routing, has_fixed_shapes};

use crate::fused::FusedKernels;
use crate::parameters::{ParameterLayout, ParameterViews, TensorId};
use crate::shim::{NormParameters, NormedSum};
use std::cell::RefCell;
use std::collections::BTreeMap;
use tandem_hybrid::BridgeForm;
use tandem_transformer::{Activation, Architecture, Input, NormKind, NormPlace};
use tch::{Device, Kind, Tensor};
use tensors::{EmbeddingTensors, LayerTensors, Linear, ModelTensors, Norm};

pub(crate) const SQUARES: i64 = 64;

/// Inputs of the network, on its device.
pub(crate) enum ModelInputs {
    /// Tokens of the text followed by that of the move, if the network reads one: `[batch, 78 or 79]`.
    Text(Tensor),
    /// Occupied squares of each channel as a bit mask, and the value of the channel on them: both `[batch,
    /// channels]`. For a bridge also the accumulator of an NNUE, in bytes: `[batch, values]`.
    Squares { masks: Tensor, levels: Tensor, bridge_inputs: Option<Tensor> },
}

/// Outputs by the names of the heads, and the routing of each layer of experts.
pub(crate) struct ModelOutput {
    pub(crate) heads: BTreeMap<String, Tensor>,
    pub(crate) routing: Vec<Routing>,
}

/// Architecture of a network, and constant tensors that every forward pass needs.
pub(crate) struct Model {
    architecture: Architecture,
    tensors: ModelTensors,
    kind: Kind,
    /// Indices of the squares, 0 to 63, by which bit masks are shifted.
    squares: Tensor,
    /// Index of each of lc0's moves among pairs of squares and promotions.
    move_indices: Tensor,
    /// Attention mask that hides the move token from the position.
    mask: Option<Tensor>,
    /// Our own CUDA kernels, if they can be used.
    fused: Option<FusedKernels>,
    /// The way in which the code of a bridge enters the network; `None` without a bridge.
    bridge: Option<BridgeForm>,
}

impl Model {
    /// A model that reads tensors from the places of a layout, which has those of the architecture and possibly
    /// of a bridge.
    pub(crate) fn new(
        architecture: &Architecture,
        layout: &ParameterLayout,
        kind: Kind,
        device: Device,
    ) -> Self {
        Self {
            tensors: ModelTensors::of(layout, architecture),
            architecture: architecture.clone(),
            kind,
            squares: Tensor::arange(SQUARES, (Kind::Int64, device)),
            move_indices: Tensor::from_slice(&heads::move_indices()).to_device(device),
            mask: attention::mask(architecture, kind, device),
            fused: FusedKernels::for_network(architecture, kind, device),
            bridge: None,
        }
    }

    /// Makes the network read the code of a bridge as well, if `form` is given.
    pub(crate) fn with_bridge(self, form: Option<BridgeForm>) -> Self {
        Self { bridge: form, ..self }
    }

    /// Disables our own kernels, to compare them with libtorch's.
    #[cfg(test)]
    pub(crate) fn disable_fused_kernels(&mut self) {
        self.fused = None;
    }

    /// True if our own kernels are in use.
    #[cfg(test)]
    pub(crate) fn uses_fused_kernels(&self) -> bool {
        self.fused.as_ref().is_some_and(FusedKernels::is_active)
    }

    /// Forward pass for inference, without dropout.
    pub(crate) fn forward(&self, parameters: &ParameterViews, inputs: &ModelInputs) -> ModelOutput {
        self.forward_train(parameters, inputs, 0.0)
    }

    /// Forward pass for training: each value of the bridge's code is dropped with probability `dropout`.
    pub(crate) fn forward_train(
        &self,
        parameters: &ParameterViews,
        inputs: &ModelInputs,
        dropout: f64,
    ) -> ModelOutput {
        let pass = Pass { model: self, parameters, routing: RefCell::default() };
        let x = match (inputs, &self.tensors.embedding) {
            (ModelInputs::Text(tokens), EmbeddingTensors::Text(tensors)) => pass.embed_text(tokens, tensors),
            (ModelInputs::Squares { masks, levels, .. }, EmbeddingTensors::Squares(tensors)) => {
                pass.embed_squares(&self.expand(masks, levels), tensors)
            }
            (ModelInputs::Squares { masks, levels, bridge_inputs }, EmbeddingTensors::Board(tensors)) => {
                let bridge = self.bridge.zip(self.tensors.bridge.as_ref());
                let bridge_code = bridge_inputs
                    .as_ref()
                    .zip(bridge)
                    .map(|(inputs, (form, tensors))| (form, pass.bridge_code(inputs, tensors, dropout)));
                pass.embed_board(&self.expand(masks, levels), tensors, bridge_code)
            }
            _ => unreachable!("inputs of another architecture"),
        };
        let x = pass.blocks(x);
        let heads = match self.architecture.input {
            Input::Text => pass.text_heads(&x.select(1, -1)),
            Input::Squares | Input::Planes | Input::PlanesSingle => pass.square_heads(&x),
        };
        ModelOutput { heads, routing: pass.routing.into_inner() }
    }

    /// Expands bit masks to the input of each square: `[batch, 64, channels]`.
    fn expand(&self, masks: &Tensor, levels: &Tensor) -> Tensor {
        let bits = masks.unsqueeze(1).bitwise_right_shift(&self.squares.view([1, SQUARES, 1])).bitwise_and(1);
        bits.to_kind(self.kind) * levels.unsqueeze(1).to_kind(self.kind)
    }
}

/// State of one forward pass.
struct Pass<'a> {
    model: &'a Model,
    parameters: &'a ParameterViews,
    routing: RefCell<Vec<Routing>>,
}

impl Pass<'_> {
    fn architecture(&self) -> &Architecture {
        &self.model.architecture
    }

    fn tensor(&self, id: TensorId) -> &Tensor {
        self.parameters.get(id)
    }

    fn linear(&self, x: &Tensor, layer: &Linear) -> Tensor {
        x.linear(self.tensor(layer.weight), layer.bias.map(|bias| self.tensor(bias)))
    }

    /// A linear layer followed by the network's activation.
    fn linear_activation(&self, x: &Tensor, layer: &Linear) -> Tensor {
        self.matmul_activation(x, self.tensor(layer.weight), layer.bias.map(|bias| self.tensor(bias)))
    }

    fn matmul_activation(&self, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let activation = self.architecture().body.activation;
        let Some(fused) = &self.model.fused else { return activate(&x.linear(weight, bias), activation) };
        // The fused kernel adds the bias itself, because its backward pass then sums the bias gradient as
        // well.
        let product = x.linear(weight, None::<&Tensor>);
        fused.bias_activation(&product, bias).unwrap_or_else(|| match bias {
            Some(bias) => activate(&(product + bias), activation),
            None => activate(&product, activation),
        })
    }

    fn norm(&self, x: &Tensor, tensors: &Norm) -> Tensor {
        self.add_norm(x, None, 1.0, tensors).normed
    }

    /// Adds a branch, multiplied by a factor, to the residual stream and normalises the sum.
    fn add_norm(&self, x: &Tensor, branch: Option<&Tensor>, factor: f64, tensors: &Norm) -> NormedSum {
        let norm = &self.architecture().body.norm;
        let norm_parameters = NormParameters {
            scale: self.tensor(tensors.scale),
            offset: tensors.offset.map(|offset| self.tensor(offset)),
            epsilon: f64::from(norm.epsilon),
            centred: norm.kind == NormKind::Layer,
        };
        let fused = self.model.fused.as_ref();
        fused.and_then(|fused| fused.add_norm(x, branch, factor, norm_parameters)).unwrap_or_else(|| {
            let sum = match branch {
                Some(branch) if factor == 1.0 => x + branch,
                Some(branch) => x + branch * factor,
                None => x.shallow_clone(),
            };
            let normed = self.plain_norm(&sum, tensors, norm.kind, norm.epsilon);
            NormedSum { sum, normed }
        })
    }

    fn plain_norm(&self, x: &Tensor, tensors: &Norm, kind: NormKind, epsilon: f32) -> Tensor {
        let (scale, epsilon) = (self.tensor(tensors.scale), f64::from(epsilon));
        match kind {
            NormKind::Layer => {
                let offset = tensors.offset.map(|offset| self.tensor(offset));
                x.layer_norm(scale.size(), Some(scale), offset, epsilon, true)
            }
            NormKind::Rms => {
                let x_accurate = x.to_kind(accumulation_kind(x.kind()));
                let rstd =
                    (x_accurate.square().mean_dim(&[-1i64][..], true, x_accurate.kind()) + epsilon).rsqrt();
                (x_accurate * rstd).to_kind(x.kind()) * scale
            }
        }
    }

    /// The layers: attention and feed-forward branches, each added to the residual stream.
    fn blocks(&self, x: Tensor) -> Tensor {
        match self.architecture().body.norm.place {
            NormPlace::Pre => self.pre_norm_blocks(x),
            NormPlace::Post => self.post_norm_blocks(x),
        }
    }

    fn pre_norm_blocks(&self, mut x: Tensor) -> Tensor {
        // A branch is added together with the next norm, so that one kernel does both.
        let mut branch_output: Option<Tensor> = None;
        for (layer, branch) in self.branches() {
            let added = self.add_norm(&x, branch_output.as_ref(), 1.0, branch.norm(layer));
            branch_output = Some(self.branch(branch, &added.normed, layer));
            x = added.sum;
        }
        match (branch_output, &self.model.tensors.last_norm) {
            (branch_output, Some(norm)) => self.add_norm(&x, branch_output.as_ref(), 1.0, norm).normed,
            (Some(branch_output), None) => x + branch_output,
            (None, None) => x,
        }
    }

    fn post_norm_blocks(&self, mut x: Tensor) -> Tensor {
        let factor = f64::from(self.architecture().branch_factor());
        for (layer, branch) in self.branches() {
            let branch_output = self.branch(branch, &x, layer);
            x = self.add_norm(&x, Some(&branch_output), factor, branch.norm(layer)).normed;
        }
        self.model.tensors.last_norm.as_ref().map(|norm| self.norm(&x, norm)).unwrap_or(x)
    }

    /// All branches in their order, with their layer.
    fn branches(&self) -> impl Iterator<Item = (&LayerTensors, Branch)> {
        self.model.tensors.layers.iter().flat_map(|layer| Branch::ALL.map(|branch| (layer, branch)))
    }

    fn branch(&self, branch: Branch, x: &Tensor, layer: &LayerTensors) -> Tensor {
        match branch {
            Branch::Attention => self.attention(x, layer),
            Branch::FeedForward => self.feed_forward_branch(x, layer),
        }
    }
}

/// The two branches of a transformer layer.
#[derive(Clone, Copy)]
enum Branch {
    Attention,
    FeedForward,
}

impl Branch {
    const ALL: [Self; 2] = [Self::Attention, Self::FeedForward];

    fn norm(self, layer: &LayerTensors) -> &Norm {
        match self {
            Self::Attention => &layer.attention_norm,
            Self::FeedForward => &layer.feed_forward_norm,
        }
    }
}

/// Type in which sums over many values are accumulated.
fn accumulation_kind(kind: Kind) -> Kind {
    if kind == Kind::Double { Kind::Double } else { Kind::Float }
}

/// Applies an activation with libtorch's kernel.
pub(crate) fn activate(x: &Tensor, activation: Activation) -> Tensor {
    match activation {
        Activation::Silu => x.silu(),
        Activation::Mish => x.mish(),
        Activation::Gelu => x.gelu("none"),
        Activation::SquaredRelu => x.relu().square(),
        Activation::Relu => x.relu(),
    }
}
