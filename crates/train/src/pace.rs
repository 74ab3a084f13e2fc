//! How fast a run goes.

use std::time::{Duration, Instant};

/// A moment of a run, from which its pace is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    since: Instant,
    step: u64,
    waited: Duration,
}

impl Pace {
    /// Now, after so many steps and so long a wait for data.
    pub(crate) fn new(step: u64, waited: Duration) -> Self {
        Self { since: Instant::now(), step, waited }
    }

    /// Steps that had been made.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// Positions a second since then, if a step has so many, and the share of the time in which data was waited for.
    pub(crate) fn tell(&self, step: u64, waited: Duration, batch: usize) -> (f64, f64) {
        let seconds = self.since.elapsed().as_secs_f64().max(1e-9);
        let positions = (step - self.step) as f64 * batch as f64;
        (positions / seconds, (waited - self.waited).as_secs_f64() / seconds)
    }
}
