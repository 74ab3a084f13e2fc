//! Batches from data sets, made by threads of their own while a trainer works.
//!
//! Records are read into a pool, as many from each source as its weight says; a source that ends begins again. A full pool
//! is put in random order and cut into batches, while the next one fills. The same recipe gives the same batches, however
//! many threads there are, and a [`DataCursor`] says where a pool begins, so that a run can go on from any step without
//! reading everything before it.
//!
//! What a batch is made of is up to a [`Maker`]: positions of an NNUE, or samples of a transformer.

mod streams;

pub use streams::Skipped;
pub(crate) use streams::{Choose, Chosen, Feed, Piece, Streams};

use crate::recipe::RecipeError;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use streams::SourceCursor;
use tandem_chess::random::SplitMix;
use tandem_data::{DataError, Record};
use thiserror::Error;

/// Data that cannot be trained with.
#[derive(Debug, Error)]
pub enum LoadDataError {
    /// It cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// What a recipe says of it is wrong.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// There is nothing to learn from.
    #[error(
        "{path}: none of {records} records can be learnt from: {needed}; `tandem-lab data head` shows what they have"
    )]
    Useless {
        /// The source.
        path: String,
        /// What it has.
        records: u64,
        /// What a record must have.
        needed: String,
    },
    /// A record that is read, but makes no sense.
    #[error("{}: record {record}: {problem}", path.display())]
    Nonsense {
        /// The file.
        path: PathBuf,
        /// Which record, from one.
        record: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// The scores mean nothing.
    #[error("{problem}; `data.any_scores = true` trains all the same")]
    Scores {
        /// What is wrong with them and what to change.
        problem: String,
    },
    /// The threads that load have ended.
    #[error("the loader has stopped")]
    Stopped,
}

/// Where a pool begins: everything that is needed to make it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataCursor {
    /// The step that its first batch is for.
    first_step: u64,
    sources: Vec<SourceCursor>,
}

/// A record of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Taken<'a> {
    /// It and those that were read with it.
    pub(crate) records: &'a [Record],
    /// Which of them.
    pub(crate) at: usize,
    /// The last of them ends a game.
    pub(crate) ends_game: bool,
    /// Which of the sources that are read it is from.
    pub(crate) source: usize,
}

impl<'a> Taken<'a> {
    pub(crate) fn record(self) -> &'a Record {
        &self.records[self.at]
    }
}

/// Where a record of a pool is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    piece: u32,
    /// Within the piece's block.
    at: u32,
}

/// Records in some order.
pub(crate) struct Ordered {
    pieces: Vec<Piece>,
    order: Vec<Place>,
}

impl Ordered {
    /// Where they are.
    pub(crate) fn places(&self) -> &[Place] {
        &self.order
    }

    /// The order cut into batches, the last of which may be shorter.
    pub(crate) fn batches(&self, size: usize) -> impl ExactSizeIterator<Item = &[Place]> {
        self.order.chunks(size)
    }

    /// The records of a batch.
    pub(crate) fn records<'a>(&'a self, places: &'a [Place]) -> impl Iterator<Item = Taken<'a>> {
        places.iter().map(|place| {
            let piece = &self.pieces[place.piece as usize];
            let Chosen { records, ends_game, .. } = &*piece.block;
            Taken { records, at: place.at as usize, ends_game: *ends_game, source: piece.source }
        })
    }
}

impl Streams {
    /// The first records in their order: every source once, or as many of each as their number allows.
    pub(crate) fn first(self, count: u64) -> Result<Ordered, LoadDataError> {
        let pieces = self.first_pieces(count)?;
        let order = in_order(&pieces);
        Ok(Ordered { pieces, order })
    }
}

/// Records of a pool in random order, and where it begins.
struct Pool {
    ordered: Ordered,
    cursor: Arc<DataCursor>,
}

/// A batch, and what is needed to make it again.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded<B = crate::batch::Batch> {
    /// The batch.
    pub batch: B,
    /// Where its pool begins.
    pub cursor: Arc<DataCursor>,
}

/// Makes batches of records.
pub(crate) trait Maker: Send + Sync + 'static {
    /// What is made.
    type Batch: Default + Send + 'static;

    /// Looks at the first pool of a run before anything is made of it.
    fn look(&self, _pieces: &[Piece]) -> Result<(), LoadDataError> {
        Ok(())
    }

    /// Makes the batch of a step, whose first row is that of a joint batch, in the place of an old one.
    fn make<'a>(
        &self,
        step: u64,
        first_row: usize,
        records: impl Iterator<Item = Taken<'a>>,
        batch: &mut Self::Batch,
    ) -> Result<(), LoadDataError>;
}

/// How pools are filled and cut.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Records of a batch.
    pub(crate) batch: usize,
    /// Those of them that are made here; the rest is made elsewhere.
    pub(crate) rows: Range<usize>,
    /// Records that are mixed at a time.
    pub(crate) shuffle_buffer: usize,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    /// Batches that wait to be used.
    pub(crate) ahead: usize,
    /// The step of the first batch that is wanted.
    pub(crate) first_step: u64,
}

