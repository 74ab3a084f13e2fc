//! What survives a crash: the state of a match, and its PGN.
//!
//! The state file holds one line of JSON for the match and one for each finished game, appended in one write when
//! the game's PGN is safe on the disk. A match that is started again with the same state file goes on: an unfinished
//! last line is cut off, and so is the one game in the PGN that the state may not know yet. Both files are locked while
//! the match runs, and nothing in them is cut before they have proved to be this match's own.

use crate::standings::GameResult;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
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
    #[error(
        "state file {path}, line {line}: {what}; it is damaged, or not the state of a match. Name another --state, or \
         remove it to start anew"
    )]
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
    /// Another match writes it at this moment.
    #[error("{kind} {path} is in use by another match")]
    InUse {
        /// What the file is for.
        kind: &'static str,
        /// The file.
        path: String,
    },
    /// The PGN holds what the state does not know.
    #[error(
        "after the last game that the state file {path} knows, {pgn} holds more than one unfinished game; \
         it was changed since: move both aside, or name others"
    )]
    PgnGrew {
        /// The PGN file.
        pgn: String,
        /// The state file.
        path: String,
    },
    /// The PGN lost games that the state knows.
    #[error(
        "{pgn} is shorter than the state file {path} says; it was changed since: move both aside, or name others"
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
    file: Growing,
}

impl Journal {
    /// Opens a state file of a match of `games` games, or makes it. Returns the results that it holds, and where the
    /// PGN ends.
    pub(crate) fn open(
        path: &Path,
        header: &Header,
        games: usize,
    ) -> Result<(Self, Vec<GameResult>, u64), JournalError> {
        let mut file = Growing::open(path, "state file")?;
        let text = WholeLines::read(&file.file).map_err(|source| file.io_error(source))?;
        let Some((first, lines)) = text.lines.split_first() else {
            if !is_torn_header(&text.rest) {
                return Err(wrong_line(path, 1, "it does not begin as one".into()));
            }
            file.cut(0)?;
            let mut journal = Self { file };
            journal.append(header)?;
            return Ok((journal, Vec::new(), header.pgn_start));
        };
        let found: Header =
            serde_json::from_str(first).map_err(|error| wrong_line(path, 1, error.to_string()))?;
        let other = |what| JournalError::OtherMatch { path: path.display().to_string(), what };
        if let Some(what) = difference(&found, header) {
            return Err(other(what));
        }
        let results = read_results(path, lines, header.names.len())?;
        if let Some(beyond) = results.iter().find(|result| result.index >= games) {
            return Err(other(format!(
                "it holds game {}, but this one ends with game {games}",
                beyond.index + 1
            )));
        }
        // Only now is it certain that the file is ours to cut.
        file.cut(text.length)?;
        let pgn_end = results.last().map_or(found.pgn_start, |result| result.pgn_end);
        Ok((Self { file }, results, pgn_end))
    }

    /// Adds a finished game.
    pub(crate) fn add(&mut self, result: &GameResult) -> Result<(), JournalError> {
        self.append(result)
    }

    fn append(&mut self, value: &impl Serialize) -> Result<(), JournalError> {
        let mut line = serde_json::to_vec(value).map_err(|error| self.file.io_error(error.into()))?;
        line.push(b'\n');
        self.file.append(&line).map(|_| ())
    }
}

fn wrong_line(path: &Path, line: usize, what: String) -> JournalError {
    JournalError::Line { path: path.display().to_string(), line, what }
}

/// The games of a state file, each checked against the match.
fn read_results(path: &Path, lines: &[String], engines: usize) -> Result<Vec<GameResult>, JournalError> {
    let mut seen = BTreeSet::new();
    let read = |(index, line): (usize, &String)| {
        let wrong = |what: String| wrong_line(path, index + 2, what);
        let result: GameResult = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        if result.white.max(result.black) >= engines {
            return Err(wrong("an engine that is not in the match".into()));
        }
        if result.culprit.is_some_and(|culprit| culprit != result.white && culprit != result.black) {
            return Err(wrong("a forfeit by an engine that is not in the game".into()));
        }
        if !seen.insert(result.index) {
            return Err(wrong(format!("game {} for the second time", result.index + 1)));
        }
        Ok(result)
    };
    lines.iter().enumerate().map(read).collect()
}

/// Whether some text without a line's end is what a power cut may have left of a header; so is nothing at all.
fn is_torn_header(text: &[u8]) -> bool {
    const START: &[u8] = b"{\"tandem_match\":";
    let length = text.len().min(START.len());
    text[..length] == START[..length]
}

/// A process that is being started holds the files of the one that starts it until it is a program of its own. So the lock of a
/// match that has just ended may outlive it, where engines of another are started at that moment on a busy machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// A file that nobody else writes, and that grows by whole pieces.
#[derive(Debug)]
struct Growing {
    file: File,
    path: PathBuf,
    end: u64,
}

