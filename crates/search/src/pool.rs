//! The searcher: threads that search the same position independently and share a hash table (Lazy SMP).

use crate::deepening::table_value;
use crate::evaluator::EvaluatorFactory;
use crate::limits::Limits;
use crate::params::Tuned;
#[cfg(feature = "tune")]
use crate::params::Values;
use crate::report::{Info, ScoreBound, SearchResult};
use crate::room::{NoRoom, ensure_room};
use crate::root_move::RootMove;
use crate::settings::Settings;
use crate::shared::{Counters, Shared, Signals};
use crate::strategist::Strategist;
use crate::strategist_effect::blended_value;
use crate::strategist_eval::StrategistEval;
use crate::strength::Strength;
use crate::syzygy::{SyzygyError, Tablebases};
use crate::time::TimeManager;
use crate::tt::{OutOfMemory, TranspositionTable};
use crate::value::{Centipawns, DRAW, INFINITE, MATE, MAX_EVAL, Score};
use crate::vote::{ThreadVote, best_thread};
use crate::worker::Worker;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tandem_chess::{Color, Move, PackedMove, Position};
use tandem_util::random::SplitMix;

/// Stack size in bytes that a search thread needs for the longest line, with a reserve for unoptimised
/// builds.
pub const STACK_SIZE: usize = 32 << 20;

/// The search: it finds the best move of a position with one or more threads, which share a hash table of
/// results (Lazy SMP).
pub struct Searcher {
    /// Settings that the next search uses.
    pub settings: Settings,
    factory: Arc<EvaluatorFactory>,
    workers: Vec<Worker>,
    table: Arc<TranspositionTable>,
    signals: Arc<Signals>,
    tablebases: Option<Arc<Tablebases>>,
    strategist: Option<Arc<dyn Strategist>>,
}

impl Searcher {
    /// Creates a searcher with one thread and a hash table of `hash_mib` MiB.
    ///
    /// # Errors
    /// If the hash table cannot be allocated.
    pub fn new(factory: Arc<EvaluatorFactory>, hash_mib: usize) -> Result<Self, OutOfMemory> {
        let mut searcher = Self {
            settings: Settings::default(),
            factory,
            workers: Vec::new(),
            table: Arc::new(TranspositionTable::new(hash_mib)?),
            signals: Arc::default(),
            tablebases: None,
            strategist: None,
        };
        searcher.set_threads(1);
        Ok(searcher)
    }

    /// Replaces the searcher's signals by existing ones, so that other threads that hold them can stop its
    /// searches.
    pub fn with_signals(mut self, signals: Arc<Signals>) -> Self {
        self.signals = signals;
        self
    }

    /// A new searcher with one thread, a hash table of its own and the same evaluator. Stopping this one also
    /// stops the new one, but not the reverse.
    ///
    /// # Errors
    /// If the hash table cannot be allocated.
    pub fn sibling(&self, hash_mib: usize) -> Result<Self, OutOfMemory> {
        let signals = Arc::new(Signals::child_of(self.signals()));
        let mut sibling = Self::new(self.factory(), hash_mib)?.with_signals(signals);
        sibling.settings.params = self.settings.params.clone();
        Ok(sibling)
    }

    /// Signals that end a running search from another thread.
    pub fn signals(&self) -> Arc<Signals> {
        Arc::clone(&self.signals)
    }

    /// Number of threads that the next search uses, at least 1.
    pub fn threads(&self) -> usize {
        self.workers.len()
    }

    /// Sets the number of threads of the next searches; 0 counts as 1. Threads that stay keep their histories
    /// (statistics of moves for ordering). The memory of new ones is touched now, because that takes time which a
    /// search with a clock does not have. If it cannot be allocated the program is aborted;
    /// [`Self::try_set_threads`] refuses instead.
    pub fn set_threads(&mut self, threads: usize) {
        let threads = threads.max(1);
        self.workers.truncate(threads);
        let shared = Arc::new(self.shared(threads));
        let old = self.workers.len();
        for id in old..threads {
            let mut worker = Worker::new(id, Arc::clone(&shared), (self.factory)());
            worker.strategist = self.strategist.clone().map(Strategist::handle);
            self.workers.push(worker);
        }
        in_parallel(&mut self.workers[old..], |worker| worker.touch());
    }

