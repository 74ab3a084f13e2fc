//! The part of the training loop that depends on the kind of network.

use super::{Event, RunError, RunOptions};
use crate::checkpoint::{Checkpoint, Checkpoints, RunRecipe};
use crate::log::RunLog;
use crate::metrics::Metrics;
use crate::pool::{DataCursor, Loader, ProcessRank};
use crate::recipe::RecipeCore;
use crate::schedule::Schedule;
use crate::state::State;
use crate::trainer::Trainer;
use tandem_transformer::Architecture;

/// Lengths and intervals of a run, from its recipe.
pub(crate) struct RunPlan {
    /// Optimiser steps of the whole run.
    pub(crate) steps: u64,
    /// Positions of a step, over all processes together.
    pub(crate) batch: usize,
    /// Learning rate over the run.
    pub(crate) lr: Schedule,
    /// Steps between two validations, each of which writes a checkpoint.
    pub(crate) validate_every: u64,
    /// Steps between two collections of their metrics, because a GPU has to be waited for each time.
    pub(crate) log_every: u64,
    /// Ends the run after the step in which it is asked to stop. If false, it ends when metrics are collected
    /// next, because several processes can agree to stop only then.
    pub(crate) stops_at_once: bool,
    /// Validations without a lower loss after which the run ends; 0 never ends it early.
    pub(crate) patience: u32,
    /// Returns the network of the best validation, not the last one.
    pub(crate) returns_best: bool,
    /// Checkpoints kept besides the best one.
    pub(crate) keep: usize,
}

impl RunPlan {
    /// The plan of a run whose length and validation interval are given in positions; it stops after any step.
    pub(crate) fn of(recipe: &RecipeCore, steps: u64) -> Self {
        let training = &recipe.training;
        Self {
            steps,
            batch: training.batch,
            lr: recipe.lr.clone(),
            validate_every: training.validate_every.div_ceil(training.batch as u64).max(1),
            log_every: recipe.logging.every,
            stops_at_once: true,
            patience: training.patience,
            returns_best: training.patience > 0,
            keep: training.keep,
        }
    }
}

/// A kind of network in training, with its recipe and its data.
pub(crate) trait Task {
    /// Recipe of the run, which checkpoints store.
    type Recipe: RunRecipe;
    /// The input of a step.
    type Batch: Default + Send + 'static;
    /// The trainer that makes the steps.
    type Trainer: Trainer<Batch = Self::Batch> + ?Sized;
    /// Result of the run.
    type Network;

    /// Text of a batch for inspection, written to a file if its loss is not finite.
    const DESCRIBE_BATCH: Option<fn(&Self::Batch) -> String> = None;

    /// The recipe of the run; a run is resumed only with an equal one.
    fn recipe(&self) -> &Self::Recipe;

    /// Prepares what takes long, once it is known that the run can begin in its folder.
    fn open(&mut self, _options: &RunOptions<'_>, _watch: &mut dyn FnMut(Event<'_>)) -> Result<(), RunError> {
        Ok(())
    }

    /// Lengths and intervals of the run.
    fn plan(&self) -> RunPlan;

    /// Rank of this process among those that train together.
    fn process(&self) -> ProcessRank {
        ProcessRank::SINGLE
    }

    /// Hashes of the frozen networks that the run depends on, which must be the same when it is resumed.
    fn bases(&self) -> Option<[String; 2]> {
        None
    }

    /// Architecture for checkpoints, if the recipe does not contain it.
    fn architecture(&self) -> Option<Architecture> {
        None
    }

    /// Describes how the network of a checkpoint with an equal recipe differs from the task's; `None` if the run
    /// can continue from it.
    fn difference(&self, checkpoint: &Checkpoint<Self::Recipe>) -> Option<String>;

    /// Loads the validation data, and starts loading batches from a step on, at the place in the data that a
    /// checkpoint has saved.
    fn load(
        &mut self,
        threads: usize,
        first_step: u64,
        cursor: Option<DataCursor>,
    ) -> Result<Loader<Self::Batch>, RunError>;

    /// Creates a trainer from the state of a checkpoint, or for the first step.
    fn trainer(&self, state: Option<State>) -> Result<Box<Self::Trainer>, RunError>;

    /// True if the parameters are to be added to their plain mean after a step.
    fn averages_after(&self, _step: u64) -> bool {
        false
    }

    /// Number of positions trained on in the first `step` steps.
    fn positions(&self, step: u64) -> u64 {
        step * self.plan().batch as u64
    }

    /// Losses that the network must beat to have learnt anything, by name.
    fn baseline(&mut self, _trainer: &mut Self::Trainer) -> Result<Vec<(String, f64)>, RunError> {
        Ok(Vec::new())
    }

    /// More values to log with the metrics of steps, by the tag after `train/`.
    fn step_scalars(&self, _step: u64) -> Vec<(String, f64)> {
        Vec::new()
    }

    /// Metrics of the network, averaged if there is an average, on the validation data of all processes; `None`
    /// if there is none.
    fn evaluate(&self, trainer: &mut Self::Trainer) -> Result<Option<Metrics>, RunError>;

    /// Validation loss by which checkpoints are compared; `None` if the data has no target for it.
    fn loss(&self, metrics: &Metrics) -> Option<f64>;

    /// Logs more about the parameters after a validation, for example their histograms.
    fn log_state(&self, _log: &mut RunLog, _state: &State) -> Result<(), RunError> {
        Ok(())
    }

    /// The mean of the last checkpoints, if the recipe asks for it.
    fn mean_of_checkpoints(&self, _checkpoints: &Checkpoints) -> Result<Option<State>, RunError> {
        Ok(None)
    }

    /// The trained network, averaged if there is an average.
    fn network(&self, trainer: &mut Self::Trainer) -> Result<Self::Network, RunError>;
}
