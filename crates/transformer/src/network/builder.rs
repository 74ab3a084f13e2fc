//! Layers from tensors by their names.

use super::copied;
use super::norm::NormLayer;
use crate::aligned::Aligned;
use crate::linear::{Linear, Plain, Precision};
use crate::quantise::{is_exact, reads_finely};
use crate::{Architecture, Attention, NormKind, Weights};
use std::sync::Arc;

/// Weights and what is to be made of them.
pub(super) struct Builder<'a> {
    weights: &'a Weights,
    precision: Precision,
}

impl<'a> Builder<'a> {
    pub(super) fn new(weights: &'a Weights, precision: Precision) -> Self {
        Self { weights, precision }
    }

    pub(super) fn architecture(&self) -> &'a Architecture {
        self.weights.architecture()
    }

    /// A tensor of the architecture.
    pub(super) fn tensor(&self, name: &str) -> &'a [f32] {
        self.weights.get(name).expect("weights hold every tensor of their architecture")
    }

    /// A layer as it is stored, its outputs multiplied by a factor.
    pub(super) fn plain(&self, name: &str, inputs: usize, factor: f32) -> Plain<'a> {
        let bias = self.weights.get(&format!("{name}.bias"));
        Plain { weights: self.tensor(&format!("{name}.weight")), bias, inputs, factor }
    }

    /// A layer in the network's precision, or in full where that is kept.
    pub(super) fn linear(&self, name: &str, inputs: usize) -> Linear {
        let precision = if is_exact(name) { Precision::F32 } else { self.precision };
        self.layer(name, &[self.plain(name, inputs, 1.0)], precision)
    }

    /// Several layers that read the same rows, in the network's precision; the first is called so.
    pub(super) fn joined(&self, name: &str, layers: &[Plain<'_>]) -> Linear {
        self.layer(name, layers, self.precision)
    }

    fn layer(&self, name: &str, layers: &[Plain<'_>], precision: Precision) -> Linear {
        let layer = Linear::new(layers, precision);
        if reads_finely(name) { layer.fine() } else { layer }
    }

    /// A norm of the architecture's kind.
    pub(super) fn norm(&self, name: &str) -> NormLayer {
        let norm = &self.architecture().body.norm;
        self.norm_of(name, norm.kind, norm.epsilon)
    }

    pub(super) fn norm_of(&self, name: &str, kind: NormKind, epsilon: f32) -> NormLayer {
        let scale = copied(self.tensor(&format!("{name}.scale")));
        let offset = match kind {
            NormKind::Layer => copied(self.tensor(&format!("{name}.offset"))),
            NormKind::Rms => Aligned::zeroed(scale.len()),
        };
        NormLayer { kind, epsilon, scale, offset }
    }

    /// The layer that makes smolgen's logits, which all blocks share.
    pub(super) fn generator(&self) -> Option<Arc<Linear>> {
        match &self.architecture().body.attention {
            Attention::Smolgen(smolgen) => {
                Some(Arc::new(self.linear("smolgen.generator", smolgen.generated)))
            }
            _ => None,
        }
    }
}
