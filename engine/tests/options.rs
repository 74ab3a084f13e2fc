//! Every UCI option does something that a GUI can see, and refuses what it does not take.

mod common;

use common::{Engine, NetworkFile, after};
use tandem_hybrid::{Fingerprint, Hybrid, Selector};
use tandem_nnue::Isa;
use tandem_transformer::Preset;

/// An option with a value that is not the default, and how a GUI sees the difference.
struct Proof {
    option: &'static str,
    value: String,
    /// Commands before the option is set, in both engines.
    setup: Vec<String>,
    /// Text that a GUI sees, always the same for the same options.
    observe: fn(&mut Engine) -> String,
}

/// The options that a GUI cannot see at work here, with the reason.
const EXCEPTIONS: [(&str, &str); 3] = [
    (
        "Ponder",
        "the GUI's own setting: UCI has an engine list it so that the GUI may ponder, and pondering is `go ponder`",
    ),
    ("SyzygyPath", "needs tables, see the test below"),
    ("SyzygyProbeDepth", "needs tables, see the test below"),
];

/// The middlegame in which searches are observed.
const MIDDLEGAME: &str = "position fen r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1";

/// Number after a word in the last line of a search that has it.
fn searched(engine: &mut Engine, go: &str, word: &str) -> String {
    engine.send(go);
    let answer = engine.until("bestmove");
    let line = answer.iter().rfind(|line| line.starts_with("info depth") && line.contains(word));
    line.and_then(|line| after(line, word)).unwrap_or_else(|| panic!("{word}: {answer:?}")).to_owned()
}

fn nodes(engine: &mut Engine) -> String {
    searched(engine, "go depth 7", "nodes")
}

fn score(engine: &mut Engine) -> String {
    searched(engine, "go depth 4", "cp")
}

/// The lines of `eval` that begin with a text.
fn shown(engine: &mut Engine, start: &str) -> String {
    let lines = engine.ask("eval").into_iter().filter(|line| line.starts_with(start));
    lines.collect::<Vec<_>>().join("; ")
}

/// Number of queries to the strategist, from the line after a search.
fn queried(engine: &mut Engine) -> String {
    engine.send("go depth 8");
    let answer = engine.until("bestmove");
    let line = answer.iter().find(|line| line.starts_with("info string strategist: considered "));
    let queried = line.and_then(|line| after(line, "asked")).map(|count| count.trim_end_matches(','));
    // How many are sent depends on the time that an answer takes, but more than one only with threads.
    queried.map_or("none", |count| if count == "1" { "one" } else { "several" }).to_owned()
}

fn proofs(transformer: &str, hybrid: &str) -> Vec<Proof> {
    let proof = |option, value: &str, setup: &[&str], observe| Proof {
        option,
        value: value.to_owned(),
        setup: setup.iter().map(|&line| line.to_owned()).collect(),
        observe,
    };
    let transformer_file = &*format!("setoption name TransformerFile value {transformer}");
    let hybrid_file = &*format!("setoption name HybridFile value {hybrid}");
    let always = "setoption name Strategist value always";
    vec![
        proof("Hash", "1", &[MIDDLEGAME], |engine| {
            let filled = searched(engine, "go nodes 30000", "hashfull").parse::<u32>();
            filled.unwrap().checked_ilog2().map_or("none".into(), |log| log.to_string())
        }),
        // With one thread a limit on nodes is met exactly.
        proof("Threads", "8", &[MIDDLEGAME], |engine| {
            (searched(engine, "go nodes 20000", "nodes") == "20000").to_string()
        }),
        proof("MultiPV", "3", &[], |engine| searched(engine, "go depth 4", "multipv")),
        proof("Move Overhead", "5000", &[MIDDLEGAME], |engine| {
            let milliseconds = searched(engine, "go movetime 500", "time").parse::<u32>();
            (milliseconds.unwrap() > 300).to_string()
        }),
        // A draw, up to the centipawn by which its value varies.
        proof("Contempt", "150", &["position fen 8/8/4k3/8/8/4K3/8/8 w - - 0 1"], |engine| {
            (score(engine).parse::<i32>().unwrap() / 10).to_string()
        }),
        proof("UCI_LimitStrength", "true", &[MIDDLEGAME], nodes),
        proof("UCI_Elo", "1320", &[MIDDLEGAME, "setoption name UCI_LimitStrength value true"], nodes),
        proof("EvalFile", "bootstrap", &[], |engine| shown(engine, "Evaluated by")),
        proof("SIMD", "portable", &[], |engine| shown(engine, "Evaluated by")),
        proof("UCI_Chess960", "true", &["position fen 4k3/8/8/8/8/8/8/4K2R w K - 0 1"], |engine| {
            engine.send("go perft 1");
            let moves = engine.until("Nodes");
            moves.into_iter().filter(|line| line.starts_with("e1g1") || line.starts_with("e1h1")).collect()
        }),
        proof("UCI_ShowWDL", "true", &[], |engine| {
            engine.send("go depth 2");
            engine.until("bestmove").iter().any(|line| line.contains(" wdl ")).to_string()
        }),
        // The second search of a position finds the results of the first.
        proof("Clear Hash", "", &[MIDDLEGAME, "go depth 7"], nodes),
        proof("SearchMode", "policy", &[transformer_file], |engine| {
            engine.send("go depth 2");
            engine.until("bestmove").iter().any(|line| line.starts_with("info depth 2")).to_string()
        }),
        proof("TransformerFile", transformer, &["setoption name TransformerFile value none"], |engine| {
            shown(engine, "Its moves")
        }),
        proof("Strategist", "always", &[transformer_file, MIDDLEGAME], queried),
        proof("StrategistThreads", "1", &[transformer_file, always, MIDDLEGAME], queried),
        proof("SelectorThreshold", "1000", &[transformer_file, hybrid_file], |engine| {
            shown(engine, "Selector")
        }),
        proof("StrategistBlend", "25", &[transformer_file], |engine| shown(engine, "Blend")),
        proof("HybridFile", hybrid, &[transformer_file], |engine| shown(engine, "Selector")),
    ]
}

