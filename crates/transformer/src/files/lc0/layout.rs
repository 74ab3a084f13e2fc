//! What lc0 stores in another way than we do: gates, with a row for each channel, and the weights of the clock.

use super::PLANES;
use crate::architecture::SQUARES;
use crate::encoding::planes::{CLOCK, CLOCK_UNIT, HISTORY};
use crate::weights::SQUARES_LAYER;
use std::borrow::Cow;

const GATES: [&str; 2] = ["embedding.gate.scale", "embedding.gate.offset"];

/// A tensor of ours as lc0 stores it. `width` is that of the network's rows.
pub(super) fn theirs<'a>(tensor: &str, width: usize, numbers: &'a [f32]) -> Cow<'a, [f32]> {
    if GATES.contains(&tensor) {
        return transposed(numbers, SQUARES, width).into();
    }
    if tensor == SQUARES_LAYER {
        return clock_times(numbers, width, |weight| weight / CLOCK_UNIT).into();
    }
    numbers.into()
}

/// A tensor of lc0's as we store it.
pub(super) fn ours(tensor: &str, width: usize, numbers: Vec<f32>) -> Vec<f32> {
    if GATES.contains(&tensor) {
        return transposed(&numbers, width, SQUARES);
    }
    if tensor == SQUARES_LAYER {
        return clock_times(&numbers, width, |weight| weight * CLOCK_UNIT);
    }
    numbers
}

/// Whether the layer on squares has no weights for the game before the position, but for half a step of rounding.
pub(super) fn ignores_history(numbers: &[f32], width: usize, step: f32) -> bool {
    let inputs = (numbers.len() / width).max(PLANES);
    numbers.chunks_exact(inputs).all(|row| row[HISTORY].iter().all(|weight| weight.abs() <= step))
}

fn transposed(numbers: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|column| (0..rows).map(move |row| numbers[row * columns + column])).collect()
}

/// The weights of the clock's plane, changed; a row for each of `width` outputs.
fn clock_times(numbers: &[f32], width: usize, change: impl Fn(f32) -> f32) -> Vec<f32> {
    let mut numbers = numbers.to_vec();
    let inputs = (numbers.len() / width).max(PLANES);
    for row in numbers.chunks_exact_mut(inputs) {
        row[CLOCK] = change(row[CLOCK]);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_is_the_same() {
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
