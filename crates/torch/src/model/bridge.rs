//! The bridge: maps the accumulator of an NNUE to a code of the board. Its outputs must equal those of
//! `tandem_hybrid::Bridge`, which a test checks.

use super::Pass;
use tandem_hybrid::{AccumulatorReader, Bridge};
use tch::Tensor;

impl Pass<'_> {
    /// The code of each board: `[batch, values]`.
    pub(super) fn bridge_code(&self, bridge_inputs: &Tensor, dropout: f64) -> Tensor {
        let bridge_inputs = bridge_inputs.to_kind(self.model.kind) / f64::from(AccumulatorReader::BYTE);
        let x = self.linear(&bridge_inputs, "bridge");
        let [scale, offset] =
            ["bridge.norm.scale", "bridge.norm.offset"].map(|name| self.parameters.get(name));
        let epsilon = f64::from(Bridge::EPSILON);
        let x = x.layer_norm(scale.size(), Some(scale), Some(offset), epsilon, true).relu();
        let x = if dropout > 0.0 { x.dropout(dropout, true) } else { x };
        match self.parameters.find("bridge.gate") {
            Some(gate) => x * gate,
            None => x,
        }
    }
}
