//! Results of probes.

use std::ops::Neg;

/// Result of a position with best play for the side to move (win, draw or loss), if no move counts towards the
/// fifty-move rule yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wdl {
    /// The side to move loses.
    Loss,
    /// The side to move would lose, but the fifty-move rule saves it.
    BlessedLoss,
    /// Neither side can force a win, even without the fifty-move rule.
    Draw,
    /// The side to move would win, but the fifty-move rule prevents it.
    CursedWin,
    /// The side to move wins.
    Win,
}

impl Wdl {
    /// All results, the worst first.
    pub const ALL: [Self; 5] = [Self::Loss, Self::BlessedLoss, Self::Draw, Self::CursedWin, Self::Win];

    /// True if the side to move wins, even if only without the fifty-move rule.
    #[inline]
    pub fn is_win(self) -> bool {
        self > Self::Draw
    }

    /// Distance of a position in which a move that resets the fifty-move counter keeps this result.
    pub(crate) fn distance_before_reset(self) -> i32 {
        match self {
            Self::Loss => -1,
            Self::BlessedLoss => -101,
            Self::Draw => 0,
            Self::CursedWin => 101,
            Self::Win => 1,
        }
    }

    /// Result of a position with the distance `dtz`, if `clock` plies count towards the fifty-move rule.
    pub(crate) fn of_distance(dtz: Dtz, clock: i32) -> Self {
        match dtz.0 {
            0 => Self::Draw,
            plies if plies > 0 && plies + clock <= 100 => Self::Win,
            plies if plies > 0 => Self::CursedWin,
            plies if clock - plies <= 100 => Self::Loss,
            _ => Self::BlessedLoss,
        }
    }
}

impl Neg for Wdl {
    type Output = Self;

    /// The result for the other side.
    #[inline]
    fn neg(self) -> Self {
        match self {
            Self::Loss => Self::Win,
            Self::BlessedLoss => Self::CursedWin,
            Self::Draw => Self::Draw,
            Self::CursedWin => Self::BlessedLoss,
            Self::Win => Self::Loss,
        }
    }
}

/// Distance to zero: plies until the winning side captures, moves a pawn or mates, with best play. It is positive
/// if the side to move wins, negative if it loses, and 0 in a draw. Beyond 100 the fifty-move rule makes it a draw.
///
/// Some tables store moves instead of plies, so the distance may be one ply too small where that does not change
/// the result under the fifty-move rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dtz(pub i32);

impl Neg for Dtz {
    type Output = Self;

    fn neg(self) -> Self {
        Self(-self.0)
    }
}
