//! Limits of a search: clock, time, depth, nodes and mates.

use std::time::Duration;
use tandem_chess::Move;

/// Clock of the side to move, from which time management derives the time for a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Time left on the clock when the search begins.
    pub remaining: Duration,
    /// Time that is added to the clock after each move.
    pub increment: Duration,
    /// Moves until more time is added; `None` if the time is for the rest of the game.
    pub moves_to_go: Option<u32>,
}

/// Limits of a search, any of which ends it. Without any it goes on until it is stopped.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Root moves to search; empty for all legal moves.
    pub search_moves: Vec<Move>,
    /// Depth in plies after which iterative deepening ends; `None` for no limit.
    pub depth: Option<u32>,
    /// Maximum nodes, all threads together; met exactly with one thread.
    pub nodes: Option<u64>,
    /// Nodes after which no new iteration begins. Used by self-play, because it never breaks off an
    /// iteration.
    pub soft_nodes: Option<u64>,
    /// Ends the search once a mate in at most this many moves is found.
    pub mate: Option<u32>,
    /// Time to use for this move, less [`crate::Settings::move_overhead`]; `None` for no limit.
    pub move_time: Option<Duration>,
    /// Clock of the game; time management decides how much of it to use.
    pub clock: Option<Clock>,
    /// Keeps the search from ending by itself, even if nothing is left to search.
    pub infinite: bool,
    /// Ponders on the opponent's time: limits apply once [`crate::Signals::ponder_hit`] is called.
    pub ponder: bool,
}

impl Limits {
    /// True if the search is certain to end by itself. A search for a mate is not, because there may be none.
    pub fn is_bounded(&self) -> bool {
        let limited = self.depth.is_some()
            || self.nodes.is_some()
            || self.soft_nodes.is_some()
            || self.move_time.is_some()
            || self.clock.is_some();
        limited && !self.infinite && !self.ponder
    }
}
