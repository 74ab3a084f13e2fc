//! Trains Tandem's networks.
//!
//! A [`Recipe`] says everything about a run: data, network, loss, optimiser, schedules. [`run()`] follows it with a
//! [`Trainer`], on processors ([`CpuTrainer`]) or a card ([`CudaTrainer`]), and writes checkpoints from which it can go on. All trainers
//! compute with the same [`Loss`], [`Optimiser`] and [`Schedule`], and are measured by the plain definition of all slopes
//! ([`reference`](mod@reference)); [`Metrics`] say what a network is worth. What a run tells of itself is in [`log`]; what a transformer's
//! training needs before any tensor is in [`transformer`], what a selector's needs in [`selector`].
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
mod layout;
mod loader;
pub mod log;
mod loss;
mod metrics;
mod optimiser;
mod pace;
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
mod trainer;
pub mod transformer;

pub use base::BaseNetwork;
pub use batch::{Batch, Rows};
pub use checkpoint::{Checkpoint, CheckpointError, Checkpoints, Kept, Standing};
pub use cpu::CpuTrainer;
pub use cuda::{CudaTrainer, cards};
pub use layout::{Layout, Shape, Tensor};
pub use loader::{Loader, load_some};
pub use loss::{Loss, Target, sigmoid};
pub use metrics::*;
pub use optimiser::{Needs, Optimiser, Range, Update};
pub use pool::{DataCursor, LoadDataError, Loaded, Skipped};
pub use recipe::*;
pub use run::{Event, MakeTrainer, Outcome as RunOutcome, RunError, RunOptions, run};
pub use saturation::{Saturation, saturation};
pub use schedule::Schedule;
pub use state::State;
pub use trainer::{Job, Told, TrainError, Trainer};
