//! Transformers for chess.
//!
//! - [`Architecture`]: what a network is made of, as data that travels in its file;
//! - [`Weights`]: its numbers, by the names and shapes of [`Architecture::tensors`];
//! - [`Outputs`]: what it says of a position;
//! - [`Format`]: the files that hold it.

mod architecture;
mod files;
mod outputs;
#[cfg(test)]
mod test_nets;
mod weights;

pub use architecture::{
    Activation, Architecture, ArchitectureError, Attention, Body, BucketHead, DenseBoard, Embedding, Experts,
    FeedForward, Heads, Input, Mask, MoveValueHead, MovesLeftHead, Norm, NormKind, NormPlace, PolicyHead,
    PolicyKind, PolicyTarget, Preset, Smolgen, TensorSpec, ValueHead,
};
pub use files::{FileError, Format, LoadError, UnfitNetwork};
pub use outputs::{Outputs, ValueOutput};
pub use weights::{NamedTensors, Weights, WeightsError};
