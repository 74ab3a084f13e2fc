//! The transposition table (TT): results of positions met before, shared by all threads without locks.
//!
//! A cluster is half a cache line: three entries of eight bytes, and one word with sixteen bits of each
//! entry's key. Words are read and written whole but not together, so two threads can leave a key beside
//! another position's entry. That is no worse than two positions sharing their sixteen bits: the search never
//! plays a move from here before it has checked that the move is legal.

use crate::value::{NONE, PROVEN, Value};
use bytemuck::Zeroable;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use tandem_chess::{Move, PackedMove};
use tandem_memory::AlignedArray;
use thiserror::Error;

/// Relation of an entry's score to the true score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Bound {
    None = 0,
    Upper = 1,
    Lower = 2,
    Exact = 3,
}

impl Bound {
    fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            1 => Self::Upper,
            2 => Self::Lower,
            3 => Self::Exact,
            _ => Self::None,
        }
    }

    /// True if the bound proves that the true score is at least `beta` (for `score >= beta`), or less than
    /// `beta` (otherwise).
    #[inline]
    pub(crate) fn proves(self, score: Value, beta: Value) -> bool {
        let needed = if score >= beta { Self::Lower } else { Self::Upper };
        self as u8 & needed as u8 != 0
    }

    #[inline]
    pub(crate) fn is_lower(self) -> bool {
        self as u8 & Self::Lower as u8 != 0
    }
}

/// An entry of the table, unpacked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TtEntry {
    pub(crate) mv: Option<Move>,
    pub(crate) score: Value,
    /// The evaluator's value before any correction; [`NONE`] in check.
    pub(crate) eval: Value,
    pub(crate) depth: i32,
    pub(crate) bound: Bound,
    /// True if the position was on a principal variation in this or an earlier search.
    pub(crate) pv: bool,
}

/// Added to stored depths, so that zero means an empty entry.
const DEPTH_OFFSET: i32 = 8;
const AGES: u8 = 32;

#[derive(Clone, Copy)]
struct PackedEntry(u64);

impl PackedEntry {
    fn new(entry: &TtEntry, mv: PackedMove, age: u8) -> Self {
        let depth = (entry.depth + DEPTH_OFFSET).clamp(1, 255) as u64;
        let flags = u64::from(age << 3 | u8::from(entry.pv) << 2 | entry.bound as u8);
        Self(
            u64::from(mv.bits())
                | u64::from(entry.score as i16 as u16) << 16
                | u64::from(entry.eval as i16 as u16) << 32
                | depth << 48
                | flags << 56,
        )
    }

    fn mv(self) -> PackedMove {
        PackedMove::from_bits(self.0 as u16)
    }

    fn depth(self) -> i32 {
        (self.0 >> 48) as u8 as i32 - DEPTH_OFFSET
    }

    fn is_empty(self) -> bool {
        (self.0 >> 48) as u8 == 0
    }

    fn flags(self) -> u8 {
        (self.0 >> 56) as u8
    }

    fn relative_age(self, now: u8) -> i32 {
        i32::from((AGES + now - (self.flags() >> 3)) % AGES)
    }

    fn unpack(self, ply: usize) -> TtEntry {
        TtEntry {
            mv: self.mv().unpack(),
            score: from_table(Value::from((self.0 >> 16) as i16), ply),
            eval: Value::from((self.0 >> 32) as i16),
            depth: self.depth(),
            bound: Bound::from_bits(self.flags()),
            pv: self.flags() & 4 != 0,
        }
    }
}

/// Converts a proven score, which counts plies from the root, to one that counts from the position.
fn to_table(score: Value, ply: usize) -> Value {
    match score {
        NONE => NONE,
        _ if score >= PROVEN => score + ply as Value,
        _ if score <= -PROVEN => score - ply as Value,
        _ => score,
    }
}

fn from_table(score: Value, ply: usize) -> Value {
    match score {
        NONE => NONE,
        _ if score >= PROVEN => (score - ply as Value).max(PROVEN),
        _ if score <= -PROVEN => (score + ply as Value).min(-PROVEN),
        _ => score,
    }
}

const ENTRIES_PER_CLUSTER: usize = 3;

#[derive(Zeroable)]
#[repr(C, align(32))]
struct Cluster {
    entries: [AtomicU64; ENTRIES_PER_CLUSTER],
    keys: AtomicU64,
}

