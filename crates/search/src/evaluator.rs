//! What the search asks of an evaluation.

use crate::Centipawns;
use tandem_chess::{Changes, Position};

/// Judges positions for the search, which tells it of every move it makes and takes back, so that an evaluator can
/// keep something up to date instead of starting from nothing each time.
pub trait Evaluator: Send {
    /// Starts anew from a position.
    fn reset(&mut self, position: &Position);

    /// A move was made, changing these pieces. A null move changes none.
    fn push(&mut self, changes: &Changes);

    /// The last move was taken back.
    fn pop(&mut self);

    /// The value of the position, for the side to move. The position is the one that the calls above led to.
    fn evaluate(&mut self, position: &Position) -> Centipawns;

    /// How far apart the parts are that a value is made of, where they are known: a sign that a position is hard to judge.
    fn discord(&mut self, _position: &Position) -> Centipawns {
        Centipawns(0)
    }
}

/// Makes an evaluator for each search thread.
pub type EvaluatorFactory = dyn Fn() -> Box<dyn Evaluator> + Send + Sync;
