//! A network in floating point, as trainers make it: what quantisation starts from, and the measure of what it loses.

use crate::architecture::*;
use crate::features::FeatureSet;
use crate::inputs::Inputs;
use crate::kernels::{Activation, Isa, Kernels};
use crate::limits::{OverflowError, check_accumulators, check_bias, check_psqt};
use crate::network::*;
use tandem_chess::Board;
use tandem_memory::Block;
use thiserror::Error;

/// A dense layer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FloatLayer {
    /// One row for each output.
    pub weights: Vec<f32>,
    /// One for each output.
    pub bias: Vec<f32>,
}

/// A network in floating point. One stands for one everywhere: values are clipped there, and an output of one is worth
/// [`Self::scale`].
#[derive(Clone, Debug, PartialEq)]
pub struct FloatNetwork<I = FeatureSet> {
    /// Its shape, which says how long everything below is.
    pub architecture: Architecture<I>,
    /// What it says of itself.
    pub description: String,
    /// What an output of one is worth, in units of which [`Self::pawn`] make a pawn. A head of stacks has 600.
    pub scale: i32,
    /// What a pawn is worth.
    pub pawn: i32,
    /// One row of [`Architecture::width`] for each input.
    pub weights: Vec<f32>,
    /// The biases of the first layer.
    pub bias: Vec<f32>,
    /// One row of [`PSQT_BUCKETS`] for each input, or nothing.
    pub psqt: Vec<f32>,
    /// For each bucket, the layers after the accumulators.
    pub stacks: Vec<Vec<FloatLayer>>,
}

/// What stands for one in the integers of a flat network. Those of stacks are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantisation {
    /// In the accumulators.
    pub qa: i16,
    /// In the output weights.
    pub qb: i16,
}

impl Default for Quantisation {
    fn default() -> Self {
        Self { qa: 255, qb: 64 }
    }
}

/// What became of the numbers of one layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerReport {
    /// The layer.
    pub name: String,
    /// How many numbers it has.
    pub numbers: usize,
    /// What stands for one.
    pub scale: f64,
    /// The greatest number, up or down.
    pub greatest: f64,
    /// Numbers that did not fit and were held back.
    pub clipped: usize,
    /// The greatest difference between a number and what stands for it.
    pub worst_error: f64,
    /// The root of the mean square of those differences.
    pub rms_error: f64,
}

/// A network that cannot become one of integers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{layer}: {problem}")]
pub struct QuantiseError {
    /// The layer.
    pub layer: String,
    /// Why.
    pub problem: String,
}

impl From<ArchitectureError> for QuantiseError {
    fn from(error: ArchitectureError) -> Self {
        Self { layer: error.part, problem: error.problem }
    }
}

impl QuantiseError {
    /// An overflow in a layer.
    fn overflow(layer: &str) -> impl Fn(OverflowError) -> Self {
        move |error| Self { layer: layer.into(), problem: error.to_string() }
    }
}

