//! Iterative deepening: searches to depth 1, 2, 3, …, each within an aspiration window around the last score.
//! Each iteration orders the moves of the next.

use crate::node::Root;
use crate::params::*;
use crate::report::{Info, ScoreBound};
use crate::time::StabilityStats;
use crate::value::*;
use crate::worker::Worker;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tandem_chess::Move;

/// Time for which fail highs and fail lows are not reported, because they come too often at first.
const QUIET_PERIOD: Duration = Duration::from_secs(3);

impl Worker {
    /// Searches deeper and deeper until a limit is met. Only the main thread reports.
    pub(crate) fn deepen(&mut self, multipv: usize, mut report: Option<&mut dyn FnMut(Info)>) {
        let lines = multipv.clamp(1, self.root_moves.len().max(1));
        let max_depth =
            self.limits.depth.map_or(MAX_PLY as i32 - 1, |depth| depth.clamp(1, MAX_PLY as u32 - 1) as i32);
        let mut stable_for = 0;
        let mut last_best = None;
        let mut recent = NONE;

        for depth in 1..=max_depth {
            self.root_depth = depth;
            for root in &mut self.root_moves {
                root.previous = root.score;
            }
            for pv_index in 0..lines {
                self.pv_index = pv_index;
                self.sel_depth = 0;
                self.aspirate(depth, &mut report);
                self.sort_root_moves(0, pv_index + 1);
                if self.stopped {
                    break;
                }
            }
            if self.stopped {
                break;
            }
            // All lines together, once their order is known.
            for index in 0..lines {
                self.report_line(index, ScoreBound::Exact, &mut report);
            }
            self.completed_depth = depth;
            self.publish_counters();
            if self.id != 0 {
                continue;
            }
            self.shared.has_move.store(true, Relaxed);

            // The main thread decides if another iteration begins.
            let best = &self.root_moves[0];
            stable_for = if last_best == Some(best.mv) { stable_for + 1 } else { 0 };
            last_best = Some(best.mv);
            let drop = if recent == NONE { 0 } else { recent - best.score };
            recent = if recent == NONE { best.score } else { (2 * recent + best.score) / 3 };
            let stability = StabilityStats {
                best_move_fraction: best.nodes as f64 / self.nodes.max(1) as f64,
                stable_for,
                drop,
                policy_entropy: self.root_policy_entropy(),
                forced: self.root_moves.len() == 1,
            };
            let score = best.score;
            if self.is_satisfied(score) || self.time.soft_limit_reached(stability) {
                // While pondering the opponent's clock runs: go on until `ponderhit`.
                self.ponder_done = true;
                if !self.shared.signals.is_pondering() {
                    self.stop_all();
                    break;
                }
            }
            if self.shared.signals.is_stopped() {
                break;
            }
        }
        self.publish_counters();
    }

    /// True if the result meets a limit other than the clock: a mate in the wanted number of moves, or the
    /// soft node limit.
    fn is_satisfied(&self, score: Value) -> bool {
        let mate_found = self.limits.mate.is_some_and(|moves| {
            score >= MATE_BOUND && MATE - score <= 2 * i32::try_from(moves).unwrap_or(i32::MAX / 2)
        });
        mate_found || self.limits.soft_nodes.is_some_and(|limit| self.shared.nodes() >= limit)
    }

