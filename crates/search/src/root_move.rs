//! The moves at the root, with their scores, lines and node counts.

use crate::value::{INFINITE, NONE, Value};
use tandem_chess::Move;

/// A legal move at the root with its results, kept from iteration to iteration.
#[derive(Clone, Debug)]
pub(crate) struct RootMove {
    pub(crate) mv: Move,
    pub(crate) score: Value,
    pub(crate) previous: Value,
    /// Running mean of the scores of recent iterations, the centre of the aspiration window.
    pub(crate) average: Value,
    pub(crate) sel_depth: usize,
    pub(crate) nodes: u64,
    pub(crate) pv: Vec<Move>,
    /// Rank by the endgame tables, if they have the position; the search decides between moves of equal rank.
    pub(crate) tb_rank: Option<i32>,
}

impl RootMove {
    pub(crate) fn new(mv: Move, tb_rank: Option<i32>) -> Self {
        Self {
            mv,
            score: -INFINITE,
            previous: -INFINITE,
            average: NONE,
            sel_depth: 0,
            nodes: 0,
            pv: vec![mv],
            tb_rank,
        }
    }

    /// Score of the last iteration that determined one; minus [`INFINITE`] if none has yet.
    pub(crate) fn value(&self) -> Value {
        if self.score == -INFINITE { self.previous } else { self.score }
    }
}
