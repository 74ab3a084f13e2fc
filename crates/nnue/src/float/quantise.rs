//! Quantisation from floating point to integers, its inverse, and a report of the rounding errors.

use super::{FloatLayer, FloatNetwork};
use crate::architecture::*;
use crate::first_layer::FirstLayer;
use crate::inputs::Inputs;
use crate::kernels::Kernels;
use crate::limits::{OverflowError, check_accumulators, check_bias, check_psqt};
use crate::network::*;
use tandem_memory::AlignedArray;
use tandem_util::isa::Isa;
use thiserror::Error;

/// Quantisation factors (integers that represent 1.0) of a flat network. Those of networks with stacks are
/// fixed. The default is 255 and 64, as in bullet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantisation {
    /// QA: the integer that represents 1.0 in the accumulators.
    pub qa: i16,
    /// QB: the integer that represents 1.0 in the output weights.
    pub qb: i16,
}

impl Default for Quantisation {
    fn default() -> Self {
        Self { qa: 255, qb: 64 }
    }
}

/// Rounding errors in one layer's weights or biases when they were quantised, in units of the float
/// parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerReport {
    /// The layer, for example `stack 3, layer 0, weights`.
    pub name: String,
    /// Number of weights or biases in the layer.
    pub parameters: usize,
    /// Quantisation factor: the integer that represents 1.0.
    pub scale: f64,
    /// Largest absolute value among the parameters before quantisation.
    pub max_abs: f64,
    /// Number of parameters that were clipped to the integer range. If it is more than a few, training should
    /// clip weights.
    pub clipped: usize,
    /// Largest absolute difference between a parameter and its quantised value.
    pub max_error: f64,
    /// Root mean square of the differences between parameters and their quantised values.
    pub rms_error: f64,
}

/// Error for a float network that cannot be quantised, with the layer at fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{layer}: {problem}")]
pub struct QuantiseError {
    /// The layer or setting at fault, for example `first layer, biases`.
    pub layer: String,
    /// The reason, for example a parameter that is not finite or sums that could overflow.
    pub problem: String,
}

impl From<ArchitectureError> for QuantiseError {
    fn from(error: ArchitectureError) -> Self {
        Self { layer: error.part, problem: error.problem }
    }
}

impl QuantiseError {
    /// Converts an overflow in the given layer.
    fn overflow(layer: &str) -> impl Fn(OverflowError) -> Self {
        move |error| Self { layer: layer.into(), problem: error.to_string() }
    }
}

/// Quantisation factors of every tensor of a network: the integers that represent 1.0.
#[derive(Clone, Debug, PartialEq)]
pub struct Scales {
    /// Factor for the weights and biases of the first layer.
    pub accumulator: f64,
    /// Factor for the values of the piece-square table.
    pub psqt: f64,
    /// Factors for the weights and for the biases of each layer of a stack, in order.
    pub layers: Vec<(f64, f64)>,
}

impl Scales {
    /// The factors of an architecture. `quantisation` applies to flat heads only.
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
                Self { accumulator: f64::from(stack.input_activation.quantised_one()), psqt: output, layers }
            }
        }
    }
}

/// Quantises tensors and collects a report for each.
#[derive(Default)]
struct Quantiser {
    reports: Vec<LayerReport>,
}

impl Quantiser {
    fn quantise<T: Into<f64> + Copy + TryFrom<i64>>(
        &mut self,
        name: &str,
        values: &[f32],
        scale: f64,
        (min, max): (T, T),
    ) -> Result<Vec<T>, QuantiseError> {
        let (mut clipped, mut max_abs, mut max_error, mut squares) = (0, 0f64, 0f64, 0f64);
        let mut out = Vec::with_capacity(values.len());
        for (at, &value) in values.iter().enumerate() {
            let value = f64::from(value);
            if !value.is_finite() {
                let problem = format!("number {at} is {value}");
                return Err(QuantiseError { layer: name.into(), problem });
            }
            // Ties to even, as the trainer's `round_to` does. Its products have 32 bits, so a few parameters
            // next to a tie may still differ.
            let rounded = (value * scale).round_ties_even();
            let quantised = rounded.clamp(min.into(), max.into());
            clipped += usize::from(quantised != rounded);
            max_abs = max_abs.max(value.abs());
            let error = (quantised / scale - value).abs();
            max_error = max_error.max(error);
            squares += error * error;
            out.push(T::try_from(quantised as i64).unwrap_or(max));
        }
        self.reports.push(LayerReport {
            name: name.into(),
            parameters: values.len(),
            scale,
            max_abs,
            clipped,
            max_error,
            rms_error: (squares / values.len().max(1) as f64).sqrt(),
        });
        Ok(out)
    }
}

const I8: (i8, i8) = (i8::MIN, i8::MAX);
const I16: (i16, i16) = (i16::MIN, i16::MAX);
const I32: (i32, i32) = (i32::MIN, i32::MAX);