    /// Sets the number of threads as [`Self::set_threads`] does, unless there is not enough memory for them.
    ///
    /// # Errors
    /// If the memory of new threads or their stacks would not fit; then nothing has changed.
    pub fn try_set_threads(&mut self, threads: usize) -> Result<(), NoRoom> {
        let new = threads.saturating_sub(self.workers.len());
        if new > 0 {
            ensure_room(format!("{threads} threads"), new * Worker::SIZE, threads * STACK_SIZE)?;
        }
        self.set_threads(threads);
        Ok(())
    }

    /// Sets the strategist that the next searches query; `None` searches without one.
    pub fn set_strategist(&mut self, strategist: Option<Arc<dyn Strategist>>) {
        self.strategist = strategist;
        for worker in &mut self.workers {
            worker.strategist = self.strategist.clone().map(Strategist::handle);
        }
    }

    /// The strategist that searches query; `None` if they do not use one.
    pub fn strategist(&self) -> Option<&Arc<dyn Strategist>> {
        self.strategist.as_ref()
    }

    /// The factory that creates the evaluators of the threads.
    pub fn factory(&self) -> Arc<EvaluatorFactory> {
        Arc::clone(&self.factory)
    }

    /// Replaces the evaluator, and clears the hash table and the histories (statistics of moves for
    /// ordering), because they hold results of the old one. Setting `cancel` ends the clearing early.
    pub fn set_evaluator(&mut self, factory: Arc<EvaluatorFactory>, cancel: &AtomicBool) {
        self.factory = factory;
        for worker in &mut self.workers {
            worker.evaluator = (self.factory)();
        }
        self.clear(cancel);
    }

    /// Replaces the hash table by an empty one of another size.
    ///
    /// # Errors
    /// If the new table cannot be allocated; the old one stays in use.
    pub fn set_hash(&mut self, mib: usize) -> Result<(), OutOfMemory> {
        let table = Arc::new(TranspositionTable::new(mib)?);
        self.table = Arc::clone(&table);
        let shared = Arc::new(self.shared(self.workers.len()));
        for worker in &mut self.workers {
            worker.shared = Arc::clone(&shared);
        }
        Ok(())
    }

    /// Size of the hash table, in MiB.
    pub fn hash_mib(&self) -> usize {
        self.table.mib()
    }

    /// Opens Syzygy endgame tables, or closes them if the path is empty. Returns the number of pieces of the
    /// largest table, 0 if closed.
    ///
    /// # Errors
    ///
    /// If there are no tables, or one is incomplete: the tables in use stay.
    pub fn set_syzygy(&mut self, path: &str) -> Result<u32, SyzygyError> {
        let tables = if path.is_empty() { None } else { Some(Tablebases::open(path)?) };
        let pieces = tables.as_ref().map_or(0, Tablebases::max_pieces);
        self.tablebases = tables.map(Arc::new);
        // The threads let go of the old tables now, not with the next search.
        let shared = Arc::new(self.shared(self.workers.len()));
        for worker in &mut self.workers {
            worker.shared = Arc::clone(&shared);
        }
        Ok(pieces)
    }

    /// Messages about endgame tables that a search found to be damaged or unreadable, each only once. They are not
    /// used any more.
    pub fn take_broken_tables(&self) -> Vec<String> {
        let broken = self.tablebases.as_ref().map(|tables| tables.take_broken());
        broken.into_iter().flatten().map(|table| table.to_string()).collect()
    }

