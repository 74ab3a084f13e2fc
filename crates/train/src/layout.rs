//! All numbers of a network in training as one row: where each tensor lies, where its numbers may be, and how fine the
//! quantised network tells them apart.

use crate::optimiser::Range;
use tandem_chess::random::SplitMix;
use tandem_nnue::{
    Activation, Architecture, FeatureSet, FloatNetwork, HeadShape, Inputs, PSQT_BUCKETS, Quantisation, Scales,
};

/// Tensors begin at multiples of this, so that every kind of vector instruction can load them.
const ALIGNMENT: usize = 16;

/// First-layer weights stay this near to zero: what the field trains with. As many inputs as can be on at once then stay
/// within 16 bits.
const FIRST_WEIGHT: f32 = 1.98;

/// And so do the output weights of a flat network, for the same grid of a 64th.
const FLAT_WEIGHT: f32 = 1.98;

/// First-layer biases: so that the sums stay within 16 bits whatever is on.
const FIRST_BIAS: f32 = 16.0;

/// Greatest weight of 8 bits.
const SMALL_INTEGER: f64 = 127.0;

/// What a network is trained as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// All kings share a second set of rows, which is added to each king's own when the network is done.
    pub factoriser: bool,
    /// Numbers stay where the quantised network can hold them.
    pub clipped: bool,
    /// Numbers are rounded as the quantised network's will be before anything is computed with them.
    pub rounded: bool,
}

/// Part of the numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// What it is called.
    pub name: String,
    /// Where it begins.
    pub start: usize,
    /// How many numbers it has.
    pub len: usize,
    /// Where its numbers may be.
    pub range: Range,
    /// What stands for one in the quantised network.
    pub grid: f32,
}

impl Tensor {
    /// Its place among all numbers.
    pub fn place(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.len
    }
}

/// Where everything lies.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout<I = FeatureSet> {
    architecture: Architecture<I>,
    shape: Shape,
    tensors: Vec<Tensor>,
    len: usize,
}

impl<I: Inputs> Layout<I> {
    /// For an architecture that will be quantised so.
    pub fn new(architecture: Architecture<I>, quantisation: Quantisation, shape: Shape) -> Self {
        let scales = Scales::of(&architecture, quantisation);
        let extra = if shape.factoriser { architecture.features.stride() } else { 0 };
        let rows = architecture.features.inputs() + extra;
        let within = |most: f32| if shape.clipped { Range::within(most) } else { Range::ALL };
        // Where more can be on at once than pieces stand on a board, each may weigh less.
        let room = f64::from(i16::MAX) - f64::from(FIRST_BIAS) * scales.accumulator;
        let fits = (room / architecture.features.max_active().max(1) as f64).floor() / scales.accumulator;
        let first = FIRST_WEIGHT.min(fits.max(0.0) as f32) / if shape.factoriser { 2.0 } else { 1.0 };
        let layers = architecture.layers();
        // A flat head's output weights have 16 bits, and so have their products with values that are to be squared, if the
        // kernels are to be fast; those of stacks have 8.
        let most = |weight: f64| match architecture.head {
            HeadShape::Flat { activation: Activation::Screlu, .. } => {
                FLAT_WEIGHT.min(f32::from(i16::MAX / quantisation.qa.max(1)) / weight as f32)
            }
            HeadShape::Flat { .. } => FLAT_WEIGHT,
            HeadShape::Stacks(_) => (SMALL_INTEGER / weight) as f32,
        };
        let mut tensors = Vec::new();
        let mut len: usize = 0;
        for (name, shape) in tandem_nnue::tensors(&architecture) {
            let (count, range, grid) = match name.as_str() {
                "input.weight" => (rows * architecture.width(), within(first), scales.accumulator),
                "input.bias" => (architecture.width(), within(FIRST_BIAS), scales.accumulator),
                "psqt.weight" => (rows * PSQT_BUCKETS, Range::ALL, scales.psqt),
                other => {
                    let layer = (tensors.len() - 2 - usize::from(architecture.psqt)) / 2 % layers.len();
                    let (weight, bias) = scales.layers[layer];
                    let is_bias = other.ends_with("bias");
                    let range = if is_bias { Range::ALL } else { within(most(weight)) };
                    (shape.iter().product(), range, if is_bias { bias } else { weight })
                }
            };
            tensors.push(Tensor { name, start: len, len: count, range, grid: grid as f32 });
            len = (len + count).next_multiple_of(ALIGNMENT);
        }
        Self { architecture, shape, tensors, len }
    }

    /// The architecture.
    pub fn architecture(&self) -> &Architecture<I> {
        &self.architecture
    }

