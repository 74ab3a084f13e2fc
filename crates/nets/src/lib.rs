//! The networks that are built into the programs, and the choice of what evaluates positions.
//!
//! The engine, the arena and the lab take the evaluation from here, so that a network is named in the same
//! way everywhere. [`EvaluatorChoice`] is the network that ships, another one from a file, or the
//! hand-written evaluation; [`EvaluatorChoice::factory`] gives each search thread its own evaluator. Programs
//! that need only a network's values use `tandem-nnue` directly.
//!
//! - [`EvaluatorChoice`]: what evaluates positions, by name or built in;
//! - [`built_in_bytes`], [`built_in_transformer`]: the network files in the binary, chosen when it is built by the
//!   environment variables `EVALFILE` and `TRANSFORMERFILE`.
//!
//! ```
//! use tandem_chess::Position;
//! use tandem_nets::EvaluatorChoice;
//!
//! let choice = EvaluatorChoice::named("../../nets/tandem.tnn")?;
//! println!("{}", choice.describe());
//! let mut evaluator = choice.factory()();
//! let position = Position::startpos();
//! evaluator.reset(&position);
//! assert!(evaluator.evaluate(&position).0.abs() < 100);
//! # Ok::<(), tandem_nnue::NetworkError>(())
//! ```

use std::sync::{Arc, OnceLock};
use tandem_nnue::{Isa, Network, NetworkError};
use tandem_search::{Bootstrap, Evaluator, EvaluatorFactory, Nnue};

/// The built-in network: `nets/tandem.tnn`, unless `EVALFILE` named another file at build time.
static EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/network"));

/// The file of the built-in network, for example to compute its hash. Empty if the program was built without
/// one.
pub fn built_in_bytes() -> &'static [u8] {
    EMBEDDED
}

/// The file of the built-in transformer: `nets/strategist.ttn` if it exists, unless `TRANSFORMERFILE` named
/// another file at build time. Empty if the program was built without one.
pub fn built_in_transformer() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/transformer"))
}

/// The name of the hand-written evaluation, accepted in place of a network file.
pub const BOOTSTRAP: &str = "bootstrap";

/// The evaluation function of a search: a network or the hand-written evaluation.
#[derive(Clone, Debug)]
pub enum EvaluatorChoice {
    /// The hand-written evaluation, which needs no network.
    Bootstrap,
    /// An NNUE network, shared by all threads.
    Network(Arc<Network>),
}

impl EvaluatorChoice {
    /// The built-in network, or the hand-written evaluation if there is none. The network is parsed once per
    /// process.
    pub fn built_in() -> Self {
        static NETWORK: OnceLock<Option<Arc<Network>>> = OnceLock::new();
        // Empty bytes mean no network. Anything else parses, because the build has checked it.
        let network = NETWORK.get_or_init(|| Network::from_bytes(EMBEDDED).ok().map(Arc::new));
        network.clone().map_or(Self::Bootstrap, Self::Network)
    }

    /// The evaluation with this name: the path of a network file, the built-in network for an empty name, or
    /// the hand-written evaluation for `bootstrap`.
    ///
    /// # Errors
    /// The file cannot be read, or is not a valid network.
    pub fn named(name: &str) -> Result<Self, NetworkError> {
        match name {
            "" => Ok(Self::built_in()),
            BOOTSTRAP => Ok(Self::Bootstrap),
            path => Ok(Self::Network(Arc::new(Network::load(path)?))),
        }
    }

    /// Selects the instruction set of the network's kernels, which changes its speed but not its values.
    pub fn with_isa(self, isa: Isa) -> Self {
        match self {
            Self::Bootstrap => Self::Bootstrap,
            Self::Network(network) => Self::Network(Arc::new(Arc::unwrap_or_clone(network).with_isa(isa))),
        }
    }

    /// Returns a factory that makes one evaluator per search thread. Evaluators share the network's weights.
    pub fn factory(&self) -> Arc<EvaluatorFactory> {
        match self.clone() {
            Self::Bootstrap => Arc::new(|| Box::new(Bootstrap::default()) as Box<dyn Evaluator>),
            Self::Network(network) => {
                Arc::new(move || Box::new(Nnue::new(Arc::clone(&network))) as Box<dyn Evaluator>)
            }
        }
    }

    /// A short description for logs: the architecture and instruction set, or `the hand-written evaluation`.
    pub fn describe(&self) -> String {
        match self {
            Self::Bootstrap => "the hand-written evaluation".into(),
            Self::Network(network) => format!("{} ({})", network.architecture(), network.isa().name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::Position;

    #[test]
    fn the_shipped_network_is_built_in_and_values_a_queen() {
        let EvaluatorChoice::Network(network) = EvaluatorChoice::built_in() else {
            panic!("no network is built in")
        };
        let bytes = include_bytes!("../../../nets/tandem.tnn");
        assert!(bytes.len() < 12_000_000, "{} bytes", bytes.len());
        assert_eq!(network.to_bytes(), Network::from_bytes(bytes).unwrap().to_bytes());
        let mut evaluator = EvaluatorChoice::built_in().factory()();
        let mut value = |fen: &str| {
            let position = Position::from_fen(fen).unwrap();
            evaluator.reset(&position);
            evaluator.evaluate(&position).0
        };
        let level = value("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1");
        let queen_up = value("rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1");
        assert!(level.abs() < 100 && queen_up > 500, "{level}, {queen_up}");
    }

    #[test]
    fn names_select_files_the_built_in_network_and_bootstrap() {
        assert!(matches!(EvaluatorChoice::named("").unwrap(), EvaluatorChoice::Network(_)));
        assert!(matches!(EvaluatorChoice::named(BOOTSTRAP).unwrap(), EvaluatorChoice::Bootstrap));
        assert!(EvaluatorChoice::named("no-such-file.tnn").is_err());
    }
}
