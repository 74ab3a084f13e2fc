//! The interface of all trainers, on the CPU or a GPU, and the job that a recipe gives them.

use crate::batch::Batch;
use crate::layout::{Layout, LayoutOptions};
use crate::loss::Loss;
use crate::optimiser::Optimiser;
use crate::recipe::{Averaging, Recipe, RecipeError, STACK_PAWN};
use crate::state::State;
use tandem_nnue::{FeatureSet, FloatNetwork, HeadShape, Inputs, Quantisation};
use thiserror::Error;

/// A trainer that cannot continue, for example because the GPU is out of memory.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct TrainError(pub String);

/// Everything that a trainer needs to know, derived once from a recipe.
#[derive(Clone, Debug)]
pub struct Job<I = FeatureSet> {
    /// Architecture of the network, and the place of each tensor in the flat parameter buffer.
    pub layout: Layout<I>,
    /// Update rule with its hyperparameters, except for the learning rate.
    pub optimiser: Optimiser,
    /// Loss function to minimise, averaged over the positions of a batch.
    pub loss: Loss,
    /// Factor that turns the network's raw output into the unit of the training targets, in which the sigmoid
    /// gives a win probability.
    pub output_scale: f32,
    /// Maximum gradient norm over all parameters; 0 disables clipping.
    pub max_grad_norm: f32,
    /// Averaging of the weights over the run; the average becomes the network.
    pub averaging: Averaging,
    /// Scales of the later quantisation, which bound the weights.
    pub quantisation: Quantisation,
    /// Score that a raw output of 1.0 stands for, in the network file's units.
    pub scale: i32,
    /// Score of one pawn in the network file's units; 100 if they are centipawns.
    pub pawn: i32,
}

impl Job {
    /// The job that a recipe describes: network, loss, optimiser and averaging.
    ///
    /// # Errors
    ///
    /// If the architecture is not possible.
    pub fn of(recipe: &Recipe) -> Result<Self, RecipeError> {
        let architecture = recipe.network.architecture()?;
        let quantisation = Quantisation { qa: recipe.network.qa, qb: recipe.network.qb };
        // Networks with stacks have fixed units: 600 for an output of one.
        let (scale, pawn) = match architecture.head {
            HeadShape::Flat { .. } => (recipe.network.scale, 100),
            HeadShape::Stacks(_) => (600, STACK_PAWN),
        };
        let shape = LayoutOptions {
            factoriser: recipe.network.factoriser,
            clip_weights: recipe.training.clip_weights,
            qat: recipe.training.qat,
        };
        let centipawns = f64::from(scale) * 100.0 / f64::from(pawn);
        Ok(Self {
            layout: Layout::new(architecture, quantisation, shape),
            optimiser: recipe.optimiser,
            loss: recipe.target.loss,
            output_scale: (centipawns / recipe.target.scale) as f32,
            max_grad_norm: recipe.training.max_grad_norm as f32,
            averaging: recipe.training.averaging(),
            quantisation,
            scale,
            pawn,
        })
    }
}

impl<I: Inputs> Job<I> {
    /// True if a moving average is updated during training.
    pub fn is_averaged(&self) -> bool {
        matches!(self.averaging, Averaging::Ema { .. })
    }

    /// The decay to apply to the moving average after `steps` steps, if it is updated then.
    pub(crate) fn ema_decay_after(&self, steps: u64) -> Option<f32> {
        match self.averaging {
            Averaging::Ema { decay, every } if steps.is_multiple_of(every) => Some(decay as f32),
            _ => None,
        }
    }

    /// State before the first step, randomly initialised from a seed.
    pub fn initial_state(&self, seed: u64) -> State {
        State::new(self.layout.random_parameters(seed), self.optimiser, self.is_averaged())
    }

    /// Converts the flat parameters to a network, with the factoriser folded in.
    pub fn network(&self, parameters: &[f32], description: &str) -> FloatNetwork<I> {
        self.layout.network(parameters, description, self.scale, self.pawn)
    }
}

/// Metrics of one training step, as it was before the update, or their means over several steps. With several
/// processes they are those of all together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepMetrics {
    /// Mean loss over the batch as it is minimised, with the parameters before the update.
    pub loss: f64,
    /// Gradient norm (L2) over all parameters, before clipping; it grows before a run diverges.
    pub grad_norm: f64,
    /// Parts of the loss before they are weighted, one for each head of a transformer, and statistics of its
    /// experts, by name; empty for other networks.
    pub components: Vec<(String, f64)>,
}

impl StepMetrics {
    /// The means over some steps, but the greatest of the gradient norms; zero without steps.
    pub(crate) fn mean(steps: &[Self]) -> Self {
        let count = steps.len().max(1) as f64;
        let mut mean = steps.last().cloned().unwrap_or_default();
        mean.loss = steps.iter().map(|step| step.loss).sum::<f64>() / count;
        mean.grad_norm = steps.iter().map(|step| step.grad_norm).fold(0.0, f64::max);
        for (index, (_, component)) in mean.components.iter_mut().enumerate() {
            *component = steps.iter().map(|step| step.components[index].1).sum::<f64>() / count;
        }
        mean
    }
}

/// A network in training, on one device of one process: it takes batches and holds the parameters and the
/// optimiser state.
///
/// # Errors
///
/// Every method fails if the device does, for example for lack of memory, or if another process is lost.
pub trait Trainer {
    /// The input of a step: positions or samples with their targets.
    type Batch;
    /// Outputs of the network for a batch.
    type Outputs;

    /// Trains on one batch, or on this process's part of it, at a learning rate. May return before the step is
    /// complete, since a GPU works asynchronously.
    fn train_step(&mut self, batch: &Self::Batch, lr: f64) -> Result<(), TrainError>;

    /// Adds the current parameters to their plain mean (stochastic weight averaging). Fails for trainers
    /// that keep none.
    fn update_average(&mut self) -> Result<(), TrainError> {
        Err(TrainError("this trainer keeps no mean of the parameters; remove `training.swa`".into()))
    }

    /// Waits for all queued steps and returns the metrics of those since the previous call, in order.
    fn take_metrics(&mut self) -> Result<Vec<StepMetrics>, TrainError>;

    /// Outputs of the network for a batch. With `averaged`, the average of the parameters is used, if there is
    /// one.
    fn predict(&mut self, batch: &Self::Batch, averaged: bool) -> Result<Self::Outputs, TrainError>;

    /// Replaces each value by its sum over all processes, each of which must call it with as many values. A
    /// trainer of a single process does nothing.
    fn all_reduce_sum(&mut self, _values: &mut [f64]) -> Result<(), TrainError> {
        Ok(())
    }

    /// Copies the parameters and the optimiser buffers to the host, for a checkpoint.
    fn state(&mut self) -> Result<State, TrainError>;
}

/// The trainer of an NNUE. Outputs are on the scale of the targets, one for each position.
pub type NnueTrainer = dyn Trainer<Batch = Batch, Outputs = Vec<f32>>;
