//! Arithmetic of int8 weights: a scale for each output of a layer.

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

#[cfg(test)]
mod tests {
    use super::*;
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
}
