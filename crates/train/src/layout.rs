//! The flat parameter buffer of a network in training: where each tensor lies, to which range its values are
//! clamped, and at which scale it is quantised.
//!
//! One buffer for all parameters lets optimisers, averages and checkpoints treat them alike, whatever the
//! architecture.

use crate::optimiser::ClampRange;
use tandem_nnue::{
    Architecture, FeatureSet, FloatNetwork, HeadShape, Inputs, PSQT_BUCKETS, Quantisation, Scales,
};
use tandem_util::random::SplitMix;

/// Tensors begin at multiples of this many values, so that every kind of vector instruction can load them
/// aligned.
const ALIGNMENT: usize = 16;

/// Bound of first-layer weights, the usual one for NNUEs. As many inputs as can be active at once then stay
/// within 16 bits.
const FIRST_WEIGHT: f32 = 1.98;

/// Bound of a flat network's output weights, for the same quantisation step of 1/64.
const FLAT_WEIGHT: f32 = 1.98;

/// Bound of first-layer biases, so that sums stay within 16 bits whatever is active.
const FIRST_BIAS: f32 = 16.0;

/// Greatest value of an 8-bit weight, which bounds the weights of stacks.
const SMALL_INTEGER: f64 = 127.0;

/// Options of training that change the layout, the bounds, or the values seen by the forward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayoutOptions {
    /// Adds weight rows that all king buckets share; they are added to each bucket's own rows when the
    /// network is written.
    pub factoriser: bool,
    /// Clamps weights after each step to the range that the quantised network can represent.
    pub clip_weights: bool,
    /// Rounds weights to the quantised grid in the forward pass (quantisation-aware training).
    pub qat: bool,
}

/// One tensor of the network: its place in the flat parameter buffer, the bounds that it is clamped to, and
/// its quantisation scale.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    /// Name of the tensor as in network files, for example `input.weight`.
    pub name: String,
    /// Index of its first value in the flat buffer, a multiple of 16.
    pub start: usize,
    /// Number of its values, including those of the factoriser.
    pub len: usize,
    /// Range that its values are clamped to after each step.
    pub clamp: ClampRange,
    /// Quantisation scale: the integer that represents 1.0 in the quantised network.
    pub quant_scale: f32,
}

impl TensorInfo {
    /// Range of the tensor's values in the flat parameter buffer.
    pub fn span(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.len
    }
}

/// Layout of all tensors of an architecture in the flat parameter buffer, in the order of network files.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout<I = FeatureSet> {
    architecture: Architecture<I>,
    options: LayoutOptions,
    tensors: Vec<TensorInfo>,
    len: usize,
}

