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

/// Metrics of one training step, as it was before the update.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepMetrics {
    /// Mean loss over the batch, with the parameters before the update.
    pub loss: f32,
    /// Gradient norm (L2) over all parameters, before clipping.
    pub grad_norm: f32,
}

/// A network in training: it takes batches and holds the parameters and the optimiser state.
pub trait Trainer {
    /// Trains on one batch at a learning rate. May return before the step is complete, since a GPU works
    /// asynchronously.
    ///
    /// # Errors
    ///
    /// If the batch exceeds the trainer's capacity, or if the device fails.
    fn train_step(&mut self, batch: &Batch, lr: f64) -> Result<(), TrainError>;

    /// Waits for all queued steps and returns the metrics of those since the previous call, in order.
    ///
    /// # Errors
    ///
    /// If the device fails.
    fn take_metrics(&mut self) -> Result<Vec<StepMetrics>, TrainError>;

    /// Outputs of the network for the positions of a batch, on the scale of the targets. With `averaged`, the
    /// moving average of the parameters is used, if there is one.
    ///
    /// # Errors
    ///
    /// If the device fails.
    fn predict(&mut self, batch: &Batch, averaged: bool) -> Result<Vec<f32>, TrainError>;

    /// Copies the parameters and the optimiser buffers to the host, for a checkpoint.
    ///
    /// # Errors
    ///
    /// If the device fails.
    fn state(&mut self) -> Result<State, TrainError>;
}
