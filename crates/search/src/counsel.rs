//! The second mind in the search: where the strategist is asked, and what its word is worth there.
//!
//! It is asked where an answer can still pay: at the root, on principal variations, and where much depth is left; never in
//! quiescence, and never right after a null move, which is no position of a game. What it says serves in four ways, each with a
//! switch of its own: the order of moves, their reductions, the static evaluation, and the time that a move deserves.
//! Without it nobody is asked, and the search is the same to the node.

use crate::alphabeta::NodeType;
use crate::params::*;
use crate::pool::Searcher;
use crate::value::{Centipawns, MAX_EVAL, Value};
use crate::worker::Worker;
use std::sync::Arc;
use tandem_chess::Move;
use tandem_hybrid::{Occasion, Opinion};

impl Worker {
    /// What the strategist says of the position, if it has said anything. If not, and `may_ask`, it is asked: the answer is
    /// there at once, or when the search comes by again.
    #[inline]
    pub(crate) fn consult<N: NodeType>(
        &mut self,
        depth: i32,
        ply: usize,
        may_ask: bool,
    ) -> Option<Arc<Opinion>> {
        if self.counsel.is_none() || !N::ROOT && depth < counsel_pv_depth().min(counsel_depth()) {
            return None;
        }
        let least = if N::PV { counsel_pv_depth() } else { counsel_depth() };
        let worth_it = N::ROOT || depth >= least && self.frames[ply - 1].mv.is_some();
        self.look_and_ask(depth, N::ROOT, may_ask && worth_it)
    }

    #[inline(never)]
    fn look_and_ask(&mut self, depth: i32, root: bool, ask: bool) -> Option<Arc<Opinion>> {
        let Self { counsel: Some(seat), position, evaluator, .. } = self else { return None };
        if let Some(opinion) = seat.opinion(position.key()) {
            return Some(opinion);
        }
        if !ask || !seat.may_ask(self.nodes) {
            return None;
        }
        // While pondering the clock is not ours.
        let clock = self.time.clock().filter(|_| !self.shared.signals.is_pondering());
        let occasion = Occasion { depth, root, nodes: self.nodes, clock };
        let opinion = seat.ask(position, occasion, || evaluator.discord(position).0 as f32 / 100.0);
        if opinion.is_some() {
            // That took as long as thousands of nodes.
            self.check_soon();
        }
        opinion
    }

    /// The evaluator's value, drawn towards the strategist's.
    pub(crate) fn counselled(&self, raw: Value, opinion: &Opinion) -> Value {
        self.counsel.as_ref().map_or(raw, |seat| drawn(raw, opinion, seat.counsel().blend()))
    }

    /// The strategist's move, to be tried first where nothing better is known.
    pub(crate) fn favourite(&self, opinion: Option<&Opinion>) -> Option<Move> {
        let (mv, share) = opinion.filter(|_| use_counsel_order() != 0)?.favourite()?;
        let trusted = share.in_1024() >= counsel_first() && self.position.board().is_legal(mv);
        trusted.then_some(mv)
    }

    /// How unsure the strategist is of the move at the root, in nats.
    pub(crate) fn doubt_at_root(&self) -> Option<f64> {
        let seat = self.counsel.as_ref().filter(|_| use_counsel_time() != 0)?;
        seat.counsel().opinion(self.position.key())?.entropy().map(f64::from)
    }
}

impl Searcher {
    /// An evaluation as the search takes it where the strategist has an opinion, of which so much is to be the strategist's.
    pub fn blended(&self, evaluation: Centipawns, opinion: &Opinion, blend: f32) -> Centipawns {
        #[cfg(feature = "tune")]
        self.settings.params.put_in_use();
        Centipawns(drawn(evaluation.0, opinion, blend))
    }
}

/// A value, drawn towards the strategist's. Where one side is as good as winning a chance says little of how much, so that
/// the evaluator has the word there.
fn drawn(raw: Value, opinion: &Opinion, blend: f32) -> Value {
    let Some(told) = opinion.centipawns() else { return raw };
    if use_counsel_value() == 0 || raw.abs() > counsel_value_range() {
        return raw;
    }
    let told = told * counsel_scale() / 100;
    let blend = (blend * 1024.0) as Value;
    let change = ((told - raw) * blend / 1024).clamp(-counsel_value_max(), counsel_value_max());
    (raw + change).clamp(-MAX_EVAL, MAX_EVAL)
}

/// What a policy adds to a quiet move's place in the order.
#[inline]
pub(crate) fn order_bonus(opinion: &Opinion, mv: Move) -> i32 {
    opinion.share(mv).map_or(0, |share| counsel_order() * share.in_1024() / 1024)
}

/// What a policy changes in a move's reduction, in 1/1024 of a ply: what is probable is reduced less, and what is hardly
/// thought of more.
#[inline]
pub(crate) fn reduction_change(opinion: &Opinion, mv: Move) -> i32 {
    if use_counsel_lmr() == 0 {
        return 0;
    }
    let Some(share) = opinion.share(mv) else { return 0 };
    let share = share.in_1024();
    if share < counsel_lmr_doubt_below() { counsel_lmr_doubt() } else { -counsel_lmr_share() * share / 1024 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::Position;
    use tandem_transformer::Prospect;

    #[test]
    fn what_is_probable_comes_earlier_and_is_reduced_less() {
        let moves = Position::startpos().legal_moves();
        let shares = [0.6, 0.3, 0.099, 0.001];
        let policy: Vec<(Move, f32)> = moves.iter().copied().zip(shares).collect();
        let opinion = Opinion::new(None, &policy);
        let of = |change: fn(&Opinion, Move) -> i32| -> Vec<i32> {
            moves[..4].iter().map(|&mv| change(&opinion, mv)).collect()
        };
        assert!(of(order_bonus).is_sorted_by(|more, less| more > less));
        assert!(of(reduction_change).is_sorted_by(|less, more| less < more));
        assert!(reduction_change(&opinion, moves[0]) < 0 && reduction_change(&opinion, moves[3]) > 0);
        // Of other moves nothing is known.
        assert_eq!((order_bonus(&opinion, moves[9]), reduction_change(&opinion, moves[9])), (0, 0));
    }

    #[test]
    fn a_value_is_drawn_towards_the_strategists_but_not_too_far() {
        let opinion = Opinion::new(Some(Prospect::Outcomes { win: 0.6, draw: 0.3, loss: 0.1 }), &[]);
        assert_eq!(opinion.centipawns(), Some(137));
        assert_eq!([0.0, 0.25, 0.5].map(|blend| drawn(37, &opinion, blend)), [37, 62, 87]);
        assert_eq!(drawn(237, &opinion, 0.5), 187);
        // No further than so, and nowhere where a game is as good as decided.
        assert_eq!([drawn(37, &opinion, 1.0), drawn(-700, &opinion, 1.0)], [117, -620]);
        assert_eq!([drawn(801, &opinion, 1.0), drawn(-801, &opinion, 1.0)], [801, -801]);
        assert_eq!(drawn(37, &Opinion::new(None, &[]), 1.0), 37);
    }
}
