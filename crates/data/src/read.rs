//! Records from files, decoded on several threads, in their order.

use crate::codec::{Codec, Decoded, Problem};
use crate::error::DataError;
use crate::format::Source;
use crate::record::Record;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// What to do about a broken record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// End with an error.
    #[default]
    Stop,
    /// Leave it out and count it.
    Skip,
}

/// A place to go on from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The file, from zero.
    pub source: usize,
    /// Its bytes, unpacked, before the block.
    pub byte: u64,
    /// Its records before the block.
    pub record: u64,
}

/// Records that were read together.
#[derive(Clone, Debug)]
pub struct Block {
    /// The records, after the sieve.
    pub records: Vec<Record>,
    /// Where the block begins.
    pub cursor: Cursor,
}

/// Records that were left out, and the first few reasons.
#[derive(Debug, Default)]
pub struct Skips {
    /// How many.
    pub count: u64,
    /// Those of them with which the rest of a game or of a block was left out, however many records it had.
    pub with_rest: u64,
    /// Files of which the end could not be read at all.
    pub lost_files: u64,
    /// Why, for the first of them.
    pub examples: Vec<DataError>,
}

const EXAMPLES: usize = 5;

/// What is done to the records of a block where they were decoded, before anyone else sees them.
pub type Sieve = Arc<dyn Fn(&mut Vec<Record>, Cursor) + Send + Sync>;

/// What a thread made of a block.
struct Done {
    records: Vec<Record>,
    /// Before the sieve.
    count: usize,
    problems: Vec<(usize, Problem)>,
}

struct Job {
    codec: Arc<dyn Codec>,
    bytes: Vec<u8>,
    cursor: Cursor,
    done: Sender<Done>,
}

/// What comes next, in order.
enum Coming {
    Block { source: usize, byte: u64, done: Receiver<Done> },
    Failure { source: usize, error: Failure },
}

enum Failure {
    Io(io::Error),
    /// The stream cannot be cut any further.
    Cut {
        byte: u64,
        problem: Problem,
    },
}

/// Reads records from files, one file after the other.
pub struct Reader {
    sources: Arc<[Source]>,
    coming: Option<Receiver<Coming>>,
    on_error: OnError,
    skips: Skips,
    /// The file that is being read, and its records so far.
    current: usize,
    records: u64,
    /// What is left of the block whose records are handed out one by one.
    block: std::vec::IntoIter<Record>,
}

impl Reader {
    /// Begins to read on so many threads, from the start or from a cursor that [`Block`] gave.
    pub fn new(
        sources: Vec<Source>,
        threads: usize,
        on_error: OnError,
        sieve: Option<Sieve>,
        start: Cursor,
    ) -> Self {
        let sources: Arc<[Source]> = sources.into();
        let threads = threads.max(1);
        let (jobs, waiting) = sync_channel::<Job>(threads);
        let (promises, coming) = sync_channel(2 * threads);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..threads {
            let (waiting, sieve) = (Arc::clone(&waiting), sieve.clone());
            thread::spawn(move || work(&waiting, sieve));
        }
        let files = Arc::clone(&sources);
        thread::spawn(move || {
            for (number, source) in files.iter().enumerate().skip(start.source) {
                let begin = if number == start.source { start } else { Cursor::default() };
                if cut_file(number, source, begin, &jobs, &promises).is_err() {
                    return;
                }
            }
        });
        Self {
            sources,
            coming: Some(coming),
            on_error,
            skips: Skips::default(),
            current: start.source,
            records: start.record,
            block: Vec::new().into_iter(),
        }
    }

    /// The next block; `None` at the end. After an error nothing more comes.
    pub fn next_block(&mut self) -> Option<Result<Block, DataError>> {
        let outcome = self.receive()?;
        if outcome.is_err() {
            self.coming = None;
        }
        Some(outcome)
    }

