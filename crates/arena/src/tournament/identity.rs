//! Identity of an engine's program and files: a match that began with one build must not continue with
//! another one under the same name.

use crate::EngineSpec;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use tandem_util::fnv::Fnv1a;

/// Describes the program of an engine by path, length and hash. Returns `None` if it cannot be read.
pub(super) fn program(spec: &EngineSpec) -> Option<String> {
    let path = locate(spec)?;
    let (length, hash) = read(File::open(&path).ok()?).ok()?;
    Some(format!("{}, {length} bytes, hash {hash}", path.display()))
}

/// Describes the files that the engine's options name, such as networks, by length and hash: pairs of option
/// and description.
pub(super) fn option_files(spec: &EngineSpec) -> Vec<(String, String)> {
    let described = |(option, value): &(String, String)| {
        let path = spec.dir.as_ref().map_or_else(|| PathBuf::from(value), |dir| dir.join(value));
        let file = path.is_file().then(|| File::open(&path).ok()).flatten()?;
        let (length, hash) = read(file).ok()?;
        Some((option.clone(), format!("{length} bytes, hash {hash}")))
    };
    spec.options.iter().filter_map(described).collect()
}

/// Path of the file that the operating system will run. A bare name is looked up in `PATH`, and a relative
/// path starts from the working directory of the engine.
fn locate(spec: &EngineSpec) -> Option<PathBuf> {
    if spec.is_in_process() {
        return std::env::current_exe().ok();
    }
    if spec.command.components().count() > 1 {
        return Some(spec.dir.as_ref().map_or_else(|| spec.command.clone(), |dir| dir.join(&spec.command)));
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(&spec.command)).find(|path| path.is_file())
}

fn read(mut file: File) -> io::Result<(u64, String)> {
    let (mut fingerprint, mut length) = (Fnv1a::new(), 0);
    let mut chunk = vec![0; 1 << 16];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok((length, fingerprint.to_hex())),
            n => {
                fingerprint.add(&chunk[..n]);
                length += n as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_and_distinguished() {
        let spec = |command: &str| EngineSpec { command: command.into(), ..EngineSpec::default() };
        let inside = program(&spec("@tandem")).unwrap();
        let exe = std::env::current_exe().unwrap();
        assert_eq!(program(&spec(exe.to_str().unwrap())), Some(inside.clone()));
        assert_eq!(program(&spec("no-such-engine-anywhere")), None);
        if cfg!(unix) {
            let shell = program(&spec("sh")).unwrap();
            assert!(shell.contains("/sh, ") && shell != inside, "{shell}");
        }
    }

    #[test]
    fn files_that_options_name_are_identified_by_their_contents() {
        let path = std::env::temp_dir().join(format!("tandem-identity-{}", std::process::id()));
        let options = vec![("Hash".into(), "16".into()), ("EvalFile".into(), path.display().to_string())];
        let spec = EngineSpec { options, ..EngineSpec::default() };
        assert_eq!(option_files(&spec), []);
        std::fs::write(&path, "one net").unwrap();
        let first = option_files(&spec);
        assert!(first[0].0 == "EvalFile" && first[0].1.starts_with("7 bytes"), "{first:?}");
        std::fs::write(&path, "another").unwrap();
        assert_ne!(option_files(&spec), first);
        std::fs::remove_file(path).unwrap();
    }
}
