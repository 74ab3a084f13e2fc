//! The searcher: threads that search the same position and share a table (Lazy SMP).

use crate::deepening::table_value;
use crate::evaluator::EvaluatorFactory;
use crate::limits::Limits;
use crate::report::{Info, ScoreBound, SearchResult};
use crate::shared::{Counters, Shared, Signals};
use crate::strength::Strength;
use crate::syzygy::{Found, SyzygyError, Tablebases};
use crate::time::TimeManager;
use crate::tt::{OutOfMemory, Table};
use crate::value::{Centipawns, DRAW, INFINITE, MATE, MAX_EVAL, Score, Value, is_win};
use crate::worker::{RootMove, Worker};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tandem_chess::random::SplitMix;
use tandem_chess::{Color, Move, PackedMove, Position};
use tandem_hybrid::{Counsel, Seat};

/// Settings of a searcher that may change between two searches.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many of the best lines to find.
    pub multipv: usize,
    /// Time kept back each move for messages to travel.
    pub move_overhead: Duration,
    /// How much worse than even a draw is thought to be, for the side that searches.
    pub contempt: Centipawns,
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
            contempt: Centipawns(0),
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

    /// Opens endgame tables, or closes them if the path is empty. Where there are none, or some that are not whole or have a
    /// name that cannot be read, those in use stay; where there are some that cannot be opened, no tables are in use any more.
    pub fn set_syzygy(&mut self, path: &str) -> Result<u32, SyzygyError> {
        let found = if path.is_empty() { None } else { Some(Found::look(path)?) };
        // The library serves one set of tables at a time, so the old ones go first.
        self.tablebases = None;
        let shared = Arc::new(self.shared(self.workers.len()));
        for worker in &mut self.workers {
            worker.shared = Arc::clone(&shared);
        }
        let Some(found) = found else { return Ok(0) };
        let tables = Tablebases::open_found(path, found)?;
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
        let asked_for = self.settings.multipv.max(1);
        let mut multipv = asked_for;
        if self.settings.strength.is_some() {
            multipv = multipv.max(Strength::LINES);
        }
        let time = TimeManager::new(start, limits, self.settings.move_overhead);
        let root_moves = self.root_moves(position, limits);
        self.table.new_search();
        if let Some(counsel) = &self.counsel {
            counsel.begin();
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
            worker.most_nodes = self.settings.strength.map(Strength::nodes);
        }

        if root_moves.is_empty() {
            self.wait_for_leave(limits);
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
            let mut threads = Vec::with_capacity(helpers.len());
            for worker in helpers {
                let builder = std::thread::Builder::new().stack_size(STACK_SIZE);
                // A thread that the system refuses is one helper less, not the end of the search.
                threads.extend(builder.spawn_scoped(scope, move || {
                    #[cfg(feature = "tune")]
                    params.put_in_use();
                    worker.deepen(multipv, None);
                }));
            }
            let lever = StopWhenLeft(&self.signals);
            // A limited player looks at more lines than the user asked for, and keeps them to itself.
            let mut report = |info: Info| {
                if info.multipv <= asked_for {
                    report(info);
                }
            };
            main[0].deepen(multipv, Some(&mut report));
            wait_for_leave(&self.signals, limits);
            drop(lever);
            // What a helper that failed has found so far is as good as that of one that was stopped.
            threads.into_iter().for_each(|thread| drop(thread.join()));
        });

        if let Some(counsel) = &self.counsel {
            counsel.end();
            counsel.note_evaluations(self.workers.iter().map(|worker| worker.evaluations).sum());
        }

        let limited = self.settings.strength.is_some();
        let chosen = if limited || multipv > 1 || limits.depth.is_some() {
            0
        } else {
            elect(&self.workers.iter().map(Ballot::of).collect::<Vec<_>>())
        };
        let worker = &self.workers[chosen];
        let index = match self.settings.strength {
            Some(strength) => strength.choose(&worker.root_moves, &mut SplitMix::from_clock()),
            None => 0,
        };
        let root = &worker.root_moves[index];
        let (depth, mut info) = (worker.completed_depth, worker.info(index, ScoreBound::Exact));
        let is_news = chosen != 0 || worker.root_depth != depth;
        let (best, value, rank) = (root.mv, root.value(), root.tb_rank);
        if value == -INFINITE {
            // Broken off before anything was searched: the evaluator alone has a word.
            let value = self.evaluate(position).0.clamp(-MAX_EVAL, MAX_EVAL);
            info.score = Score::from_value(table_value(value, rank));
        }
        let result = SearchResult {
            best: Some(best),
            ponder: info.pv.get(1).copied().or_else(|| self.ponder_move(position, best)),
            score: info.score,
            depth: depth as u32,
            nodes: info.nodes,
            time: info.time,
        };
        // What an iteration that was broken off has found is played, and nobody has been told of it yet.
        if is_news && index < asked_for {
            info.depth = result.depth.max(1);
            report(info);
        }
        result
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

    /// A guess at the answer when the search was too short to have one: the table's move.
    fn ponder_move(&self, position: &Position, best: Move) -> Option<Move> {
        let mut after = position.clone();
        after.try_play(best).ok()?;
        let mv = self.table.probe(after.key(), 0)?.mv?;
        after.board().is_legal(mv).then_some(mv)
    }
}

