//! The search through the public interface of the crate.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tandem_chess::{Changes, Position, uci};
use tandem_search::{
    Bootstrap, Centipawns, Evaluator, Info, Limits, STACK_SIZE, Score, SearchResult, Searcher,
};

fn searcher() -> Searcher {
    Searcher::new(Arc::new(|| Box::new(Bootstrap::default()) as Box<dyn Evaluator>), 16).unwrap()
}

/// Runs a search on a thread with the stack that it needs.
fn with_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(STACK_SIZE).spawn_scoped(scope, work).unwrap().join().unwrap()
    })
}

fn search(searcher: &mut Searcher, fen: &str, limits: &Limits) -> (SearchResult, Vec<Info>) {
    let position = Position::from_fen(fen).unwrap();
    let mut infos = Vec::new();
    searcher.signals().arm(limits.ponder);
    let result = searcher.search(&position, limits, &mut |info| infos.push(info));
    (result, infos)
}

fn depth(depth: u32) -> Limits {
    Limits { depth: Some(depth), ..Limits::default() }
}

#[test]
fn mates_are_found_and_counted() {
    with_stack(|| {
        for (fen, moves) in [
            ("6k1/5ppp/8/8/8/8/8/K6R w - - 0 1", None),
            ("6k1/5ppp/8/8/8/8/5PPP/K3R3 w - - 0 1", Some(1)),
            ("r2qk2r/pb4pp/1n2Pb2/2B2Q2/p1p5/2P5/2B2PPP/RN2R1K1 w kq - 0 1", Some(2)),
            ("r1b1kb1r/pppp1ppp/5q2/4n3/3KP3/2N3PN/PPP4P/R1BQ1B1R b kq - 0 1", Some(3)),
            // Mated in one after any move.
            ("7k/R7/6K1/8/8/8/8/8 b - - 0 1", Some(-1)),
            // Mated already.
            ("8/8/8/8/8/5k2/6q1/7K w - - 0 1", Some(0)),
        ] {
            let (result, _) = search(&mut searcher(), fen, &depth(10));
            match moves {
                Some(moves) => assert_eq!(result.score, Score::Mate(moves), "{fen}"),
                None => assert!(matches!(result.score, Score::Centipawns(_)), "{fen}"),
            }
        }
    });
}

#[test]
fn without_a_legal_move_there_is_no_best_move() {
    with_stack(|| {
        let (stalemate, _) = search(&mut searcher(), "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", &depth(5));
        assert!(stalemate.best.is_none());
        assert_eq!(stalemate.score.to_string(), "cp 0");
    });
}

#[test]
fn the_same_search_counts_the_same_nodes() {
    with_stack(|| {
        let fen = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1";
        let first = search(&mut searcher(), fen, &depth(9)).0;
        let second = search(&mut searcher(), fen, &depth(9)).0;
        assert_eq!((first.nodes, first.best), (second.nodes, second.best));
    });
}

#[test]
fn a_node_limit_is_met_exactly() {
    with_stack(|| {
        for limit in [1, 100, 1023, 1024, 1025, 7777] {
            let limits = Limits { nodes: Some(limit), ..Limits::default() };
            let fen = "r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10";
            let (result, _) = search(&mut searcher(), fen, &limits);
            assert_eq!(result.nodes, limit);
            assert!(result.best.is_some());
            assert!(matches!(result.score, Score::Centipawns(_)), "{limit}: {}", result.score);
        }
    });
}

#[test]
fn search_moves_are_the_only_ones_considered() {
    with_stack(|| {
        let position = Position::startpos();
        let only = uci::parse(position.board(), "a2a3").unwrap();
        let limits = Limits { search_moves: vec![only], ..depth(6) };
        let (result, _) = search(&mut searcher(), &position.fen(), &limits);
        assert_eq!(result.best, Some(only));
    });
}

#[test]
fn several_lines_are_different_and_in_order() {
    with_stack(|| {
        let mut searcher = searcher();
        searcher.settings.multipv = 4;
        let (_, infos) = search(&mut searcher, &Position::startpos().fen(), &depth(7));
        let last: Vec<&Info> = infos.iter().rev().take(4).collect();
        let mut moves: Vec<String> = last.iter().map(|info| info.pv[0].to_string()).collect();
        assert!(last.windows(2).all(|pair| pair[0].multipv == pair[1].multipv + 1));
        assert!(last.windows(2).all(|pair| pair[0].score.sort_key() <= pair[1].score.sort_key()));
        moves.sort();
        moves.dedup();
        assert_eq!(moves.len(), 4);
    });
}

