//! The two sides of a game.
//!
//! A game knows its players only through [`Player`]: an engine in its own process ([`crate::UciPlayer`]) is one, a
//! search or a network within this program can be another.

use crate::{Clock, Info, Score};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{Duration, Instant};
use tandem_chess::{Board, Move, Position};

/// The game that a player is asked to continue.
#[derive(Clone, Copy, Debug)]
pub struct GameSoFar<'a> {
    /// Where it started.
    pub start: &'a Board,
    /// The moves since then, as UCI text separated by spaces.
    pub moves: &'a str,
    /// Where it stands.
    pub position: &'a Position,
    /// Castling is written as king takes rook.
    pub chess960: bool,
}

/// A move with what the player thought.
#[derive(Clone, Debug)]
pub struct Thought {
    /// The move, legal in the position.
    pub mv: Move,
    /// The player's evaluation, for the side to move.
    pub score: Option<Score>,
    /// Depth of its search.
    pub depth: Option<u32>,
    /// Nodes of its search.
    pub nodes: Option<u64>,
    /// When its clock was started.
    pub started: Instant,
    /// Time it took.
    pub elapsed: Duration,
}

/// How a player failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The program ended.
    Crash(String),
    /// It did not answer, not even to `stop`.
    Hang(String),
    /// It answered after its time.
    Time(Duration),
    /// It played a move that is none.
    Illegal(String),
    /// Nothing is wrong with it: the game was called off.
    Cancelled,
}

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unanswered {
    /// The program ended, or hung.
    Failure,
    /// The answer came late, or is no move.
    Useless,
}

impl Fault {
    /// What it means to whoever has asked; nothing if the question was taken back.
    pub fn unanswered(&self) -> Option<Unanswered> {
        match self {
            Self::Crash(_) | Self::Hang(_) => Some(Unanswered::Failure),
            Self::Time(_) | Self::Illegal(_) => Some(Unanswered::Useless),
            Self::Cancelled => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Crash(why) => write!(f, "crash: {why}"),
            Self::Hang(why) => write!(f, "hang: {why}"),
            Self::Time(over) => write!(f, "late by {:.1} ms", over.as_secs_f64() * 1000.0),
            Self::Illegal(text) => write!(f, "illegal move '{text}'"),
            Self::Cancelled => f.write_str("called off"),
        }
    }
}

/// Someone who plays chess.
pub trait Player: Send {
    /// What it is called in tables and PGN.
    fn name(&self) -> &str;

    /// Whether it knows Chess960.
    fn plays_chess960(&self) -> bool;

    /// Prepares for a new game.
    fn new_game(&mut self, chess960: bool) -> Result<(), Fault>;

    /// Chooses a move. `clock` is the player's own.
    fn think(&mut self, game: &GameSoFar, clock: &Clock, opponent: &Clock) -> Result<Thought, Fault>;

    /// Told after its own move, with the game as the opponent sees it: the moment to ponder.
    fn opponent_thinks(&mut self, _game: &GameSoFar, _clock: &Clock, _opponent: &Clock) {}

    /// Told after a game: until the next it must not think.
    fn rest(&mut self) {}

    /// Whether it can go on after a fault, or must be made anew.
    fn is_well(&self) -> bool;
}

/// A search outside a game.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The move it chose.
    pub best: Move,
    /// Time it took.
    pub elapsed: Duration,
    /// What was said about the best variation on the way, with the time since the start.
    pub infos: Vec<(Duration, Info)>,
}

impl Analysis {
    /// The last evaluation that was not merely a bound.
    pub fn score(&self) -> Option<Score> {
        let scored = self.infos.iter().rev().map(|(_, info)| info).filter(|info| info.score.is_some());
        let exact = scored.clone().find(|info| !info.bound);
        exact.or_else(|| scored.clone().next()).and_then(|info| info.score)
    }
}

/// Someone who can be asked about a position: an engine with a search, or a network without one.
pub trait Analyst: Send {
    /// What it is called in tables.
    fn name(&self) -> &str;

    /// Thinks about the position that a game has reached.
    fn analyse(&mut self, game: &GameSoFar, clock: &Clock) -> Result<Analysis, Fault>;

    /// Forgets what it knows of earlier positions.
    fn forget(&mut self, chess960: bool) -> Result<(), Fault>;

    /// Whether it can go on after a fault, or must be made anew.
    fn is_well(&self) -> bool;
}
