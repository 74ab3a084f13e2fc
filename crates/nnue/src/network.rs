//! The quantised network: the first layer, whose accumulators are updated move by move, and the head after
//! it.
//!
//! All arithmetic is in integers. Sums cannot overflow, because every constructor has checked the weights
//! (see `limits.rs`).

use crate::activation::Activation;
use crate::architecture::*;
use crate::features::FeatureSet;
use crate::first_layer::{Accumulator, FirstLayer};
use crate::inputs::Inputs;
use crate::kernels::{Kernels, Products};
use tandem_memory::AlignedArray;
use tandem_util::isa::Isa;

/// A head of one output layer: activated accumulators times output weights.
#[derive(Clone, Debug)]
pub(crate) struct Flat {
    pub(crate) activation: Activation,
    /// Quantisation factors: the integers that represent 1.0 in the accumulators (`qa`) and the output
    /// weights (`qb`).
    pub(crate) qa: i16,
    pub(crate) qb: i16,
    /// Output scale: the value of an output of 1.0, in the network's units.
    pub(crate) scale: i32,
    pub(crate) buckets: OutputBuckets,
    /// For each bucket, the weights of the side to move's accumulator, then those of the opponent's.
    pub(crate) weights: AlignedArray<i16>,
    pub(crate) bias: Vec<i32>,
    /// For each bucket, the integer width that its dot product needs.
    pub(crate) sums: Vec<Sums>,
}

/// The integer width that the dot product of a flat head needs in the worst case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sums {
    /// The sum fits into 32 bits. [`Products`] is the bound on a single product.
    Fit(Products),
    /// The sum may exceed 32 bits, so it is computed in 64 bits.
    Wide,
}

/// Three dense layers with 8-bit weights and one output.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    pub(crate) first: Dense,
    pub(crate) second: Dense,
    pub(crate) last_bias: i32,
    pub(crate) last: Vec<i8>,
}

/// The layer stacks of a network, of which the number of pieces selects one.
#[derive(Clone, Debug)]
pub(crate) struct Stacks {
    pub(crate) input_activation: InputActivation,
    /// The second layer receives every output of the first twice: clipped, and squared and clipped.
    pub(crate) squared_clipped: bool,
    /// The last output of the first layer is added to the result directly.
    pub(crate) skip: bool,
    pub(crate) buckets: OutputBuckets,
    pub(crate) stacks: Vec<Stack>,
}

/// A dense layer with 8-bit weights and 32-bit biases.
#[derive(Clone, Debug)]
pub(crate) struct Dense {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// Biases, padded with zeros to 16 or 32.
    bias: Vec<i32>,
    /// Weights in the order that [`Kernels::affine`] reads.
    weights: AlignedArray<i8>,
}

impl Dense {
    /// Builds the layer from weight rows, one per output, each of `stride` columns of which the first
    /// `inputs` are used.
    pub(crate) fn new(inputs: usize, bias: &[i32], rows: &[i8], stride: usize) -> Self {
        let outputs = bias.len();
        let padded = padded(outputs);
        let columns = inputs.next_multiple_of(4);
        let mut weights = AlignedArray::zeroed(columns * padded);
        for (output, row) in rows.chunks_exact(stride).enumerate() {
            for (input, &weight) in row[..inputs].iter().enumerate() {
                weights[(input / 4 * padded + output) * 4 + input % 4] = weight;
            }
        }
        let mut bias = bias.to_vec();
        bias.resize(padded, 0);
        Self { inputs, outputs, bias, weights }
    }

    /// The weights of one output, in the order of the inputs.
    pub(crate) fn row(&self, output: usize) -> impl Iterator<Item = i8> {
        let padded = padded(self.outputs);
        (0..self.inputs).map(move |input| self.weights[(input / 4 * padded + output) * 4 + input % 4])
    }

    pub(crate) fn bias(&self) -> &[i32] {
        &self.bias[..self.outputs]
    }

    #[inline]
    fn forward<'a>(
        &self,
        kernels: &Kernels,
        input: &[u8],
        out: &'a mut [i32; MAX_LAYER_OUTPUTS],
    ) -> &'a [i32] {
        let out = &mut out[..self.bias.len()];
        out.copy_from_slice(&self.bias);
        kernels.affine(out, &input[..self.inputs.next_multiple_of(4)], &self.weights);
        out
    }
}