    /// Path of the endgame tables in use; empty if there are none.
    pub fn syzygy_path(&self) -> &str {
        self.tablebases.as_ref().map_or("", |tables| tables.path())
    }

    /// Clears the hash table, the histories (statistics of moves for ordering) and the strategist's evaluations for
    /// a new game. Setting `cancel` ends the work early.
    pub fn clear(&mut self, cancel: &AtomicBool) {
        self.table.clear(available_threads(), cancel);
        in_parallel(&mut self.workers, |worker| worker.histories.clear());
        if let Some(strategist) = &self.strategist {
            strategist.clear();
        }
    }

    /// Static evaluation of a position for the side to move, in centipawns, without search.
    pub fn evaluate(&mut self, position: &Position) -> crate::Centipawns {
        let worker = &mut self.workers[0];
        worker.evaluator.reset(position);
        worker.evaluator.evaluate(position)
    }

    /// Blends a static evaluation with the strategist's value as the search does,
    /// both in centipawns for the side to move. `blend` is the strategist's weight from 0 to 1, but the
    /// change is bounded, and a large `evaluation` is returned unchanged. Used by the command `eval` to show
    /// the value that a search would use.
    pub fn blend_eval(&self, evaluation: Centipawns, eval: &StrategistEval, blend: f32) -> Centipawns {
        self.settings.params.make_current();
        Centipawns(blended_value(evaluation.0, eval, blend))
    }

    fn shared(&self, threads: usize) -> Shared {
        Shared {
            table: Arc::clone(&self.table),
            signals: Arc::clone(&self.signals),
            tablebases: self.tablebases.clone(),
            tb_probe_depth: self.settings.syzygy_probe_depth,
            strategist: self.strategist.clone(),
            has_move: AtomicBool::new(false),
            counters: (0..threads).map(|_| Counters::default()).collect(),
        }
    }

    /// Searches a position until a limit is met or [`Signals::stop`] is called; `report` gets each finished
    /// line. [`Signals::arm`] must have been called before, where the request was read. The calling thread is
    /// the first of the search's threads, and needs [`STACK_SIZE`] bytes of stack to follow the longest line.
    pub fn search(
        &mut self,
        position: &Position,
        limits: &Limits,
        report: &mut dyn FnMut(Info),
    ) -> SearchResult {
        let start = Instant::now();
        self.settings.params.make_current();
        let requested = self.settings.multipv.max(1);
        let lines = if self.settings.limit_strength { requested.max(Strength::LINES) } else { requested };
        self.prepare(start, position, limits);
        if self.workers[0].root_moves.is_empty() {
            self.wait_until_answer_allowed(limits);
            let score = Score::from_value(if position.in_check() { -MATE } else { DRAW });
            let time = start.elapsed();
            return SearchResult { best: None, ponder: None, score, depth: 0, nodes: 0, time };
        }
        let mut deepest = 0;
        let mut report = |info: Info| {
            // The move of a helper thread, or of an unfinished iteration, may come from a shallower one.
            deepest = info.depth.max(deepest);
            // A player of limited strength searches more lines than requested; only those requested are reported.
            if info.multipv <= requested {
                report(Info { depth: deepest, ..info });
            }
        };
        self.run_threads(lines, limits, &mut report);
        if let Some(strategist) = &self.strategist {
            strategist.end_search(self.workers.iter().map(|worker| worker.evaluations).sum());
        }
        let (thread, line) = self.elect(lines, limits);
        self.conclude(position, lines, thread, line, &mut report)
    }

    /// Prepares all threads for a search of the position.
    fn prepare(&mut self, start: Instant, position: &Position, limits: &Limits) {
        let time = TimeManager::new(start, limits, &self.settings);
        let root_moves = self.root_moves(position, limits);
        self.table.new_search();
        if let Some(strategist) = &self.strategist {
            strategist.begin_search();
        }
        let shared = Arc::new(self.shared(self.workers.len()));
        let draw_for_white = match position.side_to_move() {
            Color::White => -self.settings.contempt.0,
            Color::Black => self.settings.contempt.0,
        };
        for worker in &mut self.workers {
            worker.prepare(Arc::clone(&shared), position, limits, &time);
            worker.root_moves.clone_from(&root_moves);
            worker.draw_for_white = draw_for_white;
            worker.max_nodes = self.settings.rating().map(Strength::nodes);
        }
    }

