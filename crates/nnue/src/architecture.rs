//! The shape of a network: its inputs, the width of its accumulators and the layers after them, without the
//! weights.
//!
//! Loading a file and quantising a network run [`Architecture::check`] first, so that the kernels can rely on the
//! limits here.

use crate::activation::Activation;
use crate::features::FeatureSet;
use crate::inputs::Inputs;
use std::fmt;
use thiserror::Error;

/// Number of outputs of a piece-square table (PSQT): values that go from the inputs straight to the result,
/// one for each layer stack. Stockfish has eight as well.
pub const PSQT_BUCKETS: usize = 8;

/// Maximum number of outputs of a dense layer in a stack (the layers after the accumulators), because the
/// kernels compute 16 or 32 at a time.
pub const MAX_LAYER_OUTPUTS: usize = 32;

/// Maximum accumulator width of one side.
const MAX_OUTPUTS: usize = 1 << 14;

/// Accumulator widths are multiples of this, because the kernels process 32 values of 16 bits at a time.
const GROUP: usize = 32;

/// Maximum output scale and maximum value of a pawn, so that products with them fit into 64 bits.
const MAX_SCALE: i32 = 1 << 20;
const MAX_PAWN: i32 = 100_000;

/// Output scale of every network with stacks: an output of 1.0 is 600 units, as in Stockfish.
pub(crate) const STACK_UNITS: i32 = 600;

/// Error for an architecture of which no network can be evaluated, with the part at fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{part}: {problem}")]
pub struct ArchitectureError {
    /// The faulty part, by its key in the headers of network files, for example `outputs`.
    pub part: String,
    /// The reason, with the value found and the limits.
    pub problem: String,
}

impl ArchitectureError {
    pub(crate) fn new(part: &str, problem: impl Into<String>) -> Self {
        Self { part: part.into(), problem: problem.into() }
    }
}

/// Returns an error that names `part` unless the number lies within `min..=max`.
fn within<T: PartialOrd + fmt::Display>(
    part: &str,
    number: T,
    min: T,
    max: T,
) -> Result<(), ArchitectureError> {
    if number >= min && number <= max {
        return Ok(());
    }
    Err(ArchitectureError::new(part, format!("{number} is not from {min} to {max}")))
}

/// The shape of a network: inputs, accumulator width and head. Displayed as `halfkp 40960 -> 256x2 -> 1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Architecture<I = FeatureSet> {
    /// The input features of the first layer, for example a chess [`FeatureSet`].
    pub features: I,
    /// Number of accumulator values (first-layer outputs) of one side, a multiple of 32.
    pub outputs: usize,
    /// If `true`, both perspectives share the weights of the first layer; if `false`, the side to move and
    /// the opponent have a set each.
    pub tied: bool,
    /// True if a piece-square table goes straight from the inputs to the output ([`PSQT_BUCKETS`] values per
    /// input).
    pub psqt: bool,
    /// Layers that turn the accumulators into the result.
    pub head: HeadShape,
}

/// The layers after the accumulators: one output layer, or a stack of three small dense layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadShape {
    /// A single output layer: the activated accumulator values times 16-bit weights.
    Flat {
        /// The activation function that the accumulators pass through before the output layer.
        activation: Activation,
        /// The output buckets, of which the number of pieces selects one.
        buckets: OutputBuckets,
    },
    /// Three dense layers with 8-bit weights, as in Stockfish since version 12.
    Stacks(StackShape),
}

/// The three dense layers of a stack: accumulators -> [`Self::hidden`] -> [`Self::second`] -> 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackShape {
    /// The activation between the accumulators and the first dense layer.
    pub input_activation: InputActivation,
    /// The second layer receives every output of the first twice: clipped, and squared and clipped
    /// (SqrCReLU).
    pub squared_clipped: bool,
    /// The last output of the first layer is added to the result directly, as a skip connection.
    pub skip: bool,
    /// Outputs of the first dense layer, 2 to [`MAX_LAYER_OUTPUTS`], including that of the skip connection.
    pub hidden: usize,
    /// Outputs of the second dense layer, 1 to [`MAX_LAYER_OUTPUTS`].
    pub second: usize,
    /// Number of layer stacks, and the rule by which the number of pieces selects one.
    pub buckets: OutputBuckets,
}