fn padded(outputs: usize) -> usize {
    if outputs <= 16 { 16 } else { MAX_LAYER_OUTPUTS }
}

/// The layers after the accumulators, with their weights.
#[derive(Clone, Debug)]
pub(crate) enum Head {
    Flat(Flat),
    Stacks(Stacks),
}

/// Divisor from the sums of a stack's last layer to the network's units.
pub(crate) const OUTPUT_SCALE: i32 = 16;
/// Quantised one of the weights in a stack's first two layers, as a power of two: 2^6 = 64.
pub(crate) const WEIGHT_BITS: u32 = 6;

/// Clipped ReLU of a dense layer's output: its scale goes from 127 · 64 to 127.
#[inline(always)]
fn clipped(value: i32) -> u8 {
    (value >> WEIGHT_BITS).clamp(0, 127) as u8
}

/// Squared clipped ReLU of a dense layer's output, on the same scale as [`clipped`].
#[inline(always)]
fn squared(value: i32) -> u8 {
    const SHIFT: u32 = 2 * WEIGHT_BITS + 7;
    // Values from here on give 128 or more, and the squares of smaller ones fit into 32 bits.
    const GREATEST: u32 = 1 << (SHIFT + 7).div_ceil(2);
    let size = value.unsigned_abs().min(GREATEST);
    ((size * size) >> SHIFT).min(127) as u8
}

/// The evaluation of a position for the side to move, in the network's own units, of which [`Self::pawn`]
/// make a pawn.
///
/// [`Self::centipawns`] converts it; [`Self::psqt`] and [`Self::positional`] are its two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// Raw sums, which [`Self::value`] divides by `divisor`.
    psqt: i32,
    positional: i32,
    bucket: usize,
    divisor: i32,
    pawn: i32,
}

impl Evaluation {
    /// The value in the network's units, of which [`Self::pawn`] make a pawn.
    #[inline]
    pub fn value(self) -> i32 {
        // Wrapping, because positions that no game reaches can give piece-square sums of any size.
        self.psqt.wrapping_add(self.positional) / self.divisor
    }

    /// The value in centipawns, limited to the range of `i32`.
    #[inline]
    pub fn centipawns(self) -> i32 {
        within_i32(i64::from(self.value()) * 100 / i64::from(self.pawn))
    }

    /// The part of the value from the piece-square table, in the network's units; 0 for networks without one.
    pub fn psqt(self) -> i32 {
        self.psqt / self.divisor
    }

    /// The part of the value from the layers after the accumulators, in the network's units.
    pub fn positional(self) -> i32 {
        self.value().wrapping_sub(self.psqt())
    }

    /// Distance between [`Self::psqt`] and [`Self::positional`], converted to centipawns; Stockfish calls it
    /// complexity. Without a piece-square table it is the magnitude of the value.
    pub fn psqt_positional_gap(self) -> i32 {
        let apart = i64::from(self.psqt()) - i64::from(self.positional());
        within_i32(apart.abs() * 100 / i64::from(self.pawn))
    }

    /// The integer sums of the piece-square and the positional part before the last division: 16 times the
    /// network's units for networks with stacks, the units themselves for flat ones.
    pub fn raw_parts(self) -> (i32, i32) {
        (self.psqt, self.positional)
    }

    /// The index of the output bucket or layer stack that computed the value.
    pub fn bucket(self) -> usize {
        self.bucket
    }

    /// The value of a pawn in the network's units, at least 1.
    pub fn pawn(self) -> i32 {
        self.pawn
    }
}

