//! The search proper: principal variation search (PVS) as a sequence of numbered steps.
//!
//! Each step is headed by its name and the acronym used in the literature; the numbers in its conditions are
//! in [`crate::params`], and a switch `use_…` of the tuning build takes a step out to measure its worth.

use crate::history::{PieceTo, Threats};
use crate::history_update::bonus;
use crate::movepick::{MovePicker, is_noisy};
use crate::node::{NodeType, NonPv, Pv};
use crate::params::*;
use crate::strategist_effect::reduction_change;
use crate::syzygy::TableResult;
use crate::tt::{Bound, TtEntry};
use crate::value::*;
use crate::worker::Worker;
use arrayvec::ArrayVec;
use tandem_chess::{Move, Piece, exchange_value};

/// Moves tried before the best one, whose histories get a malus for it. Further moves are not recorded.
type Tried = ArrayVec<Move, 64>;

impl Worker {
    /// Value of the position for the side to move, fail-soft, searched to `depth` plies within `alpha..beta`.
    /// `cut_node` is true where a fail high is expected.
    pub(crate) fn search<N: NodeType>(
        &mut self,
        mut alpha: Value,
        mut beta: Value,
        mut depth: i32,
        ply: usize,
        cut_node: bool,
    ) -> Value {
        // Step 1. Horizon: quiescence search (qsearch) instead of full-width search.
        if depth <= 0 {
            return if N::PV {
                self.quiesce::<Pv>(alpha, beta, ply)
            } else {
                self.quiesce::<NonPv>(alpha, beta, ply)
            };
        }
        depth = depth.min(MAX_PLY as i32 - 1);

        if N::PV {
            self.pv_table[ply].clear();
            self.sel_depth = self.sel_depth.max(ply + 1);
        }

        // Step 2. Upcoming repetition: the side to move can force a repetition, so it has at least a draw.
        if !N::ROOT {
            alpha = self.raise_to_repetition(alpha, ply);
            if alpha >= beta {
                return alpha;
            }
        }

        if self.should_stop() {
            return DRAW;
        }
        let in_check = self.position.in_check();
        if !N::ROOT {
            // Step 3. Draw by rule, or the longest line that the search follows.
            if let Some(score) = self.end_of_line(ply) {
                return score;
            }
            // Step 4. Mate distance pruning (MDP): a shorter mate is already found, or no move here can be
            // worse than being mated now.
            if use_mate_distance() {
                alpha = alpha.max(mated_in(ply));
                beta = beta.min(mate_in(ply + 1));
                if alpha >= beta {
                    return alpha;
                }
            }
        }

        let us = self.position.side_to_move();
        let excluded = self.stack[ply].excluded;
        self.stack[ply + 1].excluded = None;
        self.stack[ply + 2].cutoffs = 0;
        let prior_reduction = std::mem::take(&mut self.stack[ply].reduction);

        // Step 5. Transposition table (TT) lookup. Two positions may share a key, so the TT move is used only
        // if it is legal.
        let key = self.position.key();
        let entry = self.shared.table.probe(key, ply);
        let mut tt_move = entry.and_then(|entry| entry.mv).filter(|&mv| self.position.board().is_legal(mv));
        if !use_tt_move() {
            tt_move = None;
        }
        if N::ROOT {
            tt_move = Some(self.root_moves[self.pv_index].mv);
        }
        let tt_score = entry.map_or(NONE, |entry| entry.score);
        let tt_depth = entry.map_or(-100, |entry| entry.depth);
        let tt_bound = entry.map_or(Bound::None, |entry| entry.bound);
        let tt_noisy = tt_move.is_some_and(|mv| is_noisy(&self.position, mv));
        if excluded.is_none() {
            self.stack[ply].tt_pv = N::PV || entry.is_some_and(|entry| entry.pv);
        }
        let tt_pv = self.stack[ply].tt_pv;

        // Step 6. TT cutoff: the entry is deep enough and its bound proves a fail high or a fail low.
        if !N::PV
            && excluded.is_none()
            && use_tt_cutoff()
            && tt_score != NONE
            && tt_depth > depth - i32::from(tt_score <= beta)
            && tt_bound.proves(tt_score, beta)
            && (cut_node == (tt_score >= beta) || depth > tt_cutoff_depth())
        {
            if tt_score >= beta
                && let Some(mv) = tt_move
                && !tt_noisy
            {
                let threats = Threats::of(&self.position);
                let bonus_value = bonus(depth, quiet_bonus(), quiet_bonus_base(), quiet_bonus_max());
                self.update_quiet_history(mv, &threats, bonus_value);
            }
            // Near the fifty-move rule a score from another path through the game may be wrong.
            if self.position.board().halfmove_clock() < 90 {
                return tt_score;
            }
        }

        // Step 7. Tablebases (TB, Syzygy): an exact result, or a bound at PV nodes.
        let mut best_score = -INFINITE;
        let mut max_score = INFINITE;
        if !N::ROOT
            && excluded.is_none()
            && let Some(result) = self.probe_tables(depth)
        {
            let (score, bound) = match result {
                TableResult::Win => (TB_WIN - ply as Value, Bound::Lower),
                TableResult::Loss => (ply as Value - TB_WIN, Bound::Upper),
                TableResult::Draw => (self.draw_value(), Bound::Exact),
            };
            if bound == Bound::Exact
                || bound.proves(score, if bound == Bound::Lower { beta } else { alpha + 1 })
            {
                let entry = TtEntry { mv: None, score, eval: NONE, depth: depth + 6, bound, pv: tt_pv };
                self.shared.table.store(key, ply, entry);
                return score;
            }
            if N::PV {
                if bound == Bound::Lower {
                    best_score = score;
                    alpha = alpha.max(score);
                } else {
                    max_score = score;
                }
            }
        }

        // Strategist, if there is one: its cached evaluation, or a query that may be answered later.
        let strategist_eval = self.query_strategist::<N>(depth, ply, excluded.is_none());

        // Step 8. Static evaluation: from the TT entry or the evaluator, blended with the strategist's,
        // adjusted by correction history, and replaced by the TT score where its bound is tighter.
        let correction = self.histories.correction(&self.position, &self.continuation_stack);
        let mut raw_eval = NONE;
        let (static_eval, eval) = if in_check {
            (NONE, NONE)
        } else if excluded.is_some() {
            (self.stack[ply].static_eval, self.stack[ply].static_eval)
        } else {
            raw_eval = match entry {
                Some(entry) if entry.eval != NONE => entry.eval,
                _ => self.raw_eval(),
            };
            let blended =
                strategist_eval.as_ref().map_or(raw_eval, |strategist| self.blend_eval(raw_eval, strategist));
            let static_eval = self.adjusted_eval(blended, correction);
            let trusted =
                tt_score != NONE && !is_proven(tt_score) && tt_bound.proves(tt_score, static_eval + 1);
            (static_eval, if trusted { tt_score } else { static_eval })
        };
        self.stack[ply].static_eval = static_eval;
        if !in_check && excluded.is_none() && entry.is_none() {
            let entry =
                TtEntry { mv: None, score: NONE, eval: raw_eval, depth: -6, bound: Bound::None, pv: tt_pv };
            self.shared.table.store(key, ply, entry);
        }

        // `improving`: our static evaluation has risen since our last move; `opponent_worsening`: the
        // opponent's has fallen.
        let eval_before = |back: usize| ply.checked_sub(back).map_or(NONE, |ply| self.stack[ply].static_eval);
        let improving = !in_check
            && use_improving()
            && match (eval_before(2), eval_before(4)) {
                (NONE, NONE) => true,
                (NONE, before) | (before, _) => static_eval > before,
            };
        let opponent_worsening = !in_check && eval_before(1) != NONE && static_eval > -eval_before(1);

        // Step 9. Hindsight: extends if the reduction that led here looks wrong now, and reduces further if
        // it looks too small.
        if use_hindsight() && !in_check && excluded.is_none() && eval_before(1) != NONE {
            if prior_reduction >= hindsight_plies() && !opponent_worsening {
                depth += 1;
            } else if prior_reduction >= 1 && depth >= 2 && static_eval + eval_before(1) > hindsight_margin()
            {
                depth -= 1;
            }
        }

        let has_pieces = {
            let board = self.position.board();
            !(board.colors(us) & !(board.pieces(Piece::Pawn) | board.pieces(Piece::King))).is_empty()
        };

        if !N::PV && !in_check && excluded.is_none() {
            // Step 10. Reverse futility pruning (RFP, static null move pruning): the evaluation is so far
            // above beta that a shallow search will not bring it below.
            let margin = (rfp_margin() * depth
                - rfp_improving() * i32::from(improving)
                - rfp_worsening() * i32::from(opponent_worsening)
                + correction.abs() * rfp_complexity() / 100)
                .max(rfp_min_margin());
            if use_rfp()
                && depth <= rfp_depth()
                && !tt_pv
                && eval >= beta + margin
                && (tt_move.is_none() || tt_noisy)
                && !is_loss(beta)
                && !is_win(eval)
            {
                return beta + (eval - beta) / 3;
            }

            // Step 11. Null move pruning (NMP): if passing the turn still holds beta, a move will too. Not in
            // pawn endings, because of zugzwang.
            if use_nmp()
                && cut_node
                && has_pieces
                && eval >= beta
                && static_eval >= beta - nmp_margin_depth() * depth + nmp_margin()
                && ply >= self.null_min_ply
                && !is_loss(beta)
                && ply > 0
                && self.stack[ply - 1].mv.is_some()
                && let Some(score) = self.try_null_move(beta, depth, ply, eval)
            {
                return score;
            }
        }

        // Step 12. Internal iterative reduction (IIR): without a TT move, or with one from a much shallower
        // search, a search one ply shallower finds a move more cheaply.
        let stale = cut_node && depth >= iir_stale_depth() && tt_depth + iir_stale_plies() < depth;
        if use_iir()
            && (N::PV || cut_node)
            && depth >= iir_depth()
            && excluded.is_none()
            && (tt_move.is_none() || stale)
        {
            depth -= 1;
        }

        // Step 13. ProbCut: a good capture that beats beta by a margin in a shallow search will beat beta in
        // a deep one.
        let probcut_beta = beta + probcut_margin() - probcut_improving() * i32::from(improving);
        if use_probcut()
            && !N::PV
            && !in_check
            && excluded.is_none()
            && depth >= probcut_depth()
            && !is_proven(beta)
            && !(tt_score != NONE && tt_depth >= depth - probcut_plies() && tt_score < probcut_beta)
            && let Some(score) =
                self.try_probcut(probcut_beta, depth, ply, cut_node, raw_eval, tt_move, static_eval)
        {
            return if is_proven(score) { score } else { score - (probcut_beta - beta) };
        }
        // Step 14. Small ProbCut: the TT entry alone shows that, by a larger margin.
        let small_beta = beta + probcut_small_margin();
        if use_probcut()
            && !N::PV
            && tt_bound.is_lower()
            && tt_depth >= depth - probcut_small_plies()
            && tt_score >= small_beta
            && excluded.is_none()
            && !is_proven(beta)
            && !is_proven(tt_score)
        {
            return small_beta;
        }

        // Step 15. Move loop, in the order of the move picker.
        let threats = Threats::of(&self.position);
        self.stack[ply].threats = threats.all;
        let first = tt_move.or_else(|| self.top_move(strategist_eval.as_deref()));
        let mut picker = MovePicker::all(first);
        picker.set_strategist_eval(strategist_eval.as_deref());
        let mut best_move = None;
        let mut move_count = 0;
        let mut quiets = Tried::new();
        let mut noisies = Tried::new();
        let mut alpha_raised = 0;
        let start_alpha = alpha;

        // Futility of all quiets: if even a quiet move with a good history would stay below alpha, only
        // quiets that give check are generated.
        let futile_score =
            static_eval + futility_base() + futility_margin() * (depth - 1) + quiets_futile_margin();
        let quiets_futile = use_futility()
            && !N::PV
            && !in_check
            && depth <= quiets_futile_depth()
            && excluded.is_none()
            && futile_score <= alpha
            && !is_loss(alpha);
        if quiets_futile {
            picker.only_checks();
            best_score = best_score.max(futile_score);
        }

        while let Some(mv) = {
            let context = self.quiet_context(&threats);
            picker.next(&self.position, &self.histories, &context)
        } {
            if Some(mv) == excluded {
                continue;
            }
            if N::ROOT && !self.is_searched_at_root(mv) {
                continue;
            }
            move_count += 1;
            self.stack[ply].move_count = move_count;

            let noisy = is_noisy(&self.position, mv);
            let piece = self.moving_piece(mv);
            let captured = self.position.captured_by(mv);
            let history = match captured {
                Some(victim) => self.histories.capture(us, piece, mv.to, victim),
                None => self.histories.quiet_history(&self.quiet_context(&threats), mv, piece),
            };
            let mut new_depth = depth - 1;
            let mut reduction = self.logarithms.reduction(depth, move_count, noisy);

            // Step 16. Pruning at shallow depth, once a move that does not lose is known.
            if !N::ROOT && has_pieces && !is_loss(best_score) {
                // Late move pruning (LMP, move count pruning): the picker has put the good moves first.
                let late = lmp_base() + lmp_factor() * depth * depth / if improving { 100 } else { 200 };
                if use_lmp() && move_count as i32 >= late {
                    picker.skip_quiets();
                }
                let lmr_depth = (new_depth - reduction / 1024).max(0);
                if noisy {
                    let gain = captured.map_or(0, exchange_value);
                    // Futility pruning of captures.
                    if use_futility()
                        && lmr_depth < capture_futility_depth()
                        && !in_check
                        && static_eval
                            + capture_futility_base()
                            + capture_futility_margin() * lmr_depth
                            + gain
                            + history / capture_futility_history()
                            <= alpha
                        && !self.position.gives_check(mv)
                    {
                        continue;
                    }
                    // Static exchange evaluation (SEE) pruning of captures that lose material.
                    let margin = see_noisy() * depth + history / see_noisy_history();
                    if use_see_pruning() && picker.in_bad_noisy() && !self.position.see_ge(mv, -margin.max(0))
                    {
                        continue;
                    }
                } else {
                    // History pruning.
                    if use_history_pruning()
                        && lmr_depth < history_prune_depth()
                        && history < -history_prune() * depth
                    {
                        continue;
                    }
                    let lmr_depth = (lmr_depth + history / history_ply()).max(0);
                    // Futility pruning of quiet moves.
                    let futility = static_eval
                        + futility_base()
                        + futility_margin() * lmr_depth
                        + history / futility_history().max(1);
                    if use_futility()
                        && !in_check
                        && lmr_depth < futility_depth()
                        && futility <= alpha
                        && !self.position.gives_check(mv)
                    {
                        if best_score <= futility && !is_proven(best_score) {
                            best_score = futility.min(MAX_EVAL);
                        }
                        picker.only_checks();
                        continue;
                    }
                    // SEE pruning of quiet moves.
                    if use_see_pruning() && !self.position.see_ge(mv, -see_quiet() * lmr_depth * lmr_depth) {
                        continue;
                    }
                }
            }

            // Step 17. Singular extension (SE): extends the TT move if all others fail low below its score by
            // a margin, by two or three plies if they fail far below (double and triple extension).
            let mut extension = 0;
            if !N::ROOT
                && use_singular()
                && Some(mv) == tt_move
                && excluded.is_none()
                && depth >= singular_depth() + i32::from(tt_pv)
                && tt_depth >= depth - singular_plies()
                && tt_bound.is_lower()
                && tt_score != NONE
                && !is_proven(tt_score)
                && ply < 2 * self.root_depth as usize
            {
                let margin =
                    (singular_margin() + singular_pv_margin() * i32::from(tt_pv && !N::PV)) * depth / 60;
                let singular_beta = tt_score - margin;
                self.stack[ply].excluded = Some(mv);
                let score =
                    self.search::<NonPv>(singular_beta - 1, singular_beta, new_depth / 2, ply, cut_node);
                self.stack[ply].excluded = None;
                self.stack[ply].move_count = move_count;
                if self.stopped {
                    return DRAW;
                }
                if score < singular_beta {
                    extension = 1;
                    if use_double_extension() {
                        let pv = i32::from(N::PV);
                        extension +=
                            i32::from(score < singular_beta - double_margin() - double_pv_margin() * pv);
                        extension += i32::from(
                            score
                                < singular_beta
                                    - triple_margin()
                                    - triple_pv_margin() * pv
                                    - triple_noisy_margin() * i32::from(noisy),
                        );
                        extension = extension.min(3);
                    }
                } else if use_multicut() && score >= beta && !is_proven(score) {
                    // Multi-cut: beta is beaten even without the TT move. Otherwise a negative extension,
                    // because several moves are good.
                    return score;
                } else if use_negative_extension() {
                    if tt_score >= beta {
                        extension = -3 + i32::from(N::PV);
                    } else if cut_node {
                        extension = -2;
                    }
                }
            }
            new_depth += extension;

            // Step 18. Make the move.
            let nodes_before = self.nodes;
            self.make(mv, ply);
            let gives_check = self.position.in_check();

            // Step 19. Late move reductions (LMR): a move that is unlikely to be best is searched at reduced
            // depth first. The reduction is in 1/1024 of a ply.
            reduction += lmr_offset();
            if !improving {
                reduction += lmr_improving();
            }
            if cut_node {
                reduction += lmr_cut_node() + lmr_cut_no_tt() * i32::from(tt_move.is_none());
            }
            if tt_pv {
                reduction -= lmr_tt_pv()
                    + lmr_tt_pv_score() * i32::from(tt_score != NONE && tt_score > alpha)
                    + lmr_tt_pv_depth() * i32::from(tt_depth >= depth);
            }
            if N::PV {
                reduction -= lmr_pv() + lmr_window() * (beta - alpha) / self.root_delta.max(1);
            }
            if tt_noisy && !noisy {
                reduction += lmr_tt_noisy();
            }
            if self.stack[ply + 1].cutoffs > lmr_cutoffs_above() as u32 {
                reduction += lmr_cutoffs();
            }
            if gives_check {
                reduction -= lmr_check();
            }
            reduction += lmr_alpha_raised() * alpha_raised;
            if let Some(strategist_eval) = &strategist_eval {
                reduction += reduction_change(strategist_eval, mv);
            }
            reduction -= correction.abs() * lmr_correction();
            reduction -= history * if noisy { lmr_noisy_history() } else { lmr_quiet_history() } / 100;

            let mut score = alpha;
            let mut full_search = !N::PV || move_count > 1;
            if use_lmr() && depth >= 2 && move_count > 1 + usize::from(N::ROOT) {
                let reduced = (new_depth - reduction / 1024).clamp(1, new_depth.max(1) + i32::from(N::PV));
                self.stack[ply + 1].reduction = new_depth - reduced;
                score = -self.search::<NonPv>(-alpha - 1, -alpha, reduced, ply + 1, true);
                self.stack[ply + 1].reduction = 0;
                full_search = false;
                if score > alpha && reduced < new_depth {
                    // The reduced search failed high: its score decides if the full search goes deeper or
                    // shallower.
                    let deeper = score > best_score + deeper_base() + deeper_depth() * new_depth;
                    let shallower = score < best_score + shallower_margin();
                    new_depth += i32::from(deeper) - i32::from(shallower);
                    full_search = new_depth > reduced;
                    if !noisy {
                        let moved = PieceTo::new(us, piece, mv.to);
                        let bonus_value = post_lmr_bonus() * depth;
                        let before = self.continuation_stack.len() - 1;
                        self.histories.update_continuation(
                            &self.continuation_stack[..before],
                            moved,
                            bonus_value.min(post_lmr_bonus_max()),
                        );
                    }
                }
            }
            // Step 20. Full-depth search with a null window, where the reduced search failed high or there
            // was none.
            if full_search {
                score = -self.search::<NonPv>(-alpha - 1, -alpha, new_depth, ply + 1, !cut_node);
            }
            // Step 21. Full-depth search with an open window (PVS), for the first move and for one that
            // raises alpha.
            if N::PV && (move_count == 1 || score > alpha) {
                // The TT move is not dropped straight into quiescence.
                if Some(mv) == tt_move && self.root_depth > 8 && tt_depth > 1 {
                    new_depth = new_depth.max(1);
                }
                score = -self.search::<Pv>(-beta, -alpha, new_depth, ply + 1, false);
            }

            // Step 22. Unmake the move.
            self.unmake();
            if self.stopped {
                return DRAW;
            }
            if N::ROOT {
                self.record_root_move(mv, score, move_count == 1 || score > alpha, nodes_before);
            }

            // Step 23. Update best score, alpha and principal variation; stop on a fail high (beta cutoff).
            if score > best_score {
                best_score = score;
                if score > alpha {
                    best_move = Some(mv);
                    if N::PV {
                        self.update_pv(ply, mv);
                    }
                    if score >= beta {
                        self.stack[ply].cutoffs += 1 + u32::from(tt_move.is_none());
                        break;
                    }
                    alpha = score;
                    alpha_raised += 1;
                }
            }
            if Some(mv) != best_move {
                let tried = if noisy { &mut noisies } else { &mut quiets };
                let _ = tried.try_push(mv);
            }
        }

        // Step 24. No legal move: checkmate or stalemate, unless moves were left out.
        if move_count == 0 && !(quiets_futile && self.position.has_legal_move()) {
            return match excluded {
                Some(_) => alpha,
                None if in_check => mated_in(ply),
                None => self.draw_value(),
            };
        }

        // Step 25. History update: a bonus for the best move, a malus for the moves tried before it.
        if let Some(mv) = best_move {
            let depth = depth + i32::from(best_score > beta + fail_high_margin());
            self.update_histories(mv, depth, &threats, &quiets, &noisies);
        } else if !N::ROOT
            && let Some(prior) = self.stack[ply - 1].mv
            && self.continuation_stack.last().is_some_and(|last| last.is_some_and(|last| !last.noisy))
        {
            // All moves failed low, so the opponent's move before was a good one and gets a bonus.
            let scale = 100
                + prior_late() * i32::from(self.stack[ply - 1].move_count > 6)
                + prior_deep() * i32::from(depth > 5);
            let bonus_value =
                bonus(depth, prior_bonus(), prior_bonus_base(), prior_bonus_max()) * scale / 100;
            let before = self.continuation_stack.len() - 1;
            if let Some(Some(last)) = self.continuation_stack.last().copied() {
                self.histories.update_continuation(
                    &self.continuation_stack[..before],
                    last.moved,
                    bonus_value,
                );
            }
            self.histories.update_butterfly(!us, self.stack[ply - 1].threats, prior, bonus_value / 2);
        }

        // Step 26. TT store.
        if N::PV {
            best_score = best_score.min(max_score);
        }
        if best_score <= start_alpha && ply > 0 {
            self.stack[ply].tt_pv = tt_pv || (self.stack[ply - 1].tt_pv && depth > 3);
        }
        let bound = if best_score >= beta {
            Bound::Lower
        } else if N::PV && best_move.is_some() {
            Bound::Exact
        } else {
            Bound::Upper
        };
        // With a move excluded, or only some root moves searched, the score is not the position's.
        let is_complete =
            excluded.is_none() && !(N::ROOT && (self.pv_index > 0 || !self.limits.search_moves.is_empty()));
        if is_complete {
            let entry = TtEntry {
                mv: best_move,
                score: best_score,
                eval: raw_eval,
                depth,
                bound,
                pv: self.stack[ply].tt_pv,
            };
            self.shared.table.store(key, ply, entry);
        }

        // Step 27. Correction history update: learns the error of the static evaluation, unless a capture
        // explains it. The strategist's part of the evaluation is left out, because its errors are not the
        // evaluator's.
        if is_complete && !in_check && best_move.is_none_or(|mv| !is_noisy(&self.position, mv)) {
            let unblended_eval = match strategist_eval {
                Some(_) => self.adjusted_eval(raw_eval, correction),
                None => static_eval,
            };
            if !(bound == Bound::Lower && best_score <= unblended_eval
                || bound == Bound::Upper && best_score >= unblended_eval)
            {
                self.histories.update_correction(
                    &self.position,
                    &self.continuation_stack,
                    best_score - unblended_eval,
                    depth,
                );
            }
        }
        best_score
    }
}