    /// What the network is trained as.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How many numbers there are, and the gaps between tensors.
    pub fn numbers(&self) -> usize {
        self.len
    }

    /// The tensors in their order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Rows of the first layer, those that all kings share among them.
    pub fn rows(&self) -> usize {
        self.weights().len / self.architecture.width()
    }

    /// The most rows that are on at once for one side.
    pub fn max_active(&self) -> usize {
        self.architecture.features.max_active() * if self.shape.factoriser { 2 } else { 1 }
    }

    /// The row that all kings share with an input, if there is one.
    pub fn shared_row(&self, input: usize) -> Option<usize> {
        let features = &self.architecture.features;
        self.shape.factoriser.then(|| features.inputs() + input % features.stride())
    }

    /// The first layer's weights.
    pub fn weights(&self) -> &Tensor {
        &self.tensors[0]
    }

    /// The first layer's biases.
    pub fn bias(&self) -> &Tensor {
        &self.tensors[1]
    }

    /// The piece squares, if there are any.
    pub fn psqt(&self) -> Option<&Tensor> {
        self.architecture.psqt.then(|| &self.tensors[2])
    }

    /// The tensors of the layers after the accumulators, one stack after the other, weights and biases in turn.
    pub fn stacks(&self) -> &[Tensor] {
        &self.tensors[2 + usize::from(self.architecture.psqt)..]
    }

    /// Weights and biases of one layer of one stack.
    pub fn layer(&self, stack: usize, layer: usize) -> (&Tensor, &Tensor) {
        let layers = self.architecture.layers().len();
        let at = 2 * (stack * layers + layer);
        (&self.stacks()[at], &self.stacks()[at + 1])
    }

    /// Numbers to begin with.
    pub fn start(&self, seed: u64) -> Vec<f32> {
        let mut random = SplitMix::new(seed);
        let mut numbers = vec![0.0; self.len];
        let mut fill = |place: std::ops::Range<usize>, inputs: usize| {
            let size = 1.0 / (inputs as f64).sqrt();
            for number in &mut numbers[place] {
                *number = ((random.unit() * 2.0 - 1.0) * size) as f32;
            }
        };
        // Small against what is learnt: a row that hardly ever is on keeps what chance gave it. Shared rows begin at zero.
        let inputs = self.architecture.features.inputs();
        fill(0..inputs * self.architecture.width(), inputs);
        let layers = self.architecture.layers();
        for stack in 0..self.architecture.buckets().count {
            for (layer, &(inputs, _)) in layers.iter().enumerate() {
                fill(self.layer(stack, layer).0.place(), inputs);
            }
        }
        // Stacks that begin alike differ only by what they learn.
        let first: Vec<f32> = self.stacks()[..2 * layers.len()]
            .iter()
            .flat_map(|tensor| &numbers[tensor.place()])
            .copied()
            .collect();
        for stack in self.stacks().chunks_exact(2 * layers.len()).skip(1) {
            let mut values = first.iter();
            for tensor in stack {
                numbers[tensor.place()].iter_mut().zip(&mut values).for_each(|(to, from)| *to = *from);
            }
        }
        numbers
    }