    /// Searches the best `lines` lines with all threads until a limit is met and an answer is allowed. The
    /// first thread reports.
    fn run_threads(&mut self, lines: usize, limits: &Limits, report: &mut dyn FnMut(Info)) {
        let params = &self.settings.params;
        let (main, helpers) = self.workers.split_at_mut(1);
        std::thread::scope(|scope| {
            let mut threads = Vec::with_capacity(helpers.len());
            for worker in helpers {
                let builder = std::thread::Builder::new().stack_size(STACK_SIZE);
                // If the system refuses a thread, the search goes on with one helper less.
                threads.extend(builder.spawn_scoped(scope, move || {
                    params.make_current();
                    worker.deepen(lines, None);
                }));
            }
            let stop_guard = StopOnDrop(&self.signals);
            main[0].deepen(lines, Some(report));
            wait_until_answer_allowed(&self.signals, limits);
            drop(stop_guard);
            // A helper that panicked leaves results as good as those of one that was stopped.
            threads.into_iter().for_each(|thread| drop(thread.join()));
        });
    }

    /// Chooses the move to play: the index of a thread, and that of one of its root moves. The threads vote,
    /// unless their results are for different depths or lines; a player of limited strength errs.
    fn elect(&self, lines: usize, limits: &Limits) -> (usize, usize) {
        let thread = if self.settings.limit_strength || lines > 1 || limits.depth.is_some() {
            0
        } else {
            let vote = |worker: &Worker| {
                let root = &worker.root_moves[0];
                let (mv, depth) = (PackedMove::new(Some(root.mv)), worker.completed_depth);
                ThreadVote { mv, value: root.value(), depth }
            };
            best_thread(&self.workers.iter().map(vote).collect::<Vec<_>>())
        };
        let line = self.settings.rating().map_or(0, |strength| {
            strength.choose(&self.workers[thread].root_moves, &mut SplitMix::from_clock())
        });
        (thread, line)
    }

    /// The result of a search for the best `lines` lines, whose move is line `line` of a thread. Unless they were
    /// reported, all lines are reported together, so that the last reports are always a whole set.
    fn conclude(
        &mut self,
        position: &Position,
        lines: usize,
        thread: usize,
        line: usize,
        report: &mut dyn FnMut(Info),
    ) -> SearchResult {
        let lines = lines.clamp(1, self.workers[thread].root_moves.len());
        let is_unsearched = |root: &RootMove| root.value() == -INFINITE;
        // Nothing but the static evaluation is known of a line that was never searched.
        let evaluation = match self.workers[thread].root_moves[..lines].iter().any(is_unsearched) {
            true => self.evaluate(position).0.clamp(-MAX_EVAL, MAX_EVAL),
            false => DRAW,
        };
        let worker = &self.workers[thread];
        let (depth, root_depth) = (worker.completed_depth, worker.root_depth);
        let mut infos = Vec::with_capacity(lines);
        let mut bound = INFINITE;
        for (index, root) in worker.root_moves[..lines].iter().enumerate() {
            let value = if is_unsearched(root) { evaluation } else { root.value() };
            // An iteration that was not finished showed that the lines left are not better than those before.
            bound = table_value(value, root.tb_rank).min(bound);
            let score = Score::from_value(bound);
            infos.push(Info { depth: depth.max(1) as u32, score, ..worker.info(index, ScoreBound::Exact) });
        }
        let best = &infos[line];
        let mv = worker.root_moves[line].mv;
        let result = SearchResult {
            best: Some(mv),
            ponder: best.pv.get(1).copied().or_else(|| self.ponder_move(position, mv)),
            score: best.score,
            depth: depth as u32,
            nodes: best.nodes,
            time: best.time,
        };
        if thread != 0 || root_depth != depth {
            infos.into_iter().for_each(report);
        }
        result
    }

