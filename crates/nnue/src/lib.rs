//! Efficiently updatable neural networks (NNUE) for chess: feature sets, exact and fast integer inference,
//! and the file formats of the field.
//!
//! Use it to evaluate positions inside a search, where consecutive positions differ by one move and only the
//! changed features of the first layer are recomputed, or to convert and inspect network files. It does not
//! train (that is `tandem-train`), and large networks over many positions at a time belong on a GPU
//! (`tandem-transformer`, `tandem-torch`).
//!
//! - [`Network`]: a quantised network of any [`Architecture`], read from any [`Format`] (`.tnn`, Stockfish,
//!   Jomfish, bullet);
//! - [`Accumulators`]: the first layer's sums along a line of play, updated by [`Accumulators::push`] and undone
//!   by [`Accumulators::pop`];
//! - [`FeatureSet`]: the chess inputs (HalfKP, HalfKAv2, 768 with king buckets); [`Inputs`]: the trait for any
//!   other sparse inputs, for example of molecules;
//! - [`Evaluation`]: a value in centipawns with its piece-square and positional parts;
//! - [`FloatNetwork`]: the parameters in `f32`, as training produces them; [`FloatNetwork::quantise`] makes a
//!   [`Network`];
//! - [`Isa`]: the instruction set (portable, SSE 4.1, AVX2, AVX-512; AMX counts as AVX-512), detected at run time.
//!   All give the same bits.
//!
//! ```
//! use tandem_chess::Position;
//! use tandem_nnue::{Accumulators, Network};
//!
//! let network = Network::load("../../nets/tandem.tnn")?;
//! let mut position = Position::startpos();
//! let mut accumulators = Accumulators::new(&network);
//!
//! position.play(tandem_chess::uci::parse(position.board(), "e2e4")?);
//! accumulators.push(&network, position.changes());
//! let after_e4 = accumulators.evaluate(&network, position.board());
//! assert_eq!(after_e4, network.evaluate(position.board())); // The incremental update is exact.
//! println!("{} centipawns for Black", after_e4.centipawns());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accumulator;
pub mod activation;
mod architecture;
mod features;
mod files;
mod first_layer;
mod float;
mod inputs;
mod kernels;
mod limits;
mod network;
#[cfg(test)]
mod test_nets;

pub use accumulator::Accumulators;
pub use activation::{Activation, UnknownActivation};
pub use architecture::{
    Architecture, ArchitectureError, HeadShape, InputActivation, MAX_LAYER_OUTPUTS, OutputBuckets,
    PSQT_BUCKETS, StackShape,
};
pub use features::{BadKingBucket, FeatureSet, KingView, UnknownFeatureSet};
#[doc(hidden)]
pub use files::reseal;
#[cfg(feature = "safetensors")]
pub use files::with_sorted_header;
pub use files::{BulletLayout, Format, LoadError, NetworkError, UnsupportedArchitecture};
pub use first_layer::Accumulator;
pub use float::{FloatLayer, FloatNetwork, LayerReport, Quantisation, QuantiseError, Scales, tensor_shapes};
pub use inputs::Inputs;
pub use network::{Evaluation, Network, Scratch};
pub use tandem_util::isa::{Isa, IsaError};
