//! A network: the first layer, which is kept up to date move by move, and what comes after it.

use crate::accumulator::Accumulator;
use crate::architecture::*;
use crate::features::FeatureSet;
use crate::inputs::Inputs;
use crate::kernels::{Activation, Isa, Kernels, Products};
use tandem_chess::Board;
use tandem_memory::Block;

/// The layer from the inputs to the accumulators.
#[derive(Clone, Debug)]
pub(crate) struct FirstLayer {
    /// Values of one side's accumulator that an evaluation reads.
    pub(crate) outputs: usize,
    /// Values that are kept for each side: twice as many where the side to move and the other have weights of their
    /// own, for each side is both in turn.
    pub(crate) width: usize,
    pub(crate) bias: Block<i16>,
    /// One row of `width` for each input.
    pub(crate) weights: Block<i16>,
    /// One row of [`PSQT_BUCKETS`] for each input.
    pub(crate) psqt: Option<Block<i32>>,
    /// The accumulators are defined modulo 2^16, as Stockfish's are: weights that could leave 16 bits are no mistake.
    pub(crate) wraps: bool,
}

impl FirstLayer {
    /// Whether both perspectives share their weights.
    pub(crate) fn is_tied(&self) -> bool {
        self.width == self.outputs
    }
}

/// One hidden layer: the accumulators, activated, meet the output weights.
#[derive(Clone, Debug)]
pub(crate) struct Flat {
    pub(crate) activation: Activation,
    /// What stands for one in the accumulators, and in the output weights.
    pub(crate) qa: i16,
    pub(crate) qb: i16,
    /// What an output of one is worth.
    pub(crate) scale: i32,
    pub(crate) buckets: Buckets,
    /// For each bucket, the weights of the side to move's values and of the other's.
    pub(crate) weights: Block<i16>,
    pub(crate) bias: Vec<i32>,
    /// For each bucket, what its products and sums need.
    pub(crate) sums: Vec<Sums>,
}

/// The room that the products and sums of a flat network's output need, were every value at its greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sums {
    /// The sums fit into 32 bits; and what is known of a value times a weight.
    Fit(Products),
    /// They may not.
    Wide,
}

/// Three dense layers of small integers.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    pub(crate) first: Dense,
    pub(crate) second: Dense,
    pub(crate) last_bias: i32,
    pub(crate) last: Vec<i8>,
}

/// Several [`Stack`]s, of which one judges.
#[derive(Clone, Debug)]
pub(crate) struct Stacks {
    pub(crate) squeeze: Squeeze,
    /// The second layer sees each value of the first squared as well as clipped.
    pub(crate) dual: bool,
    /// The last output of the first layer goes straight to the end.
    pub(crate) skip: bool,
    pub(crate) buckets: Buckets,
    pub(crate) stacks: Vec<Stack>,
}

/// A dense layer with weights of eight bits.
#[derive(Clone, Debug)]
pub(crate) struct Dense {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// Padded with zeros to [`Self::padded`].
    bias: Vec<i32>,
    /// In the order that [`Kernels::affine`] wants.
    weights: Block<i8>,
}

impl Dense {
    /// From weights in rows, one for each output, of `stride` columns each, of which `inputs` count.
    pub(crate) fn new(inputs: usize, bias: &[i32], rows: &[i8], stride: usize) -> Self {
        let outputs = bias.len();
        let padded = padded(outputs);
        let columns = inputs.next_multiple_of(4);
        let mut weights = Block::zeroed(columns * padded);
        for (output, row) in rows.chunks_exact(stride).enumerate() {
            for (input, &weight) in row[..inputs].iter().enumerate() {
                weights[(input / 4 * padded + output) * 4 + input % 4] = weight;
            }
        }
        let mut bias = bias.to_vec();
        bias.resize(padded, 0);
        Self { inputs, outputs, bias, weights }
    }

