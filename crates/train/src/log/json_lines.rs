//! The history of a run: a JSON object a line.

use super::LogError;
use super::append::Appender;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use tandem_chess::output;

/// What was logged at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Steps done.
    pub step: u64,
    /// Positions learnt from.
    pub positions: u64,
    /// Seconds that the run had taken.
    pub seconds: f64,
    /// Numbers by their names; none for what is infinite or not a number, which JSON has no word for.
    #[serde(flatten)]
    pub scalars: BTreeMap<String, Option<f64>>,
}

impl Entry {
    /// What a run has to tell after a step.
    pub fn new(step: u64, positions: u64, seconds: f64, scalars: &[(&str, f64)]) -> Self {
        let finite = |value: f64| value.is_finite().then_some(value);
        let scalars = scalars.iter().map(|&(name, value)| (name.into(), finite(value))).collect();
        Self { step, positions, seconds, scalars }
    }

    /// A number, if it was logged and is one.
    pub fn scalar(&self, name: &str) -> Option<f64> {
        self.scalars.get(name).copied().flatten()
    }
}

/// A history that is being written.
#[derive(Debug)]
pub(super) struct JsonLines {
    file: Appender,
    path: PathBuf,
}

impl JsonLines {
    /// Goes on after a step: the lines of later ones are cut off. Returns the seconds of the last line that is kept.
    pub(super) fn resume(path: &Path, step: u64) -> Result<(Self, f64), LogError> {
        let mut kept = String::new();
        let mut seconds = 0.0;
        if path.exists() {
            for (line, entry) in parse(path, &load(path)?)?.iter().filter(|(_, entry)| entry.step <= step) {
                // As they are: a number that is read and written again may not be the same to the last digit.
                kept.push_str(line);
                kept.push('\n');
                seconds = entry.seconds;
            }
        }
        output::write_whole(path, kept.as_bytes()).map_err(LogError::io(path))?;
        let file = OpenOptions::new().write(true).open(path).map_err(LogError::io(path))?;
        let file = Appender::new(file).map_err(LogError::io(path))?;
        Ok((Self { file, path: path.into() }, seconds))
    }

    /// Adds a line.
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

/// Reads a history.
pub(super) fn read(path: &Path) -> Result<Vec<Entry>, LogError> {
    Ok(parse(path, &load(path)?)?.into_iter().map(|(_, entry)| entry).collect())
}

fn load(path: &Path) -> Result<String, LogError> {
    let bytes = fs::read(path).map_err(LogError::io(path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The lines of a history and what they say. A last one that was torn, when a run was killed or as it is being written, is
/// passed over.
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
        let scalars = [("train/loss", 0.5), ("rate", f64::NEG_INFINITY), ("a \"name\"\n", 1.0)];
        let entry = Entry::new(u64::MAX, 16_384, 1.5, &scalars);
        lines.add(&entry).unwrap();
        assert!(matches!(lines.add(&Entry::new(1, 1, 1.0, &[("step", 1.0)])), Err(LogError::Name(_))));
        let text = fs::read_to_string(&path).unwrap();
        let expected = "{\"step\":18446744073709551615,\"positions\":16384,\"seconds\":1.5,\
                        \"a \\\"name\\\"\\n\":1.0,\"rate\":null,\"train/loss\":0.5}\n";
        assert_eq!(text, expected);
        assert_eq!(read(&path).unwrap(), std::slice::from_ref(&entry));
        assert_eq!(
            (entry.scalar("train/loss"), entry.scalar("rate"), entry.scalar("x")),
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
        // Wherever the last line is torn, even between two bytes of one letter, the others are read.
        let torn = format!("{whole}{}", line(6).replace("\"l\"", "\"é\""));
        for end in whole.len()..torn.len() - 1 {
            fs::write(&path, &torn.as_bytes()[..end]).unwrap();
            assert_eq!(read(&path).unwrap().len(), 5, "{end}");
            let (mut lines, seconds) = JsonLines::resume(&path, 3).unwrap();
            assert_eq!(seconds, 3.25);
            lines.add(&Entry::new(4, 2, 9.0, &[])).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            let kept: String = (1..=3).map(line).collect();
            assert_eq!(text, format!("{kept}{{\"step\":4,\"positions\":2,\"seconds\":9.0}}\n"));
        }
        // Nothing is missing but the line's end.
        fs::write(&path, &torn.as_bytes()[..torn.len() - 1]).unwrap();
        drop(JsonLines::resume(&path, 6).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), torn);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_no_history_is_told_and_left_as_it_is() {
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
