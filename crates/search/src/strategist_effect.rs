//! Effects of a strategist's evaluation on the search: the blended value, the order of moves, and reductions.

use crate::params::*;
use crate::strategist_eval::StrategistEval;
use crate::value::{Centipawns, MAX_EVAL, Value};
use tandem_chess::Move;

/// Moves a value towards the strategist's, by at most `strategist_value_max`. Where one side is as good as
/// winning, a win probability says little about the margin, so that large values stay as they are.
pub(crate) fn blended_value(raw: Value, eval: &StrategistEval, blend: f32) -> Value {
    let Some(Centipawns(centipawns)) = eval.centipawns() else { return raw };
    if !use_strategist_value() || raw.abs() > strategist_value_range() {
        return raw;
    }
    let centipawns = centipawns * strategist_scale() / 100;
    let blend = (blend * 1024.0) as Value;
    let change = ((centipawns - raw) * blend / 1024).clamp(-strategist_value_max(), strategist_value_max());
    (raw + change).clamp(-MAX_EVAL, MAX_EVAL)
}

/// Addition to the ordering score of a quiet move, proportional to its policy probability.
#[inline]
pub(crate) fn order_bonus(eval: &StrategistEval, mv: Move) -> i32 {
    eval.probability(mv).map_or(0, |probability| strategist_order() * probability.in_1024() / 1024)
}

/// Change of a move's reduction in 1/1024 of a ply: probable moves are reduced less, very improbable ones
/// more.
#[inline]
pub(crate) fn reduction_change(eval: &StrategistEval, mv: Move) -> i32 {
    if !use_strategist_lmr() {
        return 0;
    }
    let Some(probability) = eval.probability(mv) else { return 0 };
    let probability = probability.in_1024();
    if probability < strategist_lmr_unlikely_below() {
        strategist_lmr_unlikely()
    } else {
        -strategist_lmr_probability() * probability / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::Position;

    #[test]
    fn probable_moves_are_ordered_earlier_and_reduced_less() {
        let moves = Position::startpos().legal_moves();
        let probabilities = [0.6, 0.3, 0.099, 0.001];
        let policy: Vec<(Move, f32)> = moves.iter().copied().zip(probabilities).collect();
        let eval = StrategistEval::new(None, &policy);
        let of = |change: fn(&StrategistEval, Move) -> i32| -> Vec<i32> {
            moves[..4].iter().map(|&mv| change(&eval, mv)).collect()
        };
        assert!(of(order_bonus).is_sorted_by(|more, less| more > less));
        assert!(of(reduction_change).is_sorted_by(|less, more| less < more));
        assert!(reduction_change(&eval, moves[0]) < 0 && reduction_change(&eval, moves[3]) > 0);
        // Moves outside the policy are not affected.
        assert_eq!((order_bonus(&eval, moves[9]), reduction_change(&eval, moves[9])), (0, 0));
    }

    #[test]
    fn a_value_is_blended_with_the_strategists_within_a_bound() {
        let eval = StrategistEval::new(Some(Centipawns(137)), &[]);
        assert_eq!([0.0, 0.25, 0.5].map(|blend| blended_value(37, &eval, blend)), [37, 62, 87]);
        assert_eq!(blended_value(237, &eval, 0.5), 187);
        // The change is bounded, and a decided game is not changed at all.
        assert_eq!([blended_value(37, &eval, 1.0), blended_value(-700, &eval, 1.0)], [117, -620]);
        assert_eq!([blended_value(801, &eval, 1.0), blended_value(-801, &eval, 1.0)], [801, -801]);
        assert_eq!(blended_value(37, &StrategistEval::new(None, &[]), 1.0), 37);
    }
}
