//! The searcher: threads that search the same position and share a table (Lazy SMP).

use crate::deepening::table_value;
use crate::evaluator::EvaluatorFactory;
use crate::limits::Limits;
use crate::report::{Info, ScoreBound, SearchResult};
use crate::shared::{Counters, Shared, Signals};
use crate::strength::{Random, Strength};
use crate::syzygy::{SyzygyError, Tablebases};
use crate::time::TimeManager;
use crate::tt::{OutOfMemory, Table};
use crate::value::{DRAW, INFINITE, MATE, Score, is_win};
use crate::worker::{RootMove, Worker};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tandem_chess::{Color, Move, PackedMove, Position};
use tandem_hybrid::{Counsel, Seat};

/// Settings of a searcher that may change between two searches.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many of the best lines to find.
    pub multipv: usize,
    /// Time kept back each move for messages to travel.
    pub move_overhead: Duration,
    /// How much worse than even a draw is thought to be, in centipawns, for the side that searches.
    pub contempt: i32,
    /// Depth left at which positions with as many pieces as the largest tables are looked up.
    pub syzygy_probe_depth: i32,
    /// Play weaker than possible.
    pub strength: Option<Strength>,
    /// The tuned numbers.
    #[cfg(feature = "tune")]
    pub params: crate::params::Values,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            multipv: 1,
            move_overhead: Duration::from_millis(10),
            contempt: 0,
            syzygy_probe_depth: 1,
            strength: None,
            #[cfg(feature = "tune")]
            params: crate::params::Values::default(),
        }
    }
}

/// Stack that a search thread needs: the longest line, with room to spare in an unoptimised build.
pub const STACK_SIZE: usize = 32 << 20;

/// Searches positions with one thread or many.
pub struct Searcher {
    /// Settings for the next search.
    pub settings: Settings,
    factory: Arc<EvaluatorFactory>,
    workers: Vec<Worker>,
    table: Arc<Table>,
    signals: Arc<Signals>,
    tablebases: Option<Arc<Tablebases>>,
    counsel: Option<Arc<Counsel>>,
}

impl Searcher {
    /// A searcher with one thread and a hash table of `hash_mib` MiB.
    pub fn new(factory: Arc<EvaluatorFactory>, hash_mib: usize) -> Result<Self, OutOfMemory> {
        let mut searcher = Self {
            settings: Settings::default(),
            factory,
            workers: Vec::new(),
            table: Arc::new(Table::new(hash_mib)?),
            signals: Arc::default(),
            tablebases: None,
            counsel: None,
        };
        searcher.set_threads(1);
        Ok(searcher)
    }

    /// The same searcher, obeying signals that exist already.
    pub fn listening_to(mut self, signals: Arc<Signals>) -> Self {
        self.signals = signals;
        self
    }

    /// A new searcher with one thread and a table of its own, which evaluates as this one does. Its searches also stop
    /// when this one is stopped.
    pub fn sibling(&self, hash_mib: usize) -> Result<Self, OutOfMemory> {
        let signals = Arc::new(Signals::part_of(self.signals()));
        let sibling = Self::new(self.factory(), hash_mib)?.listening_to(signals);
        #[cfg(feature = "tune")]
        let sibling = {
            let settings = Settings { params: self.settings.params.clone(), ..sibling.settings };
            Self { settings, ..sibling }
        };
        Ok(sibling)
    }

    /// The levers that stop a running search.
    pub fn signals(&self) -> Arc<Signals> {
        Arc::clone(&self.signals)
    }

    /// Number of threads of the next search.
    pub fn threads(&self) -> usize {
        self.workers.len()
    }

    /// Sets the number of threads.
    pub fn set_threads(&mut self, threads: usize) {
        let threads = threads.max(1);
        self.workers.truncate(threads);
        let shared = Arc::new(self.shared(threads));
        for id in self.workers.len()..threads {
            let mut worker = Worker::new(id, Arc::clone(&shared), (self.factory)());
            worker.counsel = self.counsel.clone().map(Seat::new);
            self.workers.push(worker);
        }
    }

    /// Searches with a second mind from now on, or without one.
    pub fn set_counsel(&mut self, counsel: Option<Arc<Counsel>>) {
        self.counsel = counsel;
        for worker in &mut self.workers {
            worker.counsel = self.counsel.clone().map(Seat::new);
        }
    }

    /// The second mind, if there is one.
    pub fn counsel(&self) -> Option<&Arc<Counsel>> {
        self.counsel.as_ref()
    }

