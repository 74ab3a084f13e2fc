//! What pools are filled from: sources that are read again and again, each by its share.

use super::{DataCursor, LoadDataError};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tandem_data::{Block, Cursor, OnError, Reader, Record, Sieve, Source};

/// Where a source stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceCursor {
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
    pub(super) block: Arc<Chosen>,
    /// Which of the useful ones.
    pub(super) place: Range<usize>,
    /// Which of the sources that are read it is from.
    pub(crate) source: usize,
}

impl Piece {
    /// Where its records are in the block.
    pub(super) fn places(&self) -> impl Iterator<Item = u32> {
        let useful = self.block.useful.as_deref();
        self.place.clone().map(move |at| useful.map_or(at as u32, |useful| useful[at]))
    }

    /// Its records.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.places().map(|at| &self.block.records[at as usize])
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

    /// Where all of them stand.
    pub(super) fn cursors(&self) -> Vec<SourceCursor> {
        self.streams.iter().map(|stream| stream.cursor).collect()
    }

    /// Fills a pool: always from the source that is furthest behind its share. No source gives more than a sixteenth of its
    /// part at a time, however long its blocks are: some hold more records than a pool.
    pub(super) fn fill(&mut self, count: usize) -> Result<Vec<Piece>, LoadDataError> {
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

    /// The first records of every source, or as many of each as their number allows.
    pub(super) fn first_pieces(mut self, count: u64) -> Result<Vec<Piece>, LoadDataError> {
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
        Ok(pieces)
    }
}
