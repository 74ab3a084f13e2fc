//! A thread that plays one game after another, with engines of its own.

use super::{Tournament, TournamentError};
use crate::game::forfeit_unplayed;
use crate::schedule::{Pairing, Schedule};
use crate::{Fault, GameRecord, Player, StartError, play_game, start_player};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Pauses before another attempt to start an engine, because a machine that is short of memory or processes
/// may have recovered by then.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];
/// Consecutive games that an engine may lose because it does not start. After these the match ends, because
/// the engine is not expected to recover.
const MAX_FAILED_STARTS: usize = 5;

/// Message of a slot to the main thread of the match.
pub(super) enum SlotMessage {
    Finished(Pairing, Box<GameRecord>, Duration),
    Failed(TournamentError),
    Idle,
}

/// Data shared by all slots of a match.
pub(super) struct MatchContext<'a> {
    pub(super) tournament: &'a Tournament,
    pub(super) schedule: &'a Schedule,
    pub(super) pending: Mutex<VecDeque<usize>>,
    /// Set when the match ends; games in progress are then abandoned.
    pub(super) halt: AtomicBool,
    pub(super) cancel: &'a Arc<AtomicBool>,
    /// Consecutive games that each engine lost because it did not start.
    pub(super) failed_starts: Vec<AtomicUsize>,
}

impl MatchContext<'_> {
    pub(super) fn halt(&self) {
        self.halt.store(true, Ordering::Relaxed);
    }

    fn is_halted(&self) -> bool {
        self.halt.load(Ordering::Relaxed)
    }
}

pub(super) struct Slot<'a> {
    context: &'a MatchContext<'a>,
    sender: SyncSender<SlotMessage>,
    /// Running engines that wait for their next game. They stay up for the whole match: in a gauntlet the
    /// opponent changes with every pair, and starting an engine takes longer than many games.
    players: HashMap<usize, Box<dyn Player>>,
}

impl<'a> Slot<'a> {
    pub(super) fn new(context: &'a MatchContext<'a>, sender: SyncSender<SlotMessage>) -> Self {
        Self { context, sender, players: HashMap::new() }
    }

    pub(super) fn run(&mut self) {
        while !self.context.is_halted() {
            let next = self.context.pending.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(index) = next else { break };
            let pairing = self.context.schedule.game(index);
            let started = Instant::now();
            let message = match self.play(&pairing) {
                Ok(Some(record)) => SlotMessage::Finished(pairing, Box::new(record), started.elapsed()),
                Ok(None) => break,
                Err(error) => SlotMessage::Failed(error.into()),
            };
            if self.sender.send(message).is_err() {
                break;
            }
        }
        self.players.clear();
        let _ = self.sender.send(SlotMessage::Idle);
    }

    /// Plays one game. Returns `None` if it was cancelled, and an error if an engine failed to start for too
    /// many consecutive games.
    fn play(&mut self, pairing: &Pairing) -> Result<Option<GameRecord>, StartError> {
        let Tournament { engines, book, rules, .. } = self.context.tournament;
        let (_, opening) = book.opening(pairing.round);
        let mut white = match self.take(pairing.white)? {
            Ok(player) => player,
            Err(fault) => return Ok(forfeit_unplayed(opening, rules, tandem_chess::Color::White, fault)),
        };
        let mut black = match self.take(pairing.black)? {
            Ok(player) => player,
            Err(fault) => {
                self.put_back(pairing.white, white);
                return Ok(forfeit_unplayed(opening, rules, tandem_chess::Color::Black, fault));
            }
        };
        let limits = [pairing.white, pairing.black].map(|engine| engines[engine].limits);
        let record = play_game([&mut *white, &mut *black], limits, opening, rules, &self.context.halt);
        self.put_back(pairing.white, white);
        self.put_back(pairing.black, black);
        Ok(record)
    }

    /// Returns an engine that is ready to play, or its fault if it does not start.
    fn take(&mut self, engine: usize) -> Result<Result<Box<dyn Player>, Fault>, StartError> {
        if let Some(player) = self.players.remove(&engine) {
            return Ok(Ok(player));
        }
        let failed = &self.context.failed_starts[engine];
        match self.start(engine) {
            Ok(player) => {
                failed.store(0, Ordering::Relaxed);
                Ok(Ok(player))
            }
            Err(StartError::Cancelled { .. }) => Ok(Err(Fault::Cancelled)),
            Err(_) if self.context.is_halted() => Ok(Err(Fault::Cancelled)),
            Err(error) if failed.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_FAILED_STARTS => Err(error),
            Err(error @ StartError::Silent { .. }) => Ok(Err(Fault::Hang(format!("did not start: {error}")))),
            Err(error) => Ok(Err(Fault::Crash(format!("did not start: {error}")))),
        }
    }

    fn start(&self, engine: usize) -> Result<Box<dyn Player>, StartError> {
        let Tournament { engines, timeouts: patience, .. } = self.context.tournament;
        let start = || start_player(&engines[engine], *patience, self.context.cancel);
        let mut started = start();
        for pause in PAUSES {
            if matches!(started, Ok(_) | Err(StartError::Cancelled { .. })) || self.context.is_halted() {
                break;
            }
            thread::sleep(pause);
            started = start();
        }
        started
    }

    /// Stores an engine for its next game, if it can play one.
    fn put_back(&mut self, engine: usize, mut player: Box<dyn Player>) {
        player.end_game();
        if player.is_usable() && !self.context.tournament.engines[engine].restart {
            self.players.insert(engine, player);
        }
    }
}
