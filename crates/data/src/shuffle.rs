//! Shuffling data sets that are larger than memory.
//!
//! Records are first dealt to random buckets in temporary files, then each bucket is shuffled in memory: two
//! sequential passes over the data, and a uniformly random order.

use crate::changes::Changes;
use crate::error::DataError;
use crate::read::{Cursor, OnError, RecordReader, Skips};
use crate::record::Record;
use crate::source::Source;
use crate::write::RecordWriter;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use tandem_util::output::{AtomicFile, unnamed_file};
use tandem_util::random::SplitMix;

/// Numbers of records that a finished [`shuffle`] wrote and left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShuffleReport {
    /// Number of records written to the output.
    pub records: u64,
    /// Records that were left out because they were broken or because the output format cannot carry them.
    pub skipped: u64,
    /// Number of faults among [`Self::skipped`] that made the rest of a game or block unreadable, so that the
    /// number of lost records is unknown.
    pub with_rest: u64,
    /// Number of files of which everything after a fault had to be given up.
    pub lost_files: u64,
    /// Values that were rounded, clipped or left out.
    pub changes: Changes,
}

/// Writes the records of all sources into one file in random order, with at most about `memory` bytes of
/// memory (at least 1 MiB), by way of temporary files beside the output. The order depends only on the seed,
/// the order of the records, the memory limit and the lengths of the files. Without any records, no file is
/// written.
///
/// # Errors
///
/// Fails if a source is not a regular file, if the data is too large for the memory limit, if a record is
/// broken or does not fit the output format and `on_error` is [`OnError::Stop`], or if the disk is full.
pub fn shuffle(
    sources: Vec<Source>,
    target: &Source,
    memory: usize,
    seed: u64,
    on_error: OnError,
) -> Result<ShuffleReport, DataError> {
    let memory = memory.max(1 << 20);
    for Source { path, .. } in &sources {
        // A pipe can be read only once, and its length is unknown.
        if !std::fs::metadata(path).map_err(DataError::io(path))?.is_file() {
            let problem = "only files can be shuffled; `tandem-lab data convert` makes one of it".into();
            return Err(DataError::Path { path: path.clone(), problem });
        }
    }
    match plain_size(&sources, target) {
        Some(size) => shuffle_bytes(&sources, target, size, memory, seed, on_error),
        None => shuffle_records(sources, target, memory, seed, on_error),
    }
}

/// Size of a record if all files have the same format with fixed-size records and none is compressed: then
/// nothing needs to be decoded.
fn plain_size(sources: &[Source], target: &Source) -> Option<usize> {
    let size = target.format.properties().record_size?;
    let is_plain = |source: &Source| {
        let packed = matches!(source.path.extension().and_then(|end| end.to_str()), Some("zst" | "gz"));
        source.format == target.format && !packed
    };
    // A file may be compressed although its name does not say so.
    let is_bare =
        |source: &Source| tandem_util::input::is_compressed(&source.path).is_ok_and(|packed| !packed);
    (sources.iter().all(|source| is_plain(source) && is_bare(source)) && is_plain(target)).then_some(size)
}

/// Temporary files of randomly assigned records, each small enough to be shuffled in memory.
struct Buckets {
    files: Vec<BufWriter<File>>,
    path: PathBuf,
    random: SplitMix,
}

impl Buckets {
    /// Creates files without names: the operating system removes them when the program ends, however it ends.
    fn new(target: &Path, count: usize, memory: usize, seed: u64) -> Result<Self, DataError> {
        let buffer = (memory / 4 / count).clamp(1 << 12, 1 << 20);
        let mut files = Vec::with_capacity(count);
        let folder =
            target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        for _ in 0..count {
            let file = unnamed_file(folder).map_err(DataError::io(folder))?;
            files.push(BufWriter::with_capacity(buffer, file));
        }
        Ok(Self { files, path: target.into(), random: SplitMix::new(seed) })
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        let number = self.random.below(self.files.len() as u32) as usize;
        // The path is copied only on failure, because this runs for every record.
        self.files[number].write_all(bytes).map_err(|error| DataError::io(&self.path)(error))
    }

    /// Passes the buckets to `sink` one after the other, each shuffled, while the next one is being read.
    fn drain_shuffled<const N: usize>(
        self,
        mut sink: impl FnMut(&[[u8; N]]) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let Self { files, path, mut random } = self;
        std::thread::scope(|scope| {
            let (sender, buckets) = sync_channel(1);
            let read = move || {
                for file in files {
                    // The receiver is gone once something has failed.
                    if sender.send(read_bucket(file)).is_err() {
                        return;
                    }
                }
            };
            std::thread::Builder::new().spawn_scoped(scope, read).map_err(DataError::io(&path))?;
            for bucket in buckets {
                let mut bytes = bucket.map_err(DataError::io(&path))?;
                let (records, _) = bytes.as_chunks_mut::<N>();
                random.shuffle(records);
                sink(records)?;
            }
            Ok(())
        })
    }
}

