//! The engine with a strategist in its search, as a GUI sees it.

mod common;

use common::{Engine, NetworkFile, after, last};
use tandem_hybrid::{Bridge, BridgeForm, Fingerprint, Hybrid, Selector};
use tandem_nets::EvaluatorChoice;
use tandem_transformer::Preset;

/// A tiny network with a value head alone.
const OTHER: &str = r#"
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
    value = { channels = 2, hidden = 8 }
"#;

/// A random network of the bt-small preset with fewer layers, because an unoptimised build is slow.
fn strategist(name: &str) -> NetworkFile {
    let mut architecture = Preset::BtSmall.architecture();
    architecture.body.layers = 2;
    NetworkFile::random(name, architecture)
}

/// An engine with some options, each of which it accepts without a message.
fn engine(file: &NetworkFile, options: &[&str]) -> Engine {
    let mut engine = Engine::start();
    engine.ask(&format!("setoption name TransformerFile value {}", file.0.display()));
    for option in options {
        assert_eq!(engine.ask(&format!("setoption name {option}")), [""; 0], "{option}");
    }
    engine
}

/// A hybrid between the network that ships and this file.
fn hybrid(file: &NetworkFile) -> Hybrid {
    let EvaluatorChoice::Network(network) = EvaluatorChoice::built_in() else {
        panic!("no network is built in")
    };
    let inputs = 2 * network.architecture().outputs;
    let nnue = Fingerprint::of(tandem_nets::built_in_bytes());
    Hybrid {
        bridge: Some(Bridge::random(BridgeForm::Gated, inputs, 512, 1)),
        selector: Some(Selector::random(1)),
        threshold: 0.0,
        ..Hybrid::new(nnue, Fingerprint::of_file(&file.0).unwrap())
    }
}

/// Positions queried and answered, from the statistics line at the end of a search.
fn counted(answer: &[String]) -> (u64, u64) {
    let line = &answer[answer.len() - 2];
    assert!(line.starts_with("info string strategist: considered "), "{answer:?}");
    let number = |word| after(line, word).unwrap().trim_end_matches(',').parse().unwrap();
    (number("asked"), number("answered"))
}

#[test]
fn options_are_listed() {
    let mut engine = Engine::start();
    engine.send("uci");
    let hello = engine.until("uciok");
    for option in [
        "Strategist type combo default off var off var auto var always",
        "StrategistThreads type spin default 0 min 0 max 64",
        "SelectorThreshold type spin default -1 min -1 max 1000",
        "StrategistBlend type spin default -1 min -1 max 100",
        "HybridFile type string default <empty>",
    ] {
        assert!(hello.iter().any(|line| *line == format!("option name {option}")), "{option}");
    }
}

#[test]
fn every_limit_ends_a_search_with_a_strategist() {
    let file = strategist("limits");
    for options in [
        &["Strategist value always"][..],
        &["StrategistThreads value 2", "Strategist value auto", "Threads value 2"],
    ] {
        let mut engine = engine(&file, options);
        for limits in [
            "depth 7",
            "nodes 20000",
            "movetime 100",
            "wtime 2000 btime 2000 winc 10 binc 10",
            "wtime 1 btime 1",
            "wtime -100 btime -100",
        ] {
            engine.send("position startpos moves e2e4 e7e5 g1f3");
            engine.send(&format!("go {limits}"));
            let answer = engine.until("bestmove");
            assert!(last(&answer).len() > "bestmove ".len(), "{answer:?}");
            counted(&answer);
        }
        engine.send("position fen 7k/5Q2/6K1/8/8/8/8/8 b - - 0 1");
        engine.send("go depth 5");
        assert_eq!(last(&engine.until("bestmove")), "bestmove (none)");
        engine.send("go infinite");
        engine.send("stop");
        engine.until("bestmove");
        engine.send("go infinite");
        engine.send("quit");
        engine.wait_for_end();
    }
}

#[test]
fn the_root_is_queried_at_once_and_cached_until_a_new_game() {
    let file = strategist("root");
    let mut engine = engine(&file, &["Strategist value auto"]);
    let search = |engine: &mut Engine| {
        engine.send("go depth 1");
        counted(&engine.until("bestmove"))
    };
    assert_eq!(search(&mut engine), (1, 1));
    assert_eq!(search(&mut engine), (0, 0), "it is cached");
    for forget in ["setoption name Clear Hash", "ucinewgame"] {
        engine.ask(forget);
        assert_eq!(search(&mut engine), (1, 1), "{forget}");
    }
}

#[test]
fn without_it_the_search_is_unchanged_and_in_the_search_it_is_deterministic() {
    let nodes = |engine: &mut Engine| {
        engine.send("bench 6");
        after(last(&engine.until("Bench:")), "Bench:").unwrap().parse::<u64>().unwrap()
    };
    let file = strategist("bench");
    let alone = nodes(&mut Engine::start());
    assert_eq!(nodes(&mut engine(&file, &["Strategist value off"])), alone);
    let mut both = engine(&file, &["StrategistThreads value 1", "Strategist value always"]);
    let together = nodes(&mut both);
    assert_eq!(nodes(&mut both), together);
    assert_eq!(nodes(&mut engine(&file, &["Strategist value always"])), together);
    assert_ne!(together, alone, "a random network must change the search");
}

