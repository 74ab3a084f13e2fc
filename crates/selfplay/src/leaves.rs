//! A sample of the positions that a search evaluates.
//!
//! Networks are evaluated on leaves in play, which differ from the positions of games: many have a piece
//! hanging. A data set of leaves shows a network what it will be asked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tandem_chess::{Changes, Position};
use tandem_data::Packed;
use tandem_search::{Centipawns, Evaluator, EvaluatorFactory};
use tandem_util::random::SplitMix;

/// A position that was evaluated, with the evaluation for its side to move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Leaf {
    pub(crate) position: Packed,
    pub(crate) evaluation: Centipawns,
}

/// Reservoir sample of all positions evaluated since it was cleared: each is kept with the same probability.
pub(crate) struct Reservoir {
    sample: Vec<Leaf>,
    seen: u64,
    size: usize,
    random: SplitMix,
}

/// A reservoir that is filled by the search's evaluator while its owner waits for the search.
#[derive(Clone)]
pub(crate) struct SharedReservoir(Arc<Mutex<Reservoir>>);

impl SharedReservoir {
    /// An empty reservoir for `size` positions.
    pub(crate) fn new(size: usize) -> Self {
        let reservoir =
            Reservoir { sample: Vec::with_capacity(size), seen: 0, size, random: SplitMix::new(0) };
        Self(Arc::new(Mutex::new(reservoir)))
    }

    /// A factory of evaluators that add every evaluated position to this reservoir.
    pub(crate) fn sampling(&self, factory: Arc<EvaluatorFactory>) -> Arc<EvaluatorFactory> {
        let leaves = self.clone();
        Arc::new(move || {
            Box::new(SamplingEvaluator { inner: factory(), leaves: leaves.clone() }) as Box<dyn Evaluator>
        })
    }

    /// Removes all positions and reseeds the sampling: the same positions with the same seed give the same
    /// sample.
    pub(crate) fn clear(&self, seed: u64) {
        let mut leaves = self.lock();
        leaves.sample.clear();
        leaves.seen = 0;
        leaves.random = SplitMix::new(seed);
    }

    /// Positions in the reservoir.
    pub(crate) fn sample(&self) -> Vec<Leaf> {
        self.lock().sample.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Reservoir> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservoir {
    /// Adds a position, in place of another once the reservoir is full.
    fn offer(&mut self, position: &Position, evaluation: Centipawns) {
        self.seen += 1;
        let slot = match self.sample.len() {
            len if len < self.size => len,
            _ => (self.random.next_u64() % self.seen) as usize,
        };
        if slot >= self.size {
            return;
        }
        if let Ok(position) = Packed::try_from(position.board()) {
            let leaf = Leaf { position, evaluation };
            match self.sample.get_mut(slot) {
                Some(old) => *old = leaf,
                None => self.sample.push(leaf),
            }
        }
    }
}

struct SamplingEvaluator {
    inner: Box<dyn Evaluator>,
    leaves: SharedReservoir,
}

impl Evaluator for SamplingEvaluator {
    fn reset(&mut self, position: &Position) {
        self.inner.reset(position);
    }

    fn push(&mut self, changes: &Changes) {
        self.inner.push(changes);
    }

    fn pop(&mut self) {
        self.inner.pop();
    }

    fn evaluate(&mut self, position: &Position) -> Centipawns {
        let evaluation = self.inner.evaluate(position);
        self.leaves.lock().offer(position, evaluation);
        evaluation
    }

    fn psqt_positional_gap(&mut self, position: &Position) -> Centipawns {
        self.inner.psqt_positional_gap(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_is_sampled_with_the_same_probability() {
        let moves = Position::startpos().legal_moves();
        let mut counts = vec![0; moves.len()];
        let leaves = SharedReservoir::new(4);
        let children: Vec<Position> = moves
            .iter()
            .map(|&mv| {
                let mut position = Position::startpos();
                position.play(mv);
                position
            })
            .collect();
        let packed: Vec<Packed> =
            children.iter().map(|child| Packed::try_from(child.board()).unwrap()).collect();
        for seed in 0..5000 {
            leaves.clear(seed);
            for child in &children {
                leaves.lock().offer(child, Centipawns(0));
            }
            let sample = leaves.sample();
            assert_eq!(sample.len(), 4);
            for leaf in sample {
                counts[packed.iter().position(|child| *child == leaf.position).unwrap()] += 1;
            }
        }
        // 1000 each, within five standard deviations.
        assert!(counts.iter().all(|count| (860..1140).contains(count)), "{counts:?}");
    }
}
