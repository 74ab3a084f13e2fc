//! Asynchronous access of a search to the strategist. A query takes milliseconds, in which a search thread
//! visits thousands of nodes. So a query returns at once, a thread of the strategist answers it, and the
//! search finds the answer in the cache when it visits the position again. Alternatively the search thread
//! answers its own queries, rarely, so that a run can be repeated node for node.

mod queue;
mod statistics;

pub use statistics::Statistics;

use crate::eval_cache::EvalCache;
use crate::networks::HybridNetworks;
use crate::selector::{FeatureContext, Features, Threshold};
use crate::strategist_evaluator::StrategistEvaluator;
use queue::{Query, Queue};
use statistics::Tally;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tandem_chess::Position;
use tandem_search::{Centipawns, QueryContext, Strategist, StrategistEval, StrategistHandle};

/// Threads that run the strategist, the hybrid's transformer: its own, or the search threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryMode {
    /// This number of threads of its own, at least one. The search goes on while they compute, and finds
    /// their answers in the cache.
    Threads(usize),
    /// Each search thread runs the network for its own queries and waits for it, so queries must be rare.
    /// Without a clock, a search with one thread is then deterministic.
    InSearch {
        /// Minimum number of nodes between two queries of one search thread.
        nodes: u64,
    },
}

/// Settings of a [`StrategistClient`]. For a setting that is `None`, the value in the hybrid file is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientSettings {
    /// Threads that run the network; [`Self::IN_SEARCH`] is the engine's default.
    pub mode: QueryMode,
    /// Queries every position that is deep enough, without asking the selector.
    pub always: bool,
    /// Minimum output of the selector, a probability, for which a position is queried; `None` uses the
    /// threshold of the hybrid's file.
    pub threshold: Option<Threshold>,
    /// Weight of the strategist's value in the value of a queried position, from 0 to 1, the rest being the
    /// NNUE's; `None` uses the weight in the hybrid file.
    pub blend: Option<f32>,
    /// Capacity of the cache of strategist evaluations, in positions.
    pub capacity: usize,
}

impl ClientSettings {
    /// More than a long search queries; a few megabytes.
    const CAPACITY: usize = 1 << 15;
    /// Queries within the search, rare enough that it keeps nine tenths of its speed with a strategist that
    /// takes five milliseconds.
    pub const IN_SEARCH: QueryMode = QueryMode::InSearch { nodes: 50_000 };

    /// Default settings with this mode: the selector decides, threshold and blend come with the networks.
    pub fn new(mode: QueryMode) -> Self {
        Self { mode, always: false, threshold: None, blend: None, capacity: Self::CAPACITY }
    }
}

/// Decides which positions of a search the strategist (the hybrid's transformer) evaluates, runs it, and
/// caches its answers. All search threads share it; each has a [`StrategistHandle`].
///
/// Dropping it ends the strategist's own threads once they have answered the query at hand.
#[derive(Debug)]
pub struct StrategistClient {
    settings: ClientSettings,
    shared: Arc<Shared>,
}

/// State that the client shares with the strategist's threads.
#[derive(Debug)]
struct Shared {
    networks: Arc<HybridNetworks>,
    cache: EvalCache,
    queue: Queue,
    tally: Tally,
}

impl StrategistClient {
    /// Creates a client and its threads. If the system refuses a thread, queries wait longer; if it refuses
    /// all, none is answered and the search goes on without the strategist.
    pub fn new(networks: Arc<HybridNetworks>, settings: ClientSettings) -> Self {
        let shared = Arc::new(Shared {
            cache: EvalCache::new(settings.capacity),
            queue: Queue::default(),
            tally: Tally::default(),
            networks,
        });
        match settings.mode {
            QueryMode::Threads(threads) => {
                for _ in 0..threads.max(1) {
                    let shared = Arc::clone(&shared);
                    let _ =
                        std::thread::Builder::new().name("strategist".into()).spawn(move || shared.serve());
                }
            }
            QueryMode::InSearch { .. } => {
                // The latency must be known before a clock runs. The first evaluation also pages the network
                // in, so only the second counts.
                let mut strategist = StrategistEvaluator::new(Arc::clone(&shared.networks));
                shared.answer(&mut strategist, &Position::startpos(), shared.tally.search());
                shared.tally.forget_latency();
                shared.answer(&mut strategist, &Position::startpos(), shared.tally.search());
            }
        }
        let client = Self { settings, shared };
        client.clear();
        client.begin_search();
        client
    }

