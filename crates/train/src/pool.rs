//! Batches from data sets, made by background threads while a trainer works.
//!
//! Records are read into a pool, from each source in proportion to its weight; a source that ends begins
//! again. A full pool is shuffled and cut into batches while the next one fills. The same recipe gives the
//! same batches, whatever the number of threads. A [`DataCursor`] stores the address where a pool begins, so
//! that a run can be resumed at any step without reading everything before it.
//!
//! A [`BatchBuilder`] decides what a batch consists of: positions for an NNUE, or samples for a transformer.

mod streams;

pub use streams::Skipped;
pub(crate) use streams::{BlockSlice, OpenSource, SelectRecords, SelectedRecords, Streams};

use crate::recipe::RecipeError;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use streams::SourceCursor;
use tandem_data::{DataError, Record};
use tandem_util::random::SplitMix;
use thiserror::Error;

/// Data that cannot be trained on, with the reason and usually a remedy.
#[derive(Debug, Error)]
pub enum LoadDataError {
    /// A file cannot be read or decoded; the message names the record.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The recipe's description of a source is not valid, for example its filter.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// A source was read to its end without a single usable record.
    #[error(
        "{path}: none of {records} records can be learnt from: {needed}; `tandem-lab data head` shows what they have"
    )]
    Useless {
        /// Path of the source, as in the recipe.
        path: String,
        /// Number of records that the source has in all its files.
        records: u64,
        /// The fields that a record must have, and the filter that may have removed them.
        needed: String,
    },
    /// A record that was decoded but contradicts itself, for example a move that is not legal.
    #[error("{}: record {record}: {problem}", path.display())]
    InvalidRecord {
        /// Path of the file with the record.
        path: PathBuf,
        /// Number of the record in the file, from one.
        record: u64,
        /// The contradiction, for example the move that is not legal.
        problem: String,
    },
    /// The scores are all zero or in an unexpected unit.
    #[error("{problem}; `data.any_scores = true` trains all the same")]
    Scores {
        /// The evidence, for example the median score, and what to change.
        problem: String,
    },
    /// The operating system has refused a thread, for example because memory is limited.
    #[error("a thread that loads data cannot be started: {0}")]
    Thread(std::io::Error),
    /// The threads that load data have ended unexpectedly.
    #[error("the loader has stopped")]
    Stopped,
}

/// Place in the data where a pool begins, that is a set of records which are shuffled together and cut into
/// batches. A resumed run makes the same pool again from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataCursor {
    /// Step of the run for which the pool's first batch is.
    first_step: u64,
    sources: Vec<SourceCursor>,
}

/// A record that was sampled for a batch, with its neighbours in the file.
#[derive(Clone, Copy)]
pub(crate) struct SampledRecord<'a> {
    /// The block of records that was read with it, in the order of the file.
    pub(crate) records: &'a [Record],
    /// Index of the record within the block.
    pub(crate) at: usize,
    /// True if the last record of the block ends a game.
    pub(crate) ends_game: bool,
    /// Index of its source, among those with a weight above zero.
    pub(crate) source: usize,
}

impl<'a> SampledRecord<'a> {
    pub(crate) fn record(self) -> &'a Record {
        &self.records[self.at]
    }
}

/// Address of a record in a pool: a slice and an index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordAddress {
    slice: u32,
    /// Index within the slice's block.
    index: u32,
}

/// Records of several blocks, in shuffled or original order.
pub(crate) struct OrderedRecords {
    slices: Vec<BlockSlice>,
    order: Vec<RecordAddress>,
}

impl OrderedRecords {
    /// Addresses of the records, in order.
    pub(crate) fn addresses(&self) -> &[RecordAddress] {
        &self.order
    }

    /// Addresses cut into batches, the last of which may be shorter.
    pub(crate) fn batches(&self, size: usize) -> impl ExactSizeIterator<Item = &[RecordAddress]> {
        self.order.chunks(size)
    }

    /// The records at some addresses, with their blocks.
    pub(crate) fn records<'a>(
        &'a self,
        addresses: &'a [RecordAddress],
    ) -> impl Iterator<Item = SampledRecord<'a>> {
        addresses.iter().map(|address| {
            let slice = &self.slices[address.slice as usize];
            let SelectedRecords { records, ends_game, .. } = &*slice.block;
            SampledRecord { records, at: address.index as usize, ends_game: *ends_game, source: slice.source }
        })
    }
}

impl Streams {
    /// The first records in their order: each source at most once, and at most an equal part of `count` from
    /// each.
    pub(crate) fn first(self, count: u64) -> Result<OrderedRecords, LoadDataError> {
        let slices = self.first_slices(count)?;
        let order = in_order(&slices);
        Ok(OrderedRecords { slices, order })
    }
}

/// Records in shuffled order, with the cursor from which the same pool is made again.
struct Pool {
    ordered: OrderedRecords,
    cursor: Arc<DataCursor>,
}