/// Activation that turns the 16-bit accumulators into the 8-bit inputs (0 to 127) of the first dense layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputActivation {
    /// Clipped ReLU from 0 to 127, where 127 represents 1.0 (Stockfish 12 to 14.1).
    Clipped,
    /// Product of each value in the first half with its partner in the second, each clipped to 0..=127
    /// (Stockfish 15 to 17).
    PairwiseMul127,
    /// The same products with values clipped to 0..=255, which keeps one bit more of each factor.
    PairwiseMul255,
}

impl InputActivation {
    /// The integer that represents 1.0 in the accumulators: 127 or 255.
    pub fn quantised_one(self) -> i16 {
        match self {
            Self::Clipped | Self::PairwiseMul127 => 127,
            Self::PairwiseMul255 => 255,
        }
    }

    /// Result of [`Self::PairwiseMul127`] or [`Self::PairwiseMul255`] for two inputs of 1.0, as a fraction of
    /// 127: (127 · 127 / 2^7) / 127 or (255 · 255 / 2^9) / 127, without rounding. Training uses the same
    /// factor, so that float and integer networks agree.
    pub fn product_of_ones(self) -> f64 {
        f64::from(self.quantised_one()).powi(2) / f64::from(1 << self.shift()) / 127.0
    }

    /// True if the two halves of an accumulator are multiplied, which halves the inputs of the first dense
    /// layer.
    pub fn is_pairwise(self) -> bool {
        self != Self::Clipped
    }

    /// The right shift that brings a product of two clipped values into 0..=127.
    pub(crate) fn shift(self) -> u32 {
        if self == Self::PairwiseMul255 { 9 } else { 7 }
    }
}

/// Output buckets: the number of pieces on the board selects one of several outputs or layer stacks.
///
/// The bucket is `(pieces − offset) / divisor`, at most `count − 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputBuckets {
    /// Number of buckets, 1 to 32; 1 for a single output.
    pub count: usize,
    /// Subtracted from the number of pieces before the division, 0 to 32.
    pub offset: usize,
    /// Number of consecutive piece counts that share a bucket, 1 to 32.
    pub divisor: usize,
}

impl OutputBuckets {
    /// A single bucket, used for every position: no output buckets.
    pub const ONE: Self = Self { count: 1, offset: 1, divisor: 32 };

    /// Stockfish's eight buckets of four piece counts each: (pieces − 1) / 4.
    pub const STOCKFISH: Self = Self { count: 8, offset: 1, divisor: 4 };

    /// Bullet's `MaterialCount`: (pieces − 2) divided by 32 / `count`, rounded up. `count` is 1 to 32.
    pub fn bullet(count: usize) -> Self {
        // A single bucket has one canonical form, so that equal architectures compare equal.
        if count == 1 {
            return Self::ONE;
        }
        Self { count, offset: 2, divisor: 32usize.div_ceil(count.max(1)) }
    }

    /// The bucket of a position with this number of pieces (both sides, kings included).
    #[inline]
    pub fn index(self, pieces: usize) -> usize {
        (pieces.saturating_sub(self.offset) / self.divisor.max(1)).min(self.count.saturating_sub(1))
    }

    fn check(self) -> Result<(), ArchitectureError> {
        within("buckets", self.count, 1, 32)?;
        within("bucket-less", self.offset, 0, 32)?;
        within("bucket-pieces", self.divisor, 1, 32)
    }
}

impl<I: Inputs> Architecture<I> {
    /// Number of first-layer sums kept for each side: twice [`Self::outputs`] if the perspectives have
    /// weights of their own, because each side is both the side to move and the opponent in turn.
    pub fn width(&self) -> usize {
        if self.tied { self.outputs } else { 2 * self.outputs }
    }

