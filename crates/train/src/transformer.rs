//! Everything that training a transformer needs apart from tensors: the recipe, the data, the metrics and the
//! run.
//!
//! - [`TransformerRecipe`]: a run described in one TOML file;
//! - [`Loader::of_samples`](crate::Loader::of_samples): an endless stream of batches, as [`Samples`]: plain arrays, small enough to be copied to a GPU;
//! - [`HeadOutputs`] and [`Metrics::add_samples`]: the outputs of a network for samples, and its losses and accuracies;
//!   [`predict_samples`] computes the outputs on the CPU with our own inference;
//! - [`BridgeSetup`]: a bridge from an NNUE, which is trained while both networks stay frozen;
//! - [`run_transformer`]: the training loop with validation and checkpoints, over any [`TransformerTrainer`].
//!
//! Nothing here depends on a training framework: `tandem-torch` implements [`TransformerTrainer`] with
//! libtorch. Because of that, recipes, loaders and metrics are built and tested on machines that have neither
//! libtorch nor a GPU.

mod any_recipe;
mod baseline;
mod bridge_setup;
mod difference;
mod game_context;
mod loader;
mod metrics;
mod predict;
mod rank_correlation;
mod recipe;
mod run;
mod samples;
mod selection;
mod targets;
mod trainer;

pub use crate::metric::{Head, Metric};
pub use crate::metrics::Metrics;
pub use crate::pool::ProcessRank;
pub use any_recipe::AnyRecipe;
pub use bridge_setup::{BridgeRecipe, BridgeSetup, InitialNetworks, SampleSpec};
pub(crate) use loader::first_records;
pub use metrics::{HeadOutputs, MOVES_LEFT_HUBER_DELTA, MOVES_LEFT_UNIT, SOFT_TEMPERATURE, ValueHeadOutputs};
pub use predict::{predict_samples, predict_samples_with_bridge};
pub use recipe::{Description, TransformerNetwork, TransformerRecipe};
pub use run::{MakeTransformerTrainer, TrainedTransformer, head_outputs, run_transformer};
pub use samples::{Augmentation, LabelConfig, NO_MOVE, SampleShape, Samples};
pub use targets::{BucketTarget, HeadWeights, Targets};
pub use trainer::{OutputsByHead, TransformerTrainer};
