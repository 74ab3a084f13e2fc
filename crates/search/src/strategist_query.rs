//! The queries of the search to a [`Strategist`](crate::Strategist).
//!
//! It is queried where an answer can still pay: at the root, on principal variations, and at high remaining
//! depth; never in quiescence, and never right after a null move, because that position is not of a game. Its
//! evaluation serves in four ways, each with a switch of its own: move ordering, reductions, static
//! evaluation, and time management. Without a strategist the search is unchanged, node for node.

use crate::node::NodeType;
use crate::params::*;
use crate::strategist::QueryContext;
use crate::strategist_effect::blended_value;
use crate::strategist_eval::StrategistEval;
use crate::value::Value;
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
