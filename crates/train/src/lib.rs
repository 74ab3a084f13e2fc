//! Trains Tandem's networks: recipes, data loading, losses, optimisers, schedules, checkpoints and logs.
//!
//! A [`Recipe`] describes a whole run in TOML: data, network, loss, optimiser and schedules. [`run()`]
//! follows it with a [`Trainer`], which is [`CpuTrainer`] or, on an NVIDIA GPU, [`CudaTrainer`], and writes
//! checkpoints from which an interrupted run is resumed to the same network. All trainers share [`Loss`],
//! [`Optimiser`] and [`Schedule`], and are tested against a plain double-precision backward pass
//! ([`reference`](mod@reference)).
//!
//! Use this crate to train an NNUE from Rust, or to add a trainer. To train from the command line use
//! `tandem-lab train`; to evaluate positions with a finished network use `tandem-nnue`, which does not need
//! this crate. Networks that are not chess are trained by [`CpuTrainer`] alone, from [`ActiveFeatures`].
//!
//! | What | Where |
//! |---|---|
//! | Recipes and their old keys | [`Recipe`], [`SourceRecipe`], [`Schedule`], [`old_keys`] |
//! | Data loading | [`Loader`], [`Batch`], [`ActiveFeatures`], [`DataCursor`] |
//! | Training | [`Trainer`], [`Job`], [`State`], [`Layout`], [`Optimiser`], [`Loss`] |
//! | Runs | [`run()`], [`RunOptions`], [`Event`], [`Checkpoint`], [`RunProgress`] |
//! | Validation metrics and logs | [`Metric`], [`Metrics`], [`log`] |
//! | Transformers and selectors, up to the tensors | [`transformer`], [`selector`] |
//!
//! ```
//! let recipe = tandem_train::Recipe::parse(
//!     r#"
//!     name = "first"
//!     [data]
//!     train = [{ path = "train.bf" }]
//!     [network]
//!     features = "768"
//!     accumulator = 256
//!     "#,
//! )?;
//! assert_eq!(recipe.steps(), 6_104);
//! assert!(recipe.explain().contains("batch = 16384"));
//! # Ok::<(), tandem_train::RecipeError>(())
//! ```

mod base;
mod batch;
mod checkpoint;
mod cpu;
mod cuda;
mod kinds;
mod layout;
mod loader;
pub mod log;
mod loss;
mod metric;
mod metrics;
mod nnue;
pub mod old_keys;
mod optimiser;
mod pool;
mod recipe;
pub mod reference;
mod run;
mod saturation;
mod schedule;
mod scores;
pub mod selector;
pub mod speed;
mod state;
mod throughput;
mod trainer;
pub mod transformer;

pub use base::BaseNetwork;
pub use batch::{ActiveFeatures, Batch};
pub use checkpoint::{Checkpoint, CheckpointError, Checkpoints, RunProgress, RunRecipe};
pub use cpu::CpuTrainer;
pub use cuda::{CudaTrainer, gpus};
pub use layout::{Layout, LayoutOptions, TensorInfo};
pub use loss::{Loss, Target, sigmoid};
pub use metric::{Head, Metric};
pub use metrics::{
    BINS, Bin, LabelledPrediction, MAX_LABEL_CENTIPAWNS, MetricGroup, Metrics, PIECE_GROUPS, Phase,
    likely_outcome,
};
pub use nnue::{MakeTrainer, run};
pub use optimiser::{
    ClampRange, Optimiser, OptimiserBuffers, Update, nadam_momentum, nadam_momentum_product,
};
pub use pool::{DataCursor, LoadDataError, LoadedBatch, Loader, ProcessRank, Skipped};
pub use recipe::*;
pub use run::{Event, RunError, RunOptions, RunOutcome, TrainingProgress};
pub use schedule::Schedule;
pub use state::State;
pub use trainer::{Job, NnueTrainer, StepMetrics, TrainError, Trainer};