    /// The numbers as a network: shared rows are added to those of each king.
    pub fn network(&self, numbers: &[f32], description: &str, scale: i32, pawn: i32) -> FloatNetwork<I> {
        let mut network = FloatNetwork::zeroed(self.architecture.clone(), scale, pawn);
        network.description = description.into();
        for (tensor, values) in self.tensors.iter().zip(network.numbers_mut()) {
            let len = values.len();
            values.copy_from_slice(&numbers[tensor.start..tensor.start + len]);
        }
        if self.shape.factoriser {
            let round =
                |number: f32, grid: f32| if self.shape.rounded { round_to(number, grid) } else { number };
            let add = |tensor: &Tensor, values: &mut [f32]| {
                let shared = &numbers[tensor.place()][values.len()..];
                for row in values.chunks_exact_mut(shared.len()) {
                    for (value, extra) in row.iter_mut().zip(shared) {
                        *value = round(*value, tensor.grid) + round(*extra, tensor.grid);
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

    /// The numbers of a network: what all kings' rows have in common lies in the rows that they share.
    pub fn numbers_of(&self, network: &FloatNetwork<I>) -> Vec<f32> {
        let mut numbers = vec![0.0; self.len];
        for (tensor, values) in self.tensors.iter().zip(network.numbers()) {
            numbers[tensor.start..tensor.start + values.len()].copy_from_slice(values);
        }
        if self.shape.factoriser {
            share(self.weights(), network.weights.len(), &mut numbers);
            if let Some(psqt) = self.psqt() {
                share(psqt, network.psqt.len(), &mut numbers);
            }
        }
        numbers
    }
}

/// Takes out of the first `own` numbers of a tensor, the kings' rows, what they have in common, into the shared rows behind them.
/// That is halfway between the least and the greatest: so both parts stay within their range wherever they can.
fn share(tensor: &Tensor, own: usize, numbers: &mut [f32]) {
    let (own, shared) = numbers[tensor.place()].split_at_mut(own);
    let mut least = vec![f32::INFINITY; shared.len()];
    let mut greatest = vec![f32::NEG_INFINITY; shared.len()];
    for row in own.chunks_exact(shared.len()) {
        least.iter_mut().zip(row).for_each(|(least, number)| *least = least.min(*number));
        greatest.iter_mut().zip(row).for_each(|(greatest, number)| *greatest = greatest.max(*number));
    }
    // On the grid, so that what is left of a number that lies there lies there too.
    let most = (tensor.range.most * tensor.grid).floor() / tensor.grid;
    for ((common, least), greatest) in shared.iter_mut().zip(least).zip(greatest) {
        *common = round_to((least + greatest) / 2.0, tensor.grid).clamp(-most, most);
    }
    for row in own.chunks_exact_mut(shared.len()) {
        row.iter_mut().zip(&*shared).for_each(|(number, common)| *number -= common);
    }
}

/// The nearest number that the quantised network tells apart.
#[inline(always)]
pub(crate) fn round_to(number: f32, grid: f32) -> f32 {
    (number * grid).round_ties_even() / grid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::tests::{architectures, random_network};

    #[test]
    fn networks_become_numbers_and_come_back() {
        let mut random = SplitMix::new(3);
        for architecture in architectures() {
            let network = random_network(architecture.clone(), &mut random);
            let layout = Layout::new(architecture, Quantisation::default(), Shape::default());
            let numbers = layout.numbers_of(&network);
            assert_eq!(layout.network(&numbers, "", network.scale, network.pawn), network);
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
            let shape = Shape { factoriser: true, clipped: true, rounded: false };
            let layout = Layout::new(architecture.clone(), Quantisation::default(), shape);
            let mut numbers = layout.numbers_of(&random_network(architecture.clone(), &mut random));
            let width = architecture.width();
            let input = 5 * 704 + 77;
            let row = layout.shared_row(input).unwrap();
            assert_eq!(row, 22_528 + 77);
            numbers[row * width + 3] = 0.5;
            numbers[row * width + 4] = 0.0;
            let before = numbers[input * width + 3];
            let network = layout.network(&numbers, "", 600, 361);
            assert_eq!(network.weights[input * width + 3], before + 0.5);
            assert_eq!(network.weights[input * width + 4], numbers[input * width + 4]);
            assert!(layout.weights().range.most < 1.0, "both together must fit");
        }
    }

    /// A network to begin with must be the same after its numbers were held to their ranges, as every step does.
    #[test]
    fn a_network_is_parted_within_the_ranges() {
        let mut random = SplitMix::new(5);
        for mut architecture in architectures() {
            architecture.features = tandem_nnue::FeatureSet::half_ka_v2_hm();
            let shape = Shape { factoriser: true, clipped: true, rounded: false };
            let layout = Layout::new(architecture.clone(), Quantisation::default(), shape);
            let mut network = random_network(architecture, &mut random);
            // From 0.9 to 1.5, which is more than one part alone can hold.
            network.weights.iter_mut().for_each(|weight| *weight = *weight * 2.0 + 1.2);
            let mut numbers = layout.numbers_of(&network);
            let weights = layout.weights();
            let range = weights.range;
            numbers[weights.place()]
                .iter_mut()
                .for_each(|number| *number = number.clamp(range.least, range.most));
            let back = layout.network(&numbers, "", network.scale, network.pawn);
            for (found, expected) in back.numbers().into_iter().zip(network.numbers()) {
                assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6));
            }
        }
    }

    #[test]
    fn what_a_start_quantises_to_is_clipped_nowhere() {
        for architecture in architectures() {
            let shape = Shape { clipped: true, ..Shape::default() };
            let layout = Layout::new(architecture, Quantisation::default(), shape);
            let numbers = layout.start(7);
            assert_eq!(numbers, layout.start(7));
            let (_, report) =
                layout.network(&numbers, "", 600, 361).quantise(Quantisation::default()).unwrap();
            assert!(report.iter().all(|layer| layer.clipped == 0), "{report:?}");
        }
    }
}
