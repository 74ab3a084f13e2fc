//! The history of a run: one JSON object per line, with the scalars of one step.

use super::LogError;
use super::append::Appender;
use super::old_tags::present_tag;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use tandem_util::output;

/// One line of the history: the scalars that were logged together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Number of optimiser steps done when the line was logged.
    pub step: u64,
    /// Number of positions trained on from the start of the run up to this step.
    pub positions: u64,
    /// Seconds that the run had taken, including the time before it was resumed.
    pub seconds: f64,
    /// Values by name; `None` for infinities and NaN, which JSON cannot express.
    #[serde(flatten)]
    pub scalars: BTreeMap<String, Option<f64>>,
}

impl Entry {
    /// Creates an entry; values that are not finite become `None`.
    pub fn new<S: AsRef<str>>(step: u64, positions: u64, seconds: f64, scalars: &[(S, f64)]) -> Self {
        let finite = |value: f64| value.is_finite().then_some(value);
        let scalars =
            scalars.iter().map(|(name, value)| (name.as_ref().to_owned(), finite(*value))).collect();
        Self { step, positions, seconds, scalars }
    }

    /// A value by name, if it was logged and is finite.
    pub fn scalar(&self, name: &str) -> Option<f64> {
        self.scalars.get(name).copied().flatten()
    }
}

/// A history open for appending, with its path for error messages.
#[derive(Debug)]
pub(super) struct JsonLines {
    file: Appender,
    path: PathBuf,
}

impl JsonLines {
    /// Continues after a step: lines of later steps are removed. Returns also the seconds of the last line
    /// that is kept.
    pub(super) fn resume(path: &Path, step: u64) -> Result<(Self, f64), LogError> {
        let mut kept = String::new();
        let mut seconds = 0.0;
        if path.exists() {
            for (line, entry) in parse(path, &load(path)?)?.iter().filter(|(_, entry)| entry.step <= step) {
                // Kept as text, because a number that is parsed and printed again may differ in its last
                // digit.
                kept.push_str(line);
                kept.push('\n');
                seconds = entry.seconds;
            }
        }
        output::write_atomically(path, kept.as_bytes()).map_err(LogError::io(path))?;
        let file = OpenOptions::new().write(true).open(path).map_err(LogError::io(path))?;
        let file = Appender::new(file).map_err(LogError::io(path))?;
        Ok((Self { file, path: path.into() }, seconds))
    }

    /// Appends an entry as one line, in one write.
    pub(super) fn add(&mut self, entry: &Entry) -> Result<(), LogError> {
        if let Some(name) =
            ["step", "positions", "seconds"].iter().find(|&&name| entry.scalars.contains_key(name))
        {
            return Err(LogError::Name((*name).into()));
        }
        let mut line = serde_json::to_vec(entry).map_err(|error| LogError::io(&self.path)(error.into()))?;
        line.push(b'\n');
        self.file.append(&line).map_err(LogError::io(&self.path))
    }
}

/// Reads a whole history, with old names of scalars replaced by the present ones.
pub(super) fn read(path: &Path) -> Result<Vec<Entry>, LogError> {
    Ok(parse(path, &load(path)?)?.into_iter().map(|(_, entry)| with_present_tags(entry)).collect())
}

/// The entry with old names of its scalars replaced by the present ones.
fn with_present_tags(mut entry: Entry) -> Entry {
    entry.scalars = entry.scalars.into_iter().map(|(tag, value)| (present_tag(tag), value)).collect();
    entry
}

