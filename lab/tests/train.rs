//! `tandem-lab train` as a user runs it: runs that are killed and resumed, and messages about bad recipes.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn lab(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem-lab"));
    command.current_dir(folder);
    command
}

fn train(folder: &Path, args: &[&str]) -> Output {
    lab(folder).arg("train").args(args).output().unwrap()
}

fn folder(name: &str) -> PathBuf {
    common::directory(&format!("train-{name}"))
}

/// Makes self-play games to train on, and a recipe with frequent checkpoints.
fn prepare(folder: &Path) {
    let made = lab(folder)
        .args([
            "data",
            "selfplay",
            "games",
            "--games",
            "30",
            "--nodes",
            "50",
            "--workers",
            "1",
            "--hash",
            "1",
        ])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    std::fs::write(folder.join("small.toml"), RECIPE).unwrap();
}

const RECIPE: &str = r#"
name = "small"
[data]
train = [{ path = "games-0-of-1.vf" }, { path = "games-0-of-1.vf", weight = 0.5, filter = "min-ply=16" }]
validation = [{ path = "games-0-of-1.vf" }]
shuffle_buffer = 2048
[network]
features = "768"
accumulator = 32
[target]
loss = { kind = "power", power = 2.5 }
wdl = { kind = "linear", start = 0.0, end = 0.5 }
[training]
batch = 256
positions = 120000
validate_every = 10000
validation_positions = 1000
ema_decay = 0.9
ema_every = 4
[optimiser]
kind = "ranger"
"#;

fn files(folder: &Path, run: &str) -> Vec<Vec<u8>> {
    ["small.tnn", "small.safetensors"]
        .map(|name| std::fs::read(folder.join(run).join(name)).unwrap())
        .to_vec()
}

