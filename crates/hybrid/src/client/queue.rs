//! The priority queue between search threads and the strategist's threads.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tandem_chess::Position;

/// Priority of a query: the root first, then by remaining depth in plies.
pub(super) type Priority = (bool, i32);

/// A position that waits for the strategist.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) position: Position,
    /// Number of the search that sent the query; answers to an earlier search are cached, but not counted.
    pub(super) search: u64,
    priority: Priority,
}

impl Query {
    /// Creates a query. The game before the position is copied only if the network reads it.
    pub(super) fn new(position: &Position, search: u64, priority: Priority, with_history: bool) -> Self {
        let position = if with_history { position.clone() } else { position.board().clone().into() };
        Self { position, search, priority }
    }

    pub(super) fn key(&self) -> u64 {
        self.position.key()
    }
}

/// Largest number of pending queries. More would be answered after the search has left their part of the
/// tree.
const MAX_PENDING: usize = 32;

/// Pending queries, shared by the threads that send and those that answer.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pending: Mutex<Pending>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Pending {
    queries: Vec<Query>,
    /// Keys of the positions that are being evaluated.
    in_progress: Vec<u64>,
    closed: bool,
}

impl Queue {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        // Every change is a single operation, so that a thread that panics leaves the queue consistent.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a query, unless the position is pending or being evaluated, or the queue is full of higher
    /// priorities. The query is built only if it is added. Returns true if it was.
    pub(super) fn push(&self, key: u64, priority: Priority, query: impl FnOnce() -> Query) -> bool {
        let mut pending = self.pending();
        if pending.in_progress.contains(&key) {
            return false;
        }
        if let Some(known) = pending.queries.iter_mut().find(|known| known.key() == key) {
            known.priority = known.priority.max(priority);
            return false;
        }
        if pending.queries.len() >= MAX_PENDING {
            let lowest = pending.queries.iter().enumerate().min_by_key(|(_, query)| query.priority);
            match lowest.map(|(index, lowest)| (index, lowest.priority)) {
                Some((index, lowest)) if lowest < priority => drop(pending.queries.remove(index)),
                _ => return false,
            }
        }
        pending.queries.push(query());
        drop(pending);
        self.wake.notify_one();
        true
    }

    /// Waits for the query with the highest priority, the latest of equals; `None` once the queue is closed.
    pub(super) fn pop(&self) -> Option<Query> {
        let mut pending = self.pending();
        loop {
            if pending.closed {
                return None;
            }
            let highest = pending.queries.iter().enumerate().max_by_key(|(_, query)| query.priority);
            if let Some(index) = highest.map(|(index, _)| index) {
                let query = pending.queries.remove(index);
                pending.in_progress.push(query.key());
                return Some(query);
            }
            pending = self.wake.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Marks a position as being evaluated by the calling thread. Returns false if another thread evaluates
    /// it already.
    pub(super) fn start(&self, key: u64) -> bool {
        let mut pending = self.pending();
        if pending.in_progress.contains(&key) {
            return false;
        }
        pending.in_progress.push(key);
        true
    }

    /// Removes the mark of a position whose evaluation has ended.
    pub(super) fn finish(&self, key: u64) {
        self.pending().in_progress.retain(|&other| other != key);
    }

    /// Drops all pending queries.
    pub(super) fn clear(&self) {
        self.pending().queries.clear();
    }

    /// Ends [`Self::pop`] in all threads, now and from now on.
    pub(super) fn close(&self) {
        self.pending().closed = true;
        self.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A position after three plies; different numbers give different positions.
    fn position(number: usize) -> Position {
        let mut position = Position::startpos();
        for _ in 0..2 {
            let moves = position.legal_moves();
            position.play(moves[number % moves.len()]);
        }
        let moves = position.legal_moves();
        position.play(moves[number / 20 % moves.len()]);
        position
    }

    fn push(queue: &Queue, number: usize, priority: Priority) -> bool {
        let position = position(number);
        queue.push(position.key(), priority, || Query::new(&position, 0, priority, false))
    }

    #[test]
    fn the_highest_priority_is_answered_first() {
        let queue = Queue::default();
        for (number, priority) in [(0, (false, 5)), (1, (true, 1)), (2, (false, 9)), (3, (false, 9))] {
            assert!(push(&queue, number, priority));
        }
        // It is pending already.
        assert!(!push(&queue, 0, (false, 5)));
        for number in [1, 3, 2, 0] {
            let query = queue.pop().unwrap();
            assert_eq!(query.key(), position(number).key());
            // It is being evaluated.
            assert!(!push(&queue, number, (true, 50)));
            queue.finish(query.key());
        }
        assert!(push(&queue, 0, (false, 5)));
    }

    #[test]
    fn a_full_queue_drops_the_lowest_priority() {
        let queue = Queue::default();
        for number in 0..MAX_PENDING {
            assert!(push(&queue, number, (false, 5 + number as i32)));
        }
        assert!(!push(&queue, 40, (false, 5)));
        assert!(push(&queue, 41, (false, 6)));
        queue.close();
        assert!(queue.pop().is_none());
    }
}
