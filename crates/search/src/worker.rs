//! One search thread: its position, its search stack and tables, and its limits.

use crate::evaluator::Evaluator;
use crate::history::{Continuation, Histories, PieceTo, QuietContext, Threats};
use crate::limits::Limits;
use crate::movepick::is_noisy;
use crate::params::*;
use crate::reduction::Logarithms;
use crate::root_move::RootMove;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::strategist::StrategistHandle;
use crate::time::TimeManager;
use crate::value::{DRAW, MAX_EVAL, MAX_PLY, NONE, Value};
use arrayvec::ArrayVec;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tandem_chess::{BitBoard, Color, Move, Piece, Position};

/// An entry of the search stack: the state of one ply of the current line (`ss` in Stockfish).
#[derive(Clone)]
pub(crate) struct StackEntry {
    /// Static evaluation after corrections; [`NONE`] in check.
    pub(crate) static_eval: Value,
    /// The move excluded from a singular search at this ply.
    pub(crate) excluded: Option<Move>,
    /// True if the node is, or in an earlier search was, on a principal variation.
    pub(crate) tt_pv: bool,
    /// Reduction of the search that led here, in plies.
    pub(crate) reduction: i32,
    /// Fail highs at this ply since the last node two plies nearer to the root was entered.
    pub(crate) cutoffs: u32,
    /// The move being searched, and the squares that the opponent attacked before it.
    pub(crate) mv: Option<Move>,
    pub(crate) threats: BitBoard,
    /// Number of the move among those tried, from 1.
    pub(crate) move_count: usize,
}

impl Default for StackEntry {
    fn default() -> Self {
        Self {
            static_eval: NONE,
            excluded: None,
            tt_pv: false,
            reduction: 0,
            cutoffs: 0,
            mv: None,
            threats: BitBoard::EMPTY,
            move_count: 0,
        }
    }
}

/// A search thread. Thread 0 is the main thread, which watches the limits and reports.
pub(crate) struct Worker {
    pub(crate) id: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) position: Position,
    pub(crate) evaluator: Box<dyn Evaluator>,
    /// Access to the strategist, if there is one.
    pub(crate) strategist: Option<Box<dyn StrategistHandle>>,
    pub(crate) histories: Box<Histories>,
    pub(crate) stack: Box<[StackEntry]>,
    /// Triangular PV table: the best line from each ply of a PV node.
    pub(crate) pv_table: Box<[ArrayVec<Move, MAX_PLY>]>,
    /// Moves of the current line, as indices of the continuation histories; `None` for null moves.
    pub(crate) continuation_stack: Vec<Option<Continuation>>,
    pub(crate) logarithms: Logarithms,

    pub(crate) root_moves: Vec<RootMove>,
    /// Index of the PV line being searched (MultiPV); the root moves before it are the better lines.
    pub(crate) pv_index: usize,
    pub(crate) root_depth: i32,
    pub(crate) root_delta: Value,
    pub(crate) completed_depth: i32,
    pub(crate) sel_depth: usize,
    /// During the verification search of NMP, null moves are tried only from this ply on.
    pub(crate) null_min_ply: usize,

    pub(crate) nodes: u64,
    pub(crate) tb_hits: u64,
    /// Positions evaluated by the evaluator, for the statistics of the strategist.
    pub(crate) evaluations: u64,
    /// Node count at which clock and limits are checked again.
    next_check: u64,
    pub(crate) stopped: bool,
    /// Set while pondering if the search would have ended by itself: it answers at `ponderhit`.
    pub(crate) ponder_done: bool,
    pub(crate) limits: Limits,
    pub(crate) time: TimeManager,
    /// Value of a draw for White in centipawns, not zero with contempt.
    pub(crate) draw_for_white: Value,
    /// Node limit of a player of limited strength, over all threads and pondering included.
    pub(crate) max_nodes: Option<u64>,
}

/// Nodes between two checks of clock and limits.
const CHECK_INTERVAL: u64 = 1024;

impl Worker {
    /// Memory of a worker in bytes, most of it histories; rounded up.
    pub(crate) const SIZE: usize = 12 << 20;

    /// Writes to the large tables, so that the system gives their pages out now.
    pub(crate) fn touch(&mut self) {
        self.histories.clear();
    }

