//! Writing records into files, compressed or not.
//!
//! A file is written beside its final place and moved there at the end, so that an interrupted conversion
//! never leaves a truncated data set under its final name.

use crate::changes::{Change, Changes};
use crate::codec::{Encode, Unsupported};
use crate::error::DataError;
use crate::formats::{Properties, ScoreKinds};
use crate::record::{Record, Score};
use crate::source::Source;
use flate2::write::GzEncoder;
use std::io::{self, BufWriter, Write};
use tandem_util::output::AtomicFile;

/// Buffer size in bytes between system calls.
const BUFFER: usize = 1 << 20;

/// Output file, through a compressor if its name ends with `.zst` or `.gz`.
enum Sink {
    Plain(BufWriter<AtomicFile>),
    Zstd(Box<zstd::stream::write::Encoder<'static, BufWriter<AtomicFile>>>),
    Gzip(Box<GzEncoder<BufWriter<AtomicFile>>>),
}

impl Sink {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.write_all(bytes),
            Self::Zstd(out) => out.write_all(bytes),
            Self::Gzip(out) => out.write_all(bytes),
        }
    }

    fn commit(self) -> io::Result<()> {
        let out = match self {
            Self::Plain(out) => out,
            Self::Zstd(out) => out.finish()?,
            Self::Gzip(out) => out.finish()?,
        };
        out.into_inner().map_err(io::IntoInnerError::into_error)?.commit()
    }
}

/// Turns records into the bytes of a file format, without a file: for callers that append to a file or a
/// stream of their own.
pub struct Encoder(Box<dyn Encode>);

impl Encoder {
    /// An encoder for the format of `target`. No file is opened, but the path of `target` decides about the
    /// fields of a bag's records (see [`crate::BagKind`]).
    pub fn new(target: &Source) -> Self {
        Self(target.encoder())
    }

    /// Adds a record. Bytes that are ready to be written are appended to `out`; the others follow with later
    /// records of the same game.
    ///
    /// # Errors
    ///
    /// Fails if the format cannot carry the record; the encoder can be used further.
    pub fn push(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        self.0.push(record, out)
    }

    /// Ends the data: everything that was held back is appended to `out`.
    ///
    /// # Errors
    ///
    /// Fails if the last game cannot be encoded.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Unsupported> {
        self.0.finish(out)
    }
}

/// Writes records into a file that appears only when [`Self::finish`] succeeds. A name that ends with `.zst`
/// or `.gz` is compressed.
pub struct RecordWriter {
    target: Source,
    encoder: Box<dyn Encode>,
    sink: Sink,
    ready: Vec<u8>,
    records: u64,
    changes: Changes,
}

impl RecordWriter {
    /// Creates a temporary file beside the target, which replaces the target when writing is finished.
    ///
    /// # Errors
    ///
    /// Fails if the folder is missing or not writable.
    pub fn create(target: Source) -> Result<Self, DataError> {
        let aside = AtomicFile::create(&target.path).map_err(DataError::io(&target.path))?;
        let out = BufWriter::with_capacity(BUFFER, aside);
        let extension = target.path.extension().and_then(|extension| extension.to_str());
        let sink = match extension {
            Some("zst") => {
                let encoder =
                    zstd::stream::write::Encoder::new(out, 3).map_err(DataError::io(&target.path))?;
                Sink::Zstd(Box::new(encoder))
            }
            Some("gz") => Sink::Gzip(Box::new(GzEncoder::new(out, flate2::Compression::default()))),
            _ => Sink::Plain(out),
        };
        Ok(Self {
            encoder: target.encoder(),
            target,
            sink,
            ready: Vec::new(),
            records: 0,
            changes: Changes::default(),
        })
    }

    /// Appends a record to the output, in the format of the target.
    ///
    /// # Errors
    ///
    /// Fails if the format cannot carry the record ([`DataError::Unsupported`], after which others can still
    /// be written), or if the disk is full.
    pub fn write(&mut self, record: &Record) -> Result<(), DataError> {
        self.records += 1;
        self.encoder.push(record, &mut self.ready).map_err(|unsupported| DataError::Unsupported {
            path: self.target.path.clone(),
            record: self.records,
            problem: unsupported.0,
        })?;
        self.count_changes(record);
        if self.ready.len() >= BUFFER / 4 {
            self.flush()?;
        }
        Ok(())
    }

    /// Counts the fields that the format has no place for.
    fn count_changes(&mut self, record: &Record) {
        let Properties { has_moves, has_castling, clock_ends_at_100, scores, .. } =
            self.target.format.properties();
        if !has_moves && record.mv.is_some() {
            self.changes.count(Change::DroppedMove);
        }
        if !has_castling && record.position.has_castling_rights() {
            self.changes.count(Change::DroppedCastling);
        }
        if *clock_ends_at_100 && record.position.halfmove_clock() > 100 {
            self.changes.count(Change::ClippedClock);
        }
        match (record.score, scores) {
            (None, _) | (_, ScoreKinds::All) => {}
            (Some(Score::Mate(_)), ScoreKinds::Centipawns) => self.changes.count(Change::MateAsNumber),
            (Some(Score::WinProbability(_)), ScoreKinds::Centipawns | ScoreKinds::CentipawnsAndMates) => {
                self.changes.count(Change::ProbabilityAsNumber);
            }
            (Some(Score::Centipawns(_) | Score::Mate(_)), ScoreKinds::Probabilities) => {
                self.changes.count(Change::ScoreAsProbability);
            }
            _ => {}
        }
    }

    /// Completes the data and moves the file to its final place. Returns the number of values that the format
    /// could not store as they were.
    ///
    /// # Errors
    ///
    /// Fails if the last game cannot be encoded or the file cannot be written; then no file appears.
    pub fn finish(mut self) -> Result<Changes, DataError> {
        self.encoder.finish(&mut self.ready).map_err(|unsupported| DataError::Unsupported {
            path: self.target.path.clone(),
            record: self.records,
            problem: unsupported.0,
        })?;
        self.flush()?;
        self.sink.commit().map_err(DataError::io(&self.target.path))?;
        Ok(self.changes)
    }

    fn flush(&mut self) -> Result<(), DataError> {
        self.sink.write_all(&self.ready).map_err(DataError::io(&self.target.path))?;
        self.ready.clear();
        Ok(())
    }
}
