//! Reading records from files: decoded on several threads, returned in file order.
//!
//! One thread cuts each file into blocks; the others decode them. Blocks wait in a queue in file order, so
//! the result does not depend on the number of threads, and a [`Cursor`] of any block is enough to resume
//! there.

use crate::changes::Changes;
use crate::codec::{Codec, Decoded, Problem};
use crate::error::DataError;
use crate::record::Record;
use crate::source::Source;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Reaction of a reader to a record that cannot be decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Return an error for the record and end the reading.
    #[default]
    Stop,
    /// Leave the record out and count it in [`Skips`].
    Skip,
}

/// Start of a block (records decoded together) within a list of files, from which a reader can resume. The
/// default is the start of the first file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Index of the file in the list of sources, counted from 0.
    pub source: usize,
    /// Bytes of the file before the block, after decompression.
    pub byte: u64,
    /// Records of the file before the block, broken and filtered ones included.
    pub record: u64,
}

/// Records that were cut from a file and decoded together, usually a few thousand.
#[derive(Clone, Debug)]
pub struct RecordBlock {
    /// Records that passed the filter, in file order; the list may be empty.
    pub records: Vec<Record>,
    /// Start of the block, from which another reader can resume.
    pub cursor: Cursor,
}

/// Counts of the records that a reader left out because they could not be decoded, with the reasons for the
/// first few. Records that a filter dropped are not counted.
#[derive(Debug, Default)]
pub struct Skips {
    /// Number of records and games that were left out because they were malformed or illegal.
    pub count: u64,
    /// Number of faults among [`Self::count`] that made the rest of a game or block unreadable, so that the
    /// number of lost records is unknown.
    pub lost_rest: u64,
    /// Number of files of which everything after a fault had to be given up.
    pub lost_files: u64,
    /// Errors of the first few faults, so that a summary stays short.
    pub examples: Vec<DataError>,
}

const EXAMPLES: usize = 5;

/// Function that decoding threads apply to the records of each block, for example to drop those that a
/// [`crate::Filter`] rejects. It may remove and change records.
pub type RecordFilter = Arc<dyn Fn(&mut Vec<Record>, Cursor) + Send + Sync>;

/// Result of decoding and filtering one block.
struct DecodedBlock {
    records: Vec<Record>,
    /// Records before filtering, from which record numbers are counted.
    count: usize,
    problems: Vec<(usize, Problem)>,
    changes: Changes,
}

struct Job {
    codec: Arc<dyn Codec>,
    bytes: Vec<u8>,
    cursor: Cursor,
    done: Sender<DecodedBlock>,
}

/// Next item of the queue, in file order: a block that is being decoded, or the failure that ends a file.
enum QueuedBlock {
    Block { source: usize, byte: u64, done: Receiver<DecodedBlock> },
    Failure { source: usize, error: Failure },
}

enum Failure {
    /// Fault of the operating system or of the compression, after this many bytes of data.
    Io { byte: u64, error: io::Error },
    /// The stream is damaged so that the end of the next block cannot be found.
    Cut { byte: u64, problem: Problem },
}

/// Reads records from a list of files, one file after the other, in order.
pub struct RecordReader {
    sources: Arc<[Source]>,
    queue: Option<Receiver<QueuedBlock>>,
    on_error: OnError,
    skips: Skips,
    changes: Changes,
    /// Bytes of all files that were read so far.
    read: Arc<AtomicU64>,
    /// Index of the file that is being read.
    current: usize,
    records: u64,
    /// Remaining records of the block from which single records are being taken.
    block: std::vec::IntoIter<Record>,
}

