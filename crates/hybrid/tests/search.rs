//! The search with a strategist that runs a transformer: deterministic if queried from the search, safe with
//! threads, unchanged if unused.

use std::sync::Arc;
use tandem_chess::Position;
use tandem_hybrid::{ClientSettings, HybridNetworks, QueryMode, Statistics, StrategistClient};
use tandem_search::{Bootstrap, Evaluator, Limits, STACK_SIZE, SearchResult, Searcher, Strategist};
use tandem_transformer::{Isa, Network, Precision, Preset, Weights};

/// Short enough that a small search sends several queries.
const OFTEN: QueryMode = QueryMode::InSearch { nodes: 500 };

fn strategist(mode: QueryMode) -> Arc<StrategistClient> {
    let mut architecture = Preset::BtSmall.architecture();
    architecture.body.layers = 1;
    let network = Network::new(&Weights::random(architecture, 3), Precision::F32, Isa::best());
    let networks = HybridNetworks::new(Arc::new(network), None).unwrap();
    Arc::new(StrategistClient::new(Arc::new(networks), ClientSettings::new(mode)))
}

/// Searches two positions one after the other, and returns the results and the statistics of the second.
fn search(
    strategist: Option<Arc<StrategistClient>>,
    threads: usize,
) -> (Vec<SearchResult>, Option<Statistics>) {
    let work = || {
        let evaluator = || Box::new(Bootstrap::default()) as Box<dyn Evaluator>;
        let mut searcher = Searcher::new(Arc::new(evaluator), 16).unwrap();
        searcher.set_threads(threads);
        searcher.set_strategist(strategist.clone().map(|client| client as Arc<dyn Strategist>));
        let limits = Limits { depth: Some(10), ..Limits::default() };
        let results = [
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
            "r1bq1rk1/pp2bppp/2n1pn2/2pp4/3P1B2/2PBPN2/PP1N1PPP/R2QK2R w KQ - 0 8",
        ]
        .map(|fen| {
            searcher.signals().arm(false);
            searcher.search(&Position::from_fen(fen).unwrap(), &limits, &mut |_| ())
        });
        (results.to_vec(), strategist.map(|client| client.statistics()))
    };
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(STACK_SIZE).spawn_scoped(scope, work).unwrap().join().unwrap()
    })
}

fn nodes(results: &[SearchResult]) -> Vec<u64> {
    results.iter().map(|result| result.nodes).collect()
}

#[test]
fn queried_from_the_search_it_always_searches_the_same_nodes() {
    let (without, none) = search(None, 1);
    assert_eq!(none, None);
    let (first, counted) = search(Some(strategist(OFTEN)), 1);
    let (second, again) = search(Some(strategist(OFTEN)), 1);
    assert_eq!(nodes(&first), nodes(&second));
    assert_ne!(nodes(&first), nodes(&without), "a random network must change the search");
    let (counted, again) = (counted.unwrap(), again.unwrap());
    let counts = |statistics: Statistics| {
        let Statistics { evaluations, considered, queried, answered, hits, .. } = statistics;
        [evaluations, considered, queried, answered, hits]
    };
    assert_eq!(counts(counted), counts(again));
    let Statistics { evaluations, queried, answered, hits, .. } = counted;
    assert!(queried > 3 && queried == answered && hits > answered, "{counted}");
    assert!(answered * 500 <= first[1].nodes + 500, "{counted}");
    assert!(evaluations > 1000 && counted.fraction() < 0.01, "{counted}");
}

#[test]
fn threads_of_search_and_strategist_run_together() {
    let (results, counted) = search(Some(strategist(QueryMode::Threads(2))), 2);
    assert!(results.iter().all(|result| result.best.is_some() && result.depth == 10));
    assert!(counted.unwrap().queried > 0);
}
