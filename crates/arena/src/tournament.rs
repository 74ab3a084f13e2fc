//! Matches: many games at once between two or more engines, with state on disk so that they can be resumed.

mod identity;
mod recorder;
mod slot;

use crate::journal::{JournalError, MatchHeader};
use crate::schedule::{Schedule, TournamentFormat};
use crate::standings::{GameResult, Standings};
use crate::{Book, BookOrder, EngineSpec, GameRules, Overhead, StartError, Timeouts, affinity, start_player};
use recorder::MatchRecorder;
use slot::{MatchContext, Slot, SlotMessage};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Error that prevents a match, or ends it early.
#[derive(Debug, Error)]
pub enum TournamentError {
    /// An engine does not start, or keeps failing to start during the match.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The state file or the PGN cannot be read or written, or belongs to another match.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The engine named here does not support Chess960, which the match requires.
    #[error("engine {0} has no option UCI_Chess960, so it cannot play --chess960")]
    NoChess960(String),
    /// The book has positions that only exist in Chess960, but the match is not a Chess960 match.
    #[error("the opening book has Chess960 positions: add --chess960, or take another book")]
    BookNeedsChess960,
    /// The schedule is empty, because there are not enough engines for the format.
    #[error("a match needs at least two engines, and a gauntlet one on each side")]
    TooFewEngines,
    /// The operating system cannot start another thread.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// Complete description of a match: engines, openings, rules and output files.
#[derive(Clone, Debug)]
pub struct Tournament {
    /// Engines that take part; results refer to them by index.
    pub engines: Vec<EngineSpec>,
    /// Selection of the pairings: round robin or gauntlet.
    pub format: TournamentFormat,
    /// Number of games of each pairing, rounded up to whole pairs of games.
    pub games: usize,
    /// Openings from which the games start.
    pub book: Book,
    /// Path of the book, which the state file records and which must not change between runs; `None` for the
    /// standard position.
    pub book_path: Option<PathBuf>,
    /// Order in which the openings are played, as the state file records it.
    pub book_order: BookOrder,
    /// Rules of all games: adjudication, tablebases and Chess960.
    pub rules: GameRules,
    /// Number of games played at once, at least 1.
    pub concurrency: usize,
    /// True to bind each game to processors of its own; without effect if there are not enough of them.
    pub affinity: bool,
    /// Timeouts for the engine's answers that no chess clock limits, for example to `isready`.
    pub timeouts: Timeouts,
    /// PGN file to which the games are appended; `None` to discard them.
    pub pgn: Option<PathBuf>,
    /// State file, which makes the match resumable; `None` for a match without one.
    pub state: Option<PathBuf>,
    /// Value of the `Event` tag in the PGN.
    pub event: String,
}

/// Callbacks by which a program follows a match and can end it. The default implementations do nothing.
pub trait Observer {
    /// Called before [`Self::started`] with each sentence that the user should read about the state file, for
    /// example that a damaged entry at its end was removed.
    fn notice(&mut self, _text: &str) {}

    /// Called before the first game with the engines' names, the results of earlier runs and the total number
    /// of games. Returning false plays no further games.
    fn started(&mut self, _standings: &Standings, _total: usize) -> bool {
        true
    }

    /// Called after each game. Returning false ends the match, and games in progress are abandoned.
    fn finished(&mut self, _standings: &Standings, _result: &GameResult) -> bool {
        true
    }

