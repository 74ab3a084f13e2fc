//! Everything that can stop a command.

use crate::interrupt;
use std::process::ExitCode;
use tandem_arena::{BookError, RuleError, SpecError, StartError, TournamentError};
use tandem_train::selector::SelectorError;
use thiserror::Error;

/// Why a command failed; one line for the person who typed it.
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
    Unfit(#[from] tandem_nnue::UnfitNetwork),
    #[error(transparent)]
    Transformer(#[from] tandem_transformer::FileError),
    #[error(transparent)]
    Input(#[from] tandem_transformer::InputError),
    #[error("{0}; our own format (.ttn) and safetensors hold every transformer")]
    UnfitTransformer(#[from] tandem_transformer::UnfitNetwork),
    #[error(transparent)]
    Data(#[from] tandem_data::DataError),
    #[error(transparent)]
    SelfPlay(#[from] tandem_selfplay::SelfPlayError),
    #[error(transparent)]
    Recipe(#[from] tandem_train::RecipeError),
    #[error(transparent)]
    Train(#[from] tandem_train::TrainError),
    #[error(transparent)]
    Run(#[from] tandem_train::RunError),
    #[error(transparent)]
    Selector(#[from] SelectorError),
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
    /// Somebody asked it to stop before its end; what is done is kept, or it says so.
    #[error("{0}")]
    Interrupted(String),
}

impl LabError {
    /// Work that the same command takes up again.
    pub(crate) fn interrupted() -> Self {
        Self::Interrupted("interrupted: the same command goes on from here".into())
    }

    /// What the shell is told: an interruption is no failure, and what was asked for is not there either.
    pub(crate) fn status(&self) -> ExitCode {
        match self {
            Self::Interrupted(_)
            | Self::Selector(SelectorError::Stopped)
            | Self::Start(StartError::Cancelled { .. })
            | Self::Tournament(TournamentError::Start(StartError::Cancelled { .. })) => {
                ExitCode::from(interrupt::STATUS)
            }
            _ => ExitCode::FAILURE,
        }
    }

    /// A network's, that names its file.
    pub(crate) fn quantise(path: &std::path::Path) -> impl Fn(tandem_nnue::QuantiseError) -> Self {
        let path = path.display().to_string();
        move |source| Self::Quantise { path: path.clone(), source }
    }

    /// An error that names its file.
    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::File { path, source }
    }
}
