//! What a person sees of a run: a bar on a terminal, a line now and then elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

pub(super) struct Display {
    bar: Option<ProgressBar>,
    batch: u64,
    steps: u64,
    told: Instant,
}

/// Time between two plain lines.
const PAUSE: Duration = Duration::from_secs(10);

impl Display {
    pub(super) fn new(batch: u64) -> Self {
        Self { bar: None, batch, steps: 0, told: Instant::now() }
    }

    /// The run begins, or goes on, at a step of so many.
    pub(super) fn begin(&mut self, step: u64, steps: u64) {
        self.steps = steps;
        if step > 0 {
            sayln!("going on from step {step}");
        }
        if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{wide_bar} {percent}% {msg}, {eta} left");
            // A template that is ours cannot be wrong; were it, the usual one would do.
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(steps).with_style(style).with_position(step);
            bar.reset_eta();
            self.bar = Some(bar);
        }
    }

    /// Some steps are done.
    pub(super) fn steps(&mut self, step: u64, losses: &str, rate: f64, speed: f64, waiting: f64) {
        let line = format!("{losses}, rate {rate:.2e}, {} positions a second", thousands(speed));
        match &self.bar {
            Some(bar) => {
                bar.set_position(step);
                bar.set_message(line);
            }
            None if self.told.elapsed() >= PAUSE => {
                self.told = Instant::now();
                let left = (self.steps - step) as f64 * self.batch as f64 / speed.max(1.0);
                tellln!(
                    "step {step} of {}: {line}, {:.0} % of it waiting for data, {left:.0} s left",
                    self.steps,
                    waiting * 100.0
                );
            }
            None => {}
        }
    }

    /// A look at the validation data.
    pub(super) fn validated(&mut self, step: u64, figures: &str, is_best: bool) {
        let best = if is_best { ", the best so far" } else { "" };
        let line = format!("step {step}: {figures}{best}");
        match &self.bar {
            Some(bar) => bar.println(line),
            None => sayln!("{line}"),
        }
    }

    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A number that is read at a glance: 1.23 M, 456 k.
fn thousands(number: f64) -> String {
    match number {
        1e6.. => format!("{:.2} M", number / 1e6),
        1e3.. => format!("{:.0} k", number / 1e3),
        _ => format!("{number:.0}"),
    }
}
