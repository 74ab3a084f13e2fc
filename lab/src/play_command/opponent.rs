//! The opponent of a game at the terminal: an engine or a transformer.

use crate::strategist_player::Strategist;
use tandem_arena::Analyst;

/// The player on the other side.
pub(super) enum Opponent {
    /// An engine, which searches.
    Engine(Box<dyn Analyst>),
    /// A transformer, which does not search, but can rank all moves.
    Network(Box<Strategist>),
}

impl Opponent {
    /// The opponent through the interface that all players share.
    pub(super) fn analyst(&mut self) -> &mut dyn Analyst {
        match self {
            Self::Engine(engine) => &mut **engine,
            Self::Network(strategist) => &mut **strategist,
        }
    }

    /// The name for the PGN: that of the engine or of the network file.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Engine(engine) => engine.name(),
            Self::Network(strategist) => strategist.name(),
        }
    }
}
