//! Helpers that the tests of commands share: running the program, temporary folders, outside data.
#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs `tandem-lab` with these arguments in a folder.
pub fn lab(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tandem-lab")).args(args).current_dir(dir).output().unwrap()
}

/// Runs a command that must succeed; returns its standard output.
pub fn run_ok(args: &[&str], dir: &Path) -> String {
    let output = lab(args, dir);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command that must fail; returns its standard error.
pub fn run_err(args: &[&str], dir: &Path) -> String {
    let output = lab(args, dir);
    assert!(!output.status.success(), "{args:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A new empty folder for a test, in the system's folder for temporary files.
pub fn directory(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("tandem-lab-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// The path of a file of the test data.
pub fn data(name: &str) -> String {
    tandem_util::test_data::path(name).to_str().unwrap().to_owned()
}