/// Stops a search when its first thread leaves, be it by a fault: its helpers would search on for ever.
struct StopWhenLeft<'a>(&'a Signals);

impl Drop for StopWhenLeft<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// What a thread has come to, for the vote on which move is played.
#[derive(Clone, Copy, Debug)]
struct Ballot {
    mv: PackedMove,
    value: Value,
    depth: i32,
}

impl Ballot {
    fn of(worker: &Worker) -> Self {
        let root = &worker.root_moves[0];
        Self { mv: PackedMove::new(Some(root.mv)), value: root.value(), depth: worker.completed_depth }
    }
}

/// The thread whose move is to be played: each votes for its own with a weight that grows with depth and value. Who finished
/// no iteration has no vote. A win that is found is played.
fn elect(ballots: &[Ballot]) -> usize {
    let counted = || ballots.iter().filter(|ballot| ballot.depth > 0);
    let least = counted().map(|ballot| ballot.value).min().unwrap_or(0);
    let weight = |ballot: &Ballot| i64::from(ballot.value - least + 14) * i64::from(ballot.depth);
    let mut votes: HashMap<u16, i64> = HashMap::new();
    for ballot in counted() {
        *votes.entry(ballot.mv.bits()).or_default() += weight(ballot);
    }
    let votes_for = |ballot: &Ballot| votes.get(&ballot.mv.bits()).copied().unwrap_or(0);
    let mut best = 0;
    for (index, ballot) in ballots.iter().enumerate().skip(1) {
        let current = &ballots[best];
        let better = if is_win(current.value) {
            ballot.value > current.value
        } else {
            is_win(ballot.value)
                || (votes_for(ballot), weight(ballot)) > (votes_for(current), weight(current))
        };
        if better && ballot.depth > 0 {
            best = index;
        }
    }
    best
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

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::Square;

    /// What threads with these moves, values and depths play.
    fn played(ballots: &[(Square, Value, i32)]) -> Square {
        let ballot = |&(to, value, depth): &(Square, Value, i32)| {
            let mv = Move { from: Square::E1, to, promotion: None };
            Ballot { mv: PackedMove::new(Some(mv)), value, depth }
        };
        ballots[elect(&ballots.iter().map(ballot).collect::<Vec<_>>())].0
    }

    /// Others would take it for what the position is worth.
    #[test]
    fn what_some_moves_are_worth_is_not_kept_as_what_the_position_is() {
        let factory = || Box::new(crate::Bootstrap::default()) as Box<dyn crate::Evaluator>;
        let mut searcher = Searcher::new(Arc::new(factory), 1).unwrap();
        let position = Position::from_fen("6k1/5ppp/8/8/8/8/5PPP/K3R3 w - - 0 1").unwrap();
        let mut kept = |search_moves: Vec<Move>| {
            searcher.signals().arm(false);
            let limits = Limits { depth: Some(3), search_moves, ..Limits::default() };
            searcher.search(&position, &limits, &mut |_| ());
            searcher.table.probe(position.key(), 0).and_then(|entry| entry.mv)
        };
        let king = Move { from: Square::A1, to: Square::B1, promotion: None };
        assert_eq!(kept(vec![king]), None);
        assert_eq!(kept(Vec::new()), Some(Move { from: Square::E1, to: Square::E8, promotion: None }));
    }

    #[test]
    fn threads_vote_by_depth_value_and_number() {
        let (a, b) = (Square::A1, Square::B1);
        assert_eq!(played(&[(a, 10, 14), (b, 10, 14)]), a, "nothing speaks against the first");
        assert_eq!(played(&[(a, 10, 14), (b, 30, 14)]), b);
        assert_eq!(played(&[(a, 10, 14), (b, 10, 18)]), b);
        assert_eq!(played(&[(a, 20, 14), (b, 18, 14), (b, 18, 14)]), b, "two against one");
        // A move that fell is worth what it fell to.
        assert_eq!(played(&[(a, -200, 14), (b, 50, 14)]), b);
        assert_eq!(played(&[(a, 10, 1), (b, 500, 0)]), a, "who has finished nothing has no vote");
        assert_eq!(played(&[(a, 300, 20), (a, 290, 20), (b, MATE - 5, 12)]), b, "a win is a win");
        assert_eq!(played(&[(a, MATE - 9, 12), (b, MATE - 5, 12), (b, 0, 30)]), b);
    }
}
