//! Errors that end self-play, labelling or tuning. Work that is already on the disk stays valid, so that
//! every run can be resumed after the cause is removed.

use std::path::PathBuf;
use tandem_data::DataError;
use tandem_util::journal::JournalError;
use thiserror::Error;

/// Reason for which a run of self-play, labelling or tuning cannot start or continue.
#[derive(Debug, Error)]
pub enum SelfPlayError {
    /// The operating system refused to open, read, write or lock a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// File that was being read or written.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// Training data that cannot be read or written; see [`DataError`].
    #[error(transparent)]
    Data(#[from] DataError),
    /// A file of games, labels or a tuning that cannot be read or continued; see [`JournalError`].
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The hash table of a search does not fit into memory.
    #[error(transparent)]
    Memory(#[from] tandem_search::OutOfMemory),
    /// A labeller other than the search has failed, for example a network on a GPU; the text is its message.
    #[error("labels cannot be made: {0}")]
    Labeller(String),
    /// A file that cannot be used: it was made with other settings, is locked by another run, is damaged, or
    /// is of another kind.
    #[error("{}: {problem}", path.display())]
    File {
        /// Path of the file that was refused.
        path: PathBuf,
        /// Reason for which the file was refused and, if there is one, the remedy.
        problem: String,
    },
    /// The program was built without the feature `tune`, so the search parameters are constants.
    #[error(
        "this program has the search parameters as constants; build one that can change them with --features tune"
    )]
    NotTunable,
    /// No opening was balanced enough to be played.
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
