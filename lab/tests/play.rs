//! `tandem-lab play --net` as a user runs it, with small untrained networks.

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tandem_transformer::{Architecture, Preset, Storage, Weights};

fn directory(name: &str) -> PathBuf {
    common::directory(&format!("play-{name}"))
}

/// Runs `play` with these lines as its input.
fn play(args: &[&str], typed: &str, dir: &Path) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tandem-lab"))
        .arg("play")
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // If the command is rejected, the input is not read.
    let _ = child.stdin.take().unwrap().write_all(typed.as_bytes());
    child.wait_with_output().unwrap()
}

fn run_ok(args: &[&str], typed: &str, dir: &Path) -> String {
    let output = play(args, typed, dir);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn run_err(args: &[&str], dir: &Path) -> String {
    let output = play(args, "", dir);
    assert!(!output.status.success(), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// A tiny network of lc0's kind, with policy and value heads.
fn small() -> Architecture {
    let mut architecture = Preset::BtSmall.architecture();
    (architecture.body.width, architecture.body.layers, architecture.body.heads) = (16, 1, 2);
    architecture
}

/// A tiny network of action values.
fn byte() -> Architecture {
    let mut architecture = Preset::Byte.architecture();
    (architecture.body.width, architecture.body.layers, architecture.body.heads) = (16, 1, 2);
    architecture
}

fn write(architecture: Architecture, path: &Path) {
    let weights = Weights::random(architecture, 3);
    std::fs::write(path, weights.to_bytes(Storage::F32, "made for a test")).unwrap();
}

/// The percentages of the first ranking of moves.
fn percentages(text: &str) -> Vec<f32> {
    let lines =
        text.lines().skip_while(|line| !line.contains("of each move") && !line.contains("after each move"));
    let rows =
        lines.skip(1).map_while(|line| line.split_once(" %")?.0.split_whitespace().nth(1)?.parse().ok());
    rows.collect()
}

#[test]
fn a_network_plays_and_ranks_all_moves() {
    let dir = directory("plays");
    write(small(), &dir.join("small.ttn"));
    let printed = run_ok(&["--net", "small.ttn"], "rank\ne4\nhint\neval\nback\nd4\nmoves\nresign\n", &dir);
    assert!(printed.starts_with("small.ttn, "), "{printed}");
    assert!(printed.lines().next().unwrap().ends_with("plays by value, without search."), "{printed}");
    let probabilities = percentages(&printed);
    assert_eq!(probabilities.len(), 20, "{printed}");
    assert!(probabilities.is_sorted_by(|better, worse| better >= worse));
    assert!(
        printed.contains("#####") && printed.contains(" draw ") && printed.contains("1... "),
        "{printed}"
    );
    assert!(printed.contains("[White \"Human\"]") && printed.contains("[Black \"small.ttn\"]"), "{printed}");
    assert_eq!(printed.matches("after each move").count(), 1);

    let printed = run_ok(&["--net", "small.ttn", "--by", "policy"], "rank\nquit\n", &dir);
    assert!((percentages(&printed).iter().sum::<f32>() - 100.0).abs() < 2.0, "{printed}");
    assert!(printed.contains("The position: "), "{printed}");

    // The network's turn, the user's, the network's, the user's.
    write(byte(), &dir.join("byte.ttn"));
    let shown = ["--net", "byte.ttn", "--show", "--color", "black", "--style", "unicode"];
    let printed = run_ok(&shown, "a6\nquit\n", &dir);
    assert!(printed.contains("plays by action-value"), "{printed}");
    assert_eq!(printed.matches("after each move").count(), 4, "{printed}");
    assert!(printed.contains("█"), "{printed}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_mate_is_found_and_played() {
    let dir = directory("mate");
    write(small(), &dir.join("small.ttn"));
    let fen = "k7/8/8/8/8/8/1r3PPP/6K1 b - - 0 1";
    let printed = run_ok(&["--net", "small.ttn", "--fen", fen, "--show"], "", &dir);
    assert!(printed.contains("  Rb1#    100.0 %  ##############################  mate\n"), "{printed}");
    assert!(printed.contains("1... Rb1#") && printed.contains("0-1 by checkmate"), "{printed}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn files_and_methods_that_cannot_play_are_reported() {
    let dir = directory("refused");
    write(byte(), &dir.join("byte.ttn"));
    let error = run_err(&["--net", "byte.ttn", "--by", "policy"], &dir);
    assert!(error.contains("byte.ttn: this network has no head for policy; it has action_value"), "{error}");
    let error = run_err(&["--net", "byte.ttn", "--by", "magic"], &dir);
    assert!(error.contains("there are policy, value and action-value"), "{error}");
    std::fs::write(dir.join("nnue.tnn"), include_bytes!("../../nets/tandem.tnn")).unwrap();
    let error = run_err(&["--net", "nnue.tnn"], &dir);
    assert!(error.contains("play --engine cmd=@tandem,option.EvalFile=nnue.tnn"), "{error}");
    std::fs::write(dir.join("junk"), b"this is not a network").unwrap();
    assert!(run_err(&["--net", "junk"], &dir).contains("do not begin any known network file"));
    assert!(run_err(&["--net", "nowhere.ttn"], &dir).contains("nowhere.ttn: No such file"));
    run_err(&["--by", "policy"], &dir);
    run_err(&["--net", "byte.ttn", "--engine", "cmd=@tandem"], &dir);
    // The advice of the error message works.
    let printed =
        run_ok(&["--engine", "cmd=@tandem,option.EvalFile=nnue.tnn,nodes=10"], "e4\nweigh\nquit\n", &dir);
    assert!(printed.contains("'play --net' is for networks"), "{printed}");
    std::fs::remove_dir_all(dir).unwrap();
}
