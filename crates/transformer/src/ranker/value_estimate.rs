//! Value of a move or position, from the rules or from a network's heads.

use crate::Outputs;
use crate::encoding::buckets::Buckets;
use crate::softmax::{Temperature, unnormalised_softmax};
use tandem_chess::{Move, Position};

/// Value of a position or move for one side, as exact as its source allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueEstimate {
    /// The move mates: the game is won. Found by the rules.
    Mate,
    /// A draw, by the rules or by a repetition that can be claimed.
    Draw,
    /// Probabilities from a value head; they add up to one.
    Wdl {
        /// Probability of a win, from 0 to 1.
        win: f64,
        /// Probability of a draw, from 0 to 1.
        draw: f64,
        /// Probability of a loss, from 0 to 1.
        loss: f64,
    },
    /// Win probability from a head of buckets, in which a draw counts one half.
    WinProbability(f64),
}

impl ValueEstimate {
    /// Win probability from 0 to 1, in which a draw counts one half.
    pub fn win_probability(self) -> f64 {
        match self {
            Self::Mate => 1.0,
            Self::Draw => 0.5,
            Self::Wdl { win, draw, .. } => win + draw / 2.0,
            Self::WinProbability(probability) => probability,
        }
    }

    /// Value of a position for the side to move, by the first of the value heads that the network has; `None`
    /// if it has none.
    pub fn from_outputs(output: &Outputs) -> Option<Self> {
        match output.values.iter().flatten().next() {
            Some(value) => Some(Self::from_wdl_logits(value.wdl)),
            None if output.state_value.is_empty() => None,
            None => Some(Self::from_bucket_logits(&output.state_value)),
        }
    }

    /// Converts the logits of win, draw and loss to probabilities by a softmax.
    pub fn from_wdl_logits(logits: [f32; 3]) -> Self {
        let mut powers = [0.0; 3];
        powers
            .iter_mut()
            .zip(unnormalised_softmax(logits.into_iter(), Temperature::ONE))
            .for_each(|(to, power)| *to = power);
        let [win, draw, loss] = powers.map(|power| power / powers.iter().sum::<f64>());
        Self::Wdl { win, draw, loss }
    }

    /// From the logits of win-probability buckets; one half if there are none.
    pub fn from_bucket_logits(logits: &[f32]) -> Self {
        Self::WinProbability(
            Buckets::new(logits.len()).map_or(0.5, |buckets| buckets.win_probability(logits)),
        )
    }

    /// Value of a legal move by the rules alone, for the side that plays it: mates, draws, and repetitions
    /// that the opponent can claim.
    pub(super) fn by_rule(game: &mut Position, mv: Move) -> Option<Self> {
        game.play(mv);
        let known = match (game.has_legal_move(), game.in_check()) {
            (false, true) => Some(Self::Mate),
            (false, false) => Some(Self::Draw),
            _ if game.is_insufficient_material() || game.is_fifty_moves() => Some(Self::Draw),
            _ => None,
        };
        game.undo();
        known.or_else(|| crate::legal::allows_repetition(game, mv).then_some(Self::Draw))
    }

    /// The same value for the other side. Values by the rules stay as they are, because they are computed for
    /// the right side.
    pub(super) fn for_opponent(self) -> Self {
        match self {
            Self::Wdl { win, draw, loss } => Self::Wdl { win: loss, draw, loss: win },
            Self::WinProbability(probability) => Self::WinProbability(1.0 - probability),
            known => known,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_counts_one_half() {
        let win_probability = |logits| ValueEstimate::from_wdl_logits(logits).win_probability();
        assert!((win_probability([0.0, 0.0, 0.0]) - 0.5).abs() < 1e-12);
        assert!((win_probability([2f32.ln(), 0.0, 0.0]) - 0.625).abs() < 1e-7);
        assert!(win_probability([-1e30, -1e30, 1e30]).abs() < 1e-12);
    }
}