/// The last reports are a whole set of lines, wherever the search is stopped.
#[test]
fn lines_are_different_and_in_order_even_if_the_search_is_stopped() {
    with_stack(|| {
        let mut searcher = searcher();
        for fen in [
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
            "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
            "6k1/5ppp/8/8/8/8/5PPP/K3R3 w - - 0 1",
            "8/8/8/8/8/5k2/8/r6K w - - 0 1",
        ] {
            let position = Position::from_fen(fen).unwrap();
            let (mut stopped_between, mut nodes) = (0, 1);
            while nodes < 60_000 {
                let lines = 1 + nodes as usize % 5;
                searcher.settings.multipv = lines;
                searcher.clear(&AtomicBool::new(false));
                let (result, infos) =
                    search(&mut searcher, fen, &Limits { nodes: Some(nodes), ..Limits::default() });
                nodes += 1 + nodes / 7;

                let lines = lines.min(position.legal_moves().len());
                assert!(infos.len() >= lines, "{fen} {nodes}");
                let last = &infos[infos.len() - lines..];
                let context = || format!("{fen} {nodes}: {last:#?}");
                assert_eq!(last[0].pv.first(), result.best.as_ref(), "{}", context());
                assert_eq!(last[0].score, result.score, "{}", context());
                for (index, info) in last.iter().enumerate() {
                    assert_eq!((info.multipv, info.depth), (index + 1, last[0].depth), "{}", context());
                    assert!(last[..index].iter().all(|other| other.pv[0] != info.pv[0]), "{}", context());
                }
                assert!(last.is_sorted_by(|a, b| rank(a.score) >= rank(b.score)), "{}", context());
                assert!(infos.is_sorted_by_key(|info| info.depth), "{fen} {nodes}: {infos:#?}");
                stopped_between += usize::from(result.depth > 0 && infos.len() > lines);
            }
            assert!(stopped_between > 10 || position.legal_moves().len() < 5, "{fen}: {stopped_between}");
        }
    });
}

/// A number that grows with the score.
fn rank(score: Score) -> i32 {
    match score {
        Score::Centipawns(Centipawns(value)) => value,
        Score::Mate(moves) if moves > 0 => 1_000_000 - moves,
        Score::Mate(moves) => -1_000_000 - moves,
    }
}

/// The move of a helper thread may come from a shallower iteration than the last report of the first thread.
#[test]
fn the_depth_never_falls_with_several_threads() {
    with_stack(|| {
        let mut searcher = searcher();
        searcher.set_threads(4);
        for nodes in (1..60).map(|step| 997 * step) {
            let fen = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1";
            let (result, infos) =
                search(&mut searcher, fen, &Limits { nodes: Some(nodes), ..Limits::default() });
            assert!(infos.is_sorted_by_key(|info| info.depth), "{nodes}: {infos:#?}");
            assert_eq!(infos.last().unwrap().pv.first(), result.best.as_ref());
        }
    });
}

#[test]
fn every_reported_line_is_legal() {
    with_stack(|| {
        let fen = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1";
        let (_, infos) = search(&mut searcher(), fen, &depth(10));
        assert!(infos.len() >= 10, "a line for every depth");
        for info in infos {
            assert!(!info.pv.is_empty(), "depth {}", info.depth);
            let mut position = Position::from_fen(fen).unwrap();
            for mv in info.pv {
                position.try_play(mv).unwrap();
            }
        }
    });
}

#[test]
fn a_stop_from_outside_is_heeded_at_once() {
    with_stack(|| {
        let mut searcher = searcher();
        searcher.set_threads(2);
        let limits = Limits { infinite: true, ..Limits::default() };
        let mut lateness = || {
            let signals = searcher.signals();
            signals.arm(false);
            let stopped = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                let now = Instant::now();
                signals.stop();
                now
            });
            let result = searcher.search(&Position::startpos(), &limits, &mut |_| ());
            assert!(result.best.is_some());
            Instant::now().duration_since(stopped.join().unwrap())
        };
        // The goal is twenty milliseconds. An unoptimised build gets more, and more than one try, because a
        // busy machine may hold up both threads.
        assert!((0..3).any(|_| lateness() < Duration::from_millis(500)), "late each time");
    });
}

#[test]
fn pondering_waits_for_the_ponder_hit_and_then_for_the_clock() {
    with_stack(|| {
        let mut searcher = searcher();
        let signals = searcher.signals();
        signals.arm(true);
        let limits = Limits { ponder: true, move_time: Some(Duration::from_millis(20)), ..Limits::default() };
        // Taken before the other thread begins to wait, because this one may be held up afterwards.
        let start = Instant::now();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(150));
            signals.ponder_hit();
        });
        searcher.search(&Position::startpos(), &limits, &mut |_| ());
        assert!(start.elapsed() >= Duration::from_millis(150));
        assert!(start.elapsed() < Duration::from_secs(60));
    });
}

