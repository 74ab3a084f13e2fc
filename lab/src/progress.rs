//! Progress of long work: a bar on a terminal, otherwise a line every ten seconds.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Shows progress on standard error, so that it never mixes with results on standard output.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    what: &'static str,
    total: Option<u64>,
    done: u64,
    first: u64,
    started: Instant,
    last_line: Instant,
}

/// Time between two plain lines where standard error is not a terminal.
const PAUSE: Duration = Duration::from_secs(10);

impl Progress {
    /// Starts a display of `total` items, if their number is known. `what` names them in the plural, for
    /// example "positions".
    pub(crate) fn new(what: &'static str, total: Option<u64>) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let (bar, template) = match total {
                Some(total) => (
                    ProgressBar::new(total),
                    "{wide_bar} {human_pos}/{human_len} {msg}, {per_sec}, {eta} left",
                ),
                None => (ProgressBar::no_length(), "{spinner} {human_pos} {msg}, {per_sec}, {elapsed}"),
            };
            // The template is fixed and valid; the default style is only a fallback.
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.with_style(style).with_message(what)
        });
        let now = Instant::now();
        Self { bar, what, total, done: 0, first: 0, started: now, last_line: now }
    }

    /// Sets the number of items done by earlier runs; they do not count towards the speed.
    pub(crate) fn resume(&mut self, earlier: u64) {
        self.first = earlier;
        self.set(earlier);
    }

    /// Sets the number of items done so far, those of earlier runs included.
    pub(crate) fn set(&mut self, done: u64) {
        self.done = done;
        match &self.bar {
            Some(bar) => bar.set_position(done),
            None if self.last_line.elapsed() >= PAUSE => {
                self.last_line = Instant::now();
                errln!("{}", self.line());
            }
            None => {}
        }
    }

    /// Adds to the number of items done so far.
    pub(crate) fn add(&mut self, more: u64) {
        self.set(self.done + more);
    }

    fn line(&self) -> String {
        let rate =
            self.done.saturating_sub(self.first) as f64 / self.started.elapsed().as_secs_f64().max(1e-3);
        match self.total {
            Some(total) => {
                let left = total.saturating_sub(self.done) as f64 / rate.max(1e-9);
                format!("{} of {total} {}, {rate:.0} a second, {left:.0} s left", self.done, self.what)
            }
            None => format!("{} {}, {rate:.0} a second", self.done, self.what),
        }
    }

    /// Removes the bar and returns a summary: items, seconds, items per second.
    pub(crate) fn finish(self) -> String {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = self.done.saturating_sub(self.first) as f64 / seconds.max(1e-3);
        format!("{} {} in {seconds:.1} s, {rate:.0} a second", self.done, self.what)
    }
}
