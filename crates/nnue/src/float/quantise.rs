//! From floating point to integers and back, and what is lost on the way.

use super::{FloatLayer, FloatNetwork};
use crate::architecture::*;
use crate::inputs::Inputs;
use crate::kernels::{Isa, Kernels};
use crate::limits::{OverflowError, check_accumulators, check_bias, check_psqt};
use crate::network::*;
use tandem_memory::Block;
use thiserror::Error;

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
            // Ties go where the trainer's `round_to` sends them. Its products have 32 bits, so that a few numbers beside a tie
            // may still differ.
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
    use crate::kernels::Activation;
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
    fn ties_go_to_the_even_number() {
        let mut float = test_nets::flat(FeatureSet::plain(), 32, 1).to_float();
        float.stacks[0][0].weights[..2].copy_from_slice(&[0.5 / 64.0, 1.5 / 64.0]);
        let (network, _) = float.quantise(Quantisation { qa: 255, qb: 64 }).unwrap();
        let Head::Flat(flat) = &network.head else { panic!("a flat network") };
        assert_eq!(flat.weights[..2], [0, 2]);
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
