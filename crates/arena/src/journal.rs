//! Files that survive a crash: the state of a match, and its PGN.
//!
//! The state file has one line of JSON for the match and one for each finished game, each with a checksum, appended
//! in a single write once the PGN of the game is safely on the disk. A match that is started again with the same state
//! file resumes: an unfinished last line is cut off, and so is the one game in the PGN that the state may not
//! know yet. Both files are locked while the match runs, and nothing in them is cut before they have proved
//! to be those of this match.

use crate::standings::GameResult;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use tandem_util::journal::{self, AppendFile, JournalFormat};
use thiserror::Error;

/// Error of a match's state file (its journal of results) or PGN file. Each message names the file, the
/// reason and the remedy.
#[derive(Debug, Error)]
pub enum JournalError {
    /// A read or a write failed, for example because the disk is full.
    #[error("{path}: {source}")]
    Io {
        /// Path of the state file or the PGN file.
        path: String,
        /// Cause reported by the operating system.
        source: io::Error,
    },
    /// A line of the state file is not valid JSON of the expected form.
    #[error(
        "state file {path}, line {line}: {what}; it is damaged, or not the state of a match. Name another --state, or \
         remove it to start anew"
    )]
    Line {
        /// Path of the state file.
        path: String,
        /// Line number, from 1.
        line: usize,
        /// Description of the fault, from the JSON parser where it comes from there.
        what: String,
    },
    /// The state file is valid but was written by a match with other engines or settings.
    #[error(
        "state file {path} belongs to another match: {what}. Name another --state, or remove it to start anew"
    )]
    OtherMatch {
        /// Path of the state file.
        path: String,
        /// First difference between the two matches.
        what: String,
    },
    /// The state file was emptied, or cut within its first line, after games were played.
    #[error(
        "state file {path} has lost its contents, but {pgn} is not empty: if no game of this match was played, remove \
         the state file; otherwise move both aside, or name others"
    )]
    Emptied {
        /// Path of the state file.
        path: String,
        /// Path of the PGN file.
        pgn: String,
    },
    /// Another match holds the lock on the file.
    #[error("{kind} {path} is in use by another match")]
    InUse {
        /// Purpose of the file, for the message: `state file` or `PGN file`.
        kind: &'static str,
        /// Path of the file that is locked.
        path: String,
    },
    /// The PGN holds more after the last known game than one game that a crash may have left.
    #[error(
        "after the last game that the state file {path} knows, {pgn} holds more than one unfinished game; \
         it was changed since: move both aside, or name others"
    )]
    PgnTooLong {
        /// Path of the PGN file.
        pgn: String,
        /// Path of the state file.
        path: String,
    },
    /// The PGN is shorter than the state file records, so games are missing from it.
    #[error(
        "{pgn} is shorter than the state file {path} says; it was changed since: move both aside, or name others"
    )]
    PgnTooShort {
        /// Path of the PGN file.
        pgn: String,
        /// Path of the state file.
        path: String,
    },
}

impl JournalError {
    /// An error of a file of the match, whose purpose is `kind`.
    fn of(kind: &'static str) -> impl Fn(journal::JournalError) -> Self {
        move |error| match error {
            journal::JournalError::InUse { path } => Self::InUse { kind, path: path.display().to_string() },
            journal::JournalError::Io { path, source } => {
                Self::Io { path: path.display().to_string(), source }
            }
            journal::JournalError::Damaged { path, entries, .. } => {
                let what = match entries {
                    0 => "it does not begin as one",
                    _ => "its contents and its checksum disagree",
                };
                invalid_line(&path, entries as usize + 1, what.into())
            }
            journal::JournalError::Entry { path, problem } => invalid_line(&path, 1, problem),
        }
    }
}

impl From<journal::JournalError> for JournalError {
    fn from(error: journal::JournalError) -> Self {
        Self::of("state file")(error)
    }
}

/// Format of a state file. Every header begins with this text.
const FORMAT: JournalFormat = JournalFormat::Lines { start: b"{\"tandem_match\":" };

/// First line of a state file: everything that identifies a match. A run whose header differs is another
/// match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MatchHeader {
    /// Version of the file format.
    pub(crate) tandem_match: u32,
    /// Names of the engines, which game results refer to by index.
    pub(crate) names: Vec<String>,
    /// All other settings that must not change between runs, by name, for example the book and the time
    /// controls.
    pub(crate) settings: serde_json::Map<String, serde_json::Value>,
    /// Length of the PGN file in bytes before the first game of the match.
    pub(crate) pgn_start: u64,
}

/// State file of a running match, open and locked.
#[derive(Debug)]
pub(crate) struct Journal(journal::Journal);

