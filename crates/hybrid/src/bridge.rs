//! The bridge: a projection of the NNUE's accumulators into the transformer's input.
//!
//! The accumulators of both sides pass through a linear layer, a layer norm and a ReLU. The output has the
//! shape of the transformer's own code of the whole board, so that it can be added to that code or replace
//! it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use tandem_chess::Board;
use tandem_nnue::{Accumulators, Network, Scales};
use tandem_util::random::SplitMix;

/// The way in which a transformer receives the output of a bridge: added to its own board code, which encodes
/// the whole board, or instead of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BridgeForm {
    /// Added to the transformer's own board code, each value through a gate. Gates start at zero, so that an
    /// untrained bridge changes nothing.
    #[default]
    Gated,
    /// The bridge's output alone: the transformer receives no other input.
    Plain,
}

impl BridgeForm {
    /// Name in recipes and files: `gated` or `plain`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gated => "gated",
            Self::Plain => "plain",
        }
    }
}

impl fmt::Display for BridgeForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for BridgeForm {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Gated, Self::Plain].into_iter().find(|form| form.name() == text).ok_or(())
    }
}

/// A trained layer that turns an NNUE's accumulators into a board code, the transformer's encoding of the
/// whole board: linear, layer norm, ReLU and, in the gated form, one gate per output.
#[derive(Clone, Debug, PartialEq)]
pub struct Bridge {
    form: BridgeForm,
    inputs: usize,
    /// Row-major, `outputs` rows of `inputs` weights.
    weights: Vec<f32>,
    bias: Vec<f32>,
    scale: Vec<f32>,
    offset: Vec<f32>,
    /// One gate per output; empty in the plain form.
    gate: Vec<f32>,
}

pub(crate) const WEIGHT: &str = "bridge.weight";
const BIAS: &str = "bridge.bias";
const SCALE: &str = "bridge.norm.scale";
const OFFSET: &str = "bridge.norm.offset";
const GATE: &str = "bridge.gate";

impl Bridge {
    /// Small constant that the layer norm adds to the variance, so that it never divides by zero.
    pub const EPSILON: f32 = 1e-5;

