//! The interface between the training loop and the library that computes it, such as libtorch: steps,
//! predictions, and a state that can be saved.

use super::Samples;
use crate::trainer::TrainError;
use std::collections::BTreeMap;
use tandem_hybrid::Bridge;
use tandem_transformer::Weights;

/// Weights, optimiser moments and averages of a trainer, from which another one continues with exactly the
/// same results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransformerState {
    /// Steps done since the start of the run.
    pub step: u64,
    /// Number of snapshots of the weights in their plain mean (stochastic weight averaging); 0 before it
    /// starts.
    pub swa_count: u64,
    /// Flat arrays by name, one value per trained parameter: `numbers` holds the weights; `first` and
    /// `second` the optimiser's moments; `following` the moving average of the weights, if there is one;
    /// `plain` the plain mean of their snapshots, once it has started. A checkpoint that lacks a buffer is
    /// refused.
    pub buffers: BTreeMap<String, Vec<f32>>,
}

/// Metrics of a step, averaged over all processes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransformerStepMetrics {
    /// Weighted sum of all losses, as it is minimised.
    pub loss: f32,
    /// Gradient norm over all parameters before clipping, which grows before a run diverges.
    pub grad_norm: f32,
    /// The loss of each head before it is multiplied by its weight, and statistics of the experts (the
    /// alternative layers of a mixture-of-experts network), by name.
    pub components: Vec<(String, f32)>,
}

/// A network's outputs for a batch: for each head's name its raw values, position after position.
pub type OutputsByHead = BTreeMap<String, Vec<f32>>;

/// Trains a transformer, on one device of one process.
///
/// # Errors
/// Every method fails if the device does, for example if its memory is not sufficient, or if another process
/// is lost.
pub trait TransformerTrainer {
    /// Starts an optimiser step on this process's part of a batch at the learning rate `lr`. It may return
    /// before the step is done.
    fn train_step(&mut self, samples: &Samples, lr: f64) -> Result<(), TrainError>;

    /// Adds a snapshot of the current weights to their plain mean (stochastic weight averaging).
    fn update_average(&mut self) -> Result<(), TrainError>;

    /// Waits for all steps and returns the metrics of those since the last call, in their order.
    fn take_metrics(&mut self) -> Result<Vec<TransformerStepMetrics>, TrainError>;

    /// Outputs of the network for samples, computed with averaged weights if the recipe asks for an average.
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
