//! Reader for suites in EPD files: it derives the task of each position from the operations of its line.

use super::{SuiteItem, Task};
use std::path::Path;
use tandem_chess::{Move, epd, san, uci};
use tandem_util::input;
use thiserror::Error;

/// Error while reading a suite. Each message names the file, and the position where there is one.
#[derive(Debug, Error)]
pub enum SuiteError {
    /// The file is missing or cannot be read or decompressed.
    #[error("suite {path}: {source}")]
    Io {
        /// Path of the suite as it was given.
        path: String,
        /// Cause reported by the operating system or the decompressor.
        source: std::io::Error,
    },
    /// A line is not a legal position in EPD.
    #[error("suite {path}: {source}")]
    Line {
        /// Path of the suite as it was given.
        path: String,
        /// Line number and fault, from the EPD parser.
        source: epd::EpdFileError,
    },
    /// A position has no task, or one with an illegal move or malformed points.
    #[error("suite {path}, position {number} ({id}): {what}")]
    Task {
        /// Path of the suite as it was given.
        path: String,
        /// Number of the position in the file, from 1.
        number: usize,
        /// Identifier of the position.
        id: String,
        /// Description of the fault.
        what: String,
    },
    /// The file holds no positions, only comments or empty lines.
    #[error("suite {0} holds no positions")]
    Empty(String),
    /// Every perft task (count of move sequences) of the file exceeds the limit, and there are no other
    /// tasks.
    #[error("suite {0} holds no perft count within --max-leaves")]
    TooDeep(String),
}

/// Reads a suite, plain or compressed. Perft tasks (counts of move sequences) with more than `max_leaves`
/// sequences are left out, and so are positions without any other task.
///
/// # Errors
///
/// Fails if the file cannot be read, if it has no usable positions, or if one of them is illegal or lacks a
/// task.
pub fn read_suite(path: &Path, max_leaves: u64) -> Result<Vec<SuiteItem>, SuiteError> {
    let name = path.display().to_string();
    let reader = input::open(path).map_err(|source| SuiteError::Io { path: name.clone(), source })?;
    let mut items = Vec::new();
    let mut found = false;
    for (index, entry) in epd::read(reader).enumerate() {
        let entry = entry.map_err(|source| SuiteError::Line { path: name.clone(), source })?;
        let number = index + 1;
        found = true;
        let id = entry.id().map_or_else(|| number.to_string(), str::to_owned);
        let task = task(&entry, max_leaves);
        let task =
            task.map_err(|what| SuiteError::Task { path: name.clone(), number, id: id.clone(), what })?;
        if let Some(task) = task {
            items.push(SuiteItem { id, board: entry.board, task });
        }
    }
    match items.is_empty() {
        false => Ok(items),
        true if found => Err(SuiteError::TooDeep(name)),
        true => Err(SuiteError::Empty(name)),
    }
}

/// Task of an EPD entry; `None` if all of its perft counts exceed the limit.
fn task(entry: &epd::Epd, max_leaves: u64) -> Result<Option<Task>, String> {
    if entry.perft().next().is_some() {
        let counts: Vec<_> = entry.perft().filter(|(_, leaves)| *leaves <= max_leaves).collect();
        return Ok((!counts.is_empty()).then_some(Task::Perft(counts)));
    }
    if let Some(points) = points(entry)? {
        return Ok(Some(Task::Points(points)));
    }
    let best = entry.bm().map_err(|error| format!("bm: {error}"))?;
    let avoid = entry.am().map_err(|error| format!("am: {error}"))?;
    if !best.is_empty() || !avoid.is_empty() {
        return Ok(Some(Task::Best { best, avoid }));
    }
    match entry.dm() {
        Some(moves) if moves > 0 => Ok(Some(Task::Mate(moves))),
        _ => Err("it has no bm, am, dm, points or perft counts".into()),
    }
}

/// Points of the Strategic Test Suite: moves in `c9` with points in `c8`, or both in `c0` as `f5=10, Be5+=2`.
/// `None` if the entry has neither.
fn points(entry: &epd::Epd) -> Result<Option<Vec<(Move, u32)>>, String> {
    let number = |text: &str| text.parse::<u32>().map_err(|_| format!("points '{text}' are not a number"));
    if let (Some(moves), Some(points)) = (entry.comment(9), entry.comment(8)) {
        let (moves, points) = (moves.split_ascii_whitespace(), points.split_ascii_whitespace());
        if moves.clone().count() != points.clone().count() {
            return Err("c8 and c9 differ in length".into());
        }
        let pair = |(mv, points)| {
            let mv = uci::parse(&entry.board, mv).map_err(|error| format!("c9: {error}"))?;
            Ok((mv, number(points)?))
        };
        return moves.zip(points).map(pair).collect::<Result<_, String>>().map(Some);
    }
    let Some(text) = entry.comment(0).filter(|text| text.contains('=')) else { return Ok(None) };
    let mut found = Vec::new();
    for part in text.split(',') {
        // A promotion contains an equals sign of its own; the points follow the last one.
        let Some((mv, points)) = part.rsplit_once('=') else { return Ok(None) };
        let Ok(points) = points.trim().parse() else { return Ok(None) };
        let mv = san::parse(&entry.board, mv.trim()).map_err(|error| format!("c0: {error}"))?;
        found.push((mv, points));
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_task(line: &str) -> Result<Option<Task>, String> {
        task(&epd::parse(line).unwrap(), 1000)
    }

    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq -";

    #[test]
    fn every_kind_of_task_is_read() {
        let [e4, nf3] = ["e2e4", "g1f3"].map(|text| text.parse().unwrap());
        let read = |text: &str| read_task(&format!("{START} {text}")).unwrap();
        let best = Task::Best { best: vec![e4, nf3], avoid: vec!["a2a3".parse().unwrap()] };
        assert_eq!(read("bm e4 Nf3; am a3; id \"x\";"), Some(best));
        let both = Some(Task::Points(vec![(e4, 10), (nf3, 5)]));
        assert_eq!(read("bm e4; c0 \"e4=10, Nf3=5\";"), both);
        assert_eq!(read("bm e4; c8 \"10 5\"; c9 \"e2e4 g1f3\";"), both);
        assert_eq!(read("dm 5;"), Some(Task::Mate(5)));
        assert_eq!(read(";D1 20 ;D2 400 ;D4 197281"), Some(Task::Perft(vec![(1, 20), (2, 400)])));
        assert_eq!(read(";D4 197281"), None, "nothing to count is not counted as right");
    }

    #[test]
    fn faults_name_their_operation() {
        assert!(read_task(START).unwrap_err().contains("no bm"));
        assert!(read_task(&format!("{START} bm e5;")).unwrap_err().contains("bm:"));
        assert!(read_task(&format!("{START} c8 \"1\"; c9 \"e2e4 d2d4\";")).unwrap_err().contains("length"));
        assert!(read_task(&format!("{START} c0 \"e5=10\";")).unwrap_err().contains("c0:"));
    }
}
