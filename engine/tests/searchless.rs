//! The engine with a transformer in place of its search, as a GUI sees it.

mod common;

use common::{Engine, NetworkFile, after, last};
use std::time::Duration;
use tandem_chess::{Position, uci};

/// A tiny network with the heads for every method.
const SQUARES: &str = r#"
    input = "squares"
    embedding = { kind = "positions" }
    [body]
    width = 8
    layers = 1
    heads = 2
    activation = "relu"
    norm = { kind = "layer", place = "pre" }
    attention = { kind = "plain", biases = false }
    feed_forward = { kind = "dense", width = 8, biases = true }
    [heads]
    policy = { kind = "attention", width = 8 }
    value = { channels = 2, hidden = 8 }
    move_value = { width = 8 }
"#;

/// A tiny network with action values alone.
const ACTIONS: &str = r#"
    input = "text"
    embedding = { kind = "positions" }
    [body]
    width = 8
    layers = 1
    heads = 2
    mask = "prefix"
    activation = "relu"
    norm = { kind = "layer", place = "pre" }
    attention = { kind = "plain", biases = false }
    feed_forward = { kind = "dense", width = 8, biases = true }
    [heads]
    action_value = { buckets = 8 }
"#;

/// A tiny network with a policy head and no value head.
fn policy_alone() -> String {
    let heads = ["value = { channels = 2, hidden = 8 }", "move_value = { width = 8 }"];
    heads.iter().fold(SQUARES.to_owned(), |text, head| text.replace(head, ""))
}

/// An engine that plays by a method of this network.
fn engine(file: &NetworkFile, method: &str) -> Engine {
    let mut engine = Engine::start();
    let lines = engine.ask(&format!("setoption name TransformerFile value {}", file.0.display()));
    assert!(lines[0].starts_with("info string strategist: 1 layers of width 8"), "{lines:?}");
    assert_eq!(engine.ask(&format!("setoption name SearchMode value {method}")), [""; 0]);
    engine
}

/// The strategist that ships knows common first moves, and is unpacked only when it is wanted.
#[test]
fn the_network_built_in_plays() {
    let mut engine = Engine::start();
    assert_eq!(engine.ask("setoption name Hash value 1"), [""; 0]);
    let lines = engine.ask("setoption name SearchMode value policy");
    assert!(lines[0].starts_with("info string strategist: "), "{lines:?}");
    engine.send("position startpos");
    engine.send("go nodes 1");
    let best = engine.until("bestmove").pop().unwrap();
    assert!(["e2e4", "d2d4", "g1f3", "c2c4"].iter().any(|mv| best.ends_with(mv)), "{best}");
}

#[test]
fn options_are_listed() {
    let mut engine = Engine::start();
    engine.send("uci");
    let hello = engine.until("uciok");
    let search = "option name SearchMode type combo default alphabeta var alphabeta var policy var value var action-value";
    assert!(hello.iter().any(|line| line == search));
    assert!(hello.iter().any(|line| line == "option name TransformerFile type string default <empty>"));
}

#[test]
fn every_method_plays_a_game() {
    for (name, architecture, method) in [
        ("policy", SQUARES, "policy"),
        ("value", SQUARES, "value"),
        ("move-value", SQUARES, "action-value"),
        ("action-value", ACTIONS, "action-value"),
    ] {
        let file = NetworkFile::new(name, architecture);
        let mut engine = engine(&file, method);
        let mut game = Position::startpos();
        let mut moves = String::new();
        for ply in 0..60 {
            engine.send(&format!("position startpos moves{moves}"));
            // Limits do not matter, because the network runs once.
            engine.send(
                ["go movetime 1000", "go depth 9", "go wtime 60000 btime 60000", "go nodes 1"][ply % 4],
            );
            let answer = engine.until("bestmove");
            if !game.has_legal_move() {
                break;
            }
            let best = after(last(&answer), "bestmove").unwrap();
            let info = &answer[0];
            assert!(info.starts_with("info depth 1 seldepth 1 multipv 1 score "), "{info}");
            assert_eq!(after(info, "pv"), Some(best));
            let evaluated: usize = after(info, "nodes").unwrap().parse().unwrap();
            assert!((1..=game.legal_moves().len()).contains(&evaluated), "{info}");
            assert_eq!(answer.len(), if method == "policy" { 3 } else { 2 });
            moves += &format!(" {best}");
            game.play(uci::parse(game.board(), best).unwrap());
        }
        assert!(game.ply() > 10);
    }
}

