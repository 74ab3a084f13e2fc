//! Builds a network into the engine: the file that `EVALFILE` names, or none.

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-env-changed=EVALFILE");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("network");
    let bytes = match std::env::var("EVALFILE") {
        Ok(path) if !path.is_empty() => {
            println!("cargo:rerun-if-changed={path}");
            read(&path)
        }
        _ => Vec::new(),
    };
    if let Err(error) = std::fs::write(&out, bytes) {
        fail(&format!("{}: {error}", out.display()));
    }
}

/// The file, if it is a network: what cannot be read is better refused now than when the engine starts.
fn read(path: &str) -> Vec<u8> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => fail(&format!("EVALFILE {path}: {error}")),
    };
    match tandem_nnue::Network::from_bytes(&bytes) {
        Ok(_) => bytes,
        Err(error) => fail(&format!("EVALFILE {path}: {error}")),
    }
}

fn fail(message: &str) -> ! {
    println!("cargo:error={message}");
    std::process::exit(1)
}
