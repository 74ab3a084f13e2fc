//! Efficiently updatable neural networks for chess.
//!
//! - [`Network`]: a network of any architecture of the field, read from any of its file formats;
//! - [`Accumulators`]: its first layer, kept up to date along a line of play;
//! - [`FeatureSet`]: which inputs a position turns on; [`Inputs`]: what takes its place where there is no chess;
//! - [`FloatNetwork`]: a network before it is quantised, as trainers make it;
//! - [`Isa`]: the instructions that evaluate it, chosen when the program runs.
//!
//! ```no_run
//! use tandem_chess::Position;
//! use tandem_nnue::{Accumulators, Network};
//!
//! let network = Network::load("nn-82215d0fd0df.nnue")?;
//! let mut position = Position::startpos();
//! let mut accumulators = Accumulators::new(&network);
//! position.play(tandem_chess::uci::parse(position.board(), "e2e4")?);
//! accumulators.push(&network, position.changes());
//! println!("{} centipawns", accumulators.evaluate(&network, position.board()).centipawns());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accumulator;
mod architecture;
mod features;
mod files;
mod float;
mod inputs;
mod kernels;
mod limits;
mod network;
#[cfg(test)]
mod test_nets;

pub use accumulator::{Accumulator, Accumulators};
pub use architecture::{
    Architecture, ArchitectureError, Buckets, HeadShape, MAX_LAYER_OUTPUTS, PSQT_BUCKETS, Squeeze, StackShape,
};
pub use features::{BadKingBucket, FeatureSet, UnknownFeatures, View};
#[doc(hidden)]
pub use files::reseal;
#[cfg(feature = "safetensors")]
pub use files::with_sorted_header;
pub use files::{BulletLayout, Format, LoadError, NetworkError, UnfitNetwork};
pub use float::{FloatLayer, FloatNetwork, LayerReport, Quantisation, QuantiseError, Scales, tensors};
pub use inputs::Inputs;
pub use kernels::{Activation, Isa, IsaError};
pub use network::{Evaluation, Network, Scratch};
