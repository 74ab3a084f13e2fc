//! Trains Tandem's transformers with libtorch.
//!
//! The recipe, the data, the metrics and the run itself are `tandem_train::transformer`'s; here are tensors: the forward
//! pass with its slopes, losses, optimisers, several processes. All of it needs the feature `torch`, and libtorch 2.11.
#![cfg(feature = "torch")]

mod batch;
mod device;
mod fused;
mod judge;
mod losses;
mod model;
mod optimiser;
mod parameters;
mod shim;
mod sparsity;
#[cfg(test)]
mod tests;
mod trainer;

/// What libtorch says when a card has no more memory.
const OUT_OF_MEMORY: &str = "out of memory";

pub use device::{Compute, ComputeError, Processes};
pub use judge::TorchJudge;
pub use shim::{TorchError, version};
pub use trainer::TorchTrainer;
