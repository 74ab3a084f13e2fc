//! One search thread: its position, its memory, and the moves at the root.

use crate::evaluator::Evaluator;
use crate::history::{Continuation, Histories, PieceTo, QuietContext, Threats};
use crate::limits::Limits;
use crate::movepick::is_noisy;
use crate::params::*;
use crate::shared::{Logarithms, Shared};
use crate::time::TimeManager;
use crate::value::{DRAW, INFINITE, MAX_EVAL, MAX_PLY, NONE, Value};
use arrayvec::ArrayVec;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tandem_chess::{BitBoard, Color, Move, Piece, Position};
use tandem_hybrid::Seat;

/// What a thread keeps for each ply of the line it is looking at.
#[derive(Clone)]
pub(crate) struct Frame {
    /// The corrected evaluation; [`NONE`] in check.
    pub(crate) static_eval: Value,
    /// The move left out of the search here, to see whether it is the only good one.
    pub(crate) excluded: Option<Move>,
    /// On or once on a principal variation.
    pub(crate) tt_pv: bool,
    /// By how much the search that led here was reduced, in plies.
    pub(crate) reduction: i32,
    /// How many nodes at this ply failed high since the last node two plies nearer to the root was begun.
    pub(crate) cutoffs: u32,
    /// The move being searched, and squares the enemy attacked before it.
    pub(crate) mv: Option<Move>,
    pub(crate) threats: BitBoard,
    /// Rank of the move among those tried.
    pub(crate) move_count: usize,
}

impl Default for Frame {
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

/// A legal move at the root.
#[derive(Clone, Debug)]
pub(crate) struct RootMove {
    pub(crate) mv: Move,
    pub(crate) score: Value,
    pub(crate) previous: Value,
    /// Mean of the scores of recent iterations, around which the window is laid.
    pub(crate) average: Value,
    pub(crate) sel_depth: usize,
    pub(crate) nodes: u64,
    pub(crate) pv: Vec<Move>,
    /// Rank by the endgame tables, if they know the position; moves of equal rank are told apart by the search.
    pub(crate) tb_rank: Option<i32>,
}

impl RootMove {
    pub(crate) fn new(mv: Move, tb_rank: Option<i32>) -> Self {
        Self {
            mv,
            score: -INFINITE,
            previous: -INFINITE,
            average: NONE,
            sel_depth: 0,
            nodes: 0,
            pv: vec![mv],
            tb_rank,
        }
    }

    /// What the move is worth: what the last iteration that could tell came to. [`INFINITE`] below nothing if none could yet.
    pub(crate) fn value(&self) -> Value {
        if self.score == -INFINITE { self.previous } else { self.score }
    }
}

/// A search thread.
pub(crate) struct Worker {
    pub(crate) id: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) position: Position,
    pub(crate) evaluator: Box<dyn Evaluator>,
    /// The second mind, if there is one.
    pub(crate) counsel: Option<Seat>,
    pub(crate) histories: Box<Histories>,
    pub(crate) frames: Box<[Frame]>,
    /// The best line from each ply of an open window.
    pub(crate) lines: Box<[ArrayVec<Move, MAX_PLY>]>,
    /// The moves of the line, for tables that look at what a move answers.
    pub(crate) line: Vec<Option<Continuation>>,
    pub(crate) logarithms: Logarithms,

    pub(crate) root_moves: Vec<RootMove>,
    /// The root moves before this one are already reported lines of this iteration.
    pub(crate) pv_index: usize,
    pub(crate) root_depth: i32,
    pub(crate) root_delta: Value,
    pub(crate) completed_depth: i32,
    pub(crate) sel_depth: usize,
    /// Null moves are not tried nearer to the root than this while one is being verified.
    pub(crate) null_min_ply: usize,

    pub(crate) nodes: u64,
    pub(crate) tb_hits: u64,
    /// Positions that the evaluator was asked about.
    pub(crate) evaluations: u64,
    /// When to look at clock and limits again.
    next_check: u64,
    pub(crate) stopped: bool,
    /// Enough was seen while pondering: answer as soon as the expected move is played.
    pub(crate) enough: bool,
    pub(crate) limits: Limits,
    pub(crate) time: TimeManager,
    /// What a draw is worth to White, in centipawns.
    pub(crate) draw_for_white: Value,
    /// Nodes of all threads after which a limited player has seen all that it may, in whosever time.
    pub(crate) most_nodes: Option<u64>,
}

/// Nodes between two looks at the clock.
const CHECK_INTERVAL: u64 = 1024;

impl Worker {
    pub(crate) fn new(id: usize, shared: Arc<Shared>, evaluator: Box<dyn Evaluator>) -> Self {
        Self {
            id,
            shared,
            position: Position::startpos(),
            evaluator,
            counsel: None,
            histories: Box::new(Histories::new()),
            frames: vec![Frame::default(); MAX_PLY + 4].into_boxed_slice(),
            lines: vec![ArrayVec::new(); MAX_PLY + 4].into_boxed_slice(),
            line: Vec::with_capacity(MAX_PLY + 4),
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
            enough: false,
            limits: Limits::default(),
            time: TimeManager::new(std::time::Instant::now(), &Limits::default(), std::time::Duration::ZERO),
            draw_for_white: DRAW,
            most_nodes: None,
        }
    }