/// The names and types of the options that `uci` lists, without those of tuned parameters.
fn listed() -> Vec<(String, String)> {
    let mut engine = Engine::start();
    engine.send("uci");
    let lines = engine.until("uciok");
    let options = lines.iter().filter_map(|line| line.strip_prefix("option name ")?.split_once(" type "));
    let is_tuned = |name: &str| tandem_search::params::TABLE.iter().any(|param| param.name == name);
    options.filter(|(name, _)| !is_tuned(name)).map(|(name, kind)| (name.into(), kind.into())).collect()
}

/// A small network with every output that `eval` shows, and a hybrid with a selector between it and the NNUE that
/// ships.
fn files() -> [NetworkFile; 2] {
    let mut architecture = Preset::BtSmall.architecture();
    architecture.body.layers = 1;
    let transformer = NetworkFile::random("options", architecture);
    let nnue = Fingerprint::of(tandem_nets::built_in_bytes());
    let hybrid = Hybrid {
        selector: Some(Selector::random(1)),
        ..Hybrid::new(nnue, Fingerprint::of_file(&transformer.0).unwrap())
    };
    [transformer, NetworkFile::of_bytes("options-hybrid", &hybrid.to_bytes())]
}

#[test]
fn every_option_changes_something_that_a_gui_sees() {
    let files = files();
    let [transformer, hybrid] = [0, 1].map(|index: usize| files[index].0.display().to_string());
    let proofs = proofs(&transformer, &hybrid);
    let mut named: Vec<&str> = proofs.iter().map(|proof| proof.option).collect();
    named.extend(EXCEPTIONS.map(|(name, _)| name));
    named.sort_unstable();
    let listed = listed();
    let mut names: Vec<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(named, names, "a new option needs a proof that it does something");

    for Proof { option, value, setup, observe } in &proofs {
        if *option == "SIMD" && Isa::best() == Isa::Portable {
            // The only value of this machine is also the default.
            continue;
        }
        let observed = |set: bool| {
            let mut engine = Engine::start();
            for line in setup {
                engine.send(line);
                if line.starts_with("go") {
                    engine.until("bestmove");
                }
            }
            if set {
                engine.send(&format!("setoption name {option} value {value}"));
            }
            observe(&mut engine)
        };
        let (without, with) = (observed(false), observed(true));
        assert_ne!(without, with, "{option} has no effect");
        assert_eq!(without, observed(false), "{option}: the observation is not stable");
    }
}

#[test]
fn every_option_refuses_what_it_does_not_take() {
    let mut engine = Engine::start();
    for (name, kind) in listed() {
        let value = match kind.split(' ').next().unwrap() {
            "check" | "combo" => "perhaps".into(),
            "spin" => (after(&kind, "max").unwrap().parse::<i64>().unwrap() + 1).to_string(),
            "string" => "/no/such/file".into(),
            "button" => "pressed".into(),
            other => panic!("{name} has the unknown type {other}"),
        };
        let answer = engine.ask(&format!("setoption name {name} value {value}"));
        assert_eq!(answer.len(), 1, "{name}: {answer:?}");
        assert!(answer[0].starts_with("info string ") && answer[0].contains(&name), "{name}: {answer:?}");
    }
}

#[test]
#[ignore = "needs data"]
fn the_options_of_the_tables_change_the_number_of_hits() {
    let tables = tandem_util::test_data::path("syzygy/3-4");
    let hits = |options: &[&str]| {
        let mut engine = Engine::start();
        engine.send("position fen 8/8/4k3/8/3p4/8/3PK3/R7 w - - 0 1");
        for option in options {
            let answer = engine.ask(&format!("setoption name {option}"));
            assert!(answer.iter().all(|line| !line.contains("stays")), "{option}: {answer:?}");
        }
        searched(&mut engine, "go depth 8", "tbhits").parse::<u64>().unwrap()
    };
    let path = &*format!("SyzygyPath value {}", tables.display());
    let (without, with) = (hits(&[]), hits(&[path]));
    assert!(without == 0 && with > 0, "{with}");
    let deep = hits(&[path, "SyzygyProbeDepth value 100"]);
    assert!(deep < with, "{deep}, {with}");
}

#[test]
#[ignore = "needs data"]
fn a_damaged_table_is_reported_once_and_the_search_goes_on() {
    let folder = std::env::temp_dir().join(format!("tandem-damaged-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let whole = std::fs::read(tandem_util::test_data::path("syzygy/3-4/KPvK.rtbw")).unwrap();
    // A possible length, so that only reading finds it out.
    std::fs::write(folder.join("KPvK.rtbw"), &whole[..3920]).unwrap();
    let mut engine = Engine::start();
    engine.ask(&format!("setoption name SyzygyPath value {}", folder.display()));
    engine.send("position fen 8/8/3k4/8/8/8/4P3/K7 w - - 0 1");
    let mut reports = || {
        engine.send("go depth 6");
        let lines = engine.until("bestmove");
        lines.into_iter().filter(|line| line.contains("KPvK.rtbw' is damaged")).count()
    };
    assert_eq!([reports(), reports()], [1, 0]);
    std::fs::remove_dir_all(folder).unwrap();
}