impl RecordReader {
    /// Starts reading on `threads` threads (at least one), from the beginning or from the [`Cursor`] of a
    /// [`RecordBlock`]. Nothing is opened here, so that a missing file is reported by the first read.
    pub fn new(
        sources: Vec<Source>,
        threads: usize,
        on_error: OnError,
        filter: Option<RecordFilter>,
        start: Cursor,
    ) -> Self {
        let sources: Arc<[Source]> = sources.into();
        let threads = threads.max(1);
        let (jobs, job_queue) = sync_channel::<Job>(threads);
        let (sender, queue) = sync_channel(2 * threads);
        let job_queue = Arc::new(Mutex::new(job_queue));
        // Where memory is limited, threads may be refused. One of each kind is enough; without it, the first
        // read fails.
        let mut refused = None;
        let mut decoders = 0;
        for _ in 0..threads {
            let (job_queue, filter) = (Arc::clone(&job_queue), filter.clone());
            match thread::Builder::new().spawn(move || decode_blocks(&job_queue, filter)) {
                Ok(_) => decoders += 1,
                Err(error) => refused = Some(error),
            }
        }
        let refused = refused.filter(|_| decoders == 0);
        let files = Arc::clone(&sources);
        let read = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&read);
        let failed = sender.clone();
        let cutter = move || {
            for (number, source) in files.iter().enumerate().skip(start.source) {
                let begin = if number == start.source { start } else { Cursor::default() };
                if cut_file(number, source, begin, &counter, &jobs, &sender).is_err() {
                    return;
                }
            }
        };
        let started = match refused {
            Some(error) => Err(error),
            None => thread::Builder::new().spawn(cutter).map(drop),
        };
        if let Err(error) = started {
            let error = Failure::Io { byte: 0, error };
            let _ = failed.try_send(QueuedBlock::Failure { source: start.source, error });
        }
        drop(failed);
        Self {
            sources,
            queue: Some(queue),
            on_error,
            skips: Skips::default(),
            changes: Changes::default(),
            read,
            current: start.source,
            records: start.record,
            block: Vec::new().into_iter(),
        }
    }

    /// Returns the next block, or `None` at the end. After an error no further blocks follow.
    pub fn next_block(&mut self) -> Option<Result<RecordBlock, DataError>> {
        let outcome = self.receive()?;
        if outcome.is_err() {
            self.queue = None;
        }
        Some(outcome)
    }

    fn receive(&mut self) -> Option<Result<RecordBlock, DataError>> {
        loop {
            let queued = self.queue.as_ref()?.recv().ok()?;
            let source = match &queued {
                QueuedBlock::Block { source, .. } | QueuedBlock::Failure { source, .. } => *source,
            };
            if source != self.current {
                (self.current, self.records) = (source, 0);
            }
            let path = || self.sources[source].path.clone();
            match queued {
                QueuedBlock::Block { byte, done, .. } => {
                    let cursor = Cursor { source, byte, record: self.records };
                    let Ok(done) = done.recv() else {
                        // The thread has panicked, which must not be mistaken for the end of the data.
                        let problem = "the decoder failed on what follows; please report this file".into();
                        let record = self.records + 1;
                        return Some(Err(DataError::Record { path: path(), record, byte, problem }));
                    };
                    self.records += (done.count + done.problems.len()) as u64;
                    self.changes += done.changes;
                    for (earlier, (before, problem)) in done.problems.into_iter().enumerate() {
                        let error = DataError::Record {
                            path: path(),
                            record: cursor.record + (before + earlier) as u64 + 1,
                            byte: byte + problem.byte as u64,
                            problem: problem.text,
                        };
                        if self.on_error == OnError::Stop {
                            return Some(Err(error));
                        }
                        self.skips.count += 1;
                        self.skips.lost_rest += u64::from(problem.with_rest);
                        if self.skips.examples.len() < EXAMPLES {
                            self.skips.examples.push(error);
                        }
                    }
                    return Some(Ok(RecordBlock { records: done.records, cursor }));
                }
                QueuedBlock::Failure { error: Failure::Io { byte: 0, error: source }, .. } => {
                    return Some(Err(DataError::Io { path: path(), source }));
                }
                QueuedBlock::Failure { error: Failure::Io { byte, error: source }, .. } => {
                    return Some(Err(DataError::Read { path: path(), record: self.records, byte, source }));
                }
                QueuedBlock::Failure { error: Failure::Cut { byte, problem }, .. } => {
                    let error = DataError::Record {
                        path: path(),
                        record: self.records + 1,
                        byte: byte + problem.byte as u64,
                        problem: format!("{}; the rest of the file cannot be read", problem.text),
                    };
                    if self.on_error == OnError::Stop {
                        return Some(Err(error));
                    }
                    self.skips.count += 1;
                    self.skips.lost_files += 1;
                    if self.skips.examples.len() < EXAMPLES {
                        self.skips.examples.push(error);
                    }
                }
            }
        }
    }

    /// Records that were left out so far; final once the reader has returned `None`.
    pub fn skips(&self) -> &Skips {
        &self.skips
    }

    /// Values that were rounded or clipped so far; final once the reader has returned `None`.
    pub fn changes(&self) -> Changes {
        self.changes
    }

    /// Bytes of the files that were read so far, before decompression. Reading is ahead of the records that were
    /// returned, by a few blocks.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Relaxed)
    }

    /// The counter behind [`Self::bytes_read`], for use while the reader is borrowed.
    pub fn read_counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.read)
    }

    /// Length of all files, in the unit of [`Self::bytes_read`]; `None` if it is not known, as for a pipe or a bag.
    pub fn bytes(&self) -> Option<u64> {
        let length = |source: &Source| {
            let file = std::fs::metadata(&source.path).ok().filter(std::fs::Metadata::is_file)?;
            source.kind_of_bag().is_none().then_some(file.len())
        };
        self.sources.iter().map(length).sum()
    }

    /// Iterator over single records that borrows the reader, so that [`Self::skips`] can be read afterwards.
    pub fn records(&mut self) -> impl Iterator<Item = Result<Record, DataError>> {
        self.by_ref()
    }
}

