//! All that the strategist has said, shared by threads.

use crate::Opinion;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Opinions by the keys of their positions.
///
/// An opinion that was begun before everything was forgotten is not kept: it may be of a position of another game.
///
/// Positions are spread over many small parts, each behind a lock of its own that is held for a few instructions, so that
/// threads hardly ever wait for each other. A new opinion takes the place of an old one whose key falls on the same place.
#[derive(Debug)]
pub(crate) struct Opinions {
    parts: Box<[Mutex<Part>]>,
    places: usize,
    /// A bit for keys of which something was said, among others: a search asks about thousands of positions that nothing was
    /// said of, and need not go far to hear so.
    marks: Box<[AtomicU64]>,
    /// How often everything was forgotten.
    era: AtomicU64,
}

/// The time between two forgettings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Era(u64);

type Part = Box<[Option<(u64, Arc<Opinion>)>]>;

const PARTS: usize = 64;
/// Words of marks: eight kilobytes, which stay near the processor.
const MARKS: usize = 1024;

impl Opinions {
    /// Room for about so many.
    pub(crate) fn new(capacity: usize) -> Self {
        let places = capacity.div_ceil(PARTS).max(1);
        let part = || Mutex::new(vec![None; places].into_boxed_slice());
        let marks = (0..MARKS).map(|_| AtomicU64::new(0)).collect();
        Self { parts: (0..PARTS).map(|_| part()).collect(), places, marks, era: AtomicU64::new(0) }
    }

    /// The present one.
    pub(crate) fn era(&self) -> Era {
        Era(self.era.load(Relaxed))
    }

    /// The mark of a key, and its word.
    #[inline]
    fn mark(&self, key: u64) -> (&AtomicU64, u64) {
        (&self.marks[(key >> 32) as usize % MARKS], 1 << (key >> 42 & 63))
    }

    fn part(&self, key: u64) -> (MutexGuard<'_, Part>, usize) {
        let part = &self.parts[(key >> 58) as usize % PARTS];
        // What is in it is whole at any time, whoever failed while holding it.
        let part = part.lock().unwrap_or_else(PoisonError::into_inner);
        (part, key as usize % self.places)
    }

    /// What was said of a position.
    #[inline]
    pub(crate) fn get(&self, key: u64) -> Option<Arc<Opinion>> {
        let (word, mark) = self.mark(key);
        if word.load(Relaxed) & mark == 0 { None } else { self.look_up(key) }
    }

    #[inline(never)]
    fn look_up(&self, key: u64) -> Option<Arc<Opinion>> {
        let (part, place) = self.part(key);
        part[place].as_ref().filter(|(known, _)| *known == key).map(|(_, opinion)| Arc::clone(opinion))
    }

    /// Keeps what was said of a position, if it was asked in the present era.
    pub(crate) fn insert(&self, key: u64, opinion: Arc<Opinion>, asked: Era) {
        let (mut part, place) = self.part(key);
        // Whoever forgets begins with the era, and takes this lock later.
        if asked != self.era() {
            return;
        }
        part[place] = Some((key, opinion));
        let (word, mark) = self.mark(key);
        word.fetch_or(mark, Relaxed);
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.era.fetch_add(1, Relaxed);
        self.marks.iter().for_each(|word| word.store(0, Relaxed));
        for part in &self.parts {
            part.lock().unwrap_or_else(PoisonError::into_inner).fill(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::Position;
    use tandem_chess::random::SplitMix;

    /// An opinion that can be told by its key.
    fn marked(key: u64) -> Arc<Opinion> {
        let moves = Position::startpos().legal_moves();
        Arc::new(Opinion::new(None, &[(moves[key as usize % moves.len()], 1.0)]))
    }

    #[test]
    fn what_was_said_is_found_until_it_is_forgotten() {
        let opinions = Opinions::new(1000);
        let mut random = SplitMix::new(1);
        let keys: Vec<u64> = (0..100).map(|_| random.next_u64()).collect();
        for &key in &keys {
            assert_eq!(opinions.get(key), None);
            opinions.insert(key, marked(key), opinions.era());
            assert_eq!(opinions.get(key), Some(marked(key)));
        }
        let kept = keys.iter().filter(|&&key| opinions.get(key).is_some()).count();
        assert!(kept > 80, "{kept}");
        let before = opinions.era();
        opinions.clear();
        opinions.insert(keys[0], marked(keys[0]), before);
        assert!(keys.iter().all(|&key| opinions.get(key).is_none()));
    }

    #[test]
    fn two_threads_never_read_another_positions_opinion() {
        let opinions = Opinions::new(128);
        std::thread::scope(|scope| {
            for seed in 0..2 {
                let opinions = &opinions;
                scope.spawn(move || {
                    let mut random = SplitMix::new(seed);
                    let mut found = 0;
                    for _ in 0..20_000 {
                        // Both meet the same keys again and again, more than there is room for.
                        let key = SplitMix::new(u64::from(random.below(512))).next_u64();
                        match opinions.get(key) {
                            Some(opinion) => {
                                assert_eq!(opinion, marked(key));
                                found += 1;
                            }
                            None => opinions.insert(key, marked(key), opinions.era()),
                        }
                    }
                    assert!(found > 1000, "{found}");
                });
            }
        });
    }
}
