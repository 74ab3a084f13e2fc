//! Normalisation layers: layer norm and RMS norm, over the width of each token.

use crate::NormKind;
use crate::aligned::Aligned;
use crate::kernels::Kernels;

#[derive(Debug)]
pub(super) struct NormLayer {
    pub(super) kind: NormKind,
    pub(super) epsilon: f32,
    pub(super) scale: Aligned<f32>,
    /// Zeros for RMS norm, which has none.
    pub(super) offset: Aligned<f32>,
}

impl NormLayer {
    pub(super) fn apply(&self, kernels: &Kernels, rows: &mut [f32]) {
        kernels.norm(rows, self.kind, self.epsilon, &self.scale, &self.offset);
    }
}
