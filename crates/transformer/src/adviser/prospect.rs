//! What a move or a position promises.

use crate::Outputs;
use crate::encoding::buckets::Buckets;
use crate::softmax::{Temperature, weights};
use tandem_chess::{Move, Position};

/// What a side can expect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prospect {
    /// It mates: the game is won.
    Mate,
    /// A draw, by the rules or by a repetition that can be claimed.
    Draw,
    /// What the network says of win, draw and loss; they add up to one.
    Outcomes {
        /// The probability of a win.
        win: f64,
        /// Of a draw.
        draw: f64,
        /// Of a loss.
        loss: f64,
    },
    /// What the network says of the chance to win, of which a draw is one half.
    Chance(f64),
}

impl Prospect {
    /// The chance to win, of which a draw is one half.
    pub fn chance(self) -> f64 {
        match self {
            Self::Mate => 1.0,
            Self::Draw => 0.5,
            Self::Outcomes { win, draw, .. } => win + draw / 2.0,
            Self::Chance(chance) => chance,
        }
    }

    /// What the network says of a position, for the side to move; by the first of its heads that does.
    pub fn told(answer: &Outputs) -> Option<Self> {
        match answer.values.iter().flatten().next() {
            Some(value) => Some(Self::of_outcomes(value.wdl)),
            None if answer.state_value.is_empty() => None,
            None => Some(Self::of_buckets(&answer.state_value)),
        }
    }

    /// By the logits of win, draw and loss.
    pub fn of_outcomes(logits: [f32; 3]) -> Self {
        let mut shares = [0.0; 3];
        shares
            .iter_mut()
            .zip(weights(logits.into_iter(), Temperature::ONE))
            .for_each(|(to, share)| *to = share);
        let [win, draw, loss] = shares.map(|share| share / shares.iter().sum::<f64>());
        Self::Outcomes { win, draw, loss }
    }

    /// By the logits of buckets.
    pub fn of_buckets(logits: &[f32]) -> Self {
        Self::Chance(Buckets::new(logits.len()).map_or(0.5, |buckets| buckets.chance(logits)))
    }

    /// What the rules know of a legal move, for the side that plays it: mates, draws, and repetitions that the opponent
    /// can claim.
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

    /// The same for the other side, of what a network said.
    pub(super) fn turned(self) -> Self {
        match self {
            Self::Outcomes { win, draw, loss } => Self::Outcomes { win: loss, draw, loss: win },
            Self::Chance(chance) => Self::Chance(1.0 - chance),
            known => known,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chance_is_what_the_outcomes_are_worth() {
        let chance = |logits| Prospect::of_outcomes(logits).chance();
        assert!((chance([0.0, 0.0, 0.0]) - 0.5).abs() < 1e-12);
        assert!((chance([2f32.ln(), 0.0, 0.0]) - 0.625).abs() < 1e-7);
        assert!(chance([-1e30, -1e30, 1e30]).abs() < 1e-12);
    }
}
