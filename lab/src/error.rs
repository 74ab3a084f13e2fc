//! The error type of all commands.
//!
//! Libraries have error types of their own, which name the file, the record or the byte; [`LabError`] wraps
//! them, adds the file where a library does not know it, and decides the exit status.

use crate::interrupt;
use std::process::ExitCode;
use tandem_arena::{BookError, RuleError, SpecError, StartError, TournamentError};
use tandem_train::RunError;
use thiserror::Error;

/// The reason why a command failed. Its text is one line for the user: what is wrong, where, and what to do
/// about it.
#[derive(Debug, Error)]
pub(crate) enum LabError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Rule(#[from] RuleError),
    #[error(transparent)]
    Book(#[from] BookError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Tournament(#[from] TournamentError),
    #[error(transparent)]
    Sprt(#[from] tandem_arena::stats::SprtError),
    #[error(transparent)]
    Syzygy(#[from] tandem_arena::SyzygyError),
    #[error(transparent)]
    Suite(#[from] tandem_arena::suite::SuiteError),
    #[error(transparent)]
    Puzzle(#[from] tandem_arena::puzzles::PuzzleError),
    #[error(transparent)]
    Network(#[from] tandem_nnue::NetworkError),
    #[error("{path}: {source}")]
    Quantise { path: String, source: tandem_nnue::QuantiseError },
    #[error(transparent)]
    Architecture(#[from] tandem_nnue::ArchitectureError),
    #[error("{0}; our own format (.tnn) and safetensors hold every network")]
    Unsupported(#[from] tandem_nnue::UnsupportedArchitecture),
    #[error(transparent)]
    Transformer(#[from] tandem_transformer::FileError),
    #[error(transparent)]
    Input(#[from] tandem_transformer::InputError),
    #[error("{0}; our own format (.ttn) and safetensors hold every transformer")]
    UnsupportedTransformer(#[from] tandem_transformer::UnsupportedNetwork),
    #[error(transparent)]
    Data(#[from] tandem_data::DataError),
    #[error(transparent)]
    SelfPlay(#[from] tandem_selfplay::SelfPlayError),
    #[error(transparent)]
    Recipe(#[from] tandem_train::RecipeError),
    #[error(transparent)]
    Train(#[from] tandem_train::TrainError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Hybrid(#[from] tandem_hybrid::HybridError),
    #[error(transparent)]
    Load(#[from] tandem_train::LoadDataError),
    #[error(transparent)]
    Checkpoint(#[from] tandem_train::CheckpointError),
    #[cfg(feature = "torch")]
    #[error(transparent)]
    Compute(#[from] tandem_torch::ComputeError),
    #[error("the threads cannot be started: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    #[error("{path}: {source}")]
    File { path: String, source: std::io::Error },
    #[error("{0}")]
    Usage(String),
    /// The user stopped the command before its end with Ctrl-C or SIGTERM. Finished work is kept, or the
    /// message says that it is not.
    #[error("{0}")]
    Interrupted(String),
}

impl LabError {
    /// An interruption of work that the same command resumes from where it stopped, for example self-play
    /// with its journal.
    pub(crate) fn interrupted() -> Self {
        Self::Interrupted("interrupted: the same command resumes from here".into())
    }

    /// The exit status: 130 for an interruption, which is not a failure but has not produced the result
    /// either, and 1 for everything else.
    pub(crate) fn status(&self) -> ExitCode {
        match self {
            Self::Interrupted(_)
            | Self::Run(RunError::Stopped)
            | Self::Start(StartError::Cancelled { .. })
            | Self::Tournament(TournamentError::Start(StartError::Cancelled { .. })) => {
                ExitCode::from(interrupt::STATUS)
            }
            _ => ExitCode::FAILURE,
        }
    }

    /// Adds the path of the network file to an error of quantisation, for use with `map_err`.
    pub(crate) fn quantise(path: &std::path::Path) -> impl Fn(tandem_nnue::QuantiseError) -> Self {
        let path = path.display().to_string();
        move |source| Self::Quantise { path: path.clone(), source }
    }

    /// Adds the path to an input or output error, for use with `map_err`.
    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::File { path, source }
    }
}