    /// One iteration of one line, in an aspiration window around the expected score that is widened after
    /// each fail high or low.
    fn aspirate(&mut self, depth: i32, report: &mut Option<&mut dyn FnMut(Info)>) {
        let average = self.root_moves[self.pv_index].average;
        let mut delta = INFINITE;
        let (mut alpha, mut beta) = (-INFINITE, INFINITE);
        if use_aspiration() && depth >= 4 && average != NONE && !is_proven(average) {
            delta = asp_delta() + average * average / asp_score_div();
            alpha = (average - delta).max(-INFINITE);
            beta = (average + delta).min(INFINITE);
        }
        let mut fail_highs = 0;
        loop {
            self.root_delta = beta - alpha;
            let score = self.search::<Root>(alpha, beta, (depth - fail_highs).max(1), 0, false);
            self.sort_root_moves(self.pv_index, self.root_moves.len());
            if self.stopped {
                return;
            }
            let bound = if score <= alpha {
                beta = (alpha + beta) / 2;
                alpha = (score - delta).max(-INFINITE);
                fail_highs = 0;
                ScoreBound::Upper
            } else if score >= beta {
                beta = (score + delta).min(INFINITE);
                fail_highs += 1;
                ScoreBound::Lower
            } else {
                return;
            };
            if self.time.elapsed() >= QUIET_PERIOD {
                self.report_line(self.pv_index, bound, report);
            }
            delta += delta * asp_growth() / 100;
            // Far from zero, or after many failures, a window only costs time.
            if delta > 600 || is_proven(score) {
                delta = INFINITE;
                (alpha, beta) =
                    if bound == ScoreBound::Upper { (-INFINITE, beta) } else { (alpha, INFINITE) };
            }
        }
    }

    /// Sorts the root moves in `from..to` by score; moves without a score keep their order.
    fn sort_root_moves(&mut self, from: usize, to: usize) {
        self.root_moves[from..to]
            .sort_by_key(|root| std::cmp::Reverse((root.tb_rank, root.score, root.previous)));
    }

    fn report_line(&self, index: usize, bound: ScoreBound, report: &mut Option<&mut dyn FnMut(Info)>) {
        let Some(report) = report else { return };
        self.publish_counters();
        report(self.info(index, bound));
    }

    /// True if a root move belongs to the line being searched: it is not the first move of an earlier line
    /// (MultiPV), and its table rank is the best that is left.
    pub(crate) fn is_searched_at_root(&self, mv: Move) -> bool {
        let rest = &self.root_moves[self.pv_index..];
        rest.iter().any(|root| root.mv == mv && root.tb_rank == rest[0].tb_rank)
    }

    /// Records the result of the search of a root move.
    pub(crate) fn record_root_move(&mut self, mv: Move, score: Value, is_best: bool, nodes_before: u64) {
        let nodes = self.nodes - nodes_before;
        let sel_depth = self.sel_depth;
        let pv: Vec<Move> = self.pv_table[1].iter().copied().collect();
        let Some(root) = self.root_moves.iter_mut().find(|root| root.mv == mv) else { return };
        root.nodes += nodes;
        root.average = if root.average == NONE { score } else { (score + root.average) / 2 };
        if is_best {
            root.score = score;
            root.sel_depth = sel_depth;
            root.pv.clear();
            root.pv.push(mv);
            root.pv.extend(pv);
        } else {
            // The search only showed that it is not better than the best, so only its place in the order is
            // kept.
            root.score = -INFINITE;
        }
    }

    /// The report of a line, with the counters of all threads.
    pub(crate) fn info(&self, index: usize, bound: ScoreBound) -> Info {
        let root = &self.root_moves[index];
        Info {
            depth: self.root_depth as u32,
            sel_depth: root.sel_depth as u32,
            multipv: index + 1,
            score: Score::from_value(table_value(root.value(), root.tb_rank)),
            bound,
            nodes: self.shared.nodes(),
            time: self.time.elapsed(),
            hashfull: self.shared.table.permille_used(),
            tb_hits: self.shared.tb_hits(),
            pv: root.pv.clone(),
        }
    }
}

/// Replaces an estimate by the result of the endgame tables where they rank the move.
pub(crate) fn table_value(value: Value, tb_rank: Option<i32>) -> Value {
    match tb_rank {
        None => value,
        Some(_) if is_proven(value) => value,
        Some(900..) => TB_WIN,
        Some(..=-900) => -TB_WIN,
        Some(_) => DRAW,
    }
}
