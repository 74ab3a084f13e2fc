//! `tandem-lab evaluate`, `puzzles` and `data label` with transformers, as a user runs them. The networks
//! here are small and untrained: the tests check which network evaluates what.

mod common;

use common::{directory, run_err, run_ok};
use std::path::Path;
use tandem_transformer::{Preset, Storage, Weights};

/// A folder with games and tiny networks: `board.ttn` sees the game history and has policy and value heads,
/// `moves.ttn` reads moves.
fn prepared(name: &str) -> std::path::PathBuf {
    let dir = directory(name);
    for name in ["board", "moves"] {
        let tiny =
            format!("{}/../crates/transformer/tests/architectures/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        run_ok(&["new", &tiny, "-o", &format!("{name}.ttn")], &dir);
    }
    run_ok(&["data", "selfplay", "games", "--games", "6", "--nodes", "60", "--workers", "1"], &dir);
    dir
}

fn read_json(dir: &Path, name: &str) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(dir.join(name)).unwrap()).unwrap()
}

/// The cells of a row of the first table.
fn row(printed: &str, name: &str) -> Vec<String> {
    let line = printed.lines().find(|line| line.split_whitespace().next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in {printed}"));
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
}

#[test]
fn transformers_are_compared_with_others_on_the_same_games() {
    let dir = prepared("measure-evaluate");
    run_ok(&["export", "board.ttn", "-o", "small.ttn", "--precision", "int8", "--positions", "2"], &dir);
    run_ok(&["export", "board.ttn", "-o", "board.safetensors"], &dir);
    let nets = ["board.ttn", "small.ttn", "board.safetensors", "moves.ttn", "bootstrap"];
    let on = |threads: &str, json: &str| {
        let mut args = vec!["evaluate"];
        args.extend(nets);
        args.extend(["--data", "games-0-of-1.vf", "--threads", threads, "--json", json]);
        run_ok(&args, &dir)
    };
    let printed = on("1", "one.json");
    assert_eq!(on("3", "three.json"), printed);
    assert_eq!(read_json(&dir, "one.json"), read_json(&dir, "three.json"));
    for name in nets.into_iter().chain(["constant"]) {
        assert_eq!(row(&printed, name)[1], row(&printed, "board.ttn")[1], "{printed}");
    }
    let facts = read_json(&dir, "one.json");
    let networks = facts["networks"].as_array().unwrap();
    let of = |number: usize, metric: &str| networks[number]["metrics"][metric]["value"].as_f64();
    // A network in two formats has the same metrics; its int8 version is close.
    for metric in ["policy_top1", "policy_top3", "policy_top5", "policy_loss", "value_mse"] {
        assert_eq!(of(0, metric), of(2, metric));
        let difference = &networks[2]["against_first"][metric];
        assert!([&difference["low"], &difference["high"]].into_iter().all(|end| end.as_f64() == Some(0.0)));
    }
    assert_eq!(networks[2]["agreement_with_first"]["same_best_move"], 1.0);
    assert_eq!(networks[2]["agreement_with_first"]["mean_value_difference"], 0.0);
    let bytes = &networks[1]["agreement_with_first"];
    assert!(bytes["same_best_move"].as_f64().unwrap() > 0.2, "{bytes}");
    assert!((1e-9..0.05).contains(&bytes["mean_value_difference"].as_f64().unwrap()), "{bytes}");
    // Higher thresholds leave fewer moves; with one move per position nothing of the loss is irreducible; and
    // a search needs at least 1 / 1.003.
    let fractions =
        ["policy_above_1", "policy_above_2", "policy_above_5", "policy_above_10"].map(|name| of(0, name));
    assert!(fractions.is_sorted_by(|more, fewer| more >= fewer) && fractions[0] > Some(0.0), "{fractions:?}");
    assert!((of(0, "reducible_policy_loss").unwrap() - of(0, "policy_loss").unwrap()).abs() < 1e-6);
    assert!(of(0, "search_policy_loss").unwrap() > 1.0 / 1.003);
    assert!((0.0..=1.0).contains(&of(0, "value_accuracy").unwrap()) && of(4, "policy_above_1").is_none());
    let further: Vec<&str> = printed.lines().skip_while(|line| !line.contains("above 1 %")).collect();
    assert!(further[1].starts_with("board.ttn") && !further[0].contains("top 1"), "{printed}");
    // A network of moves ranks them; the hand-written evaluation has no metrics of moves, and its values are
    // better than a constant.
    assert!(of(3, "policy_top5").unwrap() >= of(3, "policy_top1").unwrap());
    assert!(of(3, "bucket_top1").is_some() && of(3, "policy_loss").is_none());
    assert!(of(4, "policy_top1").is_none() && networks[4]["fitted_scale"].as_f64().unwrap() > 0.0);
    assert!(of(4, "value_mse").unwrap() < of(5, "value_mse").unwrap());
    let error = networks[0]["metrics"]["policy_top1"]["standard_error"].as_f64().unwrap();
    assert!((0.0..0.2).contains(&error));
    let phases = networks[0]["phases"].as_object().unwrap();
    let counts = phases.values().filter_map(|phase| phase["policy_top1"]["positions"].as_u64());
    assert_eq!(counts.sum::<u64>(), networks[0]["metrics"]["policy_top1"]["positions"].as_u64().unwrap());

    let printed = run_ok(&["evaluate", "board.ttn", "--data", "games-0-of-1.vf", "--positions", "50"], &dir);
    assert_eq!(row(&printed, "board.ttn")[1], "50");
    let error = run_err(&["evaluate", "board.ttn", "--data", "games-0-of-1.vf", "--svg", "x.svg"], &dir);
    assert!(error.contains("--svg"), "{error}");
    std::fs::write(dir.join("bare.csv"), "fen\n4k3/8/8/8/8/8/8/4K3 w - - 0 1\n").unwrap();
    let error = run_err(&["evaluate", "board.ttn", "--data", "bare.csv"], &dir);
    assert!(error.contains("neither a move, a score nor a result"), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn networks_of_moves_are_measured_by_labels_of_all_moves() {
    let dir = prepared("measure-actions");
    let label =
        ["data", "label", "games-0-of-1.vf", "-o", "action_value_data.bag", "--all-moves", "--nodes", "5"];
    let printed = run_ok(&[&label[..], &["--threads", "2"]].concat(), &dir);
    assert!(printed.contains("records, 0 skipped"), "{printed}");
    // A bag that stores only moves would lose the scores.
    let error = run_err(&["data", "label", "games-0-of-1.vf", "-o", "moves.bag", "--all-moves"], &dir);
    assert!(error.contains("action_value"), "{error}");
    let evaluate = ["evaluate", "moves.ttn", "--data", "action_value_data.bag", "--positions", "500"];
    let printed = run_ok(&[&evaluate[..], &["--json", "x.json"]].concat(), &dir);
    assert!(printed.contains("best action") && printed.contains("tau"), "{printed}");
    let metrics = read_json(&dir, "x.json")["networks"][0]["metrics"].clone();
    assert_eq!(metrics["bucket_top1"]["positions"], 500);
    let ranked = metrics["kendall_tau"]["positions"].as_u64().unwrap();
    assert!((10..60).contains(&ranked), "{metrics}");
    assert!(metrics["value_mse"].is_null());
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_transformer_solves_puzzles_without_search() {
    let dir = prepared("measure-puzzles");
    // Any mate counts, and by the rules of the game every network sees a mate in one.
    let puzzles = "PuzzleId,FEN,Moves,Rating\n\
                   a,6k1/5ppp/8/8/8/7r/1R6/R5K1 b - - 0 1,h3h4 a1a8,900\n\
                   b,rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1,e2e4 a7a6 g1f3 h7h6,1700\n";
    std::fs::write(dir.join("puzzles.csv"), puzzles).unwrap();
    let ask = |net: &str, by: &str| {
        let json = ["--concurrency", "2", "--json", "x.json"];
        let printed =
            run_ok(&[&["puzzles", "puzzles.csv", "--net", net, "--by", by][..], &json].concat(), &dir);
        assert!(printed.contains(&format!("{net}, by {by} without search: ")), "{printed}");
        read_json(&dir, "x.json")
    };
    assert_eq!(ask("board.ttn", "value")["results"][0]["solved"], true);
    for (net, by) in [("board.ttn", "policy"), ("moves.ttn", "action-value")] {
        let facts = ask(net, by);
        assert_eq!(facts["puzzles"], 2);
        assert_eq!(facts["bands"].as_array().unwrap().len(), 2);
        assert!(facts["low"].as_f64().unwrap() <= facts["high"].as_f64().unwrap());
    }
    let error = run_err(&["puzzles", "puzzles.csv", "--net", "moves.ttn", "--by", "policy"], &dir);
    assert!(error.contains("moves.ttn: ") && error.contains("action-value"), "{error}");
    let error = run_err(&["puzzles", "puzzles.csv", "--by", "policy"], &dir);
    assert!(error.contains("--net"), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn scores_are_mixed_with_those_of_a_transformer() {
    let dir = prepared("measure-label");
    let label = |out: &str, more: &[&str]| {
        let args = ["data", "label", "games-0-of-1.vf", "-o", out, "--transformer"];
        run_ok(&[&args[..], more].concat(), &dir)
    };
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    let printed = label("one.csv", &["board.ttn", "--keep", "0.3", "--threads", "1"]);
    assert!(printed.contains("keep 0.3, scale 400, evaluated by board.ttn"), "{printed}");
    label("two.csv", &["board.ttn", "--keep", "0.3", "--threads", "2"]);
    assert!(read("two.csv") == read("one.csv"));
    // With a weight of 1 nothing changes; with 0 everything except mates does.
    label("all.csv", &["board.ttn", "--keep", "1"]);
    label("none.csv", &["moves.ttn"]);
    run_ok(&["data", "convert", "games-0-of-1.vf", "-o", "old.csv"], &dir);
    let (old, all, none) = (read("old.csv"), read("all.csv"), read("none.csv"));
    let mut rows = old.lines().zip(all.lines());
    assert_eq!(rows.find(|(old, new)| old != new), None);
    let changed = old.lines().zip(none.lines()).filter(|(old, new)| old != new).count();
    assert!(old.lines().count() == none.lines().count() && 2 * changed > old.lines().count());

    let error =
        run_err(&["data", "label", "x.vf", "-o", "y.vf", "--transformer", "board.ttn", "--keep", "2"], &dir);
    assert!(error.contains("--keep 2"), "{error}");
    let error =
        run_err(&["data", "label", "x.vf", "-o", "y.vf", "--transformer", "board.ttn", "--all-moves"], &dir);
    assert!(error.contains("--all-moves"), "{error}");
    let error = run_err(&["data", "label", "x.vf", "-o", "y.vf", "--keep", "0.5"], &dir);
    assert!(error.contains("--transformer"), "{error}");
    let mut policy = Preset::BtSmall.architecture();
    (policy.body.layers, policy.heads.value, policy.heads.moves_left) = (1, None, None);
    std::fs::write(dir.join("policy.ttn"), Weights::random(policy, 1).to_bytes(Storage::F32, "x")).unwrap();
    let error = run_err(&["data", "label", "x.vf", "-o", "y.vf", "--transformer", "policy.ttn"], &dir);
    assert!(error.contains("cannot evaluate positions"), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}
