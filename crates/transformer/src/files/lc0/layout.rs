//! Tensors whose layout differs between lc0's files and ours: gates, which are transposed, and the weights of
//! the clock, whose unit differs.

use super::PLANES;
use crate::architecture::SQUARES;
use crate::encoding::planes::{CLOCK, CLOCK_UNIT, HISTORY};
use crate::weights::SQUARES_LAYER;
use std::borrow::Cow;

const GATES: [&str; 2] = ["embedding.gate.scale", "embedding.gate.offset"];

/// Converts a tensor to lc0's layout. `width` is the model width.
pub(super) fn theirs<'a>(tensor: &str, width: usize, values: &'a [f32]) -> Cow<'a, [f32]> {
    if GATES.contains(&tensor) {
        return transposed(values, SQUARES, width).into();
    }
    if tensor == SQUARES_LAYER {
        return map_clock_weights(values, width, |weight| weight / CLOCK_UNIT).into();
    }
    values.into()
}

/// Converts a tensor from lc0's layout.
pub(super) fn ours(tensor: &str, width: usize, values: Vec<f32>) -> Vec<f32> {
    if GATES.contains(&tensor) {
        return transposed(&values, width, SQUARES);
    }
    if tensor == SQUARES_LAYER {
        return map_clock_weights(&values, width, |weight| weight * CLOCK_UNIT);
    }
    values
}

/// True if the layer on squares has zero weights for all history planes, up to half a step of rounding.
pub(super) fn ignores_history(values: &[f32], width: usize, step: f32) -> bool {
    let inputs = (values.len() / width).max(PLANES);
    values.chunks_exact(inputs).all(|row| row[HISTORY].iter().all(|weight| weight.abs() <= step))
}

fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|column| (0..rows).map(move |row| values[row * columns + column])).collect()
}

/// Changes the weights of the clock plane in each of the `width` rows.
fn map_clock_weights(values: &[f32], width: usize, change: impl Fn(f32) -> f32) -> Vec<f32> {
    let mut values = values.to_vec();
    let inputs = (values.len() / width).max(PLANES);
    for row in values.chunks_exact_mut(inputs) {
        row[CLOCK] = change(row[CLOCK]);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversion_round_trips() {
        let gates: Vec<f32> = (0..64 * 3).map(|index| index as f32).collect();
        let turned = theirs("embedding.gate.scale", 3, &gates);
        assert_eq!(turned[..3], [0.0, 3.0, 6.0]);
        assert_eq!(ours("embedding.gate.scale", 3, turned.into_owned()), gates);
        let weights: Vec<f32> = (0..2 * 115).map(|index| index as f32).collect();
        let folded = theirs("embedding.squares.weight", 2, &weights);
        assert_eq!((folded[109], folded[115 + 109], folded[110]), (109.0 / 99.0, 224.0 / 99.0, 110.0));
        let back = ours("embedding.squares.weight", 2, folded.into_owned());
        assert!(back.iter().zip(&weights).all(|(one, other)| (one - other).abs() < 1e-4));
    }
}
