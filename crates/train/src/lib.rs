//! Trains Tandem's networks.
//!
//! A [`Recipe`] says everything about a run: data, network, loss, optimiser, schedules. What stands here so far is what every
//! trainer computes with, whatever the machine: [`Loss`], [`Optimiser`], [`Schedule`], and the plain definition of all slopes
//! that faster ways are measured by ([`reference`](mod@reference)). What a run tells of itself is in [`log`].

mod batch;
mod cpu;
mod loader;
pub mod log;
mod loss;
mod optimiser;
mod recipe;
pub mod reference;
mod schedule;

pub use batch::Batch;
pub use cpu::{CpuTrainer, Ranges};
pub use loader::{LoadDataError, Loader, load_some};
pub use loss::{Loss, Target};
pub use optimiser::{Moments, Optimiser, Range, Update};
pub use recipe::*;
pub use schedule::Schedule;
