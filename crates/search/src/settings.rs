//! Settings of a search that stay from one search to the next.

use crate::params::Values;
use crate::strength::Strength;
use crate::value::Centipawns;
use std::time::Duration;

/// Settings of a [`Searcher`](crate::Searcher) that may change between two searches, but not during one.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of best lines to search and report (MultiPV), at least 1.
    pub multipv: usize,
    /// Part of the time for each move that is not used, because messages take time to arrive; 10 ms by
    /// default.
    pub move_overhead: Duration,
    /// Contempt: number of centipawns below equality at which the engine's side values a draw; negative to
    /// seek draws.
    pub contempt: Centipawns,
    /// Minimum remaining depth, in plies, for looking up positions with as many pieces as the largest endgame
    /// tables have; positions with fewer pieces are always looked up.
    pub syzygy_probe_depth: i32,
    /// True to play at the rating `strength`, by limiting the search; false, the default, is full strength.
    pub limit_strength: bool,
    /// Rating at which to play if `limit_strength` is true; the highest by default.
    pub strength: Strength,
    /// Values of the tuned parameters, which can be changed in builds with the feature `tune`.
    pub params: Values,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            multipv: 1,
            move_overhead: Duration::from_millis(10),
            contempt: Centipawns(0),
            syzygy_probe_depth: 1,
            limit_strength: false,
            strength: Strength::new(Strength::MAX),
            params: Values::default(),
        }
    }
}

impl Settings {
    /// Rating at which to play; `None` is full strength.
    pub(crate) fn rating(&self) -> Option<Strength> {
        self.limit_strength.then_some(self.strength)
    }
}
