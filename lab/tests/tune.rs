//! `tandem-lab tune` as a user runs it, in builds with and without tunable parameters.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn lab(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem-lab"));
    command.current_dir(folder).arg("tune").args(args);
    command
}

fn tune(folder: &Path, args: &[&str]) -> Output {
    lab(folder, args).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn folder(name: &str) -> PathBuf {
    common::directory(&format!("tune-{name}"))
}

#[test]
#[cfg_attr(feature = "tune", ignore = "needs a build without the feature `tune`")]
fn an_ordinary_build_reports_the_needed_feature() {
    let folder = folder("constants");
    let output = tune(&folder, &["x", "--games", "2"]);
    assert!(!output.status.success() && stderr(&output).contains("--features tune"), "{}", stderr(&output));
    let output = tune(&folder, &["x", "--show"]);
    assert!(!output.status.success() && stderr(&output).contains("tune.journal"), "{}", stderr(&output));
    std::fs::remove_dir_all(folder).unwrap();
}

/// Killed early and killed late, a tuning with one worker ends as if it had not been killed.
#[test]
#[cfg_attr(not(feature = "tune"), ignore = "needs a build with the feature `tune`")]
fn a_killed_tuning_resumes_to_the_same_parameters() {
    let folder = folder("killed");
    let settings = |name: &'static str, seed: &'static str| {
        let common = ["--games", "60", "--nodes", "60", "--hash", "1", "--workers", "1", "--rate", "0.1"];
        [&[name, "--only", "rfp_*,lmr_quiet_base", "--seed", seed], &common[..]].concat()
    };
    let whole = tune(&folder, &settings("whole", "1"));
    assert!(whole.status.success(), "{}", stderr(&whole));
    let journal = folder.join("killed/tune.journal");
    for size in [600, 900] {
        let mut child = lab(&folder, &settings("killed", "1"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let since = Instant::now();
        let grown = || std::fs::metadata(&journal).is_ok_and(|file| file.len() > size);
        while !grown() && since.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let broken = tune(&folder, &["killed", "--show"]);
    let text = String::from_utf8_lossy(&broken.stdout).into_owned();
    assert!(text.contains(" of 60 games") && !text.contains("60 of 60"), "{text}");

    let other = tune(&folder, &settings("killed", "2"));
    assert!(stderr(&other).contains("(then seed 1; now seed 2)"), "{}", stderr(&other));
    let resumed = tune(&folder, &settings("killed", "1"));
    assert!(resumed.status.success(), "{}", stderr(&resumed));
    let read = |name: &str, file: &str| std::fs::read(folder.join(name).join(file)).unwrap();
    assert!(read("whole", "tune.journal") == read("killed", "tune.journal"), "the tunings differ");
    assert!(read("whole", "tune.svg") == read("killed", "tune.svg"), "the charts differ");
    let text = String::from_utf8_lossy(&resumed.stdout).into_owned();
    assert!(text.contains("60 of 60 games") && text.contains("    rfp_depth = "), "{text}");
    let svg = String::from_utf8(read("whole", "tune.svg")).unwrap();
    assert!(svg.matches("<polyline").count() == 7 && !svg.contains("NaN") && !svg.contains("inf"));
    std::fs::remove_dir_all(folder).unwrap();
}
