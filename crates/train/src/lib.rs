//! Trains Tandem's networks.
//!
//! A [`Recipe`] says everything about a run: data, network, loss, optimiser, schedules. What stands here so far is what every
//! trainer computes with, whatever the machine: [`Loss`], [`Optimiser`], [`Schedule`], and the plain definition of all slopes
//! that faster ways are measured by ([`reference`](mod@reference)); and [`Metrics`], which say what a network is worth.

mod batch;
mod cpu;
mod loader;
mod loss;
mod metrics;
mod optimiser;
mod recipe;
pub mod reference;
mod schedule;

pub use batch::Batch;
pub use cpu::{CpuTrainer, Ranges};
pub use loader::{LoadDataError, Loader, load_some};
pub use loss::{Loss, Target, sigmoid};
pub use metrics::{BINS, Bin, CLEAR_LABEL, Figures, Judgement, Metrics, PIECE_GROUPS, Phase, likely_outcome};
pub use optimiser::{Moments, Optimiser, Range, Update};
pub use recipe::*;
pub use schedule::Schedule;
