//! The bridge: maps the accumulator of an NNUE to a code of the board. Its outputs must equal those of
//! `tandem_hybrid::Bridge`, which a test checks.

use super::Pass;
use super::tensors::BridgeTensors;
use tandem_hybrid::{AccumulatorReader, Bridge};
use tandem_transformer::NormKind;
use tch::Tensor;

impl Pass<'_> {
    /// The code of each board: `[batch, values]`.
    pub(super) fn bridge_code(
        &self,
        bridge_inputs: &Tensor,
        tensors: &BridgeTensors,
        dropout: f64,
    ) -> Tensor {
        let bridge_inputs = bridge_inputs.to_kind(self.model.kind) / f64::from(AccumulatorReader::BYTE);
        let x = self.linear(&bridge_inputs, &tensors.linear);
        let x = self.plain_norm(&x, &tensors.norm, NormKind::Layer, Bridge::EPSILON).relu();
        let x = if dropout > 0.0 { x.dropout(dropout, true) } else { x };
        match tensors.gate {
            Some(gate) => x * self.tensor(gate),
            None => x,
        }
    }
}
