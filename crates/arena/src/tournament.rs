//! Many games at once, between two or more engines.

mod identity;
mod keeper;
mod slot;

use crate::journal::{Header, JournalError};
use crate::schedule::{Format, Schedule};
use crate::standings::{GameResult, Standings};
use crate::{Book, BookOrder, EngineSpec, GameRules, Overhead, Patience, StartError, affinity, start_player};
use keeper::Keeper;
use slot::{Message, Slot, Work};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Why a match could not be played, or not to its end.
#[derive(Debug, Error)]
pub enum TournamentError {
    /// An engine does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// State or PGN cannot be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// An engine cannot play Chess960.
    #[error("engine {0} has no option UCI_Chess960, so it cannot play --chess960")]
    NoChess960(String),
    /// A book for another game.
    #[error("the opening book has Chess960 positions: add --chess960, or take another book")]
    BookNeedsChess960,
    /// Not enough engines.
    #[error("a match needs at least two engines, and a gauntlet one on each side")]
    TooFewEngines,
    /// Something in the operating system.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// Everything about a match.
#[derive(Clone, Debug)]
pub struct Tournament {
    /// The engines.
    pub engines: Vec<EngineSpec>,
    /// Who meets whom.
    pub format: Format,
    /// Games of each meeting.
    pub games: usize,
    /// The openings.
    pub book: Book,
    /// Where they come from, for the state file.
    pub book_path: Option<PathBuf>,
    /// Their order.
    pub book_order: BookOrder,
    /// How games are played.
    pub rules: GameRules,
    /// Games at once.
    pub concurrency: usize,
    /// Whether games are bound to processors of their own, where there are enough.
    pub affinity: bool,
    /// How long engines may take where no clock says.
    pub patience: Patience,
    /// Where the games go.
    pub pgn: Option<PathBuf>,
    /// Where the state goes.
    pub state: Option<PathBuf>,
    /// PGN's `Event`.
    pub event: String,
}

/// What a match is watched through.
pub trait Observer {
    /// Before the first game: the names that the engines go by, those games already played, and how many there are
    /// in all. False if nothing is left to do.
    fn started(&mut self, _standings: &Standings, _total: usize) -> bool {
        true
    }

    /// After each game. False ends the match: the games under way are given up.
    fn finished(&mut self, _standings: &Standings, _result: &GameResult) -> bool {
        true
    }

