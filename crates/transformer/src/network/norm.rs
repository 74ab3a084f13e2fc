//! What keeps rows in bounds.

use crate::NormKind;
use crate::aligned::Aligned;
use crate::kernels::Kernels;

/// A norm with its numbers.
#[derive(Debug)]
pub(super) struct NormLayer {
    pub(super) kind: NormKind,
    pub(super) epsilon: f32,
    pub(super) scale: Aligned<f32>,
    /// Zeros where there is none.
    pub(super) offset: Aligned<f32>,
}

impl NormLayer {
    /// Brings rows to one size.
    pub(super) fn apply(&self, kernels: &Kernels, rows: &mut [f32]) {
        kernels.norm(rows, self.kind, self.epsilon, &self.scale, &self.offset);
    }
}
