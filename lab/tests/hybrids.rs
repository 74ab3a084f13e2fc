//! Hybrids as a user meets them: a selector is trained, and a bridge is evaluated next to its networks. The
//! networks here are small and untrained.

mod common;

use common::{directory, run_err, run_ok};
use std::path::Path;
use tandem_hybrid::{Bridge, BridgeForm, Fingerprint, Hybrid};
use tandem_transformer::Weights;

fn shipped() -> String {
    format!("{}/../nets/tandem.tnn", env!("CARGO_MANIFEST_DIR"))
}

/// A folder with games, a small transformer, and hybrids of it with the shipped NNUE whose bridges are open
/// or closed.
fn prepared(name: &str) -> std::path::PathBuf {
    let dir = directory(name);
    let selfplay =
        ["data", "selfplay", "games", "--games", "12", "--nodes", "60", "--workers", "1", "--hash", "1"];
    run_ok(&selfplay, &dir);
    let board =
        format!("{}/../crates/transformer/tests/architectures/board.toml", env!("CARGO_MANIFEST_DIR"));
    run_ok(&["new", &board, "-o", "net.ttn"], &dir);
    bridged(&dir, 0.5).save(dir.join("open.hybrid")).unwrap();
    bridged(&dir, 0.0).save(dir.join("closed.hybrid")).unwrap();
    dir
}

/// A hybrid whose bridge has all its gates at `gate`.
fn bridged(dir: &Path, gate: f32) -> Hybrid {
    let code = Weights::load(dir.join("net.ttn"), None).unwrap().architecture().board_code().unwrap();
    let start = Bridge::random(BridgeForm::Gated, 1024, code, 3);
    let bridge = Bridge::from_tensors(BridgeForm::Gated, 1024, code, |name, shape| {
        let tensors = start.tensors();
        let (_, _, numbers) = tensors.iter().find(|(other, ..)| *other == name).ok_or(())?;
        Ok::<_, ()>(if name == "bridge.gate" { vec![gate; shape[0]] } else { numbers.to_vec() })
    });
    let [nnue, transformer] = [shipped(), dir.join("net.ttn").display().to_string()];
    let [nnue, transformer] = [nnue, transformer].map(|path| Fingerprint::of_file(path).unwrap());
    Hybrid { bridge: bridge.ok(), ..Hybrid::new(nnue, transformer) }
}

#[test]
fn a_hybrid_is_evaluated_next_to_its_networks() {
    let dir = prepared("hybrids-evaluate");
    let data = ["--data", "games-0-of-1.vf", "--positions", "200"];
    let evaluate = ["evaluate", "net.ttn", "open.hybrid", "closed.hybrid"];
    let printed = run_ok(&[&evaluate[..], &data].concat(), &dir);
    let row = |name: &str| -> Vec<&str> {
        let line = printed.lines().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("no {name} in {printed}")).split_whitespace().skip(1).collect()
    };
    // A closed gate changes nothing, an open one does.
    assert_eq!(row("closed.hybrid"), row("net.ttn"));
    assert_ne!(row("open.hybrid"), row("net.ttn"));
    // The missing transformer is named by its hash.
    let hash = Fingerprint::of_file(dir.join("net.ttn")).unwrap();
    let error = run_err(&[&["evaluate", "open.hybrid"][..], &data].concat(), &dir);
    assert!(error.contains("name its transformer too") && error.contains(&hash.to_string()), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn recipes_of_the_hybrid_expect_the_networks_that_ship() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let [nnue, transformer] = ["tandem.tnn", "strategist.ttn"]
        .map(|name| Fingerprint::of_file(format!("{root}/nets/{name}")).unwrap().to_string());
    for (phase, key) in [("hybrid-phase1", "init_sha256 = "), ("hybrid-phase2", "sha256 = ")] {
        let printed =
            run_ok(&["train", &format!("{root}/recipes/{phase}.toml"), "--explain"], Path::new(root));
        assert!(printed.contains(&format!("{key}\"{transformer}\"")), "{printed}");
        assert!(printed.contains(&format!("sha256 = \"{nnue}\"")), "{printed}");
    }
}