    /// From time to time, so that a display can move.
    fn tick(&mut self, _standings: &Standings) {}
}

/// A match after its end.
#[derive(Clone, Debug)]
pub struct Report {
    /// All results.
    pub standings: Standings,
    /// Games that were to be played.
    pub total: usize,
    /// What the arena itself cost between moves.
    pub overhead: Overhead,
    /// Time from the first game to the last.
    pub wall: Duration,
    /// Processor time of this process, without the engines.
    pub cpu: Duration,
    /// Whether games were bound to processors.
    pub bound: bool,
    /// Games played at once.
    pub slots: usize,
    /// Whether an engine ran within this process, and so its processor time is part of ours.
    pub inside: bool,
}

impl Tournament {
    /// Starts every engine once, so that what is wrong with them is known before the first game. Returns their names,
    /// each different from the others.
    fn check_engines(&self, cancel: &Arc<AtomicBool>) -> Result<Vec<String>, TournamentError> {
        let mut names: Vec<String> = Vec::new();
        for spec in &self.engines {
            let player = start_player(spec, self.patience, cancel)?;
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

    /// What the state file says of the match. `pgn_start` is where its PGN begins.
    fn header(&self, names: &[String], pgn_start: u64) -> Header {
        let mut settings = serde_json::Map::new();
        let mut set = |key: &str, value: serde_json::Value| settings.insert(key.into(), value);
        // Whatever cannot be written as JSON is as good as absent; these types all can.
        set("engines", serde_json::to_value(&self.engines).unwrap_or_default());
        set("format", serde_json::to_value(self.format).unwrap_or_default());
        set("book", serde_json::to_value(&self.book_path).unwrap_or_default());
        set("book order", serde_json::to_value(self.book_order).unwrap_or_default());
        set("adjudication", serde_json::to_value(self.rules.adjudication).unwrap_or_default());
        set("tablebases", self.rules.tablebase.as_ref().map(|tables| tables.path()).into());
        set("chess960", self.rules.chess960.into());
        set("pgn", serde_json::to_value(&self.pgn).unwrap_or_default());
        // Names and paths stay the same when an engine is built anew or a book is replaced; what is in them does not.
        set("openings", format!("{} with hash {}", self.book.len(), self.book.fingerprint()).into());
        for (name, spec) in names.iter().zip(&self.engines) {
            set(&format!("program of {name}"), identity::program(spec).into());
            for (option, file) in identity::option_files(spec) {
                set(&format!("{option} of {name}"), file.into());
            }
        }
        Header { tandem_match: 2, names: names.to_vec(), settings, pgn_start }
    }

    /// Plays the match, or the rest of it. `cancel` ends it early; what was played is kept.
    pub fn run(
        &self,
        cancel: &Arc<AtomicBool>,
        observer: &mut dyn Observer,
    ) -> Result<Report, TournamentError> {
        let schedule = Schedule::new(self.engines.len(), self.format, self.games);
        if schedule.is_empty() {
            return Err(TournamentError::TooFewEngines);
        }
        if self.book.needs_chess960() && !self.rules.chess960 {
            return Err(TournamentError::BookNeedsChess960);
        }
        let names = self.check_engines(cancel)?;
        let mut keeper = Keeper::open(self, names, schedule.len())?;
        let goes_on = observer.started(&keeper.standings, schedule.len());
        let todo: VecDeque<usize> =
            (0..schedule.len()).filter(|&index| goes_on && !keeper.standings.has(index)).collect();
        let slots = self.concurrency.clamp(1, todo.len().max(1));
        let work = Work {
            tournament: self,
            schedule: &schedule,
            todo: Mutex::new(todo),
            halt: AtomicBool::new(false),
            cancel,
            failed_starts: self.engines.iter().map(|_| AtomicUsize::new(0)).collect(),
        };
        let meetings = schedule.meetings().iter();
        let processors = meetings.map(|&(a, b)| processors(&self.engines[a], &self.engines[b])).max();
        let places = if self.affinity { affinity::assign(slots, processors.unwrap_or(1)) } else { None };

        let (started, cpu_before) = (Instant::now(), cpu_time());
        thread::scope(|scope| {
            // Both end with this closure, be it by a panic of the observer: then no slot plays on, or waits to be
            // heard, while we wait for the slots.
            let _halt = HaltAtEnd(&work);
            // With little room, so that a slow disk slows the games down and no finished game waits long to be kept.
            let (sender, messages) = mpsc::sync_channel(slots);
            for slot in 0..slots {
                let place = places.as_ref().and_then(|places| places.of(slot));
                let mut slot = Slot::new(&work, sender.clone());
                let builder = thread::Builder::new().name("game".into());
                let spawned = builder.spawn_scoped(scope, move || {
                    if let Some(place) = place {
                        affinity::bind(place);
                    }
                    slot.run();
                });
                spawned.map_err(TournamentError::Thread)?;
            }
            // From here only slots send: should all of them end unheard, the match ends too.
            drop(sender);
            self.listen(&messages, slots, &work, &mut keeper, observer)
        })?;
        Ok(Report {
            standings: keeper.standings,
            total: schedule.len(),
            overhead: keeper.overhead,
            wall: started.elapsed(),
            cpu: cpu_time().saturating_sub(cpu_before),
            bound: places.is_some(),
            slots,
            inside: self.engines.iter().any(EngineSpec::is_inside),
        })
    }

    /// Hears what the slots report until the last of them is done.
    fn listen(
        &self,
        messages: &Receiver<Message>,
        mut working: usize,
        work: &Work,
        keeper: &mut Keeper,
        observer: &mut dyn Observer,
    ) -> Result<(), TournamentError> {
        let mut failure = None;
        let mut can_keep = true;
        while working > 0 {
            match messages.recv_timeout(Duration::from_millis(100)) {
                // A disk that was full once may take the next game, but that would hide that one is missing.
                Ok(Message::Finished(..)) if !can_keep => {}
                Ok(Message::Finished(pairing, record, wall)) => {
                    match keeper.keep(self, &pairing, &record, wall) {
                        Ok(result) => {
                            if !observer.finished(&keeper.standings, &result) {
                                work.halt();
                            }
                        }
                        Err(error) => {
                            can_keep = false;
                            failure.get_or_insert(error);
                        }
                    }
                }
                Ok(Message::Failed(error)) => {
                    failure.get_or_insert(error);
                }
                Ok(Message::Idle) => working -= 1,
                Err(RecvTimeoutError::Timeout) => observer.tick(&keeper.standings),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if failure.is_some() || work.cancel.load(Ordering::Relaxed) {
                work.halt();
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

/// Processors that a game between two engines keeps busy: they think in turn, unless one of them ponders.
fn processors(a: &EngineSpec, b: &EngineSpec) -> usize {
    let [a_threads, b_threads] = [a, b].map(EngineSpec::threads);
    if a.ponder || b.ponder { a_threads.saturating_add(b_threads) } else { a_threads.max(b_threads) }
}

/// Ends a match when it goes out of scope.
struct HaltAtEnd<'a>(&'a Work<'a>);

impl Drop for HaltAtEnd<'_> {
    fn drop(&mut self) {
        self.0.halt();
    }
}

/// Processor time that this process used, without its children.
#[cfg(unix)]
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}

/// Not known elsewhere.
#[cfg(not(unix))]
pub fn cpu_time() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ponders_needs_processors_of_its_own() {
        let spec = |text: &str| EngineSpec::parse(&format!("cmd=x,{text}"), "").unwrap();
        let (two, three) = (spec("option.Threads=2"), spec("option.Threads=3"));
        assert_eq!(processors(&two, &three), 3);
        assert_eq!(processors(&two, &spec("option.Threads=3,ponder=on")), 5);
        assert_eq!(processors(&spec("ponder=on"), &spec("option.Threads=18446744073709551615")), usize::MAX);
    }
}