#[test]
fn eval_shows_both_networks() {
    let file = strategist("eval");
    let mut engine = engine(&file, &["StrategistBlend value 25"]);
    let text = engine.ask("eval");
    let line = |start: &str| {
        text.iter().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {text:?}"))
    };
    assert!(line("Tactician: ").ends_with("(White's side)"));
    assert!(line("Strategist: ").contains(" of 1000, as its value head predicts"));
    assert_eq!(line("Its moves: ").matches('%').count(), 5);
    assert_eq!(line("Selector: "), "Selector: none, depth alone decides");
    assert!(line("Blend: ").starts_with("Blend: 0.25 of the strategist, "));

    let hybrid_file = NetworkFile::of_bytes("eval-hybrid", &hybrid(&file).to_bytes());
    assert_eq!(engine.ask(&format!("setoption name HybridFile value {}", hybrid_file.0.display())), [""; 0]);
    let text = engine.ask("eval");
    assert!(
        text.iter().any(|line| line.starts_with("Selector: 0.") && line.ends_with("queried from 0.000 on")),
        "{text:?}"
    );
}

#[test]
fn eval_shows_values_from_whites_side() {
    // The network does not see the colours, so its value is the same for a position with colours swapped.
    let file = NetworkFile::new("eval-colours", OTHER);
    let mut engine = engine(&file, &[]);
    let mut shown = |fen: &str| -> (f64, Vec<u32>) {
        engine.send(&format!("position fen {fen}"));
        let text = engine.ask("eval");
        let line = text.iter().find(|line| line.starts_with("Strategist: ")).unwrap();
        let value = after(line, "Strategist:").unwrap().parse().unwrap();
        let (_, wdl) = line.split_once(", win ").unwrap();
        (value, wdl.split(' ').filter_map(|word| word.parse().ok()).take(3).collect())
    };
    let (white, white_wdl) = shown("4k3/8/8/8/8/8/PPPP4/4K3 w - - 0 1");
    let (black, black_wdl) = shown("4k3/pppp4/8/8/8/8/8/4K3 b - - 0 1");
    assert_eq!(white, -black);
    assert_eq!(white_wdl, [black_wdl[2], black_wdl[1], black_wdl[0]]);
    assert!(white != 0.0 && white_wdl[0] != white_wdl[2], "a random network is not even");
}

#[test]
fn a_hybrid_of_other_networks_is_refused_with_the_hash_that_it_needs() {
    let (file, other) = (strategist("bases"), NetworkFile::new("other", OTHER));
    let hybrid_file = hybrid(&file);
    let saved = NetworkFile::of_bytes("bases-hybrid", &hybrid_file.to_bytes());
    let mut engine = Engine::start();
    engine.ask("setoption name TransformerFile value none");
    // Options may come in any order: nothing is reported before something is missing.
    assert_eq!(engine.ask(&format!("setoption name HybridFile value {}", saved.0.display())), [""; 0]);
    assert_eq!(engine.ask("setoption name Strategist value always"), [""; 0]);
    engine.send("go depth 2");
    let answer = engine.until("bestmove");
    assert!(answer[0].contains("Strategist needs a transformer; set TransformerFile"), "{answer:?}");

    let lines = engine.ask(&format!("setoption name TransformerFile value {}", other.0.display()));
    assert!(
        lines[1].contains(&format!("the transformer with SHA-256 {}", hybrid_file.transformer)),
        "{lines:?}"
    );
    engine.send("go depth 2");
    let answer = engine.until("bestmove");
    assert!(answer[0].ends_with("the search goes on without a strategist"), "{answer:?}");
    assert!(last(&answer).starts_with("bestmove "));

    assert_eq!(engine.ask(&format!("setoption name TransformerFile value {}", file.0.display())).len(), 1);
    engine.send("go depth 4");
    let answer = engine.until("bestmove");
    assert!(counted(&answer).1 >= 1);

    // The network in use stays, even if its file changes.
    let copy = NetworkFile::of_bytes("bases-nnue", tandem_nets::built_in_bytes());
    assert_eq!(engine.ask(&format!("setoption name EvalFile value {}", copy.0.display())).len(), 1);
    std::fs::write(&copy.0, b"gone").unwrap();
    assert_eq!(engine.ask("setoption name Strategist value always"), [""; 0]);

    let lines = engine.ask("setoption name EvalFile value bootstrap");
    assert!(lines[1].contains(&format!("the NNUE with SHA-256 {}", hybrid_file.nnue)), "{lines:?}");
    let junk = NetworkFile::of_bytes("bases-junk", b"no hybrid");
    let lines = engine.ask(&format!("setoption name HybridFile value {}", junk.0.display()));
    assert!(
        lines.len() == 1
            && lines[0].contains(&junk.0.display().to_string())
            && lines[0].ends_with("what was in use stays")
    );
}
