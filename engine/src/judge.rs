//! Who judges positions: a network from a file, the one built into the program, or the hand-written evaluation.

use std::path::Path;
use std::sync::Arc;
use tandem_nnue::{Isa, Network, NetworkError};
use tandem_search::{Bootstrap, Evaluator, EvaluatorFactory, Nnue};

/// The network built in, if the program was built with `EVALFILE` set.
static EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/network"));

/// What the engine evaluates with.
#[derive(Clone, Debug)]
pub(crate) enum Judge {
    Bootstrap,
    Network(Arc<Network>),
}

impl Judge {
    /// The network built in, or else the hand-written evaluation.
    pub(crate) fn built_in() -> Self {
        // Nothing embedded is no network; anything else the build has read once already.
        Network::from_bytes(EMBEDDED).map_or(Self::Bootstrap, |network| Self::Network(Arc::new(network)))
    }

    /// The network of a file.
    pub(crate) fn load(path: &str) -> Result<Self, NetworkError> {
        Ok(Self::Network(Arc::new(Network::load(Path::new(path))?)))
    }

    /// The same, computed with other instructions.
    pub(crate) fn with_isa(self, isa: Isa) -> Self {
        match self {
            Self::Bootstrap => Self::Bootstrap,
            Self::Network(network) => Self::Network(Arc::new(Arc::unwrap_or_clone(network).with_isa(isa))),
        }
    }

    /// Makes the evaluator of each search thread.
    pub(crate) fn factory(&self) -> Arc<EvaluatorFactory> {
        match self.clone() {
            Self::Bootstrap => Arc::new(|| Box::new(Bootstrap::default()) as Box<dyn Evaluator>),
            Self::Network(network) => {
                Arc::new(move || Box::new(Nnue::new(Arc::clone(&network))) as Box<dyn Evaluator>)
            }
        }
    }

    /// What it is, in a few words.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Bootstrap => "the hand-written evaluation".into(),
            Self::Network(network) => format!("{} ({})", network.architecture(), network.isa().name()),
        }
    }
}