#[test]
fn lines_are_sorted_and_only_those_that_were_asked_for() {
    let file = NetworkFile::new("lines", SQUARES);
    let mut engine = engine(&file, "value");
    engine.ask("setoption name MultiPV value 5");
    engine.ask("setoption name UCI_ShowWDL value true");
    engine.send("go depth 1");
    let mut answer = engine.until("bestmove");
    let best = answer.pop().unwrap();
    assert_eq!(answer.len(), 5);
    assert_eq!(after(&answer[0], "pv"), after(&best, "bestmove"));
    let scores = answer.iter().map(|line| after(line, "cp").unwrap().parse::<i32>().unwrap());
    assert!(scores.is_sorted_by(|better, worse| better >= worse));
    for (rank, line) in answer.iter().enumerate() {
        assert_eq!(after(line, "multipv"), Some((rank + 1).to_string().as_str()));
        let wdl = line.split(" wdl ").nth(1).unwrap().split(' ').take(3);
        assert_eq!(wdl.map(|word| word.parse::<u32>().unwrap()).sum::<u32>(), 1000);
    }
    engine.send("go depth 1 searchmoves a2a3 h2h3");
    let answer = engine.until("bestmove");
    let mut lines: Vec<&str> = answer[..2].iter().map(|line| after(line, "pv").unwrap()).collect();
    lines.sort();
    assert_eq!((lines, answer.len()), (vec!["a2a3", "h2h3"], 3));
}

/// The score is that of the position for each move, so that the probabilities are sent besides.
#[test]
fn the_policy_of_each_line_is_shown() {
    let file = NetworkFile::new("policy-lines", SQUARES);
    let mut engine = engine(&file, "policy");
    engine.ask("setoption name MultiPV value 20");
    engine.send("go depth 1");
    let answer = engine.until("bestmove");
    let (_, policy) = answer[20].split_once("info string policy: ").unwrap();
    let shares: Vec<(&str, f64)> = policy
        .split(", ")
        .map(|share| share.strip_suffix(" %").unwrap().split_once(' ').unwrap())
        .map(|(mv, share)| (mv, share.parse().unwrap()))
        .collect();
    assert!(
        answer[..20].iter().zip(&shares).all(|(line, (mv, _))| after(line, "pv") == Some(*mv)),
        "{answer:?}"
    );
    assert!(shares.is_sorted_by(|a, b| a.1 >= b.1) && shares[0].1 > shares[19].1, "{shares:?}");
    assert!((shares.iter().map(|(_, share)| share).sum::<f64>() - 100.0).abs() < 1.1, "{shares:?}");
}

/// Nothing is missing before all options have been sent.
#[test]
fn the_mode_may_be_set_before_the_network_that_it_needs() {
    let file = NetworkFile::new("later", ACTIONS);
    let mut engine = Engine::start();
    engine.send("setoption name SearchMode value action-value");
    let lines = engine.ask(&format!("setoption name TransformerFile value {}", file.0.display()));
    assert!(lines.iter().all(|line| line.starts_with("info string strategist: ")), "{lines:?}");
    let lines = engine.ask("setoption name SearchMode value policy");
    assert!(lines.len() == 1 && lines[0].contains("no head for policy"), "{lines:?}");
}

#[test]
fn no_answer_is_sent_before_it_is_allowed() {
    let file = NetworkFile::new("waits", SQUARES);
    let mut engine = engine(&file, "policy");
    for (go, leave) in
        [("go infinite", "stop"), ("go ponder wtime 1000 btime 1000", "ponderhit"), ("go", "stop")]
    {
        engine.send(go);
        engine.until("info string policy");
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(engine.ask(""), [""; 0], "{go}");
        engine.send(leave);
        assert_eq!(engine.until("bestmove").len(), 1);
    }
    for _ in 0..20 {
        engine.send_bytes(b"go infinite\nstop\n");
        engine.until("bestmove");
    }
    engine.send("go infinite");
    engine.send("quit");
    engine.wait_for_end();
}

#[test]
fn the_rules_are_known() {
    let file = NetworkFile::new("rules", SQUARES);
    let mut engine = engine(&file, "value");
    engine.send("position fen 6k1/5ppp/8/8/8/8/5PPP/K3R3 w - - 0 1");
    engine.send("go movetime 100");
    let answer = engine.until("bestmove");
    assert!(answer[0].contains(" score mate 1 "), "{answer:?}");
    assert_eq!(last(&answer), "bestmove e1e8");
    for (fen, score) in
        [("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", "cp 0"), ("8/8/8/8/8/5k2/6q1/7K w - - 0 1", "mate 0")]
    {
        engine.send(&format!("position fen {fen}"));
        engine.send("go depth 5");
        let answer = engine.until("bestmove");
        assert_eq!(answer, [format!("info depth 0 score {score}"), "bestmove (none)".into()]);
    }
}

