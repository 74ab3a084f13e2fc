//! Who judges positions in a comparison.

use crate::any_network::AnyNetwork;
use crate::error::LabError;
use std::path::Path;
use tandem_chess::{Board, Position};
use tandem_nnue::{Accumulators, FloatNetwork, Network};
use tandem_search::{Bootstrap, Evaluator};

/// The word for the hand-written evaluation.
const BOOTSTRAP: &str = "bootstrap";

/// A network, or the hand-written evaluation.
pub(super) struct Contender {
    /// As tables call it.
    pub(super) name: String,
    /// What it is.
    pub(super) told: String,
    /// None is the hand-written evaluation.
    network: Option<AnyNetwork>,
}

/// A contender at work on one thread.
pub(super) enum Seat<'a> {
    Bootstrap(Box<Bootstrap>),
    Integer(&'a Network, Box<Accumulators>),
    Float(&'a FloatNetwork),
}

impl Contender {
    /// All that a command line names. Files of one name in different folders are told apart by their paths.
    pub(super) fn load_all(names: &[String]) -> Result<Vec<Self>, LabError> {
        let short = |name: &str| Path::new(name).file_name().map(|name| name.to_string_lossy().into_owned());
        let mut contenders = Vec::new();
        for text in names {
            let alike = names.iter().filter(|other| short(other) == short(text)).count();
            let name = short(text).filter(|_| alike == 1).unwrap_or_else(|| text.clone());
            let network = match text.as_str() {
                BOOTSTRAP => None,
                path => Some(AnyNetwork::load(Path::new(path))?.0),
            };
            let told = network.as_ref().map_or_else(
                || "the hand-written evaluation".to_owned(),
                |network| network.architecture().to_string(),
            );
            contenders.push(Self { name, told, network });
        }
        Ok(contenders)
    }

    /// A place to work at.
    pub(super) fn seat(&self) -> Seat<'_> {
        match &self.network {
            None => Seat::Bootstrap(Box::default()),
            Some(AnyNetwork::Integer(network)) => {
                Seat::Integer(network, Box::new(Accumulators::new(network)))
            }
            Some(AnyNetwork::Float(network, _)) => Seat::Float(network),
        }
    }
}

impl Seat<'_> {
    /// The value of a position for the side to move.
    pub(super) fn centipawns(&mut self, board: &Board) -> f64 {
        match self {
            Self::Bootstrap(bootstrap) => {
                let position = Position::from(board.clone());
                bootstrap.reset(&position);
                f64::from(bootstrap.evaluate(&position).0)
            }
            Self::Integer(network, accumulators) => {
                accumulators.reset(network, board);
                let evaluation = accumulators.evaluate(network, board);
                // Not rounded to whole centipawns.
                f64::from(evaluation.value()) * 100.0 / f64::from(evaluation.pawn())
            }
            Self::Float(network) => network.evaluate(board) * 100.0 / f64::from(network.pawn),
        }
    }
}
