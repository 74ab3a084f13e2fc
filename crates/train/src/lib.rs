//! Trains Tandem's networks.
//!
//! A [`Recipe`] says everything about a run: data, network, loss, optimiser, schedules. What stands here so far is what every
//! trainer computes with, whatever the machine: [`Loss`], [`Optimiser`], [`Schedule`], and the plain definition of all slopes
//! that faster ways are measured by ([`reference`](mod@reference)); [`Metrics`], which say what a network is worth. What a run
//! tells of itself is in [`log`]; what a transformer's training needs before any tensor is in [`transformer`].

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
mod pool;
mod recipe;
pub mod reference;
mod run;
mod saturation;
mod schedule;
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
