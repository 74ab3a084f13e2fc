//! A strategist's evaluation of a position: value, policy and entropy, packed for a cache.

use crate::value::Centipawns;
use tandem_chess::{Move, PackedMove};

/// A strategist's evaluation of a position. It is small, because a search keeps thousands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StrategistEval {
    centipawns: Option<Centipawns>,
    /// Legal moves and their probabilities, the most probable first.
    policy: Box<[(PackedMove, PackedProbability)]>,
    entropy: f32,
}

/// A probability in sixteen bits, in steps of 1/65535.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PackedProbability(u16);

impl PackedProbability {
    const ONE: f32 = u16::MAX as f32;

    /// Rounds a probability from 0 to 1 to the nearest step.
    pub fn new(probability: f32) -> Self {
        Self((probability * Self::ONE).round() as u16)
    }

    /// Returns the probability as a number from 0 to 1.
    pub fn get(self) -> f32 {
        f32::from(self.0) / Self::ONE
    }

    /// Returns the probability in 1/1024, from 0 to 1023, for integer arithmetic in the search.
    #[inline]
    pub fn in_1024(self) -> i32 {
        i32::from(self.0) >> 6
    }
}

impl StrategistEval {
    /// Creates an evaluation from a value for the side to move, on the evaluator's scale, if there is one, and
    /// the probabilities of the legal moves, which sum to one, or are empty without a policy.
    pub fn new(value: Option<Centipawns>, moves: &[(Move, f32)]) -> Self {
        let mut sorted = moves.to_vec();
        // The sort is stable: equally probable moves stay in the board's order.
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
        let packed = sorted
            .iter()
            .map(|&(mv, probability)| (PackedMove::new(Some(mv)), PackedProbability::new(probability)));
        let terms = moves
            .iter()
            .map(|&(_, probability)| f64::from(probability))
            .filter(|&probability| probability > 0.0);
        let entropy = -terms.map(|probability| probability * probability.ln()).sum::<f64>();
        Self { centipawns: value, policy: packed.collect(), entropy: entropy.max(0.0) as f32 }
    }

    /// Value for the side to move, on the evaluator's scale; `None` if the strategist gives none.
    #[inline]
    pub fn centipawns(&self) -> Option<Centipawns> {
        self.centipawns
    }

    /// Legal moves and their probabilities, the most probable first; empty if the strategist has no policy.
    pub fn policy(&self) -> impl Iterator<Item = (Move, PackedProbability)> {
        self.policy.iter().filter_map(|&(mv, probability)| Some((mv.unpack()?, probability)))
    }

    /// The most probable move by the policy and its probability; `None` without a policy.
    #[inline]
    pub fn top_move(&self) -> Option<(Move, PackedProbability)> {
        let &(mv, probability) = self.policy.first()?;
        Some((mv.unpack()?, probability))
    }

    /// Probability of a move; `None` if the move is not legal or there is no policy.
    #[inline]
    pub fn probability(&self, mv: Move) -> Option<PackedProbability> {
        let packed = PackedMove::new(Some(mv));
        self.policy.iter().find(|(other, _)| *other == packed).map(|&(_, probability)| probability)
    }

    /// Entropy of the policy in nats: 0 if one move has all the probability, the logarithm of the number of
    /// moves if all are equal. `None` without a policy.
    pub fn entropy(&self) -> Option<f32> {
        (!self.policy.is_empty()).then_some(self.entropy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::Position;

    #[test]
    fn entropy_is_zero_for_a_certain_move_and_greatest_for_a_uniform_policy() {
        let moves = Position::startpos().legal_moves();
        let even: Vec<(Move, f32)> = moves.iter().map(|&mv| (mv, 0.05)).collect();
        assert!((StrategistEval::new(None, &even).entropy().unwrap() - 20f32.ln()).abs() < 1e-5);
        let sure: Vec<(Move, f32)> = moves.iter().map(|&mv| (mv, f32::from(mv == moves[7]))).collect();
        let sure = StrategistEval::new(None, &sure);
        assert_eq!(sure.entropy(), Some(0.0));
        assert_eq!(
            sure.top_move().map(|(mv, probability)| (mv, probability.in_1024())),
            Some((moves[7], 1023))
        );
        assert_eq!(StrategistEval::default().entropy(), None);
        assert_eq!(StrategistEval::default().top_move(), None);
    }
}
