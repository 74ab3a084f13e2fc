//! Checks of programs by others that tests and matches compare ours with; everything else works without them.

use super::Finding;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Checks the engines, and Python with its packages.
pub(super) fn peers() -> Vec<Finding> {
    let mut findings = vec![
        engine(
            "stockfish",
            "install it (apt install stockfish) to play against it and to check its networks",
        ),
        engine("lc0", "install it to play against it and to check its networks"),
    ];
    findings.extend(python());
    findings
}

/// Searches for a program in PATH, and where Debian installs games.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([Path::new("/usr/games").to_owned()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn engine(name: &str, advice: &str) -> Finding {
    match find(name) {
        Some(path) => Finding::ok(name, path.display().to_string()),
        None => Finding::missing(name, advice),
    }
}

/// Python packages that the comparison scripts use.
const PACKAGES: [&str; 4] = ["chess", "numpy", "onnxruntime", "torch"];

/// Python code that prints versions without importing the packages, because that may take seconds.
const VERSION_SCRIPT: &str = "
import importlib.metadata, importlib.util, sys
print(sys.version.split()[0])
for name in sys.argv[1:]:
    try:
        found = importlib.util.find_spec(name) is not None
    except Exception:
        found = False
    try:
        print(importlib.metadata.version(name) if found else '-')
    except Exception:
        print('unknown version')
";

fn python() -> Vec<Finding> {
    let output =
        Command::new("python3").arg("-c").arg(VERSION_SCRIPT).args(PACKAGES).stdin(Stdio::null()).output();
    let text = match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        _ => return vec![Finding::missing("python3", "install it to check networks against other programs")],
    };
    let mut lines = text.lines();
    let version = lines.next().unwrap_or_default();
    let mut findings = vec![Finding::ok("python3", version)];
    for (name, version) in PACKAGES.into_iter().zip(lines) {
        findings.push(match version {
            "-" => Finding::missing(format!("python3 {name}"), format!("pip install {name}")),
            version => Finding::ok(format!("python3 {name}"), version),
        });
    }
    findings
}