/// A batch, with the place in the data from which a resumed run can produce it again.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedBatch<B = crate::batch::Batch> {
    /// The batch, to be given back to the loader after its step.
    pub batch: B,
    /// Place in the data where the batch's pool begins: the records that were shuffled together and cut into
    /// batches.
    pub cursor: Arc<DataCursor>,
}

/// Builds batches from sampled records; implemented for NNUEs and transformers.
pub(crate) trait BatchBuilder: Send + Sync + 'static {
    /// Type of the batches; reused, so that memory is allocated only once.
    type Batch: Default + Send + 'static;

    /// Checks the first pool of a run before any batch is built from it.
    fn check(&self, _pieces: &[BlockSlice]) -> Result<(), LoadDataError> {
        Ok(())
    }

    /// Builds the batch of a step into an old batch. `first_row` is the index of its first record in the
    /// batch of all processes together.
    fn build<'a>(
        &self,
        step: u64,
        first_row: usize,
        records: impl Iterator<Item = SampledRecord<'a>>,
        batch: &mut Self::Batch,
    ) -> Result<(), LoadDataError>;
}

/// Rank of a process among those that train together.
///
/// All of them read the same records in the same order, which is cheap compared with training; each builds
/// its own rows of every batch. So together they see exactly the data of a run with one process, for any
/// number of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessRank {
    /// Index of this process among all, from 0; the process with index 0 writes the files.
    pub rank: usize,
    /// Number of processes that train together, at least 1 (PyTorch's world size).
    pub world_size: usize,
}

impl ProcessRank {
    /// A single process, which builds every row of each batch by itself.
    pub const SINGLE: Self = Self { rank: 0, world_size: 1 };

    /// True for the process that writes files.
    pub fn is_first(self) -> bool {
        self.rank == 0
    }

    /// Rows of a batch that this process builds: contiguous, and of equal size up to rounding.
    pub fn rows(self, batch: usize) -> Range<usize> {
        let world_size = self.world_size.max(1);
        let start = |rank: usize| rank.min(world_size) * batch / world_size;
        start(self.rank)..start(self.rank + 1)
    }
}

/// Sizes and seeds by which pools are filled and cut into batches.
#[derive(Clone, Debug)]
pub(crate) struct PoolPlan {
    /// Records of a batch, over all processes together.
    pub(crate) batch: usize,
    /// Records of each batch that this process builds; other processes build the rest.
    pub(crate) rows: Range<usize>,
    /// Records that are shuffled together: the size of a pool, rounded down to whole batches.
    pub(crate) shuffle_buffer: usize,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    /// Finished batches that may wait in the queue before the threads pause.
    pub(crate) ahead: usize,
    /// Step of the first batch that is needed, since earlier ones of the pool are skipped on resuming.
    pub(crate) first_step: u64,
}

/// An endless sequence of batches, made by background threads. The same recipe gives the same batches, whatever
/// the number of threads and processes.
pub struct Loader<B> {
    batches: Receiver<Result<LoadedBatch<B>, LoadDataError>>,
    used: SyncSender<B>,
    waited: Duration,
    skipped: Arc<Skipped>,
    /// Positions of an epoch; 0 while they are unknown.
    epoch: Arc<AtomicU64>,
}

/// Puts the refusal of a thread into the queue of batches, where the run finds it.
fn report_refusal<B>(
    started: std::io::Result<std::thread::JoinHandle<()>>,
    batches: &SyncSender<Result<LoadedBatch<B>, LoadDataError>>,
) {
    if let Err(error) = started {
        let _ = batches.try_send(Err(LoadDataError::Thread(error)));
    }
}