impl Journal {
    /// Opens the state file of a match of `games` games, or creates it. Returns the results that it holds,
    /// and the offset in the PGN at which the last of them ends. `pgn` is the path of the PGN, if there is one.
    pub(crate) fn open(
        path: &Path,
        header: &MatchHeader,
        games: usize,
        pgn: Option<&Path>,
    ) -> Result<(Self, Vec<GameResult>, u64), JournalError> {
        let existed = path.exists();
        let journal = journal::Journal::open(path, FORMAT)?;
        let (mut results, mut pgn_end) = (Vec::new(), header.pgn_start);
        if let Some(first) = journal.header() {
            let found: MatchHeader =
                serde_json::from_slice(first).map_err(|error| invalid_line(path, 1, error.to_string()))?;
            let other = |what| JournalError::OtherMatch { path: path.display().to_string(), what };
            if let Some(what) = difference(&found, header) {
                return Err(other(what));
            }
            results = read_results(path, &journal, header.names.len())?;
            if let Some(surplus) = results.iter().find(|result| result.index >= games) {
                return Err(other(format!(
                    "it holds game {}, but this one ends with game {games}",
                    surplus.index + 1
                )));
            }
            pgn_end = results.last().map_or(found.pgn_start, |result| result.pgn_end);
        } else if let Some(pgn) = pgn.filter(|_| existed && header.pgn_start > 0) {
            // Its games may be those in the PGN, which would then hold them twice.
            let [path, pgn] = [path, pgn].map(|path| path.display().to_string());
            return Err(JournalError::Emptied { path, pgn });
        }
        // Only after these checks is it certain that the file belongs to this match and may be cut.
        let journal = journal.resume(&json(path, header)?)?;
        Ok((Self(journal), results, pgn_end))
    }

    /// Sentences for the user about the state file as it was found.
    pub(crate) fn notices(&self) -> &[String] {
        self.0.notices()
    }

    /// Appends the result of a finished game and waits until it is on the disk.
    pub(crate) fn add(&mut self, result: &GameResult) -> Result<(), JournalError> {
        Ok(self.0.append_synced(&json(self.0.path(), result)?)?)
    }
}

fn json(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, JournalError> {
    serde_json::to_vec(value)
        .map_err(|error| JournalError::Io { path: path.display().to_string(), source: error.into() })
}

fn invalid_line(path: &Path, line: usize, what: String) -> JournalError {
    JournalError::Line { path: path.display().to_string(), line, what }
}

/// Parses the games of a state file and checks each of them against the match.
fn read_results(
    path: &Path,
    journal: &journal::FoundJournal,
    engines: usize,
) -> Result<Vec<GameResult>, JournalError> {
    let (mut results, mut seen) = (Vec::new(), BTreeSet::new());
    journal.read(|line| {
        let invalid = |what: String| invalid_line(path, results.len() + 2, what);
        let result: GameResult = serde_json::from_slice(line).map_err(|error| invalid(error.to_string()))?;
        if result.white.max(result.black) >= engines {
            return Err(invalid("an engine that is not in the match".into()));
        }
        if result.culprit.is_some_and(|culprit| culprit != result.white && culprit != result.black) {
            return Err(invalid("a forfeit by an engine that is not in the game".into()));
        }
        if !seen.insert(result.index) {
            return Err(invalid(format!("game {} for the second time", result.index + 1)));
        }
        results.push(result);
        Ok(())
    })?;
    Ok(results)
}

/// Describes the first setting that differs between two matches, or `None` if they are the same.
fn difference(found: &MatchHeader, wanted: &MatchHeader) -> Option<String> {
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

/// Text to write before the next game in a file of games: an empty line if an editor left the last line open,
/// else nothing.
///
/// # Errors
///
/// Fails if the file cannot be read at its end.
pub fn pgn_separator(mut file: &File) -> io::Result<&'static [u8]> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(b"");
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(if last == *b"\n" { b"" } else { b"\n\n" })
}

/// PGN file of a match that grows by whole games.
#[derive(Debug)]
pub(crate) struct PgnFile {
    file: AppendFile,
}

impl PgnFile {
    /// Opens a PGN file for appending, or creates it, and closes a line that was left open.
    pub(crate) fn open(path: &Path) -> Result<Self, JournalError> {
        let file = AppendFile::open(path).map_err(JournalError::of("PGN file"))?;
        let mut pgn = Self { file };
        let tail = pgn_separator(pgn.file.file()).map_err(|source| pgn.io_error(source))?;
        if !tail.is_empty() {
            pgn.file.append(tail)?;
        }
        Ok(pgn)
    }

    fn io_error(&self, source: io::Error) -> JournalError {
        JournalError::Io { path: self.file.path().display().to_string(), source }
    }

    /// Offset in bytes at which the next game will be written.
    pub(crate) fn end(&self) -> u64 {
        self.file.end()
    }

    /// Continues at `end`, the offset at which the last game of the state file ends. Beyond it there may only
    /// be one game that the state does not know, complete or cut short; it is removed, because it will be
    /// played again.
    pub(crate) fn resume_at(&mut self, end: u64, state: &Path) -> Result<(), JournalError> {
        let (pgn, path) = (self.file.path().display().to_string(), state.display().to_string());
        if self.file.end() < end {
            return Err(JournalError::PgnTooShort { pgn, path });
        }
        if self.file.end() == end {
            return Ok(());
        }
        if !self.is_one_game_after(end).map_err(|source| self.io_error(source))? {
            return Err(JournalError::PgnTooLong { pgn, path });
        }
        Ok(self.file.cut(end)?)
    }

    /// True if the text from `start` on is one game or the beginning of one, and nothing else.
    fn is_one_game_after(&self, start: u64) -> io::Result<bool> {
        const EVENT: &[u8] = b"[Event ";
        let mut file = self.file.file();
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

    /// Appends the text of a game, waits until it is on the disk, and returns the new length of the file.
    pub(crate) fn append(&mut self, game: &str) -> Result<u64, JournalError> {
        self.file.append(game.as_bytes())?;
        self.file.sync()?;
        Ok(self.file.end())
    }
}
