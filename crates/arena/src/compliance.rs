//! Strict checks of a UCI engine: what a match runner, a GUI or a player relies on, from the handshake to the
//! last millisecond of a clock.
//!
//! [`Compliance::run`] starts the engine, asks it questions and plays it against itself, and checks every line
//! that it prints. Nothing here is specific to Tandem: an engine that fails a check of a [`Report`] breaks a
//! rule of the protocol or contradicts itself.

mod info_line;
mod parts;
mod questions;
mod report;
mod search_check;
mod session;

pub use report::{Check, Report, Tally};

use crate::{EngineSpec, Fault, StartError, Timeouts};
use session::Session;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tandem_util::random::SplitMix;

/// An engine to check, with the amounts and the tolerances.
#[derive(Clone, Debug)]
pub struct Compliance {
    /// The engine, with the limits of its games.
    pub spec: EngineSpec,
    /// Number of searches of random positions.
    pub searches: usize,
    /// Number of games of the engine against itself; every third is Chess960 if the engine plays it.
    pub games: usize,
    /// Number of games at the same time, each with a process of its own.
    pub concurrency: usize,
    /// Seed of positions, limits and option values.
    pub seed: u64,
    /// Time by which a move may be late.
    pub margin: Duration,
    /// Longest time until `readyok` during a search.
    pub ready: Duration,
    /// Longest waits for the engine's start.
    pub timeouts: Timeouts,
    /// True if an option weakens the engine on purpose, so that its move need not be that of its first line.
    pub weakened: bool,
    /// Names of options that are not set, for example because a value needs a file.
    pub skip_options: Vec<String>,
}

/// A part of the checks.
type Part = fn(&mut Session, &mut SplitMix) -> Result<(), Fault>;

impl Compliance {
    /// Makes all checks; `progress` is called after each part and each game. If `cancel` is set meanwhile, the
    /// report covers what has been done.
    ///
    /// # Errors
    ///
    /// Fails if the engine cannot be started. Its later failures are in the report.
    pub fn run(
        &self,
        cancel: &AtomicBool,
        progress: &(dyn Fn(&Report) + Sync),
    ) -> Result<Report, StartError> {
        let mut report = Report::default();
        let parts: [Part; 4] = [
            |session, random| session.check_protocol(random),
            |session, random| session.check_searches(random),
            |session, random| session.check_clocks(random),
            |session, random| session.check_options(random),
        ];
        for (n, part) in parts.into_iter().enumerate() {
            let mut session = Session::start(self, cancel)?;
            let outcome = part(&mut session, &mut SplitMix::new(self.seed + n as u64));
            count_fault(&mut session.report, outcome);
            report.merge(session.report);
            progress(&report);
            if cancel.load(Ordering::Relaxed) {
                return Ok(report);
            }
        }
        self.check_ends(cancel, &mut report)?;
        self.play_games(cancel, &mut report, progress)?;
        Ok(report)
    }

    fn check_ends(&self, cancel: &AtomicBool, report: &mut Report) -> Result<(), StartError> {
        for (command, what) in [
            (Some("quit\n"), "quit"),
            (Some("go infinite\nquit\n"), "quit during a search"),
            (None, "end of input"),
        ] {
            report.merge(Session::start(self, cancel)?.end(command, what));
        }
        let mut session = Session::start(self, cancel)?;
        match session.send("go infinite\n") {
            Ok(()) => report.merge(session.end(None, "end of input during a search")),
            fault => count_fault(report, fault),
        }
        Ok(())
    }

    fn play_games(
        &self,
        cancel: &AtomicBool,
        report: &mut Report,
        progress: &(dyn Fn(&Report) + Sync),
    ) -> Result<(), StartError> {
        let next = AtomicUsize::new(0);
        let total = Mutex::new(std::mem::take(report));
        let play = || -> Result<(), StartError> {
            let mut session = None;
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= self.games || cancel.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let mut running = match session.take() {
                    Some(running) => running,
                    None => Session::start(self, cancel)?,
                };
                // Each game has random numbers of its own, so that it does not depend on the others.
                let mut random = SplitMix::new(self.seed.wrapping_add(1000 + n as u64));
                let chess960 = n % 3 == 2 && running.has_option("UCI_Chess960");
                let outcome = running.play_game(chess960, &mut random);
                let is_usable = outcome.is_ok();
                count_fault(&mut running.report, outcome);
                let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                total.merge(std::mem::take(&mut running.report));
                progress(&total);
                session = is_usable.then_some(running);
            }
        };
        let outcomes = thread::scope(|scope| {
            let threads: Vec<_> = (0..self.concurrency.max(1)).map(|_| scope.spawn(play)).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined
                .map(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Vec<_>>()
        });
        *report = total.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcomes.into_iter().find(Result::is_err).unwrap_or(Ok(()))
    }
}

/// Counts the end of a part, whose failure is a crash or a hang.
fn count_fault(report: &mut Report, outcome: Result<(), Fault>) {
    if let Err(Fault::Cancelled) = outcome {
        return;
    }
    let failure = outcome.err();
    report.check(Check::Alive, failure.is_none(), || {
        failure.map(|fault| fault.to_string()).unwrap_or_default()
    });
}
