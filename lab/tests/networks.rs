//! `tandem-lab evaluate`, `export`, `verify` and `doctor` as a user runs them, on a small network made here
//! and on real ones.

mod common;

use common::{data, run_err, run_ok};
use std::path::{Path, PathBuf};
use tandem_nnue::*;
use tandem_util::random::SplitMix;

fn directory(name: &str) -> PathBuf {
    common::directory(&format!("networks-{name}"))
}

/// A small network with random weights.
fn float(outputs: usize, tied: bool, features: FeatureSet) -> FloatNetwork {
    let head = HeadShape::Flat { activation: Activation::Crelu, buckets: OutputBuckets::ONE };
    let architecture = Architecture { features, outputs, tied, psqt: false, head };
    let mut network = FloatNetwork::zeroed(architecture, 400, 100);
    network.description = "made for a test".into();
    let mut random = SplitMix::new(5);
    for weight in network.weights.iter_mut().chain(&mut network.stacks[0][0].weights) {
        *weight = random.unit() as f32 - 0.5;
    }
    network
}

fn write(network: &FloatNetwork, path: &Path) {
    std::fs::write(path, network.to_safetensors().unwrap()).unwrap();
}

/// The cells of the row whose line begins with `name`.
fn row<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name));
    line.unwrap_or_else(|| panic!("no row {name} in {text}")).split_whitespace().collect()
}

