//! The strategist's evaluation of a position: value, policy and entropy, packed for the cache.

use tandem_chess::{Move, PackedMove};
use tandem_transformer::ValueEstimate;
use tandem_transformer::encoding::buckets::centipawns_of_win_probability;
use tandem_transformer::encoding::wdl::wdl_of_centipawns;

/// NNUE centipawns per logit of the win probability, used if the hybrid's file gives no fitted scale. The
/// strategist's students learn from scores converted with this number.
pub(crate) const DEFAULT_SCALE: f32 = 125.0;

/// Bound of a value in centipawns, because a win probability of 1 has no finite logit.
const MAX_CENTIPAWNS: f64 = 2000.0;

/// The strategist's evaluation of a position. It is small, because a search caches thousands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StrategistEval {
    value_estimate: Option<ValueEstimate>,
    /// The value in the NNUE's centipawns, for the side to move.
    centipawns: Option<i32>,
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
    /// Creates an evaluation from a value, if the network has a value head, and the probabilities of the
    /// legal moves, which sum to one, or are empty without a policy head.
    pub fn new(value_estimate: Option<ValueEstimate>, moves: &[(Move, f32)]) -> Self {
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
        let eval = Self {
            value_estimate,
            centipawns: None,
            policy: packed.collect(),
            entropy: entropy.max(0.0) as f32,
        };
        eval.with_scale(DEFAULT_SCALE)
    }

    /// The same evaluation for an NNUE of another scale, given in centipawns per logit.
    pub(crate) fn with_scale(self, scale: f32) -> Self {
        let score = |probability: f64| {
            (f64::from(scale) * (probability / (1.0 - probability)).ln())
                .clamp(-MAX_CENTIPAWNS, MAX_CENTIPAWNS)
                .round() as i32
        };
        Self { centipawns: self.win_probability().map(score), ..self }
    }

    /// Value of the position for the side to move; `None` if the network has no value head.
    pub fn value_estimate(&self) -> Option<ValueEstimate> {
        self.value_estimate
    }

    /// Expected score of the side to move from 0 to 1, in which a draw counts half, on the scale by which
    /// value heads are trained. Bucketed values are converted to it from the curve that Lichess measured.
    pub fn win_probability(&self) -> Option<f64> {
        self.value_estimate.map(|estimate| match estimate {
            ValueEstimate::Wdl { .. } => estimate.win_probability(),
            ValueEstimate::Mate | ValueEstimate::Draw | ValueEstimate::WinProbability(_) => {
                let [win, draw, _] =
                    wdl_of_centipawns(centipawns_of_win_probability(estimate.win_probability()));
                win + draw / 2.0
            }
        })
    }

    /// The value in the NNUE's centipawns, from -2000 to 2000; `None` without a value head.
    pub fn centipawns(&self) -> Option<i32> {
        self.centipawns
    }

    /// Legal moves and their probabilities, the most probable first; empty if the network has no policy head.
    pub fn policy(&self) -> impl Iterator<Item = (Move, PackedProbability)> {
        self.policy.iter().filter_map(|&(mv, probability)| Some((mv.unpack()?, probability)))
    }

    /// The most probable move by the policy and its probability; `None` without a policy.
    #[inline]
    pub fn top_move(&self) -> Option<(Move, PackedProbability)> {
        let &(mv, probability) = self.policy.first()?;
        Some((mv.unpack()?, probability))
    }

    /// Probability of a move; `None` if the move is not legal or the network has no policy head.
    #[inline]
    pub fn probability(&self, mv: Move) -> Option<PackedProbability> {
        let packed = PackedMove::new(Some(mv));
        self.policy.iter().find(|(other, _)| *other == packed).map(|&(_, probability)| probability)
    }

    /// Entropy of the policy in nats: 0 if one move has all the probability, the logarithm of the number of
    /// moves if all are equal. `None` if the network has no policy head.
    pub fn entropy(&self) -> Option<f32> {
        (!self.policy.is_empty()).then_some(self.entropy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tandem_chess::Position;
    use tandem_transformer::PolicyKind;
    use tandem_transformer::legal::{Temperature, probabilities};
    use tandem_util::random::SplitMix;

    fn eval_of(position: &Position, seed: u64) -> StrategistEval {
        let mut random = SplitMix::new(seed);
        let logits: Vec<f32> = (0..1858).map(|_| 8.0 * random.unit() as f32 - 4.0).collect();
        StrategistEval::new(
            None,
            &probabilities(position.board(), PolicyKind::Attention, &logits, Temperature::ONE),
        )
    }

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

    #[test]
    fn a_value_is_given_in_the_centipawns_of_the_nnue() {
        // A win probability of 3 to 1.
        let eval = StrategistEval::new(Some(ValueEstimate::Wdl { win: 0.6, draw: 0.3, loss: 0.1 }), &[]);
        assert_eq!(eval.centipawns(), Some((125.0 * 3f64.ln()).round() as i32));
        assert_eq!(eval.with_scale(400.0).centipawns(), Some((400.0 * 3f64.ln()).round() as i32));
        let of = |value_estimate: ValueEstimate| StrategistEval::new(Some(value_estimate), &[]).centipawns();
        assert_eq!([of(ValueEstimate::WinProbability(0.5)), of(ValueEstimate::Draw)], [Some(0); 2]);
        let [certain, lost] = [1.0, 0.0].map(|win| ValueEstimate::Wdl { win, draw: 0.0, loss: 1.0 - win });
        assert_eq!([of(certain), of(lost)], [Some(2000), Some(-2000)]);
        assert!(of(ValueEstimate::Mate) > of(ValueEstimate::WinProbability(0.9)));
        assert_eq!(StrategistEval::default().centipawns(), None);
    }

    proptest! {
        #[test]
        fn the_policy_has_exactly_the_legal_moves_and_sums_to_one(seed: u64, plies in 0usize..100) {
            let mut random = SplitMix::new(seed);
            let mut position = Position::startpos();
            for _ in 0..plies {
                let moves = position.legal_moves();
                if moves.is_empty() {
                    break;
                }
                position.play(moves[random.below(moves.len() as u32) as usize]);
            }
            let eval = eval_of(&position, seed);
            let legal = position.legal_moves();
            prop_assert_eq!(eval.policy().count(), legal.len());
            prop_assert!(legal.iter().all(|&mv| eval.probability(mv).is_some()));
            prop_assert!(eval.policy().all(|(mv, _)| position.board().is_legal(mv)));
            prop_assert!(eval.policy().is_sorted_by_key(|(_, probability)| std::cmp::Reverse(probability)));
            let sum: f32 = eval.policy().map(|(_, probability)| probability.get()).sum();
            // Each was rounded to a step of 1/65535.
            prop_assert!(legal.is_empty() || (sum - 1.0).abs() < 0.01, "{}", sum);
        }
    }
}