    /// Rule by which the number of pieces selects an output or a layer stack.
    pub fn buckets(&self) -> OutputBuckets {
        match self.head {
            HeadShape::Flat { buckets, .. } | HeadShape::Stacks(StackShape { buckets, .. }) => buckets,
        }
    }

    /// Number of inputs and outputs of each dense layer of one stack, in order. A flat head counts as a stack
    /// of one layer.
    pub fn layers(&self) -> Vec<(usize, usize)> {
        match self.head {
            HeadShape::Flat { .. } => vec![(I::SIDES * self.outputs, 1)],
            HeadShape::Stacks(stack) => {
                let inputs =
                    I::SIDES * self.outputs / if stack.input_activation.is_pairwise() { 2 } else { 1 };
                let kept = stack.hidden.saturating_sub(usize::from(stack.skip));
                let second_inputs = if stack.squared_clipped { 2 * kept } else { kept };
                vec![(inputs, stack.hidden), (second_inputs, stack.second), (stack.second, 1)]
            }
        }
    }

    /// Checks that the network can be evaluated. Loading and quantisation call this before they allocate.
    ///
    /// # Errors
    /// The first part outside its limits, for example a width that is not a multiple of 32.
    pub fn check(&self) -> Result<(), ArchitectureError> {
        within("outputs", self.outputs, GROUP, MAX_OUTPUTS)?;
        if !self.outputs.is_multiple_of(GROUP) {
            let problem = format!("{} is not a multiple of {GROUP}", self.outputs);
            return Err(ArchitectureError::new("outputs", problem));
        }
        self.buckets().check()?;
        within("sides", I::SIDES, 1, 2)?;
        if I::SIDES < 2 && !self.tied {
            return Err(ArchitectureError::new("tied", "one side has no other to share its weights with"));
        }
        if I::SIDES < 2 && self.psqt {
            return Err(ArchitectureError::new("psqt", "piece squares are a difference between two sides"));
        }
        match self.head {
            HeadShape::Flat { .. } if self.psqt => {
                Err(ArchitectureError::new("psqt", "a flat head cannot have piece squares"))
            }
            HeadShape::Flat { .. } => Ok(()),
            HeadShape::Stacks(stack) => {
                within("hidden", stack.hidden, 2, MAX_LAYER_OUTPUTS)?;
                within("second", stack.second, 1, MAX_LAYER_OUTPUTS)?;
                if self.psqt && stack.buckets.count > PSQT_BUCKETS {
                    let problem = format!("{} stacks, but {PSQT_BUCKETS} piece squares", stack.buckets.count);
                    return Err(ArchitectureError::new("buckets", problem));
                }
                Ok(())
            }
        }
    }

    /// Checks the output scale and the value of a pawn. Networks with stacks have a fixed scale,
    /// [`STACK_UNITS`].
    pub(crate) fn check_scale(&self, scale: i32, pawn: i32) -> Result<(), ArchitectureError> {
        within("pawn", pawn, 1, MAX_PAWN)?;
        match self.head {
            HeadShape::Stacks(_) if scale != STACK_UNITS => {
                let problem = format!("{scale} found, but stacks have {STACK_UNITS}");
                Err(ArchitectureError::new("scale", problem))
            }
            _ => within("scale", scale, 1, MAX_SCALE),
        }
    }
}

