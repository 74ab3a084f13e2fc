//! Sources that are read again and again, from which pools are filled in proportion to their weights.

use super::{DataCursor, LoadDataError};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tandem_data::{Cursor, OnError, Record, RecordBlock, RecordFilter, RecordReader, Source};

/// Place in a source from which reading continues; stored in checkpoints, so its names are fixed there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceCursor {
    /// Number of complete passes over the source so far.
    #[serde(rename = "readings")] // language: old name
    passes: u64,
    /// File of the next block, or of the block whose records come next.
    file: usize,
    byte: u64,
    record: u64,
    /// Usable records of that block that were taken already, and are skipped on resuming.
    #[serde(rename = "gone")]
    used: usize,
    /// Records taken so far, over all passes; decides which source is behind its weight.
    taken: u64,
}

/// Records of a block with the indices of those to train on, or all if there is no list. The others remain
/// because a sample may need its neighbours, for example the positions before it.
#[derive(Debug, Default)]
pub(crate) struct SelectedRecords {
    pub(crate) records: Vec<Record>,
    pub(crate) useful: Option<Vec<u32>>,
    /// True if the block ends where a game ends, so that its last record has no successor.
    pub(crate) ends_game: bool,
}

impl SelectedRecords {
    fn len(&self) -> usize {
        self.useful.as_ref().map_or(self.records.len(), Vec::len)
    }
}

/// Selects the records of a block of a file. The flag is true in the first pass over the data, the only one
/// in which skipped records are counted.
pub(crate) type SelectRecords =
    Arc<dyn Fn(RecordBlock, &Source, bool) -> Result<SelectedRecords, LoadDataError> + Send + Sync>;

/// A source opened for filling pools: its files, filters and counters.
pub(crate) struct OpenSource {
    /// Path of the source as in the recipe, for messages.
    pub(crate) path: String,
    /// Sampling weight relative to the other sources, above zero.
    pub(crate) weight: f64,
    pub(crate) files: Vec<Source>,
    pub(crate) on_error: OnError,
    /// Filter that is applied while records are decoded, before they use memory.
    pub(crate) filter: Option<RecordFilter>,
    /// Filter applied to whole blocks, because it depends on neighbouring records.
    pub(crate) select: Option<SelectRecords>,
    /// Number of records read, usable or not, for the message about a source without usable ones.
    pub(crate) seen: Arc<AtomicU64>,
    /// Description of what makes a record usable, for messages about sources that have none.
    pub(crate) needed: String,
    /// Counter of broken records that were skipped, shared with the loader.
    pub(crate) skipped: Arc<Skipped>,
}

/// Broken records that were skipped during the first pass over the data.
#[derive(Debug, Default)]
pub struct Skipped {
    count: AtomicU64,
    examples: Mutex<Vec<String>>,
}

/// Number of skipped records whose reasons are remembered for the report.
const EXAMPLES: usize = 5;

impl Skipped {
    /// Number of skipped records in the first pass over all sources.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Reasons with positions in the files, for the first five skipped records.
    pub fn examples(&self) -> Vec<String> {
        self.examples.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts more skipped records, with the reasons of some of them.
    pub(crate) fn add(&self, count: u64, reasons: impl IntoIterator<Item = String>) {
        self.count.fetch_add(count, Ordering::Relaxed);
        let mut examples = self.examples.lock().unwrap_or_else(PoisonError::into_inner);
        let left = EXAMPLES.saturating_sub(examples.len());
        examples.extend(reasons.into_iter().take(left));
    }
}

/// A range of the usable records of a block, which is shared and never copied.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockSlice {
    pub(super) block: Arc<SelectedRecords>,
    /// Range of indices within the usable records of the block.
    pub(super) range: Range<usize>,
    /// Index of its source, among those with a weight above zero.
    pub(crate) source: usize,
}

impl BlockSlice {
    /// Indices of its records within the block, including the unusable ones.
    pub(super) fn indices(&self) -> impl Iterator<Item = u32> {
        let useful = self.block.useful.as_deref();
        self.range.clone().map(move |at| useful.map_or(at as u32, |useful| useful[at]))
    }

    /// Its records, in the order of the block, as references.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.indices().map(|at| &self.block.records[at as usize])
    }
}

/// A source with its reader, which is restarted at each end of the data.
struct Stream {
    source: OpenSource,
    threads: usize,
    reader: RecordReader,
    block: Arc<SelectedRecords>,
    cursor: SourceCursor,
    /// Ends reached since the last usable record; two in a row mean that there is none.
    empty_passes: u32,
    /// Skipped records that are already added to the counter.
    counted_skips: u64,
    /// Usable records of a pass, once there was a complete one.
    pass_length: Option<u64>,
}

impl Stream {
    fn new(source: OpenSource, threads: usize, cursor: SourceCursor) -> Self {
        let start = Cursor { source: cursor.file, byte: cursor.byte, record: cursor.record };
        let reader =
            RecordReader::new(source.files.clone(), threads, source.on_error, source.filter.clone(), start);
        Self {
            source,
            threads,
            reader,
            block: Arc::default(),
            cursor,
            empty_passes: 0,
            counted_skips: 0,
            pass_length: None,
        }
    }

