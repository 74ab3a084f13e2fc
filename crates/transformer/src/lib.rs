//! Transformers for chess.
//!
//! - [`Architecture`]: what a network is made of, as data that travels in its file;
//! - [`Weights`]: its numbers, by the names and shapes of [`Architecture::tensors`];
//! - [`encoding`]: positions as it reads them, and chances to win as it tells them;
//! - [`Outputs`]: what it says of a position;
//! - [`legal`]: what that means for the moves that can be played.

mod architecture;
pub mod encoding;
pub mod legal;
mod outputs;
mod weights;

pub use architecture::{
    Activation, Architecture, ArchitectureError, Attention, Body, BucketHead, DenseBoard, Embedding, Experts,
    FeedForward, Heads, Input, Mask, MoveValueHead, MovesLeftHead, Norm, NormKind, NormPlace, PolicyHead,
    PolicyKind, PolicyTarget, Preset, Smolgen, TensorSpec, ValueHead,
};
pub use outputs::{Outputs, ValueOutput};
pub use weights::{NamedTensors, Weights, WeightsError};
