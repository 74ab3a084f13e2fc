//! The interface between the search and a strategist: a slow but strong provider of policies and values.
//!
//! A strategist takes as long for one position as the search takes for thousands of nodes. So the search sends
//! it few positions, may go on while they are evaluated, and looks the evaluations up when it comes to the
//! positions again. `tandem-hybrid` provides one that runs a transformer; this crate knows only the interface.

use crate::strategist_eval::StrategistEval;
use crate::value::Centipawns;
use std::sync::Arc;
use std::time::Duration;
use tandem_chess::Position;

/// A provider of policies and values, which all threads of a search share. It decides which positions are worth
/// an evaluation, and keeps the evaluations of a game.
pub trait Strategist: Send + Sync {
    /// Access for one search thread, which keeps it for many searches.
    fn handle(self: Arc<Self>) -> Box<dyn StrategistHandle>;

    /// Begins a search: queries of the last one that are still pending are no longer needed.
    fn begin_search(&self);

    /// Ends a search, in which the evaluator evaluated this number of positions, all threads together.
    fn end_search(&self, evaluations: u64);

    /// Drops pending queries and forgets all evaluations, for a new game.
    fn clear(&self);

    /// Evaluation of the position with this key, if it is known. In contrast to [`StrategistHandle::lookup`],
    /// the call does not count as a use.
    fn lookup(&self, key: u64) -> Option<Arc<StrategistEval>>;

    /// Weight of the strategist's value in the value of an evaluated position, from 0 to 1; the rest is the
    /// evaluator's.
    fn blend(&self) -> f32;

    /// A strategist like this one that knows no position and answers within the search, so that a search with
    /// one thread can be repeated node for node; for `bench` and other measurements.
    fn synchronous(&self) -> Arc<dyn Strategist>;
}

/// Access of one search thread to a [`Strategist`].
pub trait StrategistHandle: Send {
    /// Begins a search, in which the thread's node count starts at 0.
    fn begin_search(&mut self);

    /// Evaluation of the position with this key, if it is known.
    fn lookup(&self, key: u64) -> Option<Arc<StrategistEval>>;

    /// True if the strategist may accept a query at this node count of the thread. Cheap, so that the search
    /// can test it before it prepares a query.
    fn may_query(&self, nodes: u64) -> bool;

    /// Queries a position that [`Self::lookup`] does not know. Returns the evaluation if it was made at once;
    /// otherwise `None`, and the evaluation may be known later. `psqt_positional_gap` computes
    /// [`crate::Evaluator::psqt_positional_gap`] of the position, and should be called only if it is needed.
    fn query(
        &mut self,
        position: &Position,
        context: QueryContext,
        psqt_positional_gap: &mut dyn FnMut() -> Centipawns,
    ) -> Option<Arc<StrategistEval>>;
}

/// State of the search at the position of a query.
#[derive(Clone, Copy, Debug)]
pub struct QueryContext {
    /// Remaining search depth at the position, in plies.
    pub depth: i32,
    /// True if this is the root of the search.
    pub root: bool,
    /// Nodes that the search thread has visited since the search began.
    pub nodes: u64,
    /// State of the clock; `None` if no clock runs.
    pub clock: Option<SearchClock>,
}

/// Time used by a search and time that it has left.
#[derive(Clone, Copy, Debug)]
pub struct SearchClock {
    /// Time used since the search began.
    pub elapsed: Duration,
    /// Time that the search will take unless the best move turns out to be unclear or forced.
    pub planned: Duration,
    /// Time left until the hard limit, at which the search is broken off.
    pub remaining: Duration,
}
