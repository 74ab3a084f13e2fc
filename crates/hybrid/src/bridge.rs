//! The bridge: what the NNUE sees of a position, as a code of the board that the transformer reads.
//!
//! The accumulators of both sides pass through one layer, a norm and the positive part. What comes out has the shape of
//! the transformer's own code of the whole board, so that it can be added to it, or stand in its place.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use tandem_chess::Board;
use tandem_chess::random::SplitMix;
use tandem_nnue::{Accumulators, Network, Scales};

/// How a transformer is given what a bridge makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BridgeForm {
    /// Added to the transformer's own code, each number through a gate. Gates start at zero, so that nothing is lost
    /// before something is learnt.
    #[default]
    Gated,
    /// Alone: the transformer sees nothing else of the board.
    Plain,
}

impl BridgeForm {
    /// What it is called.
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

/// From accumulators to a code of the board.
#[derive(Clone, Debug, PartialEq)]
pub struct Bridge {
    form: BridgeForm,
    inputs: usize,
    /// A row of `inputs` for each output.
    weights: Vec<f32>,
    bias: Vec<f32>,
    scale: Vec<f32>,
    offset: Vec<f32>,
    /// Empty in the plain form.
    gate: Vec<f32>,
}

pub(crate) const WEIGHT: &str = "bridge.weight";
const BIAS: &str = "bridge.bias";
const SCALE: &str = "bridge.norm.scale";
const OFFSET: &str = "bridge.norm.offset";
const GATE: &str = "bridge.gate";

impl Bridge {
    /// What its norm adds to the variance.
    pub const EPSILON: f32 = 1e-5;

