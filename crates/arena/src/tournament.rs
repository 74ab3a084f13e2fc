//! Many games at once, between two or more engines.

use crate::journal::{Header, Journal, JournalError, PgnFile};
use crate::schedule::{Format, Pairing, Schedule};
use crate::standings::{GameResult, Standings};
use crate::{
    Book, BookOrder, EngineSpec, GameRecord, GameRules, Overhead, Patience, Player, StartError, affinity,
    play_game, record, start_player,
};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tandem_chess::Color;
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

enum Message {
    Finished(Pairing, Box<GameRecord>, Duration),
    Failed(TournamentError),
    Idle,
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

    fn header(&self, names: Vec<String>) -> Header {
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
        let pgn_start = self.pgn.as_deref().map_or(0, PgnFile::length);
        Header { tandem_match: 1, names, settings, pgn_start }
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
        let mut keeper = Keeper::open(self, names)?;
        let todo: VecDeque<usize> = if observer.started(&keeper.standings, schedule.len()) {
            (0..schedule.len()).filter(|&index| !keeper.standings.has(index)).collect()
        } else {
            VecDeque::new()
        };
        let slots = self.concurrency.clamp(1, todo.len().max(1));
        let threads = self.engines.iter().map(EngineSpec::threads).max().unwrap_or(1);
        let places = if self.affinity { affinity::assign(slots, threads) } else { None };
        let bound = places.is_some();

        let todo = Mutex::new(todo);
        let halt = AtomicBool::new(false);
        // With little room, so that a slow disk slows the games down and no finished game waits long to be kept.
        let (sender, messages) = mpsc::sync_channel(slots);
        let (started, cpu_before) = (Instant::now(), cpu_time());
        let mut overhead = Overhead::default();
        let outcome = thread::scope(|scope| {
            for slot in 0..slots {
                let place = places.as_ref().and_then(|places| places.of(slot));
                let mut slot = Slot {
                    tournament: self,
                    schedule: &schedule,
                    todo: &todo,
                    halt: &halt,
                    cancel,
                    sender: sender.clone(),
                    players: HashMap::new(),
                };
                let builder = thread::Builder::new().name("game".into());
                let spawned = builder.spawn_scoped(scope, move || {
                    if let Some(place) = place {
                        affinity::bind(place);
                    }
                    slot.run();
                });
                if let Err(error) = spawned {
                    halt.store(true, Ordering::Relaxed);
                    return Err(TournamentError::Thread(error));
                }
            }
            // From here only slots send: should all of them end unheard, the match ends too.
            drop(sender);
            let mut working = slots;
            let mut failure = None;
            while working > 0 {
                match messages.recv_timeout(Duration::from_millis(100)) {
                    Ok(Message::Finished(pairing, record, wall)) => {
                        overhead.add(&record.overhead);
                        match keeper.keep(self, &pairing, &record, wall) {
                            Ok(result) => {
                                if !observer.finished(&keeper.standings, &result) {
                                    halt.store(true, Ordering::Relaxed);
                                }
                            }
                            Err(error) => {
                                halt.store(true, Ordering::Relaxed);
                                failure.get_or_insert(error);
                            }
                        }
                    }
                    Ok(Message::Failed(error)) => {
                        halt.store(true, Ordering::Relaxed);
                        failure.get_or_insert(error);
                    }
                    Ok(Message::Idle) => working -= 1,
                    Err(RecvTimeoutError::Timeout) => observer.tick(&keeper.standings),
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if cancel.load(Ordering::Relaxed) {
                    halt.store(true, Ordering::Relaxed);
                }
            }
            failure.map_or(Ok(()), Err)
        });
        outcome?;
        Ok(Report {
            standings: keeper.standings,
            total: schedule.len(),
            overhead,
            wall: started.elapsed(),
            cpu: cpu_time().saturating_sub(cpu_before),
            bound,
            slots,
            inside: self.engines.iter().any(EngineSpec::is_inside),
        })
    }
}

/// A thread that plays one game after another, with its own engines.
struct Slot<'a> {
    tournament: &'a Tournament,
    schedule: &'a Schedule,
    todo: &'a Mutex<VecDeque<usize>>,
    halt: &'a AtomicBool,
    cancel: &'a Arc<AtomicBool>,
    sender: SyncSender<Message>,
    players: HashMap<usize, Box<dyn Player>>,
}