    /// Creates a bridge from tensors, which are requested by the names and shapes that [`Self::tensors`]
    /// gives.
    ///
    /// # Errors
    /// If `tensor` fails; its error is passed on.
    ///
    /// # Panics
    /// If a tensor's length does not match its shape.
    pub fn from_tensors<E>(
        form: BridgeForm,
        inputs: usize,
        outputs: usize,
        mut tensor: impl FnMut(&'static str, &[usize]) -> Result<Vec<f32>, E>,
    ) -> Result<Self, E> {
        let mut tensor = |name, shape: &[usize]| -> Result<Vec<f32>, E> {
            let values = tensor(name, shape)?;
            assert_eq!(values.len(), shape.iter().product::<usize>(), "values of {name}");
            Ok(values)
        };
        Ok(Self {
            form,
            inputs,
            weights: tensor(WEIGHT, &[outputs, inputs])?,
            bias: tensor(BIAS, &[outputs])?,
            scale: tensor(SCALE, &[outputs])?,
            offset: tensor(OFFSET, &[outputs])?,
            gate: if form == BridgeForm::Gated { tensor(GATE, &[outputs])? } else { Vec::new() },
        })
    }

    /// A bridge to begin training with: Xavier-uniform weights, zero biases, closed gates.
    pub fn random(form: BridgeForm, inputs: usize, outputs: usize, seed: u64) -> Self {
        let mut random = SplitMix::new(seed);
        let bound = (6.0 / (inputs + outputs).max(1) as f64).sqrt();
        let made = Self::from_tensors(form, inputs, outputs, |name, shape| {
            let value = || match name {
                WEIGHT => ((2.0 * random.unit() - 1.0) * bound) as f32,
                SCALE => 1.0,
                _ => 0.0,
            };
            Ok(std::iter::repeat_with(value).take(shape.iter().product()).collect())
        });
        let Ok::<Self, std::convert::Infallible>(bridge) = made;
        bridge
    }

    /// Tensors with names and shapes, in the order in which files store them and trainers update them.
    pub fn tensors(&self) -> Vec<(&'static str, Vec<usize>, &[f32])> {
        let outputs = self.outputs();
        let mut tensors = vec![
            (WEIGHT, vec![outputs, self.inputs], self.weights.as_slice()),
            (BIAS, vec![outputs], &self.bias),
            (SCALE, vec![outputs], &self.scale),
            (OFFSET, vec![outputs], &self.offset),
        ];
        if self.form == BridgeForm::Gated {
            tensors.push((GATE, vec![outputs], &self.gate));
        }
        tensors
    }

    /// The way in which the transformer receives the output: gated or plain.
    pub fn form(&self) -> BridgeForm {
        self.form
    }

    /// Number of inputs: the accumulator values of both sides of the NNUE.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Number of outputs: the width of the transformer's board code.
    pub fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// Computes the board code of a position from its accumulators, which [`AccumulatorReader`] reads, in
    /// `f32`.
    ///
    /// # Panics
    /// If the lengths differ from [`Self::inputs`] and [`Self::outputs`].
    pub fn forward(&self, accumulators: &[f32], code: &mut [f32]) {
        assert_eq!((accumulators.len(), code.len()), (self.inputs, self.outputs()), "values of a bridge");
        let rows = self.weights.chunks_exact(self.inputs).zip(&self.bias);
        for (value, (row, bias)) in code.iter_mut().zip(rows) {
            *value = bias + dot(row, accumulators);
        }
        let mean = sum(code) / code.len() as f32;
        code.iter_mut().for_each(|value| *value -= mean);
        let deviation = (dot(code, code) / code.len() as f32 + Self::EPSILON).sqrt();
        for (value, (scale, offset)) in code.iter_mut().zip(self.scale.iter().zip(&self.offset)) {
            *value = (*value / deviation * scale + offset).max(0.0);
        }
        for (value, gate) in code.iter_mut().zip(&self.gate) {
            *value *= gate;
        }
    }
}

/// Partial sums of a dot product, which a vector register holds. This constant, and not the machine, fixes
/// the order of additions, so that all machines compute the same bits.
const LANES: usize = 32;

fn dot(left: &[f32], right: &[f32]) -> f32 {
    let (lefts, left_rest) = left.as_chunks::<LANES>();
    let (rights, right_rest) = right.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (left, right) in lefts.iter().zip(rights) {
        for lane in 0..LANES {
            sums[lane] += left[lane] * right[lane];
        }
    }
    let rest: f32 = left_rest.iter().zip(right_rest).map(|(left, right)| left * right).sum();
    sums.iter().sum::<f32>() + rest
}

fn sum(values: &[f32]) -> f32 {
    values.iter().sum()
}

/// Reads the accumulators of an NNUE as the bridge's input: the side to move first, clipped as the NNUE's
/// next layer clips them and scaled to values from 0 to 1.
pub struct AccumulatorReader {
    network: Arc<Network>,
    accumulators: Accumulators,
    /// The quantised accumulator value that stands for 1.
    one: f32,
}

impl AccumulatorReader {
    /// Byte value that represents an accumulator value of 1, in [`Self::append_bytes`] and in training
    /// samples.
    pub const BYTE: f32 = 255.0;

    /// Creates a reader of accumulator values for this NNUE, with accumulators of its own.
    pub fn new(network: Arc<Network>) -> Self {
        let one = Scales::of(&network.architecture(), network.quantisation()).accumulator as f32;
        Self { accumulators: Accumulators::new(&network), network, one }
    }

    /// Number of accumulator values per position: both sides' accumulators together.
    pub fn width(network: &Network) -> usize {
        2 * network.architecture().outputs
    }

    /// Replaces `out` by the accumulator values of a position, from 0 to 1, those of the side to move first.
    pub fn read(&mut self, board: &Board, out: &mut Vec<f32>) {
        out.clear();
        self.for_each_value(board, |value| out.push(value));
    }

    /// Appends the accumulator values of a position as bytes in units of 1/255. Exact if the NNUE quantises
    /// its accumulators in steps of 1/255, rounded otherwise.
    pub fn append_bytes(&mut self, board: &Board, out: &mut Vec<u8>) {
        self.for_each_value(board, |value| out.push((value * Self::BYTE).round() as u8));
    }

