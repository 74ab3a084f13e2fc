//! What can go wrong, with the place where it did.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Data that cannot be read or written.
#[derive(Debug, Error)]
pub enum DataError {
    /// The file system's word.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A broken record.
    #[error("{}: record {record}, byte {byte}: {problem}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Which record, from one.
        record: u64,
        /// Where it is in the file once it is unpacked.
        byte: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A record that the format of an output has no place for.
    #[error("{}: record {record} cannot be written: {problem}", path.display())]
    Unfit {
        /// The file that is written.
        path: PathBuf,
        /// Which record of those that were to be written, from one.
        record: u64,
        /// Why.
        problem: String,
    },
    /// A path that names no data.
    #[error("{}: {problem}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// What to do about it.
        problem: String,
    },
}

impl DataError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