fn load(path: &Path) -> Result<String, LogError> {
    let bytes = fs::read(path).map_err(LogError::io(path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses the lines of a history. An incomplete last line, from a killed or running process, is ignored.
fn parse<'a>(path: &Path, text: &'a str) -> Result<Vec<(&'a str, Entry)>, LogError> {
    let mut entries = Vec::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let whole = line.ends_with('\n');
        let line = line.trim_ascii();
        match serde_json::from_str(line) {
            Ok(entry) => entries.push((line, entry)),
            Err(_) if !whole || line.is_empty() => {}
            Err(error) => {
                let problem = error.to_string();
                return Err(LogError::Line { path: path.into(), line: index + 1, problem });
            }
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::super::tests::folder;
    use super::*;

    #[test]
    fn a_line_is_one_flat_object() {
        let folder = folder("lines");
        let path = folder.join("log.jsonl");
        let (mut lines, _) = JsonLines::resume(&path, 0).unwrap();
        let scalars = [("train/loss", 0.5), ("train/lr", f64::NEG_INFINITY), ("a \"name\"\n", 1.0)];
        let entry = Entry::new(u64::MAX, 16_384, 1.5, &scalars);
        lines.add(&entry).unwrap();
        assert!(matches!(lines.add(&Entry::new(1, 1, 1.0, &[("step", 1.0)])), Err(LogError::Name(_))));
        let text = fs::read_to_string(&path).unwrap();
        let expected = "{\"step\":18446744073709551615,\"positions\":16384,\"seconds\":1.5,\
                        \"a \\\"name\\\"\\n\":1.0,\"train/loss\":0.5,\"train/lr\":null}\n";
        assert_eq!(text, expected);
        assert_eq!(read(&path).unwrap(), std::slice::from_ref(&entry));
        assert_eq!(
            (entry.scalar("train/loss"), entry.scalar("train/lr"), entry.scalar("x")),
            (Some(0.5), None, None)
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn lines_after_the_step_and_a_torn_one_are_cut_off() {
        let folder = folder("cut");
        let path = folder.join("log.jsonl");
        let line = |step: u64| {
            format!(
                "{{\"step\":{step},\"positions\":1,\"seconds\":{step}.25,\"l\":0.10000000000000000001}}\n"
            )
        };
        let whole: String = (1..=5).map(line).collect();
        // Wherever the last line is cut, even within a multi-byte character, the others are read.
        let torn = format!("{whole}{}", line(6).replace("\"l\"", "\"é\""));
        for end in whole.len()..torn.len() - 1 {
            fs::write(&path, &torn.as_bytes()[..end]).unwrap();
            assert_eq!(read(&path).unwrap().len(), 5, "{end}");
            let (mut lines, seconds) = JsonLines::resume(&path, 3).unwrap();
            assert_eq!(seconds, 3.25);
            lines.add(&Entry::new::<&str>(4, 2, 9.0, &[])).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            let kept: String = (1..=3).map(line).collect();
            assert_eq!(text, format!("{kept}{{\"step\":4,\"positions\":2,\"seconds\":9.0}}\n"));
        }
        // Only the line's end is missing.
        fs::write(&path, &torn.as_bytes()[..torn.len() - 1]).unwrap();
        drop(JsonLines::resume(&path, 6).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), torn);
        fs::remove_dir_all(folder).unwrap();
    }

    /// A run that was begun by an earlier version goes on with its log.
    #[test]
    fn lines_with_old_tags_stay_and_are_read_by_their_present_names() {
        let folder = folder("old-tags");
        let path = folder.join("log.jsonl");
        let old = "{\"step\":1,\"positions\":1,\"seconds\":1.0,\"rate\":0.5,\"train/slope\":2.0}\n"; // language: old name
        fs::write(&path, old).unwrap();
        let (mut lines, _) = JsonLines::resume(&path, 1).unwrap();
        lines.add(&Entry::new(2, 2, 2.0, &[("train/lr", 0.25), ("train/grad_norm", 1.0)])).unwrap();
        assert!(fs::read_to_string(&path).unwrap().starts_with(old));
        let both: Vec<_> = read(&path).unwrap().iter().map(|entry| entry.scalar("train/lr")).collect();
        assert_eq!(both, [Some(0.5), Some(0.25)]);
        assert_eq!(read(&path).unwrap()[0].scalar("train/grad_norm"), Some(2.0));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_damaged_history_is_reported_and_left_as_it_is() {
        let folder = folder("wrong");
        let path = folder.join("log.jsonl");
        let text = "{\"step\":1,\"positions\":1,\"seconds\":1}\n\nhello\n";
        fs::write(&path, text).unwrap();
        let error = JsonLines::resume(&path, 3).unwrap_err().to_string();
        assert!(error.contains("log.jsonl, line 3: expected value"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        fs::write(&path, "{\"step\":1,\"positions\":1,\"seconds\":1,\"loss\":\"low\"}\n").unwrap();
        assert!(matches!(read(&path), Err(LogError::Line { line: 1, .. })));
        assert!(matches!(read(&folder.join("none")), Err(LogError::Io { .. })));
        fs::remove_dir_all(folder).unwrap();
    }
}