/// Saturating conversion to 32 bits.
#[inline]
fn within_i32(number: i64) -> i32 {
    number.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

/// Scratch memory of a forward pass, reused from one evaluation to the next. Made by [`Network::scratch`].
#[derive(Clone, Debug)]
pub struct Scratch(AlignedArray<u8>);

/// A quantised network, ready to evaluate. It is immutable, so threads can share it in an `Arc`.
#[derive(Clone, Debug)]
pub struct Network<I = FeatureSet> {
    pub(crate) description: String,
    pub(crate) features: I,
    pub(crate) first: FirstLayer,
    pub(crate) head: Head,
    /// The value of a pawn in the units of the output.
    pub(crate) pawn: i32,
    pub(crate) kernels: Kernels,
}

impl<I: Inputs> Network<I> {
    /// The free text in the file's header; empty if there is none.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The input features of the first layer, for example a chess feature set.
    pub fn features(&self) -> &I {
        &self.features
    }

    /// The instruction set that evaluations use: the best available one, unless [`Self::with_isa`] chose
    /// another.
    pub fn isa(&self) -> Isa {
        self.kernels.isa
    }

    /// Selects another instruction set; the values stay the same. Falls back to portable code if the
    /// processor lacks it, which [`Self::isa`] then reports.
    pub fn with_isa(mut self, isa: Isa) -> Self {
        self.kernels = Kernels::new(isa);
        self
    }

    /// The shape of the network, without its weights.
    pub fn architecture(&self) -> Architecture<I> {
        let head = match &self.head {
            Head::Flat(flat) => HeadShape::Flat { activation: flat.activation, buckets: flat.buckets },
            Head::Stacks(stacks) => HeadShape::Stacks(StackShape {
                input_activation: stacks.input_activation,
                squared_clipped: stacks.squared_clipped,
                skip: stacks.skip,
                hidden: stacks.stacks[0].first.outputs,
                second: stacks.stacks[0].second.outputs,
                buckets: stacks.buckets,
            }),
        };
        Architecture {
            features: self.features.clone(),
            outputs: self.first.outputs,
            tied: self.first.is_tied(),
            psqt: self.first.psqt.is_some(),
            head,
        }
    }

    /// Evaluates a position from its accumulators by the layers after them. `sides` holds the side to move's
    /// accumulator, then the opponent's if [`Inputs::SIDES`] is 2. `bucket` selects the output or stack.
    ///
    /// Accumulators and scratch memory must come from this network; those of another one may cause a panic or
    /// a meaningless value.
    ///
    /// # Panics
    /// If there are not exactly [`Inputs::SIDES`] accumulators, or the bucket does not exist.
    #[inline]
    pub fn forward(&self, sides: &[&Accumulator], bucket: usize, scratch: &mut Scratch) -> Evaluation {
        assert_eq!(sides.len(), I::SIDES, "one accumulator for each side");
        let len = self.first.outputs;
        // With separate weights, the opponent's half follows that of the side to move.
        let start = self.first.width - len;
        let (own, other) = (sides[0], sides.get(1));
        let none = [0; PSQT_BUCKETS];
        self.forward_head(
            &own.hidden[..len],
            other.map_or(&[], |other| &other.hidden[start..start + len]),
            [&own.psqt, other.map_or(&none, |other| &other.psqt)],
            bucket,
            &mut scratch.0,
        )
    }

    /// Allocates the memory for intermediate results that [`Self::forward`] needs; to be reused between
    /// calls.
    pub fn scratch(&self) -> Scratch {
        Scratch(AlignedArray::zeroed(I::SIDES * self.first.outputs))
    }

    /// Runs the head on the accumulators of the side to move and of the opponent.
    #[inline]
    pub(crate) fn forward_head(
        &self,
        own: &[i16],
        other: &[i16],
        psqt: [&[i32; PSQT_BUCKETS]; 2],
        bucket: usize,
        scratch: &mut [u8],
    ) -> Evaluation {
        match &self.head {
            Head::Flat(flat) => {
                let positional = flat.forward(&self.kernels, own, other, bucket);
                Evaluation { psqt: 0, positional, bucket, divisor: 1, pawn: self.pawn }
            }
            Head::Stacks(stacks) => {
                let positional = stacks.forward(&self.kernels, own, other, bucket, scratch);
                let psqt = if self.first.psqt.is_some() {
                    psqt[0][bucket].wrapping_sub(psqt[1][bucket]) / 2
                } else {
                    0
                };
                Evaluation { psqt, positional, bucket, divisor: OUTPUT_SCALE, pawn: self.pawn }
            }
        }
    }
}

impl Network {
    /// The index of the output or stack for a position with this number of pieces.
    #[inline]
    pub(crate) fn bucket(&self, pieces: usize) -> usize {
        match &self.head {
            Head::Flat(flat) => flat.buckets.index(pieces),
            Head::Stacks(stacks) => stacks.buckets.index(pieces),
        }
    }
}

impl Flat {
    pub(crate) fn new(
        activation: Activation,
        [qa, qb]: [i16; 2],
        scale: i32,
        (buckets, outputs): (OutputBuckets, usize),
        weights: AlignedArray<i16>,
        bias: Vec<i32>,
    ) -> Self {
        let one = activation.greatest_input(qa);
        let greatest = i64::from(one).pow(if activation.is_squared() { 2 } else { 1 });
        let sums_of = |weights: &[i16]| {
            let largest = weights.iter().map(|weight| weight.unsigned_abs()).max().unwrap_or(0);
            // The two sides are summed separately, so each sum must fit by itself.
            let sides = weights.chunks(outputs.max(1));
            let sizes = sides.map(|side| side.iter().map(|&weight| i64::from(weight).abs()).sum::<i64>());
            match sizes.max().unwrap_or(0) * greatest > i64::from(i32::MAX) {
                true => Sums::Wide,
                false => Sums::Fit(Products::of(largest, one)),
            }
        };
        let sums = weights.chunks((weights.len() / buckets.count).max(1)).map(sums_of).collect();
        Self { activation, qa, qb, scale, buckets, weights, bias, sums }
    }

    fn forward(&self, kernels: &Kernels, own: &[i16], other: &[i16], bucket: usize) -> i32 {
        let len = own.len();
        let both = len + other.len();
        let weights = &self.weights[bucket * both..][..both];
        let (own_weights, other_weights) = weights.split_at(len);
        let sum = match self.sums[bucket] {
            Sums::Wide => self.wide_sum(own, own_weights) + self.wide_sum(other, other_weights),
            Sums::Fit(products) => {
                let (is_squared, max) =
                    (self.activation.is_squared(), self.activation.greatest_input(self.qa));
                let dot = |values, weights| kernels.dot(is_squared, products, values, weights, max);
                i64::from(dot(own, own_weights)) + i64::from(dot(other, other_weights))
            }
        };
        let (qa, qb) = (i64::from(self.qa), i64::from(self.qb));
        // Squared values carry the factor `qa` twice.
        let sum = if self.activation.is_squared() { sum / qa } else { sum };
        // A product that does not fit into 64 bits does not fit into 32 after the division either.
        let product = (sum + i64::from(self.bias[bucket])).saturating_mul(i64::from(self.scale));
        within_i32(product / (qa * qb))
    }

    /// Sum in 64 bits, for weights so large that the fast kernels could overflow.
    fn wide_sum(&self, values: &[i16], weights: &[i16]) -> i64 {
        let one = self.activation.greatest_input(self.qa);
        let terms = values.iter().zip(weights).map(|(&value, &weight)| {
            let value = i64::from(value.clamp(0, one));
            let power = if self.activation.is_squared() { value * value } else { value };
            power * i64::from(weight)
        });
        terms.sum()
    }
}

impl Stacks {
    #[inline]
    fn forward(
        &self,
        kernels: &Kernels,
        own: &[i16],
        other: &[i16],
        bucket: usize,
        scratch: &mut [u8],
    ) -> i32 {
        let len = own.len();
        let inputs = if self.input_activation.is_pairwise() {
            let half = len / 2;
            let (one, shift) = (self.input_activation.quantised_one(), self.input_activation.shift());
            for (out, values) in [(0, own), (half, other)] {
                let (left, right) = values.split_at(values.len() / 2);
                let half = left.len();
                kernels.pairwise(&mut scratch[out..out + half], left, right, one, shift);
            }
            half + other.len() / 2
        } else {
            kernels.clip(&mut scratch[..len], own);
            kernels.clip(&mut scratch[len..][..other.len()], other);
            len + other.len()
        };
        let stack = &self.stacks[bucket];
        let mut outputs = [0; MAX_LAYER_OUTPUTS];
        stack.first.forward(kernels, &scratch[..inputs], &mut outputs);
        let kept = stack.first.outputs - usize::from(self.skip);

        // Always whole arrays, because the weights of unused outputs are zero.
        let mut hidden = [0; 2 * MAX_LAYER_OUTPUTS];
        let mut at = 0;
        if self.squared_clipped {
            hidden[..MAX_LAYER_OUTPUTS].copy_from_slice(&outputs.map(squared));
            at = kept;
        }
        hidden[at..at + MAX_LAYER_OUTPUTS].copy_from_slice(&outputs.map(clipped));
        let mut second = [0; MAX_LAYER_OUTPUTS];
        let second = stack.second.forward(kernels, &hidden, &mut second);
        let mut out = stack.last_bias;
        for (&value, &weight) in second.iter().zip(&stack.last) {
            out += i32::from(clipped(value)) * i32::from(weight);
        }
        if self.skip {
            // From the scale of the first layer (127 · 64) to that of the output (600 · 16).
            let (one, output) = (127 << WEIGHT_BITS, STACK_UNITS * OUTPUT_SCALE);
            out += (i64::from(outputs[kept]) * i64::from(output) / one) as i32;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All values at their limits.
    #[test]
    fn the_value_of_a_flat_network_saturates_at_32_bits() {
        for (activation, qa) in
            [(Activation::Relu, 1), (Activation::Crelu, i16::MAX), (Activation::Screlu, i16::MAX)]
        {
            for (weight, bias, expected) in
                [(i16::MAX, i32::MAX, i32::MAX), (i16::MIN, i32::MIN, i32::MIN), (0, 3, 3 << 20)]
            {
                let weights = AlignedArray::from(&[weight; 1 << 15][..]);
                let shape = (OutputBuckets::ONE, 1 << 14);
                let flat = Flat::new(activation, [qa, 1], 1 << 20, shape, weights, vec![bias]);
                let values = [i16::MAX; 1 << 14];
                let value = flat.forward(&Kernels::new(Isa::best()), &values, &values, 0);
                assert_eq!(value, if weight == 0 { expected / i32::from(qa) } else { expected });
            }
        }
        // One side whose sum fits into 32 bits only if it is split in halves.
        for weight in [4000, -4000] {
            let (shape, weights) = ((OutputBuckets::ONE, 32), AlignedArray::from(&[weight; 32][..]));
            let flat = Flat::new(Activation::Relu, [1, 1], 1, shape, weights, vec![0]);
            let value = flat.forward(&Kernels::new(Isa::best()), &[i16::MAX; 32], &[], 0);
            assert_eq!(value, if weight > 0 { i32::MAX } else { i32::MIN });
        }
        let (psqt, bucket, divisor) = (0, 0, 1);
        for positional in [i32::MAX, i32::MIN] {
            let evaluation = Evaluation { psqt, positional, bucket, divisor, pawn: 1 };
            assert_eq!(evaluation.centipawns(), positional);
        }
    }

    #[test]
    fn psqt_and_positional_parts_add_up_to_the_value() {
        for (psqt, positional) in [(31, 17), (-31, 17), (15, 1), (-9, -8)] {
            let evaluation = Evaluation { psqt, positional, bucket: 0, divisor: 16, pawn: 100 };
            assert_eq!(evaluation.psqt() + evaluation.positional(), evaluation.value());
            assert_eq!(evaluation.raw_parts(), (psqt, positional));
        }
    }

    #[test]
    fn squares_equal_those_of_64_bit_arithmetic() {
        for value in (-20_000..20_000).chain([i32::MIN, i32::MIN + 1, i32::MAX, 1 << 16, -(1 << 30)]) {
            let wide = ((i64::from(value) * i64::from(value)) >> 19).min(127);
            assert_eq!(i64::from(squared(value)), wide, "{value}");
        }
    }

    #[test]
    fn weight_rows_survive_the_kernel_layout() {
        let rows: Vec<i8> = (0..8 * 32).map(|index| (index * 37 % 251) as u8 as i8).collect();
        let dense = Dense::new(30, &[5; 8], &rows, 32);
        for output in 0..8 {
            assert!(dense.row(output).eq(rows[output * 32..][..30].iter().copied()));
        }
        assert_eq!(dense.bias(), [5; 8]);
    }
}
