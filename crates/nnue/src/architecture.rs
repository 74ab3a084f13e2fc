//! What a network is made of, without its numbers.

use crate::features::FeatureSet;
use crate::kernels::Activation;
use std::fmt;

/// Columns of the piece-square part that some networks have beside their first layer.
pub const PSQT_BUCKETS: usize = 8;

/// Outputs a dense layer may have.
pub const MAX_OUTPUTS: usize = 32;

/// The shape of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// The inputs.
    pub features: FeatureSet,
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

    /// Bullet's: (pieces − 2) divided by 32 / `count`, rounded up.
    pub fn bullet(count: usize) -> Self {
        let count = count.clamp(1, 32);
        Self { count, less: 2, pieces: 32usize.div_ceil(count) }
    }

    /// The bucket for so many pieces.
    #[inline]
    pub fn of(self, pieces: usize) -> usize {
        (pieces.saturating_sub(self.less) / self.pieces.max(1)).min(self.count - 1)
    }
}

impl Architecture {
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
            HeadShape::Flat { .. } => vec![(2 * self.outputs, 1)],
            HeadShape::Stacks(stack) => {
                let inputs = if stack.squeeze.is_pairwise() { self.outputs } else { 2 * self.outputs };
                let kept = stack.hidden - usize::from(stack.skip);
                let second_inputs = if stack.dual { 2 * kept } else { kept };
                vec![(inputs, stack.hidden), (second_inputs, stack.second), (stack.second, 1)]
            }
        }
    }
}

/// The notation of the field: `halfkp 40960 -> 256x2 -> 1`.
impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> {}x2", self.features.name(), self.features.inputs(), self.outputs)?;
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