impl<I: Inputs> FloatNetwork<I> {
    /// Quantises the network, and reports the rounding errors of each tensor.
    ///
    /// # Errors
    /// The network fails [`Self::check`], a parameter is not finite, a quantisation factor is not positive,
    /// or the quantised weights could overflow an accumulator.
    pub fn quantise(
        &self,
        quantisation: Quantisation,
    ) -> Result<(Network<I>, Vec<LayerReport>), QuantiseError> {
        self.check()?;
        if quantisation.qa <= 0 || quantisation.qb <= 0 {
            let problem = format!("{quantisation:?}: quantisation factors must be above zero");
            return Err(QuantiseError { layer: "quantisation".into(), problem });
        }
        let architecture = &self.architecture;
        let scales = Scales::of(architecture, quantisation);
        let mut quantiser = Quantiser::default();
        let block = |numbers: Vec<i16>| AlignedArray::from(&numbers[..]);
        let name = "first layer";
        let bias = quantiser.quantise(&format!("{name}, biases"), &self.bias, scales.accumulator, I16)?;
        let weights =
            quantiser.quantise(&format!("{name}, weights"), &self.weights, scales.accumulator, I16)?;
        let psqt = match architecture.psqt {
            true => Some(quantiser.quantise("piece squares", &self.psqt, scales.psqt, I32)?),
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
            psqt: psqt.map(|psqt| AlignedArray::from(&psqt[..])),
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
                    quantiser.quantise("output weights", &all(|layer| &layer.weights), weight, I16)?;
                let bias = quantiser.quantise("output biases", &all(|layer| &layer.bias), bias, I32)?;
                let factors = [quantisation.qa, quantisation.qb];
                let shape = (buckets, architecture.outputs);
                Head::Flat(Flat::new(activation, factors, self.scale, shape, block(weights), bias))
            }
            HeadShape::Stacks(StackShape { input_activation, squared_clipped, skip, buckets, .. }) => {
                let stacks = self.stacks.iter().enumerate();
                let stacks =
                    stacks.map(|(number, stack)| quantise_stack(&mut quantiser, &scales, number, stack));
                let stacks = stacks.collect::<Result<_, _>>()?;
                Head::Stacks(Stacks { input_activation, squared_clipped, skip, buckets, stacks })
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
        let weights = quantiser.quantise(&format!("{name}, weights"), &floats.weights, weight, I8)?;
        let biases = quantiser.quantise(&format!("{name}, biases"), &floats.bias, bias, I32)?;
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
    /// The quantisation factors of a flat network; the default for networks with stacks, where they are
    /// fixed.
    pub fn quantisation(&self) -> Quantisation {
        match &self.head {
            Head::Flat(flat) => Quantisation { qa: flat.qa, qb: flat.qb },
            Head::Stacks(_) => Quantisation::default(),
        }
    }

    /// Converts the network back to floating point. Quantising the result gives the same network, except if
    /// an output bias of a flat network has more than 24 bits, or if accumulators wrap, which float networks
    /// may not.
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
    use crate::activation::Activation;
    use crate::features::FeatureSet;
    use crate::test_nets;

    #[test]
    fn quantising_a_dequantised_network_gives_the_same_bytes() {
        for network in test_nets::all() {
            let (again, reports) = network.to_float().quantise(network.quantisation()).unwrap();
            assert_eq!(again.to_bytes(), network.to_bytes());
            assert!(reports.iter().all(|report| report.clipped == 0 && report.max_error < 1e-3));
        }
    }

    #[test]
    fn invalid_networks_are_not_quantised() {
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
        // An invalid architecture can be created with zeros, but not quantised.
        let head = HeadShape::Flat {
            activation: Activation::Relu,
            buckets: OutputBuckets { count: 0, ..OutputBuckets::ONE },
        };
        let architecture = Architecture { head, ..other.architecture };
        assert_eq!(
            refused(&FloatNetwork::zeroed(Architecture { outputs: 32, ..architecture }, 400, 100)),
            "buckets"
        );
    }

    #[test]
    fn ties_are_rounded_to_even() {
        let mut float = test_nets::flat(FeatureSet::plain(), 32, 1).to_float();
        float.stacks[0][0].weights[..2].copy_from_slice(&[0.5 / 64.0, 1.5 / 64.0]);
        let (network, _) = float.quantise(Quantisation { qa: 255, qb: 64 }).unwrap();
        let Head::Flat(flat) = &network.head else { panic!("a flat network") };
        assert_eq!(flat.weights[..2], [0, 2]);
    }

    #[test]
    fn clipped_parameters_and_errors_are_reported() {
        let mut float = test_nets::stacks(FeatureSet::plain(), 32, 4).to_float();
        float.stacks[3][0].weights[5] = 9.0;
        let (_, reports) = float.quantise(Quantisation::default()).unwrap();
        let report = reports.iter().find(|report| report.clipped > 0).unwrap();
        assert_eq!((report.name.as_str(), report.clipped), ("stack 3, layer 0, weights", 1));
        assert!(report.max_error > 7.0 && report.max_abs == 9.0);

        float.bias[3] = f32::NAN;
        let error = float.quantise(Quantisation::default()).unwrap_err();
        assert_eq!(error.to_string(), "first layer, biases: number 3 is NaN");
        float.bias[3] = 250.0;
        let error = float.quantise(Quantisation::default()).unwrap_err();
        assert!(error.problem.contains("value 3 could reach"), "{error}");
    }
}
