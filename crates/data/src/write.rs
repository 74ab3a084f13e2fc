//! Records into files.

use crate::codec::{Encode, Unfit};
use crate::error::DataError;
use crate::format::Source;
use crate::record::Record;
use flate2::write::GzEncoder;
use std::io::{self, BufWriter, Write};
use tandem_chess::output::AsideFile;

/// Room for what is written between system calls.
const BUFFER: usize = 1 << 20;

/// The file, through a compressor where its name asks for one.
enum Sink {
    Plain(BufWriter<AsideFile>),
    Zstd(Box<zstd::stream::write::Encoder<'static, BufWriter<AsideFile>>>),
    Gzip(Box<GzEncoder<BufWriter<AsideFile>>>),
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

/// Turns records into bytes of a format, for those who have a file of their own.
pub struct Encoder(Box<dyn Encode>);

impl Encoder {
    /// For the format of a file.
    pub fn new(target: &Source) -> Self {
        Self(target.encoder())
    }

    /// Adds a record. What is ready to be written goes to `out`.
    pub fn push(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), Unfit> {
        self.0.push(record, out)
    }

    /// The end: what was still held back goes to `out`.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Unfit> {
        self.0.finish(out)
    }
}

/// Writes records into a file, which appears when it is whole. A name that ends with `.zst` or `.gz` is compressed.
pub struct Writer {
    target: Source,
    encoder: Box<dyn Encode>,
    sink: Sink,
    ready: Vec<u8>,
    records: u64,
}

impl Writer {
    /// Begins a file.
    pub fn create(target: Source) -> Result<Self, DataError> {
        let aside = AsideFile::create(&target.path).map_err(DataError::io(&target.path))?;
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
        Ok(Self { encoder: target.encoder(), target, sink, ready: Vec::new(), records: 0 })
    }

    /// Writes a record. One that the format has no place for is an error, after which others can be written.
    pub fn write(&mut self, record: &Record) -> Result<(), DataError> {
        self.records += 1;
        self.encoder.push(record, &mut self.ready).map_err(|unfit| DataError::Unfit {
            path: self.target.path.clone(),
            record: self.records,
            problem: unfit.0,
        })?;
        if self.ready.len() >= BUFFER / 4 {
            self.pour()?;
        }
        Ok(())
    }

    /// The end: the file moves into its place.
    pub fn finish(mut self) -> Result<(), DataError> {
        self.encoder.finish(&mut self.ready).map_err(|unfit| DataError::Unfit {
            path: self.target.path.clone(),
            record: self.records,
            problem: unfit.0,
        })?;
        self.pour()?;
        self.sink.commit().map_err(DataError::io(&self.target.path))
    }

    fn pour(&mut self) -> Result<(), DataError> {
        self.sink.write_all(&self.ready).map_err(DataError::io(&self.target.path))?;
        self.ready.clear();
        Ok(())
    }
}
