//! The search proper: principal variation search with everything that lets it look away from what does not matter.

use crate::counsel::reduction_change;
use crate::credit::bonus;
use crate::history::{PieceTo, Threats};
use crate::movepick::{MovePicker, is_noisy};
use crate::params::*;
use crate::syzygy::TableResult;
use crate::tt::{Bound, Entry};
use crate::value::*;
use crate::worker::Worker;
use arrayvec::ArrayVec;
use tandem_chess::{Move, Piece, exchange_value};

/// What kind of node is searched, known when the code is compiled.
pub(crate) trait NodeType {
    /// Searched with an open window.
    const PV: bool;
    /// The position the search was asked about.
    const ROOT: bool;
}

pub(crate) struct Root;
pub(crate) struct Pv;
pub(crate) struct NonPv;

impl NodeType for Root {
    const PV: bool = true;
    const ROOT: bool = true;
}

impl NodeType for Pv {
    const PV: bool = true;
    const ROOT: bool = false;
}

impl NodeType for NonPv {
    const PV: bool = false;
    const ROOT: bool = false;
}

/// Moves tried before the best one, whose record suffers from it.
type Tried = ArrayVec<Move, 64>;

impl Worker {
    /// The value of the position within the window, to the given depth.
    pub(crate) fn search<N: NodeType>(
        &mut self,
        mut alpha: Value,
        mut beta: Value,
        mut depth: i32,
        ply: usize,
        cut_node: bool,
    ) -> Value {
        // Step 1. At the horizon, only captures are looked at.
        if depth <= 0 {
            return if N::PV {
                self.quiesce::<Pv>(alpha, beta, ply)
            } else {
                self.quiesce::<NonPv>(alpha, beta, ply)
            };
        }
        depth = depth.min(MAX_PLY as i32 - 1);

        if N::PV {
            self.lines[ply].clear();
            self.sel_depth = self.sel_depth.max(ply + 1);
        }

        // Step 2. The side to move can force a repetition: it has at least a draw.
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
            // Step 3. Draws, and lines that are too long.
            if let Some(score) = self.end_of_line(ply) {
                return score;
            }
            // Step 4. Mate distance: a quicker mate is already found, or nothing here can be worse than being mated.
            if use_mate_distance() != 0 {
                alpha = alpha.max(mated_in(ply));
                beta = beta.min(mate_in(ply + 1));
                if alpha >= beta {
                    return alpha;
                }
            }
        }

        let us = self.position.side_to_move();
        let excluded = self.frames[ply].excluded;
        self.frames[ply + 1].excluded = None;
        self.frames[ply + 2].cutoffs = 0;
        let prior_reduction = std::mem::take(&mut self.frames[ply].reduction);

        // Step 5. What the table knows. Its move is not trusted before it is seen to be legal.
        let key = self.position.key();
        let entry = self.shared.table.probe(key, ply);
        let mut tt_move = entry.and_then(|entry| entry.mv).filter(|&mv| self.position.board().is_legal(mv));
        if use_tt_move() == 0 {
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
            self.frames[ply].tt_pv = N::PV || entry.is_some_and(|entry| entry.pv);
        }
        let tt_pv = self.frames[ply].tt_pv;

