//! Progress of a training run: steps, losses and speed.

use crate::progress::StatusLine;
use tandem_train::Event;

/// Size of all checkpoints in bytes from which it is announced at the start of a run.
const LARGE_RUN: u64 = 100_000_000;

pub(super) struct Display {
    /// `None` until the run begins.
    status: Option<StatusLine>,
    batch: u64,
    steps: u64,
}

impl Display {
    pub(super) fn new(batch: u64) -> Self {
        Self { status: None, batch, steps: 0 }
    }

    /// Shows what has happened in a run.
    pub(super) fn show(&mut self, event: Event<'_>) {
        match event {
            Event::Notice(text) => errln!("{text}"),
            Event::Preparing { .. } => {}
            Event::Begin { step, steps, checkpoint_size, checkpoints, baseline } => {
                if checkpoint_size * checkpoints >= LARGE_RUN {
                    let [all, each] = [checkpoint_size * checkpoints, checkpoint_size].map(megabytes);
                    outln!("up to {all} on the disk: {checkpoints} checkpoints of {each} (`training.keep`)");
                }
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
                self.steps(step, &line, positions_per_second, data_wait);
            }
            Event::Skipped { count, examples } => {
                errln!("{count} broken records were skipped so far; the first of them:");
                for example in examples {
                    errln!("  {example}");
                }
            }
            Event::ManyEpochs { epochs } => errln!(
                "this run reads its data {epochs:.0} times, and will learn it by heart: use more data, or reduce \
                 `training.positions`"
            ),
            Event::Trained { step, training } => {
                self.print(step, &format!("training loss {:.6}", training.loss), training.epochs);
            }
            Event::Validated { step, training, metrics, loss, is_best } => {
                let best = if is_best { ", the best so far" } else { "" };
                let metrics = metrics.summary(Some(loss));
                self.print(
                    step,
                    &format!("{metrics}{best}; training loss {:.6}", training.loss),
                    training.epochs,
                );
            }
        }
    }

    /// Starts the display of a new or resumed run, at `step` of `steps`.
    fn begin(&mut self, step: u64, steps: u64) {
        self.steps = steps;
        if step > 0 {
            outln!("resuming at step {step}");
        }
        self.status = Some(StatusLine::new("{wide_bar} {percent}% {msg}, {eta} left", step, Some(steps)));
    }

    /// Shows a line after some steps. `data_wait` is the fraction of the time, from 0 to 1, that training spent
    /// waiting for data.
    fn steps(&mut self, step: u64, line: &str, speed: f64, data_wait: f64) {
        let Some(status) = &mut self.status else { return };
        status.show(step, Some(line), || {
            let left = (self.steps - step) as f64 * self.batch as f64 / speed.max(1.0);
            let wait = data_wait * 100.0;
            let steps = self.steps;
            format!(
                "step {step} of {steps}: {line}, {wait:.0} % of the time waiting for data, {left:.0} s left"
            )
        });
    }

    /// Prints the losses at a step, and the passes over the data after the first one.
    fn print(&mut self, step: u64, losses: &str, epochs: Option<f64>) {
        let epochs = epochs.map_or_else(String::new, |epochs| format!(", {epochs:.1} epochs"));
        let line = format!("step {step}: {losses}{epochs}");
        match &self.status {
            Some(status) => status.print(&line),
            None => outln!("{line}"),
        }
    }

    pub(super) fn finish(self) {
        if let Some(status) = self.status {
            status.finish();
        }
    }
}

/// A size in bytes, for example 255 MB or 1.3 GB.
fn megabytes(bytes: u64) -> String {
    match bytes {
        1_000_000_000.. => format!("{:.1} GB", bytes as f64 / 1e9),
        _ => format!("{:.0} MB", bytes as f64 / 1e6),
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
