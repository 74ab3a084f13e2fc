//! The interface between the training loop and the library that computes it, such as libtorch: steps,
//! predictions, and a state that can be saved.

use super::Samples;
use crate::trainer::TrainError;
use std::collections::BTreeMap;
use tandem_hybrid::Bridge;
use tandem_transformer::Weights;

/// State of a trainer, from which it continues to the bit: flat buffers of values, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransformerState {
    /// Steps done since the start of the run.
    pub step: u64,
    /// Number of states that were added to the plain average of the weights.
    pub swa_count: u64,
    /// `numbers` holds the weights; `first` and `second` the optimiser's moments; `following` the moving
    /// average of the weights, if there is one; `plain` their plain average, once it has started. The names
    /// are those in checkpoint files, and a checkpoint that lacks a buffer is refused.
    pub buffers: BTreeMap<String, Vec<f32>>,
}

/// Metrics of a step, averaged over all processes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransformerStepMetrics {
    /// Weighted sum of all losses, as it is minimised.
    pub loss: f32,
    /// Gradient norm over all parameters before clipping, which grows before a run diverges.
    pub grad_norm: f32,
    /// The losses without their weights, and statistics of the experts, by name.
    pub components: Vec<(String, f32)>,
}

/// Outputs of a network by the name of the head, the first position's values first.
pub type OutputsByHead = BTreeMap<String, Vec<f32>>;

/// Trains a transformer, on one device of one process.
///
/// # Errors
/// Every method fails if the device does, for example if its memory is not sufficient, or if another process
/// is lost.
pub trait TransformerTrainer {
    /// Starts a step on this process's rows of a batch. It may return before the step is done.
    fn train_step(&mut self, samples: &Samples, lr: f64) -> Result<(), TrainError>;

    /// Adds the current weights to the plain average (stochastic weight averaging).
    fn update_average(&mut self) -> Result<(), TrainError>;

    /// Waits for all steps and returns the metrics of those since the last call, in their order.
    fn take_metrics(&mut self) -> Result<Vec<TransformerStepMetrics>, TrainError>;

    /// Outputs of the network, with averaged weights if there are any.
    fn predict(&mut self, samples: &Samples) -> Result<OutputsByHead, TrainError>;

    /// Replaces each value by its sum over all processes; every process must call it with as many values.
    fn all_reduce_sum(&mut self, values: &mut [f64]) -> Result<(), TrainError>;

    /// State for a checkpoint, copied from the device.
    fn state(&mut self) -> Result<TransformerState, TrainError>;

    /// The network for saving, with averaged weights if there are any.
    fn weights(&mut self) -> Result<Weights, TrainError>;

    /// The trained bridge, with averaged weights if there are any; `None` if the run has no bridge.
    fn bridge(&mut self) -> Result<Option<Bridge>, TrainError>;
}