    /// Waits until an answer is allowed: an infinite search must not answer before `stop`, nor a pondering
    /// one before `ponderhit`. Afterwards the search counts as stopped, so that a reader of the answer does
    /// not find it still thinking.
    pub fn wait_until_answer_allowed(&self, limits: &Limits) {
        wait_until_answer_allowed(&self.signals, limits);
        self.signals.stop();
    }

    /// Legal moves at the root, best table rank first.
    fn root_moves(&self, position: &Position, limits: &Limits) -> Vec<RootMove> {
        let ranks = self.tablebases.as_ref().and_then(|tables| tables.rank_root(position));
        let rank_of =
            |mv: Move| ranks.iter().flatten().find(|(ranked, _)| *ranked == mv).map(|&(_, rank)| rank);
        let wanted = |mv: &Move| limits.search_moves.is_empty() || limits.search_moves.contains(mv);
        let mut moves: Vec<RootMove> = position
            .legal_moves()
            .into_iter()
            .filter(wanted)
            .map(|mv| RootMove::new(mv, rank_of(mv)))
            .collect();
        moves.sort_by_key(|root| std::cmp::Reverse(root.tb_rank));
        moves
    }

    /// Move to ponder on if the search was too short to have one: the TT move after the best move.
    fn ponder_move(&self, position: &Position, best: Move) -> Option<Move> {
        let mut after = position.clone();
        after.try_play(best).ok()?;
        let mv = self.table.probe(after.key(), 0)?.mv?;
        after.board().is_legal(mv).then_some(mv)
    }
}

impl Tuned for Searcher {
    #[cfg(feature = "tune")]
    fn values(&mut self) -> &mut Values {
        &mut self.settings.params
    }
}

/// Stops the search when its first thread leaves, even by a panic; otherwise the helpers would search for
/// ever.
struct StopOnDrop<'a>(&'a Signals);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Applies a function to all workers, on as many threads as there are cores. If the system refuses a thread, the others
/// do its work.
fn in_parallel(workers: &mut [Worker], function: impl Fn(&mut Worker) + Sync) {
    let helpers = available_threads().min(workers.len()).saturating_sub(1);
    let queue = Mutex::new(workers.iter_mut());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(worker) = next() {
            function(worker);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}

fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// See [`Searcher::wait_until_answer_allowed`].
fn wait_until_answer_allowed(signals: &Signals, limits: &Limits) {
    while !signals.is_stopped() && (limits.infinite || signals.is_pondering()) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::Square;

    /// A score of some root moves must not be stored as the score of the position.
    #[test]
    fn the_score_of_some_root_moves_is_not_stored_for_the_position() {
        let factory = || Box::new(crate::Bootstrap::default()) as Box<dyn crate::Evaluator>;
        let mut searcher = Searcher::new(Arc::new(factory), 1).unwrap();
        let position = Position::from_fen("6k1/5ppp/8/8/8/8/5PPP/K3R3 w - - 0 1").unwrap();
        let mut stored_move = |search_moves: Vec<Move>| {
            searcher.signals().arm(false);
            let limits = Limits { depth: Some(3), search_moves, ..Limits::default() };
            searcher.search(&position, &limits, &mut |_| ());
            searcher.table.probe(position.key(), 0).and_then(|entry| entry.mv)
        };
        let king = Move { from: Square::A1, to: Square::B1, promotion: None };
        assert_eq!(stored_move(vec![king]), None);
        assert_eq!(stored_move(Vec::new()), Some(Move { from: Square::E1, to: Square::E8, promotion: None }));
    }
}
