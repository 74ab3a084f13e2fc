//! Errors of reading and writing data, each with the file and, where there is one, the record and the byte.
//!
//! A message must be enough to find the fault in a file of a hundred million records, so nothing is reported
//! without its place.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Error while reading or writing training data. The message names the file, the reason and, where there is
/// one, the remedy.
#[derive(Debug, Error)]
pub enum DataError {
    /// The operating system refused to open, read, write or rename the file.
    #[error("{}: {source}", path.display())]
    Io {
        /// File that was being read or written.
        path: PathBuf,
        /// Error of the operating system, for example that the disk is full.
        source: io::Error,
    },
    /// A file whose contents end early or are damaged in their compression, or that the operating system cannot read
    /// further.
    #[error("{}: after record {record}, byte {byte}: {source}", path.display())]
    Read {
        /// File that was being read.
        path: PathBuf,
        /// Number of records before the fault, in the blocks that were read completely.
        record: u64,
        /// Number of bytes that were read, after decompression.
        byte: u64,
        /// Error of the decompression or of the operating system.
        source: io::Error,
    },
    /// A record that is malformed in its format, or whose position or move is illegal. With
    /// [`crate::OnError::Skip`] it is counted and left out instead of returned.
    #[error("{}: record {record}, byte {byte}: {problem}", path.display())]
    Record {
        /// File that holds the record.
        path: PathBuf,
        /// Number of the record within the file, counted from 1.
        record: u64,
        /// Byte offset of the fault in the file, after decompression.
        byte: u64,
        /// Reason, in a few words: for example an illegal move or an unknown version.
        problem: String,
    },
    /// A record that the output format cannot store: it has a field that the format has no place for, or
    /// lacks one that the format requires.
    #[error("{}: record {record} cannot be written: {problem}", path.display())]
    Unsupported {
        /// File that is being written.
        path: PathBuf,
        /// Number of the record among those handed to the writer, counted from 1.
        record: u64,
        /// Field that is missing or does not fit, for example a position without a move.
        problem: String,
    },
    /// A path that does not name readable data: an unknown format, an empty folder, a missing shard.
    #[error("{}: {problem}", path.display())]
    Path {
        /// Path as it was given on the command line or in a recipe.
        path: PathBuf,
        /// Reason, together with the remedy where there is one.
        problem: String,
    },
}

impl DataError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