impl<B: Default + Send + 'static> Loader<B> {
    /// Starts the threads, with the pool at a cursor. Sources are opened in the reading thread, and count
    /// skipped records in `skipped`.
    pub(crate) fn from_sources<M: BatchBuilder<Batch = B>>(
        plan: PoolPlan,
        open_sources: impl FnOnce() -> Result<Vec<OpenSource>, LoadDataError> + Send + 'static,
        maker: M,
        start: DataCursor,
        skipped: Arc<Skipped>,
    ) -> Self {
        let (pools, waiting) = sync_channel(1);
        let (sender, batches) = sync_channel(plan.ahead);
        let (used, empty) = sync_channel(2 * plan.ahead + 64);
        let failed = sender.clone();
        let maker = Arc::new(maker);
        let (filler, checker) = (plan.clone(), Arc::clone(&maker));
        let epoch = Arc::<AtomicU64>::default();
        let measured = Arc::clone(&epoch);
        let refused = sender.clone();
        let started = std::thread::Builder::new().spawn(move || {
            let outcome = open_sources()
                .and_then(|sources| fill_pools(&filler, sources, &*checker, &start, &pools, &measured));
            if let Err(error) = outcome {
                let _ = failed.send(Err(error));
            }
        });
        report_refusal(started, &refused);
        let started = std::thread::Builder::new().spawn(move || {
            if let Err(error) = cut_pools(&plan, &*maker, &waiting, &empty, &sender) {
                let _ = sender.send(Err(error));
            }
        });
        report_refusal(started, &refused);
        Self { batches, used, waited: Duration::ZERO, skipped, epoch }
    }

    /// Starts a thread that hands out the batches of an endless iterator, for data that is in memory.
    pub(crate) fn from_batches(ahead: usize, made: impl Iterator<Item = B> + Send + 'static) -> Self {
        let (sender, batches) = sync_channel(ahead);
        let cursor = Arc::<DataCursor>::default();
        let refused = sender.clone();
        let started = std::thread::Builder::new().spawn(move || {
            // Ends when the receiver is gone.
            let _ = made
                .map(|batch| LoadedBatch { batch, cursor: Arc::clone(&cursor) })
                .try_for_each(|loaded| sender.send(Ok(loaded)));
        });
        report_refusal(started, &refused);
        let (used, skipped) = (sync_channel(1).0, Arc::default());
        Self { batches, used, waited: Duration::ZERO, skipped, epoch: Arc::default() }
    }

    /// Returns a used batch, whose memory the next one reuses.
    pub fn recycle(&mut self, batch: B) {
        // If the queue is full, the batch is simply dropped.
        let _ = self.used.try_send(batch);
    }

    /// The next batch in the order of the run, waiting for it if necessary; an error ends the sequence.
    ///
    /// # Errors
    ///
    /// If a source cannot be read, has no usable record, or has scores that look meaningless.
    pub fn next_batch(&mut self) -> Result<LoadedBatch<B>, LoadDataError> {
        let since = Instant::now();
        let next = self.batches.recv().unwrap_or(Err(LoadDataError::Stopped));
        self.waited += since.elapsed();
        next
    }

    /// Total time spent in waiting for batches, which shows whether loading is the bottleneck.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Passes over the source that is repeated most often, after this number of positions of the run; `None`
    /// during the first pass, when its length is unknown.
    pub fn epochs(&self, positions: u64) -> Option<f64> {
        let epoch = self.epoch.load(Ordering::Relaxed);
        (epoch > 0 && positions > epoch).then(|| positions as f64 / epoch as f64)
    }

    /// Broken records skipped so far, in training and validation data, with the first few as examples.
    pub fn skipped(&self) -> &Arc<Skipped> {
        &self.skipped
    }
}

fn fill_pools(
    plan: &PoolPlan,
    sources: Vec<OpenSource>,
    maker: &impl BatchBuilder,
    start: &DataCursor,
    pools: &SyncSender<Pool>,
    epoch: &AtomicU64,
) -> Result<(), LoadDataError> {
    let mut streams = Streams::new(sources, plan.threads, start);
    let batches = (plan.shuffle_buffer / plan.batch).max(1);
    let mut first_step = start.first_step;
    loop {
        let cursor = Arc::new(DataCursor { first_step, sources: streams.cursors() });
        let slices = streams.fill(batches * plan.batch)?;
        epoch.store(streams.positions_per_epoch().unwrap_or(0), Ordering::Relaxed);
        // A resumed run was checked when it began.
        if first_step == 0 {
            maker.check(&slices)?;
        }
        let order = random_order(&slices, plan.seed ^ first_step.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        first_step += batches as u64;
        if pools.send(Pool { ordered: OrderedRecords { slices, order }, cursor }).is_err() {
            return Ok(());
        }
    }
}

/// Cuts each pool into batches, `threads` at a time, until the receiver is gone.
fn cut_pools<M: BatchBuilder>(
    plan: &PoolPlan,
    maker: &M,
    pools: &Receiver<Pool>,
    empty: &Receiver<M::Batch>,
    sender: &SyncSender<Result<LoadedBatch<M::Batch>, LoadDataError>>,
) -> Result<(), LoadDataError> {
    while let Ok(Pool { ordered, cursor }) = pools.recv() {
        let numbered = (cursor.first_step..).zip(ordered.batches(plan.batch));
        let wanted: Vec<_> = numbered.filter(|&(step, _)| step >= plan.first_step).collect();
        for together in wanted.chunks(plan.threads.max(1)) {
            let addresses: Vec<M::Batch> =
                together.iter().map(|_| empty.try_recv().unwrap_or_default()).collect();
            let make = |((step, addresses), mut batch): (&(u64, &[RecordAddress]), M::Batch)| {
                let records = ordered.records(&addresses[plan.rows.clone()]);
                maker.build(*step, plan.rows.start, records, &mut batch).map(|()| batch)
            };
            let batches: Vec<Result<M::Batch, _>> = together.par_iter().zip(addresses).map(make).collect();
            for batch in batches {
                if sender.send(Ok(LoadedBatch { batch: batch?, cursor: Arc::clone(&cursor) })).is_err() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

fn in_order(slices: &[BlockSlice]) -> Vec<RecordAddress> {
    let mut order = Vec::with_capacity(slices.iter().map(|slice| slice.range.len()).sum());
    for (number, slice) in (0..).zip(slices) {
        order.extend(slice.indices().map(|at| RecordAddress { slice: number, index: at }));
    }
    order
}

fn random_order(slices: &[BlockSlice], seed: u64) -> Vec<RecordAddress> {
    let mut order = in_order(slices);
    SplitMix::new(seed).shuffle(&mut order);
    order
}