    /// Makes the thread ready for a search from `position`.
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
        self.frames.fill(Frame::default());
        self.line.clear();
        self.pv_index = 0;
        self.root_depth = 0;
        self.completed_depth = 0;
        self.sel_depth = 0;
        self.null_min_ply = 0;
        self.nodes = 0;
        self.tb_hits = 0;
        self.evaluations = 0;
        if let Some(seat) = &mut self.counsel {
            seat.begin();
        }
        self.stopped = false;
        self.enough = false;
        self.limits = limits.clone();
        self.time = time.clone();
        self.next_check = self.following_check();
    }

    #[inline]
    pub(crate) fn make(&mut self, mv: Move, ply: usize) {
        self.shared.table.prefetch(self.position.key_after(mv));
        let moved = self.piece_to(mv);
        let noisy = is_noisy(&self.position, mv);
        self.line.push(Some(Continuation { moved, noisy }));
        self.frames[ply].mv = Some(mv);
        self.position.play(mv);
        self.histories.prefetch_correction(&self.position);
        self.evaluator.push(self.position.changes());
        self.nodes += 1;
    }

    #[inline]
    pub(crate) fn make_null(&mut self, ply: usize) {
        self.line.push(None);
        self.frames[ply].mv = None;
        self.position.play_null();
        self.shared.table.prefetch(self.position.key());
        self.evaluator.push(self.position.changes());
        self.nodes += 1;
    }

    #[inline]
    pub(crate) fn unmake(&mut self) {
        self.line.pop();
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
            earlier: &self.line,
        }
    }

    /// The evaluator's word on the position, kept clear of proven scores.
    #[inline]
    pub(crate) fn raw_eval(&mut self) -> Value {
        self.evaluations += 1;
        self.evaluator.evaluate(&self.position).0.clamp(-MAX_EVAL, MAX_EVAL)
    }

    /// The evaluation as the search uses it: drawn towards zero as the fifty-move rule nears, and corrected by what
    /// was learnt of positions like this.
    #[inline]
    pub(crate) fn adjusted_eval(&self, raw: Value, correction: Value) -> Value {
        let mut value = raw;
        if use_fifty_damping() != 0 {
            value = value * (200 - i32::from(self.position.board().halfmove_clock())) / 200;
        }
        (value + correction).clamp(-MAX_EVAL, MAX_EVAL)
    }

    /// What a draw is worth to the side to move. A last bit that flickers keeps the search from being blind to
    /// ways around a repetition.
    #[inline]
    pub(crate) fn draw_value(&self) -> Value {
        let flicker = (self.nodes & 2) as Value - 1;
        match self.position.side_to_move() {
            Color::White => self.draw_for_white + flicker,
            Color::Black => -self.draw_for_white + flicker,
        }
    }

    /// A lower bound no less than a draw, if the side to move can force a repetition.
    #[inline]
    pub(crate) fn raise_to_repetition(&self, alpha: Value, ply: usize) -> Value {
        if use_upcoming_repetition() != 0 && alpha < self.draw_value() && self.position.can_repeat(ply) {
            return self.draw_value();
        }
        alpha
    }

    /// The value of a position where the line ends: a draw by rule, or the longest line there is.
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

    /// Looks at clock and limits now and then. Returns whether the search is over.
    #[inline]
    pub(crate) fn should_stop(&mut self) -> bool {
        if self.nodes >= self.next_check {
            self.check_limits();
        }
        self.stopped
    }

    /// Looks at clock and limits at the next node.
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
        if self.has_seen_all() {
            return self.end();
        }
        // The first iteration must finish, or there would be no move to play but a random one.
        if self.id != 0 || self.completed_depth < 1 && !self.out_of_nodes() {
            return;
        }
        let over = !self.shared.signals.is_pondering()
            && (self.enough || self.time.is_over() || self.out_of_nodes());
        if over {
            self.end();
        }
    }

    /// This thread has met its limits, and so has the search, unless it may not answer before it is told to: then nobody
    /// but the user pulls the lever, for the answer waits for it.
    pub(crate) fn end(&mut self) {
        self.stopped = true;
        if !self.limits.infinite && !self.shared.signals.is_pondering() {
            self.shared.signals.stop();
        }
    }

    fn has_seen_all(&self) -> bool {
        self.most_nodes.is_some_and(|most| self.shared.nodes() >= most)
    }

    fn out_of_nodes(&self) -> bool {
        self.limits.nodes.is_some_and(|limit| self.shared.nodes() >= limit)
    }

    /// With one thread a node limit is kept to the node.
    fn following_check(&self) -> u64 {
        let next = self.nodes + CHECK_INTERVAL;
        let limits = [self.limits.nodes, self.most_nodes].into_iter().flatten();
        limits.filter(|&limit| self.nodes < limit).fold(next, u64::min)
    }

    pub(crate) fn publish_counters(&self) {
        let counters = &self.shared.counters[self.id];
        counters.nodes.store(self.nodes, Relaxed);
        counters.tb_hits.store(self.tb_hits, Relaxed);
    }

    /// Puts `mv` before the line of the next ply.
    #[inline]
    pub(crate) fn update_pv(&mut self, ply: usize, mv: Move) {
        let [line, next] = &mut self.lines[ply..ply + 2] else { return };
        line.clear();
        line.push(mv);
        line.extend(next.iter().copied().take(MAX_PLY - 1));
    }
}
