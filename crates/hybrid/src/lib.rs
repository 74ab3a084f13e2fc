//! The hybrid: two networks for one position. The *tactician*, an NNUE, evaluates every position of a search
//! in about a microsecond; the *strategist*, a transformer, takes milliseconds and is queried only where its
//! policy and value pay.
//!
//! Use this crate to load both networks with what was learnt between them, or to give a search asynchronous
//! access to a transformer. A program that only evaluates with one of the networks needs `tandem-nnue` or
//! `tandem-transformer` alone.
//!
//! - [`HybridNetworks`]: both networks, bridge and selector; a [`StrategistEvaluator`] evaluates positions with them;
//! - [`StrategistOutput`]: its output for a position: the evaluation that the search uses, and the value as the head gives it;
//! - [`StrategistClient`]: the [`Strategist`](tandem_search::Strategist) of a search: it answers queries on threads of its
//!   own or within the search, and all search threads share its cache of evaluations;
//! - [`Bridge`]: a projection of the NNUE's accumulators, read by an [`AccumulatorReader`], into the transformer's input;
//! - [`Selector`]: a small classifier over twenty [`Features`] that decides if a position is worth a query;
//! - [`Hybrid`]: the `.hybrid` file that holds what was learnt between two networks, and their [`Fingerprint`]s.
//!
//! ```
//! use std::sync::Arc;
//! use tandem_chess::Position;
//! use tandem_hybrid::{HybridNetworks, StrategistEvaluator};
//! use tandem_transformer::{Isa, Network, Precision, Preset, Weights};
//!
//! let mut architecture = Preset::BtSmall.architecture();
//! architecture.body.layers = 1;
//! let network = Network::new(&Weights::random(architecture, 1), Precision::F32, Isa::best());
//! let networks = HybridNetworks::new(Arc::new(network), None)?;
//! let output = StrategistEvaluator::new(Arc::new(networks)).evaluate(&Position::startpos());
//! assert_eq!(output.eval().policy().count(), 20);
//! # Ok::<(), tandem_hybrid::IncompatibleNetworks>(())
//! ```

mod bridge;
mod client;
mod eval_cache;
mod file;
mod fingerprint;
mod networks;
mod selector;
mod strategist_evaluator;
mod strategist_output;
#[cfg(test)]
mod test_nets;

pub use bridge::{AccumulatorReader, Bridge, BridgeForm};
pub use client::{ClientSettings, QueryMode, Statistics, StrategistClient};
pub use file::{Hybrid, HybridError, IncompatibleBase, InvalidFile};
pub use fingerprint::{Fingerprint, InvalidFingerprint};
pub use networks::{HybridNetworks, IncompatibleNetworks};
pub use selector::{FEATURES, Feature, FeatureContext, Features, Selector, Threshold, threshold_for};
pub use strategist_evaluator::StrategistEvaluator;
pub use strategist_output::StrategistOutput;
