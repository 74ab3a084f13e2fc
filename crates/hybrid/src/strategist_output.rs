//! Output of the strategist for a position: the evaluation that the search reads, with the value as the network
//! gives it.

use tandem_chess::Move;
use tandem_search::{Centipawns, StrategistEval};
use tandem_transformer::ValueEstimate;
use tandem_transformer::encoding::buckets::centipawns_of_win_probability;
use tandem_transformer::encoding::wdl::wdl_of_centipawns;

/// Bound of a value in centipawns, because a win probability of 1 has no finite logit.
const MAX_CENTIPAWNS: f64 = 2000.0;

/// The strategist's output for a position.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StrategistOutput {
    value_estimate: Option<ValueEstimate>,
    eval: StrategistEval,
}

impl StrategistOutput {
    /// Creates an output from a value, if the network has a value head, and the probabilities of the legal
    /// moves, which sum to one, or are empty without a policy head. `scale` converts the value to the NNUE's
    /// centipawns; it is given in centipawns per logit of the win probability.
    pub fn new(value_estimate: Option<ValueEstimate>, moves: &[(Move, f32)], scale: f32) -> Self {
        let output = Self { value_estimate, eval: StrategistEval::default() };
        let score = |probability: f64| {
            let score = f64::from(scale) * (probability / (1.0 - probability)).ln();
            Centipawns(score.clamp(-MAX_CENTIPAWNS, MAX_CENTIPAWNS).round() as i32)
        };
        let value = output.win_probability().map(score);
        Self { eval: StrategistEval::new(value, moves), ..output }
    }

    /// The evaluation that a search reads, with the value in the NNUE's centipawns from -2000 to 2000.
    pub fn eval(&self) -> &StrategistEval {
        &self.eval
    }

    /// The evaluation alone, for a cache.
    pub fn into_eval(self) -> StrategistEval {
        self.eval
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
        let moves = probabilities(position.board(), PolicyKind::Attention, &logits, Temperature::ONE);
        StrategistEval::new(None, &moves)
    }

    #[test]
    fn a_value_is_given_in_the_centipawns_of_the_nnue() {
        let scaled = |value_estimate: ValueEstimate, scale: f32| {
            let output = StrategistOutput::new(Some(value_estimate), &[], scale);
            output.eval().centipawns().map(|Centipawns(value)| value)
        };
        let of = |value_estimate| scaled(value_estimate, 125.0);
        // A win probability of 3 to 1.
        let ahead = ValueEstimate::Wdl { win: 0.6, draw: 0.3, loss: 0.1 };
        assert_eq!(of(ahead), Some((125.0 * 3f64.ln()).round() as i32));
        assert_eq!(scaled(ahead, 400.0), Some((400.0 * 3f64.ln()).round() as i32));
        assert_eq!([of(ValueEstimate::WinProbability(0.5)), of(ValueEstimate::Draw)], [Some(0); 2]);
        let [certain, lost] = [1.0, 0.0].map(|win| ValueEstimate::Wdl { win, draw: 0.0, loss: 1.0 - win });
        assert_eq!([of(certain), of(lost)], [Some(2000), Some(-2000)]);
        assert!(of(ValueEstimate::Mate) > of(ValueEstimate::WinProbability(0.9)));
        assert_eq!(StrategistOutput::default().eval().centipawns(), None);
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
