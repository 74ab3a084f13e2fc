//! A client as the search uses it: when it queries, when it waits, and what it keeps.

use super::*;
use crate::file::Hybrid;
use crate::fingerprint::Fingerprint;
use crate::test_nets;
use tandem_search::SearchClock;
use tandem_util::random::SplitMix;

fn client(mode: QueryMode) -> Arc<StrategistClient> {
    let networks = HybridNetworks::new(test_nets::transformer(1), None).unwrap();
    Arc::new(StrategistClient::new(Arc::new(networks), ClientSettings::new(mode)))
}

fn context(nodes: u64) -> QueryContext {
    QueryContext { depth: 8, root: false, nodes, clock: None }
}

/// Positions of a random game.
fn game(plies: usize) -> Vec<Position> {
    let mut random = SplitMix::new(5);
    let mut position = Position::startpos();
    let mut positions = Vec::new();
    for _ in 0..plies {
        positions.push(position.clone());
        let moves = position.legal_moves();
        position.play(moves[random.below(moves.len() as u32) as usize]);
    }
    positions
}

fn never() -> Centipawns {
    panic!("the gap is not needed")
}

#[test]
fn in_the_search_it_answers_at_once_and_once_per_interval_of_nodes() {
    let client = client(QueryMode::InSearch { nodes: 100 });
    let mut handle = ClientHandle::new(Arc::clone(&client));
    let positions = game(10);
    let answered = |handle: &mut ClientHandle| -> Vec<bool> {
        let query = |(index, position): (usize, &Position)| {
            handle.query(position, context(30 * index as u64), &mut never).is_some()
        };
        positions.iter().enumerate().map(query).collect()
    };
    let expected = [true, false, false, false, true, false, false, false, true, false];
    assert_eq!(answered(&mut handle), expected);
    handle.begin_search();
    assert_eq!(answered(&mut handle), expected);
    for (position, answered) in positions.iter().zip(expected) {
        assert_eq!(handle.lookup(position.key()).is_some(), answered);
    }
    let Statistics { considered, queried, answered, hits, time, .. } = client.statistics();
    assert_eq!((considered, queried, answered, hits), (6, 6, 6, 3));
    assert!(time > Duration::ZERO);
    client.clear();
    assert!(positions.iter().all(|position| client.lookup(position.key()).is_none()));
}

#[test]
fn in_the_search_a_position_that_another_thread_evaluates_is_not_evaluated_again() {
    let client = client(QueryMode::InSearch { nodes: 100 });
    let mut handle = ClientHandle::new(Arc::clone(&client));
    let positions = game(2);
    let key = positions[0].key();
    assert!(client.shared.queue.start(key) && !client.shared.queue.start(key));
    assert!(handle.query(&positions[0], context(0), &mut never).is_none());
    // The interval until the next query has not begun.
    assert!(handle.query(&positions[1], context(1), &mut never).is_some());
    client.shared.queue.finish(key);
    assert!(handle.query(&positions[0], context(200), &mut never).is_some());
    assert_eq!(client.statistics().queried, 2);
}

#[test]
fn in_the_search_it_is_deterministic() {
    let positions = game(6);
    let first = client(QueryMode::Threads(1));
    let outputs = || -> Vec<Arc<StrategistEval>> {
        let mut handle = first.synchronous().handle();
        let query = |(index, position): (usize, &Position)| {
            handle.query(position, context(1_000_000 * index as u64), &mut never).unwrap()
        };
        positions.iter().enumerate().map(query).collect()
    };
    assert_eq!(outputs(), outputs());
}

#[test]
fn without_time_for_an_answer_nothing_is_queried() {
    let mut handle = ClientHandle::new(client(QueryMode::InSearch { nodes: 1 }));
    let position = Position::startpos();
    let clock = |elapsed: u64, planned: u64, remaining: u64| {
        let [elapsed, planned, remaining] = [elapsed, planned, remaining].map(Duration::from_micros);
        QueryContext { clock: Some(SearchClock { elapsed, planned, remaining }), ..context(u64::MAX) }
    };
    const HOUR: u64 = 3_600_000_000;
    assert!(handle.query(&position, clock(0, HOUR, 1), &mut never).is_none());
    // Not even the root is queried if an answer takes too much of the move's time.
    assert!(handle.query(&position, QueryContext { root: true, ..clock(0, 1, HOUR) }, &mut never).is_none());
    assert!(handle.query(&position, clock(0, HOUR, HOUR), &mut never).is_some());
    assert!(handle.query(&position, clock(1, 1, HOUR), &mut never).is_none());
    // The move takes longer than planned.
    assert!(handle.query(&position, clock(HOUR, 1, HOUR), &mut never).is_some());
}