#[test]
fn a_selector_is_trained_and_joins_the_bridge() {
    let dir = prepared("hybrids-selector");
    let recipe = |nnue: &str| {
        format!(
            "name = \"taught\"\n[selector]\nnnue = {{ path = {:?}{nnue} }}\ntransformer = {{ path = \"net.ttn\" }}\n\
             hybrid = \"open.hybrid\"\nusage = 0.25\n[data]\ntrain = [{{ path = \"games-0-of-1.vf\" }}]\n\
             validation_fraction = 0.3\ncases = 500\nvalidation_cases = 200\n[training]\nepochs = 3\nbatch = 50\n",
            shipped()
        )
    };
    std::fs::write(dir.join("selector.toml"), recipe("")).unwrap();
    let printed = run_ok(&["train", "selector.toml"], &dir);
    for what in ["epoch 3: loss", "precision", "recall", "AUC", "decided first", "taught.hybrid"] {
        assert!(printed.contains(what), "no {what} in {printed}");
    }
    let taught = Hybrid::load(dir.join("runs/taught/taught.hybrid")).unwrap();
    assert_eq!(taught.bridge, bridged(&dir, 0.5).bridge);
    assert!(taught.selector.is_some() && taught.scale != 125.0);
    let facts = std::fs::read_to_string(dir.join("runs/taught/taught.json")).unwrap();
    let facts: serde_json::Value = serde_json::from_str(&facts).unwrap();
    assert!(facts["usage"].as_f64().unwrap() < 0.5, "{facts}");
    assert_eq!(
        facts["mse_by_fraction"]["selector"].as_array().unwrap().len(),
        facts["fractions"].as_array().unwrap().len()
    );
    // At 0 % and at 100 %, all selectors send the same positions.
    let errors = facts["mse_by_fraction"].as_object().unwrap();
    for at in [0, 10] {
        let ends: Vec<f64> = errors.values().map(|errors| errors[at].as_f64().unwrap()).collect();
        assert!(ends.iter().all(|end| (end - ends[0]).abs() < 1e-9), "{ends:?}");
    }
    let error = run_err(&["train", "selector.toml"], &dir);
    assert!(error.contains("exists already"), "{error}");
    // The selector is measured again on given positions; a hybrid without one is an error.
    let nets = ["evaluate", "net.ttn", "--data", "games-0-of-1.vf", "--positions", "300", "--selector"];
    let json = ["runs/taught/taught.hybrid", "--json", "measured.json"];
    let printed = run_ok(&[&nets[..], &json].concat(), &dir);
    assert!(printed.contains("base rate") && printed.contains("decided first"), "{printed}");
    let measured = std::fs::read_to_string(dir.join("measured.json")).unwrap();
    let measured: serde_json::Value = serde_json::from_str(&measured).unwrap();
    assert_eq!((&measured["cases"], &measured["margin"]), (&300.into(), &0.05.into()));
    assert_eq!(measured["threshold"], facts["threshold"]);
    // At 100 %, the precision is the base rate.
    assert_eq!(measured["precision_by_fraction"][10], measured["base_rate"]);
    assert_eq!(measured["recall_by_fraction"][10], 1.0);
    let error = run_err(&[&nets[..], &["open.hybrid"]].concat(), &dir);
    assert!(error.contains("has no selector"), "{error}");
    let error = run_err(&nets, &dir);
    assert!(error.contains("--selector measures one hybrid"), "{error}");
    // An NNUE other than the expected one is rejected.
    let other = Fingerprint::of(b"another").to_string();
    std::fs::write(dir.join("selector.toml"), recipe(&format!(", sha256 = \"{other}\""))).unwrap();
    let error = run_err(&["train", "selector.toml", "--run", "other"], &dir);
    assert!(
        error.contains("selector.nnue: ") && error.contains(&format!("SHA-256 {other} is expected")),
        "{error}"
    );
    // Completed phases are skipped.
    std::fs::write(dir.join("taught.toml"), recipe("")).unwrap();
    std::fs::write(dir.join("both.toml"), "phases = [\"taught.toml\", \"second.toml\"]").unwrap();
    let second = recipe("").replace("name = \"taught\"", "name = \"second\"");
    std::fs::write(dir.join("second.toml"), second).unwrap();
    let printed = run_ok(&["train", "both.toml"], &dir);
    assert!(
        printed.contains("completed before") && dir.join("runs/second/second.hybrid").exists(),
        "{printed}"
    );
    std::fs::remove_dir_all(dir).unwrap();
}
