//! What a run tells of itself while it learns, and keeps.
//!
//! A [`RunLog`] writes into a run's folder: `log.jsonl`, the history that all else can be made from; event files, which
//! TensorBoard shows; and `loss.svg`, the curves at a glance. A run that was killed goes on from its last checkpoint, and
//! its log with it: what was written after the checkpoint is taken back, since it will be written again.
//!
//! ```
//! use tandem_train::log::{RunLog, read_history};
//!
//! # let folder = std::env::temp_dir().join(format!("tandem-log-doc-{}", std::process::id()));
//! let mut log = RunLog::resume(&folder, 0)?;
//! log.scalars(100, 1_638_400, &[("train/loss", 0.0712), ("rate", 1e-3)])?;
//! log.scalars(200, 3_276_800, &[("train/loss", 0.0645), ("validation/loss", 0.0671)])?;
//! log.histogram(200, "weights/first", &[-0.5, 0.25, 0.0])?;
//! log.draw()?;
//! drop(log);
//!
//! let mut log = RunLog::resume(&folder, 100)?;
//! log.scalars(200, 3_276_800, &[("train/loss", 0.0645)])?;
//! assert_eq!(read_history(&folder)?.len(), 2);
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), tandem_train::log::LogError>(())
//! ```

mod append;
mod curves;
mod histogram;
mod json_lines;
mod tensorboard;

pub use curves::draw;
pub use histogram::Histogram;
pub use json_lines::Entry;

use json_lines::JsonLines;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tandem_chess::output;
use tensorboard::EventWriter;
use thiserror::Error;

/// The history within a run's folder.
pub const HISTORY: &str = "log.jsonl";
/// The curves within a run's folder.
pub const CURVES: &str = "loss.svg";

/// Bars of a histogram: enough to see a shape, few enough for a file that grows by one for every layer.
const BINS: usize = 64;

/// A log that cannot be written or gone on with.
#[derive(Debug, Error)]
pub enum LogError {
    /// The file system's word.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The history is not one.
    #[error(
        "{}, line {line}: {problem}; mend or delete that line, or move the file away to begin another",
        path.display()
    )]
    Line {
        /// The history.
        path: PathBuf,
        /// Counted from one.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A scalar whose name means something else.
    #[error("a scalar cannot be called {0:?}: every line of the history has that already")]
    Name(String),
}

impl LogError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { path, source }
    }
}

/// The log of a run. Every line is in the file when the call returns, so a killed run loses none.
#[derive(Debug)]
pub struct RunLog {
    folder: PathBuf,
    lines: JsonLines,
    events: EventWriter,
    start: Instant,
    /// Taken by the run before it was resumed.
    seconds_before: f64,
}

impl RunLog {
    /// Goes on with the log of a run that stands after `step`. What was logged of later steps is taken back. Where there
    /// is no log, one begins; where there is no folder, it is made.
    pub fn resume(folder: &Path, step: u64) -> Result<Self, LogError> {
        fs::create_dir_all(folder).map_err(LogError::io(folder))?;
        let (lines, seconds_before) = JsonLines::resume(&folder.join(HISTORY), step)?;
        // Even from the beginning: a run that was killed before its first checkpoint has told of steps too.
        let events = EventWriter::create(folder, step.saturating_add(1)).map_err(LogError::io(folder))?;
        Ok(Self { folder: folder.into(), lines, events, start: Instant::now(), seconds_before })
    }

    /// Seconds that the run has taken, with those before it was resumed.
    pub fn seconds(&self) -> f64 {
        self.seconds_before + self.start.elapsed().as_secs_f64()
    }

    /// Logs numbers by their names, such as `train/loss`, after a step and so many positions.
    pub fn scalars(&mut self, step: u64, positions: u64, scalars: &[(&str, f64)]) -> Result<(), LogError> {
        self.lines.add(&Entry::new(step, positions, self.seconds(), scalars))?;
        self.events.scalars(step, scalars).map_err(LogError::io(self.events.path()))
    }

    /// Logs how weights are spread, and as scalars of TensorBoard's how many are at either end: those are held back by
    /// the range that they may be in.
    pub fn histogram(&mut self, step: u64, tag: &str, values: &[f32]) -> Result<Histogram, LogError> {
        let histogram = Histogram::new(values, BINS);
        let [least, most] = histogram.ends;
        let ends = [(format!("{tag}/at_least"), least), (format!("{tag}/at_most"), most)];
        self.events
            .histogram(step, tag, &histogram)
            .and_then(|()| {
                self.events.scalars(step, &ends.each_ref().map(|(tag, share)| (tag.as_str(), *share)))
            })
            .map_err(LogError::io(self.events.path()))?;
        Ok(histogram)
    }

    /// Draws the curves of the whole history.
    pub fn draw(&self) -> Result<(), LogError> {
        let path = self.folder.join(CURVES);
        output::write_whole(&path, draw(&read_history(&self.folder)?).as_bytes()).map_err(LogError::io(&path))
    }
}

/// The history of the run in a folder, be it finished, killed or still going on.
pub fn read_history(folder: &Path) -> Result<Vec<Entry>, LogError> {
    json_lines::read(&folder.join(HISTORY))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty folder for a test.
    pub(super) fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tandem-log-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn event_files(folder: &Path) -> usize {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().contains("tfevents")).count()
    }

    #[test]
    fn a_resumed_log_reads_like_one_that_was_never_broken_off() {
        let folder = folder("resumed");
        let told = |log: &mut RunLog, steps: std::ops::RangeInclusive<u64>| {
            for step in steps {
                log.scalars(step, step * 100, &[("train/loss", 1.0 / step as f64)]).unwrap();
            }
        };
        let mut log = RunLog::resume(&folder, 0).unwrap();
        told(&mut log, 1..=7);
        drop(log);
        let mut log = RunLog::resume(&folder, 4).unwrap();
        let before = read_history(&folder).unwrap()[3].seconds;
        assert!(log.seconds() >= before);
        told(&mut log, 5..=9);
        log.draw().unwrap();
        let history = read_history(&folder).unwrap();
        assert_eq!(history.iter().map(|entry| entry.step).collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
        assert!(history.windows(2).all(|pair| pair[0].seconds <= pair[1].seconds));
        assert_eq!(event_files(&folder), 2);
        assert!(fs::read_to_string(folder.join(CURVES)).unwrap().starts_with("<svg"));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_log_begins_where_there_is_none() {
        let folder = folder("new");
        drop(RunLog::resume(&folder.join("of/a/run"), 3).unwrap());
        assert_eq!(read_history(&folder.join("of/a/run")).unwrap(), []);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_run_that_diverges_is_logged_to_its_end() {
        let folder = folder("diverged");
        let mut log = RunLog::resume(&folder, 0).unwrap();
        log.scalars(1, 100, &[("train/loss", f64::NAN), ("rate", f64::INFINITY)]).unwrap();
        let histogram = log.histogram(1, "weights/first", &[f32::NAN, f32::INFINITY]).unwrap();
        assert_eq!((histogram.count, histogram.not_finite), (0, 2));
        log.draw().unwrap();
        let text = fs::read_to_string(folder.join(HISTORY)).unwrap();
        assert!(text.contains("\"train/loss\":null") && text.contains("\"rate\":null"), "{text}");
        let svg = fs::read_to_string(folder.join(CURVES)).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        fs::remove_dir_all(folder).unwrap();
    }
}
