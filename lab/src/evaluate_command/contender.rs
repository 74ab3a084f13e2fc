//! Who judges positions in a comparison.

use crate::any_network::AnyNetwork;
use crate::error::LabError;
use crate::transformer_file::{is_transformer, outline};
use std::path::Path;
use tandem_chess::{Board, Position};
use tandem_nnue::{Accumulators, FloatNetwork, Network};
use tandem_search::{Bootstrap, Evaluator};
use tandem_transformer::Isa;

/// The word for the hand-written evaluation.
const BOOTSTRAP: &str = "bootstrap";

/// A network, or the hand-written evaluation.
pub(super) struct Contender {
    /// As tables call it.
    pub(super) name: String,
    /// What it is.
    pub(super) told: String,
    mind: Mind,
}

enum Mind {
    Bootstrap,
    Nnue(AnyNetwork),
    Transformer(Box<tandem_transformer::Network>),
}

/// A contender that scores positions, at work on one thread.
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
            let path = Path::new(text);
            let mind = match text.as_str() {
                BOOTSTRAP => Mind::Bootstrap,
                _ if is_transformer(path)? => {
                    Mind::Transformer(Box::new(tandem_transformer::Network::load(path, Isa::best())?))
                }
                _ => Mind::Nnue(AnyNetwork::load(path)?.0),
            };
            let told = match &mind {
                Mind::Bootstrap => "the hand-written evaluation".to_owned(),
                Mind::Nnue(network) => network.architecture().to_string(),
                Mind::Transformer(network) => {
                    format!("{}, {}", outline(network.architecture()), network.precision().name())
                }
            };
            contenders.push(Self { name, told, mind });
        }
        Ok(contenders)
    }

    /// The transformer, if it is one.
    pub(super) fn transformer(&self) -> Option<&tandem_transformer::Network> {
        match &self.mind {
            Mind::Transformer(network) => Some(network),
            Mind::Bootstrap | Mind::Nnue(_) => None,
        }
    }

    /// A place to work at for those who score positions; transformers weigh moves too, and many positions at a time.
    pub(super) fn seat(&self) -> Option<Seat<'_>> {
        Some(match &self.mind {
            Mind::Bootstrap => Seat::Bootstrap(Box::default()),
            Mind::Nnue(AnyNetwork::Integer(network)) => {
                Seat::Integer(network, Box::new(Accumulators::new(network)))
            }
            Mind::Nnue(AnyNetwork::Float(network, _)) => Seat::Float(network),
            Mind::Transformer(_) => return None,
        })
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
