//! What can stop the making of data.

use std::path::PathBuf;
use tandem_data::DataError;
use thiserror::Error;

/// Why no more data is made.
#[derive(Debug, Error)]
pub enum SelfPlayError {
    /// The file system's word.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Data that cannot be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// No room for a hash table.
    #[error(transparent)]
    Memory(#[from] tandem_search::OutOfMemory),
    /// A labeller's word.
    #[error("labels cannot be made: {0}")]
    Labeller(String),
    /// A file that cannot serve: made with other settings, in use, damaged, or of another kind.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// An ordinary build.
    #[error(
        "this program has the search's numbers as constants; build one that can turn them with --features tune"
    )]
    Constants,
    /// No opening is even enough to be played.
    #[error(
        "none of {0} openings tried in a row was even enough to be played; allow a larger score or other openings"
    )]
    NoOpening(usize),
}

impl SelfPlayError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
