//! How long a search may go on.

use std::time::Duration;
use tandem_chess::Move;

/// The clock of the side to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// What is left.
    pub remaining: Duration,
    /// What each move adds.
    pub increment: Duration,
    /// Moves until more time comes, if it does.
    pub moves_to_go: Option<u32>,
}

/// What ends a search. Without any of them it goes on until it is stopped.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Only these moves are searched, if there are any.
    pub search_moves: Vec<Move>,
    /// Depth of the last iteration.
    pub depth: Option<u32>,
    /// Nodes of all threads together. Exact with one thread.
    pub nodes: Option<u64>,
    /// Nodes after which no new iteration is begun: what self-play uses, since it never breaks an iteration off.
    pub soft_nodes: Option<u64>,
    /// A mate in so many moves is enough.
    pub mate: Option<u32>,
    /// Exactly this much time.
    pub move_time: Option<Duration>,
    /// The game's clock, of which a sensible part is used.
    pub clock: Option<Clock>,
    /// Do not stop by oneself, even with nothing left to find.
    pub infinite: bool,
    /// Think on the enemy's time: limits count once [`crate::Signals::ponder_hit`] is called.
    pub ponder: bool,
}

impl Limits {
    /// Whether the search will end by itself. One for a mate need not: there may be none.
    pub fn is_bounded(&self) -> bool {
        let limited = self.depth.is_some()
            || self.nodes.is_some()
            || self.soft_nodes.is_some()
            || self.move_time.is_some()
            || self.clock.is_some();
        limited && !self.infinite && !self.ponder
    }
}