    /// Called about ten times a second while no game ends, so that a display can be updated.
    fn tick(&mut self, _standings: &Standings) {}
}

/// Results and costs of a match after the end of a run.
#[derive(Clone, Debug)]
pub struct MatchReport {
    /// All results, those of earlier runs of a resumed match included.
    pub standings: Standings,
    /// Number of games in the schedule; more than were played if the match ended early.
    pub total: usize,
    /// Time that the arena itself needed between moves, over all games of this run.
    pub overhead: Overhead,
    /// Wall-clock time of this run, earlier runs of a resumed match excluded.
    pub wall: Duration,
    /// Processor time of this process during the run, without that of external engines.
    pub cpu: Duration,
    /// True if games were bound to processors of their own.
    pub bound: bool,
    /// Number of games that were played at the same time, at most.
    pub slots: usize,
    /// True if an engine ran within this process, so that `cpu` includes its processor time.
    pub in_process: bool,
}

impl Tournament {
    /// Starts every engine once, so that faults are found before the first game. Returns their names, made
    /// unique by numbers where two engines have the same.
    fn check_engines(&self, cancel: &Arc<AtomicBool>) -> Result<Vec<String>, TournamentError> {
        let mut names: Vec<String> = Vec::new();
        for spec in &self.engines {
            let player = start_player(spec, self.timeouts, cancel)?;
            if self.rules.chess960 && !player.plays_chess960() {
                return Err(TournamentError::NoChess960(player.name().into()));
            }
            let mut name = player.name().to_owned();
            let mut copy = 1;
            while names.contains(&name) {
                copy += 1;
                name = format!("{} ({copy})", player.name());
            }
            names.push(name);
        }
        Ok(names)
    }

    /// Header of the state file. `pgn_start` is the offset in the PGN at which this match begins.
    fn header(&self, names: &[String], pgn_start: u64) -> MatchHeader {
        let mut settings = serde_json::Map::new();
        let mut set = |key: &str, value: serde_json::Value| settings.insert(key.into(), value);
        // A value that cannot be written as JSON would be recorded as absent; all of these can be written.
        set("engines", serde_json::to_value(&self.engines).unwrap_or_default());
        set("format", serde_json::to_value(self.format).unwrap_or_default());
        set("book", serde_json::to_value(&self.book_path).unwrap_or_default());
        set("book order", serde_json::to_value(self.book_order).unwrap_or_default());
        set("adjudication", serde_json::to_value(self.rules.adjudication).unwrap_or_default());
        set("tablebases", self.rules.tablebase.as_ref().map(|tables| tables.path()).into());
        set("chess960", self.rules.chess960.into());
        set("pgn", serde_json::to_value(&self.pgn).unwrap_or_default());
        // Names and paths stay the same when an engine is rebuilt or a book is replaced; their contents do
        // not.
        set("openings", format!("{} with hash {}", self.book.len(), self.book.fingerprint()).into());
        for (name, spec) in names.iter().zip(&self.engines) {
            set(&format!("program of {name}"), identity::program(spec).into());
            for (option, file) in identity::option_files(spec) {
                set(&format!("{option} of {name}"), file.into());
            }
        }
        MatchHeader { tandem_match: 2, names: names.to_vec(), settings, pgn_start }
    }

    /// Plays the match, or its remainder if the state file has results of an earlier run. Setting `cancel`
    /// ends it early; finished games are kept.
    ///
    /// # Errors
    ///
    /// Fails if an engine or a book does not fit the match, if an engine does not start, or if a file cannot
    /// be written.
    pub fn run(
        &self,
        cancel: &Arc<AtomicBool>,
        observer: &mut dyn Observer,
    ) -> Result<MatchReport, TournamentError> {
        let schedule = Schedule::new(self.engines.len(), self.format, self.games);
        if schedule.is_empty() {
            return Err(TournamentError::TooFewEngines);
        }
        if self.book.needs_chess960() && !self.rules.chess960 {
            return Err(TournamentError::BookNeedsChess960);
        }
        let names = self.check_engines(cancel)?;
        let mut recorder = MatchRecorder::open(self, names, schedule.len())?;
        recorder.notices().iter().for_each(|notice| observer.notice(notice));
        let keeps_playing = observer.started(&recorder.standings, schedule.len());
        let pending: VecDeque<usize> =
            (0..schedule.len()).filter(|&index| keeps_playing && !recorder.standings.has(index)).collect();
        let slots = self.concurrency.clamp(1, pending.len().max(1));
        let context = MatchContext {
            tournament: self,
            schedule: &schedule,
            pending: Mutex::new(pending),
            halt: AtomicBool::new(false),
            cancel,
            failed_starts: self.engines.iter().map(|_| AtomicUsize::new(0)).collect(),
        };
        let meetings = schedule.meetings().iter();
        let processors = meetings.map(|&(a, b)| processors(&self.engines[a], &self.engines[b])).max();
        let assignment = if self.affinity { affinity::assign(slots, processors.unwrap_or(1)) } else { None };

        let (started, cpu_before) = (Instant::now(), cpu_time());
        thread::scope(|scope| {
            // Both end with this closure, also if the observer panics, so that no slot plays on or blocks on
            // a full channel while the scope waits for it.
            let _halt = HaltAtEnd(&context);
            // The capacity is small, so that a slow disk slows the games down and no finished game waits long
            // to be saved.
            let (sender, messages) = mpsc::sync_channel(slots);
            for slot in 0..slots {
                let cpus = assignment.as_ref().and_then(|assignment| assignment.of(slot));
                let mut slot = Slot::new(&context, sender.clone());
                let builder = thread::Builder::new().name("game".into());
                let spawned = builder.spawn_scoped(scope, move || {
                    if let Some(cpus) = cpus {
                        affinity::bind(cpus);
                    }
                    slot.run();
                });
                spawned.map_err(TournamentError::Thread)?;
            }
            // From here on only the slots hold senders: if all of them end without a message, so does the
            // match.
            drop(sender);
            self.process_messages(&messages, slots, &context, &mut recorder, observer)
        })?;
        Ok(MatchReport {
            standings: recorder.standings,
            total: schedule.len(),
            overhead: recorder.overhead,
            wall: started.elapsed(),
            cpu: cpu_time().saturating_sub(cpu_before),
            bound: assignment.is_some(),
            slots,
            in_process: self.engines.iter().any(EngineSpec::is_in_process),
        })
    }

