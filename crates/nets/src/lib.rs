//! Who judges positions: the network that ships, another one from a file, or the hand-written evaluation.

use std::sync::{Arc, OnceLock};
use tandem_nnue::{Isa, Network, NetworkError};
use tandem_search::{Bootstrap, Evaluator, EvaluatorFactory, Nnue};

/// The network built in: the one that ships unless the build was told otherwise by `EVALFILE`.
static EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/network"));

/// The bytes of the network built in: what its file's hash is of. Empty if there is none.
pub fn built_in_bytes() -> &'static [u8] {
    EMBEDDED
}

/// The bytes of the transformer built in: the one that ships, if one does, unless the build was told otherwise by
/// `TRANSFORMERFILE`. Empty if there is none.
pub fn built_in_transformer() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/transformer"))
}

/// The word that stands for the hand-written evaluation where a network's file may be named.
pub const BOOTSTRAP: &str = "bootstrap";

/// What positions are judged by.
#[derive(Clone, Debug)]
pub enum Judge {
    /// The hand-written evaluation.
    Bootstrap,
    /// A network.
    Network(Arc<Network>),
}

impl Judge {
    /// The network built in, or else the hand-written evaluation.
    pub fn built_in() -> Self {
        static NETWORK: OnceLock<Option<Arc<Network>>> = OnceLock::new();
        // Nothing embedded is no network; anything else the build has read once already.
        let network = NETWORK.get_or_init(|| Network::from_bytes(EMBEDDED).ok().map(Arc::new));
        network.clone().map_or(Self::Bootstrap, Self::Network)
    }

    /// The network of a file; the one built in where the name is empty, and the hand-written evaluation where it is
    /// the word `bootstrap`.
    pub fn named(name: &str) -> Result<Self, NetworkError> {
        match name {
            "" => Ok(Self::built_in()),
            BOOTSTRAP => Ok(Self::Bootstrap),
            path => Ok(Self::Network(Arc::new(Network::load(path)?))),
        }
    }

    /// The same, computed with other instructions.
    pub fn with_isa(self, isa: Isa) -> Self {
        match self {
            Self::Bootstrap => Self::Bootstrap,
            Self::Network(network) => Self::Network(Arc::new(Arc::unwrap_or_clone(network).with_isa(isa))),
        }
    }

    /// Makes the evaluator of each search thread.
    pub fn factory(&self) -> Arc<EvaluatorFactory> {
        match self.clone() {
            Self::Bootstrap => Arc::new(|| Box::new(Bootstrap::default()) as Box<dyn Evaluator>),
            Self::Network(network) => {
                Arc::new(move || Box::new(Nnue::new(Arc::clone(&network))) as Box<dyn Evaluator>)
            }
        }
    }

    /// What it is, in a few words.
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
    fn the_shipped_network_is_built_in_and_knows_what_a_queen_is_worth() {
        let Judge::Network(network) = Judge::built_in() else { panic!("no network is built in") };
        let bytes = include_bytes!("../../../nets/tandem.tnn");
        assert!(bytes.len() < 12_000_000, "{} bytes", bytes.len());
        assert_eq!(network.to_bytes(), Network::from_bytes(bytes).unwrap().to_bytes());
        let mut judge = Judge::built_in().factory()();
        let mut value = |fen: &str| {
            let position = Position::from_fen(fen).unwrap();
            judge.reset(&position);
            judge.evaluate(&position).0
        };
        let level = value("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1");
        let queen_up = value("rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1");
        assert!(level.abs() < 100 && queen_up > 500, "{level}, {queen_up}");
    }

    #[test]
    fn names_stand_for_files_and_for_what_is_built_in() {
        assert!(matches!(Judge::named("").unwrap(), Judge::Network(_)));
        assert!(matches!(Judge::named(BOOTSTRAP).unwrap(), Judge::Bootstrap));
        assert!(Judge::named("no-such-file.tnn").is_err());
    }
}
