//! Transformers for chess.
//!
//! - [`Architecture`]: what a network is made of, as data that travels in its file;
//! - [`Architecture::tensors`]: the numbers it is made of, by name and shape.

mod architecture;

pub use architecture::{
    Activation, Architecture, ArchitectureError, Attention, Body, BucketHead, DenseBoard, Embedding, Experts,
    FeedForward, Heads, Input, Mask, MoveValueHead, MovesLeftHead, Norm, NormKind, NormPlace, PolicyHead,
    PolicyKind, PolicyTarget, Preset, Smolgen, TensorSpec, ValueHead,
};
