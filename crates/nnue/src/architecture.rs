//! What a network is made of, without its numbers.

use crate::features::FeatureSet;
use crate::inputs::Inputs;
use crate::kernels::Activation;
use std::fmt;
use thiserror::Error;

/// Columns of the piece-square part that some networks have beside their first layer.
pub const PSQT_BUCKETS: usize = 8;

/// Outputs a dense layer of a stack may have.
pub const MAX_LAYER_OUTPUTS: usize = 32;

/// Values of one side's accumulator that there may be.
const MAX_OUTPUTS: usize = 1 << 14;

/// The accumulators' values come in groups of so many, as the kernels work on them.
const GROUP: usize = 32;

/// What an output of one, and what a pawn may be worth.
const MAX_SCALE: i32 = 1 << 20;
const MAX_PAWN: i32 = 100_000;

/// What an output of one is worth in the units of a stack.
pub(crate) const STACK_UNITS: i32 = 600;

/// A network that has no sound shape.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{part}: {problem}")]
pub struct ArchitectureError {
    /// What is wrong, by the name that file headers give it.
    pub part: String,
    /// Why.
    pub problem: String,
}

impl ArchitectureError {
    pub(crate) fn new(part: &str, problem: impl Into<String>) -> Self {
        Self { part: part.into(), problem: problem.into() }
    }
}

/// Refuses a number that is too small or too large.
fn within<T: PartialOrd + fmt::Display>(
    part: &str,
    number: T,
    least: T,
    most: T,
) -> Result<(), ArchitectureError> {
    if number >= least && number <= most {
        return Ok(());
    }
    Err(ArchitectureError::new(part, format!("{number} is not from {least} to {most}")))
}

/// The shape of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Architecture<I = FeatureSet> {
    /// The inputs.
    pub features: I,
    /// Values of one side's accumulator.
    pub outputs: usize,
    /// Both perspectives share the weights of the first layer.
    pub tied: bool,
    /// Piece-square values stand beside the first layer.
    pub psqt: bool,
    /// What comes after the accumulators.
    pub head: HeadShape,
}

/// What comes after the accumulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadShape {
    /// The accumulators, activated, meet the output weights.
    Flat {
        /// What becomes of a value before.
        activation: Activation,
        /// Which output judges.
        buckets: Buckets,
    },
    /// Three dense layers of small integers.
    Stacks(StackShape),
}

/// The three dense layers of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackShape {
    /// How accumulators become inputs of the first.
    pub squeeze: Squeeze,
    /// The second layer sees each value of the first squared as well as clipped.
    pub dual: bool,
    /// The last output of the first layer goes straight to the end.
    pub skip: bool,
    /// Outputs of the first.
    pub hidden: usize,
    /// Outputs of the second.
    pub second: usize,
    /// Which stack judges.
    pub buckets: Buckets,
}

/// How accumulators become the small integers that the next layer multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Squeeze {
    /// Held between 0 and 127.
    Clip,
    /// The first half of them, held between 0 and 127, times the second half.
    Pairwise127,
    /// The same between 0 and 255.
    Pairwise255,
}

impl Squeeze {
    /// What stands for one in the accumulators.
    pub fn one(self) -> i16 {
        match self {
            Self::Clip | Self::Pairwise127 => 127,
            Self::Pairwise255 => 255,
        }
    }

    /// What a product of two ones becomes, rounding apart: 127 · 127 / 2^7 of 127, or 255 · 255 / 2^9.
    pub fn product(self) -> f64 {
        f64::from(self.one()).powi(2) / f64::from(1 << self.shift()) / 127.0
    }

    /// Whether values are multiplied in pairs.
    pub fn is_pairwise(self) -> bool {
        self != Self::Clip
    }

    /// The shift that brings a product of two values to at most 127.
    pub(crate) fn shift(self) -> u32 {
        if self == Self::Pairwise255 { 9 } else { 7 }
    }
}

/// Which of several outputs or layer stacks judges a position, by the number of pieces on the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets {
    /// How many there are.
    pub count: usize,
    /// Pieces that are not counted.
    pub less: usize,
    /// Pieces to a bucket.
    pub pieces: usize,
}

impl Buckets {
    /// Only one.
    pub const ONE: Self = Self { count: 1, less: 1, pieces: 32 };

    /// Stockfish's eight: (pieces − 1) / 4.
    pub const STOCKFISH: Self = Self { count: 8, less: 1, pieces: 4 };

    /// Bullet's: (pieces − 2) divided by 32 / `count`, rounded up. There are 1 to 32 of them.
    pub fn bullet(count: usize) -> Self {
        // One is one, by whatever formula.
        if count == 1 {
            return Self::ONE;
        }
        Self { count, less: 2, pieces: 32usize.div_ceil(count.max(1)) }
    }

    /// The bucket for so many pieces.
    #[inline]
    pub fn of(self, pieces: usize) -> usize {
        (pieces.saturating_sub(self.less) / self.pieces.max(1)).min(self.count.saturating_sub(1))
    }

    fn check(self) -> Result<(), ArchitectureError> {
        within("buckets", self.count, 1, 32)?;
        within("bucket-less", self.less, 0, 32)?;
        within("bucket-pieces", self.pieces, 1, 32)
    }
}