    /// Both networks, the bridge, the selector and their settings.
    fn networks(&self) -> &Arc<HybridNetworks> {
        &self.shared.networks
    }

    /// Minimum output of the selector, a probability, for which a position is queried.
    pub fn threshold(&self) -> Threshold {
        self.settings.threshold.unwrap_or(self.networks().threshold())
    }

    /// Counts of queries, answers and cache hits since the search began.
    pub fn statistics(&self) -> Statistics {
        self.shared.tally.read()
    }
}

impl Strategist for StrategistClient {
    fn handle(self: Arc<Self>) -> Box<dyn StrategistHandle> {
        Box::new(ClientHandle::new(self))
    }

    /// Drops the pending queries of the last search and resets the statistics.
    fn begin_search(&self) {
        self.shared.queue.clear();
        self.shared.tally.begin_search();
    }

    /// Drops pending queries, because no thread waits for them any more.
    fn end_search(&self, evaluations: u64) {
        self.shared.queue.clear();
        self.shared.tally.evaluations.add(evaluations);
    }

    fn clear(&self) {
        self.shared.queue.clear();
        self.shared.cache.clear();
    }

    fn lookup(&self, key: u64) -> Option<Arc<StrategistEval>> {
        self.shared.cache.get(key)
    }

    fn blend(&self) -> f32 {
        self.settings.blend.unwrap_or(self.networks().blend())
    }

    /// A client of the same networks and settings with [`QueryMode::InSearch`].
    fn synchronous(&self) -> Arc<dyn Strategist> {
        let mode = match self.settings.mode {
            QueryMode::Threads(_) => ClientSettings::IN_SEARCH,
            in_search => in_search,
        };
        Arc::new(Self::new(Arc::clone(&self.shared.networks), ClientSettings { mode, ..self.settings }))
    }
}

impl Drop for StrategistClient {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

impl Shared {
    /// Answers queries until the client is dropped.
    fn serve(&self) {
        let mut strategist = StrategistEvaluator::new(Arc::clone(&self.networks));
        while let Some(query) = self.queue.pop() {
            self.answer(&mut strategist, &query.position, query.search);
            self.queue.finish(query.key());
        }
    }

    /// Evaluates a position for the search with this number and puts the result into the cache.
    fn answer(
        &self,
        strategist: &mut StrategistEvaluator,
        position: &Position,
        search: u64,
    ) -> Arc<StrategistEval> {
        let (start, generation) = (Instant::now(), self.cache.generation());
        let eval = Arc::new(strategist.evaluate(position).into_eval());
        self.cache.insert(position.key(), Arc::clone(&eval), generation);
        self.tally.record_answer(search, start.elapsed());
        eval
    }
}

/// A query is sent only if the time until the hard limit suffices for this many answers.
const RESERVED_ANSWERS: u32 = 8;
/// With a clock, answers may take at most one part in `TIME_DIVISOR` of the search's time, the root's among
/// them: a slow strategist is queried less, and in very fast games not even at every root. With one tenth
/// instead of one twentieth the search kept 0.87 of its nodes.
const TIME_DIVISOR: u32 = 20;
/// Nodes until a search that had no time for a query reads its clock again.
const CLOCK_CHECK_NODES: u64 = 1000;

/// Access of one search thread to the strategist client that all threads share.
pub(crate) struct ClientHandle {
    client: Arc<StrategistClient>,
    /// Runs the network on the search thread itself; `None` if the client has threads.
    strategist: Option<Box<StrategistEvaluator>>,
    /// Node count of this thread from which it may send its next query.
    next_query: u64,
    /// Time that this thread has spent on the strategist's network in this search.
    time_spent: Duration,
}

impl ClientHandle {
    /// Creates the handle of a search thread, with scratch memory for the network if the thread is to run it.
    fn new(client: Arc<StrategistClient>) -> Self {
        let synchronous = matches!(client.settings.mode, QueryMode::InSearch { .. });
        let strategist =
            synchronous.then(|| Box::new(StrategistEvaluator::new(Arc::clone(client.networks()))));
        Self { client, strategist, next_query: 0, time_spent: Duration::ZERO }
    }