/// A node limit, a time limit and a mate that is found must not end it.
#[test]
fn an_infinite_search_answers_only_when_it_is_stopped() {
    let endless = Limits { infinite: true, ..Limits::default() };
    let limits = [
        Limits { nodes: Some(500), ..endless.clone() },
        Limits { move_time: Some(Duration::from_millis(5)), ..endless.clone() },
        Limits { mate: Some(1), ..endless },
    ];
    with_stack(|| {
        for limits in limits {
            let mut searcher = searcher();
            let signals = searcher.signals();
            signals.arm(false);
            let start = Instant::now();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(150));
                signals.stop();
            });
            let mate_in_one = Position::from_fen("6k1/5ppp/8/8/8/8/5PPP/K3R3 w - - 0 1").unwrap();
            let result = searcher.search(&mate_in_one, &limits, &mut |_| ());
            assert!(result.best.is_some() && start.elapsed() >= Duration::from_millis(150), "{limits:?}");
        }
    });
}

#[test]
fn more_threads_find_the_same_mate() {
    with_stack(|| {
        let mut searcher = searcher();
        searcher.set_threads(3);
        let (result, _) =
            search(&mut searcher, "r2qk2r/pb4pp/1n2Pb2/2B2Q2/p1p5/2P5/2B2PPP/RN2R1K1 w kq - 0 1", &depth(8));
        assert_eq!(result.score, Score::Mate(2));
    });
}

#[test]
fn a_draw_by_repetition_is_seen_coming() {
    with_stack(|| {
        // White is a queen down but has a perpetual check.
        let fen = "6k1/6p1/8/6KQ/1r6/q2b4/8/8 w - - 0 32";
        let (result, _) = search(&mut searcher(), fen, &depth(12));
        assert!(result.score.sort_key().abs() < 30, "{}", result.score);
    });
}

/// The losing side has a perpetual check, so the score is the value of a draw.
#[test]
fn a_draw_is_worth_less_with_contempt() {
    with_stack(|| {
        for fen in ["6k1/6p1/8/6KQ/1r6/q2b4/8/8 w - - 0 32", "8/8/Q2B4/1R6/6kq/8/6P1/6K1 b - - 0 32"] {
            for contempt in [-100, 100] {
                let mut searcher = searcher();
                searcher.settings.contempt = Centipawns(contempt);
                let (result, _) = search(&mut searcher, fen, &depth(12));
                let off = result.score.sort_key() + contempt;
                assert!(off.abs() < 30, "{fen}, contempt {contempt}: {}", result.score);
            }
        }
    });
}

/// An evaluator that panics after some positions, on the thread that is to fail.
struct Failing {
    inner: Bootstrap,
    left: Option<u32>,
}

impl Evaluator for Failing {
    fn reset(&mut self, position: &Position) {
        self.inner.reset(position);
    }

    fn push(&mut self, changes: &Changes) {
        self.inner.push(changes);
    }

    fn pop(&mut self) {
        self.inner.pop();
    }

    fn evaluate(&mut self, position: &Position) -> Centipawns {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1).expect("as a bug would");
        }
        self.inner.evaluate(position)
    }
}

/// Runs a search with two threads, one of which panics.
fn search_with_failing(thread: usize) -> std::thread::Result<SearchResult> {
    let made = std::sync::atomic::AtomicUsize::new(0);
    let factory = move || {
        let fails = made.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == thread;
        Box::new(Failing { inner: Bootstrap::default(), left: fails.then_some(2000) }) as Box<dyn Evaluator>
    };
    let mut searcher = Searcher::new(Arc::new(factory), 1).unwrap();
    searcher.set_threads(2);
    searcher.signals().arm(false);
    let limits = Limits { move_time: Some(Duration::from_millis(500)), ..Limits::default() };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        with_stack(|| searcher.search(&Position::startpos(), &limits, &mut |_| ()))
    }))
}

#[test]
fn a_thread_that_panics_does_not_block_the_search() {
    assert!(
        search_with_failing(1).is_ok_and(|result| result.best.is_some()),
        "the search goes on without a helper"
    );
    assert!(search_with_failing(0).is_err(), "a panic of the main thread is passed on");
}

