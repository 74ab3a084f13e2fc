//! Files of a study: read with their name in every complaint, and written whole or not at all.

use std::path::{Path, PathBuf};
use thiserror::Error;

/// A file that cannot be used.
#[derive(Debug, Error)]
#[error("{}: {problem}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

impl FileError {
    /// A problem of a file.
    pub fn new(path: &Path, problem: impl ToString) -> Self {
        Self { path: path.to_path_buf(), problem: problem.to_string() }
    }
}

/// The lines of a file, each through `parse`, which says what is wrong with a line.
pub fn load<T>(path: &Path, parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, FileError> {
    let text = std::fs::read_to_string(path).map_err(|error| FileError::new(path, error))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            parse(line).map_err(|problem| FileError::new(path, format!("line {}: {problem}", number + 1)))
        })
        .collect()
}

/// Writes a file under another name first, and gives it its own when all of it is there.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = std::fs::write(&part, bytes).and_then(|()| std::fs::rename(&part, path));
    written.map_err(|error| {
        // What was begun is of no use to anybody.
        std::fs::remove_file(&part).ok();
        FileError::new(path, error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_line_is_named() {
        let path = std::env::temp_dir().join(format!("tandem-study-{}.txt", std::process::id()));
        write_whole(&path, b"1\n\n2\nthree\n").unwrap();
        let error = load(&path, |line| line.parse::<u8>().map_err(|error| error.to_string())).unwrap_err();
        assert!(error.to_string().contains("line 4: invalid digit"), "{error}");
        std::fs::remove_file(&path).unwrap();
        let error = load(&path, |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("tandem-study-"), "{error}");
        assert!(write_whole(Path::new("/nowhere/at/all"), b"").is_err());
    }
}