impl<I: Inputs> Layout<I> {
    /// Lays out the tensors of an architecture in one flat buffer; `quantisation` gives the factors with
    /// which the network will be quantised.
    pub fn new(architecture: Architecture<I>, quantisation: Quantisation, options: LayoutOptions) -> Self {
        let scales = Scales::of(&architecture, quantisation);
        let extra = if options.factoriser { architecture.features.stride() } else { 0 };
        let rows = architecture.features.num_inputs() + extra;
        let within = |most: f32| {
            if options.clip_weights { ClampRange::symmetric(most) } else { ClampRange::UNBOUNDED }
        };
        // If more inputs can be active at once than there are pieces on a board, the bound of each weight is
        // lower, so that their sum still fits 16 bits.
        let headroom = f64::from(i16::MAX) - f64::from(FIRST_BIAS) * scales.accumulator;
        let fits = (headroom / architecture.features.max_active().max(1) as f64).floor() / scales.accumulator;
        let first = FIRST_WEIGHT.min(fits.max(0.0) as f32) / if options.factoriser { 2.0 } else { 1.0 };
        let layers = architecture.layers();
        // The output weights of a flat head have 16 bits. With a squared activation the kernels are fast only if the
        // product of a weight and an activation fits 16 bits as well. Weights of stacks have 8 bits.
        let most = |weight: f64| match architecture.head {
            HeadShape::Flat { activation, .. } if activation.is_squared() => {
                FLAT_WEIGHT.min(f32::from(i16::MAX / quantisation.qa.max(1)) / weight as f32)
            }
            HeadShape::Flat { .. } => FLAT_WEIGHT,
            HeadShape::Stacks(_) => (SMALL_INTEGER / weight) as f32,
        };
        let mut tensors = Vec::new();
        let mut len: usize = 0;
        for (name, shape) in tandem_nnue::tensor_shapes(&architecture) {
            let (count, range, grid) = match name.as_str() {
                "input.weight" => (rows * architecture.width(), within(first), scales.accumulator),
                "input.bias" => (architecture.width(), within(FIRST_BIAS), scales.accumulator),
                "psqt.weight" => (rows * PSQT_BUCKETS, ClampRange::UNBOUNDED, scales.psqt),
                other => {
                    let layer = (tensors.len() - 2 - usize::from(architecture.psqt)) / 2 % layers.len();
                    let (weight, bias) = scales.layers[layer];
                    let is_bias = other.ends_with("bias");
                    let range = if is_bias { ClampRange::UNBOUNDED } else { within(most(weight)) };
                    (shape.iter().product(), range, if is_bias { bias } else { weight })
                }
            };
            tensors.push(TensorInfo { name, start: len, len: count, clamp: range, quant_scale: grid as f32 });
            len = (len + count).next_multiple_of(ALIGNMENT);
        }
        Self { architecture, options, tensors, len }
    }

    /// Architecture that is laid out, as given to [`Layout::new`].
    pub fn architecture(&self) -> &Architecture<I> {
        &self.architecture
    }

    /// Options of training, such as the factoriser and rounding.
    pub fn options(&self) -> LayoutOptions {
        self.options
    }

    /// Length of the flat buffer: all parameters and the gaps between tensors.
    pub fn num_parameters(&self) -> usize {
        self.len
    }

    /// The tensors in the order in which they lie, which is that of network files.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// Number of weight rows of the first layer, one for each feature, including the factoriser's.
    pub fn num_weight_rows(&self) -> usize {
        self.weights().len / self.architecture.width()
    }

    /// Greatest number of features that are active at once for one side, including the factoriser's.
    pub fn max_active(&self) -> usize {
        self.architecture.features.max_active() * if self.options.factoriser { 2 } else { 1 }
    }

    /// Index of the factoriser's weight row for a feature, which all king buckets share; `None` without a
    /// factoriser.
    pub fn shared_row(&self, input: usize) -> Option<usize> {
        let features = &self.architecture.features;
        self.options.factoriser.then(|| features.num_inputs() + input % features.stride())
    }

    /// Weights of the first layer, one row for each feature.
    pub fn weights(&self) -> &TensorInfo {
        &self.tensors[0]
    }

    /// Biases of the first layer, the initial value of each accumulator.
    pub fn bias(&self) -> &TensorInfo {
        &self.tensors[1]
    }

    /// Tensor of the piece-square table; `None` if the architecture has no PSQT output.
    pub fn psqt(&self) -> Option<&TensorInfo> {
        self.architecture.psqt.then(|| &self.tensors[2])
    }

    /// Tensors of the layers after the accumulators, one stack after the other, weights and biases in turn.
    pub fn stacks(&self) -> &[TensorInfo] {
        &self.tensors[2 + usize::from(self.architecture.psqt)..]
    }

    /// Weights and biases of one layer of one stack; both are counted from zero.
    pub fn layer(&self, stack: usize, layer: usize) -> (&TensorInfo, &TensorInfo) {
        let layers = self.architecture.layers().len();
        let at = 2 * (stack * layers + layer);
        (&self.stacks()[at], &self.stacks()[at + 1])
    }