/// Both sides of each bound, with a known latency of ten milliseconds.
#[test]
fn answers_take_at_most_their_part_of_the_time() {
    let position = Position::startpos();
    let answer = Duration::from_millis(10);
    let asks = |planned: Duration, remaining: Duration, nodes: u64| {
        let client = client(QueryMode::InSearch { nodes: 1 });
        client.shared.tally.forget_latency();
        client.shared.tally.record_answer(client.shared.tally.search(), answer);
        let mut handle = ClientHandle::new(client);
        let clock = |planned, remaining| Some(SearchClock { elapsed: Duration::ZERO, planned, remaining });
        let hour = Duration::from_secs(3600);
        // A query without time, and then another one.
        assert!(
            handle
                .query(&position, QueryContext { clock: clock(answer, hour), ..context(0) }, &mut never)
                .is_none()
        );
        handle
            .query(&position, QueryContext { clock: clock(planned, remaining), ..context(nodes) }, &mut never)
            .is_some()
    };
    let [planned, remaining, bit] = [200_000, 80_000, 1].map(Duration::from_micros);
    assert!(asks(planned, remaining, 1000));
    assert!(!asks(planned - bit, remaining, 1000));
    assert!(!asks(planned, remaining - bit, 1000));
    assert!(!asks(planned, remaining, 999), "the clock is not checked again so soon");
}

#[test]
fn an_answer_that_was_begun_before_a_new_game_is_not_kept() {
    let client = client(QueryMode::InSearch { nodes: 1 });
    let position = Position::startpos();
    let mut handle = ClientHandle::new(Arc::clone(&client));
    assert!(handle.query(&position, context(0), &mut never).is_some());
    assert!(client.lookup(position.key()).is_some());
    let (generation, eval) = (client.shared.cache.generation(), client.lookup(position.key()).unwrap());
    client.clear();
    client.shared.cache.insert(position.key(), eval, generation);
    assert!(client.lookup(position.key()).is_none());
}

#[test]
fn threads_of_the_strategist_answer_later() {
    let client = client(QueryMode::Threads(2));
    let mut handle = ClientHandle::new(Arc::clone(&client));
    let positions = game(12);
    let start = Instant::now();
    while positions.iter().any(|position| client.lookup(position.key()).is_none()) {
        for position in &positions {
            if handle.lookup(position.key()).is_none() {
                assert!(handle.query(position, context(0), &mut never).is_none());
            }
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", client.statistics());
    }
    let mut handle = client.synchronous().handle();
    for (index, position) in positions.iter().enumerate() {
        let expected = handle.query(position, context(1_000_000 * index as u64), &mut never);
        assert_eq!(client.lookup(position.key()), expected);
    }
    assert!(client.statistics().answered >= 12);
}

#[test]
fn the_selector_decides_except_at_the_root_or_with_always() {
    let unused = Fingerprint::of(b"");
    let hybrid = |threshold| Hybrid {
        selector: Some(test_nets::selector(1)),
        threshold,
        ..Hybrid::new(unused, unused)
    };
    let answered = |threshold: f32, always: bool, root: bool| {
        let networks = HybridNetworks::new(test_nets::transformer(1), None)
            .unwrap()
            .with_hybrid(hybrid(threshold))
            .unwrap();
        let settings = ClientSettings { always, ..ClientSettings::new(QueryMode::InSearch { nodes: 1 }) };
        let mut handle = ClientHandle::new(Arc::new(StrategistClient::new(Arc::new(networks), settings)));
        handle
            .query(&Position::startpos(), QueryContext { root, ..context(0) }, &mut || Centipawns(50))
            .is_some()
    };
    assert!(answered(0.0, false, false));
    assert!(!answered(1.0, false, false));
    assert!(answered(1.0, true, false) && answered(1.0, false, true));
}

#[test]
fn settings_override_the_hybrid_file() {
    let unused = Fingerprint::of(b"");
    let hybrid = Hybrid { blend: 0.25, threshold: 0.75, ..Hybrid::new(unused, unused) };
    let networks = HybridNetworks::new(test_nets::transformer(1), None).unwrap().with_hybrid(hybrid).unwrap();
    let networks = Arc::new(networks);
    let defaults = ClientSettings::new(QueryMode::InSearch { nodes: 1 });
    let from_hybrid = StrategistClient::new(Arc::clone(&networks), defaults);
    assert_eq!((from_hybrid.blend(), from_hybrid.threshold().probability()), (0.25, 0.75));
    let overridden = StrategistClient::new(
        networks,
        ClientSettings { blend: Some(1.0), threshold: Some(Threshold::new(0.5)), ..defaults },
    );
    assert_eq!((overridden.blend(), overridden.threshold().probability()), (1.0, 0.5));
}
