//! Weights as bytes: a scale for each output of a layer, and how far that is from the numbers that were.

use crate::{TensorSpec, Weights};

/// The largest byte; the smallest is as far from zero on the other side.
const MOST: f32 = 127.0;

/// Rows of numbers as bytes, and what one is worth in each row: the largest number of a row becomes 127 or -127.
///
/// # Panics
/// If there are not `rows` times `columns` numbers.
pub fn quantise_rows(numbers: &[f32], rows: usize, columns: usize) -> (Vec<i8>, Vec<f32>) {
    assert_eq!(numbers.len(), rows * columns, "numbers of {rows} rows");
    let mut bytes = Vec::with_capacity(numbers.len());
    let mut scales = Vec::with_capacity(rows);
    for row in 0..rows {
        let row = &numbers[row * columns..][..columns];
        let largest = row.iter().fold(0f32, |largest, number| largest.max(number.abs()));
        let factor = MOST / largest;
        // A row of zeros, or of numbers too small to divide by, is zero.
        let factor = if factor.is_finite() { factor } else { 0.0 };
        scales.push(largest / MOST);
        bytes.extend(row.iter().map(|number| (number * factor).round().clamp(-MOST, MOST) as i8));
    }
    (bytes, scales)
}

/// The numbers that bytes stand for.
///
/// # Panics
/// If there are not as many rows of bytes as scales.
pub fn restore_rows(bytes: &[i8], scales: &[f32]) -> Vec<f32> {
    let columns = bytes.len() / scales.len().max(1);
    assert_eq!(bytes.len(), columns * scales.len(), "bytes of {} rows", scales.len());
    bytes.iter().enumerate().map(|(index, &byte)| f32::from(byte) * scales[index / columns.max(1)]).collect()
}

/// What bytes cost a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantisationLoss {
    /// Which tensor.
    pub tensor: String,
    /// Its largest number.
    pub largest: f32,
    /// How far one of its numbers is off at worst.
    pub worst: f32,
    /// The root of the mean square of how far they are off.
    pub rms: f32,
}

/// Whether a tensor is stored as bytes when a network is. Where little is computed and much depends on it, numbers keep
/// their precision: what is no layer's weights, the layer that reads the input, routers, and the last layers of heads.
pub fn is_quantised(spec: &TensorSpec) -> bool {
    const EXACT: [&str; 10] = [
        "embedding.squares",
        "router",
        "promotion",
        "wdl",
        "error",
        "buckets",
        "plies",
        "action_value",
        "state_value",
        "policy",
    ];
    let Some(layer) = spec.name.strip_suffix(".weight") else { return false };
    spec.shape.len() == 2
        && !EXACT.iter().any(|exact| layer == *exact || layer.ends_with(&format!(".{exact}")))
}

/// What bytes would cost each tensor that [`is_quantised`].
pub fn quantisation_losses(weights: &Weights) -> Vec<QuantisationLoss> {
    let of_tensor = |(spec, numbers): (TensorSpec, &[f32])| {
        let (bytes, scales) = quantise_rows(numbers, spec.shape[0], spec.shape[1]);
        let restored = restore_rows(&bytes, &scales);
        let (mut largest, mut worst, mut squares) = (0f32, 0f32, 0f64);
        for (number, restored) in numbers.iter().zip(restored) {
            let off = number - restored;
            largest = largest.max(number.abs());
            worst = worst.max(off.abs());
            squares += f64::from(off) * f64::from(off);
        }
        let rms = (squares / numbers.len() as f64).sqrt() as f32;
        QuantisationLoss { tensor: spec.name, largest, worst, rms }
    };
    weights.iter().filter(|(spec, _)| is_quantised(spec)).map(of_tensor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    #[test]
    fn the_largest_number_of_a_row_is_127() {
        let (bytes, scales) = quantise_rows(&[0.5, -1.0, 0.004, 0.0, 0.0, 0.0, 1e-39, 254.0, -127.0], 3, 3);
        assert_eq!(bytes, [64, -127, 1, 0, 0, 0, 0, 127, -64]);
        assert_eq!(scales, [1.0 / 127.0, 0.0, 2.0]);
        assert_eq!(restore_rows(&bytes, &scales)[6..], [0.0, 254.0, -128.0]);
        let tiny = quantise_rows(&[1e-44, -1e-44], 1, 2);
        assert_eq!(tiny.0, [0, 0]);
        assert!(restore_rows(&[], &[]).is_empty());
    }

    #[test]
    fn no_number_is_off_by_more_than_half_a_step() {
        let weights = Weights::random(Preset::BtSmall.architecture(), 3);
        let losses = quantisation_losses(&weights);
        assert!(losses.iter().any(|loss| loss.tensor == "layers.7.feed_forward.in.weight"));
        assert!(!losses.iter().any(|loss| loss.tensor == "value.wdl.weight"));
        for loss in losses {
            assert!(loss.worst <= loss.largest / 254.0 * 1.001, "{loss:?}");
            assert!(loss.rms < loss.largest / 254.0 / 3f32.sqrt() * 1.1, "{loss:?}");
            assert!(loss.rms > 0.0, "{loss:?}");
        }
    }

    #[test]
    fn what_much_depends_on_keeps_its_precision() {
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
    }
}
