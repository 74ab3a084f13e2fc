//! Files of a study: errors name the file and the line, and output files are written completely or not at
//! all.

use std::path::{Path, PathBuf};
use tandem_util::output;
use thiserror::Error;

/// Error for a file that cannot be read, parsed or written.
#[derive(Debug, Error)]
#[error("{}: {problem}", path.display())]
pub struct FileError {
    /// Path of the file, which the message begins with.
    pub path: PathBuf,
    /// Description of the fault, with a line number where there is one.
    pub problem: String,
}

impl FileError {
    /// Creates an error for a file from any description.
    pub fn new(path: &Path, problem: impl ToString) -> Self {
        Self { path: path.to_path_buf(), problem: problem.to_string() }
    }
}

/// Parses each line of a file with `parse`; empty lines are skipped.
///
/// # Errors
///
/// Fails if the file cannot be read, or with the number of the first line that `parse` rejects.
pub fn read_lines<T>(path: &Path, parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, FileError> {
    let text = std::fs::read_to_string(path).map_err(|error| FileError::new(path, error))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            parse(line).map_err(|problem| FileError::new(path, format!("line {}: {problem}", number + 1)))
        })
        .collect()
}

/// Writes a whole file or nothing, with an error that names the file.
///
/// # Errors
///
/// Fails if the file cannot be written; nothing is left behind then.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    output::write_atomically(path, bytes).map_err(|error| FileError::new(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_file_and_line() {
        let path = std::env::temp_dir().join(format!("tandem-study-{}.txt", std::process::id()));
        write_atomically(&path, b"1\n\n2\nthree\n").unwrap();
        let error =
            read_lines(&path, |line| line.parse::<u8>().map_err(|error| error.to_string())).unwrap_err();
        assert!(error.to_string().contains("line 4: invalid digit"), "{error}");
        std::fs::remove_file(&path).unwrap();
        let error = read_lines(&path, |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("tandem-study-"), "{error}");
        assert!(write_atomically(Path::new("/nowhere/at/all"), b"").is_err());
    }
}