/// The tensors of an architecture, with their shapes, in the order of [`FloatNetwork::numbers`].
pub fn tensors<I: Inputs>(architecture: &Architecture<I>) -> Vec<(String, Vec<usize>)> {
    let (inputs, width) = (architecture.features.inputs(), architecture.width());
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

/// What stands for one in each kind of number of a quantised network.
#[derive(Clone, Debug, PartialEq)]
pub struct Scales {
    /// In the first layer.
    pub accumulator: f64,
    /// In piece squares.
    pub psqt: f64,
    /// In the weights and biases of each layer of a stack.
    pub layers: Vec<(f64, f64)>,
}

impl Scales {
    /// Those of an architecture. Only a flat head leaves a choice.
    pub fn of<I: Inputs>(architecture: &Architecture<I>, quantisation: Quantisation) -> Self {
        let output = f64::from(STACK_UNITS * OUTPUT_SCALE);
        match architecture.head {
            HeadShape::Flat { .. } => {
                let (qa, qb) = (f64::from(quantisation.qa), f64::from(quantisation.qb));
                Self { accumulator: qa, psqt: output, layers: vec![(qb, qa * qb)] }
            }
            HeadShape::Stacks(stack) => {
                let weight = f64::from(1 << WEIGHT_BITS);
                let hidden = (weight, 127.0 * weight);
                let layers = vec![hidden, hidden, (output / 127.0, output)];
                Self { accumulator: f64::from(stack.squeeze.one()), psqt: output, layers }
            }
        }
    }
}

/// Turns numbers into integers, layer after layer, and keeps account.
#[derive(Default)]
struct Quantiser {
    reports: Vec<LayerReport>,
}

impl Quantiser {
    fn numbers<T: Into<f64> + Copy + TryFrom<i64>>(
        &mut self,
        name: &str,
        numbers: &[f32],
        scale: f64,
        (least, most): (T, T),
    ) -> Result<Vec<T>, QuantiseError> {
        let (mut clipped, mut greatest, mut worst, mut squares) = (0, 0f64, 0f64, 0f64);
        let mut out = Vec::with_capacity(numbers.len());
        for (at, &number) in numbers.iter().enumerate() {
            let number = f64::from(number);
            if !number.is_finite() {
                let problem = format!("number {at} is {number}");
                return Err(QuantiseError { layer: name.into(), problem });
            }
            // As those who train with rounded numbers round: see `round_to` in the trainer.
            let wanted = (number * scale).round_ties_even();
            let held = wanted.clamp(least.into(), most.into());
            clipped += usize::from(held != wanted);
            greatest = greatest.max(number.abs());
            let error = (held / scale - number).abs();
            worst = worst.max(error);
            squares += error * error;
            out.push(T::try_from(held as i64).unwrap_or(most));
        }
        self.reports.push(LayerReport {
            name: name.into(),
            numbers: numbers.len(),
            scale,
            greatest,
            clipped,
            worst_error: worst,
            rms_error: (squares / numbers.len().max(1) as f64).sqrt(),
        });
        Ok(out)
    }
}

const I8: (i8, i8) = (i8::MIN, i8::MAX);
const I16: (i16, i16) = (i16::MIN, i16::MAX);
const I32: (i32, i32) = (i32::MIN, i32::MAX);

impl<I: Inputs> FloatNetwork<I> {
    /// All zeros.
    pub fn zeroed(architecture: Architecture<I>, scale: i32, pawn: i32) -> Self {
        let inputs = architecture.features.inputs();
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

    /// The numbers of each tensor.
    pub fn numbers(&self) -> Vec<&Vec<f32>> {
        let mut all = vec![&self.weights, &self.bias];
        if self.architecture.psqt {
            all.push(&self.psqt);
        }
        for layer in self.stacks.iter().flatten() {
            all.extend([&layer.weights, &layer.bias]);
        }
        all
    }

    /// The numbers of each tensor, to be written.
    pub fn numbers_mut(&mut self) -> Vec<&mut Vec<f32>> {
        let mut all = vec![&mut self.weights, &mut self.bias];
        if self.architecture.psqt {
            all.push(&mut self.psqt);
        }
        for layer in self.stacks.iter_mut().flatten() {
            all.extend([&mut layer.weights, &mut layer.bias]);
        }
        all
    }

    /// Refuses a network whose shape or units are none, or whose numbers are not those that its shape says.
    pub fn check(&self) -> Result<(), ArchitectureError> {
        self.architecture.check()?;
        self.architecture.check_units(self.scale, self.pawn)?;
        let layers = self.architecture.layers().len();
        let stacks = (self.stacks.len(), self.stacks.iter().all(|stack| stack.len() == layers));
        if stacks != (self.architecture.buckets().count, true) {
            let problem = format!("{} of {layers} layers are needed", self.architecture.buckets().count);
            return Err(ArchitectureError::new("stacks", problem));
        }
        if !self.architecture.psqt && !self.psqt.is_empty() {
            return Err(ArchitectureError::new("psqt", "numbers found, none expected"));
        }
        for ((name, shape), numbers) in tensors(&self.architecture).iter().zip(self.numbers()) {
            let (found, expected) = (numbers.len(), shape.iter().product::<usize>());
            if found != expected {
                let problem = format!("{found} numbers found, {expected} expected");
                return Err(ArchitectureError::new(name, problem));
            }
        }
        Ok(())
    }

    /// The network in integers, and what that did to each layer.
    pub fn quantise(
        &self,
        quantisation: Quantisation,
    ) -> Result<(Network<I>, Vec<LayerReport>), QuantiseError> {
        self.check()?;
        if quantisation.qa <= 0 || quantisation.qb <= 0 {
            let problem = format!("{quantisation:?}: what stands for one must be above zero");
            return Err(QuantiseError { layer: "quantisation".into(), problem });
        }
        let architecture = &self.architecture;
        let scales = Scales::of(architecture, quantisation);
        let mut quantiser = Quantiser::default();
        let block = |numbers: Vec<i16>| Block::from(&numbers[..]);
        let name = "first layer";
        let bias = quantiser.numbers(&format!("{name}, biases"), &self.bias, scales.accumulator, I16)?;
        let weights =
            quantiser.numbers(&format!("{name}, weights"), &self.weights, scales.accumulator, I16)?;
        let psqt = match architecture.psqt {
            true => Some(quantiser.numbers("piece squares", &self.psqt, scales.psqt, I32)?),
            false => None,
        };
        if let Some(psqt) = &psqt {
            check_psqt(psqt, architecture.features.max_active())
                .map_err(QuantiseError::overflow("piece squares"))?;
        }
        let first = FirstLayer {
            outputs: architecture.outputs,
            width: architecture.width(),
            bias: block(bias),
            weights: block(weights),
            psqt: psqt.map(|psqt| Block::from(&psqt[..])),
            wraps: false,
        };
        check_accumulators(&architecture.features, &first).map_err(QuantiseError::overflow(name))?;
        let head = match architecture.head {
            HeadShape::Flat { activation, buckets } => {
                let (weight, bias) = scales.layers[0];
                let all = |part: fn(&FloatLayer) -> &[f32]| -> Vec<f32> {
                    self.stacks.iter().flat_map(|stack| part(&stack[0])).copied().collect()
                };
                let weights =
                    quantiser.numbers("output weights", &all(|layer| &layer.weights), weight, I16)?;
                let bias = quantiser.numbers("output biases", &all(|layer| &layer.bias), bias, I32)?;
                let ones = [quantisation.qa, quantisation.qb];
                let shape = (buckets, architecture.outputs);
                Head::Flat(Flat::new(activation, ones, self.scale, shape, block(weights), bias))
            }
            HeadShape::Stacks(StackShape { squeeze, dual, skip, buckets, .. }) => {
                let stacks = self.stacks.iter().enumerate();
                let stacks =
                    stacks.map(|(number, stack)| quantise_stack(&mut quantiser, &scales, number, stack));
                let stacks = stacks.collect::<Result<_, _>>()?;
                Head::Stacks(Stacks { squeeze, dual, skip, buckets, stacks })
            }
        };
        let network = Network {
            description: self.description.clone(),
            features: architecture.features.clone(),
            first,
            head,
            pawn: self.pawn,
            kernels: Kernels::new(Isa::best()),
        };
        Ok((network, quantiser.reports))
    }

    /// The value of what each side has on, in the network's units, computed plainly: the measure for every faster way. The side
    /// to move comes first.
    ///
    /// # Panics
    /// Where there are other than [`Inputs::SIDES`] sides, or where the numbers are fewer than the architecture says, which
    /// [`Self::check`] would have told.
    pub fn judge(&self, sides: &[&[usize]], bucket: usize) -> f64 {
        assert_eq!(sides.len(), I::SIDES);
        let architecture = &self.architecture;
        let width = architecture.width();
        let accumulator = |(number, side): (usize, &&[usize])| {
            // Where the perspectives have weights of their own, the other's follow those of the side to move.
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
        (self.head(&accumulators, bucket) + psqt) * f64::from(self.scale)
    }

    fn head(&self, accumulators: &[Vec<f64>], bucket: usize) -> f64 {
        let one = |value: f64| value.clamp(0.0, 1.0);
        let stack = &self.stacks[bucket];
        match self.architecture.head {
            HeadShape::Flat { activation, .. } => {
                let activate = |value: &f64| match activation {
                    Activation::Relu => value.max(0.0),
                    Activation::Crelu => one(*value),
                    Activation::Screlu => one(*value).powi(2),
                };
                let values: Vec<f64> = accumulators.iter().flatten().map(activate).collect();
                stack[0].forward(&values)[0]
            }
            HeadShape::Stacks(StackShape { squeeze, dual, skip, hidden, .. }) => {
                let product = squeeze.product();
                let inputs: Vec<f64> = if squeeze.is_pairwise() {
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
                let squares = kept.iter().filter(|_| dual).map(|value| one(value * value * 127.0 / 128.0));
                let values: Vec<f64> = squares.chain(kept.iter().copied().map(one)).collect();
                let second: Vec<f64> = stack[1].forward(&values).into_iter().map(one).collect();
                stack[2].forward(&second)[0] + if skip { first[hidden - 1] } else { 0.0 }
            }
        }
    }
}

impl FloatNetwork {
    /// The value of a position for the side to move, in the network's units, computed plainly as [`Self::judge`] does.
    ///
    /// # Panics
    /// As there.
    pub fn evaluate(&self, board: &Board) -> f64 {
        let features = &self.architecture.features;
        let us = board.side_to_move();
        let [own, other] = [us, !us].map(|side| features.active(board, side).collect::<Vec<usize>>());
        self.judge(&[&own, &other], self.architecture.buckets().of(board.occupied().len() as usize))
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

fn quantise_stack(
    quantiser: &mut Quantiser,
    scales: &Scales,
    number: usize,
    stack: &[FloatLayer],
) -> Result<Stack, QuantiseError> {
    let mut quantised = Vec::new();
    for (layer, (floats, &(weight, bias))) in stack.iter().zip(&scales.layers).enumerate() {
        let name = format!("stack {number}, layer {layer}");
        let weights = quantiser.numbers(&format!("{name}, weights"), &floats.weights, weight, I8)?;
        let biases = quantiser.numbers(&format!("{name}, biases"), &floats.bias, bias, I32)?;
        check_bias(&biases).map_err(QuantiseError::overflow(&name))?;
        quantised.push((weights, biases));
    }
    let dense = |(weights, biases): &(Vec<i8>, Vec<i32>)| {
        let inputs = weights.len() / biases.len();
        Dense::new(inputs, biases, weights, inputs)
    };
    let (last, last_bias) = &quantised[2];
    Ok(Stack {
        first: dense(&quantised[0]),
        second: dense(&quantised[1]),
        last_bias: last_bias[0],
        last: last.clone(),
    })
}

impl<I: Inputs> Network<I> {
    /// What stands for one in a flat network's integers; the usual, where the network is none.
    pub fn quantisation(&self) -> Quantisation {
        match &self.head {
            Head::Flat(flat) => Quantisation { qa: flat.qa, qb: flat.qb },
            Head::Stacks(_) => Quantisation::default(),
        }
    }

    /// The network in floating point. Quantised again, it is the same, unless an output bias of a flat network has more
    /// than 24 bits, or accumulators wrap: weights that could leave 16 bits are no network of floating point.
    pub fn to_float(&self) -> FloatNetwork<I> {
        let architecture = self.architecture();
        let scales = Scales::of(&architecture, self.quantisation());
        fn floats<T: Into<f64> + Copy>(numbers: &[T], scale: f64) -> Vec<f32> {
            numbers.iter().map(|&number| (number.into() / scale) as f32).collect()
        }
        let (scale, stacks) = match &self.head {
            Head::Flat(flat) => {
                let (weight, bias) = scales.layers[0];
                let stacks = flat.weights.chunks_exact(I::SIDES * self.first.outputs).zip(&flat.bias);
                let stack = |(weights, &output_bias)| {
                    vec![FloatLayer { weights: floats(weights, weight), bias: floats(&[output_bias], bias) }]
                };
                (flat.scale, stacks.map(stack).collect())
            }
            Head::Stacks(stacks) => {
                let dense = |dense: &Dense, (weight, bias): (f64, f64)| {
                    let rows: Vec<i8> = (0..dense.outputs).flat_map(|output| dense.row(output)).collect();
                    FloatLayer { weights: floats(&rows, weight), bias: floats(dense.bias(), bias) }
                };
                let stack = |stack: &Stack| {
                    let (weight, bias) = scales.layers[2];
                    let last = FloatLayer {
                        weights: floats(&stack.last, weight),
                        bias: floats(&[stack.last_bias], bias),
                    };
                    vec![dense(&stack.first, scales.layers[0]), dense(&stack.second, scales.layers[1]), last]
                };
                (STACK_UNITS, stacks.stacks.iter().map(stack).collect())
            }
        };
        FloatNetwork {
            description: self.description.clone(),
            scale,
            pawn: self.pawn,
            weights: floats(&self.first.weights, scales.accumulator),
            bias: floats(&self.first.bias, scales.accumulator),
            psqt: self.first.psqt.as_ref().map_or_else(Vec::new, |psqt| floats(psqt, scales.psqt)),
            stacks,
            architecture,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::FeatureSet;
    use crate::features::tests::random_positions;
    use crate::test_nets;

    #[test]
    fn a_network_comes_back_from_floats() {
        for network in test_nets::all() {
            let (again, reports) = network.to_float().quantise(network.quantisation()).unwrap();
            assert_eq!(again.to_bytes(), network.to_bytes());
            assert!(reports.iter().all(|report| report.clipped == 0 && report.worst_error < 1e-3));
        }
    }

    #[test]
    fn floats_and_integers_agree_to_rounding() {
        for network in test_nets::all() {
            let float = network.to_float();
            // A flat network rounds once. Random stacks blow up what their three layers round away; those of real
            // networks are held to less, in tests/real_nets.rs.
            let (share, rest) =
                if matches!(network.head, Head::Flat(_)) { (0.001, 2.0) } else { (0.1, 250.0) };
            for position in random_positions(51, 100) {
                let exact = float.evaluate(position.board());
                let value = f64::from(network.evaluate(position.board()).value());
                let slack = rest + share * exact.abs();
                assert!((exact - value).abs() < slack, "{exact} {value} {}", network.architecture());
            }
        }
    }

    #[test]
    fn what_cannot_be_quantised_is_refused() {
        let refused = |float: &FloatNetwork| float.quantise(Quantisation::default()).unwrap_err().layer;
        let stacks = test_nets::stacks(FeatureSet::plain(), 32, 4).to_float();
        let flat = test_nets::flat(FeatureSet::plain(), 32, 1).to_float();
        assert_eq!(refused(&FloatNetwork { scale: 400, ..stacks.clone() }), "scale");
        assert_eq!(refused(&FloatNetwork { scale: 0, ..flat.clone() }), "scale");
        assert_eq!(refused(&FloatNetwork { pawn: 0, ..flat.clone() }), "pawn");
        assert_eq!(refused(&FloatNetwork { bias: vec![], ..flat.clone() }), "input.bias");
        assert_eq!(refused(&FloatNetwork { psqt: vec![0.0; 768 * 8], ..flat.clone() }), "psqt");
        assert_eq!(refused(&FloatNetwork { stacks: vec![], ..flat.clone() }), "stacks");
        assert_eq!(refused(&FloatNetwork { psqt: vec![1e9; 768 * 8], ..stacks.clone() }), "piece squares");
        let mut other = stacks.clone();
        other.stacks[7].pop();
        assert_eq!(refused(&other), "stacks");
        let mut other = stacks;
        other.stacks[1][1].weights.push(0.0);
        assert_eq!(refused(&other), "stack.1.1.weight");
        for (qa, qb) in [(0, 64), (255, -64)] {
            let error = flat.quantise(Quantisation { qa, qb }).unwrap_err();
            assert_eq!(error.layer, "quantisation");
        }
        let mut other = flat;
        other.architecture.outputs = 40;
        assert_eq!(refused(&other), "outputs");
        // A shape that is none can be made of zeros, but goes no further.
        let head =
            HeadShape::Flat { activation: Activation::Relu, buckets: Buckets { count: 0, ..Buckets::ONE } };
        let architecture = Architecture { head, ..other.architecture };
        assert_eq!(
            refused(&FloatNetwork::zeroed(Architecture { outputs: 32, ..architecture }, 400, 100)),
            "buckets"
        );
    }

    #[test]
    fn what_is_lost_is_told() {
        let mut float = test_nets::stacks(FeatureSet::plain(), 32, 4).to_float();
        float.stacks[3][0].weights[5] = 9.0;
        let (_, reports) = float.quantise(Quantisation::default()).unwrap();
        let report = reports.iter().find(|report| report.clipped > 0).unwrap();
        assert_eq!((report.name.as_str(), report.clipped), ("stack 3, layer 0, weights", 1));
        assert!(report.worst_error > 7.0 && report.greatest == 9.0);

        float.bias[3] = f32::NAN;
        let error = float.quantise(Quantisation::default()).unwrap_err();
        assert_eq!(error.to_string(), "first layer, biases: number 3 is NaN");
        float.bias[3] = 250.0;
        let error = float.quantise(Quantisation::default()).unwrap_err();
        assert!(error.problem.contains("value 3 could reach"), "{error}");
    }
}
