//! A network in floating point, as training produces it.
//!
//! It is the input of quantisation, and its plain `f64` forward pass is the reference that integer inference
//! and the GPU trainers are tested against.

mod quantise;

pub use quantise::{LayerReport, Quantisation, QuantiseError, Scales};

use crate::architecture::*;
use crate::features::FeatureSet;
use crate::inputs::Inputs;
use tandem_chess::Board;

/// Weights and biases of a dense layer, in floating point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FloatLayer {
    /// Weights in row-major order, one row per output.
    pub weights: Vec<f32>,
    /// Biases, one for each output.
    pub bias: Vec<f32>,
}

/// A network in floating point, as it is trained. Activations clip at 1.0, and an output of 1.0 is worth
/// [`Self::scale`].
#[derive(Clone, Debug, PartialEq)]
pub struct FloatNetwork<I = FeatureSet> {
    /// The shape, which determines the length of every vector below.
    pub architecture: Architecture<I>,
    /// Free text of the author, stored in the header of files; may be empty.
    pub description: String,
    /// Output scale: the evaluation that an output of 1.0 stands for, in units of which [`Self::pawn`] make a
    /// pawn. It is 600 for networks with stacks.
    pub scale: i32,
    /// Number of units of [`Self::scale`] that make a pawn; 100 if they are centipawns.
    pub pawn: i32,
    /// Weights of the first layer: one row of [`Architecture::width`] values for each input.
    pub weights: Vec<f32>,
    /// Biases of the first layer, [`Architecture::width`] values.
    pub bias: Vec<f32>,
    /// Piece-square table: one row of [`PSQT_BUCKETS`] values for each input, or empty.
    pub psqt: Vec<f32>,
    /// Dense layers after the accumulators: for each output bucket its layers, first to last.
    pub stacks: Vec<Vec<FloatLayer>>,
}

/// Names and shapes of the tensors of an architecture, in the order of [`FloatNetwork::parameters`]. The
/// names are those in safetensors files, for example `stack.0.1.weight`.
pub fn tensor_shapes<I: Inputs>(architecture: &Architecture<I>) -> Vec<(String, Vec<usize>)> {
    let (inputs, width) = (architecture.features.num_inputs(), architecture.width());
    let mut tensors = vec![("input.weight".into(), vec![inputs, width]), ("input.bias".into(), vec![width])];
    if architecture.psqt {
        tensors.push(("psqt.weight".into(), vec![inputs, PSQT_BUCKETS]));
    }
    for number in 0..architecture.buckets().count {
        for (layer, (inputs, outputs)) in architecture.layers().into_iter().enumerate() {
            tensors.push((format!("stack.{number}.{layer}.weight"), vec![outputs, inputs]));
            tensors.push((format!("stack.{number}.{layer}.bias"), vec![outputs]));
        }
    }
    tensors
}

impl<I: Inputs> FloatNetwork<I> {
    /// A network with all parameters zero, to be filled in.
    pub fn zeroed(architecture: Architecture<I>, scale: i32, pawn: i32) -> Self {
        let inputs = architecture.features.num_inputs();
        let layer = |(inputs, outputs): (usize, usize)| FloatLayer {
            weights: vec![0.0; inputs * outputs],
            bias: vec![0.0; outputs],
        };
        let stack: Vec<FloatLayer> = architecture.layers().into_iter().map(layer).collect();
        Self {
            description: String::new(),
            scale,
            pawn,
            weights: vec![0.0; inputs * architecture.width()],
            bias: vec![0.0; architecture.width()],
            psqt: vec![0.0; if architecture.psqt { inputs * PSQT_BUCKETS } else { 0 }],
            stacks: vec![stack; architecture.buckets().count],
            architecture,
        }
    }

    /// The parameters of each tensor, in the order of [`tensor_shapes`].
    pub fn parameters(&self) -> Vec<&Vec<f32>> {
        let mut all = vec![&self.weights, &self.bias];
        if self.architecture.psqt {
            all.push(&self.psqt);
        }
        for layer in self.stacks.iter().flatten() {
            all.extend([&layer.weights, &layer.bias]);
        }
        all
    }

    /// Mutable access to the parameters of each tensor, in the order of [`tensor_shapes`].
    pub fn parameters_mut(&mut self) -> Vec<&mut Vec<f32>> {
        let mut all = vec![&mut self.weights, &mut self.bias];
        if self.architecture.psqt {
            all.push(&mut self.psqt);
        }
        for layer in self.stacks.iter_mut().flatten() {
            all.extend([&mut layer.weights, &mut layer.bias]);
        }
        all
    }

    /// Checks that the architecture, the units and the length of every tensor are consistent.
    ///
    /// # Errors
    /// The first part that is not, for example a tensor with too few parameters.
    pub fn check(&self) -> Result<(), ArchitectureError> {
        self.architecture.check()?;
        self.architecture.check_scale(self.scale, self.pawn)?;
        let layers = self.architecture.layers().len();
        let stacks = (self.stacks.len(), self.stacks.iter().all(|stack| stack.len() == layers));
        if stacks != (self.architecture.buckets().count, true) {
            let problem = format!("{} of {layers} layers are needed", self.architecture.buckets().count);
            return Err(ArchitectureError::new("stacks", problem));
        }
        if !self.architecture.psqt && !self.psqt.is_empty() {
            return Err(ArchitectureError::new("psqt", "parameters found, none expected"));
        }
        for ((name, shape), numbers) in tensor_shapes(&self.architecture).iter().zip(self.parameters()) {
            let (found, expected) = (numbers.len(), shape.iter().product::<usize>());
            if found != expected {
                let problem = format!("{found} parameters found, {expected} expected");
                return Err(ArchitectureError::new(name, problem));
            }
        }
        Ok(())
    }

