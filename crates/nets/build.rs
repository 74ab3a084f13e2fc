//! Builds a network into the program: the one that ships, the file that `EVALFILE` names, or none if it says `none`.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-env-changed=EVALFILE");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../nets/tandem.tnn");
    let path = match std::env::var("EVALFILE") {
        Ok(path) if !path.is_empty() => PathBuf::from(path),
        _ => shipped,
    };
    let bytes = if path == Path::new("none") { Vec::new() } else { read(&path) };
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("network");
    if let Err(error) = std::fs::write(&out, bytes) {
        fail(&format!("{}: {error}", out.display()));
    }
}

/// The file, if it is a network: what cannot be read is better refused now than when the program starts.
fn read(path: &Path) -> Vec<u8> {
    println!("cargo:rerun-if-changed={}", path.display());
    let read = std::fs::read(path).map_err(|error| error.to_string());
    let checked = read.and_then(|bytes| match tandem_nnue::Network::from_bytes(&bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(error.to_string()),
    });
    checked.unwrap_or_else(|problem| fail(&format!("EVALFILE {}: {problem}", path.display())))
}

fn fail(message: &str) -> ! {
    println!("cargo:error={message}");
    std::process::exit(1)
}
