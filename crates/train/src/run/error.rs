//! Reasons for which a run cannot begin or continue.

use crate::checkpoint::CheckpointError;
use crate::log::LogError;
use crate::pool::LoadDataError;
use crate::recipe::RecipeError;
use crate::trainer::TrainError;
use std::path::PathBuf;
use tandem_hybrid::IncompatibleNetworks;
use tandem_nnue::NetworkError;
use thiserror::Error;

/// A run that cannot begin or continue, with what to do about it.
#[derive(Debug, Error)]
pub enum RunError {
    /// The recipe describes a run that is not possible, for example an unknown feature set.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The training or validation data cannot be used, for example because it has no scores.
    #[error(transparent)]
    Data(#[from] LoadDataError),
    /// The trainer has failed, for example because the GPU has.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A checkpoint cannot be written or read, for example because the disk is full.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The log cannot be written, or an old one cannot be continued.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The network to start from cannot be read, or is not a float network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The run's folder is locked, belongs to another run, or cannot be written.
    #[error("{}: {problem}", path.display())]
    Folder {
        /// Path of the folder, or of the file within it.
        path: PathBuf,
        /// Description of the problem with the folder, and the remedy.
        problem: String,
    },
    /// The loss or the gradient norm of a step is infinite or not a number.
    #[error(
        "the loss of step {step} is {loss}: the learning rate may be too high, `training.max_grad_norm` too high or 0 (no \
         clipping), or a parameter of the network too large{}", batch.as_ref().map_or(String::new(), |path| format!("; its batch is in {}", path.display()))
    )]
    NonFiniteLoss {
        /// Step whose loss it is, counted from one.
        step: u64,
        /// Loss of that step, possibly finite if only the gradient norm is not.
        loss: f64,
        /// CSV file with the positions and targets of that step, written for inspection; NNUEs alone have one.
        batch: Option<PathBuf>,
    },
    /// A frozen network was changed by training, which would be a bug.
    #[error("the frozen network has changed during training: this is a bug, please report it")]
    BaseChanged,
    /// The validation data has no target for the loss, for example for any head with a weight above zero.
    #[error(
        "the validation data has no target for anything that is trained: choose data with the labels that are needed (moves, \
         results, scores), or give weights to heads that it has targets for"
    )]
    NoValidationTargets,
    /// The networks of a hybrid do not fit together, for example because the hybrid names other files.
    #[error(transparent)]
    HybridNetworks(#[from] IncompatibleNetworks),
    /// No record could be evaluated by both networks of a hybrid, or the hybrid has no selector to measure.
    #[error("{0}")]
    Cases(String),
    /// The caller set `stop` before there was anything to continue from.
    #[error("stopped; nothing was written")]
    Stopped,
    /// The validation loss is infinite or not a number, although the training loss was finite.
    #[error("the validation loss after step {step} is {loss}: the learning rate may be too high")]
    NonFiniteValidationLoss {
        /// Number of steps done before that validation.
        step: u64,
        /// Validation loss, averaged over the positions with a target.
        loss: f64,
    },
}
