//! What tests of commands share.
#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs a command.
pub fn lab(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tandem-lab")).args(args).current_dir(dir).output().unwrap()
}

/// Runs a command that must succeed; returns what it printed.
pub fn well(args: &[&str], dir: &Path) -> String {
    let output = lab(args, dir);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command that must fail; returns what it complained about.
pub fn badly(args: &[&str], dir: &Path) -> String {
    let output = lab(args, dir);
    assert!(!output.status.success(), "{args:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// An empty folder for a test.
pub fn directory(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("tandem-lab-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Outside data, or a word that it is missing.
pub fn shared(path: &str) -> Option<String> {
    let data = std::env::var_os("TANDEM_DATA")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data")));
    let path = data.join(path);
    if !path.exists() {
        eprintln!("skipped: {} is missing", path.display());
        return None;
    }
    Some(path.to_str().unwrap().to_owned())
}