impl<I: Inputs> Architecture<I> {
    /// Values that are kept for each side: twice as many where the side to move and the other have weights of their
    /// own, for each side is both in turn.
    pub fn width(&self) -> usize {
        if self.tied { self.outputs } else { 2 * self.outputs }
    }

    /// Which output or stack judges.
    pub fn buckets(&self) -> Buckets {
        match self.head {
            HeadShape::Flat { buckets, .. } | HeadShape::Stacks(StackShape { buckets, .. }) => buckets,
        }
    }

    /// Inputs and outputs of each dense layer of one stack, in order. A flat head is a stack of one.
    pub fn layers(&self) -> Vec<(usize, usize)> {
        match self.head {
            HeadShape::Flat { .. } => vec![(I::SIDES * self.outputs, 1)],
            HeadShape::Stacks(stack) => {
                let inputs = I::SIDES * self.outputs / if stack.squeeze.is_pairwise() { 2 } else { 1 };
                let kept = stack.hidden.saturating_sub(usize::from(stack.skip));
                let second_inputs = if stack.dual { 2 * kept } else { kept };
                vec![(inputs, stack.hidden), (second_inputs, stack.second), (stack.second, 1)]
            }
        }
    }

    /// Refuses a shape that cannot be evaluated. Everything that makes a network asks this first.
    pub fn check(&self) -> Result<(), ArchitectureError> {
        within("outputs", self.outputs, GROUP, MAX_OUTPUTS)?;
        if !self.outputs.is_multiple_of(GROUP) {
            let problem = format!("{} is no multiple of {GROUP}", self.outputs);
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
                Err(ArchitectureError::new("psqt", "a flat head has no place for piece squares"))
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

    /// Refuses units that no network of this shape can have. The integers of stacks leave no choice of scale.
    pub(crate) fn check_units(&self, scale: i32, pawn: i32) -> Result<(), ArchitectureError> {
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

/// The notation of the field: `halfkp 40960 -> 256x2 -> 1`.
impl<I: Inputs> fmt::Display for Architecture<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> {}", self.features.name(), self.features.inputs(), self.outputs)?;
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
                let pairs = if stack.squeeze.is_pairwise() { " pairwise" } else { "" };
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
    fn buckets_follow_both_formulas() {
        for pieces in 2..=32 {
            assert_eq!(Buckets::STOCKFISH.of(pieces), (pieces - 1) / 4);
            assert_eq!(Buckets::bullet(8).of(pieces), (pieces - 2) / 4);
            assert_eq!(Buckets::ONE.of(pieces), 0);
        }
        assert_eq!(Buckets::bullet(1).of(32), 0);
    }

    #[test]
    fn what_cannot_be_evaluated_is_refused() {
        let stack = StackShape {
            squeeze: Squeeze::Pairwise127,
            dual: true,
            skip: true,
            hidden: 16,
            second: 32,
            buckets: Buckets::STOCKFISH,
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
            let wrong = if second == 32 { "hidden" } else { "second" };
            let stack = StackShape { hidden, second, ..stack };
            assert_eq!(refused(64, true, HeadShape::Stacks(stack)), part(wrong));
        }
        let nine = HeadShape::Stacks(StackShape { buckets: Buckets::bullet(9), ..stack });
        assert_eq!(refused(64, false, nine), None);
        assert_eq!(refused(64, true, nine), part("buckets"));
        assert_eq!(refused(64, false, flat(Buckets::bullet(32))), None);
        assert_eq!(refused(64, true, flat(Buckets::ONE)), part("psqt"));
        assert_eq!(refused(64, false, flat(Buckets::bullet(0))), part("buckets"));
        assert_eq!(refused(64, false, flat(Buckets::bullet(33))), part("buckets"));
        assert_eq!(refused(64, false, flat(Buckets { pieces: 0, ..Buckets::ONE })), part("bucket-pieces"));
    }

    #[test]
    fn architectures_are_told_in_the_notation_of_the_field() {
        let mut architecture = Architecture {
            features: FeatureSet::half_kp(),
            outputs: 256,
            tied: false,
            psqt: false,
            head: HeadShape::Flat { activation: Activation::Crelu, buckets: Buckets::bullet(4) },
        };
        let told = "halfkp 40960 -> 256x2 (own weights for each perspective) crelu -> 1x4";
        assert_eq!(architecture.to_string(), told);
        assert_eq!((architecture.width(), architecture.layers()), (512, vec![(512, 1)]));
        architecture.tied = true;
        architecture.psqt = true;
        architecture.head = HeadShape::Stacks(StackShape {
            squeeze: Squeeze::Pairwise127,
            dual: true,
            skip: true,
            hidden: 16,
            second: 32,
            buckets: Buckets::STOCKFISH,
        });
        let told = "halfkp 40960 -> 256x2 pairwise -> 16 -> 32 -> 1, 8 stacks + piece squares";
        assert_eq!(architecture.to_string(), told);
        assert_eq!(architecture.layers(), [(256, 16), (30, 32), (32, 1)]);
    }
}
