//! The layers of a block, one file for each kind: its description in TOML, the checks of its sizes, its tensors,
//! the forward pass with its buffers, the precision of its weights and its ONNX operators.
//!
//! A new kind of attention or feed-forward layer is a variant in one of these files. Beside it, the trainer
//! (`tandem-torch`), the reference of the tests and that in `scripts/transformer_reference.py` compute it.

mod attention;
pub(crate) mod feed_forward;
mod smolgen;

pub use attention::Attention;
pub(crate) use attention::{AttentionLayer, AttentionScratch};
pub use feed_forward::{Experts, FeedForward};
pub(crate) use feed_forward::{FeedForwardLayer, FeedForwardScratch, Layers};
pub use smolgen::{SMOLGEN_EPSILON, Smolgen};
