//! `tandem-lab play --net` as a user meets it.

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tandem_transformer::{Architecture, Preset, Storage, Weights};

fn directory(name: &str) -> PathBuf {
    common::directory(&format!("play-{name}"))
}

/// Plays with what is typed.
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
    // Where the command is refused nobody reads.
    let _ = child.stdin.take().unwrap().write_all(typed.as_bytes());
    child.wait_with_output().unwrap()
}

fn well(args: &[&str], typed: &str, dir: &Path) -> String {
    let output = play(args, typed, dir);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn badly(args: &[&str], dir: &Path) -> String {
    let output = play(args, "", dir);
    assert!(!output.status.success(), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// A tiny network of lc0's kind.
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

/// The percentages of the first table.
fn percentages(text: &str) -> Vec<f32> {
    let lines =
        text.lines().skip_while(|line| !line.contains("of each move") && !line.contains("after each move"));
    let rows =
        lines.skip(1).map_while(|line| line.split_once(" %")?.0.split_whitespace().nth(1)?.parse().ok());
    rows.collect()
}

#[test]
fn a_network_plays_and_says_what_it_thinks() {
    let dir = directory("plays");
    write(small(), &dir.join("small.ttn"));
    let told = well(&["--net", "small.ttn"], "weigh\ne4\nhint\neval\nback\nd4\nmoves\nresign\n", &dir);
    assert!(told.starts_with("small.ttn, "), "{told}");
    assert!(told.lines().next().unwrap().ends_with("plays by value, without search."), "{told}");
    let chances = percentages(&told);
    assert_eq!(chances.len(), 20, "{told}");
    assert!(chances.is_sorted_by(|better, worse| better >= worse));
    assert!(told.contains("#####") && told.contains(" draw ") && told.contains("1... "), "{told}");
    assert!(told.contains("[White \"Human\"]") && told.contains("[Black \"small.ttn\"]"), "{told}");
    assert_eq!(told.matches("after each move").count(), 1);

    let told = well(&["--net", "small.ttn", "--by", "policy"], "weigh\nquit\n", &dir);
    assert!((percentages(&told).iter().sum::<f32>() - 100.0).abs() < 2.0, "{told}");
    assert!(told.contains("The position: "), "{told}");

    // Its turn, the person's, its again, the person's again.
    write(byte(), &dir.join("byte.ttn"));
    let shown = ["--net", "byte.ttn", "--show", "--color", "black", "--style", "unicode"];
    let told = well(&shown, "a6\nquit\n", &dir);
    assert!(told.contains("plays by action-value"), "{told}");
    assert_eq!(told.matches("after each move").count(), 4, "{told}");
    assert!(told.contains("█"), "{told}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_mate_is_seen_and_played() {
    let dir = directory("mate");
    write(small(), &dir.join("small.ttn"));
    let fen = "k7/8/8/8/8/8/1r3PPP/6K1 b - - 0 1";
    let told = well(&["--net", "small.ttn", "--fen", fen, "--show"], "", &dir);
    assert!(told.contains("  Rb1#    100.0 %  ##############################  mate\n"), "{told}");
    assert!(told.contains("1... Rb1#") && told.contains("0-1 by checkmate"), "{told}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_cannot_play_is_told() {
    let dir = directory("refused");
    write(byte(), &dir.join("byte.ttn"));
    let error = badly(&["--net", "byte.ttn", "--by", "policy"], &dir);
    assert!(
        error.contains("byte.ttn: this network cannot be asked by policy; it has action_value"),
        "{error}"
    );
    let error = badly(&["--net", "byte.ttn", "--by", "magic"], &dir);
    assert!(error.contains("there are policy, value and action-value"), "{error}");
    std::fs::write(dir.join("nnue.tnn"), include_bytes!("../../nets/tandem.tnn")).unwrap();
    let error = badly(&["--net", "nnue.tnn"], &dir);
    assert!(error.contains("play --engine cmd=@tandem,option.EvalFile=nnue.tnn"), "{error}");
    std::fs::write(dir.join("junk"), b"this is no network").unwrap();
    assert!(badly(&["--net", "junk"], &dir).contains("begin no network file that we know"));
    assert!(badly(&["--net", "nowhere.ttn"], &dir).contains("nowhere.ttn: No such file"));
    badly(&["--by", "policy"], &dir);
    badly(&["--net", "byte.ttn", "--engine", "cmd=@tandem"], &dir);
    // The advice is good.
    let told =
        well(&["--engine", "cmd=@tandem,option.EvalFile=nnue.tnn,nodes=10"], "e4\nweigh\nquit\n", &dir);
    assert!(told.contains("'play --net' is for networks"), "{told}");
    std::fs::remove_dir_all(dir).unwrap();
}
