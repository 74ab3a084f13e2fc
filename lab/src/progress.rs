//! Progress of long work on standard error: a bar on a terminal, otherwise a line every ten seconds.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Time between two plain lines where standard error is not a terminal.
const PAUSE: Duration = Duration::from_secs(10);

/// A bar on a terminal, or plain lines with pauses between them.
pub(crate) struct StatusLine {
    bar: Option<ProgressBar>,
    last_line: Instant,
}

impl StatusLine {
    /// Starts a display at `first` of `total` items; `template` is in the language of indicatif.
    pub(crate) fn new(template: &str, first: u64, total: Option<u64>) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            // The templates are fixed and valid; the default style is only a fallback.
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
            let bar = bar.with_style(style).with_position(first);
            bar.reset_eta();
            bar
        });
        Self { bar, last_line: Instant::now() }
    }

    /// Shows the number of items done. `message` is part of the bar's template; `line` is the plain line.
    pub(crate) fn show(&mut self, done: u64, message: Option<&str>, line: impl FnOnce() -> String) {
        match &self.bar {
            Some(bar) => {
                bar.set_position(done);
                if let Some(message) = message {
                    bar.set_message(message.to_owned());
                }
            }
            None if self.last_line.elapsed() >= PAUSE => {
                self.last_line = Instant::now();
                errln!("{}", line());
            }
            None => {}
        }
    }

    /// Prints a line that stays, on standard output if there is no bar.
    pub(crate) fn print(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => outln!("{line}"),
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Progress through a number of items, which need not be known.
pub(crate) struct Progress {
    status: StatusLine,
    what: &'static str,
    total: Option<u64>,
    /// Bytes read and to be read, where the number of items is unknown but the length of their files is not.
    bytes: Option<[u64; 2]>,
    done: u64,
    first: u64,
    started: Instant,
}

impl Progress {
    /// Starts a display of `total` items, if their number is known. `what` names them in the plural, for
    /// example "positions".
    pub(crate) fn new(what: &'static str, total: Option<u64>) -> Self {
        let template = match total {
            Some(_) => format!("{{wide_bar}} {{human_pos}}/{{human_len}} {what}, {{per_sec}}, {{eta}} left"),
            None => format!("{{spinner}} {{human_pos}} {what}, {{per_sec}}, {{elapsed}}"),
        };
        let status = StatusLine::new(&template, 0, total);
        Self { status, what, total, bytes: None, done: 0, first: 0, started: Instant::now() }
    }

    /// Starts a display for records that are read from files of this length in bytes, if it is known. Percent and
    /// time left follow from the bytes.
    pub(crate) fn of_bytes(what: &'static str, bytes: Option<u64>) -> Self {
        let Some(bytes) = bytes else { return Self::new(what, None) };
        let status = StatusLine::new("{wide_bar} {percent} %, {msg}, {eta} left", 0, Some(bytes));
        let (total, bytes, started) = (None, Some([0, bytes]), Instant::now());
        Self { status, what, total, bytes, done: 0, first: 0, started }
    }

    /// Adds to the number of items done so far, which took this number of bytes from the start of the files.
    pub(crate) fn add_read(&mut self, more: u64, bytes: u64) {
        if let Some([read, _]) = &mut self.bytes {
            *read = bytes;
        }
        self.add(more);
    }

    /// Sets the number of items done by earlier runs; they do not count towards the speed.
    pub(crate) fn resume(&mut self, earlier: u64) {
        self.first = earlier;
        self.set(earlier);
    }

    /// Sets the number of items done so far, those of earlier runs included.
    pub(crate) fn set(&mut self, done: u64) {
        self.done = done;
        let (rate, what, total) = (self.rate(), self.what, self.total);
        if let Some([read, bytes]) = self.bytes {
            let text = format!("{done} {what}, {rate:.0} a second");
            let fraction = (read as f64 / bytes.max(1) as f64).clamp(1e-9, 1.0);
            let left = self.started.elapsed().as_secs_f64() * (1.0 - fraction) / fraction;
            let line = || format!("{:.0} %, {text}, {left:.0} s left", 100.0 * fraction);
            self.status.show(read, Some(&text), line);
            return;
        }
        self.status.show(done, None, || match total {
            Some(total) => {
                let left = total.saturating_sub(done) as f64 / rate.max(1e-9);
                format!("{done} of {total} {what}, {rate:.0} a second, {left:.0} s left")
            }
            None => format!("{done} {what}, {rate:.0} a second"),
        });
    }

    /// Adds to the number of items done so far.
    pub(crate) fn add(&mut self, more: u64) {
        self.set(self.done + more);
    }

    /// Items per second in this run.
    fn rate(&self) -> f64 {
        self.done.saturating_sub(self.first) as f64 / self.started.elapsed().as_secs_f64().max(1e-3)
    }

    /// Removes the bar and returns a summary: items, seconds, items per second.
    pub(crate) fn finish(self) -> String {
        self.status.finish();
        let seconds = self.started.elapsed().as_secs_f64();
        format!("{} {} in {seconds:.1} s, {:.0} a second", self.done, self.what, self.rate())
    }
}
