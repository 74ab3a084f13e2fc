//! The search with a second mind.

use std::sync::Arc;
use tandem_chess::Position;
use tandem_hybrid::{Counsel, CounselSettings, Minds, Mode, Statistics};
use tandem_search::{Bootstrap, Evaluator, Limits, STACK_SIZE, SearchResult, Searcher};
use tandem_transformer::{Isa, Network, Precision, Preset, Weights};

/// Asked often, so that little searching shows much.
const OFTEN: Mode = Mode::Slices { nodes: 500 };

fn counsel(mode: Mode) -> Arc<Counsel> {
    let mut architecture = Preset::BtSmall.architecture();
    architecture.body.layers = 1;
    let network = Network::new(&Weights::random(architecture, 3), Precision::F32, Isa::best());
    let minds = Minds::new(Arc::new(network), None).unwrap();
    Arc::new(Counsel::new(Arc::new(minds), CounselSettings::new(mode)))
}

/// Searches positions one after the other, and tells what came of it and what counsel counted in the last.
fn search(counsel: Option<Arc<Counsel>>, threads: usize) -> (Vec<SearchResult>, Option<Statistics>) {
    search_with(counsel, threads, |_| ())
}

fn search_with(
    counsel: Option<Arc<Counsel>>,
    threads: usize,
    prepare: impl FnOnce(&mut Searcher) + Send,
) -> (Vec<SearchResult>, Option<Statistics>) {
    let work = || {
        let evaluator = || Box::new(Bootstrap::default()) as Box<dyn Evaluator>;
        let mut searcher = Searcher::new(Arc::new(evaluator), 16).unwrap();
        searcher.set_threads(threads);
        searcher.set_counsel(counsel);
        prepare(&mut searcher);
        let limits = Limits { depth: Some(10), ..Limits::default() };
        let results = [
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
            "r1bq1rk1/pp2bppp/2n1pn2/2pp4/3P1B2/2PBPN2/PP1N1PPP/R2QK2R w KQ - 0 8",
        ]
        .map(|fen| {
            searcher.signals().arm(false);
            searcher.search(&Position::from_fen(fen).unwrap(), &limits, &mut |_| ())
        });
        (results.to_vec(), searcher.counsel().map(|counsel| counsel.statistics()))
    };
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(STACK_SIZE).spawn_scoped(scope, work).unwrap().join().unwrap()
    })
}

fn nodes(results: &[SearchResult]) -> Vec<u64> {
    results.iter().map(|result| result.nodes).collect()
}

#[test]
fn in_step_it_always_searches_the_same_nodes() {
    let (alone, none) = search(None, 1);
    assert_eq!(none, None);
    let (first, counted) = search(Some(counsel(OFTEN)), 1);
    let (second, again) = search(Some(counsel(OFTEN)), 1);
    assert_eq!(nodes(&first), nodes(&second));
    assert_ne!(nodes(&first), nodes(&alone), "a mind by chance must be heard");
    let (counted, again) = (counted.unwrap(), again.unwrap());
    let counts = |statistics: Statistics| {
        let Statistics { evaluations, considered, asked, answered, hits, .. } = statistics;
        [evaluations, considered, asked, answered, hits]
    };
    assert_eq!(counts(counted), counts(again));
    let Statistics { evaluations, asked, answered, hits, .. } = counted;
    assert!(asked > 3 && asked == answered && hits > answered, "{counted}");
    assert!(answered * 500 <= first[1].nodes + 500, "{counted}");
    assert!(evaluations > 1000 && counted.share() < 0.01, "{counted}");
}

#[test]
fn threads_of_search_and_strategist_get_along() {
    let (results, counted) = search(Some(counsel(Mode::Threads(2))), 2);
    assert!(results.iter().all(|result| result.best.is_some() && result.depth == 10));
    assert!(counted.unwrap().asked > 0);
}

/// Each use of the strategist's word has a switch, and there is no other use.
#[test]
#[cfg(feature = "tune")]
fn with_all_uses_switched_off_it_is_asked_for_nothing() {
    const USES: [&str; 4] = ["use_counsel_order", "use_counsel_lmr", "use_counsel_value", "use_counsel_time"];
    let with = |uses: &[&str]| {
        let off = USES.into_iter().filter(|name| !uses.contains(name));
        let switch = |searcher: &mut Searcher| {
            off.for_each(|name| assert!(searcher.settings.params.set(name, 0), "{name}"));
        };
        nodes(&search_with(Some(counsel(OFTEN)), 1, switch).0)
    };
    let alone = nodes(&search(None, 1).0);
    assert_eq!(with(&[]), alone);
    // Time is no matter where depth is the limit.
    assert_eq!(with(&["use_counsel_time"]), alone);
    for name in &USES[..3] {
        assert_ne!(with(&[name]), alone, "{name}");
    }
}
