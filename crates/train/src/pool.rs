//! Batches from data sets, made by threads of their own while a trainer works.
//!
//! Records are read into a pool, as many from each source as its weight says; a source that ends begins again. A full pool
//! is put in random order and cut into batches, while the next one fills. The same recipe gives the same batches, however
//! many threads there are, and a [`DataCursor`] says where a pool begins, so that a run can go on from any step without
//! reading everything before it.
//!
//! What a batch is made of is up to a [`Maker`]: positions of an NNUE, or samples of a transformer.

use crate::recipe::RecipeError;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tandem_chess::random::SplitMix;
use tandem_data::{Block, Cursor, DataError, OnError, Reader, Record, Sieve, Source};
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

/// Where a source stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceCursor {
    /// How often it has been read to its end.
    readings: u64,
    /// The block that comes next, or whose records come next.
    file: usize,
    byte: u64,
    record: u64,
    /// Useful records of that block that are gone.
    gone: usize,
    /// Records that were used so far.
    taken: u64,
}

/// Where a pool begins: everything that is needed to make it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataCursor {
    /// The step that its first batch is for.
    first_step: u64,
    sources: Vec<SourceCursor>,
}

/// Records of a block, and which of them are learnt from: all, or those that are listed. The others stay where those that
/// are learnt from need to know what was before and after them.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) records: Vec<Record>,
    pub(crate) useful: Option<Vec<u32>>,
    /// The block ends where a game ends.
    pub(crate) ends_game: bool,
}

impl Chosen {
    fn len(&self) -> usize {
        self.useful.as_ref().map_or(self.records.len(), Vec::len)
    }
}

/// Chooses from a block of a file, which is read for the first time or again.
pub(crate) type Choose = Arc<dyn Fn(Block, &Source, bool) -> Result<Chosen, LoadDataError> + Send + Sync>;

/// A source as pools are filled from it.
pub(crate) struct Feed {
    /// What it is called in messages.
    pub(crate) path: String,
    /// How often it is read, against the others.
    pub(crate) weight: f64,
    pub(crate) files: Vec<Source>,
    pub(crate) on_error: OnError,
    /// What is left out where records are decoded.
    pub(crate) sieve: Option<Sieve>,
    /// What is left out of a block, which may depend on the records around.
    pub(crate) choose: Option<Choose>,
    /// Records that were read, useful or not.
    pub(crate) seen: Arc<AtomicU64>,
    /// What a record must have to be useful.
    pub(crate) needed: String,
    /// Records that were left out because they are broken.
    pub(crate) skipped: Arc<Skipped>,
}

/// Broken records that were left out in the first reading of the data.
#[derive(Debug, Default)]
pub struct Skipped {
    count: AtomicU64,
    examples: Mutex<Vec<String>>,
}

/// Reasons that are remembered.
const EXAMPLES: usize = 5;

impl Skipped {
    /// How many.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Why, for the first few, with their places.
    pub fn examples(&self) -> Vec<String> {
        self.examples.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts some more, with the reasons for as many of them as are known.
    pub(crate) fn add(&self, count: u64, reasons: impl IntoIterator<Item = String>) {
        self.count.fetch_add(count, Ordering::Relaxed);
        let mut examples = self.examples.lock().unwrap_or_else(PoisonError::into_inner);
        let room = EXAMPLES.saturating_sub(examples.len());
        examples.extend(reasons.into_iter().take(room));
    }
}

/// Part of a block of records, which nobody copies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Piece {
    block: Arc<Chosen>,
    /// Which of the useful ones.
    place: Range<usize>,
    /// Which of the sources that are read it is from.
    pub(crate) source: usize,
}

impl Piece {
    /// Where its records are in the block.
    fn places(&self) -> impl Iterator<Item = u32> {
        let useful = self.block.useful.as_deref();
        self.place.clone().map(move |at| useful.map_or(at as u32, |useful| useful[at]))
    }

    /// Its records.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.places().map(|at| &self.block.records[at as usize])
    }
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

/// A source that is read again and again.
struct Stream {
    feed: Feed,
    threads: usize,
    reader: Reader,
    block: Arc<Chosen>,
    cursor: SourceCursor,
    /// Readings to the end since anything was taken.
    barren: u32,
    /// Broken records that are counted already.
    told: u64,
}

impl Stream {
    fn new(feed: Feed, threads: usize, cursor: SourceCursor) -> Self {
        let start = Cursor { source: cursor.file, byte: cursor.byte, record: cursor.record };
        let reader = Reader::new(feed.files.clone(), threads, feed.on_error, feed.sieve.clone(), start);
        Self { feed, threads, reader, block: Arc::default(), cursor, barren: 0, told: 0 }
    }