    fn for_each_value(&mut self, board: &Board, mut visit: impl FnMut(f32)) {
        self.accumulators.reset(&self.network, board);
        let us = board.side_to_move();
        for side in [us, !us] {
            let values = self.accumulators.values(&self.network, board, side);
            values.iter().for_each(|&value| visit((f32::from(value) / self.one).clamp(0.0, 1.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_nets;
    use proptest::prelude::*;

    fn bridge(form: BridgeForm, seed: u64) -> Bridge {
        Bridge::random(form, 70, 48, seed)
    }

    fn values(seed: u64, count: usize) -> Vec<f32> {
        let mut random = SplitMix::new(seed);
        (0..count).map(|_| random.unit() as f32).collect()
    }

    fn code(bridge: &Bridge, accumulators: &[f32]) -> Vec<f32> {
        let mut code = vec![f32::NAN; bridge.outputs()];
        bridge.forward(accumulators, &mut code);
        code
    }

    #[test]
    fn a_new_gated_bridge_outputs_zeros_and_a_plain_one_does_not() {
        let accumulators = values(1, 70);
        assert!(code(&bridge(BridgeForm::Gated, 5), &accumulators).iter().all(|&value| value == 0.0));
        assert!(code(&bridge(BridgeForm::Plain, 5), &accumulators).iter().any(|&value| value > 0.1));
    }

    #[test]
    fn it_starts_within_xaviers_bound() {
        let bridge = Bridge::random(BridgeForm::Gated, 1024, 512, 3);
        let bound = (6.0f32 / 1536.0).sqrt();
        let (_, shape, weights) = &bridge.tensors()[0];
        assert_eq!(shape[..], [512, 1024]);
        assert!(weights.iter().all(|weight| weight.abs() <= bound));
        let variance = dot(weights, weights) / weights.len() as f32;
        assert!((variance / (bound * bound / 3.0) - 1.0).abs() < 0.01, "{variance}");
    }

    #[test]
    fn both_sides_are_read_and_the_side_to_move_comes_first() {
        let mut reader = AccumulatorReader::new(Arc::new(test_nets::nnue(32, 1)));
        let mut read = |fen: &str| {
            let board = Board::from_fen(fen, false).unwrap();
            let (mut out, mut bytes) = (vec![7.0], vec![9]);
            reader.read(&board, &mut out);
            reader.append_bytes(&board, &mut bytes);
            assert_eq!((out.len(), bytes.len()), (64, 65));
            assert!(out.iter().all(|value| (0.0..=1.0).contains(value)));
            assert!(out.iter().any(|&value| value > 0.0));
            let whole = bytes[1..].iter().map(|&byte| f32::from(byte) / AccumulatorReader::BYTE);
            assert!(
                whole.zip(&out).all(|(byte, value)| (byte - value).abs() <= 0.5 / AccumulatorReader::BYTE)
            );
            out
        };
        let white = read("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1");
        let black = read("4k3/8/8/8/8/8/4P3/4K3 b - - 0 1");
        assert_eq!((&white[..32], &white[32..]), (&black[32..], &black[..32]));
        assert_ne!(white, black);
    }

    proptest! {
        /// The reference sums in double precision, one product after the other.
        #[test]
        fn it_equals_a_double_precision_reference(seed: u64) {
            let mut bridge = bridge(BridgeForm::Gated, seed);
            for (index, values) in [&mut bridge.bias, &mut bridge.scale, &mut bridge.offset, &mut bridge.gate]
                .into_iter()
                .enumerate()
            {
                *values = super::tests::values(seed ^ index as u64, 48);
            }
            let accumulators = values(seed ^ 99, 70);
            let rows = bridge.weights.chunks_exact(70).zip(&bridge.bias);
            let linear: Vec<f64> = rows
                .map(|(row, &bias)| {
                    let products = row.iter().zip(&accumulators);
                    f64::from(bias) + products.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
                })
                .collect();
            let mean = linear.iter().sum::<f64>() / 48.0;
            let variance = linear.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 48.0;
            for (index, found) in code(&bridge, &accumulators).into_iter().enumerate() {
                let normed = (linear[index] - mean) / (variance + 1e-5).sqrt();
                let activated = (normed * f64::from(bridge.scale[index]) + f64::from(bridge.offset[index])).max(0.0);
                let expected = activated * f64::from(bridge.gate[index]);
                prop_assert!((f64::from(found) - expected).abs() < 1e-4, "{} {}", found, expected);
            }
        }

        /// The norm removes the scale of the weights.
        #[test]
        fn a_plain_code_does_not_grow_with_the_weights(seed: u64) {
            let mut bridge = bridge(BridgeForm::Plain, seed);
            let accumulators = values(seed, 70);
            let before = code(&bridge, &accumulators);
            prop_assert!(before.iter().all(|value| (0.0..48.0).contains(value)));
            bridge.weights.iter_mut().for_each(|weight| *weight *= 64.0);
            for (before, after) in before.iter().zip(code(&bridge, &accumulators)) {
                prop_assert!((before - after).abs() < 1e-3);
            }
        }
    }
}
