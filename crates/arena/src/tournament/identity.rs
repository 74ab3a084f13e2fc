//! Which program an engine is: a match that began with one build must not go on with another under the same name.

use crate::EngineSpec;
use crate::fingerprint::Fingerprint;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

/// The program of an engine in words: where it is, and what it holds. None if it cannot be read.
pub(super) fn program(spec: &EngineSpec) -> Option<String> {
    let path = locate(spec)?;
    let (length, hash) = read(File::open(&path).ok()?).ok()?;
    Some(format!("{}, {length} bytes, hash {hash}", path.display()))
}

/// What the files hold that an engine's options name, such as a network: option by option, in words.
pub(super) fn option_files(spec: &EngineSpec) -> Vec<(String, String)> {
    let described = |(option, value): &(String, String)| {
        let path = spec.dir.as_ref().map_or_else(|| PathBuf::from(value), |dir| dir.join(value));
        let file = path.is_file().then(|| File::open(&path).ok()).flatten()?;
        let (length, hash) = read(file).ok()?;
        Some((option.clone(), format!("{length} bytes, hash {hash}")))
    };
    spec.options.iter().filter_map(described).collect()
}

/// The file that the operating system will run: a bare name is looked up as a shell does, and a relative path counts
/// from the directory that the engine runs in.
fn locate(spec: &EngineSpec) -> Option<PathBuf> {
    if spec.is_inside() {
        return std::env::current_exe().ok();
    }
    if spec.command.components().count() > 1 {
        return Some(spec.dir.as_ref().map_or_else(|| spec.command.clone(), |dir| dir.join(&spec.command)));
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(&spec.command)).find(|path| path.is_file())
}

fn read(mut file: File) -> io::Result<(u64, String)> {
    let (mut fingerprint, mut length) = (Fingerprint::new(), 0);
    let mut chunk = vec![0; 1 << 16];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok((length, fingerprint.text())),
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
    fn programs_are_found_and_told_apart() {
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
    fn files_that_options_name_are_told_by_what_they_hold() {
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
