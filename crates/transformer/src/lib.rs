//! Transformers for chess.
//!
//! - [`Architecture`]: what a network is made of, as data that travels in its file;
//! - [`Weights`]: its numbers, by the names and shapes of [`Architecture::tensors`];
//! - [`encoding`]: positions as it reads them, and chances to win as it tells them;
//! - [`Batch`]: such positions, ready for a network;
//! - [`Network`]: the numbers packed to be run on a processor, in a [`Precision`] and with the instructions of an [`Isa`];
//! - [`Outputs`]: what it says of a position;
//! - [`legal`]: what that means for the moves that can be played;
//! - [`Adviser`]: a network that is asked for moves without search;
//! - [`Format`]: the files that hold it.
//!
//! ```
//! use tandem_transformer::{Inputs, Isa, Network, Precision, Preset, Scratch, Weights};
//!
//! let weights = Weights::random(Preset::Byte.architecture(), 1);
//! let network = Network::new(&weights, Precision::Int8, Isa::best());
//! let mut scratch = Scratch::default();
//! let (tokens, moves) = ([0; 78], [317, 169]);
//! let answers = network.run(&Inputs::Text { tokens: &tokens, actions: &[&moves] }, &mut scratch)?;
//! assert_eq!(answers.len(), moves.len());
//! # Ok::<(), tandem_transformer::InputError>(())
//! ```

mod adviser;
mod aligned;
mod architecture;
mod batch;
pub mod encoding;
mod files;
mod floats;
mod kernels;
pub mod legal;
mod linear;
mod network;
mod outputs;
mod quantise;
mod softmax;
#[cfg(test)]
mod test_nets;
mod weights;

pub use adviser::{Advice, Adviser, Method, Prospect, UnfitMethod, UnknownMethod, WeighedMove};
pub use architecture::{
    Activation, Architecture, ArchitectureError, Attention, Body, BucketHead, DenseBoard, Embedding, Experts,
    FeedForward, Heads, Input, Mask, MoveValueHead, MovesLeftHead, Norm, NormKind, NormPlace, PIECE_CHANNELS,
    PolicyHead, PolicyKind, PolicyTarget, Preset, SMOLGEN_EPSILON, Smolgen, TensorSpec, ValueHead,
};
pub use batch::Batch;
pub use files::{
    FileDescription, FileError, Format, LoadError, NetworkFile, Storage, Stored, UnfitNetwork, reseal,
};
pub use kernels::{Isa, IsaError};
pub use linear::Precision;
pub use network::{InputError, Inputs, Look, Network, Observer, Scratch};
pub use outputs::{Outputs, ValueOutput};
pub use quantise::{QuantisationLoss, is_quantised, quantisation_losses, quantise_rows, restore_rows};
pub use weights::{NamedTensors, Weights, WeightsError};
