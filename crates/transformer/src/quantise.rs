//! The choice of the layers that are stored as int8, and the rounding error that this makes.

use crate::blocks::feed_forward;
use crate::int8::{MAX_INPUTS, quantise_rows, restore_rows};
use crate::{TensorSpec, Weights};

/// Rounding error of one tensor when its weights are stored as int8.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantisationLoss {
    /// Name of the tensor, as in [`TensorSpec::name`].
    pub tensor: String,
    /// Largest absolute value in the tensor before quantisation.
    pub max_abs: f32,
    /// Largest absolute error of any element, at most half a step of its row.
    pub max_error: f32,
    /// Root mean square error over all elements, in the unit of the weights.
    pub rms_error: f32,
}

/// True for layers that stay in full precision in every file and every packed network, because they are cheap
/// and the outputs are sensitive to them: the layer that reads the input, whose clock channel is far larger
/// than the others, routers, and the last layers of heads.
pub(crate) fn is_exact(layer: &str) -> bool {
    const EXACT: [&str; 9] = [
        "embedding.squares",
        "promotion",
        "wdl",
        "error",
        "buckets",
        "plies",
        "action_value",
        "state_value",
        "policy",
    ];
    EXACT
        .iter()
        .chain(&feed_forward::EXACT)
        .any(|exact| layer == *exact || layer.ends_with(&format!(".{exact}")))
}

/// True for int8 layers that read their input as two bytes, the second one for the residual of the first. Of
/// the loss that int8 cost a network of 9.6 M parameters, half came from the common input of queries, keys
/// and values, and a third from the input of the first layer after attention. A policy's queries and keys
/// choose the move, and cost little.
pub(crate) fn reads_residual(layer: &str) -> bool {
    layer.ends_with(".query") || feed_forward::reads_residual(layer)
}

/// True if a tensor is stored as int8 in quantised networks: weights of linear layers are, except the few
/// sensitive ones that stay in full precision, and layers with more inputs than an i32 sum of int8 products
/// can hold.
pub fn is_quantised(spec: &TensorSpec) -> bool {
    let layer = spec.name.strip_suffix(".weight");
    matches!(spec.shape[..], [_, inputs] if inputs <= MAX_INPUTS)
        && layer.is_some_and(|layer| !is_exact(layer))
}

/// Error that int8 would make in each tensor for which [`is_quantised`] is true, in the architecture's order.
pub fn quantisation_losses(weights: &Weights) -> Vec<QuantisationLoss> {
    let of_tensor = |(spec, values): (TensorSpec, &[f32])| {
        let (bytes, scales) = quantise_rows(values, spec.shape[0], spec.shape[1]);
        let restored = restore_rows(&bytes, &scales);
        let (mut max_abs, mut max_error, mut squares) = (0f32, 0f32, 0f64);
        for (number, restored) in values.iter().zip(restored) {
            let error = number - restored;
            max_abs = max_abs.max(number.abs());
            max_error = max_error.max(error.abs());
            squares += f64::from(error) * f64::from(error);
        }
        let rms_error = (squares / values.len() as f64).sqrt() as f32;
        QuantisationLoss { tensor: spec.name, max_abs, max_error, rms_error }
    };
    weights.iter().filter(|(spec, _)| is_quantised(spec)).map(of_tensor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    #[test]
    fn errors_are_at_most_half_a_step() {
        let weights = Weights::random(Preset::BtSmall.architecture(), 3);
        let losses = quantisation_losses(&weights);
        assert!(losses.iter().any(|loss| loss.tensor == "layers.7.feed_forward.in.weight"));
        assert!(!losses.iter().any(|loss| loss.tensor == "value.wdl.weight"));
        for loss in losses {
            assert!(loss.max_error <= loss.max_abs / 254.0 * 1.001, "{loss:?}");
            assert!(loss.rms_error < loss.max_abs / 254.0 / 3f32.sqrt() * 1.1, "{loss:?}");
            assert!(loss.rms_error > 0.0, "{loss:?}");
        }
    }

    #[test]
    fn sensitive_layers_read_the_residual() {
        for name in [
            "layers.3.attention.query",
            "policy.query",
            "layers.0.feed_forward.in",
            "layers.1.experts.4.gate",
        ] {
            assert!(reads_residual(name), "{name}");
        }
        for name in
            ["layers.3.attention.out", "layers.0.feed_forward.out", "layers.1.smolgen.board", "value.in"]
        {
            assert!(!reads_residual(name), "{name}");
        }
    }

    #[test]
    fn sensitive_layers_keep_full_precision() {
        let named = |name: &str| is_quantised(&TensorSpec { name: name.into(), shape: vec![4, 4] });
        for name in
            ["layers.0.router.weight", "policy.weight", "value.wdl.weight", "embedding.squares.weight"]
        {
            assert!(!named(name), "{name}");
        }
        for name in ["value.squares.weight", "policy.query.weight", "layers.1.experts.0.in.weight"] {
            assert!(named(name), "{name}");
        }
        assert!(!named("embedding.table") && !named("last_norm.scale"));
        let wide = TensorSpec { name: "value.board.weight".into(), shape: vec![1, MAX_INPUTS + 1] };
        assert!(!is_quantised(&wide));
    }
}
