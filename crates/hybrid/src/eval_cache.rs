//! The strategist's evaluations by position key, shared by all threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tandem_search::StrategistEval;

/// A direct-mapped cache, split into shards.
///
/// Each shard has a lock of its own that is held for a few instructions, so that threads hardly ever wait for
/// each other. A new evaluation replaces the one whose key falls on the same slot. An evaluation that began
/// before the cache was cleared is not inserted, because it may be of another game.
#[derive(Debug)]
pub(crate) struct EvalCache {
    shards: Box<[Mutex<Shard>]>,
    slots_per_shard: usize,
    /// A bit set of inserted keys, as in a Bloom filter with one hash: a search looks up thousands of
    /// positions that are not there, and a clear bit answers that without a lock.
    filter: Box<[AtomicU64]>,
    /// Number of times the cache was cleared.
    generation: AtomicU64,
}

/// The time between two calls of [`EvalCache::clear`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u64);

type Shard = Box<[Option<(u64, Arc<StrategistEval>)>]>;

const SHARDS: usize = 64;
/// Words of the filter: eight kilobytes, which stay in the processor's cache.
const FILTER_WORDS: usize = 1024;

impl EvalCache {
    /// A cache for about `capacity` evaluations.
    pub(crate) fn new(capacity: usize) -> Self {
        let slots_per_shard = capacity.div_ceil(SHARDS).max(1);
        let shard = || Mutex::new(vec![None; slots_per_shard].into_boxed_slice());
        let filter = (0..FILTER_WORDS).map(|_| AtomicU64::new(0)).collect();
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            slots_per_shard,
            filter,
            generation: AtomicU64::new(0),
        }
    }

    /// The present generation, to be read before an evaluation begins.
    pub(crate) fn generation(&self) -> Generation {
        Generation(self.generation.load(Relaxed))
    }

    /// The filter's word and bit for a key.
    #[inline]
    fn filter_bit(&self, key: u64) -> (&AtomicU64, u64) {
        (&self.filter[(key >> 32) as usize % FILTER_WORDS], 1 << (key >> 42 & 63))
    }

    fn shard(&self, key: u64) -> (MutexGuard<'_, Shard>, usize) {
        let shard = &self.shards[(key >> 58) as usize % SHARDS];
        // A slot is written by one assignment, so that a thread that panics leaves the shard consistent.
        let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        (shard, key as usize % self.slots_per_shard)
    }

    /// Cached evaluation of the position with this key. Takes no lock if the filter excludes the key.
    #[inline]
    pub(crate) fn get(&self, key: u64) -> Option<Arc<StrategistEval>> {
        let (word, bit) = self.filter_bit(key);
        if word.load(Relaxed) & bit == 0 { None } else { self.look_up(key) }
    }

    #[inline(never)]
    fn look_up(&self, key: u64) -> Option<Arc<StrategistEval>> {
        let (shard, slot) = self.shard(key);
        shard[slot].as_ref().filter(|(known, _)| *known == key).map(|(_, eval)| Arc::clone(eval))
    }

    /// Inserts an evaluation that was queried in the given generation, unless the cache was cleared since.
    pub(crate) fn insert(&self, key: u64, eval: Arc<StrategistEval>, queried: Generation) {
        let (mut shard, slot) = self.shard(key);
        // `clear` increments the generation first and takes this lock later.
        if queried != self.generation() {
            return;
        }
        shard[slot] = Some((key, eval));
        let (word, bit) = self.filter_bit(key);
        word.fetch_or(bit, Relaxed);
    }

    /// Removes all evaluations and begins a new generation.
    pub(crate) fn clear(&self) {
        self.generation.fetch_add(1, Relaxed);
        self.filter.iter().for_each(|word| word.store(0, Relaxed));
        for shard in &self.shards {
            shard.lock().unwrap_or_else(PoisonError::into_inner).fill(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::Position;
    use tandem_util::random::SplitMix;

    /// An evaluation that depends on its key.
    fn marked(key: u64) -> Arc<StrategistEval> {
        let moves = Position::startpos().legal_moves();
        Arc::new(StrategistEval::new(None, &[(moves[key as usize % moves.len()], 1.0)]))
    }

    #[test]
    fn an_evaluation_is_found_until_the_cache_is_cleared() {
        let cache = EvalCache::new(1000);
        let mut random = SplitMix::new(1);
        let keys: Vec<u64> = (0..100).map(|_| random.next_u64()).collect();
        for &key in &keys {
            assert_eq!(cache.get(key), None);
            cache.insert(key, marked(key), cache.generation());
            assert_eq!(cache.get(key), Some(marked(key)));
        }
        let kept = keys.iter().filter(|&&key| cache.get(key).is_some()).count();
        assert!(kept > 80, "{kept}");
        let before = cache.generation();
        cache.clear();
        cache.insert(keys[0], marked(keys[0]), before);
        assert!(keys.iter().all(|&key| cache.get(key).is_none()));
    }

    #[test]
    fn two_threads_never_read_the_evaluation_of_another_position() {
        let cache = EvalCache::new(128);
        std::thread::scope(|scope| {
            for seed in 0..2 {
                let cache = &cache;
                scope.spawn(move || {
                    let mut random = SplitMix::new(seed);
                    let mut found = 0;
                    for _ in 0..20_000 {
                        // Both threads meet the same keys again and again, more than the cache holds.
                        let key = SplitMix::new(u64::from(random.below(512))).next_u64();
                        match cache.get(key) {
                            Some(eval) => {
                                assert_eq!(eval, marked(key));
                                found += 1;
                            }
                            None => cache.insert(key, marked(key), cache.generation()),
                        }
                    }
                    assert!(found > 1000, "{found}");
                });
            }
        });
    }
}
