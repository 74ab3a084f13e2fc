//! Two minds about one position: the tactician, an NNUE that judges every position of a search, and the strategist, a
//! transformer that is asked where it pays.
//!
//! - [`Bridge`]: what the NNUE sees, told by an [`Onlooker`], as a code of the board that the transformer reads;
//! - [`Selector`]: whether a position is worth the strategist's time, by twenty [`Features`];
//! - [`Minds`]: both networks and what joins them; a [`Strategist`] speaks for them;
//! - [`Opinion`]: what it says of a position; [`Opinions`]: all it has said, shared by threads;
//! - [`Counsel`]: asks it for a search, from threads of its own or in step with the search;
//! - [`Hybrid`]: the file of what was learnt between the two networks.
//!
//! ```
//! use std::sync::Arc;
//! use tandem_chess::Position;
//! use tandem_hybrid::{Minds, Strategist};
//! use tandem_transformer::{Isa, Network, Precision, Preset, Weights};
//!
//! let mut architecture = Preset::BtSmall.architecture();
//! architecture.body.layers = 1;
//! let network = Network::new(&Weights::random(architecture, 1), Precision::F32, Isa::best());
//! let minds = Minds::new(Arc::new(network), None)?;
//! let opinion = Strategist::new(Arc::new(minds)).judge(&Position::startpos());
//! assert_eq!(opinion.policy().count(), 20);
//! # Ok::<(), tandem_hybrid::UnfitMinds>(())
//! ```

mod bridge;
mod counsel;
mod file;
mod fingerprint;
mod opinion;
mod opinions;
mod selector;
mod strategist;
#[cfg(test)]
mod test_nets;

pub use bridge::{Bridge, BridgeForm, Onlooker};
pub use counsel::{Counsel, CounselSettings, Mode, Occasion, SearchClock, Seat, Statistics};
pub use file::{Hybrid, HybridError, UnfitBase, UnfitFile};
pub use fingerprint::{BadFingerprint, Fingerprint};
pub use opinion::{Opinion, Share};
pub use selector::{Circumstances, FEATURES, Feature, Features, Selector, Threshold, threshold_for};
pub use strategist::{Minds, Strategist, UnfitMinds};
