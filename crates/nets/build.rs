//! Embeds networks in the program: the NNUE that ships or the file named by `EVALFILE`, and likewise a
//! transformer by `TRANSFORMERFILE`. The value `none` embeds nothing; relative paths start at the root of the
//! workspace.

use std::path::{Path, PathBuf};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let nets = root.join("nets");
    let shipped = nets.join("tandem.tnn");
    let nnue = named("EVALFILE", &root).or(Some(shipped)).filter(|path| path != Path::new(NONE));
    put("network", nnue.map_or_else(Vec::new, |path| read("EVALFILE", &path, is_nnue)));
    // The transformer is embedded if its file exists. Cargo would regard a missing file as changed in every
    // build, so the folder is watched instead.
    println!("cargo:rerun-if-changed={}", nets.display());
    let shipped = nets.join("strategist.ttn");
    let transformer = named("TRANSFORMERFILE", &root).or(shipped.exists().then_some(shipped));
    let transformer = transformer.filter(|path| path != Path::new(NONE));
    put(
        "transformer",
        transformer.map_or_else(Vec::new, |path| read("TRANSFORMERFILE", &path, is_transformer)),
    );
}

const NONE: &str = "none";

/// The path in an environment variable, or `None` if it is not set or empty. Relative paths are resolved at
/// the root of the workspace, because Cargo runs build scripts in the folder of the package, where no one
/// expects a path to start.
fn named(variable: &str, root: &Path) -> Option<PathBuf> {
    println!("cargo:rerun-if-env-changed={variable}");
    let path = std::env::var_os(variable).filter(|path| !path.is_empty())?;
    Some(if path == NONE { path.into() } else { root.join(path) })
}

/// Reads and checks a network, because an invalid file should fail the build, not the start of the program.
fn read(variable: &str, path: &Path, check: fn(&[u8]) -> Result<(), String>) -> Vec<u8> {
    println!("cargo:rerun-if-changed={}", path.display());
    let read = std::fs::read(path).map_err(|error| error.to_string());
    let checked = read.and_then(|bytes| check(&bytes).map(|()| bytes));
    checked.unwrap_or_else(|problem| fail(&format!("{variable} {}: {problem}", path.display())))
}

fn is_nnue(bytes: &[u8]) -> Result<(), String> {
    tandem_nnue::Network::from_bytes(bytes).map(drop).map_err(|error| error.to_string())
}

/// Checks the first bytes only. A complete check would need the transformer crate to be built before this
/// one.
fn is_transformer(bytes: &[u8]) -> Result<(), String> {
    if bytes.starts_with(b"TTRAN") { Ok(()) } else { Err("no transformer in our own format (.ttn)".into()) }
}

fn put(name: &str, bytes: Vec<u8>) {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join(name);
    if let Err(error) = std::fs::write(&out, bytes) {
        fail(&format!("{}: {error}", out.display()));
    }
}

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    std::process::exit(1)
}
