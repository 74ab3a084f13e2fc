//! What every trainer does, on whatever machine.

use crate::batch::Batch;
use crate::layout::{Layout, Shape};
use crate::loss::Loss;
use crate::optimiser::Optimiser;
use crate::recipe::{Averaging, Recipe, RecipeError, STACK_PAWN};
use crate::state::State;
use tandem_nnue::{FeatureSet, FloatNetwork, HeadShape, Inputs, Quantisation};
use thiserror::Error;

/// A trainer that cannot go on.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct TrainError(pub String);

/// What a trainer is to do, found once from a recipe.
#[derive(Clone, Debug)]
pub struct Job<I = FeatureSet> {
    /// Where the numbers of the network lie.
    pub layout: Layout<I>,
    /// How they follow their slopes.
    pub optimiser: Optimiser,
    /// What is to become small.
    pub loss: Loss,
    /// An output of one is so much of the target's scale.
    pub unit: f32,
    /// Slopes are held to this length all together; zero for any.
    pub clip_slopes: f32,
    /// Which average is kept while training.
    pub averaging: Averaging,
    /// How the network will be quantised.
    pub quantisation: Quantisation,
    /// What an output of one is worth in the network's units.
    pub scale: i32,
    /// What a pawn is worth in them.
    pub pawn: i32,
}

impl Job {
    /// The job that a recipe describes.
    pub fn of(recipe: &Recipe) -> Result<Self, RecipeError> {
        let architecture = recipe.network.architecture()?;
        let quantisation = Quantisation { qa: recipe.network.qa, qb: recipe.network.qb };
        // The units of stacks are fixed: 600 for an output of one.
        let (scale, pawn) = match architecture.head {
            HeadShape::Flat { .. } => (recipe.network.scale, 100),
            HeadShape::Stacks(_) => (600, STACK_PAWN),
        };
        let shape = Shape {
            factoriser: recipe.network.factoriser,
            clipped: recipe.training.clip_weights,
            rounded: recipe.training.round_weights,
        };
        let centipawns = f64::from(scale) * 100.0 / f64::from(pawn);
        Ok(Self {
            layout: Layout::new(architecture, quantisation, shape),
            optimiser: recipe.optimiser,
            loss: recipe.target.loss,
            unit: (centipawns / recipe.target.scale) as f32,
            clip_slopes: recipe.training.clip_slopes as f32,
            averaging: recipe.training.average,
            quantisation,
            scale,
            pawn,
        })
    }
}

impl<I: Inputs> Job<I> {
    /// Whether a moving average is kept.
    pub fn is_averaged(&self) -> bool {
        matches!(self.averaging, Averaging::Moving { .. })
    }

    /// Whether the average moves after this step, and the share of it that stays.
    pub(crate) fn average_after(&self, steps: u64) -> Option<f32> {
        match self.averaging {
            Averaging::Moving { share, every } if steps.is_multiple_of(every) => Some(share as f32),
            _ => None,
        }
    }

    /// Before the first step.
    pub fn start(&self, seed: u64) -> State {
        State::new(self.layout.start(seed), self.optimiser, self.is_averaged())
    }

    /// Numbers as a network.
    pub fn network(&self, numbers: &[f32], description: &str) -> FloatNetwork<I> {
        self.layout.network(numbers, description, self.scale, self.pawn)
    }
}

/// What a step said.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Told {
    /// The mean loss of its batch, before it.
    pub loss: f32,
    /// The length of all slopes together, before they are held to any.
    pub slope: f32,
}

/// A network in training.
pub trait Trainer {
    /// Learns from a batch at a learning rate. It may still be under way when this returns.
    fn learn(&mut self, batch: &Batch, rate: f64) -> Result<(), TrainError>;

    /// Waits for all steps, and says what those since the last time said.
    fn told(&mut self) -> Result<Vec<Told>, TrainError>;

    /// What the network says of positions, on the target's scale. With `averaged`, what the moving average of its numbers
    /// says, where one is kept.
    fn outputs(&mut self, batch: &Batch, averaged: bool) -> Result<Vec<f32>, TrainError>;

    /// Everything that is remembered.
    fn state(&mut self) -> Result<State, TrainError>;
}