    /// The evaluation that follows from the active inputs of each side, in the network's units and computed
    /// in `f64`: the reference for every faster implementation. The side to move comes first. `bucket`
    /// selects the output or layer stack.
    ///
    /// # Panics
    /// If there are not exactly [`Inputs::SIDES`] sides, or the parameters do not match the architecture,
    /// which [`Self::check`] detects.
    pub fn forward(&self, sides: &[&[usize]], bucket: usize) -> f64 {
        assert_eq!(sides.len(), I::SIDES);
        let architecture = &self.architecture;
        let width = architecture.width();
        let accumulator = |(number, side): (usize, &&[usize])| {
            // With separate weights, the opponent's half follows that of the side to move.
            let start = if number == 0 { 0 } else { width - architecture.outputs };
            let columns = start..start + architecture.outputs;
            let mut values: Vec<f64> = self.bias[columns.clone()].iter().copied().map(f64::from).collect();
            for input in *side {
                let row = &self.weights[input * width..][columns.clone()];
                values.iter_mut().zip(row).for_each(|(value, &weight)| *value += f64::from(weight));
            }
            values
        };
        let accumulators: Vec<Vec<f64>> = sides.iter().enumerate().map(accumulator).collect();
        let psqt = |side: &[usize]| -> f64 {
            let weight = |input: &usize| self.psqt.get(input * PSQT_BUCKETS + bucket).copied();
            side.iter().map(|input| weight(input).map_or(0.0, f64::from)).sum()
        };
        let psqt = if let [own, other] = sides { (psqt(own) - psqt(other)) / 2.0 } else { 0.0 };
        (self.forward_head(&accumulators, bucket) + psqt) * f64::from(self.scale)
    }

    fn forward_head(&self, accumulators: &[Vec<f64>], bucket: usize) -> f64 {
        let one = |value: f64| value.clamp(0.0, 1.0);
        let stack = &self.stacks[bucket];
        match self.architecture.head {
            HeadShape::Flat { activation, .. } => {
                let activate = |value: &f64| activation.value_and_derivative(*value).0;
                let values: Vec<f64> = accumulators.iter().flatten().map(activate).collect();
                stack[0].forward(&values)[0]
            }
            HeadShape::Stacks(StackShape { input_activation, squared_clipped, skip, hidden, .. }) => {
                let product = input_activation.product_of_ones();
                let inputs: Vec<f64> = if input_activation.is_pairwise() {
                    let pairs = |values: &Vec<f64>| {
                        let (left, right) = values.split_at(values.len() / 2);
                        let products = left.iter().zip(right).map(|(&a, &b)| one(a) * one(b) * product);
                        products.collect::<Vec<f64>>()
                    };
                    accumulators.iter().flat_map(pairs).collect()
                } else {
                    accumulators.iter().flatten().copied().map(one).collect()
                };
                let first = stack[0].forward(&inputs);
                let kept = &first[..hidden - usize::from(skip)];
                let squares =
                    kept.iter().filter(|_| squared_clipped).map(|value| one(value * value * 127.0 / 128.0));
                let values: Vec<f64> = squares.chain(kept.iter().copied().map(one)).collect();
                let second: Vec<f64> = stack[1].forward(&values).into_iter().map(one).collect();
                stack[2].forward(&second)[0] + if skip { first[hidden - 1] } else { 0.0 }
            }
        }
    }
}

impl FloatNetwork {
    /// The evaluation of a position for the side to move, in the network's units ([`Self::pawn`] make a
    /// pawn), by [`Self::forward`].
    ///
    /// # Panics
    /// If the parameters do not match the architecture.
    pub fn evaluate(&self, board: &Board) -> f64 {
        let features = &self.architecture.features;
        let us = board.side_to_move();
        let [own, other] = [us, !us].map(|side| features.active(board, side).collect::<Vec<usize>>());
        self.forward(&[&own, &other], self.architecture.buckets().index(board.occupied().len() as usize))
    }
}

impl FloatLayer {
    fn forward(&self, inputs: &[f64]) -> Vec<f64> {
        let outputs = self.weights.chunks_exact(inputs.len().max(1)).zip(&self.bias);
        let sum = |row: &[f32]| {
            row.iter().zip(inputs).map(|(&weight, input)| f64::from(weight) * input).sum::<f64>()
        };
        outputs.map(|(row, &bias)| f64::from(bias) + sum(row)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::features::tests::random_positions;
    use crate::network::Head;
    use crate::test_nets;

    #[test]
    fn float_and_integer_networks_agree_up_to_rounding() {
        for network in test_nets::all() {
            let float = network.to_float();
            // A flat network rounds once. The three layers of random stacks amplify rounding errors; real
            // networks have a tighter limit in tests/real_nets.rs.
            let (relative, absolute) =
                if matches!(network.head, Head::Flat(_)) { (0.001, 2.0) } else { (0.1, 400.0) };
            for position in random_positions(51, 100) {
                let exact = float.evaluate(position.board());
                let value = f64::from(network.evaluate(position.board()).value());
                let tolerance = absolute + relative * exact.abs();
                assert!((exact - value).abs() < tolerance, "{exact} {value} {}", network.architecture());
            }
        }
    }
}