#[test]
fn a_repetition_is_a_draw() {
    let file = NetworkFile::new("repetition", SQUARES);
    let mut engine = engine(&file, "value");
    engine.send("position startpos moves g1f3 g8f6 f3g1 f6g8 g1f3 g8f6");
    engine.send("go depth 1 searchmoves f3g1");
    assert!(engine.until("bestmove")[0].contains(" score cp 0 "));
}

#[test]
fn castling_is_written_as_the_gui_wants_it() {
    let file = NetworkFile::new("castling", SQUARES);
    let mut engine = engine(&file, "policy");
    engine.ask("position fen r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1");
    engine.send("go depth 1 searchmoves e1g1");
    assert_eq!(last(&engine.until("bestmove")), "bestmove e1g1");
    engine.ask("setoption name UCI_Chess960 value true");
    engine.send("go depth 1 searchmoves e1h1");
    assert_eq!(last(&engine.until("bestmove")), "bestmove e1h1");
}

#[test]
fn a_network_without_a_value_head_sends_no_score() {
    let file = NetworkFile::new("alone", &policy_alone());
    let mut engine = engine(&file, "policy");
    engine.send("go depth 1");
    let answer = engine.until("bestmove");
    assert!(!answer[0].contains("score") && answer[0].contains(" nodes 1 "), "{answer:?}");
}

#[test]
fn without_a_usable_transformer_there_is_no_move() {
    let refuses_to_move = |engine: &mut Engine, why: &str| {
        engine.send("go movetime 10");
        let answer = engine.until("bestmove");
        assert!(answer[0].starts_with("info string no move: ") && answer[0].contains(why), "{answer:?}");
        assert_eq!(answer[1..], ["bestmove (none)"]);
    };
    let mut engine = Engine::start();
    engine.ask("setoption name TransformerFile value none");
    engine.ask("setoption name SearchMode value policy");
    refuses_to_move(&mut engine, "SearchMode policy needs a transformer; set TransformerFile to one");

    // A network without the head is reported by `isready`, and again when a move is asked for.
    let file = NetworkFile::new("heads", ACTIONS);
    let lines = engine.ask(&format!("setoption name TransformerFile value {}", file.0.display()));
    let unfit = "this network has no head for policy; it has action_value: use action-value";
    assert_eq!(lines[1], format!("info string SearchMode policy: {unfit}"));
    refuses_to_move(&mut engine, unfit);
    assert_eq!(engine.ask("setoption name SearchMode value value").len(), 1);
    assert_eq!(engine.ask("setoption name SearchMode value Action-Value"), [""; 0]);
    engine.send("go movetime 1000");
    assert!(last(&engine.until("bestmove")).len() > "bestmove ".len());

    // A file that cannot be loaded leaves the old network in use. An NNUE is recognised as such.
    let refused = |engine: &mut Engine, name: &str, bytes: &[u8], why: &str| {
        let file = NetworkFile::of_bytes(name, bytes);
        let lines = engine.ask(&format!("setoption name TransformerFile value {}", file.0.display()));
        assert!(lines.len() == 1 && lines[0].contains(why), "{lines:?}");
    };
    refused(&mut engine, "junk", b"this is no network", "do not begin any known network file");
    refused(&mut engine, "nnue", include_bytes!("../../nets/tandem.tnn"), "but EvalFile takes it");
    let bytes = std::fs::read(&file.0).unwrap();
    refused(&mut engine, "cut", &bytes[..bytes.len() / 2], "bytes are needed");
    assert_eq!(engine.ask("setoption name SIMD value Portable").len(), 2);
    engine.send("go movetime 1000");
    assert!(engine.until("bestmove")[0].starts_with("info depth 1 "));

    // Without the network, and with the search again.
    engine.ask("setoption name TransformerFile value none");
    refuses_to_move(&mut engine, "needs a transformer");
    engine.ask("setoption name SearchMode value alphabeta");
    engine.send("go depth 4");
    assert!(engine.until("bestmove").iter().any(|line| line.starts_with("info depth 4")));
}
