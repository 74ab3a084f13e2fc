//! Builds networks into the program: an NNUE, the one that ships or the file that `EVALFILE` names, and a transformer, likewise
//! by `TRANSFORMERFILE`. The word `none` is none; a relative path begins at the root of the workspace.

use std::path::{Path, PathBuf};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let nets = root.join("nets");
    let shipped = nets.join("tandem.tnn");
    let nnue = named("EVALFILE", &root).or(Some(shipped)).filter(|path| path != Path::new(NONE));
    put("network", nnue.map_or_else(Vec::new, |path| read("EVALFILE", &path, is_nnue)));
    // Whether it ships is seen by whether it is there. What is not there would be held for changed every time, so that the
    // folder is watched.
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

/// What a variable of the environment says, if it says anything. Cargo runs this in the folder of the package, where nobody
/// means a path to begin.
fn named(variable: &str, root: &Path) -> Option<PathBuf> {
    println!("cargo:rerun-if-env-changed={variable}");
    let path = std::env::var_os(variable).filter(|path| !path.is_empty())?;
    Some(if path == NONE { path.into() } else { root.join(path) })
}

/// A file, if it is a network: what cannot be read is better refused now than when the program starts.
fn read(variable: &str, path: &Path, check: fn(&[u8]) -> Result<(), String>) -> Vec<u8> {
    println!("cargo:rerun-if-changed={}", path.display());
    let read = std::fs::read(path).map_err(|error| error.to_string());
    let checked = read.and_then(|bytes| check(&bytes).map(|()| bytes));
    checked.unwrap_or_else(|problem| fail(&format!("{variable} {}: {problem}", path.display())))
}

fn is_nnue(bytes: &[u8]) -> Result<(), String> {
    tandem_nnue::Network::from_bytes(bytes).map(drop).map_err(|error| error.to_string())
}

/// By its first bytes: to read all of it, the crate that knows transformers would have to be built before this one.
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