impl Cluster {
    fn key(&self, index: usize) -> u16 {
        (self.keys.load(Relaxed) >> (16 * index)) as u16
    }

    fn store(&self, index: usize, key: u16, packed: PackedEntry) {
        let shift = 16 * index;
        let keys = self.keys.load(Relaxed) & !(0xFFFF << shift) | u64::from(key) << shift;
        self.keys.store(keys, Relaxed);
        self.entries[index].store(packed.0, Relaxed);
    }
}

/// Prefetches a value that will be read soon.
#[inline]
pub(crate) fn prefetch<T>(target: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect on what the program sees, and the address is a live reference's.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(target).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = target;
}

/// The hash table cannot be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("cannot allocate a hash table of {mib} MiB; the machine does not have that much memory to give")]
pub struct OutOfMemory {
    /// Requested size of the table, in MiB.
    pub mib: usize,
}

/// The table: clusters on huge pages, and the number of the present search as their age.
pub(crate) struct TranspositionTable {
    clusters: AlignedArray<Cluster>,
    age: AtomicU8,
}

impl TranspositionTable {
    /// An empty table of this size in MiB, at least 1.
    ///
    /// # Errors
    /// If the memory cannot be allocated.
    pub(crate) fn new(mib: usize) -> Result<Self, OutOfMemory> {
        let error = OutOfMemory { mib };
        let bytes = mib.max(1).checked_mul(1 << 20).ok_or(error)?;
        let clusters = AlignedArray::try_zeroed(bytes / size_of::<Cluster>()).ok_or(error)?;
        Ok(Self { clusters, age: AtomicU8::new(0) })
    }

    #[inline]
    fn cluster(&self, key: u64) -> &Cluster {
        let index = ((u128::from(key) * self.clusters.len() as u128) >> 64) as usize;
        &self.clusters[index]
    }

    /// Size in MiB, as requested.
    pub(crate) fn mib(&self) -> usize {
        (self.clusters.len() * size_of::<Cluster>()) >> 20
    }

