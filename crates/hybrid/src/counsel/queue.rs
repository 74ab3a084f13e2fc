//! Questions that wait for a thread of the strategist's.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tandem_chess::Position;

/// What matters more is answered first: the root, then what has the most depth left.
pub(super) type Weight = (bool, i32);

/// A position that the strategist is asked about.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) position: Position,
    /// The search that wants to know.
    pub(super) search: u64,
    weight: Weight,
}

impl Question {
    /// A question about a position; with the game that led to it only if somebody reads that.
    pub(super) fn new(position: &Position, search: u64, weight: Weight, with_history: bool) -> Self {
        let position = if with_history { position.clone() } else { position.board().clone().into() };
        Self { position, search, weight }
    }

    pub(super) fn key(&self) -> u64 {
        self.position.key()
    }
}

/// The most questions that wait. More would be answered when nobody wants to know any more.
const MOST: usize = 32;

/// The questions, shared by those who ask and those who answer.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    questions: Vec<Question>,
    /// Keys of those that are being answered.
    open: Vec<u64>,
    closed: bool,
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Every change is made at one stroke, so that who fails leaves nothing half done.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a question, unless it waits already or others matter more and there is no room. It is made only then. Returns
    /// whether it was added.
    pub(super) fn put(&self, key: u64, weight: Weight, question: impl FnOnce() -> Question) -> bool {
        let mut waiting = self.waiting();
        if waiting.open.contains(&key) {
            return false;
        }
        if let Some(known) = waiting.questions.iter_mut().find(|known| known.key() == key) {
            known.weight = known.weight.max(weight);
            return false;
        }
        if waiting.questions.len() >= MOST {
            let least = waiting.questions.iter().enumerate().min_by_key(|(_, question)| question.weight);
            match least.map(|(index, least)| (index, least.weight)) {
                Some((index, least)) if least < weight => drop(waiting.questions.remove(index)),
                _ => return false,
            }
        }
        waiting.questions.push(question());
        drop(waiting);
        self.bell.notify_one();
        true
    }

    /// Waits for the question that matters most, of equals the latest; `None` once there will be no more.
    pub(super) fn take(&self) -> Option<Question> {
        let mut waiting = self.waiting();
        loop {
            if waiting.closed {
                return None;
            }
            let most = waiting.questions.iter().enumerate().max_by_key(|(_, question)| question.weight);
            if let Some(index) = most.map(|(index, _)| index) {
                let question = waiting.questions.remove(index);
                waiting.open.push(question.key());
                return Some(question);
            }
            waiting = self.bell.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Says that a position is being answered by the one who came by it. False if somebody else is at it.
    pub(super) fn open(&self, key: u64) -> bool {
        let mut waiting = self.waiting();
        if waiting.open.contains(&key) {
            return false;
        }
        waiting.open.push(key);
        true
    }

    /// A question was answered.
    pub(super) fn done(&self, key: u64) {
        self.waiting().open.retain(|&open| open != key);
    }

    /// Forgets the questions that wait.
    pub(super) fn clear(&self) {
        self.waiting().questions.clear();
    }

    /// No more questions.
    pub(super) fn close(&self) {
        self.waiting().closed = true;
        self.bell.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Positions that differ.
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

    fn put(queue: &Queue, number: usize, weight: Weight) -> bool {
        let position = position(number);
        queue.put(position.key(), weight, || Question::new(&position, 0, weight, false))
    }

    #[test]
    fn what_matters_most_is_answered_first() {
        let queue = Queue::default();
        for (number, weight) in [(0, (false, 5)), (1, (true, 1)), (2, (false, 9)), (3, (false, 9))] {
            assert!(put(&queue, number, weight));
        }
        // It waits already.
        assert!(!put(&queue, 0, (false, 5)));
        for number in [1, 3, 2, 0] {
            let question = queue.take().unwrap();
            assert_eq!(question.key(), position(number).key());
            // It is being answered.
            assert!(!put(&queue, number, (true, 50)));
            queue.done(question.key());
        }
        assert!(put(&queue, 0, (false, 5)));
    }

    #[test]
    fn the_least_gives_way_when_there_is_no_room() {
        let queue = Queue::default();
        for number in 0..MOST {
            assert!(put(&queue, number, (false, 5 + number as i32)));
        }
        assert!(!put(&queue, 40, (false, 5)));
        assert!(put(&queue, 41, (false, 6)));
        queue.close();
        assert!(queue.take().is_none());
    }
}