    /// Processes the messages of the slots until the last slot is done.
    fn process_messages(
        &self,
        messages: &Receiver<SlotMessage>,
        mut working: usize,
        context: &MatchContext,
        recorder: &mut MatchRecorder,
        observer: &mut dyn Observer,
    ) -> Result<(), TournamentError> {
        let mut failure = None;
        let mut can_save = true;
        while working > 0 {
            match messages.recv_timeout(Duration::from_millis(100)) {
                // A disk that was full may have space for the next game, but writing that one would hide the
                // missing one.
                Ok(SlotMessage::Finished(..)) if !can_save => {}
                Ok(SlotMessage::Finished(pairing, record, wall)) => {
                    match recorder.save(self, &pairing, &record, wall) {
                        Ok(result) => {
                            if !observer.finished(&recorder.standings, &result) {
                                context.halt();
                            }
                        }
                        Err(error) => {
                            can_save = false;
                            failure.get_or_insert(error);
                        }
                    }
                }
                Ok(SlotMessage::Failed(error)) => {
                    failure.get_or_insert(error);
                }
                Ok(SlotMessage::Idle) => working -= 1,
                Err(RecvTimeoutError::Timeout) => observer.tick(&recorder.standings),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if failure.is_some() || context.cancel.load(Ordering::Relaxed) {
                context.halt();
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

/// Number of processors that a game between two engines keeps busy: the engines think in turn, unless one
/// ponders.
fn processors(a: &EngineSpec, b: &EngineSpec) -> usize {
    let [a_threads, b_threads] = [a, b].map(EngineSpec::threads);
    if a.ponder || b.ponder { a_threads.saturating_add(b_threads) } else { a_threads.max(b_threads) }
}

/// Ends a match when it goes out of scope.
struct HaltAtEnd<'a>(&'a MatchContext<'a>);

impl Drop for HaltAtEnd<'_> {
    fn drop(&mut self) {
        self.0.halt();
    }
}

/// Processor time used by this process so far, without its children.
#[cfg(unix)]
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}

/// Processor time is not available on this system; always zero.
#[cfg(not(unix))]
pub fn cpu_time() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pondering_engine_needs_processors_of_its_own() {
        let spec = |text: &str| EngineSpec::parse(&format!("cmd=x,{text}"), "").unwrap();
        let (two, three) = (spec("option.Threads=2"), spec("option.Threads=3"));
        assert_eq!(processors(&two, &three), 3);
        assert_eq!(processors(&two, &spec("option.Threads=3,ponder=on")), 5);
        assert_eq!(processors(&spec("ponder=on"), &spec("option.Threads=18446744073709551615")), usize::MAX);
    }
}