    /// A bridge of tensors that are asked for by name and shape, as [`Self::tensors`] gives them.
    ///
    /// # Panics
    /// If a tensor has more or fewer numbers than its shape.
    pub fn of_tensors<E>(
        form: BridgeForm,
        inputs: usize,
        outputs: usize,
        mut tensor: impl FnMut(&'static str, &[usize]) -> Result<Vec<f32>, E>,
    ) -> Result<Self, E> {
        let mut tensor = |name, shape: &[usize]| -> Result<Vec<f32>, E> {
            let numbers = tensor(name, shape)?;
            assert_eq!(numbers.len(), shape.iter().product::<usize>(), "numbers of {name}");
            Ok(numbers)
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

    /// A start for training: weights by Xavier's rule, no biases, gates closed.
    pub fn random(form: BridgeForm, inputs: usize, outputs: usize, seed: u64) -> Self {
        let mut random = SplitMix::new(seed);
        let bound = (6.0 / (inputs + outputs).max(1) as f64).sqrt();
        let made = Self::of_tensors(form, inputs, outputs, |name, shape| {
            let number = || match name {
                WEIGHT => ((2.0 * random.unit() - 1.0) * bound) as f32,
                SCALE => 1.0,
                _ => 0.0,
            };
            Ok(std::iter::repeat_with(number).take(shape.iter().product()).collect())
        });
        let Ok::<Self, std::convert::Infallible>(bridge) = made;
        bridge
    }

    /// Its tensors with their names and shapes, as files hold them and trainers change them.
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

    /// How the transformer is given what it makes.
    pub fn form(&self) -> BridgeForm {
        self.form
    }

    /// Numbers that it reads: the accumulators of both sides.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Numbers that it makes: the transformer's code of the board.
    pub fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// The code that accumulators become.
    ///
    /// # Panics
    /// If there are other than [`Self::inputs`] and [`Self::outputs`] numbers.
    pub fn forward(&self, accumulators: &[f32], code: &mut [f32]) {
        assert_eq!((accumulators.len(), code.len()), (self.inputs, self.outputs()), "numbers of a bridge");
        let rows = self.weights.chunks_exact(self.inputs).zip(&self.bias);
        for (number, (row, bias)) in code.iter_mut().zip(rows) {
            *number = bias + dot(row, accumulators);
        }
        let mean = sum(code) / code.len() as f32;
        code.iter_mut().for_each(|number| *number -= mean);
        let deviation = (dot(code, code) / code.len() as f32 + Self::EPSILON).sqrt();
        for (number, (scale, offset)) in code.iter_mut().zip(self.scale.iter().zip(&self.offset)) {
            *number = (*number / deviation * scale + offset).max(0.0);
        }
        for (number, gate) in code.iter_mut().zip(&self.gate) {
            *number *= gate;
        }
    }
}

/// Sums that run side by side, so that a vector holds them. Their number, and not the machine, says in which order numbers
/// are added: all machines find the same bits.
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

fn sum(numbers: &[f32]) -> f32 {
    numbers.iter().sum()
}

/// One who reads what an NNUE sees of a position: the accumulators of the side to move and of the other, as the NNUE's later
/// layers see them, from 0 to 1.
pub struct Onlooker {
    network: Arc<Network>,
    accumulators: Accumulators,
    /// What an accumulator has for one.
    one: f32,
}

impl Onlooker {
    /// What stands for one where numbers are kept in bytes.
    pub const BYTE: f32 = 255.0;

    /// Reads an NNUE's.
    pub fn new(network: Arc<Network>) -> Self {
        let one = Scales::of(&network.architecture(), network.quantisation()).accumulator as f32;
        Self { accumulators: Accumulators::new(&network), network, one }
    }

    /// Numbers of a position.
    pub fn numbers(network: &Network) -> usize {
        2 * network.architecture().outputs
    }

    /// The numbers of a position.
    pub fn read(&mut self, board: &Board, out: &mut Vec<f32>) {
        out.clear();
        self.each(board, |number| out.push(number));
    }

    /// Adds the numbers of a position, as bytes: without loss where the NNUE's own steps are 255ths, and to the nearest
    /// elsewhere.
    pub fn add_bytes(&mut self, board: &Board, out: &mut Vec<u8>) {
        self.each(board, |number| out.push((number * Self::BYTE).round() as u8));
    }

    fn each(&mut self, board: &Board, mut say: impl FnMut(f32)) {
        self.accumulators.reset(&self.network, board);
        let us = board.side_to_move();
        for side in [us, !us] {
            let values = self.accumulators.values(&self.network, board, side);
            values.iter().for_each(|&value| say((f32::from(value) / self.one).clamp(0.0, 1.0)));
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

    fn numbers(seed: u64, count: usize) -> Vec<f32> {
        let mut random = SplitMix::new(seed);
        (0..count).map(|_| random.unit() as f32).collect()
    }

    fn code(bridge: &Bridge, accumulators: &[f32]) -> Vec<f32> {
        let mut code = vec![f32::NAN; bridge.outputs()];
        bridge.forward(accumulators, &mut code);
        code
    }

    #[test]
    fn a_new_gated_bridge_says_nothing_and_a_plain_one_speaks() {
        let accumulators = numbers(1, 70);
        assert!(code(&bridge(BridgeForm::Gated, 5), &accumulators).iter().all(|&number| number == 0.0));
        assert!(code(&bridge(BridgeForm::Plain, 5), &accumulators).iter().any(|&number| number > 0.1));
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
        let mut onlooker = Onlooker::new(Arc::new(test_nets::nnue(32, 1)));
        let mut read = |fen: &str| {
            let board = Board::from_fen(fen, false).unwrap();
            let (mut out, mut bytes) = (vec![7.0], vec![9]);
            onlooker.read(&board, &mut out);
            onlooker.add_bytes(&board, &mut bytes);
            assert_eq!((out.len(), bytes.len()), (64, 65));
            assert!(out.iter().all(|number| (0.0..=1.0).contains(number)));
            assert!(out.iter().any(|&number| number > 0.0));
            let whole = bytes[1..].iter().map(|&byte| f32::from(byte) / Onlooker::BYTE);
            assert!(whole.zip(&out).all(|(byte, number)| (byte - number).abs() <= 0.5 / Onlooker::BYTE));
            out
        };
        let white = read("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1");
        let black = read("4k3/8/8/8/8/8/4P3/4K3 b - - 0 1");
        assert_eq!((&white[..32], &white[32..]), (&black[32..], &black[..32]));
        assert_ne!(white, black);
    }

    proptest! {
        /// Summed in double precision, one number after the other.
        #[test]
        fn it_computes_what_it_says(seed: u64) {
            let mut bridge = bridge(BridgeForm::Gated, seed);
            for (index, numbers) in [&mut bridge.bias, &mut bridge.scale, &mut bridge.offset, &mut bridge.gate]
                .into_iter()
                .enumerate()
            {
                *numbers = super::tests::numbers(seed ^ index as u64, 48);
            }
            let accumulators = numbers(seed ^ 99, 70);
            let rows = bridge.weights.chunks_exact(70).zip(&bridge.bias);
            let linear: Vec<f64> = rows
                .map(|(row, &bias)| {
                    let products = row.iter().zip(&accumulators);
                    f64::from(bias) + products.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
                })
                .collect();
            let mean = linear.iter().sum::<f64>() / 48.0;
            let variance = linear.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / 48.0;
            for (index, found) in code(&bridge, &accumulators).into_iter().enumerate() {
                let normed = (linear[index] - mean) / (variance + 1e-5).sqrt();
                let bent = (normed * f64::from(bridge.scale[index]) + f64::from(bridge.offset[index])).max(0.0);
                let expected = bent * f64::from(bridge.gate[index]);
                prop_assert!((f64::from(found) - expected).abs() < 1e-4, "{} {}", found, expected);
            }
        }

        /// The norm forgets how large its numbers were.
        #[test]
        fn a_plain_code_does_not_grow_with_the_weights(seed: u64) {
            let mut bridge = bridge(BridgeForm::Plain, seed);
            let accumulators = numbers(seed, 70);
            let before = code(&bridge, &accumulators);
            prop_assert!(before.iter().all(|number| (0.0..48.0).contains(number)));
            bridge.weights.iter_mut().for_each(|weight| *weight *= 64.0);
            for (before, after) in before.iter().zip(code(&bridge, &accumulators)) {
                prop_assert!((before - after).abs() < 1e-3);
            }
        }
    }
}