    /// Random initial parameters; the same seed gives the same ones. Weights are uniform within 1/√inputs,
    /// biases and the factoriser zero.
    pub fn random_parameters(&self, seed: u64) -> Vec<f32> {
        let mut random = SplitMix::new(seed);
        let mut parameters = vec![0.0; self.len];
        let mut fill = |place: std::ops::Range<usize>, inputs: usize| {
            let size = 1.0 / (inputs as f64).sqrt();
            for number in &mut parameters[place] {
                *number = ((random.unit() * 2.0 - 1.0) * size) as f32;
            }
        };
        // Small compared with what is learnt, because rarely active rows keep their random values. Shared
        // rows begin at zero.
        let inputs = self.architecture.features.num_inputs();
        fill(0..inputs * self.architecture.width(), inputs);
        let layers = self.architecture.layers();
        for stack in 0..self.architecture.buckets().count {
            for (layer, &(inputs, _)) in layers.iter().enumerate() {
                fill(self.layer(stack, layer).0.span(), inputs);
            }
        }
        // All stacks begin alike and differ only by what they learn.
        let first: Vec<f32> = self.stacks()[..2 * layers.len()]
            .iter()
            .flat_map(|tensor| &parameters[tensor.span()])
            .copied()
            .collect();
        for stack in self.stacks().chunks_exact(2 * layers.len()).skip(1) {
            let mut values = first.iter();
            for tensor in stack {
                parameters[tensor.span()].iter_mut().zip(&mut values).for_each(|(to, from)| *to = *from);
            }
        }
        parameters
    }

    /// Converts flat parameters to a network; the factoriser's rows are added to those of each king bucket.
    pub fn network(&self, parameters: &[f32], description: &str, scale: i32, pawn: i32) -> FloatNetwork<I> {
        let mut network = FloatNetwork::zeroed(self.architecture.clone(), scale, pawn);
        network.description = description.into();
        for (tensor, values) in self.tensors.iter().zip(network.parameters_mut()) {
            let len = values.len();
            values.copy_from_slice(&parameters[tensor.start..tensor.start + len]);
        }
        if self.options.factoriser {
            let round =
                |number: f32, grid: f32| if self.options.qat { round_to(number, grid) } else { number };
            let add = |tensor: &TensorInfo, values: &mut [f32]| {
                let shared = &parameters[tensor.span()][values.len()..];
                for row in values.chunks_exact_mut(shared.len()) {
                    for (value, extra) in row.iter_mut().zip(shared) {
                        *value = round(*value, tensor.quant_scale) + round(*extra, tensor.quant_scale);
                    }
                }
            };
            add(self.weights(), &mut network.weights);
            if let Some(psqt) = self.psqt() {
                add(psqt, &mut network.psqt);
            }
        }
        network
    }

    /// Converts a network to flat parameters; what all king buckets have in common becomes the factoriser's
    /// rows.
    pub fn parameters_of(&self, network: &FloatNetwork<I>) -> Vec<f32> {
        let mut parameters = vec![0.0; self.len];
        for (tensor, values) in self.tensors.iter().zip(network.parameters()) {
            parameters[tensor.start..tensor.start + values.len()].copy_from_slice(values);
        }
        if self.options.factoriser {
            factor_out_shared(self.weights(), network.weights.len(), &mut parameters);
            if let Some(psqt) = self.psqt() {
                factor_out_shared(psqt, network.psqt.len(), &mut parameters);
            }
        }
        parameters
    }
}

/// Moves what the king buckets' rows, the first `own` values of a tensor, have in common into the shared rows
/// behind them. That is the midpoint of the least and the greatest value, so that both parts stay within
/// their range if at all possible.
fn factor_out_shared(tensor: &TensorInfo, own: usize, parameters: &mut [f32]) {
    let (own, shared) = parameters[tensor.span()].split_at_mut(own);
    let mut least = vec![f32::INFINITY; shared.len()];
    let mut greatest = vec![f32::NEG_INFINITY; shared.len()];
    for row in own.chunks_exact(shared.len()) {
        least.iter_mut().zip(row).for_each(|(least, number)| *least = least.min(*number));
        greatest.iter_mut().zip(row).for_each(|(greatest, number)| *greatest = greatest.max(*number));
    }
    // On the quantised grid, so that a difference of two values on the grid is on it too.
    let most = (tensor.clamp.max * tensor.quant_scale).floor() / tensor.quant_scale;
    for ((common, least), greatest) in shared.iter_mut().zip(least).zip(greatest) {
        *common = round_to((least + greatest) / 2.0, tensor.quant_scale).clamp(-most, most);
    }
    for row in own.chunks_exact_mut(shared.len()) {
        row.iter_mut().zip(&*shared).for_each(|(number, common)| *number -= common);
    }
}

