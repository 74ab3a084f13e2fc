//! What the threads of a search share.

use crate::params;
use crate::syzygy::Tablebases;
use crate::tt::Table;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The levers by which a running search is told to stop, or that the move it ponders on was played.
#[derive(Debug, Default)]
pub struct Signals {
    stop: AtomicBool,
    pondering: AtomicBool,
    /// Signals of a larger piece of work, which stop this one with it.
    parent: Option<Arc<Signals>>,
}

impl Signals {
    /// Signals of one search out of many: stopped by themselves, or with the whole.
    pub fn part_of(parent: Arc<Signals>) -> Self {
        Self { parent: Some(parent), ..Self::default() }
    }

    /// Ends the search as soon as it looks.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// The enemy played the expected move: from now on the limits count.
    pub fn ponder_hit(&self) {
        self.pondering.store(false, Relaxed);
    }

    /// Whether the search was told to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed) || self.parent.as_ref().is_some_and(|parent| parent.is_stopped())
    }

    /// Whether the search thinks on the enemy's time.
    pub fn is_pondering(&self) -> bool {
        self.pondering.load(Relaxed)
    }

    /// Prepares for a search. To be called where `go` is read, so that a `stop` read after it is never lost.
    pub fn arm(&self, ponder: bool) {
        self.stop.store(false, Relaxed);
        self.pondering.store(ponder, Relaxed);
    }
}

/// Counters of one thread, on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Counters {
    pub(crate) nodes: AtomicU64,
    pub(crate) tb_hits: AtomicU64,
}

/// What every thread of a search can see.
pub(crate) struct Shared {
    pub(crate) table: Arc<Table>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) tablebases: Option<Arc<Tablebases>>,
    pub(crate) tb_probe_depth: i32,
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

/// Natural logarithms in thirty-seconds, from which late move reductions are made.
pub(crate) struct Logarithms([i32; 256]);

impl Logarithms {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|n| ((n.max(1) as f64).ln() * 32.0).round() as i32))
    }

    /// The first guess at a reduction, in 1/1024 of a ply.
    #[inline]
    pub(crate) fn reduction(&self, depth: i32, move_count: usize, noisy: bool) -> i32 {
        let product = self.0[(depth.max(0) as usize).min(255)] * self.0[move_count.min(255)];
        if noisy {
            params::lmr_noisy_base() + params::lmr_noisy_factor() * product / 1024
        } else {
            params::lmr_quiet_base() + params::lmr_quiet_factor() * product / 1024
        }
    }
}