/// Batches without end.
pub(crate) struct Batches<B> {
    batches: Receiver<Result<Loaded<B>, LoadDataError>>,
    used: SyncSender<B>,
    waited: Duration,
}

impl<B: Default + Send + 'static> Batches<B> {
    /// Begins with the pool that a cursor leads to. Sources are opened by the thread that reads them.
    pub(crate) fn new<M: Maker<Batch = B>>(
        plan: Plan,
        feeds: impl FnOnce() -> Result<Vec<Feed>, LoadDataError> + Send + 'static,
        maker: M,
        start: DataCursor,
    ) -> Self {
        let (pools, waiting) = sync_channel(1);
        let (sender, batches) = sync_channel(plan.ahead);
        let (used, empty) = sync_channel(2 * plan.ahead + 64);
        let failed = sender.clone();
        let maker = Arc::new(maker);
        let (filler, looker) = (plan.clone(), Arc::clone(&maker));
        std::thread::spawn(move || {
            let outcome = feeds().and_then(|feeds| fill_pools(&filler, feeds, &*looker, &start, &pools));
            if let Err(error) = outcome {
                let _ = failed.send(Err(error));
            }
        });
        std::thread::spawn(move || {
            if let Err(error) = cut_pools(&plan, &*maker, &waiting, &empty, &sender) {
                let _ = sender.send(Err(error));
            }
        });
        Self { batches, used, waited: Duration::ZERO }
    }

    /// Takes back a batch that nobody needs any more: the next is made in its place.
    pub(crate) fn recycle(&mut self, batch: B) {
        // Where there is no room for it, it goes the usual way.
        let _ = self.used.try_send(batch);
    }

    /// The next batch.
    pub(crate) fn next_batch(&mut self) -> Result<Loaded<B>, LoadDataError> {
        let since = Instant::now();
        let next = self.batches.recv().unwrap_or(Err(LoadDataError::Stopped));
        self.waited += since.elapsed();
        next
    }

    /// The time that was spent in waiting for batches.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }
}

fn fill_pools(
    plan: &Plan,
    feeds: Vec<Feed>,
    maker: &impl Maker,
    start: &DataCursor,
    pools: &SyncSender<Pool>,
) -> Result<(), LoadDataError> {
    let mut streams = Streams::new(feeds, plan.threads, start);
    let batches = (plan.shuffle_buffer / plan.batch).max(1);
    let mut first_step = start.first_step;
    loop {
        let cursor = Arc::new(DataCursor { first_step, sources: streams.cursors() });
        let pieces = streams.fill(batches * plan.batch)?;
        // Once is enough: a run that goes on has been looked at when it began.
        if first_step == 0 {
            maker.look(&pieces)?;
        }
        let order = random_order(&pieces, plan.seed ^ first_step.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        first_step += batches as u64;
        if pools.send(Pool { ordered: Ordered { pieces, order }, cursor }).is_err() {
            return Ok(());
        }
    }
}

/// Cuts each pool, several batches at a time, until nobody takes them.
fn cut_pools<M: Maker>(
    plan: &Plan,
    maker: &M,
    pools: &Receiver<Pool>,
    empty: &Receiver<M::Batch>,
    sender: &SyncSender<Result<Loaded<M::Batch>, LoadDataError>>,
) -> Result<(), LoadDataError> {
    while let Ok(Pool { ordered, cursor }) = pools.recv() {
        let numbered = (cursor.first_step..).zip(ordered.batches(plan.batch));
        let wanted: Vec<_> = numbered.filter(|&(step, _)| step >= plan.first_step).collect();
        for together in wanted.chunks(plan.threads.max(1)) {
            let places: Vec<M::Batch> =
                together.iter().map(|_| empty.try_recv().unwrap_or_default()).collect();
            let make = |((step, places), mut batch): (&(u64, &[Place]), M::Batch)| {
                let records = ordered.records(&places[plan.rows.clone()]);
                maker.make(*step, plan.rows.start, records, &mut batch).map(|()| batch)
            };
            let batches: Vec<Result<M::Batch, _>> = together.par_iter().zip(places).map(make).collect();
            for batch in batches {
                if sender.send(Ok(Loaded { batch: batch?, cursor: Arc::clone(&cursor) })).is_err() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

fn in_order(pieces: &[Piece]) -> Vec<Place> {
    let mut order = Vec::with_capacity(pieces.iter().map(|piece| piece.place.len()).sum());
    for (number, piece) in (0..).zip(pieces) {
        order.extend(piece.places().map(|at| Place { piece: number, at }));
    }
    order
}

fn random_order(pieces: &[Piece], seed: u64) -> Vec<Place> {
    let mut random = SplitMix::new(seed);
    let mut order = in_order(pieces);
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u32 + 1) as usize);
    }
    order
}