        // Step 6. The table may settle the matter.
        if !N::PV
            && excluded.is_none()
            && use_tt_cutoff() != 0
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
                let credit = bonus(depth, quiet_bonus(), quiet_bonus_base(), quiet_bonus_max());
                self.reward_quiet(mv, &threats, credit);
            }
            // Near the fifty-move rule a score from another path through the game may be wrong.
            if self.position.board().halfmove_clock() < 90 {
                return tt_score;
            }
        }

        // Step 7. Endgame tables.
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
                let entry = Entry { mv: None, score, eval: NONE, depth: depth + 6, bound, pv: tt_pv };
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

        // The second mind, if there is one: what it has said of the position, or a question to it.
        let opinion = self.consult::<N>(depth, ply, excluded.is_none());

        // Step 8. Static evaluation, corrected by the second mind, by experience, and by the table where it knows better.
        let correction = self.histories.correction(&self.position, &self.line);
        let mut raw_eval = NONE;
        let (static_eval, eval) = if in_check {
            (NONE, NONE)
        } else if excluded.is_some() {
            (self.frames[ply].static_eval, self.frames[ply].static_eval)
        } else {
            raw_eval = match entry {
                Some(entry) if entry.eval != NONE => entry.eval,
                _ => self.raw_eval(),
            };
            let judged = opinion.as_ref().map_or(raw_eval, |opinion| self.counselled(raw_eval, opinion));
            let static_eval = self.adjusted_eval(judged, correction);
            let trusted =
                tt_score != NONE && !is_proven(tt_score) && tt_bound.proves(tt_score, static_eval + 1);
            (static_eval, if trusted { tt_score } else { static_eval })
        };
        self.frames[ply].static_eval = static_eval;
        if !in_check && excluded.is_none() && entry.is_none() {
            let entry =
                Entry { mv: None, score: NONE, eval: raw_eval, depth: -6, bound: Bound::None, pv: tt_pv };
            self.shared.table.store(key, ply, entry);
        }

        // Whether things get better for us from move to move, or worse for the enemy.
        let eval_before =
            |back: usize| ply.checked_sub(back).map_or(NONE, |ply| self.frames[ply].static_eval);
        let improving = !in_check
            && use_improving() != 0
            && match (eval_before(2), eval_before(4)) {
                (NONE, NONE) => true,
                (NONE, before) | (before, _) => static_eval > before,
            };
        let opponent_worsening = !in_check && eval_before(1) != NONE && static_eval > -eval_before(1);

        // Step 9. Hindsight: was the reduction that led here right?
        if use_hindsight() != 0 && !in_check && excluded.is_none() && eval_before(1) != NONE {
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
            // Step 10. Reverse futility: so far above beta that a shallow search will not bring it below.
            let margin = (rfp_margin() * depth
                - rfp_improving() * i32::from(improving)
                - rfp_worsening() * i32::from(opponent_worsening)
                + correction.abs() * rfp_complexity() / 100)
                .max(rfp_least());
            if use_rfp() != 0
                && depth <= rfp_depth()
                && !tt_pv
                && eval >= beta + margin
                && (tt_move.is_none() || tt_noisy)
                && !is_loss(beta)
                && !is_win(eval)
            {
                return beta + (eval - beta) / 3;
            }

            // Step 11. Null move: if passing still holds beta, a move surely would.
            if use_nmp() != 0
                && cut_node
                && has_pieces
                && eval >= beta
                && static_eval >= beta - nmp_margin_depth() * depth + nmp_margin()
                && ply >= self.null_min_ply
                && !is_loss(beta)
                && ply > 0
                && self.frames[ply - 1].mv.is_some()
                && let Some(score) = self.try_null_move(beta, depth, ply, eval)
            {
                return score;
            }
        }

        // Step 12. Internal iterative reduction: without a move from the table, or with one from a much shallower
        // search, a shallower search finds one.
        let stale = cut_node && depth >= iir_stale_depth() && tt_depth + iir_stale_plies() < depth;
        if use_iir() != 0
            && (N::PV || cut_node)
            && depth >= iir_depth()
            && excluded.is_none()
            && (tt_move.is_none() || stale)
        {
            depth -= 1;
        }

        // Step 13. ProbCut: a good capture that beats beta by a margin in a shallow search will do so in a deep one.
        let probcut_beta = beta + probcut_margin() - probcut_improving() * i32::from(improving);
        if use_probcut() != 0
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
        // Step 14. Small ProbCut: the table alone says so.
        let small_beta = beta + probcut_small_margin();
        if use_probcut() != 0
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

        // Step 15. Through the moves, best first.
        let threats = Threats::of(&self.position);
        self.frames[ply].threats = threats.all;
        let first = tt_move.or_else(|| self.favourite(opinion.as_deref()));
        let mut picker = MovePicker::all(first);
        picker.advise(opinion.as_deref());
        let mut best_move = None;
        let mut move_count = 0;
        let mut quiets = Tried::new();
        let mut noisies = Tried::new();
        let mut alpha_raised = 0;
        let start_alpha = alpha;

        // Where a quiet move with a good record would still be futile, only those that give check are generated.
        let best_hope = static_eval + futility_base() + futility_margin() * (depth - 1) + hopeless_reserve();
        let hopeless = use_futility() != 0
            && !N::PV
            && !in_check
            && depth <= hopeless_depth()
            && excluded.is_none()
            && best_hope <= alpha
            && !is_loss(alpha);
        if hopeless {
            picker.only_checks();
            best_score = best_score.max(best_hope);
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
            self.frames[ply].move_count = move_count;

            let noisy = is_noisy(&self.position, mv);
            let piece = self.moving_piece(mv);
            let captured = self.position.captured_by(mv);
            let history = match captured {
                Some(victim) => self.histories.capture(us, piece, mv.to, victim),
                None => self.histories.quiet_record(&self.quiet_context(&threats), mv, piece),
            };
            let mut new_depth = depth - 1;
            let mut reduction = self.logarithms.reduction(depth, move_count, noisy);

            // Step 16. Pruning at shallow depth, once a move that does not lose is known.
            if !N::ROOT && has_pieces && !is_loss(best_score) {
                // Late moves: the picker has put the good ones first.
                let late = lmp_base() + lmp_factor() * depth * depth / if improving { 100 } else { 200 };
                if use_lmp() != 0 && move_count as i32 >= late {
                    picker.skip_quiets();
                }
                let lmr_depth = (new_depth - reduction / 1024).max(0);
                if noisy {
                    let gain = captured.map_or(0, exchange_value);
                    if use_futility() != 0
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
                    let margin = see_noisy() * depth + history / see_noisy_history();
                    if use_see_pruning() != 0 && picker.is_late() && !self.position.see_ge(mv, -margin.max(0))
                    {
                        continue;
                    }
                } else {
                    if use_history_pruning() != 0
                        && lmr_depth < history_prune_depth()
                        && history < -history_prune() * depth
                    {
                        continue;
                    }
                    let lmr_depth = (lmr_depth + history / history_ply()).max(0);
                    let futility = static_eval
                        + futility_base()
                        + futility_margin() * lmr_depth
                        + history / futility_history().max(1);
                    if use_futility() != 0
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
                    if use_see_pruning() != 0
                        && !self.position.see_ge(mv, -see_quiet() * lmr_depth * lmr_depth)
                    {
                        continue;
                    }
                }
            }

            // Step 17. Extensions: is the table's move the only one that holds?
            let mut extension = 0;
            if !N::ROOT
                && use_singular() != 0
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
                self.frames[ply].excluded = Some(mv);
                let score =
                    self.search::<NonPv>(singular_beta - 1, singular_beta, new_depth / 2, ply, cut_node);
                self.frames[ply].excluded = None;
                self.frames[ply].move_count = move_count;
                if self.stopped {
                    return DRAW;
                }
                if score < singular_beta {
                    extension = 1;
                    if use_double_extension() != 0 {
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
                } else if use_multicut() != 0 && score >= beta && !is_proven(score) {
                    // Multi-cut: even without the best move beta is beaten.
                    return score;
                } else if use_negative_extension() != 0 {
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

            // Step 19. Late move reductions: what is unlikely to be best is searched less deep first.
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
            if self.frames[ply + 1].cutoffs > lmr_cutoffs_above() as u32 {
                reduction += lmr_cutoffs();
            }
            if gives_check {
                reduction -= lmr_check();
            }
            reduction += lmr_alpha_raised() * alpha_raised;
            if let Some(opinion) = &opinion {
                reduction += reduction_change(opinion, mv);
            }
            reduction -= correction.abs() * lmr_correction();
            reduction -= history * if noisy { lmr_noisy_history() } else { lmr_quiet_history() } / 100;

            let mut score = alpha;
            let mut full_search = !N::PV || move_count > 1;
            if use_lmr() != 0 && depth >= 2 && move_count > 1 + usize::from(N::ROOT) {
                let reduced = (new_depth - reduction / 1024).clamp(1, new_depth.max(1) + i32::from(N::PV));
                self.frames[ply + 1].reduction = new_depth - reduced;
                score = -self.search::<NonPv>(-alpha - 1, -alpha, reduced, ply + 1, true);
                self.frames[ply + 1].reduction = 0;
                full_search = false;
                if score > alpha && reduced < new_depth {
                    // It was not as bad as thought; how good it looks says how deep to look again.
                    let deeper = score > best_score + deeper_base() + deeper_depth() * new_depth;
                    let shallower = score < best_score + shallower_margin();
                    new_depth += i32::from(deeper) - i32::from(shallower);
                    full_search = new_depth > reduced;
                    if !noisy {
                        let moved = PieceTo::new(us, piece, mv.to);
                        let credit = post_lmr_bonus() * depth;
                        let before = self.line.len() - 1;
                        self.histories.update_continuation(
                            &self.line[..before],
                            moved,
                            credit.min(post_lmr_bonus_max()),
                        );
                    }
                }
            }
            // Step 20. Full depth with a closed window.
            if full_search {
                score = -self.search::<NonPv>(-alpha - 1, -alpha, new_depth, ply + 1, !cut_node);
            }
            // Step 21. Full depth with an open window, for the first move and for one that raises alpha.
            if N::PV && (move_count == 1 || score > alpha) {
                // A move the table has searched before is not dropped straight into quiescence.
                if Some(mv) == tt_move && self.root_depth > 8 && tt_depth > 1 {
                    new_depth = new_depth.max(1);
                }
                score = -self.search::<Pv>(-beta, -alpha, new_depth, ply + 1, false);
            }

            // Step 22. Take it back.
            self.unmake();
            if self.stopped {
                return DRAW;
            }
            if N::ROOT {
                self.note_root_move(mv, score, move_count == 1 || score > alpha, nodes_before);
            }

            // Step 23. A new best move?
            if score > best_score {
                best_score = score;
                if score > alpha {
                    best_move = Some(mv);
                    if N::PV {
                        self.update_pv(ply, mv);
                    }
                    if score >= beta {
                        self.frames[ply].cutoffs += 1 + u32::from(tt_move.is_none());
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

        // Step 24. No move: mate or stalemate, unless moves were left out.
        if move_count == 0 && !(hopeless && self.position.has_legal_move()) {
            return match excluded {
                Some(_) => alpha,
                None if in_check => mated_in(ply),
                None => self.draw_value(),
            };
        }

        // Step 25. Remember which moves were good and which were not.
        if let Some(mv) = best_move {
            let depth = depth + i32::from(best_score > beta + surprise_margin());
            self.update_histories(mv, depth, &threats, &quiets, &noisies);
        } else if !N::ROOT
            && let Some(prior) = self.frames[ply - 1].mv
            && self.line.last().is_some_and(|last| last.is_some_and(|last| !last.noisy))
        {
            // Everything failed low, so the move before was a good one.
            let scale = 100
                + prior_late() * i32::from(self.frames[ply - 1].move_count > 6)
                + prior_deep() * i32::from(depth > 5);
            let credit = bonus(depth, prior_bonus(), prior_bonus_base(), prior_bonus_max()) * scale / 100;
            let before = self.line.len() - 1;
            if let Some(Some(last)) = self.line.last().copied() {
                self.histories.update_continuation(&self.line[..before], last.moved, credit);
            }
            self.histories.update_butterfly(!us, self.frames[ply - 1].threats, prior, credit / 2);
        }

        // Step 26. Remember the result.
        if N::PV {
            best_score = best_score.min(max_score);
        }
        if best_score <= start_alpha && ply > 0 {
            self.frames[ply].tt_pv = tt_pv || (self.frames[ply - 1].tt_pv && depth > 3);
        }
        let bound = if best_score >= beta {
            Bound::Lower
        } else if N::PV && best_move.is_some() {
            Bound::Exact
        } else {
            Bound::Upper
        };
        // Where a move was left out, what it is worth is nobody's to say.
        let is_whole =
            excluded.is_none() && !(N::ROOT && (self.pv_index > 0 || !self.limits.search_moves.is_empty()));
        if is_whole {
            let entry = Entry {
                mv: best_move,
                score: best_score,
                eval: raw_eval,
                depth,
                bound,
                pv: self.frames[ply].tt_pv,
            };
            self.shared.table.store(key, ply, entry);
        }

        // Step 27. Remember how far the evaluation was off, unless captures explain it. What the second mind said is no
        // error of the first.
        if is_whole && !in_check && best_move.is_none_or(|mv| !is_noisy(&self.position, mv)) {
            let alone = match opinion {
                Some(_) => self.adjusted_eval(raw_eval, correction),
                None => static_eval,
            };
            if !(bound == Bound::Lower && best_score <= alone || bound == Bound::Upper && best_score >= alone)
            {
                self.histories.update_correction(&self.position, &self.line, best_score - alone, depth);
            }
        }
        best_score
    }
}