/// The notation of the field, for example `halfkp 40960 -> 256x2 -> 1`.
impl<I: Inputs> fmt::Display for Architecture<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> {}", self.features.name(), self.features.num_inputs(), self.outputs)?;
        if I::SIDES > 1 {
            write!(f, "x{}", I::SIDES)?;
        }
        if !self.tied {
            f.write_str(" (own weights for each perspective)")?;
        }
        match self.head {
            HeadShape::Flat { activation, buckets } => {
                write!(f, " {} -> 1", activation.name())?;
                if buckets.count > 1 {
                    write!(f, "x{}", buckets.count)?;
                }
            }
            HeadShape::Stacks(stack) => {
                let pairs = if stack.input_activation.is_pairwise() { " pairwise" } else { "" };
                write!(f, "{pairs} -> {} -> {} -> 1", stack.hidden, stack.second)?;
                if stack.buckets.count > 1 {
                    write!(f, ", {} stacks", stack.buckets.count)?;
                }
            }
        }
        f.write_str(if self.psqt { " + piece squares" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_indices_follow_both_formulas() {
        for pieces in 2..=32 {
            assert_eq!(OutputBuckets::STOCKFISH.index(pieces), (pieces - 1) / 4);
            assert_eq!(OutputBuckets::bullet(8).index(pieces), (pieces - 2) / 4);
            assert_eq!(OutputBuckets::ONE.index(pieces), 0);
        }
        assert_eq!(OutputBuckets::bullet(1).index(32), 0);
    }

    #[test]
    fn invalid_architectures_are_refused() {
        let stack = StackShape {
            input_activation: InputActivation::PairwiseMul127,
            squared_clipped: true,
            skip: true,
            hidden: 16,
            second: 32,
            buckets: OutputBuckets::STOCKFISH,
        };
        let flat = |buckets| HeadShape::Flat { activation: Activation::Screlu, buckets };
        let refused = |outputs, psqt, head| {
            let features = FeatureSet::plain();
            let architecture = Architecture { features, outputs, tied: true, psqt, head };
            architecture.check().err().map(|error| error.part)
        };
        let part = |name: &str| Some(name.to_owned());
        assert_eq!(refused(64, true, HeadShape::Stacks(stack)), None);
        for outputs in [0, 16, 48, 1 << 15] {
            assert_eq!(refused(outputs, true, HeadShape::Stacks(stack)), part("outputs"));
        }
        for (hidden, second) in [(0, 32), (1, 32), (33, 32), (16, 0), (16, 33)] {
            let faulty = if second == 32 { "hidden" } else { "second" };
            let stack = StackShape { hidden, second, ..stack };
            assert_eq!(refused(64, true, HeadShape::Stacks(stack)), part(faulty));
        }
        let nine = HeadShape::Stacks(StackShape { buckets: OutputBuckets::bullet(9), ..stack });
        assert_eq!(refused(64, false, nine), None);
        assert_eq!(refused(64, true, nine), part("buckets"));
        assert_eq!(refused(64, false, flat(OutputBuckets::bullet(32))), None);
        assert_eq!(refused(64, true, flat(OutputBuckets::ONE)), part("psqt"));
        assert_eq!(refused(64, false, flat(OutputBuckets::bullet(0))), part("buckets"));
        assert_eq!(refused(64, false, flat(OutputBuckets::bullet(33))), part("buckets"));
        assert_eq!(
            refused(64, false, flat(OutputBuckets { divisor: 0, ..OutputBuckets::ONE })),
            part("bucket-pieces")
        );
    }

    #[test]
    fn architectures_are_displayed_in_the_notation_of_the_field() {
        let mut architecture = Architecture {
            features: FeatureSet::half_kp(),
            outputs: 256,
            tied: false,
            psqt: false,
            head: HeadShape::Flat { activation: Activation::Crelu, buckets: OutputBuckets::bullet(4) },
        };
        let expected = "halfkp 40960 -> 256x2 (own weights for each perspective) crelu -> 1x4";
        assert_eq!(architecture.to_string(), expected);
        assert_eq!((architecture.width(), architecture.layers()), (512, vec![(512, 1)]));
        architecture.tied = true;
        architecture.psqt = true;
        architecture.head = HeadShape::Stacks(StackShape {
            input_activation: InputActivation::PairwiseMul127,
            squared_clipped: true,
            skip: true,
            hidden: 16,
            second: 32,
            buckets: OutputBuckets::STOCKFISH,
        });
        let expected = "halfkp 40960 -> 256x2 pairwise -> 16 -> 32 -> 1, 8 stacks + piece squares";
        assert_eq!(architecture.to_string(), expected);
        assert_eq!(architecture.layers(), [(256, 16), (30, 32), (32, 1)]);
    }
}
