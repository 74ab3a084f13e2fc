//! The interface between the training loop and the library that computes a transformer, such as libtorch.

use super::Samples;
use crate::trainer::{TrainError, Trainer};
use std::collections::BTreeMap;
use tandem_hybrid::Bridge;
use tandem_transformer::Weights;

/// A network's outputs for a batch: for each head's name its raw values, position after position.
pub type OutputsByHead = BTreeMap<String, Vec<f32>>;

/// Trains a transformer, or a bridge to one, and returns the trained network.
///
/// # Errors
/// If the device fails.
pub trait TransformerTrainer: Trainer<Batch = Samples, Outputs = OutputsByHead> {
    /// The network for saving, with averaged weights if there are any.
    fn weights(&mut self) -> Result<Weights, TrainError>;

    /// The trained bridge, with averaged weights if there are any; `None` if the run has no bridge.
    fn bridge(&mut self) -> Result<Option<Bridge>, TrainError>;
}
