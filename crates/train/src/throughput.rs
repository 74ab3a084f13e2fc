//! Throughput of a run: positions per second, and the time spent in waiting for data.

use std::time::{Duration, Instant};

/// Start of a measurement of throughput.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Throughput {
    since: Instant,
    step: u64,
    waited: Duration,
}

impl Throughput {
    /// Starts a measurement now, after `step` steps and a total wait for data of `waited`.
    pub(crate) fn new(step: u64, waited: Duration) -> Self {
        Self { since: Instant::now(), step, waited }
    }

    /// Step at which the measurement began.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// Positions per second since the start, for steps of `batch` positions, and the fraction of that time
    /// spent in waiting for data.
    pub(crate) fn measure(&self, step: u64, waited: Duration, batch: usize) -> (f64, f64) {
        let seconds = self.since.elapsed().as_secs_f64().max(1e-9);
        let positions = (step - self.step) as f64 * batch as f64;
        (positions / seconds, (waited - self.waited).as_secs_f64() / seconds)
    }
}