/// Rounds to the nearest value that the quantised network can represent.
#[inline(always)]
pub(crate) fn round_to(number: f32, grid: f32) -> f32 {
    (number * grid).round_ties_even() / grid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::tests::{architectures, random_network};

    #[test]
    fn networks_are_restored_from_their_flat_parameters() {
        let mut random = SplitMix::new(3);
        for architecture in architectures() {
            let network = random_network(architecture.clone(), &mut random);
            let layout = Layout::new(architecture, Quantisation::default(), LayoutOptions::default());
            let parameters = layout.parameters_of(&network);
            assert_eq!(layout.network(&parameters, "", network.scale, network.pawn), network);
            for tensor in layout.tensors() {
                assert_eq!(tensor.start % ALIGNMENT, 0, "{}", tensor.name);
            }
        }
    }

    #[test]
    fn shared_rows_are_added_to_each_kings() {
        let mut random = SplitMix::new(4);
        for mut architecture in architectures() {
            architecture.features = tandem_nnue::FeatureSet::half_ka_v2_hm();
            let shape = LayoutOptions { factoriser: true, clip_weights: true, qat: false };
            let layout = Layout::new(architecture.clone(), Quantisation::default(), shape);
            let mut parameters = layout.parameters_of(&random_network(architecture.clone(), &mut random));
            let width = architecture.width();
            let input = 5 * 704 + 77;
            let row = layout.shared_row(input).unwrap();
            assert_eq!(row, 22_528 + 77);
            parameters[row * width + 3] = 0.5;
            parameters[row * width + 4] = 0.0;
            let before = parameters[input * width + 3];
            let network = layout.network(&parameters, "", 600, 361);
            assert_eq!(network.weights[input * width + 3], before + 0.5);
            assert_eq!(network.weights[input * width + 4], parameters[input * width + 4]);
            assert!(layout.weights().clamp.max < 1.0, "both together must fit");
        }
    }

    /// Training from a network must not change it by the clamping after each step.
    #[test]
    fn an_initial_network_is_factorised_within_the_clamp_ranges() {
        let mut random = SplitMix::new(5);
        for mut architecture in architectures() {
            architecture.features = tandem_nnue::FeatureSet::half_ka_v2_hm();
            let shape = LayoutOptions { factoriser: true, clip_weights: true, qat: false };
            let layout = Layout::new(architecture.clone(), Quantisation::default(), shape);
            let mut network = random_network(architecture, &mut random);
            // From 0.9 to 1.5, which is more than the own or the shared row alone can hold.
            network.weights.iter_mut().for_each(|weight| *weight = *weight * 2.0 + 1.2);
            let mut parameters = layout.parameters_of(&network);
            let weights = layout.weights();
            let range = weights.clamp;
            parameters[weights.span()]
                .iter_mut()
                .for_each(|number| *number = number.clamp(range.min, range.max));
            let back = layout.network(&parameters, "", network.scale, network.pawn);
            for (found, expected) in back.parameters().into_iter().zip(network.parameters()) {
                assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6));
            }
        }
    }

    #[test]
    fn quantising_initial_parameters_clips_nothing() {
        for architecture in architectures() {
            let shape = LayoutOptions { clip_weights: true, ..LayoutOptions::default() };
            let layout = Layout::new(architecture, Quantisation::default(), shape);
            let parameters = layout.random_parameters(7);
            assert_eq!(parameters, layout.random_parameters(7));
            let (_, report) =
                layout.network(&parameters, "", 600, 361).quantise(Quantisation::default()).unwrap();
            assert!(report.iter().all(|layer| layer.clipped == 0), "{report:?}");
        }
    }
}