    /// Takes records of one block, at most `max`; none if the source has just come to its end.
    fn take(&mut self, max: usize) -> Result<BlockSlice, LoadDataError> {
        if self.cursor.used >= self.block.len() {
            let Some(block) = self.reader.next_block() else {
                self.begin_again()?;
                return Ok(BlockSlice::default());
            };
            let block = block?;
            self.count_skips();
            let start = block.cursor;
            // Only the block at which a run is resumed has records that were taken before.
            if self.block.len() > 0 || (self.cursor.file, self.cursor.byte) != (start.source, start.byte) {
                self.cursor.used = 0;
            }
            (self.cursor.file, self.cursor.byte) = (start.source, start.byte);
            self.cursor.record = start.record;
            let selected = match &self.source.select {
                Some(select) => select(block, &self.source.files[start.source], self.cursor.passes == 0)?,
                None => SelectedRecords { records: block.records, ..SelectedRecords::default() },
            };
            self.block = Arc::new(selected);
        }
        let first = self.cursor.used.min(self.block.len());
        let place = first..self.block.len().min(first + max);
        self.cursor.used = place.end;
        self.cursor.taken += place.len() as u64;
        if !place.is_empty() {
            self.empty_passes = 0;
        }
        Ok(BlockSlice { block: Arc::clone(&self.block), range: place, source: 0 })
    }

    fn begin_again(&mut self) -> Result<(), LoadDataError> {
        // Records skipped after the last block are known only now.
        self.count_skips();
        self.empty_passes += 1;
        // A run may be resumed at the very end of the data, so the first end alone is not an error.
        if self.cursor.taken == 0 || self.empty_passes > 1 {
            let records = self.source.seen.load(Ordering::Relaxed);
            let (path, needed) = (self.source.path.clone(), self.source.needed.clone());
            return Err(LoadDataError::Useless { path, records, needed });
        }
        let (passes, taken) = (self.cursor.passes + 1, self.cursor.taken);
        self.pass_length = Some(taken / passes);
        let cursor = SourceCursor { passes, taken, ..SourceCursor::default() };
        let OpenSource { files, on_error, filter, .. } = &self.source;
        self.reader =
            RecordReader::new(files.clone(), self.threads, *on_error, filter.clone(), Cursor::default());
        (self.cursor, self.block) = (cursor, Arc::default());
        Ok(())
    }

    /// Counts the records that the reader has skipped since the last call.
    fn count_skips(&mut self) {
        let skips = self.reader.skips();
        if self.cursor.passes == 0 && skips.count > self.counted_skips {
            let new = skips.examples.iter().skip(self.counted_skips as usize);
            self.source.skipped.add(skips.count - self.counted_skips, new.map(ToString::to_string));
            self.counted_skips = skips.count;
        }
    }
}

/// All sources of a run with their readers.
pub(crate) struct Streams {
    streams: Vec<Stream>,
}

impl Streams {
    pub(crate) fn new(sources: Vec<OpenSource>, threads: usize, start: &DataCursor) -> Self {
        let streams = sources.into_iter().enumerate().map(|(number, source)| {
            let cursor = start.sources.get(number).copied().unwrap_or_default();
            Stream::new(source, threads, cursor)
        });
        Self { streams: streams.collect() }
    }

    /// Present places of all sources, for the cursor of the next pool.
    pub(super) fn cursors(&self) -> Vec<SourceCursor> {
        self.streams.iter().map(|stream| stream.cursor).collect()
    }

    /// Positions of a run after which the first source is read to its end; `None` before one was.
    pub(super) fn positions_per_epoch(&self) -> Option<u64> {
        let weights: f64 = self.streams.iter().map(|stream| stream.source.weight).sum();
        let positions =
            |stream: &Stream| Some((stream.pass_length? as f64 * weights / stream.source.weight) as u64);
        self.streams.iter().filter_map(positions).min()
    }

    /// Fills a pool, always from the source that is furthest behind its weight. A source gives at most a
    /// sixteenth of its part at a time, because some formats have blocks with more records than a pool.
    pub(super) fn fill(&mut self, count: usize) -> Result<Vec<BlockSlice>, LoadDataError> {
        let (mut slices, mut len) = (Vec::new(), 0);
        let weights: f64 = self.streams.iter().map(|stream| stream.source.weight).sum();
        while len < count {
            let behind = |stream: &Stream| stream.cursor.taken as f64 / stream.source.weight;
            let streams = self.streams.iter_mut().enumerate();
            let next = streams.min_by(|(_, left), (_, right)| behind(left).total_cmp(&behind(right)));
            let Some((source, stream)) = next else { return Err(LoadDataError::Stopped) };
            let at_a_time = (count as f64 * stream.source.weight / weights / 16.0).ceil() as usize;
            let slice = stream.take((count - len).min(at_a_time))?;
            if !slice.range.is_empty() {
                len += slice.range.len();
                slices.push(BlockSlice { source, ..slice });
            }
        }
        Ok(slices)
    }

    /// The first records of each source, at most an equal part of `count` from each.
    pub(super) fn first_slices(mut self, count: u64) -> Result<Vec<BlockSlice>, LoadDataError> {
        let each = count.div_ceil(self.streams.len().max(1) as u64) as usize;
        let mut slices = Vec::new();
        for (source, stream) in self.streams.iter_mut().enumerate() {
            let mut left = each;
            while stream.cursor.passes == 0 && left > 0 {
                let slice = stream.take(left)?;
                left -= slice.range.len();
                if !slice.range.is_empty() {
                    slices.push(BlockSlice { source, ..slice });
                }
            }
        }
        Ok(slices)
    }
}
