//! Quiescence search (qsearch) beyond the horizon: captures and promotions only, until the position is quiet
//! enough for a static evaluation.

use crate::history::{NO_THREATS, Threats};
use crate::movepick::{MovePicker, is_noisy};
use crate::node::NodeType;
use crate::params::*;
use crate::tt::{Bound, TtEntry};
use crate::value::*;
use crate::worker::Worker;
use tandem_chess::exchange_value;

impl Worker {
    /// Value of the position if only captures and promotions are searched, or all evasions in check.
    pub(crate) fn quiesce<N: NodeType>(&mut self, mut alpha: Value, beta: Value, ply: usize) -> Value {
        if N::PV {
            self.pv_table[ply].clear();
            self.sel_depth = self.sel_depth.max(ply + 1);
        }
        alpha = self.raise_to_repetition(alpha, ply);
        if alpha >= beta {
            return alpha;
        }
        if self.should_stop() {
            return DRAW;
        }
        let in_check = self.position.in_check();
        if let Some(score) = self.end_of_line(ply) {
            return score;
        }

        let key = self.position.key();
        // Transposition table (TT) lookup and cutoff.
        let entry = if use_qs_tt() { self.shared.table.probe(key, ply) } else { None };
        let tt_pv = N::PV || entry.is_some_and(|entry| entry.pv);
        if !N::PV
            && let Some(entry) = entry
            && entry.score != NONE
            && entry.bound.proves(entry.score, beta)
        {
            return entry.score;
        }
        let tt_move = entry.and_then(|entry| entry.mv).filter(|&mv| self.position.board().is_legal(mv));

        // Stand pat: the side to move need not capture.
        let mut raw_eval = NONE;
        let mut best_score = mated_in(ply);
        let mut futility = -INFINITE;
        if !in_check {
            raw_eval = match entry {
                Some(entry) if entry.eval != NONE => entry.eval,
                _ => self.raw_eval(),
            };
            let correction = self.histories.correction(&self.position, &self.continuation_stack);
            let static_eval = self.adjusted_eval(raw_eval, correction);
            best_score = match entry {
                Some(entry)
                    if entry.score != NONE
                        && !is_proven(entry.score)
                        && entry.bound.proves(entry.score, static_eval + 1) =>
                {
                    entry.score
                }
                _ => static_eval,
            };
            if best_score >= beta {
                if !is_proven(best_score) {
                    best_score = (best_score + beta) / 2;
                }
                if entry.is_none() {
                    let entry = TtEntry {
                        mv: None,
                        score: best_score,
                        eval: raw_eval,
                        depth: -2,
                        bound: Bound::Lower,
                        pv: false,
                    };
                    self.shared.table.store(key, ply, entry);
                }
                return best_score;
            }
            alpha = alpha.max(best_score);
            futility = static_eval + qs_futility();
        }

        let mut picker =
            if in_check { MovePicker::all(tt_move) } else { MovePicker::noisy(&self.position, tt_move) };
        let threats = if in_check { Threats::of(&self.position) } else { NO_THREATS };
        let mut best_move = None;
        while let Some(mv) = {
            let context = self.quiet_context(&threats);
            picker.next(&self.position, &self.histories, &context)
        } {
            if !is_loss(best_score) {
                if in_check {
                    // An evasion is known already; further quiet ones are not worth their time.
                    if !is_noisy(&self.position, mv) {
                        picker.skip_quiets();
                        continue;
                    }
                } else if futility <= alpha && mv.promotion.is_none() && !self.position.gives_check(mv) {
                    // Futility pruning: not even the captured piece raises the evaluation to alpha.
                    let gain = self.position.captured_by(mv).map_or(0, exchange_value);
                    let futility_score = futility + gain;
                    if use_qs_see() && futility_score <= alpha {
                        best_score = best_score.max(futility_score.min(MAX_EVAL));
                        continue;
                    }
                    if use_qs_see() && !self.position.see_ge(mv, 1) {
                        best_score = best_score.max(futility.min(MAX_EVAL));
                        continue;
                    }
                }
                // SEE pruning: the exchange loses material.
                if use_qs_see() && !self.position.see_ge(mv, qs_see()) {
                    continue;
                }
            }

            self.make(mv, ply);
            let score = -self.quiesce::<N>(-beta, -alpha, ply + 1);
            self.unmake();
            if self.stopped {
                return DRAW;
            }

            if score > best_score {
                best_score = score;
                if score > alpha {
                    best_move = Some(mv);
                    if N::PV {
                        self.update_pv(ply, mv);
                    }
                    if score >= beta {
                        break;
                    }
                    alpha = score;
                }
            }
        }

        if best_score >= beta && !is_proven(best_score) {
            best_score = (best_score + beta) / 2;
        }
        let bound = if best_score >= beta { Bound::Lower } else { Bound::Upper };
        let entry = TtEntry {
            mv: best_move,
            score: best_score,
            eval: raw_eval,
            depth: if in_check { 0 } else { -1 },
            bound,
            pv: tt_pv,
        };
        self.shared.table.store(key, ply, entry);
        best_score
    }
}
