//! The search's use of a [`Strategist`](crate::Strategist): where it queries one, and how it uses the evaluations.
//!
//! It is queried where an answer can still pay: at the root, on principal variations, and at high remaining
//! depth; never in quiescence, and never right after a null move, because that position is not of a game. Its
//! evaluation serves in four ways, each with a switch of its own: move ordering, reductions, static
//! evaluation, and time management. Without a strategist the search is unchanged, node for node.

use crate::alphabeta::NodeType;
use crate::params::*;
use crate::pool::Searcher;
use crate::strategist::QueryContext;
use crate::strategist_eval::StrategistEval;
use crate::value::{Centipawns, MAX_EVAL, Value};
use crate::worker::Worker;
use std::sync::Arc;
use tandem_chess::Move;

impl Worker {
    /// The strategist's evaluation of the position, if it is in the cache. If not, and `may_query` is true,
    /// the position is queried: the answer is returned at once or is in the cache at a later visit.
    #[inline]
    pub(crate) fn query_strategist<N: NodeType>(
        &mut self,
        depth: i32,
        ply: usize,
        may_query: bool,
    ) -> Option<Arc<StrategistEval>> {
        if self.strategist.is_none() || !N::ROOT && depth < strategist_pv_depth().min(strategist_depth()) {
            return None;
        }
        let min_depth = if N::PV { strategist_pv_depth() } else { strategist_depth() };
        let is_worthwhile = N::ROOT || depth >= min_depth && self.stack[ply - 1].mv.is_some();
        self.lookup_or_query(depth, N::ROOT, may_query && is_worthwhile)
    }

    #[inline(never)]
    fn lookup_or_query(&mut self, depth: i32, root: bool, query: bool) -> Option<Arc<StrategistEval>> {
        let Self { strategist: Some(handle), position, evaluator, .. } = self else { return None };
        if let Some(eval) = handle.lookup(position.key()) {
            return Some(eval);
        }
        if !query || !handle.may_query(self.nodes) {
            return None;
        }
        // While pondering the opponent's clock runs, not ours.
        let clock = self.time.clock().filter(|_| !self.shared.signals.is_pondering());
        let context = QueryContext { depth, root, nodes: self.nodes, clock };
        let eval = handle.query(position, context, &mut || evaluator.psqt_positional_gap(position));
        if eval.is_some() {
            // The answer took as long as thousands of nodes.
            self.check_soon();
        }
        eval
    }

    /// The evaluator's value, blended with the strategist's by its weight.
    pub(crate) fn blend_eval(&self, raw: Value, eval: &StrategistEval) -> Value {
        let strategist = self.shared.strategist.as_ref();
        strategist.map_or(raw, |strategist| blended_value(raw, eval, strategist.blend()))
    }

    /// The strategist's move if it is probable enough to be tried first where there is no TT move.
    pub(crate) fn top_move(&self, eval: Option<&StrategistEval>) -> Option<Move> {
        let (mv, probability) = eval.filter(|_| use_strategist_order())?.top_move()?;
        let trusted = probability.in_1024() >= strategist_first() && self.position.board().is_legal(mv);
        trusted.then_some(mv)
    }

    /// Entropy of the strategist's policy at the root in nats; `None` if it has not evaluated the root.
    pub(crate) fn root_policy_entropy(&self) -> Option<f64> {
        let strategist = self.shared.strategist.as_ref().filter(|_| use_strategist_time())?;
        strategist.lookup(self.position.key())?.entropy().map(f64::from)
    }
}

impl Searcher {
    /// Blends a static evaluation with the strategist's value as the search does,
    /// both in centipawns for the side to move. `blend` is the strategist's weight from 0 to 1, but the
    /// change is bounded, and a large `evaluation` is returned unchanged. Used by the command `eval` to show
    /// the value that a search would use.
    pub fn blend_eval(&self, evaluation: Centipawns, eval: &StrategistEval, blend: f32) -> Centipawns {
        #[cfg(feature = "tune")]
        self.settings.params.make_current();
        Centipawns(blended_value(evaluation.0, eval, blend))
    }
}

/// Moves a value towards the strategist's, by at most `strategist_value_max`. Where one side is as good as
/// winning, a win probability says little about the margin, so that large values stay as they are.
fn blended_value(raw: Value, eval: &StrategistEval, blend: f32) -> Value {
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
