//! Cheap probes before the move loop: endgame tables, null move pruning (NMP) and ProbCut.

use crate::history::NO_THREATS;
use crate::movepick::MovePicker;
use crate::node::NonPv;
use crate::params::*;
use crate::syzygy::TableResult;
use crate::tt::{Bound, TtEntry};
use crate::value::*;
use crate::worker::Worker;
use tandem_chess::Move;

impl Worker {
    /// Result of the endgame tables, if they have the position and the remaining depth makes a probe
    /// worthwhile.
    pub(crate) fn probe_tables(&mut self, depth: i32) -> Option<TableResult> {
        let tables = self.shared.tablebases.as_ref()?;
        let pieces = self.position.board().occupied().len();
        if pieces > tables.max_pieces()
            || (pieces == tables.max_pieces() && depth < self.shared.tb_probe_depth)
        {
            return None;
        }
        let result = tables.probe(&self.position)?;
        self.tb_hits += 1;
        Some(result)
    }

    /// Null move pruning (NMP): gives the opponent a free move. Returns a score if even then beta holds.
    pub(crate) fn try_null_move(
        &mut self,
        beta: Value,
        depth: i32,
        ply: usize,
        eval: Value,
    ) -> Option<Value> {
        let reduction =
            nmp_base() + depth / nmp_depth_div() + ((eval - beta) / nmp_eval_div()).min(nmp_eval_max());
        self.make_null(ply);
        let score = -self.search::<NonPv>(-beta, -beta + 1, depth - reduction, ply + 1, false);
        self.unmake();
        if self.stopped {
            return Some(DRAW);
        }
        if score < beta || is_win(score) {
            return None;
        }
        if self.null_min_ply > 0 || depth < nmp_verify_depth() {
            return Some(score);
        }
        // At high depth the result is verified because of zugzwang: the same search, without null moves near
        // the root.
        self.null_min_ply = ply + (3 * (depth - reduction).max(0) / 4) as usize;
        let verified = self.search::<NonPv>(beta - 1, beta, depth - reduction, ply, false);
        self.null_min_ply = 0;
        (verified >= beta).then_some(score)
    }

    /// ProbCut: the score of a capture that beats `probcut_beta` in a shallow search, if there is one.
    #[expect(clippy::too_many_arguments, reason = "all of it is the node's state")]
    pub(crate) fn try_probcut(
        &mut self,
        probcut_beta: Value,
        depth: i32,
        ply: usize,
        cut_node: bool,
        raw_eval: Value,
        tt_move: Option<Move>,
        static_eval: Value,
    ) -> Option<Value> {
        let mut picker = MovePicker::winning(&self.position, tt_move, probcut_beta - static_eval);
        let probcut_depth = (depth - 4).max(0);
        while let Some(mv) = {
            let context = self.quiet_context(&NO_THREATS);
            picker.next(&self.position, &self.histories, &context)
        } {
            self.make(mv, ply);
            let mut score = -self.quiesce::<NonPv>(-probcut_beta, -probcut_beta + 1, ply + 1);
            if score >= probcut_beta && probcut_depth > 0 {
                score = -self.search::<NonPv>(
                    -probcut_beta,
                    -probcut_beta + 1,
                    probcut_depth,
                    ply + 1,
                    !cut_node,
                );
            }
            self.unmake();
            if self.stopped {
                return Some(DRAW);
            }
            if score >= probcut_beta {
                let entry = TtEntry {
                    mv: Some(mv),
                    score,
                    eval: raw_eval,
                    depth: probcut_depth + 1,
                    bound: Bound::Lower,
                    pv: self.stack[ply].tt_pv,
                };
                self.shared.table.store(self.position.key(), ply, entry);
                return Some(score);
            }
        }
        None
    }
}
