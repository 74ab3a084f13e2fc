//! Who sits at the other side of the table.

use crate::strategist_player::Strategist;
use tandem_arena::Analyst;

/// The other side.
pub(super) enum Opponent {
    /// An engine, which searches.
    Engine(Box<dyn Analyst>),
    /// A transformer, which does not, and can say what it thinks of every move.
    Network(Box<Strategist>),
}

impl Opponent {
    /// As someone who can be asked for a move.
    pub(super) fn analyst(&mut self) -> &mut dyn Analyst {
        match self {
            Self::Engine(engine) => &mut **engine,
            Self::Network(strategist) => &mut **strategist,
        }
    }

    /// What it is called.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Engine(engine) => engine.name(),
            Self::Network(strategist) => strategist.name(),
        }
    }
}
