//! Positions that a search evaluates: what a network is asked in play, and what no game shows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tandem_chess::random::SplitMix;
use tandem_chess::{Changes, Position};
use tandem_data::Packed;
use tandem_search::{Centipawns, Evaluator, EvaluatorFactory};

/// A position that was evaluated, and what it is worth to the side to move by that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Leaf {
    pub(crate) position: Packed,
    pub(crate) evaluation: Centipawns,
}

/// A fair choice of a few among all positions that were evaluated since it was cleared.
pub(crate) struct Leaves {
    chosen: Vec<Leaf>,
    seen: u64,
    size: usize,
    random: SplitMix,
}

/// Leaves that the search's evaluator fills while its owner waits for the search.
#[derive(Clone)]
pub(crate) struct SharedLeaves(Arc<Mutex<Leaves>>);

impl SharedLeaves {
    /// A choice of `size` positions.
    pub(crate) fn new(size: usize) -> Self {
        let leaves = Leaves { chosen: Vec::with_capacity(size), seen: 0, size, random: SplitMix::new(0) };
        Self(Arc::new(Mutex::new(leaves)))
    }

    /// Evaluators as the factory makes them, which remember here what they are asked.
    pub(crate) fn listen(&self, factory: Arc<EvaluatorFactory>) -> Arc<EvaluatorFactory> {
        let leaves = self.clone();
        Arc::new(move || {
            Box::new(Listener { inner: factory(), leaves: leaves.clone() }) as Box<dyn Evaluator>
        })
    }

    /// Forgets all; the same seed chooses the same of the same positions.
    pub(crate) fn clear(&self, seed: u64) {
        let mut leaves = self.lock();
        leaves.chosen.clear();
        leaves.seen = 0;
        leaves.random = SplitMix::new(seed);
    }

    /// What was chosen.
    pub(crate) fn chosen(&self) -> Vec<Leaf> {
        self.lock().chosen.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Leaves> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leaves {
    /// Every position seen so far is among the chosen with the same chance.
    fn see(&mut self, position: &Position, evaluation: Centipawns) {
        self.seen += 1;
        let place = match self.chosen.len() {
            len if len < self.size => len,
            _ => (self.random.next_u64() % self.seen) as usize,
        };
        if place >= self.size {
            return;
        }
        if let Ok(position) = Packed::try_from(position.board()) {
            let leaf = Leaf { position, evaluation };
            match self.chosen.get_mut(place) {
                Some(old) => *old = leaf,
                None => self.chosen.push(leaf),
            }
        }
    }
}

struct Listener {
    inner: Box<dyn Evaluator>,
    leaves: SharedLeaves,
}

impl Evaluator for Listener {
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
        self.leaves.lock().see(position, evaluation);
        evaluation
    }

    fn discord(&mut self, position: &Position) -> Centipawns {
        self.inner.discord(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_has_the_same_chance() {
        let moves = Position::startpos().legal_moves();
        let mut counts = vec![0; moves.len()];
        let leaves = SharedLeaves::new(4);
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
                leaves.lock().see(child, Centipawns(0));
            }
            let chosen = leaves.chosen();
            assert_eq!(chosen.len(), 4);
            for leaf in chosen {
                counts[packed.iter().position(|child| *child == leaf.position).unwrap()] += 1;
            }
        }
        // 1000 each, give or take five standard deviations.
        assert!(counts.iter().all(|count| (860..1140).contains(count)), "{counts:?}");
    }
}