#[test]
fn a_killed_run_resumes_to_the_same_bytes() {
    let folder = folder("killed");
    prepare(&folder);
    let whole = train(&folder, &["small.toml", "--run", "whole", "--threads", "1"]);
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    for name in ["log.jsonl", "loss.svg", "recipe.toml", "best.checkpoint"] {
        assert!(folder.join("whole").join(name).exists(), "{name}");
    }
    // Killed soon after the second checkpoint, with two threads instead of one.
    let mut child = lab(&folder)
        .args(["train", "small.toml", "--run", "killed", "--threads", "2"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let since = Instant::now();
    let second = folder.join("killed/step-000000080.checkpoint");
    while !second.exists() && since.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!folder.join("killed/small.tnn").exists(), "it was killed before its end");
    let refused = train(&folder, &["small.toml", "--run", "killed"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--resume"), "{refused:?}");
    let resumed = train(&folder, &["small.toml", "--run", "killed", "--resume"]);
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    assert!(String::from_utf8_lossy(&resumed.stdout).contains("resuming at step"), "{resumed:?}");
    assert!(files(&folder, "whole") == files(&folder, "killed"), "the networks differ");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A script must be able to distinguish an interrupted run from a complete one.
#[cfg(unix)]
#[test]
fn an_interrupted_run_has_its_own_exit_status() {
    use std::io::Read as _;
    let folder = folder("interrupted");
    prepare(&folder);
    let mut child = lab(&folder)
        .args(["train", "small.toml", "--run", "run", "--threads", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let since = Instant::now();
    while !folder.join("run/step-000000040.checkpoint").exists() && since.elapsed() < Duration::from_secs(60)
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let mut printed = String::new();
    child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{printed}");
    assert!(printed.contains("--resume continues"), "{printed}");
    assert!(!folder.join("run/small.tnn").exists(), "it was interrupted before its end");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn old_keys_of_recipes_still_work_and_are_reported() {
    let folder = folder("old-keys");
    std::fs::write(folder.join("new.toml"), RECIPE).unwrap();
    let old = RECIPE
        .replace("wdl = ", "result_share = ")
        .replace("ema_decay = 0.9\nema_every = 4", "average = { kind = \"moving\", share = 0.9, every = 4 }");
    std::fs::write(folder.join("old.toml"), old).unwrap();
    let [new, old] = ["new.toml", "old.toml"].map(|name| train(&folder, &[name, "--explain"]));
    assert!(new.status.success() && old.status.success(), "{}", String::from_utf8_lossy(&old.stderr));
    assert_eq!(new.stdout, old.stdout);
    let notices = String::from_utf8_lossy(&old.stderr).into_owned();
    assert!(new.stderr.is_empty() && notices.starts_with("old.toml: "), "{notices}");
    assert!(notices.contains("target.wdl") && notices.contains("training.ema_decay"), "{notices}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Without validation data the training loss is all that shows progress; with it, both losses stand side by side.
#[test]
fn losses_and_epochs_are_printed_with_and_without_validation() {
    let folder = folder("losses");
    prepare(&folder);
    let few =
        "fen,score,result\n4k3/8/8/8/8/8/4P3/4K3 w - - 0 1,30,1-0\n4k3/4p3/8/8/8/8/8/4K3 w - - 0 1,-30,0-1\n";
    std::fs::write(folder.join("few.csv"), few).unwrap();
    let short = RECIPE
        .replace("positions = 120000", "positions = 20480")
        .replace("validate_every = 10000", "validate_every = 10240");
    let run = |name: &str, recipe: &str| {
        std::fs::write(folder.join("run.toml"), recipe).unwrap();
        let output = train(&folder, &["run.toml", "--run", name]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{error}");
        (String::from_utf8_lossy(&output.stdout).into_owned(), error)
    };
    let (printed, _) = run("both", &short);
    let lines: Vec<&str> = printed.lines().filter(|line| line.starts_with("step ")).collect();
    assert_eq!(lines.len(), 2, "{printed}");
    for line in lines {
        assert!(line.contains("validation loss 0.") && line.contains("; training loss 0."), "{line}");
        assert!(line.ends_with(" epochs"), "{line}");
    }
    let alone = short.replace("validation = [{ path = \"games-0-of-1.vf\" }]\n", "");
    let alone = alone.replace("validation_positions = 1000\n", "");
    let (printed, error) = run("alone", &alone);
    assert!(
        printed.contains("step 40: training loss 0.") && !printed.contains("validation loss"),
        "{printed}"
    );
    assert!(!error.contains("by heart"), "{error}");
    let (_, error) =
        run("few", &alone.replace("games-0-of-1.vf", "few.csv").replace(", filter = \"min-ply=16\"", ""));
    assert!(error.contains("reads its data ") && error.contains("by heart"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_run_that_cannot_begin_leaves_no_folder() {
    let folder = folder("refused");
    std::fs::write(folder.join("x.toml"), RECIPE).unwrap();
    let output = train(&folder, &["x.toml", "--run", "run"]);
    assert!(!output.status.success() && !folder.join("run").exists(), "{output:?}");
    // A folder that was there before stays.
    std::fs::create_dir(folder.join("run")).unwrap();
    assert!(!train(&folder, &["x.toml", "--run", "run"]).status.success());
    assert!(folder.join("run").exists());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn errors_in_recipes_are_reported() {
    let folder = folder("wrong");
    prepare(&folder);
    let printed = |from: &str, to: &str| {
        assert!(RECIPE.contains(from));
        // The sigmoid of other losses would hide how far off the network is.
        let recipe = RECIPE.replace("{ kind = \"power\", power = 2.5 }", "{ kind = \"score\" }");
        let recipe =
            recipe.replace("wdl = { kind = \"linear\", start = 0.0, end = 0.5 }\n", "").replace(from, to);
        std::fs::write(folder.join("bad.toml"), recipe).unwrap();
        let output = train(&folder, &["bad.toml", "--run", "bad"]);
        assert!(!output.status.success(), "{from} -> {to}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!text.contains("panicked"), "{text}");
        text
    };
    // The file is named, because there may be several.
    let text = printed("batch = 256", "batches = 256");
    assert!(text.contains("bad.toml: ") && text.contains("batches"), "{text}");
    assert!(printed("accumulator = 32", "accumulator = 33").contains("not a multiple of 32"));
    assert!(printed("games-0-of-1.vf", "nowhere.vf").contains("nowhere.vf"));
    assert!(printed("\"ranger\"", "\"rangers\"").contains("rangers"));
    assert!(
        printed("features = \"768\"", "features = \"768\"\ninit_from = \"none.safetensors\"")
            .contains("none.safetensors")
    );
    // A learning rate that makes the loss infinite stops the run, and the batch is saved for inspection.
    let text = printed(
        "[optimiser]\nkind = \"ranger\"",
        "clip_weights = false\n[lr]\nkind = \"constant\"\nvalue = 1e38\n[optimiser]\nkind = \"sgd\"\nmomentum = 0.9",
    );
    assert!(text.contains("bad-batch-"), "{text}");
    let explained = train(&folder, &["small.toml", "--explain"]);
    assert!(String::from_utf8_lossy(&explained.stdout).contains("clip_weights = true"));
    std::fs::remove_dir_all(&folder).unwrap();
}
