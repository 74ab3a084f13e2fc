//! Commands during a search: none is lost, `stop` ends all that was read before it, and `isready` does not wait.

mod common;

use common::{Engine, last};
use std::time::{Duration, Instant};

/// Commands that may stand between `go` and `stop`.
const BETWEEN: [&str; 9] = [
    "ucinewgame",
    "setoption name Hash value 2",
    "setoption name Clear Hash",
    "eval",
    "perft 9",
    "bench 100",
    "go infinite",
    "go depth 200",
    "position startpos moves d2d4",
];

#[test]
fn a_stop_is_not_lost_whatever_stands_between() {
    for between in BETWEEN {
        for go in ["go depth 200", "go infinite", "go ponder wtime 100000 btime 100000", "go perft 9"] {
            let mut engine = Engine::start();
            engine.send_bytes(format!("{go}\n{between}\nstop\n").as_bytes());
            for line in [go, between] {
                if line.starts_with("go") && !line.contains("perft") {
                    engine.until("bestmove");
                }
            }
            // Everything has ended, so that a search with few nodes ends by itself.
            engine.send("go nodes 10");
            engine.until("bestmove");
        }
    }
}

#[test]
fn every_go_is_answered_in_its_turn() {
    let mut engine = Engine::start();
    engine.send_bytes(
        b"go infinite\n\
          position fen 6k1/5ppp/8/8/8/8/5PPP/K3R3 w - - 0 1\n\
          go depth 3\n\
          position fen 7k/5Q2/6K1/8/8/8/8/8 b - - 0 1\n\
          go ponder wtime 1000 btime 1000\n\
          stop\n\
          position startpos moves f2f3 e7e5 g2g4\n\
          go depth 4\n",
    );
    engine.until("bestmove");
    assert!(last(&engine.until("bestmove")).len() > "bestmove ".len());
    assert_eq!(last(&engine.until("bestmove")), "bestmove (none)");
    assert_eq!(last(&engine.until("bestmove")), "bestmove d8h4");
}

#[test]
fn a_ponderhit_reaches_a_search_that_waits() {
    let mut engine = Engine::start();
    engine.send_bytes(b"go infinite\ngo ponder movetime 100\nponderhit\n");
    std::thread::sleep(Duration::from_millis(100));
    engine.send("stop");
    engine.until("bestmove");
    engine.until("bestmove");
    engine.send_bytes(b"go movetime 300\nsetoption name Hash value 2\ngo ponder movetime 100\nponderhit\n");
    engine.until("bestmove");
    engine.until("bestmove");
}

/// Delay of the answer to `isready`.
fn latency(engine: &mut Engine) -> Duration {
    let start = Instant::now();
    engine.send("isready");
    engine.until("readyok");
    start.elapsed()
}

#[test]
fn isready_is_answered_at_once_during_any_search() {
    let mut latencies = Vec::new();
    for busy in ["go infinite", "go depth 100", "go ponder wtime 1000 btime 1000", "go perft 9", "bench 100"]
    {
        for waiting in ["", "setoption name Hash value 64", "ucinewgame", "go depth 1", "eval"] {
            let mut engine = Engine::start();
            engine.send_bytes(format!("{busy}\n{waiting}\nposition startpos moves e2e4\n").as_bytes());
            latencies.extend((0..20).map(|_| {
                std::thread::sleep(Duration::from_millis(2));
                latency(&mut engine)
            }));
            engine.send("stop");
        }
    }
    latencies.sort();
    let of = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
    println!(
        "isready, {} times: median {:?}, 99 % {:?}, worst {:?}",
        latencies.len(),
        of(50),
        of(99),
        of(100)
    );
    // The machine may stand still at times, but not in one case of twenty.
    assert!(of(95) < Duration::from_millis(20), "{:?}", of(95));
}

#[test]
fn what_waits_for_a_search_is_executed_after_it_in_order() {
    let mut engine = Engine::start();
    engine.send("go infinite");
    for line in ["setoption name Hash value 32", "ucinewgame", "bench 1", "go depth 1"] {
        let name = line.split(' ').next().unwrap();
        engine.send(line);
        let notice = engine.until("info string");
        assert_eq!(
            last(&notice),
            format!("info string '{name}' waits for the end of the search; 'stop' ends it")
        );
    }
    engine.send_bytes(b"setoption name Nonesuch value 1\nposition startpos moves d2d4\nd\n");
    assert!(engine.ask("xyzzy").iter().all(|line| !line.contains("xyzzy") && !line.contains("Nonesuch")));
    engine.send("stop");
    engine.until("bestmove");
    engine.until("info string stopped before all positions were searched");
    engine.until("bestmove");
    let after = engine.until("info string unknown command 'xyzzy'");
    assert!(after[0].contains("Nonesuch"), "{after:?}");
    assert!(after.iter().any(|line| line.starts_with("Fen: rnbqkbnr/pppppppp/8/8/3P4/")), "{after:?}");
}

/// A GUI that has read an answer finds the engine idle, so that `isready` waits for what was sent before it.
#[test]
fn after_an_answer_the_engine_is_idle() {
    let mut engine = Engine::start();
    for (work, answer) in
        [("go depth 2", "bestmove"), ("bench 1", "Bench"), ("perft 2", "Nodes"), ("go perft 1", "Nodes")]
    {
        for _ in 0..20 {
            engine.send(work);
            engine.until(answer);
            let refused = engine.ask("setoption name Nonesuch value 1");
            assert!(refused.iter().any(|line| line.contains("Nonesuch")), "{work}: {refused:?}");
        }
    }
}

#[test]
fn the_end_of_input_ends_every_search() {
    for line in ["go depth 200", "go infinite", "go mate 3", "go ponder movetime 50", "go nodes 999999999999"]
    {
        for before in ["", "setoption name Hash value 2\n", "go depth 100\n"] {
            let mut engine = Engine::start();
            engine.send_bytes(format!("{before}{line}\n").as_bytes());
            drop(engine.input.take());
            for _ in 0..1 + before.matches("go").count() {
                engine.until("bestmove");
            }
            engine.wait_for_end();
        }
    }
}

/// A pipe without a writer blocks the program that opens it.
#[test]
#[cfg(unix)]
fn a_pipe_is_no_network_and_does_not_block() {
    let path = std::env::temp_dir().join(format!("tandem-pipe-{}", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    let mut engine = Engine::start();
    let mut options = vec!["EvalFile"];
    if cfg!(feature = "strategist") {
        options.extend(["TransformerFile", "HybridFile"]);
    }
    for option in options {
        let answer = engine.ask(&format!("setoption name {option} value {}", path.display()));
        assert!(answer.len() == 1 && answer[0].contains("not a regular file"), "{answer:?}");
    }
    engine.send("quit");
    engine.wait_for_end();
    std::fs::remove_file(&path).unwrap();
}