    /// Takes records of one block, at most so many.
    fn take(&mut self, most: usize) -> Result<Piece, LoadDataError> {
        if self.cursor.gone >= self.block.len() {
            let Some(block) = self.reader.next_block() else {
                self.begin_again()?;
                return Ok(Piece::default());
            };
            let block = block?;
            self.count_skips();
            let start = block.cursor;
            // Only the block that a run goes on in has records that are gone.
            if self.block.len() > 0 || (self.cursor.file, self.cursor.byte) != (start.source, start.byte) {
                self.cursor.gone = 0;
            }
            (self.cursor.file, self.cursor.byte) = (start.source, start.byte);
            self.cursor.record = start.record;
            let chosen = match &self.feed.choose {
                Some(choose) => choose(block, &self.feed.files[start.source], self.cursor.readings == 0)?,
                None => Chosen { records: block.records, ..Chosen::default() },
            };
            self.block = Arc::new(chosen);
        }
        let first = self.cursor.gone.min(self.block.len());
        let place = first..self.block.len().min(first + most);
        self.cursor.gone = place.end;
        self.cursor.taken += place.len() as u64;
        if !place.is_empty() {
            self.barren = 0;
        }
        Ok(Piece { block: Arc::clone(&self.block), place, source: 0 })
    }

    fn begin_again(&mut self) -> Result<(), LoadDataError> {
        // What was left out after the last block is known only now.
        self.count_skips();
        self.barren += 1;
        // A run may go on at the very end of the data: the first end is none to worry about then.
        if self.cursor.taken == 0 || self.barren > 1 {
            let records = self.feed.seen.load(Ordering::Relaxed);
            let (path, needed) = (self.feed.path.clone(), self.feed.needed.clone());
            return Err(LoadDataError::Useless { path, records, needed });
        }
        let (readings, taken) = (self.cursor.readings + 1, self.cursor.taken);
        let cursor = SourceCursor { readings, taken, ..SourceCursor::default() };
        let Feed { files, on_error, sieve, .. } = &self.feed;
        self.reader = Reader::new(files.clone(), self.threads, *on_error, sieve.clone(), Cursor::default());
        (self.cursor, self.block) = (cursor, Arc::default());
        Ok(())
    }

    /// What the reader has left out since the last time.
    fn count_skips(&mut self) {
        let skips = self.reader.skips();
        if self.cursor.readings == 0 && skips.count > self.told {
            let new = skips.examples.iter().skip(self.told as usize);
            self.feed.skipped.add(skips.count - self.told, new.map(ToString::to_string));
            self.told = skips.count;
        }
    }
}

/// All sources.
pub(crate) struct Streams {
    streams: Vec<Stream>,
}

impl Streams {
    pub(crate) fn new(feeds: Vec<Feed>, threads: usize, start: &DataCursor) -> Self {
        let streams = feeds.into_iter().enumerate().map(|(number, feed)| {
            let cursor = start.sources.get(number).copied().unwrap_or_default();
            Stream::new(feed, threads, cursor)
        });
        Self { streams: streams.collect() }
    }

    fn cursors(&self) -> Vec<SourceCursor> {
        self.streams.iter().map(|stream| stream.cursor).collect()
    }

    /// Fills a pool: always from the source that is furthest behind its share. No source gives more than a sixteenth of its
    /// part at a time, however long its blocks are: some hold more records than a pool.
    fn fill(&mut self, count: usize) -> Result<Vec<Piece>, LoadDataError> {
        let (mut pieces, mut len) = (Vec::new(), 0);
        let weights: f64 = self.streams.iter().map(|stream| stream.feed.weight).sum();
        while len < count {
            let behind = |stream: &Stream| stream.cursor.taken as f64 / stream.feed.weight;
            let streams = self.streams.iter_mut().enumerate();
            let next = streams.min_by(|(_, left), (_, right)| behind(left).total_cmp(&behind(right)));
            let Some((source, stream)) = next else { return Err(LoadDataError::Stopped) };
            let at_a_time = (count as f64 * stream.feed.weight / weights / 16.0).ceil() as usize;
            let piece = stream.take((count - len).min(at_a_time))?;
            if !piece.place.is_empty() {
                len += piece.place.len();
                pieces.push(Piece { source, ..piece });
            }
        }
        Ok(pieces)
    }

    /// The first records in their order: every source once, or as many of each as their number allows.
    pub(crate) fn first(mut self, count: u64) -> Result<Ordered, LoadDataError> {
        let each = count.div_ceil(self.streams.len().max(1) as u64) as usize;
        let mut pieces = Vec::new();
        for (source, stream) in self.streams.iter_mut().enumerate() {
            let mut room = each;
            while stream.cursor.readings == 0 && room > 0 {
                let piece = stream.take(room)?;
                room -= piece.place.len();
                if !piece.place.is_empty() {
                    pieces.push(Piece { source, ..piece });
                }
            }
        }
        let order = in_order(&pieces);
        Ok(Ordered { pieces, order })
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
