//! What a run asks of whoever computes it.

use super::Samples;
use crate::trainer::TrainError;
use std::collections::BTreeMap;
use tandem_hybrid::Bridge;
use tandem_transformer::Weights;

/// Everything that a trainer would need to go on as if nothing had happened: rows of numbers by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransformerState {
    /// Steps that were made.
    pub step: u64,
    /// Steps whose numbers are in the plain average.
    pub averaged: u64,
    /// `numbers`; `first` and `second`, which the optimiser remembers; `following` where a moving average is kept, and `plain`
    /// where numbers were averaged. A checkpoint that lacks one is refused.
    pub rows: BTreeMap<String, Vec<f32>>,
}

/// What a step said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepTold {
    /// The weighted sum of all losses.
    pub loss: f32,
    /// The length of all slopes together, before it was cut.
    pub slope: f32,
    /// The losses one by one, and figures of the experts.
    pub parts: Vec<(String, f32)>,
}

/// What a network says of some positions: the numbers of each head, one position's after the other's.
pub type Judged = BTreeMap<String, Vec<f32>>;

/// Trains a transformer.
pub trait TransformerTrainer {
    /// Makes a step with this process's share of a batch.
    fn learn(&mut self, samples: &Samples, rate: f64) -> Result<(), TrainError>;

    /// Adds the numbers as they are to the plain average.
    fn average(&mut self) -> Result<(), TrainError>;

    /// Waits for the steps under way and says what all since the last call have said.
    fn told(&mut self) -> Result<Vec<StepTold>, TrainError>;

    /// What the network says, with averaged numbers where there are any.
    fn judge(&mut self, samples: &Samples) -> Result<Judged, TrainError>;

    /// Adds up numbers of all processes.
    fn add_up(&mut self, numbers: &mut [f64]) -> Result<(), TrainError>;

    /// Everything.
    fn state(&mut self) -> Result<TransformerState, TrainError>;

    /// The network, with averaged numbers where there are any.
    fn weights(&mut self) -> Result<Weights, TrainError>;

    /// The bridge that is learnt beside it, if one is, likewise.
    fn bridge(&mut self) -> Result<Option<Bridge>, TrainError>;
}