    /// Empties the table with several threads; stops between two chunks if `cancel` is set.
    pub(crate) fn clear(&self, threads: usize, cancel: &AtomicBool) {
        const CHUNK: usize = 1 << 15;
        let per_thread = self.clusters.len().div_ceil(threads.max(1)).max(1);
        let wipe = |part: &[Cluster]| {
            for chunk in part.chunks(CHUNK) {
                if cancel.load(Relaxed) {
                    return;
                }
                for cluster in chunk {
                    for word in cluster.entries.iter().chain([&cluster.keys]) {
                        word.store(0, Relaxed);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for part in self.clusters.chunks(per_thread) {
                // If the system refuses a thread, this one does the work.
                if std::thread::Builder::new().spawn_scoped(scope, move || wipe(part)).is_err() {
                    wipe(part);
                }
            }
        });
        self.age.store(0, Relaxed);
    }

    /// Begins a new search: entries of earlier ones are replaced sooner.
    pub(crate) fn new_search(&self) {
        self.age.store((self.age.load(Relaxed) + 1) % AGES, Relaxed);
    }

    /// Prefetches the cluster of a position.
    #[inline]
    pub(crate) fn prefetch(&self, key: u64) {
        prefetch(self.cluster(key));
    }

    /// Entry of a position met `ply` plies from the root, if there is one.
    #[inline]
    pub(crate) fn probe(&self, key: u64, ply: usize) -> Option<TtEntry> {
        let cluster = self.cluster(key);
        (0..ENTRIES_PER_CLUSTER).find_map(|index| {
            let packed = PackedEntry(cluster.entries[index].load(Relaxed));
            (cluster.key(index) == key as u16 && !packed.is_empty()).then(|| packed.unpack(ply))
        })
    }

    /// Stores an entry. The entry of the same position keeps its move if the new one has none, and is not
    /// replaced by a much shallower one; otherwise the least valuable entry of the cluster, old and shallow,
    /// is replaced.
    pub(crate) fn store(&self, key: u64, ply: usize, mut entry: TtEntry) {
        let cluster = self.cluster(key);
        let age = self.age.load(Relaxed);
        let key = key as u16;
        let mut victim = 0;
        let mut lowest = i32::MAX;
        let mut old = PackedEntry(0);
        for index in 0..ENTRIES_PER_CLUSTER {
            let packed = PackedEntry(cluster.entries[index].load(Relaxed));
            if packed.is_empty() || cluster.key(index) == key {
                (victim, old) = (index, packed);
                break;
            }
            let worth = packed.depth() - 4 * packed.relative_age(age);
            if worth < lowest {
                (victim, lowest, old) = (index, worth, packed);
            }
        }
        let same = !old.is_empty() && cluster.key(victim) == key;
        let mut mv = PackedMove::new(entry.mv);
        if mv == PackedMove::NONE && same {
            mv = old.mv();
        }
        let keep = same
            && entry.bound != Bound::Exact
            && old.relative_age(age) == 0
            && entry.depth + 4 + 2 * i32::from(entry.pv) <= old.depth();
        if keep {
            // The old entry is deeper, but the new move is the better guess.
            cluster.store(victim, key, PackedEntry(old.0 & !0xFFFF | u64::from(mv.bits())));
        } else {
            entry.score = to_table(entry.score, ply);
            cluster.store(victim, key, PackedEntry::new(&entry, mv, age));
        }
    }

    /// Entries filled by the current search, in thousandths, estimated from the first clusters.
    pub(crate) fn permille_used(&self) -> usize {
        let age = self.age.load(Relaxed);
        let sample = &self.clusters[..self.clusters.len().min(1000)];
        let used = sample
            .iter()
            .flat_map(|cluster| &cluster.entries)
            .map(|entry| PackedEntry(entry.load(Relaxed)))
            .filter(|packed| !packed.is_empty() && packed.relative_age(age) == 0)
            .count();
        used * 1000 / (sample.len() * ENTRIES_PER_CLUSTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{mate_in, mated_in};
    use tandem_chess::Square;

    fn entry(depth: i32, score: Value) -> TtEntry {
        let mv = Some(Move { from: Square::E2, to: Square::E4, promotion: None });
        TtEntry { mv, score, eval: -37, depth, bound: Bound::Exact, pv: true }
    }

    #[test]
    fn a_stored_entry_is_found() {
        let table = TranspositionTable::new(1).unwrap();
        for (n, score) in [0, 25, -300, mate_in(7), mated_in(9), PROVEN, -PROVEN].into_iter().enumerate() {
            let key = ((n as u64) << 57) | (n as u64 + 1);
            table.store(key, 3, entry(n as i32, score));
            let found = table.probe(key, 3).unwrap();
            assert_eq!((found.score, found.depth, found.eval), (score, n as i32, -37));
            assert_eq!((found.bound, found.pv, found.mv), (Bound::Exact, true, entry(0, 0).mv));
        }
    }

    #[test]
    fn a_mate_is_counted_from_where_it_is_met() {
        let table = TranspositionTable::new(1).unwrap();
        table.store(99, 4, entry(5, mate_in(10)));
        assert_eq!(table.probe(99, 2).unwrap().score, mate_in(8));
    }

    #[test]
    fn old_and_shallow_entries_go_first() {
        let table = TranspositionTable::new(1).unwrap();
        for key in 1..=3 {
            table.store(key, 0, entry(10 * key as i32, 0));
        }
        table.store(4, 0, entry(1, 0));
        assert!(table.probe(1, 0).is_none(), "the shallowest was replaced");
        for _ in 0..10 {
            table.new_search();
        }
        table.store(5, 0, entry(0, 0));
        table.store(6, 0, entry(0, 0));
        assert!(table.probe(5, 0).is_some() && table.probe(6, 0).is_some());
    }

    #[test]
    fn a_move_outlives_an_entry_without_one() {
        let table = TranspositionTable::new(1).unwrap();
        table.store(7, 0, entry(5, 10));
        table.store(7, 0, TtEntry { mv: None, ..entry(6, 20) });
        let found = table.probe(7, 0).unwrap();
        assert_eq!((found.mv, found.score), (entry(0, 0).mv, 20));
    }

    #[test]
    fn clearing_empties_every_cluster() {
        let table = TranspositionTable::new(2).unwrap();
        for key in 0..100_000u64 {
            table.store(key.wrapping_mul(0x9E37_79B9_7F4A_7C15), 0, entry(3, 1));
        }
        assert!(table.permille_used() > 500);
        table.clear(2, &AtomicBool::new(false));
        assert_eq!(table.permille_used(), 0);
    }

    #[test]
    fn absurd_sizes_are_refused() {
        assert!(TranspositionTable::new(usize::MAX).is_err());
        assert!(TranspositionTable::new(usize::MAX >> 21).is_err());
    }
}