    fn receive(&mut self) -> Option<Result<Block, DataError>> {
        loop {
            let coming = self.coming.as_ref()?.recv().ok()?;
            let source = match &coming {
                Coming::Block { source, .. } | Coming::Failure { source, .. } => *source,
            };
            if source != self.current {
                (self.current, self.records) = (source, 0);
            }
            let path = || self.sources[source].path.clone();
            match coming {
                Coming::Block { byte, done, .. } => {
                    let cursor = Cursor { source, byte, record: self.records };
                    let Ok(done) = done.recv() else {
                        // The thread has panicked, which must not look like the end of the data.
                        let problem = "the decoder failed on what follows; please report this file".into();
                        let record = self.records + 1;
                        return Some(Err(DataError::Record { path: path(), record, byte, problem }));
                    };
                    self.records += (done.count + done.problems.len()) as u64;
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
                        self.skips.with_rest += u64::from(problem.with_rest);
                        if self.skips.examples.len() < EXAMPLES {
                            self.skips.examples.push(error);
                        }
                    }
                    return Some(Ok(Block { records: done.records, cursor }));
                }
                Coming::Failure { error: Failure::Io(source), .. } => {
                    return Some(Err(DataError::Io { path: path(), source }));
                }
                Coming::Failure { error: Failure::Cut { byte, problem }, .. } => {
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

    /// What was left out so far.
    pub fn skips(&self) -> &Skips {
        &self.skips
    }

    /// The records one by one, for as long as the reader is borrowed.
    pub fn records(&mut self) -> impl Iterator<Item = Result<Record, DataError>> {
        self.by_ref()
    }
}

/// The records one by one. What is left of a block comes first; [`Reader::next_block`] knows nothing of it.
impl Iterator for Reader {
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

/// Decodes blocks until there are no more.
fn work(waiting: &Mutex<Receiver<Job>>, sieve: Option<Sieve>) {
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { codec, bytes, cursor, done }) = job else { return };
        let mut decoded = Decoded::default();
        codec.decode(&bytes, &mut decoded);
        let Decoded { mut records, problems } = decoded;
        let count = records.len();
        if let Some(sieve) = &sieve {
            sieve(&mut records, cursor);
        }
        let _ = done.send(Done { records, count, problems });
    }
}

/// Nobody listens any more.
struct Unheard;

/// Cuts a file into blocks. Each goes to the threads, and a promise of what they make of it to the end of the queue.
fn cut_file(
    number: usize,
    source: &Source,
    begin: Cursor,
    jobs: &SyncSender<Job>,
    promises: &SyncSender<Coming>,
) -> Result<(), Unheard> {
    let fail = |error| promises.send(Coming::Failure { source: number, error }).map_err(|_| Unheard);
    let (mut input, codec, used) = match source.open() {
        Ok(Ok(opened)) => opened,
        Ok(Err(problem)) => return fail(Failure::Cut { byte: 0, problem }),
        Err(error) => return fail(Failure::Io(error)),
    };
    let mut cut = codec.cut();
    let mut byte = used;
    if begin.byte > byte {
        match cut.skip_to(&mut *input, begin.byte - byte) {
            Ok(()) => byte = begin.byte,
            Err(error) => return fail(Failure::Io(error)),
        }
    }
    loop {
        let mut bytes = Vec::new();
        match cut.next(&mut *input, &mut bytes) {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return Ok(()),
            Ok(Err(problem)) => return fail(Failure::Cut { byte, problem }),
            Err(error) => return fail(Failure::Io(error)),
        }
        let len = cut.length(&bytes);
        let (done, promise) = channel();
        let coming = Coming::Block { source: number, byte, done: promise };
        let cursor = Cursor { source: number, byte, record: 0 };
        let job = Job { codec: Arc::clone(&codec), bytes, cursor, done };
        if promises.send(coming).is_err() || jobs.send(job).is_err() {
            return Err(Unheard);
        }
        byte += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Options;
    use crate::formats::samples;
    use crate::write::Writer;

    fn blocks(reader: &mut Reader) -> Vec<Block> {
        std::iter::from_fn(|| reader.next_block()).collect::<Result<_, _>>().unwrap()
    }

    /// Every format gives the same records in the same blocks whatever the number of threads, and goes on from any block.
    #[test]
    fn a_reader_goes_on_from_a_cursor() {
        let dir = std::env::temp_dir().join(format!("tandem-read-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let records = samples::games(700);
        for name in [
            "a.csv",
            "a.pgn.zst",
            "a.epd",
            "a.plain",
            "a.bin",
            "a.binpack",
            "a.bf.gz",
            "a.vf",
            "a.tar",
            "a.bag",
            "a.bagz",
            "b.bag.zst",
        ] {
            let path = dir.join(name);
            let sources = Source::parse(path.to_str().unwrap(), &Options::default()).unwrap();
            let mut writer = Writer::create(sources[0].clone()).unwrap();
            // Of Leela's format a few games are as many bytes as all of another.
            let count = if name == "a.tar" { 4000 } else { records.len() };
            records[..count].iter().for_each(|record| writer.write(record).unwrap());
            writer.finish().unwrap();
            // Twice, so that the second file must be found too.
            let sources = [sources.clone(), sources].concat();
            let read = |threads: usize, start: Cursor| {
                blocks(&mut Reader::new(sources.clone(), threads, OnError::Stop, None, start))
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
        let mut reader = Reader::new(sources.clone(), 2, OnError::Stop, None, Cursor::default());
        let error = reader.records().find_map(Result::err).unwrap().to_string();
        let byte = text.find("nonsense").unwrap();
        assert!(error.contains(&format!("record 20001, byte {byte}: ")), "{error}");
        let mut reader = Reader::new(sources, 2, OnError::Skip, None, Cursor::default());
        // Record by record, and the rest later.
        assert!(reader.records().next().is_some());
        assert_eq!(reader.records().count(), 20_002);
        assert_eq!(reader.skips().count, 1);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_comes_before_an_endless_line_is_read() {
        let dir = std::env::temp_dir().join(format!("tandem-endless-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let start = "fen,score\n".to_owned() + &"4k3/8/8/8/8/8/8/4K3 w - - 0 1,1\n".repeat(3);
        std::fs::write(dir.join("x.csv"), start.clone() + &"x".repeat(2 << 20)).unwrap();
        let sources = Source::parse(dir.join("x.csv").to_str().unwrap(), &Options::default()).unwrap();
        let mut reader = Reader::new(sources, 1, OnError::Skip, None, Cursor::default());
        assert_eq!(reader.records().count(), 3);
        let Skips { count, lost_files, examples, .. } = reader.skips();
        assert_eq!((*count, *lost_files), (1, 1));
        let told = examples[0].to_string();
        assert!(told.contains(&format!("record 4, byte {}: a line of more than", start.len())), "{told}");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
