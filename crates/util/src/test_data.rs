//! Files that tests and benchmarks read and that are too large, or not ours, to be in the repository.
//!
//! A test that reads one is marked `#[ignore = "needs data"]`, and `scripts/peer_tests.py` runs it.

use std::path::PathBuf;

/// The folder that the environment variable `TANDEM_DATA` names, or else `../shared/data` beside the repository.
/// `docs/data.md` lists its subfolders.
pub fn folder() -> PathBuf {
    let usual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    std::env::var_os("TANDEM_DATA").map_or_else(|| usual.into(), PathBuf::from)
}

/// The path of a file or folder in [`folder`].
///
/// # Panics
/// If it is missing.
pub fn path(name: &str) -> PathBuf {
    let path = folder().join(name);
    assert!(path.exists(), "{} is missing: set TANDEM_DATA to a folder that has {name}", path.display());
    path
}
