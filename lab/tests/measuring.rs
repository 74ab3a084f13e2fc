//! `tandem-lab evaluate`, `puzzles` and `data label` with transformers, as a user meets them. Networks here are small and
//! have learned nothing: what is tested is who is asked what.

mod common;

use common::{badly, directory, well};
use std::path::Path;
use tandem_transformer::{Preset, Storage, Weights};

/// Tiny networks: `board.ttn` sees the game and has a policy and values, `moves.ttn` reads moves; and games.
fn prepared(name: &str) -> std::path::PathBuf {
    let dir = directory(name);
    for name in ["board", "moves"] {
        let tiny =
            format!("{}/../crates/transformer/tests/architectures/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        well(&["new", &tiny, "-o", &format!("{name}.ttn")], &dir);
    }
    well(&["data", "selfplay", "games", "--games", "6", "--nodes", "60", "--workers", "1"], &dir);
    dir
}

fn read_json(dir: &Path, name: &str) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(dir.join(name)).unwrap()).unwrap()
}

/// The cells of a row of the first table.
fn row(told: &str, name: &str) -> Vec<String> {
    let line = told.lines().find(|line| line.split_whitespace().next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in {told}"));
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
}

#[test]
fn transformers_stand_beside_others_on_the_same_games() {
    let dir = prepared("measure-evaluate");
    well(&["export", "board.ttn", "-o", "small.ttn", "--precision", "int8", "--positions", "2"], &dir);
    well(&["export", "board.ttn", "-o", "board.safetensors"], &dir);
    let nets = ["board.ttn", "small.ttn", "board.safetensors", "moves.ttn", "bootstrap"];
    let on = |threads: &str, json: &str| {
        let mut args = vec!["evaluate"];
        args.extend(nets);
        args.extend(["--data", "games-0-of-1.vf", "--threads", threads, "--json", json]);
        well(&args, &dir)
    };
    let told = on("1", "one.json");
    assert_eq!(on("3", "three.json"), told);
    assert_eq!(read_json(&dir, "one.json"), read_json(&dir, "three.json"));
    for name in nets.into_iter().chain(["constant"]) {
        assert_eq!(row(&told, name)[1], row(&told, "board.ttn")[1], "{told}");
    }
    let facts = read_json(&dir, "one.json");
    let networks = facts["networks"].as_array().unwrap();
    let of = |number: usize, figure: &str| networks[number]["figures"][figure]["value"].as_f64();
    // One network in two files is one network; its bytes are near it.
    for figure in ["policy_top1", "policy_top3", "policy_top5", "policy_loss", "value_mse"] {
        assert_eq!(of(0, figure), of(2, figure));
        let difference = &networks[2]["against_first"][figure];
        assert!([&difference["low"], &difference["high"]].into_iter().all(|end| end.as_f64() == Some(0.0)));
    }
    assert_eq!(networks[2]["beside_first"]["same_best_move"], 1.0);
    assert_eq!(networks[2]["beside_first"]["value_distance"], 0.0);
    let bytes = &networks[1]["beside_first"];
    assert!(bytes["same_best_move"].as_f64().unwrap() > 0.2, "{bytes}");
    assert!((1e-9..0.05).contains(&bytes["value_distance"].as_f64().unwrap()), "{bytes}");
    // Fewer moves have a greater share, one move for a position leaves nothing unavoidable, and a search takes 1 / 1.003 at least.
    let shares =
        ["policy_above_1", "policy_above_2", "policy_above_5", "policy_above_10"].map(|name| of(0, name));
    assert!(shares.is_sorted_by(|more, fewer| more >= fewer) && shares[0] > Some(0.0), "{shares:?}");
    assert!((of(0, "reducible_policy_loss").unwrap() - of(0, "policy_loss").unwrap()).abs() < 1e-6);
    assert!(of(0, "search_policy_loss").unwrap() > 1.0 / 1.003);
    assert!((0.0..=1.0).contains(&of(0, "value_accuracy").unwrap()) && of(4, "policy_above_1").is_none());
    let further: Vec<&str> = told.lines().skip_while(|line| !line.contains("above 1 %")).collect();
    assert!(further[1].starts_with("board.ttn") && !further[0].contains("top 1"), "{told}");
    // A network of moves ranks them; a hand-written evaluation says nothing of them, and is better than a constant.
    assert!(of(3, "policy_top5").unwrap() >= of(3, "policy_top1").unwrap());
    assert!(of(3, "bucket_top1").is_some() && of(3, "policy_loss").is_none());
    assert!(of(4, "policy_top1").is_none() && networks[4]["factor"].as_f64().unwrap() > 0.0);
    assert!(of(4, "value_mse").unwrap() < of(5, "value_mse").unwrap());
    let error = networks[0]["figures"]["policy_top1"]["standard_error"].as_f64().unwrap();
    assert!((0.0..0.2).contains(&error));
    let phases = networks[0]["phases"].as_object().unwrap();
    let counts = phases.values().filter_map(|phase| phase["policy_top1"]["positions"].as_u64());
    assert_eq!(counts.sum::<u64>(), networks[0]["figures"]["policy_top1"]["positions"].as_u64().unwrap());

    let told = well(&["evaluate", "board.ttn", "--data", "games-0-of-1.vf", "--positions", "50"], &dir);
    assert_eq!(row(&told, "board.ttn")[1], "50");
    let error = badly(&["evaluate", "board.ttn", "--data", "games-0-of-1.vf", "--svg", "x.svg"], &dir);
    assert!(error.contains("--svg"), "{error}");
    std::fs::write(dir.join("bare.csv"), "fen\n4k3/8/8/8/8/8/8/4K3 w - - 0 1\n").unwrap();
    let error = badly(&["evaluate", "board.ttn", "--data", "bare.csv"], &dir);
    assert!(error.contains("neither a move, a score nor a result"), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn labels_of_all_moves_are_what_networks_of_moves_are_judged_by() {
    let dir = prepared("measure-actions");
    let label =
        ["data", "label", "games-0-of-1.vf", "-o", "action_value_data.bag", "--all-moves", "--nodes", "5"];
    let told = well(&[&label[..], &["--threads", "2"]].concat(), &dir);
    assert!(told.contains("records, 0 left out"), "{told}");
    // One that keeps moves alone would lose what was searched for.
    let error = badly(&["data", "label", "games-0-of-1.vf", "-o", "moves.bag", "--all-moves"], &dir);
    assert!(error.contains("action_value"), "{error}");
    let evaluate = ["evaluate", "moves.ttn", "--data", "action_value_data.bag", "--positions", "500"];
    let told = well(&[&evaluate[..], &["--json", "x.json"]].concat(), &dir);
    assert!(told.contains("best action") && told.contains("tau"), "{told}");
    let figures = read_json(&dir, "x.json")["networks"][0]["figures"].clone();
    assert_eq!(figures["bucket_top1"]["positions"], 500);
    let ranked = figures["kendall_tau"]["positions"].as_u64().unwrap();
    assert!((10..60).contains(&ranked), "{figures}");
    assert!(figures["value_mse"].is_null());
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_transformer_solves_puzzles_without_search() {
    let dir = prepared("measure-puzzles");
    // Any mate counts, and by the rules every network sees one that is there.
    let puzzles = "PuzzleId,FEN,Moves,Rating\n\
                   a,6k1/5ppp/8/8/8/7r/1R6/R5K1 b - - 0 1,h3h4 a1a8,900\n\
                   b,rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1,e2e4 a7a6 g1f3 h7h6,1700\n";
    std::fs::write(dir.join("puzzles.csv"), puzzles).unwrap();
    let ask = |net: &str, by: &str| {
        let json = ["--concurrency", "2", "--json", "x.json"];
        let told = well(&[&["puzzles", "puzzles.csv", "--net", net, "--by", by][..], &json].concat(), &dir);
        assert!(told.contains(&format!("{net}, by {by} without search: ")), "{told}");
        read_json(&dir, "x.json")
    };
    assert_eq!(ask("board.ttn", "value")["results"][0]["solved"], true);
    for (net, by) in [("board.ttn", "policy"), ("moves.ttn", "action-value")] {
        let facts = ask(net, by);
        assert_eq!(facts["puzzles"], 2);
        assert_eq!(facts["bands"].as_array().unwrap().len(), 2);
        assert!(facts["low"].as_f64().unwrap() <= facts["high"].as_f64().unwrap());
    }
    let error = badly(&["puzzles", "puzzles.csv", "--net", "moves.ttn", "--by", "policy"], &dir);
    assert!(error.contains("moves.ttn: ") && error.contains("action-value"), "{error}");
    let error = badly(&["puzzles", "puzzles.csv", "--by", "policy"], &dir);
    assert!(error.contains("--net"), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_transformer_has_its_share_in_scores() {
    let dir = prepared("measure-label");
    let label = |out: &str, more: &[&str]| {
        let args = ["data", "label", "games-0-of-1.vf", "-o", out, "--transformer"];
        well(&[&args[..], more].concat(), &dir)
    };
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    let told = label("one.csv", &["board.ttn", "--keep", "0.3", "--threads", "1"]);
    assert!(told.contains("keep 0.3, scale 400, judged by board.ttn"), "{told}");
    label("two.csv", &["board.ttn", "--keep", "0.3", "--threads", "2"]);
    assert!(read("two.csv") == read("one.csv"));
    // Who keeps all changes nothing; who keeps nothing changes all but mates.
    label("all.csv", &["board.ttn", "--keep", "1"]);
    label("none.csv", &["moves.ttn"]);
    well(&["data", "convert", "games-0-of-1.vf", "-o", "old.csv"], &dir);
    let (old, all, none) = (read("old.csv"), read("all.csv"), read("none.csv"));
    let mut rows = old.lines().zip(all.lines());
    assert_eq!(rows.find(|(old, new)| old != new), None);
    let changed = old.lines().zip(none.lines()).filter(|(old, new)| old != new).count();
    assert!(old.lines().count() == none.lines().count() && 2 * changed > old.lines().count());

    let error =
        badly(&["data", "label", "x.vf", "-o", "y.vf", "--transformer", "board.ttn", "--keep", "2"], &dir);
    assert!(error.contains("--keep 2"), "{error}");
    let error =
        badly(&["data", "label", "x.vf", "-o", "y.vf", "--transformer", "board.ttn", "--all-moves"], &dir);
    assert!(error.contains("--all-moves"), "{error}");
    let error = badly(&["data", "label", "x.vf", "-o", "y.vf", "--keep", "0.5"], &dir);
    assert!(error.contains("--transformer"), "{error}");
    let mut policy = Preset::BtSmall.architecture();
    (policy.body.layers, policy.heads.value, policy.heads.moves_left) = (1, None, None);
    std::fs::write(dir.join("policy.ttn"), Weights::random(policy, 1).to_bytes(Storage::F32, "x")).unwrap();
    let error = badly(&["data", "label", "x.vf", "-o", "y.vf", "--transformer", "policy.ttn"], &dir);
    assert!(error.contains("no opinion of positions"), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}
