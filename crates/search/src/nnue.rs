//! An NNUE as the search's evaluator.

use crate::evaluator::Evaluator;
use crate::value::Centipawns;
use std::sync::Arc;
use tandem_chess::{Changes, Position};
use tandem_nnue::{Accumulators, Network};

/// Static evaluator that uses an NNUE. Threads share the network's weights; each has accumulators
/// (first-layer sums, updated move by move) of its own.
pub struct Nnue {
    network: Arc<Network>,
    accumulators: Accumulators,
}

impl Nnue {
    /// Creates an evaluator that shares the network's weights; it stands at the starting position.
    pub fn new(network: Arc<Network>) -> Self {
        let accumulators = Accumulators::new(&network);
        Self { network, accumulators }
    }
}

impl Evaluator for Nnue {
    fn reset(&mut self, position: &Position) {
        self.accumulators.reset(&self.network, position.board());
    }

    #[inline]
    fn push(&mut self, changes: &Changes) {
        self.accumulators.push(&self.network, changes);
    }

    #[inline]
    fn pop(&mut self) {
        self.accumulators.pop();
    }

    #[inline]
    fn evaluate(&mut self, position: &Position) -> Centipawns {
        Centipawns(self.accumulators.evaluate(&self.network, position.board()).centipawns())
    }

    fn psqt_positional_gap(&mut self, position: &Position) -> Centipawns {
        Centipawns(self.accumulators.evaluate(&self.network, position.board()).psqt_positional_gap())
    }
}
