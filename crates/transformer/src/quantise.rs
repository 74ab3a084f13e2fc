//! Quantisation of weights to int8: a scale for each output of a layer, and the error that this makes.

use crate::blocks::feed_forward;
use crate::{TensorSpec, Weights};

/// Largest int8 value in use; -128 is left out so that the range is symmetric.
const MAX_INT8: f32 = 127.0;

/// Largest number of inputs for which an int8 dot product always fits into an i32: 65536 · 255 · 127 < 2^31.
pub(crate) const MAX_INPUTS: usize = 1 << 16;

/// Scale and int8 values of a weight row: the largest absolute value maps to 127 or -127. Files and packed
/// layers both quantise here, and a row that was quantised before gives the same bytes again.
pub(crate) fn quantise_row(row: &[f32]) -> (f32, impl Iterator<Item = i8>) {
    let largest = row.iter().fold(0f32, |largest, number| largest.max(number.abs()));
    // Seven bits less than an f32 mantissa has, so that the product with an int8 value is exact.
    let scale = f32::from_bits((largest / MAX_INT8).to_bits() & !0x7F);
    let byte = move |&number: &f32| (number / scale).round_ties_even().clamp(-MAX_INT8, MAX_INT8) as i8;
    // A row of zeros, or of values too small to be divided, becomes zero.
    (scale, row.iter().map(move |number| if scale > 0.0 { byte(number) } else { 0 }))
}

/// Quantises a matrix row by row and returns its bytes and one scale for each row; the largest absolute value
/// of a row becomes 127 or -127.
///
/// # Panics
/// If there are not `rows` times `columns` values.
pub fn quantise_rows(values: &[f32], rows: usize, columns: usize) -> (Vec<i8>, Vec<f32>) {
    assert_eq!(values.len(), rows * columns, "values of {rows} rows");
    let mut bytes = Vec::with_capacity(values.len());
    let mut scales = Vec::with_capacity(rows);
    for row in 0..rows {
        let (scale, row) = quantise_row(&values[row * columns..][..columns]);
        scales.push(scale);
        bytes.extend(row);
    }
    (bytes, scales)
}

/// Dequantises: each byte times the scale of its row.
///
/// # Panics
/// If there are not as many rows of bytes as scales.
pub fn restore_rows(bytes: &[i8], scales: &[f32]) -> Vec<f32> {
    let columns = bytes.len() / scales.len().max(1);
    assert_eq!(bytes.len(), columns * scales.len(), "bytes of {} rows", scales.len());
    bytes.iter().enumerate().map(|(index, &byte)| f32::from(byte) * scales[index / columns.max(1)]).collect()
}

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
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn the_largest_value_of_a_row_becomes_127() {
        let (bytes, scales) = quantise_rows(&[0.5, -1.0, 0.004, 0.0, 0.0, 0.0, 1e-39, 254.0, -127.0], 3, 3);
        assert_eq!(bytes, [64, -127, 1, 0, 0, 0, 0, 127, -64]);
        assert!((scales[0] - 1.0 / 127.0).abs() < 1e-6 && scales[1..] == [0.0, 2.0], "{scales:?}");
        assert_eq!(restore_rows(&bytes, &scales)[6..], [0.0, 254.0, -128.0]);
        let tiny = quantise_rows(&[1e-44, -1e-44], 1, 2);
        assert_eq!(tiny.0, [0, 0]);
        assert!(restore_rows(&[], &[]).is_empty());
    }

    proptest! {
        #[test]
        fn quantising_again_gives_the_same_bytes(row in vec(any::<f32>().prop_filter("finite", |x| x.is_finite()), 1..40)) {
            let (bytes, scales) = quantise_rows(&row, 1, row.len());
            let restored = restore_rows(&bytes, &scales);
            prop_assert_eq!(quantise_rows(&restored, 1, row.len()), (bytes, scales));
        }
    }

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