    /// True if an answer fits into the time that is left, and into the strategist's part of it.
    fn has_time_to_answer(&self, context: QueryContext) -> bool {
        context.clock.is_none_or(|clock| {
            let answer = self.client.shared.tally.longest_answer();
            // The strategist's own threads take no time from the search thread.
            let fits_budget = self.strategist.is_none()
                || TIME_DIVISOR * (self.time_spent + answer) <= clock.planned.max(clock.elapsed);
            clock.remaining >= RESERVED_ANSWERS * answer && fits_budget
        })
    }
}

impl StrategistHandle for ClientHandle {
    fn begin_search(&mut self) {
        (self.next_query, self.time_spent) = (0, Duration::ZERO);
    }

    /// Counts a hit if the position is in the cache.
    #[inline]
    fn lookup(&self, key: u64) -> Option<Arc<StrategistEval>> {
        let eval = self.client.lookup(key)?;
        self.client.shared.tally.hits.add(1);
        Some(eval)
    }

    /// True if enough nodes have passed since the last query.
    #[inline]
    fn may_query(&self, nodes: u64) -> bool {
        nodes >= self.next_query
    }

    /// Queries the position if there is time and the selector selects it; the root is queried without asking
    /// the selector. Returns the evaluation at once if this thread runs the network; otherwise `None`, and the
    /// answer is in the cache some milliseconds later.
    fn query(
        &mut self,
        position: &Position,
        context: QueryContext,
        psqt_positional_gap: &mut dyn FnMut() -> Centipawns,
    ) -> Option<Arc<StrategistEval>> {
        let shared = &*self.client.shared;
        if !self.may_query(context.nodes) {
            return None;
        }
        // Even the strategist's own threads may take the core away that the search needs to answer in time.
        if !self.has_time_to_answer(context) {
            self.next_query = context.nodes.saturating_add(CLOCK_CHECK_NODES);
            return None;
        }
        let interval = match self.client.settings.mode {
            QueryMode::Threads(_) => None,
            QueryMode::InSearch { nodes } => Some(nodes),
        };
        shared.tally.considered.add(1);
        let selected = context.root
            || self.client.settings.always
            || shared.networks.selector().is_none_or(|selector| {
                let feature_context = FeatureContext {
                    depth: context.depth,
                    psqt_positional_gap: pawns(psqt_positional_gap()),
                };
                selector.selects(&Features::of(position, feature_context), self.client.threshold())
            });
        if !selected {
            return None;
        }
        match (interval, &mut self.strategist) {
            (Some(nodes), Some(strategist)) => {
                // Search threads visit the same positions, above all the root: one of them evaluates it, the
                // others go on.
                if !shared.queue.start(position.key()) {
                    return None;
                }
                shared.tally.queried.add(1);
                self.next_query = context.nodes.saturating_add(nodes);
                let start = Instant::now();
                let eval = shared.answer(strategist, position, shared.tally.search());
                shared.queue.finish(position.key());
                self.time_spent += start.elapsed();
                Some(eval)
            }
            _ => {
                let priority = (context.root, context.depth);
                let query =
                    || Query::new(position, shared.tally.search(), priority, shared.networks.reads_history());
                if shared.queue.push(position.key(), priority, query) {
                    shared.tally.queried.add(1);
                }
                None
            }
        }
    }
}

fn pawns(Centipawns(value): Centipawns) -> f32 {
    value as f32 / 100.0
}

#[cfg(test)]
mod tests;
