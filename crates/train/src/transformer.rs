//! What a transformer's training needs before any tensor: everything about a run, what it learns from, and what came of it.
//!
//! - [`TransformerRecipe`]: a run in a file;
//! - [`SampleLoader`]: batches without end, as [`Samples`], plain arrays that are small enough to be sent to a card;
//! - [`Answers`] and [`TransformerMetrics`]: what a network says of samples, and what that is worth; [`judge_samples`] asks it
//!   on the processor;
//! - [`Join`]: a bridge from an NNUE, which is learnt while both networks stay as they are;
//! - [`run_transformer`]: steps, looks at the validation data and checkpoints, with whatever [`TransformerTrainer`] computes.
//!
//! Nothing here knows of a training framework.

mod agreement;
mod any_recipe;
mod blind;
mod checkpoint;
mod figures;
mod join;
mod loader;
mod metrics;
mod neighbours;
mod optimiser;
mod processor;
mod recipe;
mod run;
mod samples;
mod select;
mod targets;
mod trainer;

pub use any_recipe::AnyRecipe;
pub use checkpoint::TransformerCheckpoint;
pub use figures::{Figure, Head};
pub use join::{BridgeRecipe, Join, Reading, Start};
pub(crate) use loader::first_records;
pub use loader::{SampleLoader, Share, load_samples};
pub use metrics::{
    Answers, MOVES_LEFT_BEND, MOVES_LEFT_UNIT, SOFT_TEMPERATURE, TransformerFigures, TransformerMetrics,
    ValueAnswers,
};
pub use optimiser::TransformerOptimiser;
pub use processor::{judge_joined, judge_samples};
pub use recipe::*;
pub use run::{
    MakeTransformerTrainer, TransformerEvent, TransformerOptions, TransformerOutcome, answers_of,
    run_transformer,
};
pub use samples::{Aim, NO_MOVE, SampleShape, Samples, View};
pub use targets::{BucketTarget, HeadWeights, Targets};
pub use trainer::{Judged, StepTold, TransformerState, TransformerTrainer};
