//! The interfaces between a game and its players.
//!
//! A game knows its players only through [`Player`]: an engine in its own process ([`crate::UciPlayer`])
//! implements it, and so does a search or a network within this process. [`Analyst`] is the same for single
//! positions.

use crate::{PlayerClock, UciInfo, UciScore};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{Duration, Instant};
use tandem_chess::{Board, Move, Position};

/// The game so far, as it is passed to the player to move.
#[derive(Clone, Copy, Debug)]
pub struct GameSoFar<'a> {
    /// Start position of the game, which is the standard one unless the opening says otherwise.
    pub start: &'a Board,
    /// Moves since then in UCI notation, separated by spaces; empty at the start.
    pub moves: &'a str,
    /// Current position, with the history that repetition needs.
    pub position: &'a Position,
    /// Chess960: castling is written as the king taking its rook.
    pub chess960: bool,
}

/// A move with the evaluation and statistics of the search behind it.
#[derive(Clone, Debug)]
pub struct ChosenMove {
    /// The move, which is legal in the position.
    pub mv: Move,
    /// Evaluation for the side to move; `None` if the player reported none.
    pub score: Option<UciScore>,
    /// Depth of the search in plies, if known.
    pub depth: Option<u32>,
    /// Number of nodes of the search, if known.
    pub nodes: Option<u64>,
    /// Time at which the player's clock was started for this move.
    pub started: Instant,
    /// Wall-clock time from [`Self::started`] to the arrival of the move.
    pub elapsed: Duration,
}

/// Failure of a player to make a move, with details for the PGN. Every kind but `Cancelled` loses the game.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process ended, or a thread panicked; with its exit status and last output.
    Crash(String),
    /// The player did not answer, not even to `stop`.
    Hang(String),
    /// The move came after the time had run out, by this duration.
    Time(Duration),
    /// The answer, quoted here, is not a legal move.
    Illegal(String),
    /// The game or the search was cancelled from outside, which is not the player's fault.
    Cancelled,
}

/// Category of the reason for which a question about a position has no usable answer, for reports in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unanswered {
    /// The program crashed or did not respond; the machine or the engine needs attention.
    Failure,
    /// The answer came too late, or was not a legal move.
    Useless,
}

impl Fault {
    /// Category of this fault for reports; `None` if the search was cancelled.
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

/// One side of a game: an engine or another source of moves.
pub trait Player: Send {
    /// Name for tables and PGN.
    fn name(&self) -> &str;

    /// True if the player supports Chess960; a Chess960 match refuses players that do not.
    fn plays_chess960(&self) -> bool;

    /// Prepares for a new game: clears tables and history.
    ///
    /// # Errors
    ///
    /// Fails if the player crashed or does not respond.
    fn new_game(&mut self, chess960: bool) -> Result<(), Fault>;

    /// Chooses a move in the position of `game`. `clock` is the player's own, `opponent` that of the other
    /// side.
    ///
    /// # Errors
    ///
    /// Fails if the player crashed, was late or gave an illegal move, and with [`Fault::Cancelled`] if it was
    /// interrupted.
    fn think(
        &mut self,
        game: &GameSoFar,
        clock: &PlayerClock,
        opponent: &PlayerClock,
    ) -> Result<ChosenMove, Fault>;

    /// Called after the player's own move, with the position the opponent now faces: the moment to start
    /// pondering.
    fn start_pondering(&mut self, _game: &GameSoFar, _clock: &PlayerClock, _opponent: &PlayerClock) {}

    /// Called after a game: the player must not think until the next one starts.
    fn end_game(&mut self) {}

    /// True if the player can continue after a fault; otherwise it must be started anew.
    fn is_usable(&self) -> bool;
}

/// Result of a search of a single position outside a game.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The move that the analyst chose, legal in the position.
    pub best: Move,
    /// Wall-clock time of the search.
    pub elapsed: Duration,
    /// Reports of the engine about its best line during the search, each with the time since the search
    /// began.
    pub infos: Vec<(Duration, UciInfo)>,
}

impl Analysis {
    /// The last evaluation that is not a mere bound; if there was none, the last bound; `None` without any.
    pub fn score(&self) -> Option<UciScore> {
        let scored = self.infos.iter().rev().map(|(_, info)| info).filter(|info| info.score.is_some());
        let exact = scored.clone().find(|info| !info.bound);
        exact.or_else(|| scored.clone().next()).and_then(|info| info.score)
    }
}

/// An engine that answers questions about single positions, with a search or as a network without one.
pub trait Analyst: Send {
    /// Name for tables and reports.
    fn name(&self) -> &str;

    /// Searches the current position of `game` within the limits of `clock`.
    ///
    /// # Errors
    ///
    /// Fails if the analyst crashed, was late or gave an illegal move, and with [`Fault::Cancelled`] if it
    /// was interrupted.
    fn analyse(&mut self, game: &GameSoFar, clock: &PlayerClock) -> Result<Analysis, Fault>;

    /// Clears everything learnt from earlier positions, such as the hash table.
    ///
    /// # Errors
    ///
    /// Fails if the analyst crashed or does not respond.
    fn reset(&mut self, chess960: bool) -> Result<(), Fault>;

    /// True if the analyst can continue after a fault; otherwise it must be started anew.
    fn is_usable(&self) -> bool;
}
