//! Weights as bytes: a scale for each output of a layer, and how far that is from the numbers that were.

use crate::{TensorSpec, Weights};

/// The largest byte; the smallest is as far from zero on the other side.
const MOST: f32 = 127.0;

/// Inputs of which a sum of products of bytes surely fits into 32 bits: 65536 · 255 · 127 < 2^31.
pub(crate) const MOST_INPUTS: usize = 1 << 16;

/// A row of numbers as bytes, and what one is worth: the largest number becomes 127 or -127. Files and layers that are
/// run take their bytes from here, and numbers that were bytes before become the same ones again.
pub(crate) fn quantise_row(row: &[f32]) -> (f32, impl Iterator<Item = i8>) {
    let largest = row.iter().fold(0f32, |largest, number| largest.max(number.abs()));
    // Seven bits less than a number has, so that its product with a byte is exact.
    let scale = f32::from_bits((largest / MOST).to_bits() & !0x7F);
    let byte = move |&number: &f32| (number / scale).round_ties_even().clamp(-MOST, MOST) as i8;
    // A row of zeros, or of numbers too small to be divided, is zero.
    (scale, row.iter().map(move |number| if scale > 0.0 { byte(number) } else { 0 }))
}

/// Rows of numbers as bytes, and what one is worth in each row: the largest number of a row becomes 127 or -127.
///
/// # Panics
/// If there are not `rows` times `columns` numbers.
pub fn quantise_rows(numbers: &[f32], rows: usize, columns: usize) -> (Vec<i8>, Vec<f32>) {
    assert_eq!(numbers.len(), rows * columns, "numbers of {rows} rows");
    let mut bytes = Vec::with_capacity(numbers.len());
    let mut scales = Vec::with_capacity(rows);
    for row in 0..rows {
        let (scale, row) = quantise_row(&numbers[row * columns..][..columns]);
        scales.push(scale);
        bytes.extend(row);
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

/// Whether a layer keeps its precision in every file and every network that is run, because little is computed there and
/// much depends on it: the one that reads the input, whose clock is far larger than its other numbers, routers, and the
/// last layers of heads.
pub(crate) fn is_exact(layer: &str) -> bool {
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
    EXACT.iter().any(|exact| layer == *exact || layer.ends_with(&format!(".{exact}")))
}

/// Whether a layer whose weights are bytes reads its rows in two bytes. Of what bytes cost a network of 9.6 M numbers, half came
/// from the rows that queries, keys and values read together, and a third from those that the first layer after attention
/// reads. A policy's queries and keys choose the move, and cost little.
pub(crate) fn reads_finely(layer: &str) -> bool {
    let is_mixed = layer.contains("feed_forward.") || layer.contains(".experts.");
    layer.ends_with(".query") || (is_mixed && (layer.ends_with(".in") || layer.ends_with(".gate")))
}

/// Whether a tensor is stored as bytes when a network is: the weights of layers are, but for the few where much depends
/// on each number, and what has more inputs than sums of bytes have room for.
pub fn is_quantised(spec: &TensorSpec) -> bool {
    let layer = spec.name.strip_suffix(".weight");
    matches!(spec.shape[..], [_, inputs] if inputs <= MOST_INPUTS)
        && layer.is_some_and(|layer| !is_exact(layer))
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
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn the_largest_number_of_a_row_is_127() {
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
        fn bytes_become_the_same_bytes_again(row in vec(any::<f32>().prop_filter("finite", |x| x.is_finite()), 1..40)) {
            let (bytes, scales) = quantise_rows(&row, 1, row.len());
            let restored = restore_rows(&bytes, &scales);
            prop_assert_eq!(quantise_rows(&restored, 1, row.len()), (bytes, scales));
        }
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
    fn rows_are_read_finely_where_they_cost_most() {
        for name in [
            "layers.3.attention.query",
            "policy.query",
            "layers.0.feed_forward.in",
            "layers.1.experts.4.gate",
        ] {
            assert!(reads_finely(name), "{name}");
        }
        for name in
            ["layers.3.attention.out", "layers.0.feed_forward.out", "layers.1.smolgen.board", "value.in"]
        {
            assert!(!reads_finely(name), "{name}");
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
        let wide = TensorSpec { name: "value.board.weight".into(), shape: vec![1, MOST_INPUTS + 1] };
        assert!(!is_quantised(&wide));
    }
}