#[test]
#[ignore = "needs data"]
fn endgame_tables_overrule_the_evaluation() {
    let tables = tandem_util::test_data::path("syzygy/3-4");
    let tables = tables.to_str().unwrap();
    with_stack(|| {
        let mut searcher = searcher();
        assert!(searcher.set_syzygy("/no/such/folder").is_err());
        assert_eq!(searcher.set_syzygy(tables), Ok(4));
        assert!(searcher.set_syzygy("/no/such/folder").is_err());
        assert_eq!(searcher.syzygy_path(), tables, "the old tables stay in use");
        // Paths with empty parts or names that are not valid.
        for odd in [format!("{tables}:"), format!(":::{tables}"), format!("/no/such:{tables}:a\0b:")] {
            assert_eq!(searcher.set_syzygy(&odd), Ok(4), "{odd:?}");
        }
        // King, bishop and knight: a win that the evaluation alone would take long to show.
        let (won, _) = search(&mut searcher, "8/8/8/4k3/8/8/8/KBN5 w - - 0 1", &depth(4));
        assert!(won.score.sort_key() > 15_000, "{}", won.score);
        // King and pawn against king: drawn by opposition, won with the move.
        let (lost, _) = search(&mut searcher, "4k3/8/4K3/4P3/8/8/8/8 b - - 0 1", &depth(4));
        assert!(lost.score.sort_key() < -15_000, "{}", lost.score);
        let (drawn, _) = search(&mut searcher, "8/8/4k3/8/4P3/4K3/8/8 w - - 0 1", &depth(4));
        assert_eq!(drawn.score.sort_key().abs() / 10, 0, "{}", drawn.score);
        // One capture away from the tables.
        let (near, infos) = search(&mut searcher, "8/8/8/3k4/3p4/8/1P6/KR6 w - - 0 1", &depth(12));
        assert!(infos.last().unwrap().tb_hits > 0 && near.score.sort_key() > 500, "{}", near.score);

        // Result tables alone, without distances: they are still known after the first probe.
        let folder = std::env::temp_dir().join(format!("tandem-results-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for entry in std::fs::read_dir(tables).unwrap() {
            let entry = entry.unwrap();
            if entry.path().extension().is_some_and(|extension| extension == "rtbw") {
                std::fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
            }
        }
        let results = folder.to_str().unwrap();
        assert_eq!(searcher.set_syzygy(results), Ok(4));
        for _ in 0..2 {
            let (won, _) = search(&mut searcher, "8/8/8/4k3/8/8/8/KBN5 w - - 0 1", &depth(4));
            assert!(won.score.sort_key() > 15_000, "{}", won.score);
            searcher.clear(&AtomicBool::new(false));
            let (near, infos) = search(&mut searcher, "8/8/8/3k4/3p4/8/1P6/KR6 w - - 0 1", &depth(12));
            assert!(infos.last().unwrap().tb_hits > 0 && near.score.sort_key() > 500, "{}", near.score);
            searcher.clear(&AtomicBool::new(false));
        }
        // Distances of one ending alone: others are ranked by their results, before and after.
        std::fs::copy(Path::new(tables).join("KRvK.rtbz"), folder.join("KRvK.rtbz")).unwrap();
        assert_eq!(searcher.set_syzygy(results), Ok(4));
        for _ in 0..2 {
            for fen in ["8/8/8/4k3/8/8/8/KBN5 w - - 0 1", "8/8/8/4k3/8/8/8/KR6 w - - 0 1"] {
                let (won, _) = search(&mut searcher, fen, &depth(4));
                assert!(won.score.sort_key() > 15_000, "{fen}: {}", won.score);
                searcher.clear(&AtomicBool::new(false));
            }
        }
        // An incomplete file is refused before it is read.
        let whole = std::fs::read(folder.join("KRvK.rtbw")).unwrap();
        // Removed first, because the old file is mapped, and cutting it in place could end the program.
        std::fs::remove_file(folder.join("KRvK.rtbw")).unwrap();
        std::fs::write(folder.join("KRvK.rtbw"), &whole[..whole.len() / 2]).unwrap();
        let refused = searcher.set_syzygy(results).unwrap_err().to_string();
        assert!(refused.contains("KRvK.rtbw' is incomplete"), "{refused}");
        assert_eq!(searcher.set_syzygy(""), Ok(0));
        std::fs::remove_dir_all(folder).unwrap();
    });
}

#[test]
fn a_weak_player_moves_legally_and_quickly() {
    with_stack(|| {
        let mut searcher = searcher();
        searcher.settings.limit_strength = true;
        searcher.settings.strength = tandem_search::Strength::new(1320);
        let limits = Limits { move_time: Some(Duration::from_secs(90)), ..Limits::default() };
        let start = Instant::now();
        let (result, infos) = search(&mut searcher, &Position::startpos().fen(), &limits);
        assert!(result.best.is_some() && start.elapsed() < Duration::from_secs(60));
        assert!(
            !infos.is_empty() && infos.iter().all(|info| info.multipv == 1),
            "more lines were not requested"
        );
    });
}
