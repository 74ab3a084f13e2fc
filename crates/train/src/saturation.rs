//! Saturation: the fraction of clipped activations that are at a bound, where the gradient is zero and
//! nothing is learnt.

use crate::layout::{Layout, round_to};
use tandem_data::Packed;
use tandem_nnue::HeadShape;

/// Fractions of a layer's outputs that are clipped at zero or at one, where they pass no gradient on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Saturation {
    /// Name of the layer whose outputs are counted: `accumulator`, `hidden` or `second`.
    pub(crate) layer: String,
    /// Fraction of activations that are clipped at zero, from 0 to 1.
    pub(crate) low: f64,
    /// Fraction of activations that are clipped at one, from 0 to 1.
    pub(crate) high: f64,
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

    fn fractions(&self, layer: &str) -> Saturation {
        let fraction = |count: u64| count as f64 / self.all.max(1) as f64;
        Saturation { layer: layer.into(), low: fraction(self.low), high: fraction(self.high) }
    }
}

/// Runs the forward pass over some positions, one by one, and counts the activations at their bounds; a few
/// hundred positions are enough. Positions that are not legal are left out.
pub(crate) fn saturation(layout: &Layout, parameters: &[f32], positions: &[Packed]) -> Vec<Saturation> {
    let architecture = layout.architecture();
    let (outputs, width, features) = (architecture.outputs, architecture.width(), &architecture.features);
    let quantised =
        |number: f32, grid: f32| if layout.options().qat { round_to(number, grid) } else { number };
    let mut counts: [Count; 3] = Default::default();
    for position in positions {
        let Ok(board) = position.board() else { continue };
        let us = position.side_to_move();
        let mut values = Vec::with_capacity(2 * outputs);
        for (number, side) in [us, !us].into_iter().enumerate() {
            let start = number * (width - outputs);
            let bias = &parameters[layout.bias().start + start..][..outputs];
            let mut sums: Vec<f32> =
                bias.iter().map(|&bias| quantised(bias, layout.bias().quant_scale)).collect();
            let inputs =
                features.active(&board, side).flat_map(|input| [Some(input), layout.shared_row(input)]);
            for row in inputs.flatten() {
                let weights = &parameters[row * width + start..][..outputs];
                sums.iter_mut()
                    .zip(weights)
                    .for_each(|(sum, &weight)| *sum += quantised(weight, layout.weights().quant_scale));
            }
            values.extend(sums);
        }
        let values: Vec<f32> = values.into_iter().map(|value| counts[0].add(value)).collect();
        let HeadShape::Stacks(stack) = architecture.head else { continue };
        let inputs: Vec<f32> = match stack.input_activation.is_pairwise() {
            true => values
                .chunks_exact(outputs)
                .flat_map(|side| {
                    let (left, right) = side.split_at(outputs / 2);
                    left.iter()
                        .zip(right)
                        .map(|(a, b)| a * b * stack.input_activation.product_of_ones() as f32)
                        .collect::<Vec<_>>()
                })
                .collect(),
            false => values,
        };
        let bucket = stack.buckets.index(position.piece_count());
        let forward = |layer: usize, inputs: &[f32]| -> Vec<f32> {
            let (weights, bias) = layout.layer(bucket, layer);
            let rows = parameters[weights.span()].chunks_exact(inputs.len());
            rows.zip(&parameters[bias.span()])
                .map(|(row, bias)| {
                    bias + row.iter().zip(inputs).map(|(weight, input)| weight * input).sum::<f32>()
                })
                .collect()
        };
        let first = forward(0, &inputs);
        let kept = &first[..stack.hidden - usize::from(stack.skip)];
        let squares = kept
            .iter()
            .filter(|_| stack.squared_clipped)
            .map(|value| (value * value * 127.0 / 128.0).min(1.0));
        let clipped: Vec<f32> = kept.iter().map(|&value| counts[1].add(value)).collect();
        let hidden: Vec<f32> = squares.chain(clipped).collect();
        forward(1, &hidden).into_iter().for_each(|value| {
            counts[2].add(value);
        });
    }
    let layers = if matches!(architecture.head, HeadShape::Stacks(_)) { 3 } else { 1 };
    if matches!(architecture.head, HeadShape::Flat { activation, .. } if activation.upper_bound().is_none()) {
        counts[0].high = 0;
    }
    ["accumulator", "hidden", "second"]
        .iter()
        .zip(&counts)
        .take(layers)
        .map(|(name, count)| count.fractions(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::LayoutOptions;
    use crate::reference::tests::architectures;
    use tandem_chess::Position;
    use tandem_nnue::Quantisation;

    #[test]
    fn values_at_the_bounds_are_counted() {
        let position = Packed::new(Position::startpos().board()).unwrap();
        for architecture in architectures() {
            let layout = Layout::new(architecture.clone(), Quantisation::default(), LayoutOptions::default());
            let mut parameters = vec![0.0; layout.num_parameters()];
            parameters[layout.bias().span()].fill(0.5);
            // In both perspectives, one value below the range and three above it.
            for start in [0, architecture.width() - architecture.outputs] {
                parameters[layout.bias().start + start] = -1.0;
                parameters[layout.bias().start + start + 1..][..3].fill(7.0);
            }
            let found = saturation(&layout, &parameters, &[position; 2]);
            let fraction = 1.0 / architecture.outputs as f64;
            let open = matches!(architecture.head, HeadShape::Flat { activation, .. } if activation.upper_bound().is_none());
            let high = if open { 0.0 } else { 3.0 * fraction };
            assert_eq!((found[0].low, found[0].high), (fraction, high), "{architecture}");
            if architecture.layers().len() == 3 {
                assert_eq!((found[1].low, found[2].low), (1.0, 1.0), "zeros everywhere after it");
            }
        }
    }
}
