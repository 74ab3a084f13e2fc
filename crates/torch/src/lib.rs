//! Training and inference of Tandem's transformers with libtorch.
//!
//! Use it to train a transformer or a bridge on a GPU, or to predict many positions at once, for example when
//! data is relabelled. Do not use it to evaluate positions in an engine: [`tandem_transformer::Network`] does
//! that without libtorch, and a single position is faster there. NNUEs are trained by `tandem_train` alone,
//! which needs no libtorch.
//!
//! The crate is empty without the feature `torch`, because libtorch is a large dependency and most builds of
//! the workspace do not train transformers. With the feature it needs libtorch 2.11, which
//! `scripts/libtorch.sh` installs, and a C++ compiler. CUDA graphs, NCCL and the kernels of `csrc/fused.cu`
//! are in a library of their own, which is loaded at run time: the same program runs on machines without a
//! GPU.
//!
//! | type | purpose |
//! |---|---|
//! | [`Compute`] | a device: CPU, NVIDIA GPU or Apple GPU |
//! | [`Processes`] | a process group, as `torchrun` starts it, for distributed data-parallel training |
//! | [`TorchTrainer`] | training steps, validation and checkpoints; a [`TransformerTrainer`] |
//! | [`TorchPredictor`] | outputs of a network for many samples, from any number of threads |
//! | [`ComputeError`], [`TorchError`] | a device that cannot be used; an error of libtorch |
//!
//! Recipes, data loading, metrics and the training loop are in [`tandem_train::transformer`], which knows no
//! tensors. Within this crate, `model` holds the forward pass, `losses` the losses, `parameters` the flat
//! buffer of parameters, `optimiser` its update, and `fused` our own kernels.
//!
//! # Example
//!
//! Compiled by the tests of a build with the feature `torch`, but not run, because it needs libtorch and training
//! data:
//!
#![cfg_attr(feature = "torch", doc = "```no_run")]
#![cfg_attr(not(feature = "torch"), doc = "```ignore")]
//! use std::path::Path;
//! use std::sync::atomic::AtomicBool;
//! use tandem_torch::{Compute, Processes, TorchTrainer};
//! use tandem_train::{RunOptions, State, TrainError};
//! use tandem_train::transformer::*;
//!
//! fn make_trainer(
//!     recipe: &TransformerRecipe,
//!     start: InitialNetworks<'_>,
//!     state: Option<&State>,
//! ) -> Result<Box<dyn TransformerTrainer>, TrainError> {
//!     let compute = Compute::best().map_err(|error| TrainError(error.to_string()))?;
//!     Ok(Box::new(TorchTrainer::new(recipe, start, state, compute, Processes::single())?))
//! }
//!
//! let recipe = TransformerRecipe::parse(&std::fs::read_to_string("recipes/strategist.toml")?)?;
//! let stop = AtomicBool::new(false);
//! let folder = Path::new("runs/strategist");
//! let options = RunOptions { folder, resume: false, threads: 4, stop: &stop };
//! let outcome =
//!     run_transformer(&recipe, ProcessRank::SINGLE, &options, &make_trainer, &mut |_event| {})?;
//! println!("{} steps", outcome.steps);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`TransformerTrainer`]: tandem_train::transformer::TransformerTrainer
#![cfg(feature = "torch")]

mod batch;
mod device;
mod errors;
mod fused;
mod losses;
mod model;
mod optimiser;
mod parameters;
mod predictor;
mod shim;
mod sparsity;
#[cfg(test)]
mod tests;
mod trainer;

/// Part of libtorch's message when a GPU has no memory left.
const OUT_OF_MEMORY: &str = "out of memory";

pub use device::{Compute, ComputeError, Processes};
pub use predictor::TorchPredictor;
pub use shim::{TorchError, version};
pub use trainer::TorchTrainer;