impl Growing {
    /// Opens a file to append to it, or makes it, and keeps other matches from it for as long as this lives.
    fn open(path: &Path, kind: &'static str) -> Result<Self, JournalError> {
        let io_error = |source| JournalError::Io { path: path.display().to_string(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(io_error)?;
        // A file system that knows no locks cannot guard the file; that is no reason to refuse a match.
        let asked = Instant::now();
        while let Err(TryLockError::WouldBlock) = file.try_lock() {
            if asked.elapsed() > PATIENCE {
                return Err(JournalError::InUse { kind, path: path.display().to_string() });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let end = file.metadata().map_err(io_error)?.len();
        let mut growing = Self { file, path: path.to_owned(), end };
        growing.file.seek(SeekFrom::Start(end)).map_err(io_error)?;
        Ok(growing)
    }

    fn io_error(&self, source: io::Error) -> JournalError {
        JournalError::Io { path: self.path.display().to_string(), source }
    }

    /// Drops everything after `end`, and goes on from there.
    fn cut(&mut self, end: u64) -> Result<(), JournalError> {
        let cut = self.file.set_len(end).and_then(|()| self.file.seek(SeekFrom::Start(end)));
        cut.map_err(|source| self.io_error(source))?;
        self.end = end;
        Ok(())
    }

    /// Appends a piece in one write and waits until it is on the disk. Returns the new length.
    fn append(&mut self, piece: &[u8]) -> Result<u64, JournalError> {
        let written = self.file.write_all(piece).and_then(|()| self.file.sync_data());
        if let Err(source) = written {
            // Half a piece must not stay. Where even this fails, a later run cuts it off.
            let _ = self.cut(self.end);
            return Err(self.io_error(source));
        }
        self.end += piece.len() as u64;
        Ok(self.end)
    }
}

/// A file's text, by lines.
struct WholeLines {
    /// Those that end with a newline.
    lines: Vec<String>,
    /// Their length together.
    length: u64,
    /// What stands after them.
    rest: Vec<u8>,
}

impl WholeLines {
    fn read(mut file: &File) -> io::Result<Self> {
        file.seek(SeekFrom::Start(0))?;
        let mut reader = BufReader::new(file);
        let mut text = Self { lines: Vec::new(), length: 0, rest: Vec::new() };
        loop {
            let mut line = Vec::new();
            let length = reader.read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                text.rest = line;
                return Ok(text);
            }
            line.pop();
            text.length += length as u64;
            text.lines.push(String::from_utf8_lossy(&line).into_owned());
        }
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

/// What must be written to a file of games before another: an empty line, if somebody's editor left its last line open.
pub fn pgn_separator(mut file: &File) -> io::Result<&'static [u8]> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(b"");
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(if last == *b"\n" { b"" } else { b"\n\n" })
}

/// A PGN file that grows by whole games.
#[derive(Debug)]
pub(crate) struct PgnFile {
    file: Growing,
}

impl PgnFile {
    /// Opens a file to append to it.
    pub(crate) fn open(path: &Path) -> Result<Self, JournalError> {
        let mut file = Growing::open(path, "PGN file")?;
        let tail = pgn_separator(&file.file).map_err(|source| file.io_error(source))?;
        if !tail.is_empty() {
            file.append(tail)?;
        }
        Ok(Self { file })
    }

    /// Where the next game goes.
    pub(crate) fn end(&self) -> u64 {
        self.file.end
    }

    /// Goes on from `end`, which is where the state file says that the last game ended. What stands after it can only
    /// be one game that the state does not know, whole or cut short: it is dropped, for it will be played again.
    pub(crate) fn resume_at(&mut self, end: u64, state: &Path) -> Result<(), JournalError> {
        let (pgn, path) = (self.file.path.display().to_string(), state.display().to_string());
        if self.file.end < end {
            return Err(JournalError::PgnChanged { pgn, path });
        }
        if self.file.end == end {
            return Ok(());
        }
        if !self.is_one_game_after(end).map_err(|source| self.file.io_error(source))? {
            return Err(JournalError::PgnGrew { pgn, path });
        }
        self.file.cut(end)
    }

    /// Whether the text from `start` on is a game, or the beginning of one, and no more.
    fn is_one_game_after(&self, start: u64) -> io::Result<bool> {
        const EVENT: &[u8] = b"[Event ";
        let mut file = &self.file.file;
        file.seek(SeekFrom::Start(start))?;
        let mut lines = BufReader::new(file).split(b'\n');
        let first = lines.next().transpose()?.unwrap_or_default();
        let length = first.len().min(EVENT.len());
        if first[..length] != EVENT[..length] {
            return Ok(false);
        }
        for line in lines {
            if line?.starts_with(EVENT) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Appends a game. Returns the new length.
    pub(crate) fn append(&mut self, game: &str) -> Result<u64, JournalError> {
        self.file.append(game.as_bytes())
    }
}
