//! Normalisation layers: layer norm and RMS norm, over the width of each token.

use crate::NormKind;
use crate::aligned::Aligned;
use crate::kernels::Kernels;

#[derive(Debug)]
pub(crate) struct NormLayer {
    pub(crate) kind: NormKind,
    pub(crate) epsilon: f32,
    pub(crate) scale: Aligned<f32>,
    /// Zeros for RMS norm, which has none.
    pub(crate) offset: Aligned<f32>,
}

impl NormLayer {
    pub(crate) fn apply(&self, kernels: &Kernels, rows: &mut [f32]) {
        kernels.norm(rows, self.kind, self.epsilon, &self.scale, &self.offset);
    }
}
