//! How many values of a network in training are held at their edges, where nothing more can be learnt from them.

use crate::layout::{Layout, round_to};
use tandem_data::Packed;
use tandem_nnue::{Activation, HeadShape};

/// The share of a layer's values that are held.
#[derive(Clone, Debug, PartialEq)]
pub struct Saturation {
    /// The layer.
    pub layer: String,
    /// At zero.
    pub low: f64,
    /// At one.
    pub high: f64,
}

#[derive(Default)]
struct Count {
    all: u64,
    low: u64,
    high: u64,
}

impl Count {
    fn add(&mut self, value: f32) -> f32 {
        self.all += 1;
        self.low += u64::from(value <= 0.0);
        self.high += u64::from(value >= 1.0);
        value.clamp(0.0, 1.0)
    }

    fn told(&self, layer: &str) -> Saturation {
        let share = |count: u64| count as f64 / self.all.max(1) as f64;
        Saturation { layer: layer.into(), low: share(self.low), high: share(self.high) }
    }
}

/// Looks at some positions, plainly: a few hundred are enough.
pub fn saturation(layout: &Layout, numbers: &[f32], positions: &[Packed]) -> Vec<Saturation> {
    let architecture = layout.architecture();
    let (outputs, width, features) = (architecture.outputs, architecture.width(), &architecture.features);
    let seen = |number: f32, grid: f32| if layout.shape().rounded { round_to(number, grid) } else { number };
    let mut counts: [Count; 3] = Default::default();
    for position in positions {
        let Ok(board) = position.board() else { continue };
        let us = position.side_to_move();
        let mut values = Vec::with_capacity(2 * outputs);
        for (number, side) in [us, !us].into_iter().enumerate() {
            let start = number * (width - outputs);
            let bias = &numbers[layout.bias().start + start..][..outputs];
            let mut sums: Vec<f32> = bias.iter().map(|&bias| seen(bias, layout.bias().grid)).collect();
            let inputs =
                features.active(&board, side).flat_map(|input| [Some(input), layout.shared_row(input)]);
            for row in inputs.flatten() {
                let weights = &numbers[row * width + start..][..outputs];
                sums.iter_mut()
                    .zip(weights)
                    .for_each(|(sum, &weight)| *sum += seen(weight, layout.weights().grid));
            }
            values.extend(sums);
        }
        let values: Vec<f32> = values.into_iter().map(|value| counts[0].add(value)).collect();
        let HeadShape::Stacks(stack) = architecture.head else { continue };
        let inputs: Vec<f32> = match stack.squeeze.is_pairwise() {
            true => values
                .chunks_exact(outputs)
                .flat_map(|side| {
                    let (left, right) = side.split_at(outputs / 2);
                    left.iter()
                        .zip(right)
                        .map(|(a, b)| a * b * stack.squeeze.product() as f32)
                        .collect::<Vec<_>>()
                })
                .collect(),
            false => values,
        };
        let bucket = stack.buckets.of(position.piece_count());
        let forward = |layer: usize, inputs: &[f32]| -> Vec<f32> {
            let (weights, bias) = layout.layer(bucket, layer);
            let rows = numbers[weights.place()].chunks_exact(inputs.len());
            rows.zip(&numbers[bias.place()])
                .map(|(row, bias)| {
                    bias + row.iter().zip(inputs).map(|(weight, input)| weight * input).sum::<f32>()
                })
                .collect()
        };
        let first = forward(0, &inputs);
        let kept = &first[..stack.hidden - usize::from(stack.skip)];
        let squares =
            kept.iter().filter(|_| stack.dual).map(|value| (value * value * 127.0 / 128.0).min(1.0));
        let clipped: Vec<f32> = kept.iter().map(|&value| counts[1].add(value)).collect();
        let hidden: Vec<f32> = squares.chain(clipped).collect();
        forward(1, &hidden).into_iter().for_each(|value| {
            counts[2].add(value);
        });
    }
    let layers = if matches!(architecture.head, HeadShape::Stacks(_)) { 3 } else { 1 };
    if matches!(architecture.head, HeadShape::Flat { activation: Activation::Relu, .. }) {
        // Nothing holds it from above.
        counts[0].high = 0;
    }
    ["accumulator", "hidden", "second"]
        .iter()
        .zip(&counts)
        .take(layers)
        .map(|(name, count)| count.told(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Shape;
    use crate::reference::tests::architectures;
    use tandem_chess::Position;
    use tandem_nnue::Quantisation;

    #[test]
    fn values_at_the_edges_are_counted() {
        let position = Packed::new(Position::startpos().board()).unwrap();
        for architecture in architectures() {
            let layout = Layout::new(architecture.clone(), Quantisation::default(), Shape::default());
            let mut numbers = vec![0.0; layout.numbers()];
            numbers[layout.bias().place()].fill(0.5);
            // Of both perspectives, one value too low and three too high.
            for start in [0, architecture.width() - architecture.outputs] {
                numbers[layout.bias().start + start] = -1.0;
                numbers[layout.bias().start + start + 1..][..3].fill(7.0);
            }
            let found = saturation(&layout, &numbers, &[position; 2]);
            let share = 1.0 / architecture.outputs as f64;
            let open = matches!(architecture.head, HeadShape::Flat { activation: Activation::Relu, .. });
            let high = if open { 0.0 } else { 3.0 * share };
            assert_eq!((found[0].low, found[0].high), (share, high), "{architecture}");
            if architecture.layers().len() == 3 {
                assert_eq!((found[1].low, found[2].low), (1.0, 1.0), "zeros everywhere after it");
            }
        }
    }
}