    /// Makes the evaluators of the threads.
    pub fn factory(&self) -> Arc<EvaluatorFactory> {
        Arc::clone(&self.factory)
    }

    /// Evaluates with something else from now on, and forgets what was learnt from the old evaluations. Raising
    /// `cancel` ends the forgetting early.
    pub fn set_evaluator(&mut self, factory: Arc<EvaluatorFactory>, cancel: &AtomicBool) {
        self.factory = factory;
        for worker in &mut self.workers {
            worker.evaluator = (self.factory)();
        }
        self.clear(cancel);
    }

    /// Replaces the hash table by an empty one of another size. If there is no room for it, the old one stays.
    pub fn set_hash(&mut self, mib: usize) -> Result<(), OutOfMemory> {
        let table = Arc::new(Table::new(mib)?);
        self.table = Arc::clone(&table);
        let shared = Arc::new(self.shared(self.workers.len()));
        for worker in &mut self.workers {
            worker.shared = Arc::clone(&shared);
        }
        Ok(())
    }

    /// Opens endgame tables, or closes them if the path is empty. Where there are none those in use stay; where there are
    /// some that cannot be opened, no tables are in use any more.
    pub fn set_syzygy(&mut self, path: &str) -> Result<u32, SyzygyError> {
        if !path.is_empty() {
            Tablebases::look(path)?;
        }
        // The library serves one set of tables at a time, so the old ones go first.
        self.tablebases = None;
        let shared = Arc::new(self.shared(self.workers.len()));
        for worker in &mut self.workers {
            worker.shared = Arc::clone(&shared);
        }
        if path.is_empty() {
            return Ok(0);
        }
        let tables = Tablebases::open(path)?;
        let pieces = tables.max_pieces();
        self.tablebases = Some(Arc::new(tables));
        Ok(pieces)
    }

    /// Where the endgame tables in use are; empty if there are none.
    pub fn syzygy_path(&self) -> &str {
        self.tablebases.as_ref().map_or("", |tables| tables.path())
    }

    /// Forgets everything learnt, for a new game. Raising `cancel` ends the work early.
    pub fn clear(&mut self, cancel: &AtomicBool) {
        self.table.clear(available_threads(), cancel);
        for worker in &mut self.workers {
            worker.histories.clear();
        }
        if let Some(counsel) = &self.counsel {
            counsel.clear();
        }
    }

    /// The evaluator's word on a position, without search.
    pub fn evaluate(&mut self, position: &Position) -> crate::Centipawns {
        let worker = &mut self.workers[0];
        worker.evaluator.reset(position);
        worker.evaluator.evaluate(position)
    }

    fn shared(&self, threads: usize) -> Shared {
        Shared {
            table: Arc::clone(&self.table),
            signals: Arc::clone(&self.signals),
            tablebases: self.tablebases.clone(),
            tb_probe_depth: self.settings.syzygy_probe_depth,
            counters: (0..threads).map(|_| Counters::default()).collect(),
        }
    }

