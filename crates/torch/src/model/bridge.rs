//! The bridge: what an NNUE sees becomes a code of the board. It must say what `tandem_hybrid::Bridge` says.

use super::Pass;
use tandem_hybrid::{Bridge, Onlooker};
use tch::Tensor;

impl Pass<'_> {
    /// The code of each board: `[batch, numbers]`.
    pub(super) fn cross(&self, seen: &Tensor, dropout: f64) -> Tensor {
        let seen = seen.to_kind(self.model.kind) / f64::from(Onlooker::BYTE);
        let x = self.linear(&seen, "bridge");
        let [scale, offset] = ["bridge.norm.scale", "bridge.norm.offset"].map(|name| self.tensors.get(name));
        let epsilon = f64::from(Bridge::EPSILON);
        let x = x.layer_norm(scale.size(), Some(scale), Some(offset), epsilon, true).relu();
        let x = if dropout > 0.0 { x.dropout(dropout, true) } else { x };
        match self.tensors.find("bridge.gate") {
            Some(gate) => x * gate,
            None => x,
        }
    }
}