fn read_bucket(file: BufWriter<File>) -> io::Result<Vec<u8>> {
    let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    let len = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::with_capacity(len as usize);
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Target size of a bucket in bytes: buckets that fit into a processor's cache are shuffled several times as
/// fast.
const BUCKET_SIZE: usize = 32 << 20;

/// Number of buckets for this number of bytes, limited to the number of files that a process may have open on
/// every system.
fn bucket_count(bytes: u64, memory: usize) -> usize {
    let size = (memory / 4).min(BUCKET_SIZE) as u64;
    (bytes + bytes / 16).div_ceil(size.max(1)).clamp(1, MAX_BUCKETS) as usize
}

const MAX_BUCKETS: u64 = 512;

/// Refuses data that cannot be shuffled within the memory limit, before anything is written: three buckets
/// are in memory at a time.
fn check_memory(target: &Source, bytes: u64, memory: usize) -> Result<(), DataError> {
    let needed = 4 * bytes / MAX_BUCKETS;
    if needed <= memory as u64 {
        return Ok(());
    }
    let problem =
        format!("up to {bytes} bytes of records need {} MiB of memory to be shuffled", (needed >> 20) + 1);
    Err(DataError::Path { path: target.path.clone(), problem })
}

fn shuffle_bytes(
    sources: &[Source],
    target: &Source,
    size: usize,
    memory: usize,
    seed: u64,
    on_error: OnError,
) -> Result<ShuffleReport, DataError> {
    let (mut total, mut skipped) = (0, 0);
    for source in sources {
        let len = std::fs::metadata(&source.path).map_err(DataError::io(&source.path))?.len();
        let is_cut = len % size as u64 != 0;
        skipped += u64::from(is_cut);
        if is_cut && on_error == OnError::Stop {
            let problem = format!("{} bytes of a record of {size} at the end", len % size as u64);
            let (record, byte) = (len / size as u64 + 1, len - len % size as u64);
            return Err(DataError::Record { path: source.path.clone(), record, byte, problem });
        }
        total += len;
    }
    check_memory(target, total, memory)?;
    let mut buckets = Buckets::new(&target.path, bucket_count(total, memory), memory, seed)?;
    let mut block = vec![0; (1 << 20) / size * size];
    for source in sources {
        let mut file = File::open(&source.path).map_err(DataError::io(&source.path))?;
        loop {
            let read = read_full(&mut file, &mut block).map_err(DataError::io(&source.path))?;
            for record in block[..read].chunks_exact(size) {
                buckets.push(record)?;
            }
            if read < block.len() {
                break;
            }
        }
    }
    let aside = AtomicFile::create(&target.path).map_err(DataError::io(&target.path))?;
    let mut out = BufWriter::with_capacity(1 << 20, aside);
    let mut records = 0;
    let mut write = |bytes: &[u8]| {
        records += (bytes.len() / size) as u64;
        out.write_all(bytes).map_err(DataError::io(&target.path))
    };
    match size {
        32 => buckets.drain_shuffled::<32>(|records| write(records.as_flattened()))?,
        _ => buckets.drain_shuffled::<40>(|records| write(records.as_flattened()))?,
    }
    if records == 0 {
        return Ok(ShuffleReport {
            records,
            skipped,
            with_rest: 0,
            lost_files: 0,
            changes: Changes::default(),
        });
    }
    let file =
        out.into_inner().map_err(io::IntoInnerError::into_error).map_err(DataError::io(&target.path))?;
    file.commit().map_err(DataError::io(&target.path))?;
    Ok(ShuffleReport { records, skipped, with_rest: 0, lost_files: 0, changes: Changes::default() })
}

fn read_full(file: &mut File, block: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < block.len() {
        match file.read(&mut block[read..])? {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}

/// Upper bound of the bytes of records in a file, which is unknown before it is read: twenty times the file
/// size where it is compressed or holds games, twice the size elsewhere.
fn max_record_bytes(source: &Source) -> u64 {
    let len = std::fs::metadata(&source.path).map_or(0, |file| file.len());
    let packed = source.format.properties().is_compact
        || tandem_util::input::is_compressed(&source.path).is_ok_and(|packed| packed);
    len.saturating_mul(if packed { 20 } else { 2 })
}

fn shuffle_records(
    sources: Vec<Source>,
    target: &Source,
    memory: usize,
    seed: u64,
    on_error: OnError,
) -> Result<ShuffleReport, DataError> {
    let bytes = sources.iter().map(max_record_bytes).fold(0, u64::saturating_add);
    check_memory(target, bytes, memory)?;
    let count = bucket_count(bytes, memory);
    let mut buckets = Buckets::new(&target.path, count, memory, seed)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut reader = RecordReader::new(sources, threads, on_error, None, Cursor::default());
    while let Some(block) = reader.next_block() {
        for record in &block?.records {
            // In a random order no record follows from the previous one.
            buckets.push(&Record { starts_game: false, ..*record }.pack())?;
        }
    }
    let Skips { count, lost_rest: with_rest, lost_files, .. } = *reader.skips();
    let mut report =
        ShuffleReport { records: 0, skipped: count, with_rest, lost_files, changes: reader.changes() };
    let mut writer = RecordWriter::create(target.clone())?;
    buckets.drain_shuffled::<{ Record::SIZE }>(|records| {
        for record in records {
            match writer.write(&Record::unpack(record)) {
                Ok(()) => report.records += 1,
                Err(DataError::Unsupported { .. }) if on_error == OnError::Skip => report.skipped += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })?;
    if report.records > 0 {
        report.changes += writer.finish()?;
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::formats::samples;

    #[test]
    fn only_compressed_files_may_grow() {
        let dir = std::env::temp_dir().join(format!("tandem-grow-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let packed = zstd::encode_all(&[b'x'; 1000][..], 1).unwrap();
        for (name, bytes, times) in [
            ("a.csv", &[b'x'; 1000][..], 2),
            ("a.bf", &[b'x'; 1000], 2),
            ("a.vf", &[b'x'; 1000], 20),
            ("a.pgn", &[b'x'; 1000], 20),
            ("b.csv", &packed, 20),
        ] {
            let path = dir.join(name);
            std::fs::write(&path, bytes).unwrap();
            let source = Source::parse(path.to_str().unwrap(), &Options::default()).unwrap().remove(0);
            assert_eq!(max_record_bytes(&source), times * bytes.len() as u64, "{name}");
        }
        let target = Source::parse("x.csv", &Options::default()).unwrap().remove(0);
        let refused = check_memory(&target, 1 << 40, 1 << 30).unwrap_err().to_string();
        assert!(refused.contains("up to 1099511627776 bytes"), "{refused}");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn files_are_shuffled_the_same_for_a_seed() {
        let dir = std::env::temp_dir().join(format!("tandem-shuffle-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let source = |name: &str| {
            Source::parse(dir.join(name).to_str().unwrap(), &Options::default()).unwrap().remove(0)
        };
        let records = samples::games(300);
        for (name, other) in
            [("a.bf", "b.bf"), ("a.bin", "b.bin"), ("a.binpack", "b.csv"), ("a.csv.zst", "b.plain")]
        {
            let mut writer = RecordWriter::create(source(name)).unwrap();
            records.iter().for_each(|record| writer.write(record).unwrap());
            writer.finish().unwrap();
            let mut outputs = Vec::new();
            for seed in [1, 1, 2] {
                let report =
                    shuffle(vec![source(name)], &source(other), 1 << 20, seed, OnError::Stop).unwrap();
                let records = records.len() as u64;
                let clean = ShuffleReport { skipped: 0, with_rest: 0, lost_files: 0, ..report };
                assert_eq!(report, ShuffleReport { records, ..clean });
                outputs.push(std::fs::read(dir.join(other)).unwrap());
            }
            assert!(outputs[0] == outputs[1] && outputs[0] != outputs[2], "{name}");
            let positions = |name: &str| {
                let mut reader =
                    RecordReader::new(vec![source(name)], 1, OnError::Stop, None, Cursor::default());
                reader.records().map(|record| format!("{:?}", record.unwrap().position)).collect::<Vec<_>>()
            };
            let (mut before, mut after) = (positions(name), positions(other));
            assert_ne!(before, after, "{name}");
            before.sort_unstable();
            after.sort_unstable();
            assert!(before == after && before.len() == records.len(), "{name}: no record is lost or doubled");
        }
        let left = std::fs::read_dir(&dir).unwrap().count();
        assert_eq!(left, 8, "no temporary files are left");

        let no_file = Source { path: dir.clone(), ..source("a.bf") };
        let refused = shuffle(vec![no_file], &source("c.bf"), 1 << 20, 1, OnError::Stop).unwrap_err();
        assert!(refused.to_string().contains("only files"), "{refused}");

        // A truncated file also stops the shuffle where nothing is decoded.
        let bytes = std::fs::read(dir.join("a.bf")).unwrap();
        std::fs::write(dir.join("a.bf"), &bytes[..bytes.len() - 5]).unwrap();
        let cut = |on_error| shuffle(vec![source("a.bf")], &source("b.bf"), 1 << 20, 1, on_error);
        assert!(cut(OnError::Stop).is_err());
        let report = cut(OnError::Skip).unwrap();
        assert_eq!((report.records, report.skipped), (records.len() as u64 - 1, 1));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
