//! How far long work has come: a bar on a terminal, a line now and then elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Shows progress on the error stream, so that it never mixes with results.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    what: &'static str,
    total: Option<u64>,
    done: u64,
    first: u64,
    started: Instant,
    told: Instant,
}

/// Time between two plain lines.
const PAUSE: Duration = Duration::from_secs(10);

impl Progress {
    /// Of so many things, if that is known.
    pub(crate) fn new(what: &'static str, total: Option<u64>) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let (bar, template) = match total {
                Some(total) => (
                    ProgressBar::new(total),
                    "{wide_bar} {human_pos}/{human_len} {msg}, {per_sec}, {eta} left",
                ),
                None => (ProgressBar::no_length(), "{spinner} {human_pos} {msg}, {per_sec}, {elapsed}"),
            };
            // A template that is ours cannot be wrong; were it, the usual one would do.
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.with_style(style).with_message(what)
        });
        let now = Instant::now();
        Self { bar, what, total, done: 0, first: 0, started: now, told: now }
    }

    /// So many were done before: they do not count for the rate.
    pub(crate) fn resume(&mut self, earlier: u64) {
        self.first = earlier;
        self.set(earlier);
    }

    /// So many are done.
    pub(crate) fn set(&mut self, done: u64) {
        self.done = done;
        match &self.bar {
            Some(bar) => bar.set_position(done),
            None if self.told.elapsed() >= PAUSE => {
                self.told = Instant::now();
                tellln!("{}", self.line());
            }
            None => {}
        }
    }

    /// So many more are done.
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

    /// The end: the bar goes, and how it went is told.
    pub(crate) fn finish(self) -> String {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = self.done.saturating_sub(self.first) as f64 / seconds.max(1e-3);
        format!("{} {} in {seconds:.1} s, {rate:.0} a second", self.done, self.what)
    }
}
