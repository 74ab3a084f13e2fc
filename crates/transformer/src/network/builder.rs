//! Builds packed layers from tensors by name.

use super::copied;
use super::norm::NormLayer;
use crate::aligned::Aligned;
use crate::linear::{Linear, Precision, UnpackedLinear};
use crate::quantise::{is_exact, reads_residual};
use crate::{Architecture, Attention, NormKind, Weights};
use std::sync::Arc;

/// Weights and the precision to pack them in.
pub(crate) struct Builder<'a> {
    weights: &'a Weights,
    precision: Precision,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(weights: &'a Weights, precision: Precision) -> Self {
        Self { weights, precision }
    }

    pub(crate) fn architecture(&self) -> &'a Architecture {
        self.weights.architecture()
    }

    /// A tensor of the architecture; it must exist.
    pub(crate) fn tensor(&self, name: &str) -> &'a [f32] {
        self.weights.get(name).expect("weights hold every tensor of their architecture")
    }

    /// A layer as it is stored, with a factor for its outputs.
    pub(crate) fn unpacked(&self, name: &str, inputs: usize, factor: f32) -> UnpackedLinear<'a> {
        let bias = self.weights.get(&format!("{name}.bias"));
        UnpackedLinear { weights: self.tensor(&format!("{name}.weight")), bias, inputs, factor }
    }

    /// Packs a layer in the network's precision, or in full precision if it is a sensitive one.
    pub(crate) fn linear(&self, name: &str, inputs: usize) -> Linear {
        let precision = if is_exact(name) { Precision::F32 } else { self.precision };
        self.layer(name, &[self.unpacked(name, inputs, 1.0)], precision)
    }

    /// Packs several layers that read the same input as one, in the network's precision; `name` is that of
    /// the first.
    pub(crate) fn joined(&self, name: &str, layers: &[UnpackedLinear<'_>]) -> Linear {
        self.layer(name, layers, self.precision)
    }

    fn layer(&self, name: &str, layers: &[UnpackedLinear<'_>], precision: Precision) -> Linear {
        let layer = Linear::new(layers, precision);
        if reads_residual(name) { layer.with_residual() } else { layer }
    }

    /// A norm with the kind and epsilon of the architecture.
    pub(crate) fn norm(&self, name: &str) -> NormLayer {
        let norm = &self.architecture().body.norm;
        self.norm_of(name, norm.kind, norm.epsilon)
    }

    pub(crate) fn norm_of(&self, name: &str, kind: NormKind, epsilon: f32) -> NormLayer {
        let scale = copied(self.tensor(&format!("{name}.scale")));
        let offset = match kind {
            NormKind::Layer => copied(self.tensor(&format!("{name}.offset"))),
            NormKind::Rms => Aligned::zeroed(scale.len()),
        };
        NormLayer { kind, epsilon, scale, offset }
    }

    /// The layer that generates smolgen's logits, which all blocks share.
    pub(crate) fn generator(&self) -> Option<Arc<Linear>> {
        match &self.architecture().body.attention {
            Attention::Smolgen(smolgen) => {
                Some(Arc::new(self.linear("smolgen.generator", smolgen.generated)))
            }
            _ => None,
        }
    }
}