    pub(crate) fn new(id: usize, shared: Arc<Shared>, evaluator: Box<dyn Evaluator>) -> Self {
        Self {
            id,
            shared,
            position: Position::startpos(),
            evaluator,
            strategist: None,
            histories: Box::new(Histories::new()),
            stack: vec![StackEntry::default(); MAX_PLY + 4].into_boxed_slice(),
            pv_table: vec![ArrayVec::new(); MAX_PLY + 4].into_boxed_slice(),
            continuation_stack: Vec::with_capacity(MAX_PLY + 4),
            logarithms: Logarithms::new(),
            root_moves: Vec::new(),
            pv_index: 0,
            root_depth: 0,
            root_delta: 1,
            completed_depth: 0,
            sel_depth: 0,
            null_min_ply: 0,
            nodes: 0,
            tb_hits: 0,
            evaluations: 0,
            next_check: 0,
            stopped: false,
            ponder_done: false,
            limits: Limits::default(),
            time: TimeManager::new(std::time::Instant::now(), &Limits::default(), &Settings::default()),
            draw_for_white: DRAW,
            max_nodes: None,
        }
    }

    /// Resets the thread for a search from `position`. Histories are kept from search to search.
    pub(crate) fn prepare(
        &mut self,
        shared: Arc<Shared>,
        position: &Position,
        limits: &Limits,
        time: &TimeManager,
    ) {
        self.shared = shared;
        self.position = position.clone();
        self.evaluator.reset(position);
        self.stack.fill(StackEntry::default());
        self.continuation_stack.clear();
        self.pv_index = 0;
        self.root_depth = 0;
        self.completed_depth = 0;
        self.sel_depth = 0;
        self.null_min_ply = 0;
        self.nodes = 0;
        self.tb_hits = 0;
        self.evaluations = 0;
        if let Some(handle) = &mut self.strategist {
            handle.begin_search();
        }
        self.stopped = false;
        self.ponder_done = false;
        self.limits = limits.clone();
        self.time = time.clone();
        self.next_check = self.following_check();
    }

    #[inline]
    pub(crate) fn make(&mut self, mv: Move, ply: usize) {
        self.shared.table.prefetch(self.position.key_after(mv));
        let moved = self.piece_to(mv);
        let noisy = is_noisy(&self.position, mv);
        self.continuation_stack.push(Some(Continuation { moved, noisy }));
        self.stack[ply].mv = Some(mv);
        self.position.play(mv);
        self.histories.prefetch_correction(&self.position);
        self.evaluator.push(self.position.changes());
        self.nodes += 1;
    }

    #[inline]
    pub(crate) fn make_null(&mut self, ply: usize) {
        self.continuation_stack.push(None);
        self.stack[ply].mv = None;
        self.position.play_null();
        self.shared.table.prefetch(self.position.key());
        self.evaluator.push(self.position.changes());
        self.nodes += 1;
    }

    #[inline]
    pub(crate) fn unmake(&mut self) {
        self.continuation_stack.pop();
        self.position.undo();
        self.evaluator.pop();
    }

    #[inline]
    pub(crate) fn moving_piece(&self, mv: Move) -> Piece {
        self.position.piece_on(mv.from).unwrap_or(Piece::Pawn)
    }

    #[inline]
    pub(crate) fn piece_to(&self, mv: Move) -> PieceTo {
        PieceTo::new(self.position.side_to_move(), self.moving_piece(mv), mv.to)
    }

    #[inline]
    pub(crate) fn quiet_context<'a>(&'a self, threats: &'a Threats) -> QuietContext<'a> {
        QuietContext {
            color: self.position.side_to_move(),
            threats,
            pawn_key: self.position.keys().pawn,
            earlier: &self.continuation_stack,
        }
    }

    /// The evaluator's value, clamped below the proven scores.
    #[inline]
    pub(crate) fn raw_eval(&mut self) -> Value {
        self.evaluations += 1;
        self.evaluator.evaluate(&self.position).0.clamp(-MAX_EVAL, MAX_EVAL)
    }

    /// Static evaluation as the search uses it: scaled towards zero as the fifty-move rule nears, plus the
    /// value of the correction histories.
    #[inline]
    pub(crate) fn adjusted_eval(&self, raw: Value, correction: Value) -> Value {
        let mut value = raw;
        if use_fifty_damping() {
            value = value * (200 - i32::from(self.position.board().halfmove_clock())) / 200;
        }
        (value + correction).clamp(-MAX_EVAL, MAX_EVAL)
    }