    /// Searches a position until a limit is met or [`Signals::stop`] is called. [`Signals::arm`] must have been
    /// called first, where the request was read. The calling thread is the first of the search's threads, and needs
    /// [`STACK_SIZE`] bytes of stack to follow the longest line.
    pub fn search(
        &mut self,
        position: &Position,
        limits: &Limits,
        report: &mut dyn FnMut(Info),
    ) -> SearchResult {
        let start = Instant::now();
        #[cfg(feature = "tune")]
        let params = &self.settings.params;
        #[cfg(feature = "tune")]
        params.put_in_use();
        let mut limits = limits.clone();
        let asked_for = self.settings.multipv.max(1);
        let mut multipv = asked_for;
        if let Some(strength) = self.settings.strength {
            let nodes = strength.nodes();
            limits.nodes = Some(limits.nodes.map_or(nodes, |limit| limit.min(nodes)));
            multipv = multipv.max(Strength::LINES);
        }
        let time = TimeManager::new(start, &limits, self.settings.move_overhead);
        let root_moves = self.root_moves(position, &limits);
        self.table.new_search();
        if let Some(counsel) = &self.counsel {
            counsel.begin();
        }
        let shared = Arc::new(self.shared(self.workers.len()));
        let draw_for_white = match position.side_to_move() {
            Color::White => -self.settings.contempt,
            Color::Black => self.settings.contempt,
        };
        for worker in &mut self.workers {
            worker.prepare(Arc::clone(&shared), position, &limits, &time);
            worker.root_moves.clone_from(&root_moves);
            worker.draw_for_white = draw_for_white;
        }

        if root_moves.is_empty() {
            self.wait_for_leave(&limits);
            let score = Score::from_value(if position.in_check() { -MATE } else { DRAW });
            return SearchResult {
                best: None,
                ponder: None,
                score,
                depth: 0,
                nodes: 0,
                time: start.elapsed(),
            };
        }

        let (main, helpers) = self.workers.split_at_mut(1);
        std::thread::scope(|scope| {
            for worker in helpers {
                let builder = std::thread::Builder::new().stack_size(STACK_SIZE);
                // A thread that the system refuses is one helper less, not the end of the search.
                let _ = builder.spawn_scoped(scope, move || {
                    #[cfg(feature = "tune")]
                    params.put_in_use();
                    worker.deepen(multipv, None);
                });
            }
            // A limited player looks at more lines than the user asked for, and keeps them to itself.
            let mut report = |info: Info| {
                if info.multipv <= asked_for {
                    report(info);
                }
            };
            main[0].deepen(multipv, Some(&mut report));
            wait_for_leave(&self.signals, &limits);
            self.signals.stop();
        });

        if let Some(counsel) = &self.counsel {
            counsel.end();
            counsel.note_evaluations(self.workers.iter().map(|worker| worker.evaluations).sum());
        }

        let limited = self.settings.strength.is_some();
        let chosen = if limited || multipv > 1 || limits.depth.is_some() { 0 } else { self.vote() };
        let worker = &self.workers[chosen];
        if chosen != 0 {
            report(worker.info(0, ScoreBound::Exact));
        }
        let index = match self.settings.strength {
            Some(strength) => {
                let mut random = Random::from_clock();
                strength.choose(&worker.root_moves, || random.next())
            }
            None => 0,
        };
        let root = &worker.root_moves[index];
        let value = if root.score == -INFINITE { root.previous } else { root.score };
        SearchResult {
            best: Some(root.mv),
            ponder: root.pv.get(1).copied().or_else(|| self.ponder_move(position, root.mv)),
            score: Score::from_value(table_value(value, root.tb_rank)),
            depth: worker.completed_depth as u32,
            nodes: shared.nodes(),
            time: start.elapsed(),
        }
    }

    /// Waits for leave to answer: a search that was told to go on until stopped, or that ponders, must not answer before.
    /// From then on it counts as stopped, so that nobody who reads the answer finds it still thinking.
    pub fn wait_for_leave(&self, limits: &Limits) {
        wait_for_leave(&self.signals, limits);
        self.signals.stop();
    }

    /// The legal moves, those the tables like best first.
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

    /// The thread whose move is to be played: each votes for its own with a weight that grows with depth and score.
    fn vote(&self) -> usize {
        let value = |worker: &Worker| worker.root_moves[0].score.max(worker.root_moves[0].previous);
        let counted = || self.workers.iter().filter(|worker| worker.completed_depth > 0);
        let least = counted().map(value).min().unwrap_or(0);
        let weight =
            |worker: &Worker| i64::from(value(worker) - least + 14) * i64::from(worker.completed_depth);
        let mut votes: HashMap<u16, i64> = HashMap::new();
        let ballot = |worker: &Worker| PackedMove::new(Some(worker.root_moves[0].mv)).bits();
        for worker in counted() {
            *votes.entry(ballot(worker)).or_default() += weight(worker);
        }
        let votes_for = |worker: &Worker| votes.get(&ballot(worker)).copied().unwrap_or(0);
        let mut best = 0;
        for (index, worker) in self.workers.iter().enumerate().skip(1) {
            let current = &self.workers[best];
            let better = if is_win(value(current)) {
                value(worker) > value(current) && worker.completed_depth > 0
            } else {
                is_win(value(worker))
                    || (votes_for(worker), weight(worker)) > (votes_for(current), weight(current))
            };
            if better && worker.completed_depth > 0 {
                best = index;
            }
        }
        best
    }

    /// A guess at the answer when the search was too short to have one: the table's move.
    fn ponder_move(&self, position: &Position, best: Move) -> Option<Move> {
        let mut after = position.clone();
        after.try_play(best).ok()?;
        let mv = self.table.probe(after.key(), 0)?.mv?;
        after.board().is_legal(mv).then_some(mv)
    }
}

fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A search that was told to go on until stopped, or that ponders, must not answer before it is told to.
fn wait_for_leave(signals: &Signals, limits: &Limits) {
    while !signals.is_stopped() && (limits.infinite || signals.is_pondering()) {
        std::thread::sleep(Duration::from_millis(1));
    }
}
