//! Checks of outside data, in the folders where tests and recipes expect it.

use super::{Finding, size};
use crate::model_card::sha256;
use std::path::{Path, PathBuf};

/// Names of the folders, and the purpose of each.
const FOLDERS: [(&str, &str); 8] = [
    ("books", "openings for matches"),
    ("games", "games to train on"),
    ("labelled", "positions with scores"),
    ("nets", "networks to compare with"),
    ("puzzles", "puzzles"),
    ("suites", "suites of positions"),
    ("syzygy", "endgame tables"),
    ("formats", "samples of data formats"),
];

/// Maximum depth of nested folders that are searched.
const DEPTH: usize = 4;

/// Checks each known folder, and the hashes of the networks in it.
pub(super) fn data(dir: &Path) -> Vec<Finding> {
    if !dir.is_dir() {
        return vec![Finding::broken(dir.display().to_string(), "this folder does not exist")];
    }
    let mut findings = Vec::new();
    for (name, purpose) in FOLDERS {
        let mut files = Vec::new();
        walk(&dir.join(name), DEPTH, &mut files);
        if files.is_empty() {
            findings
                .push(Finding::missing(name, format!("{purpose}: expected in {}", dir.join(name).display())));
            continue;
        }
        let bytes = files.iter().filter_map(|file| file.metadata().ok()).map(|facts| facts.len()).sum();
        findings.push(Finding::ok(name, format!("{purpose}: {} files, {}", files.len(), size(bytes))));
        findings.extend(files.iter().filter_map(|file| network(file)));
    }
    findings
}

/// Collects the files of a folder, sorted by path. Folders that cannot be read count as empty.
fn walk(dir: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_file() {
            files.push(path);
        } else if depth > 0 {
            walk(&path, depth - 1, files);
        }
    }
}

/// Verifies a network whose name contains the beginning of its SHA-256, as Stockfish's do, for example
/// nn-82215d0fd0df.nnue.
fn network(path: &Path) -> Option<Finding> {
    let name = path.file_name()?.to_str()?;
    let digits = name.strip_prefix("nn-")?.strip_suffix(".nnue")?;
    if digits.len() != 12 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    Some(match std::fs::read(path) {
        Err(error) => Finding::broken(name, error.to_string()),
        Ok(bytes) => {
            let hash = sha256(&bytes);
            if hash.starts_with(&digits.to_ascii_lowercase()) {
                Finding::ok(name, format!("{}, its sha256 matches its name", size(bytes.len() as u64)))
            } else {
                let detail = format!("its sha256 begins with {}: download it again", &hash[..12]);
                Finding::broken(name, detail)
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn networks_are_verified_by_their_names() {
        let dir = std::env::temp_dir().join(format!("tandem-doctor-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("nets/nnue")).unwrap();
        std::fs::write(dir.join("nets/nnue/nn-ba7816bf8f01.nnue"), b"abc").unwrap();
        std::fs::write(dir.join("nets/nnue/nn-ba7816bf8f02.nnue"), b"abc").unwrap();
        std::fs::write(dir.join("nets/nnue/other.nnue"), b"abc").unwrap();
        let findings = data(&dir);
        let state =
            |name: &str| findings.iter().find(|finding| finding.name == name).map(|found| found.state);
        assert_eq!(state("nn-ba7816bf8f01.nnue"), Some(State::Ok));
        assert_eq!(state("nn-ba7816bf8f02.nnue"), Some(State::Broken));
        assert_eq!(
            (state("other.nnue"), state("nets"), state("books")),
            (None, Some(State::Ok), Some(State::Missing))
        );
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(data(&dir)[0].state, State::Broken);
    }
}
