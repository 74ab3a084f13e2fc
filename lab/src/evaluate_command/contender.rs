//! Who judges positions in a comparison.

use crate::any_network::AnyNetwork;
use crate::error::LabError;
use crate::transformer_file::{is_transformer, outline};
use std::path::Path;
use std::sync::Arc;
use tandem_chess::{Board, Position};
use tandem_hybrid::{Bridge, Fingerprint, Hybrid, Minds, Onlooker};
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
    /// A transformer, an NNUE that it is joined to, and the bridge between them.
    Hybrid(Arc<tandem_transformer::Network>, Arc<Network>, Box<Bridge>),
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
                _ if is_hybrid(path) => hybrid(path, names)?,
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
                Mind::Hybrid(network, nnue, bridge) => format!(
                    "{}, {}, with a {} bridge from {}",
                    outline(network.architecture()),
                    network.precision().name(),
                    bridge.form(),
                    nnue.architecture()
                ),
            };
            contenders.push(Self { name, told, mind });
        }
        Ok(contenders)
    }

    /// The transformer, if it is one.
    pub(super) fn transformer(&self) -> Option<&tandem_transformer::Network> {
        match &self.mind {
            Mind::Transformer(network) => Some(network),
            Mind::Hybrid(network, ..) => Some(network),
            Mind::Bootstrap | Mind::Nnue(_) => None,
        }
    }

    /// What the transformer is joined to, if it is to anything: the bridge, and one who tells it what the NNUE sees.
    pub(super) fn bridge(&self) -> Option<(&Bridge, Onlooker)> {
        match &self.mind {
            Mind::Hybrid(_, nnue, bridge) => Some((bridge, Onlooker::new(Arc::clone(nnue)))),
            Mind::Transformer(_) | Mind::Bootstrap | Mind::Nnue(_) => None,
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
            Mind::Transformer(_) | Mind::Hybrid(..) => return None,
        })
    }
}

/// Whether a file's name is that of a hybrid.
pub(super) fn is_hybrid(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "hybrid")
}

/// A hybrid, whose networks are among the files that are named.
fn hybrid(path: &Path, names: &[String]) -> Result<Mind, LabError> {
    let told = path.display();
    let hybrid = Hybrid::load(path)?;
    let Some(bridge) = hybrid.bridge.clone() else {
        return Err(LabError::Usage(format!(
            "{told}: it has no bridge, so that its transformer says all there is"
        )));
    };
    let Joined { nnue, transformer, hybrid } = Joined::load(path, hybrid, names)?;
    // Who joins them looks whether they fit.
    let minds = Minds::new(Arc::clone(&transformer), Some(Arc::clone(&nnue)));
    let joined = minds.and_then(|minds| minds.with_hybrid(hybrid));
    joined.map_err(|error| LabError::Usage(format!("{told}: {error}")))?;
    Ok(Mind::Hybrid(transformer, nnue, Box::new(bridge)))
}

/// Two networks, and what was learnt between them.
pub(super) struct Joined {
    pub(super) nnue: Arc<Network>,
    pub(super) transformer: Arc<tandem_transformer::Network>,
    pub(super) hybrid: Hybrid,
}

impl Joined {
    /// A hybrid's networks are among the files that are named; the NNUE may also be the one built in.
    pub(super) fn load(path: &Path, hybrid: Hybrid, names: &[String]) -> Result<Self, LabError> {
        let Hybrid { nnue, transformer, .. } = hybrid;
        let told = path.display();
        let found = |wanted: Fingerprint| {
            names.iter().find(|name| Fingerprint::of_file(name).is_ok_and(|hash| hash == wanted))
        };
        let missing = |which: &str, hash: Fingerprint| {
            LabError::Usage(format!("{told}: name its {which} as well, the file with SHA-256 {hash}"))
        };
        let network = found(transformer).ok_or_else(|| missing("transformer", transformer))?;
        let built_in = Fingerprint::of(tandem_nets::built_in_bytes()) == nnue;
        let nnue = match found(nnue) {
            Some(name) => Network::load(name)?,
            None if built_in => Network::from_bytes(tandem_nets::built_in_bytes())
                .map_err(|error| LabError::Usage(format!("the network built in: {error}")))?,
            None => return Err(missing("NNUE", nnue)),
        };
        let network = tandem_transformer::Network::load(network, Isa::best())?;
        Ok(Self { nnue: Arc::new(nnue), transformer: Arc::new(network), hybrid })
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
