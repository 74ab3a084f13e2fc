//! The search with a strategist: its queries, and that each use of the answers changes the search.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tandem_chess::Position;
use tandem_search::{
    Bootstrap, Centipawns, Evaluator, Limits, QueryContext, STACK_SIZE, SearchResult, Searcher, Strategist,
    StrategistEval, StrategistHandle,
};
use tandem_util::random::SplitMix;

/// A strategist that answers at once, at most every 500 nodes, with evaluations that are random but always the
/// same for a position.
#[derive(Default)]
struct RandomStrategist {
    known: Mutex<HashMap<u64, Arc<StrategistEval>>>,
    /// Queries, and evaluations of the evaluator that [`Strategist::end_search`] reported.
    queries: Mutex<Vec<QueryContext>>,
    evaluations: Mutex<Vec<u64>>,
}

struct RandomHandle {
    strategist: Arc<RandomStrategist>,
    next_query: u64,
}

impl Strategist for RandomStrategist {
    fn handle(self: Arc<Self>) -> Box<dyn StrategistHandle> {
        Box::new(RandomHandle { strategist: self, next_query: 0 })
    }

    fn begin_search(&self) {
        self.queries.lock().unwrap().clear();
    }

    fn end_search(&self, evaluations: u64) {
        self.evaluations.lock().unwrap().push(evaluations);
    }

    fn clear(&self) {
        self.known.lock().unwrap().clear();
    }

    fn lookup(&self, key: u64) -> Option<Arc<StrategistEval>> {
        self.known.lock().unwrap().get(&key).cloned()
    }

    fn blend(&self) -> f32 {
        0.7
    }

    fn synchronous(&self) -> Arc<dyn Strategist> {
        Arc::new(Self::default())
    }
}

impl StrategistHandle for RandomHandle {
    fn begin_search(&mut self) {
        self.next_query = 0;
    }

    fn lookup(&self, key: u64) -> Option<Arc<StrategistEval>> {
        self.strategist.lookup(key)
    }

    fn may_query(&self, nodes: u64) -> bool {
        nodes >= self.next_query
    }

    fn query(
        &mut self,
        position: &Position,
        context: QueryContext,
        _psqt_positional_gap: &mut dyn FnMut() -> Centipawns,
    ) -> Option<Arc<StrategistEval>> {
        self.next_query = context.nodes + 500;
        let mut random = SplitMix::new(position.key());
        let weights: Vec<f64> = position.legal_moves().iter().map(|_| random.unit().powi(4)).collect();
        let sum: f64 = weights.iter().sum();
        let probabilities = weights.into_iter().map(|weight| (weight / sum) as f32);
        let policy: Vec<_> = position.legal_moves().into_iter().zip(probabilities).collect();
        let value = Centipawns(random.below(600) as i32 - 300);
        let eval = Arc::new(StrategistEval::new(Some(value), &policy));
        self.strategist.known.lock().unwrap().insert(position.key(), Arc::clone(&eval));
        self.strategist.queries.lock().unwrap().push(context);
        Some(eval)
    }
}

/// Searches two positions one after the other.
fn search(
    strategist: Option<Arc<RandomStrategist>>,
    prepare: impl FnOnce(&mut Searcher) + Send,
) -> Vec<SearchResult> {
    let work = || {
        let evaluator = || Box::new(Bootstrap::default()) as Box<dyn Evaluator>;
        let mut searcher = Searcher::new(Arc::new(evaluator), 16).unwrap();
        searcher.set_strategist(strategist.map(|strategist| strategist as Arc<dyn Strategist>));
        prepare(&mut searcher);
        let limits = Limits { depth: Some(10), ..Limits::default() };
        let fens = [
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
            "r1bq1rk1/pp2bppp/2n1pn2/2pp4/3P1B2/2PBPN2/PP1N1PPP/R2QK2R w KQ - 0 8",
        ];
        let mut search = |fen: &str| {
            searcher.signals().arm(false);
            searcher.search(&Position::from_fen(fen).unwrap(), &limits, &mut |_| ())
        };
        fens.map(&mut search).to_vec()
    };
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(STACK_SIZE).spawn_scoped(scope, work).unwrap().join().unwrap()
    })
}

fn nodes(results: &[SearchResult]) -> Vec<u64> {
    results.iter().map(|result| result.nodes).collect()
}

#[test]
fn the_root_is_queried_first_and_other_positions_only_at_some_depth() {
    let strategist = Arc::new(RandomStrategist::default());
    search(Some(Arc::clone(&strategist)), |_| ());
    let queries = strategist.queries.lock().unwrap();
    assert!(queries.len() > 3, "{queries:?}");
    assert!(queries[0].root && queries[0].nodes == 0, "{:?}", queries[0]);
    assert!(queries[1..].iter().all(|query| !query.root && query.depth >= 4), "{queries:?}");
    assert!(queries.iter().all(|query| query.clock.is_none()), "no clock runs");
    let evaluations = strategist.evaluations.lock().unwrap();
    assert!(evaluations.len() == 2 && evaluations.iter().all(|&count| count > 1000), "{evaluations:?}");
}

#[test]
fn its_evaluations_change_the_search_always_alike() {
    let with = || nodes(&search(Some(Arc::default()), |_| ()));
    let first = with();
    assert_eq!(first, with());
    let without = nodes(&search(None, |_| ()));
    assert_ne!(first, without);
    let removed = search(Some(Arc::default()), |searcher| searcher.set_strategist(None));
    assert_eq!(nodes(&removed), without);
}

/// Every use of the strategist's evaluation has a switch.
#[test]
#[cfg(feature = "tune")]
fn with_all_uses_switched_off_the_search_is_unchanged() {
    const USES: [&str; 4] =
        ["use_strategist_order", "use_strategist_lmr", "use_strategist_value", "use_strategist_time"];
    let with = |uses: &[&str]| {
        let off = USES.into_iter().filter(|name| !uses.contains(name));
        let switch = |searcher: &mut Searcher| {
            off.for_each(|name| assert!(searcher.settings.params.set(name, 0), "{name}"));
        };
        nodes(&search(Some(Arc::default()), switch))
    };
    let without = nodes(&search(None, |_| ()));
    assert_eq!(with(&[]), without);
    // Time management has no effect on a search to a fixed depth.
    assert_eq!(with(&["use_strategist_time"]), without);
    for name in &USES[..3] {
        assert_ne!(with(&[name]), without, "{name}");
    }
}
