//! Progress of a training run: a bar on a terminal, otherwise a line every ten seconds.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use tandem_train::Event;

pub(super) struct Display {
    bar: Option<ProgressBar>,
    batch: u64,
    steps: u64,
    last_line: Instant,
}

/// Time between two plain lines where standard error is not a terminal.
const PAUSE: Duration = Duration::from_secs(10);

impl Display {
    pub(super) fn new(batch: u64) -> Self {
        Self { bar: None, batch, steps: 0, last_line: Instant::now() }
    }

    /// Shows what has happened in a run.
    pub(super) fn show(&mut self, event: Event<'_>) {
        match event {
            Event::Preparing { .. } => {}
            Event::Begin { step, steps, baseline } => {
                for (head, loss) in baseline {
                    outln!("{head}: baseline cross-entropy (label entropy): {loss:.4}");
                }
                self.begin(step, steps);
            }
            Event::Steps { step, metrics, lr, positions_per_second, data_wait } => {
                let line = format!(
                    "loss {:.6}, lr {lr:.2e}, {} positions a second",
                    metrics.loss,
                    thousands(positions_per_second)
                );
                self.steps(step, line, positions_per_second, data_wait);
            }
            Event::Skipped { count, examples } => {
                errln!("{count} broken records were skipped so far; the first of them:");
                for example in examples {
                    errln!("  {example}");
                }
            }
            Event::Validated { step, metrics, loss, is_best } => {
                self.validated(step, &metrics.summary(Some(loss)), is_best);
            }
        }
    }

    /// Starts the display of a new or resumed run, at `step` of `steps`.
    fn begin(&mut self, step: u64, steps: u64) {
        self.steps = steps;
        if step > 0 {
            outln!("resuming at step {step}");
        }
        if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{wide_bar} {percent}% {msg}, {eta} left");
            // The template is fixed and valid; the default style is only a fallback.
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(steps).with_style(style).with_position(step);
            bar.reset_eta();
            self.bar = Some(bar);
        }
    }

    /// Shows a line after some steps. `data_wait` is the fraction of the time, from 0 to 1, that training spent
    /// waiting for data.
    fn steps(&mut self, step: u64, line: String, speed: f64, data_wait: f64) {
        match &self.bar {
            Some(bar) => {
                bar.set_position(step);
                bar.set_message(line);
            }
            None if self.last_line.elapsed() >= PAUSE => {
                self.last_line = Instant::now();
                let left = (self.steps - step) as f64 * self.batch as f64 / speed.max(1.0);
                errln!(
                    "step {step} of {}: {line}, {:.0} % of the time waiting for data, {left:.0} s left",
                    self.steps,
                    data_wait * 100.0
                );
            }
            None => {}
        }
    }

    /// Prints the metrics of a validation pass.
    fn validated(&mut self, step: u64, metrics: &str, is_best: bool) {
        let best = if is_best { ", the best so far" } else { "" };
        let line = format!("step {step}: {metrics}{best}");
        match &self.bar {
            Some(bar) => bar.println(line),
            None => outln!("{line}"),
        }
    }

    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A number rounded for reading at a glance, for example 1.23 M or 456 k.
fn thousands(value: f64) -> String {
    match value {
        1e6.. => format!("{:.2} M", value / 1e6),
        1e3.. => format!("{:.0} k", value / 1e3),
        _ => format!("{value:.0}"),
    }
}