    /// The weights of one output.
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

/// What comes after the accumulators.
#[derive(Clone, Debug)]
pub(crate) enum Head {
    Flat(Flat),
    Stacks(Stacks),
}

/// What the sums of a stack's last layer are divided by for a value.
pub(crate) const OUTPUT_SCALE: i32 = 16;
/// A weight of one in a stack's first two layers is 2 to this power.
pub(crate) const WEIGHT_BITS: u32 = 6;

/// A first layer's output as the second sees it.
#[inline(always)]
fn clipped(value: i32) -> u8 {
    (value >> WEIGHT_BITS).clamp(0, 127) as u8
}

/// The same, squared.
#[inline(always)]
fn squared(value: i32) -> u8 {
    const SHIFT: u32 = 2 * WEIGHT_BITS + 7;
    // From here on the square is 128 or more, and what is less has a square that fits into 32 bits.
    const GREATEST: u32 = 1 << (SHIFT + 7).div_ceil(2);
    let size = value.unsigned_abs().min(GREATEST);
    ((size * size) >> SHIFT).min(127) as u8
}

/// A network's judgement of a position, for the side to move, in units of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// Both parts are sums that [`Self::value`] divides.
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
        // Changes that belong to no game could bring piece squares to any sum.
        self.psqt.wrapping_add(self.positional) / self.divisor
    }

    /// The value in centipawns.
    #[inline]
    pub fn centipawns(self) -> i32 {
        within_i32(i64::from(self.value()) * 100 / i64::from(self.pawn))
    }

    /// The part of the value that comes straight from pieces and squares; zero where a network has none.
    pub fn psqt(self) -> i32 {
        self.psqt / self.divisor
    }

    /// The rest of the value.
    pub fn positional(self) -> i32 {
        self.value().wrapping_sub(self.psqt())
    }

    /// How far apart the two parts are, in centipawns. Without piece squares, that is the size of the value.
    pub fn discord(self) -> i32 {
        let apart = i64::from(self.psqt()) - i64::from(self.positional());
        within_i32(apart.abs() * 100 / i64::from(self.pawn))
    }

    /// The sums that both parts come from. Those of stacks are 16 times the network's units.
    pub fn raw_parts(self) -> (i32, i32) {
        (self.psqt, self.positional)
    }

    /// The output or layer stack that judged.
    pub fn bucket(self) -> usize {
        self.bucket
    }

    /// What a pawn is worth in the network's units.
    pub fn pawn(self) -> i32 {
        self.pawn
    }
}