/// Iterates over single records. The remainder of a started block is returned only here:
/// [`RecordReader::next_block`] always continues with the next one.
impl Iterator for RecordReader {
    type Item = Result<Record, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.block.next() {
                return Some(Ok(record));
            }
            match self.next_block()? {
                Ok(next) => self.block = next.records.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Decodes blocks until the queue is closed.
fn decode_blocks(job_queue: &Mutex<Receiver<Job>>, filter: Option<RecordFilter>) {
    loop {
        let job = job_queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { codec, bytes, cursor, done }) = job else { return };
        let mut decoded = Decoded::default();
        codec.decode(&bytes, &mut decoded);
        let Decoded { mut records, problems, changes } = decoded;
        let count = records.len();
        if let Some(filter) = &filter {
            filter(&mut records, cursor);
        }
        let _ = done.send(DecodedBlock { records, count, problems, changes });
    }
}

/// The receiving end of a queue was dropped, so that nothing more needs to be read.
struct Disconnected;

/// Cuts a file into blocks. Each goes to the decoding threads, and the receiver of its result to the end of
/// the queue.
fn cut_file(
    number: usize,
    source: &Source,
    begin: Cursor,
    read: &Arc<AtomicU64>,
    jobs: &SyncSender<Job>,
    queue: &SyncSender<QueuedBlock>,
) -> Result<(), Disconnected> {
    let fail = |error| queue.send(QueuedBlock::Failure { source: number, error }).map_err(|_| Disconnected);
    let (mut input, codec, used) = match source.open(read) {
        Ok(Ok(opened)) => opened,
        Ok(Err(problem)) => return fail(Failure::Cut { byte: 0, problem }),
        Err(error) => return fail(Failure::Io { byte: 0, error }),
    };
    let mut cut = codec.cut();
    let mut byte = used;
    if begin.byte > byte {
        match cut.skip_to(&mut *input, begin.byte - byte) {
            Ok(()) => byte = begin.byte,
            Err(error) => return fail(Failure::Io { byte, error }),
        }
    }
    loop {
        let mut bytes = Vec::new();
        match cut.next(&mut *input, &mut bytes) {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return Ok(()),
            Ok(Err(problem)) => return fail(Failure::Cut { byte, problem }),
            Err(error) => return fail(Failure::Io { byte: byte + bytes.len() as u64, error }),
        }
        let len = cut.length(&bytes);
        let (done, result) = channel();
        let queued = QueuedBlock::Block { source: number, byte, done: result };
        let cursor = Cursor { source: number, byte, record: 0 };
        let job = Job { codec: Arc::clone(&codec), bytes, cursor, done };
        if queue.send(queued).is_err() || jobs.send(job).is_err() {
            return Err(Disconnected);
        }
        byte += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::formats::{Format, samples};
    use crate::write::RecordWriter;

    fn blocks(reader: &mut RecordReader) -> Vec<RecordBlock> {
        std::iter::from_fn(|| reader.next_block()).collect::<Result<_, _>>().unwrap()
    }

    /// Every format gives the same records in the same blocks for any number of threads, and resumes from any
    /// block.
    #[test]
    fn a_reader_resumes_from_a_cursor() {
        let dir = std::env::temp_dir().join(format!("tandem-read-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let records = samples::games(700);
        let names = Format::ALL.iter().map(|format| format!("a.{format}"));
        for name in names.chain(["b.pgn.zst", "b.bf.gz", "b.tar", "b.bag.zst"].map(String::from)) {
            let path = dir.join(&name);
            let sources = Source::parse(path.to_str().unwrap(), &Options::default()).unwrap();
            let mut writer = RecordWriter::create(sources[0].clone()).unwrap();
            // In Leela's format a few games take as many bytes as all of them in another.
            let count = if name == "b.tar" { 4000 } else { records.len() };
            records[..count].iter().for_each(|record| writer.write(record).unwrap());
            writer.finish().unwrap();
            // Read twice, so that the resume must find the second file as well.
            let sources = [sources.clone(), sources].concat();
            let read = |threads: usize, start: Cursor| {
                blocks(&mut RecordReader::new(sources.clone(), threads, OnError::Stop, None, start))
            };
            let whole = read(1, Cursor::default());
            assert_eq!(whole.iter().map(|block| block.records.len()).sum::<usize>(), 2 * count, "{name}");
            for (at, block) in whole.iter().enumerate().step_by(whole.len().div_ceil(5)) {
                let rest = read(3, block.cursor);
                assert_eq!(rest.len(), whole.len() - at, "{name} from {:?}", block.cursor);
                let same = rest
                    .iter()
                    .zip(&whole[at..])
                    .all(|(again, block)| again.records == block.records && again.cursor == block.cursor);
                assert!(same, "{name} from {:?}", block.cursor);
            }
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn broken_records_are_numbered_and_counted() {
        let dir = std::env::temp_dir().join(format!("tandem-broken-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let row = "4k3/8/8/8/8/8/8/4K3 w - - 0 1,1\n";
        let text = format!("fen,score\n{}nonsense,1\n{}", row.repeat(20_000), row.repeat(3));
        std::fs::write(dir.join("x.csv"), &text).unwrap();
        let sources = Source::parse(dir.join("x.csv").to_str().unwrap(), &Options::default()).unwrap();
        let mut reader = RecordReader::new(sources.clone(), 2, OnError::Stop, None, Cursor::default());
        let error = reader.records().find_map(Result::err).unwrap().to_string();
        let byte = text.find("nonsense").unwrap();
        assert!(error.contains(&format!("record 20001, byte {byte}: ")), "{error}");
        let mut reader = RecordReader::new(sources, 2, OnError::Skip, None, Cursor::default());
        // One record from the iterator first, and the rest from a second one.
        assert!(reader.records().next().is_some());
        assert_eq!(reader.records().count(), 20_002);
        assert_eq!(reader.skips().count, 1);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn damage_within_compressed_data_is_reported_with_its_place() {
        let dir = std::env::temp_dir().join(format!("tandem-packed-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let text = "fen,score\n".to_owned() + &"4k3/8/8/8/8/8/8/4K3 w - - 0 1,1\n".repeat(100_000);
        let mut packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
        packed.truncate(packed.len() - 10);
        std::fs::write(dir.join("x.csv.zst"), packed).unwrap();
        let sources = Source::parse(dir.join("x.csv.zst").to_str().unwrap(), &Options::default()).unwrap();
        let mut reader = RecordReader::new(sources, 1, OnError::Stop, None, Cursor::default());
        let error = reader.records().find_map(Result::err).unwrap();
        let DataError::Read { record, byte, .. } = &error else { panic!("{error}") };
        assert!(*record > 10_000 && *byte >= 32 * record, "{error}");
        assert!(
            error.to_string().contains(&format!("x.csv.zst: after record {record}, byte {byte}")),
            "{error}"
        );
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn records_before_an_endless_line_are_read() {
        let dir = std::env::temp_dir().join(format!("tandem-endless-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let start = "fen,score\n".to_owned() + &"4k3/8/8/8/8/8/8/4K3 w - - 0 1,1\n".repeat(3);
        std::fs::write(dir.join("x.csv"), start.clone() + &"x".repeat(2 << 20)).unwrap();
        let sources = Source::parse(dir.join("x.csv").to_str().unwrap(), &Options::default()).unwrap();
        let mut reader = RecordReader::new(sources, 1, OnError::Skip, None, Cursor::default());
        assert_eq!(reader.records().count(), 3);
        let Skips { count, lost_files, examples, .. } = reader.skips();
        assert_eq!((*count, *lost_files), (1, 1));
        let error = examples[0].to_string();
        assert!(error.contains(&format!("record 4, byte {}: a line of more than", start.len())), "{error}");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
