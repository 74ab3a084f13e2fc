//! Chess transformers: architectures as data, exact encodings, CPU inference and network files.
//!
//! Use this crate to run or convert a transformer that reads a chess position: networks with a token for each
//! square and smolgen (lc0's BT family), or networks that read a FEN as text (searchless chess). Training is
//! not here: `tandem-torch` trains the same [`Architecture`] on a GPU. For a small network that is updated
//! move by move inside a search, use `tandem-nnue`.
//!
//! - [`Architecture`]: sizes and kinds of all layers, as data that travels in the network's file;
//! - [`Weights`]: the parameters, by the names and shapes of [`Architecture::tensors`];
//! - [`encoding`]: positions as network inputs, and win probabilities as outputs and targets;
//! - [`PositionBatch`]: encoded positions, ready for a forward pass;
//! - [`Network`]: weights packed for a CPU, in a [`Precision`] and with the instructions of an [`Isa`];
//! - [`Outputs`]: what the heads return for a position;
//! - [`legal`]: these outputs restricted to the legal moves;
//! - [`MoveRanker`]: plays without search, by policy, value or action value;
//! - [`Format`]: the files that store a network.
//!
//! ```
//! use tandem_transformer::{Inputs, Isa, Network, Precision, Preset, Scratch, Weights};
//!
//! let weights = Weights::random(Preset::Byte.architecture(), 1);
//! let network = Network::new(&weights, Precision::Int8, Isa::best());
//! let mut scratch = Scratch::default();
//! let (tokens, moves) = ([0; 78], [317, 169]);
//! let outputs = network.run(&Inputs::Text { tokens: &tokens, actions: &[&moves] }, &mut scratch)?;
//! assert_eq!(outputs.len(), moves.len());
//! # Ok::<(), tandem_transformer::InputError>(())
//! ```

mod aligned;
mod architecture;
mod batch;
mod blocks;
pub mod encoding;
mod files;
mod floats;
mod int8;
mod kernels;
pub mod legal;
mod linear;
mod network;
mod outputs;
mod quantise;
mod ranker;
mod softmax;
#[cfg(test)]
mod test_nets;
mod weights;

pub use architecture::{
    Activation, Architecture, ArchitectureError, Body, BucketHead, DenseBoard, Embedding, Heads, Input, Mask,
    MoveValueHead, MovesLeftHead, Norm, NormKind, NormPlace, PIECE_CHANNELS, PolicyHead, PolicyKind,
    PolicyTarget, Preset, TensorSpec, ValueHead,
};
pub use batch::PositionBatch;
pub use blocks::{Attention, Experts, FeedForward, SMOLGEN_EPSILON, Smolgen};
pub use files::{
    FileDescription, FileError, Format, LoadError, NetworkFile, Storage, Stored, UnsupportedNetwork, reseal,
};
pub use int8::{quantise_rows, restore_rows};
pub use linear::Precision;
pub use network::{AttentionObserver, AttentionView, InputError, Inputs, Network, Scratch};
pub use outputs::{Outputs, ValueOutput};
pub use quantise::{QuantisationLoss, is_quantised, quantisation_losses};
pub use ranker::{
    Method, MoveRanker, RankedMoves, ScoredMove, UnknownMethod, UnsupportedMethod, ValueEstimate,
};
pub use tandem_util::isa::{Isa, IsaError};
pub use weights::{NamedTensors, Weights, WeightsError};
