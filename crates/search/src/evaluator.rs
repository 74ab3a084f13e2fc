//! The interface between the search and an evaluation.

use crate::Centipawns;
use tandem_chess::{Changes, Position};

/// A static evaluation. The search reports every move that it makes and unmakes, so that an evaluator can
/// update accumulators incrementally instead of computing each position from nothing.
pub trait Evaluator: Send {
    /// Begins at a position, and forgets all moves before it.
    fn reset(&mut self, position: &Position);

    /// Reports a move that was made, with the pieces it added and removed; a null move changes none.
    fn push(&mut self, changes: &Changes);

    /// Reports that the last move was unmade.
    fn pop(&mut self);

    /// Value of the position for the side to move, in centipawns. The position is always the one that the
    /// calls above led to.
    fn evaluate(&mut self, position: &Position) -> Centipawns;

    /// Absolute difference between the evaluation's PSQT and positional parts, a sign of a complex position;
    /// 0, the default, if the evaluation has no such parts. An input of the selector.
    fn psqt_positional_gap(&mut self, _position: &Position) -> Centipawns {
        Centipawns(0)
    }
}

/// Function that creates evaluators, one for each search thread, because an evaluator has mutable state.
pub type EvaluatorFactory = dyn Fn() -> Box<dyn Evaluator> + Send + Sync;
