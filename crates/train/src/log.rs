//! Logs of runs: JSON lines, TensorBoard event files, and an SVG of the loss curves.
//!
//! A [`RunLog`] writes three things into a run's folder: `log.jsonl`, the history from which everything else
//! can be derived; event files for TensorBoard; and `loss.svg`, the curves at a glance. The log of a resumed
//! run is cut back to the run's checkpoint first, because the steps after it are logged again. Logs that were
//! begun with older names of the scalars are read under the present names.
//!
//! ```
//! use tandem_train::log::{RunLog, read_history};
//!
//! # let folder = std::env::temp_dir().join(format!("tandem-log-doc-{}", std::process::id()));
//! let mut log = RunLog::resume(&folder, 0)?;
//! log.scalars(100, 1_638_400, &[("train/loss", 0.0712), ("train/lr", 1e-3)])?;
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
mod old_tags;
mod tensorboard;

pub use curves::draw;
pub use histogram::Histogram;
pub use json_lines::Entry;

use json_lines::JsonLines;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tandem_util::output;
use tensorboard::EventWriter;
use thiserror::Error;

/// File name of the history within a run's folder.
pub const HISTORY: &str = "log.jsonl";
/// File name of the loss curves within a run's folder.
pub const CURVES: &str = "loss.svg";

/// Bins of a histogram: enough to see a shape, and few because every tensor adds one at each validation.
const BINS: usize = 64;

/// A log that cannot be written, read or continued.
#[derive(Debug, Error)]
pub enum LogError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file of the log.
        path: PathBuf,
        /// The file system's reason.
        source: io::Error,
    },
    /// A line of the history is not a JSON object with the expected fields.
    #[error(
        "{}, line {line}: {problem}; repair or delete that line, or move the file away to begin another",
        path.display()
    )]
    Line {
        /// Path of the history.
        path: PathBuf,
        /// Number of the line, counted from one.
        line: usize,
        /// The parser's message.
        problem: String,
    },
    /// A scalar has the name of a field that every line has, such as `step`.
    #[error("a scalar cannot be called {0:?}: every line of the history has that already")]
    Name(String),
}

impl LogError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { path, source }
    }
}

/// The log of a run. Every line is in the file when a call returns, so that a killed run loses none.
#[derive(Debug)]
pub struct RunLog {
    folder: PathBuf,
    lines: JsonLines,
    events: EventWriter,
    start: Instant,
    /// Seconds that the run had taken before it was resumed.
    seconds_before: f64,
}

impl RunLog {
    /// Continues the log of a run that is resumed after `step`: entries of later steps are removed. A missing
    /// log or folder is created.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written, or if a line of the history is damaged.
    pub fn resume(folder: &Path, step: u64) -> Result<Self, LogError> {
        fs::create_dir_all(folder).map_err(LogError::io(folder))?;
        let (lines, seconds_before) = JsonLines::resume(&folder.join(HISTORY), step)?;
        // Even at step 0, because a run that was killed before its first checkpoint has logged steps too.
        let events = EventWriter::create(folder, step.saturating_add(1)).map_err(LogError::io(folder))?;
        Ok(Self { folder: folder.into(), lines, events, start: Instant::now(), seconds_before })
    }

    /// Seconds that the run has taken, including the time before it was resumed.
    pub fn seconds(&self) -> f64 {
        self.seconds_before + self.start.elapsed().as_secs_f64()
    }

    /// Logs scalars by their names, such as `train/loss`, after a step and a number of positions. Values that
    /// are not finite are stored as null.
    ///
    /// # Errors
    ///
    /// If a file cannot be written, or if a scalar is named `step`, `positions` or `seconds`.
    pub fn scalars<S: AsRef<str>>(
        &mut self,
        step: u64,
        positions: u64,
        scalars: &[(S, f64)],
    ) -> Result<(), LogError> {
        self.lines.add(&Entry::new(step, positions, self.seconds(), scalars))?;
        self.events.scalars(step, scalars).map_err(LogError::io(self.events.path()))
    }

    /// Logs a histogram of weights for TensorBoard, with the fractions of weights exactly at the minimum and
    /// the maximum as scalars, since those are held back by clamping.
    ///
    /// # Errors
    ///
    /// If the event file cannot be written.
    pub fn histogram(&mut self, step: u64, tag: &str, values: &[f32]) -> Result<Histogram, LogError> {
        let histogram = Histogram::new(values, BINS);
        let [at_min, at_max] = histogram.fraction_at_bounds;
        let ends = [(format!("{tag}/at_min"), at_min), (format!("{tag}/at_max"), at_max)];
        self.events
            .histogram(step, tag, &histogram)
            .and_then(|()| self.events.scalars(step, &ends))
            .map_err(LogError::io(self.events.path()))?;
        Ok(histogram)
    }

    /// Draws the curves of the whole history into `loss.svg`.
    ///
    /// # Errors
    ///
    /// If the history cannot be read or the drawing cannot be written.
    pub fn draw(&self) -> Result<(), LogError> {
        let path = self.folder.join(CURVES);
        output::write_atomically(&path, draw(&read_history(&self.folder)?).as_bytes())
            .map_err(LogError::io(&path))
    }
}

/// Reads the history of the run in a folder, whether it is finished, killed or still running.
///
/// # Errors
///
/// If there is no history, or if a line other than the last is damaged.
pub fn read_history(folder: &Path) -> Result<Vec<Entry>, LogError> {
    json_lines::read(&folder.join(HISTORY))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates an empty folder for a test.
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
    fn a_resumed_log_reads_like_an_uninterrupted_one() {
        let folder = folder("resumed");
        let log_steps = |log: &mut RunLog, steps: std::ops::RangeInclusive<u64>| {
            for step in steps {
                log.scalars(step, step * 100, &[("train/loss", 1.0 / step as f64)]).unwrap();
            }
        };
        let mut log = RunLog::resume(&folder, 0).unwrap();
        log_steps(&mut log, 1..=7);
        drop(log);
        let mut log = RunLog::resume(&folder, 4).unwrap();
        let before = read_history(&folder).unwrap()[3].seconds;
        assert!(log.seconds() >= before);
        log_steps(&mut log, 5..=9);
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
        log.scalars(1, 100, &[("train/loss", f64::NAN), ("train/lr", f64::INFINITY)]).unwrap();
        let histogram = log.histogram(1, "weights/first", &[f32::NAN, f32::INFINITY]).unwrap();
        assert_eq!((histogram.count, histogram.not_finite), (0, 2));
        log.draw().unwrap();
        let text = fs::read_to_string(folder.join(HISTORY)).unwrap();
        assert!(text.contains("\"train/loss\":null") && text.contains("\"train/lr\":null"), "{text}");
        let svg = fs::read_to_string(folder.join(CURVES)).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        fs::remove_dir_all(folder).unwrap();
    }
}
