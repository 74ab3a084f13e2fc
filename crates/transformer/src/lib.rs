//! Transformers for chess.
//!
//! - [`Architecture`]: what a network is made of, as data that travels in its file;
//! - [`Weights`]: its numbers, by the names and shapes of [`Architecture::tensors`];
//! - [`encoding`]: positions as it reads them, and chances to win as it tells them;
//! - [`Outputs`]: what it says of a position;
//! - [`legal`]: what that means for the moves that can be played;
//! - [`Format`]: the files that hold it.

mod architecture;
pub mod encoding;
mod files;
pub mod legal;
mod outputs;
mod quantise;
#[cfg(test)]
mod test_nets;
mod weights;

pub use architecture::{
    Activation, Architecture, ArchitectureError, Attention, Body, BucketHead, DenseBoard, Embedding, Experts,
    FeedForward, Heads, Input, Mask, MoveValueHead, MovesLeftHead, Norm, NormKind, NormPlace, PolicyHead,
    PolicyKind, PolicyTarget, Preset, Smolgen, TensorSpec, ValueHead,
};
pub use files::{FileError, Format, LoadError, NetworkFile, Storage, Stored, UnfitNetwork, reseal};
pub use outputs::{Outputs, ValueOutput};
pub use quantise::{QuantisationLoss, is_quantised, quantisation_losses, quantise_rows, restore_rows};
pub use weights::{NamedTensors, Weights, WeightsError};