#[test]
fn a_network_is_exported_with_its_model_card_and_verified() {
    let dir = directory("export");
    write(&float(32, true, FeatureSet::plain()), &dir.join("net.safetensors"));
    std::fs::write(dir.join("recipe.toml"), "name = \"test\"\n").unwrap();
    let note = ["--note", "author=someone", "--recipe", "recipe.toml"];
    let printed = run_ok(&[&["export", "net.safetensors", "-o", "net.tnn"], &note[..]].concat(), &dir);
    assert!(printed.contains("first layer, weights") && printed.contains("qa 255, qb 64"), "{printed}");
    let model_card = std::fs::read_to_string(dir.join("net.tnn.md")).unwrap();
    for part in [
        "# net.tnn\n",
        "| architecture | 768 768 -> 32x2 crelu -> 1 |",
        "| parameters | 24673 |",
        "| sha256 | ",
        "| description | made for a test |",
        "| author | someone |",
        "## Quantisation",
        "```toml\nname = \"test\"\n```",
    ] {
        assert!(model_card.contains(part), "{part} is not in {model_card}");
    }

    // Integer weights are copied unchanged, or go through floating point to other scales.
    run_ok(&["export", "net.tnn", "-o", "again.tnn", "--no-card"], &dir);
    let bytes = |name: &str| std::fs::read(dir.join(name)).unwrap();
    assert_eq!(bytes("again.tnn"), bytes("net.tnn"));
    assert!(!dir.join("again.tnn.md").exists());
    run_ok(&["export", "net.tnn", "-o", "back.safetensors", "--no-card"], &dir);
    run_ok(&["export", "back.safetensors", "-o", "back.tnn", "--no-card"], &dir);
    assert_eq!(bytes("back.tnn"), bytes("net.tnn"));
    let printed =
        run_ok(&["export", "net.tnn", "-o", "fine.tnn", "--qa", "181", "--qb", "128", "--no-card"], &dir);
    assert!(printed.contains("qa 181, qb 128"), "{printed}");
    let printed = run_ok(&["export", "net.tnn", "-o", "net.bin", "--to", "bullet", "--no-card"], &dir);
    assert!(printed.contains("layout: features 768, 32 values, crelu, scale 400"), "{printed}");
    assert_eq!(bytes("net.bin").len() % 64, 0);

    for net in ["net.tnn", "net.safetensors"] {
        let printed = run_ok(&["verify", net, "--positions", "300"], &dir);
        assert!(printed.contains("all integer evaluations agree"), "{printed}");
        assert_eq!(row(&printed, "C interface from scratch")[4..], ["300", "0", "0.00", "0.000"]);
    }
    run_ok(&["verify", "net.tnn", "--against", "net.safetensors", "--positions", "100"], &dir);

    // A different architecture is rejected, and the same architecture with other weights is implausible.
    let mut other = float(32, true, FeatureSet::plain());
    other.stacks[0][0].weights.iter_mut().for_each(|weight| *weight *= -1.0);
    write(&other, &dir.join("other.safetensors"));
    let error = run_err(&["verify", "net.tnn", "--against", "other.safetensors", "--positions", "50"], &dir);
    assert!(error.contains("quantising costs") && error.contains("--qa"), "{error}");
    write(&float(64, true, FeatureSet::plain()), &dir.join("wide.safetensors"));
    let error = run_err(&["verify", "net.tnn", "--against", "wide.safetensors"], &dir);
    assert!(error.contains("not the same network"), "{error}");
    let error = run_err(&["verify", "net.tnn", "--against", "again.tnn"], &dir);
    assert!(error.contains("needs a network in floating point"), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn networks_a_format_cannot_hold_fail_and_write_nothing() {
    let dir = directory("refused");
    write(&float(32, true, FeatureSet::plain()), &dir.join("net.safetensors"));
    for (out, word) in [
        ("net.nnue", "Stockfish's format cannot represent 768"),
        ("net.jnn", "Jomfish's format cannot represent"),
        ("net.halfkp16", "the student's format cannot represent"),
        ("net.docx", "give --to FORMAT"),
    ] {
        let error = run_err(&["export", "net.safetensors", "-o", out], &dir);
        assert!(error.contains(word), "{error}");
        assert!(!dir.join(out).exists());
    }
    let error = run_err(&["export", "net.safetensors", "-o", "x.tnn", "--note", "nothing"], &dir);
    assert!(error.contains("KEY=VALUE"), "{error}");
    let error = run_err(&["export", "net.safetensors", "-o", "x.safetensors", "--qa", "255"], &dir);
    assert!(error.contains("floating point has none"), "{error}");
    run_err(&["export", "net.safetensors", "-o", "x.tnn", "--qa", "0"], &dir);
    let error = run_err(&["export", "nowhere.tnn", "-o", "x.tnn"], &dir);
    assert!(error.contains("nowhere.tnn"), "{error}");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);

    // The student's architecture fits the student's format.
    write(&float(32, false, FeatureSet::half_kp()), &dir.join("student.safetensors"));
    run_ok(&["export", "student.safetensors", "-o", "net.halfkp16"], &dir);
    assert!(run_ok(&["inspect", "net.halfkp16"], &dir).contains("student's network"));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn the_built_in_networks_have_names() {
    let dir = directory("names");
    let printed =
        run_ok(&["eval", "--fen", "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"], &dir);
    assert!(printed.contains("tactician: +") && printed.contains("strategist: "), "{printed}");
    assert!(printed.contains("% to win"), "{printed}");
    let json = run_ok(&["eval", "tactician", "strategist", "--json"], &dir);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["side_to_move"], "white");
    assert!(json["networks"][0]["centipawns"].as_f64().unwrap().abs() < 100.0, "{json}");
    assert_eq!(json["networks"][1]["moves"].as_array().unwrap().len(), 20);

    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../nets");
    let inspected = |name: &str| -> serde_json::Value {
        serde_json::from_str(&run_ok(&["inspect", "--json", name], &dir)).unwrap()
    };
    for (name, file) in [("tactician", "tandem.tnn"), ("strategist", "strategist.ttn")] {
        let (built_in, file) = (inspected(name), inspected(&format!("{root}/{file}")));
        assert_eq!((&built_in[0]["sha256"], &built_in[0]["size"]), (&file[0]["sha256"], &file[0]["size"]));
    }
    let hybrid = run_ok(&["inspect", &format!("{root}/tandem.hybrid")], &dir);
    assert!(hybrid.matches("(the built-in one)").count() == 2, "{hybrid}");
    assert!(hybrid.contains("selector  20 features -> 64 -> 32 -> 1"), "{hybrid}");
    let error = run_err(&["export", &format!("{root}/tandem.hybrid"), "-o", "x.safetensors"], &dir);
    assert!(error.contains("a hybrid has no other format"), "{error}");
    // A file of that name has precedence.
    std::fs::write(dir.join("tactician"), "x").unwrap();
    run_err(&["inspect", "tactician"], &dir);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn missing_files_are_reported_as_missing() {
    let dir = directory("missing");
    std::fs::write(dir.join("p.csv"), "x\n").unwrap();
    for args in [
        &["maps", "nosuchfile", "-o", "n.svg"][..],
        &["inspect", "nosuchfile"],
        &["export", "nosuchfile", "-o", "x.tnn"],
        &["verify", "nosuchfile"],
        &["eval", "nosuchfile"],
        &["evaluate", "nosuchfile", "--data", "p.csv"],
        &["play", "--net", "nosuchfile"],
        &["puzzles", "nosuchfile"],
        &["inspect", "nosuchfile.hybrid"],
        &["data", "count", "nosuchfile.csv"],
        &["data", "count", "nosuchfile.csv", "--filter", "no-captures"],
    ] {
        let error = run_err(args, &dir);
        assert!(error.contains("nosuchfile") && error.contains("No such file"), "{args:?}: {error}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

/// The scores are the network's own evaluations: it has no error then, and one whose centipawns are twice as
/// large has the fitted scale 1/2.
#[test]
fn networks_are_compared_on_data_with_any_number_of_threads() {
    let dir = directory("evaluate");
    let quiet = float(32, true, FeatureSet::plain());
    let (network, _) = quiet.quantise(Quantisation::default()).unwrap();
    std::fs::write(dir.join("net.tnn"), network.to_bytes()).unwrap();
    write(&FloatNetwork { scale: 800, ..quiet }, &dir.join("too_large.safetensors"));
    let mut random = SplitMix::new(8);
    let mut text = String::from("fen,score,result\n");
    let mut position = tandem_chess::Position::startpos();
    let mut written = 0;
    while written < 3000 {
        let moves = position.legal_moves();
        if moves.is_empty() || position.is_fifty_moves() || position.ply() > 150 {
            position = tandem_chess::Position::startpos();
            continue;
        }
        position.play(moves[random.below(moves.len() as u32) as usize]);
        let score = network.evaluate(position.board()).centipawns();
        // The result is White's, whatever the side to move.
        text += &format!("{},{score},1-0\n", position.fen());
        written += 1;
    }
    std::fs::write(dir.join("data.csv"), text).unwrap();
    let args = |threads: &'static str, json: &'static str| {
        ["evaluate", "net.tnn", "too_large.safetensors", "bootstrap", "--data", "data.csv", "--columns"]
            .into_iter()
            .chain([
                "view=side-to-move",
                "--fit-scale",
                "--threads",
                threads,
                "--json",
                json,
                "--svg",
                "c.svg",
            ])
            .collect::<Vec<&str>>()
    };
    let printed = run_ok(&args("1", "one.json"), &dir);
    let net = row(&printed, "net.tnn");
    assert_eq!(net[1..4], ["3000", "0.000000", "0.0"], "{printed}");
    assert_eq!(net[net.len() - 3..], ["1.0000", "1.000", "0.000000"], "{printed}");
    let too_large = row(&printed, "too_large.safetensors");
    let scale: f64 = too_large[too_large.len() - 2].parse().unwrap();
    assert!((scale - 0.5).abs() < 0.01, "{printed}");
    assert!(printed.contains("endgame") && printed.contains("25 to 32"), "{printed}");
    assert_eq!(printed, run_ok(&args("3", "three.json"), &dir));
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    assert_eq!(read("one.json"), read("three.json"));
    assert!(read("c.svg").starts_with("<svg xmlns") && read("c.svg").contains(">too_large.safetensors<"));

    let few = run_ok(&["evaluate", "bootstrap", "--data", "data.csv", "--positions", "70"], &dir);
    assert_eq!(row(&few, "bootstrap")[1], "70");
    let error = run_err(&["evaluate", "bootstrap", "--data", "data.csv", "--scale", "0"], &dir);
    assert!(error.contains("400 is usual"), "{error}");
    std::fs::write(dir.join("bare.csv"), "fen\n4k3/8/8/8/8/8/8/4K3 w - - 0 1\n").unwrap();
    let error = run_err(&["evaluate", "bootstrap", "--data", "bare.csv"], &dir);
    assert!(error.contains("1 have neither a score nor a result"), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn the_doctor_reports_what_it_finds() {
    let dir = directory("doctor");
    let printed = run_ok(&["doctor"], &dir);
    assert!(printed.contains("instructions") && printed.contains(Isa::best().name()), "{printed}");
    assert!(printed.contains("NVIDIA driver") && printed.contains("stockfish"), "{printed}");
    let facts: serde_json::Value = serde_json::from_str(&run_ok(&["doctor", "--json"], &dir)).unwrap();
    assert!(facts["machine"].as_array().is_some_and(|findings| findings.len() >= 5));
    std::fs::create_dir_all(dir.join("data/nets")).unwrap();
    std::fs::write(dir.join("data/nets/nn-000000000000.nnue"), b"broken").unwrap();
    let error = run_err(&["doctor", "--data", "data"], &dir);
    assert!(error.contains("nn-000000000000.nnue"), "{error}");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "nothing is left behind");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
#[ignore = "needs data"]
fn real_networks_are_exported_verified_and_compared() {
    let dir = directory("real");
    let small = data("nets/nnue/nn-37f18f62d772.nnue");
    let printed = run_ok(&["verify", &small, "--positions", "500"], &dir);
    assert!(printed.contains("all integer evaluations agree"), "{printed}");
    run_ok(&["export", &small, "-o", "small.nnue"], &dir);
    run_ok(&["export", "small.nnue", "-o", "small.tnn", "--no-card"], &dir);
    let printed = run_ok(&["inspect", &small, "small.nnue", "small.tnn"], &dir);
    let starts: Vec<&str> = printed.lines().filter(|line| line.contains("start position")).collect();
    assert!(starts.len() == 3 && starts.iter().all(|line| *line == starts[0]), "{printed}");
    let error = run_err(&["export", &small, "-o", "x.tnn", "--qa", "255"], &dir);
    assert!(error.contains("scales of stacks are fixed"), "{error}");

    let data = data("labelled/tcec_labelled_1.csv.zst");
    let printed = run_ok(&["verify", &small, "--positions", "500", "--data", &data], &dir);
    assert!(printed.contains("500 positions"), "{printed}");
    let printed =
        run_ok(&["evaluate", "small.tnn", "bootstrap", "--data", &data, "--positions", "5000"], &dir);
    for name in ["small.tnn", "bootstrap"] {
        let figures = row(&printed, name);
        let loss: f64 = figures[2].parse().unwrap();
        let sign: f64 = figures[4].parse().unwrap();
        assert!(loss > 0.001 && loss < 0.05 && sign > 70.0, "{printed}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}