impl Slot<'_> {
    fn run(&mut self) {
        while !self.halt.load(Ordering::Relaxed) {
            let next = self.todo.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(index) = next else { break };
            let message = match self.play(self.schedule.game(index)) {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => Message::Failed(error.into()),
            };
            if self.sender.send(message).is_err() {
                break;
            }
        }
        self.players.clear();
        let _ = self.sender.send(Message::Idle);
    }

    fn play(&mut self, pairing: Pairing) -> Result<Option<Message>, StartError> {
        let started = Instant::now();
        let specs = &self.tournament.engines;
        let (white, black) = (pairing.white, pairing.black);
        self.players.retain(|engine, player| {
            player.is_well() && !specs[*engine].restart && (*engine == white || *engine == black)
        });
        let mut take = |engine: usize| match self.players.remove(&engine) {
            Some(player) => Ok(player),
            None => start_player(&specs[engine], self.tournament.patience, self.cancel),
        };
        let (mut first, mut second) = (take(white)?, take(black)?);
        let (_, opening) = self.tournament.book.opening(pairing.round);
        let record = play_game(
            [&mut *first, &mut *second],
            [specs[white].limits, specs[black].limits],
            opening,
            &self.tournament.rules,
            self.halt,
        );
        self.players.insert(white, first);
        self.players.insert(black, second);
        Ok(record.map(|record| Message::Finished(pairing, Box::new(record), started.elapsed())))
    }
}

/// Keeps what was played: in memory, in the PGN, and in the state file.
struct Keeper {
    standings: Standings,
    journal: Option<Journal>,
    pgn: Option<PgnFile>,
}

impl Keeper {
    fn open(tournament: &Tournament, names: Vec<String>) -> Result<Self, TournamentError> {
        let header = tournament.header(names.clone());
        let mut standings = Standings::new(names);
        let state = tournament.state.as_deref();
        let (journal, pgn_end) = match state {
            Some(path) => {
                let (journal, results, pgn_end) = Journal::open(path, &header)?;
                results.into_iter().for_each(|result| standings.add(result));
                (Some(journal), pgn_end)
            }
            None => (None, header.pgn_start),
        };
        let pgn = tournament.pgn.as_deref().map(|path| PgnFile::open(path, pgn_end, state)).transpose()?;
        Ok(Self { standings, journal, pgn })
    }

    fn keep(
        &mut self,
        tournament: &Tournament,
        pairing: &Pairing,
        record: &GameRecord,
        wall: Duration,
    ) -> Result<GameResult, TournamentError> {
        let names = [pairing.white, pairing.black].map(|engine| self.standings.names[engine].as_str());
        let limits = [pairing.white, pairing.black].map(|engine| tournament.engines[engine].limits);
        let pgn_end = match &mut self.pgn {
            Some(pgn) => {
                let heading = record::Heading {
                    event: &tournament.event,
                    round: format!("{}.{}", pairing.round + 1, pairing.index % 2 + 1),
                    names,
                    limits,
                    chess960: tournament.rules.chess960,
                };
                pgn.append(&record::to_pgn(record, &heading))?
            }
            None => 0,
        };
        let result = GameResult {
            index: pairing.index,
            white: pairing.white,
            black: pairing.black,
            opening: tournament.book.opening(pairing.round).0,
            outcome: record.outcome,
            termination: record.termination,
            details: record.details.clone(),
            culprit: record
                .culprit
                .map(|side| if side == Color::White { pairing.white } else { pairing.black }),
            plies: record.moves.len(),
            seconds: wall.as_secs_f64(),
            pgn_end,
        };
        if let Some(journal) = &mut self.journal {
            journal.add(&result)?;
        }
        self.standings.add(result.clone());
        Ok(result)
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
