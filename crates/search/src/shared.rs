//! State shared by the threads of a search: signals, hash table, tables and node counters.

use crate::strategist::Strategist;
use crate::syzygy::Tablebases;
use crate::tt::TranspositionTable;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Signals to a running search: an order to stop, and the news that the expected move was played (ponder
/// hit). Safe to set from any thread.
#[derive(Debug, Default)]
pub struct Signals {
    stop: AtomicBool,
    pondering: AtomicBool,
    /// Signals of a parent search or job, whose stop also stops this one.
    parent: Option<Arc<Signals>>,
}

impl Signals {
    /// New signals for a search that depends on another one. A stop of `parent` also stops the new search,
    /// but not the reverse.
    pub fn child_of(parent: Arc<Signals>) -> Self {
        Self { parent: Some(parent), ..Self::default() }
    }

    /// Ends the search at its next check of the limits, usually within a few milliseconds.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// The opponent played the expected move: from now on the limits apply.
    pub fn ponder_hit(&self) {
        self.pondering.store(false, Relaxed);
    }

    /// True once [`Self::stop`] was called here or on a parent.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed) || self.parent.as_ref().is_some_and(|parent| parent.is_stopped())
    }

    /// True while the search runs in the opponent's time, that is until [`Self::ponder_hit`] or the next
    /// [`Self::arm`].
    pub fn is_pondering(&self) -> bool {
        self.pondering.load(Relaxed)
    }

    /// Resets the signals for a new search, which begins in the opponent's time if `ponder` is true. Call it
    /// where the request (`go`) is read, so that a `stop` read afterwards is never lost.
    pub fn arm(&self, ponder: bool) {
        self.stop.store(false, Relaxed);
        self.pondering.store(ponder, Relaxed);
    }
}

/// Counters of one thread, on a cache line of their own to avoid false sharing.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Counters {
    pub(crate) nodes: AtomicU64,
    pub(crate) tb_hits: AtomicU64,
}

/// State that all threads of a search can read.
pub(crate) struct Shared {
    pub(crate) table: Arc<TranspositionTable>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) tablebases: Option<Arc<Tablebases>>,
    pub(crate) tb_probe_depth: i32,
    pub(crate) strategist: Option<Arc<dyn Strategist>>,
    /// Set once the first thread has finished an iteration, so that there is a move to play.
    pub(crate) has_move: AtomicBool,
    pub(crate) counters: Vec<Counters>,
}

impl Shared {
    pub(crate) fn nodes(&self) -> u64 {
        self.counters.iter().map(|counters| counters.nodes.load(Relaxed)).sum()
    }

    pub(crate) fn tb_hits(&self) -> u64 {
        self.counters.iter().map(|counters| counters.tb_hits.load(Relaxed)).sum()
    }
}
