//! What survives a crash: the state of a match, and its PGN.
//!
//! The state file holds one line of JSON for the match and one for each finished game, appended in one write when
//! the game's PGN is safe on the disk. A match that is started again with the same state file goes on: an unfinished
//! last line is cut off, and so is everything in the PGN after the last game that the state knows.

use crate::standings::GameResult;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What is wrong with a state file.
#[derive(Debug, Error)]
pub enum JournalError {
    /// It cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A line that was not written by us.
    #[error("state file {path}, line {line}: {what}; it is not the state of a match")]
    Line {
        /// The file.
        path: String,
        /// The line.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// Another match.
    #[error(
        "state file {path} belongs to another match: {what}. Name another --state, or remove it to start anew"
    )]
    OtherMatch {
        /// The file.
        path: String,
        /// The first difference.
        what: String,
    },
    /// The PGN lost games that the state knows.
    #[error(
        "{pgn} is shorter than the state file {path} says; it was changed since, and the match cannot go on"
    )]
    PgnChanged {
        /// The PGN file.
        pgn: String,
        /// The state file.
        path: String,
    },
}

/// The first line of a state file: everything that makes two runs one match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// Version of this format.
    pub(crate) tandem_match: u32,
    /// The engines' names.
    pub(crate) names: Vec<String>,
    /// Everything else that must not change, by its name.
    pub(crate) settings: serde_json::Map<String, serde_json::Value>,
    /// Length of the PGN file before the first game.
    pub(crate) pgn_start: u64,
}

/// An open state file.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Opens a state file, or makes it. Returns the results that it holds, and where the PGN ends.
    pub(crate) fn open(path: &Path, header: &Header) -> Result<(Self, Vec<GameResult>, u64), JournalError> {
        let io_error = |source| JournalError::Io { path: path.display().to_string(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(io_error)?;
        let (lines, whole) = whole_lines(&file).map_err(io_error)?;
        file.set_len(whole).map_err(io_error)?;
        file.seek(SeekFrom::Start(whole)).map_err(io_error)?;
        let mut journal = Self { file, path: path.to_owned() };
        let Some((first, games)) = lines.split_first() else {
            journal.append(header)?;
            return Ok((journal, Vec::new(), header.pgn_start));
        };
        let wrong =
            |line: usize, what: String| JournalError::Line { path: path.display().to_string(), line, what };
        let found: Header = serde_json::from_str(first).map_err(|error| wrong(1, error.to_string()))?;
        if let Some(what) = difference(&found, header) {
            return Err(JournalError::OtherMatch { path: path.display().to_string(), what });
        }
        let mut results = Vec::with_capacity(games.len());
        for (index, line) in games.iter().enumerate() {
            let result: GameResult =
                serde_json::from_str(line).map_err(|error| wrong(index + 2, error.to_string()))?;
            if result.white.max(result.black) >= header.names.len() {
                return Err(wrong(index + 2, "an engine that is not in the match".into()));
            }
            results.push(result);
        }
        let pgn_end = results.last().map_or(found.pgn_start, |result| result.pgn_end);
        Ok((journal, results, pgn_end))
    }

    /// Adds a finished game.
    pub(crate) fn add(&mut self, result: &GameResult) -> Result<(), JournalError> {
        self.append(result)
    }

    fn append(&mut self, value: &impl Serialize) -> Result<(), JournalError> {
        let io_error = |source| JournalError::Io { path: self.path.display().to_string(), source };
        let mut line = serde_json::to_vec(value).map_err(|error| io_error(error.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).and_then(|()| self.file.sync_data()).map_err(io_error)
    }
}

/// Lines that end with a newline, and their length together.
fn whole_lines(file: &File) -> io::Result<(Vec<String>, u64)> {
    let mut reader = BufReader::new(file);
    let (mut lines, mut whole) = (Vec::new(), 0);
    loop {
        let mut line = Vec::new();
        let length = reader.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Ok((lines, whole));
        }
        whole += length as u64;
        lines.push(String::from_utf8_lossy(&line).into_owned());
    }
}

/// The first thing that makes two matches different.
fn difference(found: &Header, wanted: &Header) -> Option<String> {
    if found.tandem_match != wanted.tandem_match {
        return Some(format!("its format is version {}, not {}", found.tandem_match, wanted.tandem_match));
    }
    if found.names != wanted.names {
        return Some(format!("its engines are {}, not {}", found.names.join(", "), wanted.names.join(", ")));
    }
    let keys = wanted.settings.keys().chain(found.settings.keys());
    for key in keys {
        let (had, has) = (found.settings.get(key), wanted.settings.get(key));
        if had != has {
            let show =
                |value: Option<&serde_json::Value>| value.map_or("nothing".into(), ToString::to_string);
            return Some(format!("its {key} is {}, not {}", show(had), show(has)));
        }
    }
    None
}

/// A PGN file that grows by whole games.
#[derive(Debug)]
pub(crate) struct PgnFile {
    file: File,
    path: PathBuf,
    end: u64,
}

impl PgnFile {
    /// Length of a PGN file as it is now; zero if there is none.
    pub(crate) fn length(path: &Path) -> u64 {
        std::fs::metadata(path).map_or(0, |metadata| metadata.len())
    }

    /// Opens a file to append to it, from `end` on: what stands after it is a game that was cut short.
    pub(crate) fn open(path: &Path, end: u64, state: Option<&Path>) -> Result<Self, JournalError> {
        let io_error = |source| JournalError::Io { path: path.display().to_string(), source };
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(false).open(path).map_err(io_error)?;
        let length = file.metadata().map_err(io_error)?.len();
        if let Some(state) = state {
            if length < end {
                let (pgn, path) = (path.display().to_string(), state.display().to_string());
                return Err(JournalError::PgnChanged { pgn, path });
            }
            file.set_len(end).map_err(io_error)?;
        }
        file.seek(SeekFrom::Start(end)).map_err(io_error)?;
        Ok(Self { file, path: path.to_owned(), end })
    }

    /// Appends a game in one write and waits until it is on the disk. Returns the new length.
    pub(crate) fn append(&mut self, game: &str) -> Result<u64, JournalError> {
        let io_error = |source| JournalError::Io { path: self.path.display().to_string(), source };
        self.file.write_all(game.as_bytes()).and_then(|()| self.file.sync_data()).map_err(io_error)?;
        self.end += game.len() as u64;
        Ok(self.end)
    }
}