/// The number, or the nearest that fits.
#[inline]
fn within_i32(number: i64) -> i32 {
    number.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

/// Memory that an evaluation works in, kept from one to the next.
#[derive(Clone, Debug)]
pub struct Scratch(Block<u8>);

/// A network with everything that evaluating needs. It does not change, so threads share it.
#[derive(Clone, Debug)]
pub struct Network<I = FeatureSet> {
    pub(crate) description: String,
    pub(crate) features: I,
    pub(crate) first: FirstLayer,
    pub(crate) head: Head,
    /// What a pawn is worth in the units of the output.
    pub(crate) pawn: i32,
    pub(crate) kernels: Kernels,
}

impl<I: Inputs> Network<I> {
    /// What the file says of itself.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The inputs.
    pub fn features(&self) -> &I {
        &self.features
    }

    /// Which instructions evaluate it: the best there are, unless [`Self::with_isa`] says otherwise.
    pub fn isa(&self) -> Isa {
        self.kernels.isa
    }

    /// The same network, evaluated with other instructions; with portable ones where the processor does not have
    /// those, as [`Self::isa`] then says.
    pub fn with_isa(mut self, isa: Isa) -> Self {
        self.kernels = Kernels::new(isa);
        self
    }

    /// Its shape.
    pub fn architecture(&self) -> Architecture<I> {
        let head = match &self.head {
            Head::Flat(flat) => HeadShape::Flat { activation: flat.activation, buckets: flat.buckets },
            Head::Stacks(stacks) => HeadShape::Stacks(StackShape {
                squeeze: stacks.squeeze,
                dual: stacks.dual,
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

    /// Judges by the accumulators of all sides, with one of the outputs or stacks. The side to move comes first, where there
    /// are two.
    ///
    /// Accumulators and scratch memory are of this network: with those of another it may panic, or say nonsense.
    ///
    /// # Panics
    /// Where there are other than [`Inputs::SIDES`] sides, or no such bucket.
    #[inline]
    pub fn judge(&self, sides: &[&Accumulator], bucket: usize, scratch: &mut Scratch) -> Evaluation {
        assert_eq!(sides.len(), I::SIDES, "one accumulator for each side");
        let len = self.first.outputs;
        // Where the perspectives have weights of their own, the other's follow those of the side to move.
        let start = self.first.width - len;
        let (own, other) = (sides[0], sides.get(1));
        let none = [0; PSQT_BUCKETS];
        self.forward(
            &own.hidden[..len],
            other.map_or(&[], |other| &other.hidden[start..start + len]),
            [&own.psqt, other.map_or(&none, |other| &other.psqt)],
            bucket,
            &mut scratch.0,
        )
    }

    /// Room that [`Self::judge`] works in.
    pub fn scratch(&self) -> Scratch {
        Scratch(Block::zeroed(I::SIDES * self.first.outputs))
    }

    /// The judgement, from the accumulators of the side to move and of the other.
    #[inline]
    pub(crate) fn forward(
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
    /// Judges a position from nothing. Who judges many positions of a game keeps [`crate::Accumulators`] instead.
    pub fn evaluate(&self, board: &Board) -> Evaluation {
        let mut accumulators = crate::Accumulators::new(self);
        accumulators.reset(self, board);
        accumulators.evaluate(self, board)
    }

    /// The output or stack that judges a position of so many pieces.
    #[inline]
    pub(crate) fn bucket(&self, pieces: usize) -> usize {
        match &self.head {
            Head::Flat(flat) => flat.buckets.of(pieces),
            Head::Stacks(stacks) => stacks.buckets.of(pieces),
        }
    }
}

impl Flat {
    pub(crate) fn new(
        activation: Activation,
        [qa, qb]: [i16; 2],
        scale: i32,
        (buckets, outputs): (Buckets, usize),
        weights: Block<i16>,
        bias: Vec<i32>,
    ) -> Self {
        let one = if activation == Activation::Relu { i16::MAX } else { qa };
        let greatest = i64::from(one).pow(if activation == Activation::Screlu { 2 } else { 1 });
        let sums_of = |weights: &[i16]| {
            let largest = weights.iter().map(|weight| weight.unsigned_abs()).max().unwrap_or(0);
            // The weights of each side's accumulator are summed by themselves.
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
                let dot = |values, weights| kernels.dot(self.activation, products, values, weights, self.qa);
                i64::from(dot(own, own_weights)) + i64::from(dot(other, other_weights))
            }
        };
        let (qa, qb) = (i64::from(self.qa), i64::from(self.qb));
        // Squared values have the scale of the accumulators twice.
        let sum = if self.activation == Activation::Screlu { sum / qa } else { sum };
        // A product that does not fit into 64 bits does not fit into 32 after the division either.
        let product = (sum + i64::from(self.bias[bucket])).saturating_mul(i64::from(self.scale));
        within_i32(product / (qa * qb))
    }

    /// For weights so large that the fast kernels could overflow.
    fn wide_sum(&self, values: &[i16], weights: &[i16]) -> i64 {
        let one = match self.activation {
            Activation::Relu => i16::MAX,
            _ => self.qa,
        };
        let terms = values.iter().zip(weights).map(|(&value, &weight)| {
            let value = i64::from(value.clamp(0, one));
            let power = if self.activation == Activation::Screlu { value * value } else { value };
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
        let inputs = if self.squeeze.is_pairwise() {
            let half = len / 2;
            let (one, shift) = (self.squeeze.one(), self.squeeze.shift());
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

        // Whole arrays, whatever counts of them: the weights of the rest are zero.
        let mut hidden = [0; 2 * MAX_LAYER_OUTPUTS];
        let mut at = 0;
        if self.dual {
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
            // From the scale of the first layer to that of the output.
            let (one, output) = (127 << WEIGHT_BITS, STACK_UNITS * OUTPUT_SCALE);
            out += (i64::from(outputs[kept]) * i64::from(output) / one) as i32;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number at its greatest.
    #[test]
    fn a_flat_networks_value_is_held_within_32_bits() {
        for (activation, qa) in
            [(Activation::Relu, 1), (Activation::Crelu, i16::MAX), (Activation::Screlu, i16::MAX)]
        {
            for (weight, bias, expected) in
                [(i16::MAX, i32::MAX, i32::MAX), (i16::MIN, i32::MIN, i32::MIN), (0, 3, 3 << 20)]
            {
                let weights = Block::from(&[weight; 1 << 15][..]);
                let shape = (Buckets::ONE, 1 << 14);
                let flat = Flat::new(activation, [qa, 1], 1 << 20, shape, weights, vec![bias]);
                let values = [i16::MAX; 1 << 14];
                let value = flat.forward(&Kernels::new(Isa::best()), &values, &values, 0);
                assert_eq!(value, if weight == 0 { expected / i32::from(qa) } else { expected });
            }
        }
        // One side, whose sum fits in 32 bits by halves only.
        for weight in [4000, -4000] {
            let (shape, weights) = ((Buckets::ONE, 32), Block::from(&[weight; 32][..]));
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
    fn the_parts_add_up_to_the_value() {
        for (psqt, positional) in [(31, 17), (-31, 17), (15, 1), (-9, -8)] {
            let evaluation = Evaluation { psqt, positional, bucket: 0, divisor: 16, pawn: 100 };
            assert_eq!(evaluation.psqt() + evaluation.positional(), evaluation.value());
            assert_eq!(evaluation.raw_parts(), (psqt, positional));
        }
    }

    #[test]
    fn squares_are_those_of_wide_numbers() {
        for value in (-20_000..20_000).chain([i32::MIN, i32::MIN + 1, i32::MAX, 1 << 16, -(1 << 30)]) {
            let wide = ((i64::from(value) * i64::from(value)) >> 19).min(127);
            assert_eq!(i64::from(squared(value)), wide, "{value}");
        }
    }

    #[test]
    fn a_dense_layer_gives_its_rows_back() {
        let rows: Vec<i8> = (0..8 * 32).map(|index| (index * 37 % 251) as u8 as i8).collect();
        let dense = Dense::new(30, &[5; 8], &rows, 32);
        for output in 0..8 {
            assert!(dense.row(output).eq(rows[output * 32..][..30].iter().copied()));
        }
        assert_eq!(dense.bias(), [5; 8]);
    }
}
