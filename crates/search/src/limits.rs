//! Limits of a search: clock, time, depth, nodes and mates.

use std::time::Duration;
use tandem_chess::Move;

/// Clock of the side to move when the search begins, from which time management derives the time for a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Time left on the clock when the search begins.
    pub remaining: Duration,
    /// Time that is added to the clock after each move.
    pub increment: Duration,
    /// Number of moves until more time is added; `None` if the time is for the rest of the game.
    pub moves_to_go: Option<u32>,
}

/// Limits of a search, any of which ends it. Without any it goes on until it is stopped.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Moves of the position to be searched (the root) among which the search chooses; empty for all legal
    /// moves.
    pub search_moves: Vec<Move>,
    /// Depth in plies (moves of one side) after which iterative deepening ends; `None` for no limit.
    pub depth: Option<u32>,
    /// Maximum number of positions searched (nodes), all threads together; met exactly with one thread.
    pub nodes: Option<u64>,
    /// Number of nodes after which no new iteration of the search begins; one that has begun is finished
    /// unless another limit ends it. Used by self-play.
    pub soft_nodes: Option<u64>,
    /// Ends the search once a mate for the side to move in at most this many moves is found; `None` to go on.
    pub mate: Option<u32>,
    /// Time to use for this move, less [`crate::Settings::move_overhead`]; `None` for no limit.
    pub move_time: Option<Duration>,
    /// Clock of the game; time management decides how much of it to use.
    pub clock: Option<Clock>,
    /// Keeps the search from ending by itself, even if nothing is left to search.
    pub infinite: bool,
    /// The search begins in the opponent's time (pondering): no limit applies until
    /// [`crate::Signals::ponder_hit`] is called.
    pub ponder: bool,
}

impl Limits {
    /// True if the search is certain to end by itself, by a limit of depth, nodes or time. A search for a
    /// mate is not, because there may be none; nor is an infinite or pondering one.
    pub fn is_bounded(&self) -> bool {
        let limited = self.depth.is_some()
            || self.nodes.is_some()
            || self.soft_nodes.is_some()
            || self.move_time.is_some()
            || self.clock.is_some();
        limited && !self.infinite && !self.ponder
    }
}