    /// Value of a draw for the side to move. It varies by one centipawn with the node count, so that the
    /// search also explores ways around a repetition.
    #[inline]
    pub(crate) fn draw_value(&self) -> Value {
        let jitter = (self.nodes & 2) as Value - 1;
        match self.position.side_to_move() {
            Color::White => self.draw_for_white + jitter,
            Color::Black => -self.draw_for_white + jitter,
        }
    }

    /// Raises alpha to the value of a draw if the side to move can force a repetition.
    #[inline]
    pub(crate) fn raise_to_repetition(&self, alpha: Value, ply: usize) -> Value {
        if use_upcoming_repetition() && alpha < self.draw_value() && self.position.can_repeat(ply) {
            return self.draw_value();
        }
        alpha
    }

    /// Value of a position where the line ends: a draw by rule, or [`MAX_PLY`] reached.
    #[inline]
    pub(crate) fn end_of_line(&mut self, ply: usize) -> Option<Value> {
        if self.position.is_repetition(ply)
            || self.position.is_fifty_moves()
            || self.position.is_insufficient_material()
        {
            return Some(self.draw_value());
        }
        (ply >= MAX_PLY - 1).then(|| if self.position.in_check() { DRAW } else { self.raw_eval() })
    }

    /// Checks clock and limits from time to time. Returns true if the search is over.
    #[inline]
    pub(crate) fn should_stop(&mut self) -> bool {
        if self.nodes >= self.next_check {
            self.check_limits();
        }
        self.stopped
    }

    /// Makes the next node check clock and limits.
    pub(crate) fn check_soon(&mut self) {
        self.next_check = self.nodes;
    }

    #[cold]
    fn check_limits(&mut self) {
        self.publish_counters();
        self.next_check = self.following_check();
        if self.shared.signals.is_stopped() {
            self.stopped = true;
            return;
        }
        if self.reached_max_nodes() {
            return self.stop_all();
        }
        if self.id != 0 {
            // With more threads than cores the first one may not run when the time is over.
            let has_move = self.shared.has_move.load(Relaxed) && !self.shared.signals.is_pondering();
            if has_move && self.time.hard_limit_reached() {
                self.stop_all();
            }
            return;
        }
        // The first iteration must finish, or there would only be a random move to play.
        if self.completed_depth < 1 && !self.out_of_nodes() {
            return;
        }
        let over = !self.shared.signals.is_pondering()
            && (self.ponder_done || self.time.hard_limit_reached() || self.out_of_nodes());
        if over {
            self.stop_all();
        }
    }

    /// Ends this thread, and all others with it. If the search may not answer yet, because it is infinite or
    /// pondering, the others go on until the user's `stop` or `ponderhit`.
    pub(crate) fn stop_all(&mut self) {
        self.stopped = true;
        if !self.limits.infinite && !self.shared.signals.is_pondering() {
            self.shared.signals.stop();
        }
    }

    fn reached_max_nodes(&self) -> bool {
        self.max_nodes.is_some_and(|most| self.shared.nodes() >= most)
    }

    fn out_of_nodes(&self) -> bool {
        self.limits.nodes.is_some_and(|limit| self.shared.nodes() >= limit)
    }

    /// With one thread a node limit is met exactly.
    fn following_check(&self) -> u64 {
        let next = self.nodes + CHECK_INTERVAL;
        let limits = [self.limits.nodes, self.max_nodes].into_iter().flatten();
        limits.filter(|&limit| self.nodes < limit).fold(next, u64::min)
    }

    pub(crate) fn publish_counters(&self) {
        let counters = &self.shared.counters[self.id];
        counters.nodes.store(self.nodes, Relaxed);
        counters.tb_hits.store(self.tb_hits, Relaxed);
    }

    /// Sets the principal variation of this ply: `mv`, then the line of the next ply.
    #[inline]
    pub(crate) fn update_pv(&mut self, ply: usize, mv: Move) {
        let [line, next] = &mut self.pv_table[ply..ply + 2] else { return };
        line.clear();
        line.push(mv);
        line.extend(next.iter().copied().take(MAX_PLY - 1));
    }
}
