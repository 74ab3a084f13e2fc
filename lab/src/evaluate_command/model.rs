//! The networks of a comparison: loading them, and evaluating positions with them.

use crate::any_network::{AnyNetwork, built_in, is_hybrid, load_transformer};
use crate::error::LabError;
use crate::transformer_file::{is_transformer, outline};
use std::path::Path;
use std::sync::Arc;
use tandem_chess::{Board, Position};
use tandem_hybrid::{AccumulatorReader, Bridge, Fingerprint, Hybrid, HybridNetworks};
use tandem_nnue::{Accumulators, FloatNetwork, Network};
use tandem_search::{Bootstrap, Evaluator};

/// The name that stands for the hand-written evaluation on the command line.
const BOOTSTRAP: &str = "bootstrap";

/// A network, or the hand-written evaluation.
pub(super) struct Model {
    /// Its name in tables: the file's name, or the whole path if several files have the same name.
    pub(super) name: String,
    /// Architecture and precision in one line.
    pub(super) description: String,
    kind: ModelKind,
}

enum ModelKind {
    Bootstrap,
    Nnue(AnyNetwork),
    Transformer(Box<tandem_transformer::Network>),
    /// A transformer with the NNUE whose accumulator it sees, and the bridge between them.
    Hybrid(Arc<tandem_transformer::Network>, Arc<Network>, Box<Bridge>),
}

/// The state that one thread needs to score positions with a network.
pub(super) enum PositionScorer<'a> {
    Bootstrap(Box<Bootstrap>),
    Integer(&'a Network, Box<Accumulators>),
    Float(&'a FloatNetwork),
}

impl Model {
    /// Loads all networks of the command line. Files of the same name in different folders are distinguished
    /// by their paths.
    ///
    /// # Errors
    ///
    /// When a file is missing or damaged, or the networks of a hybrid are not among the files.
    pub(super) fn load_all(names: &[String]) -> Result<Vec<Self>, LabError> {
        let short = |name: &str| Path::new(name).file_name().map(|name| name.to_string_lossy().into_owned());
        let mut models = Vec::new();
        for text in names {
            let same_name = names.iter().filter(|other| short(other) == short(text)).count();
            let name = short(text).filter(|_| same_name == 1).unwrap_or_else(|| text.clone());
            let path = Path::new(text);
            let kind = match text.as_str() {
                BOOTSTRAP => ModelKind::Bootstrap,
                _ if is_hybrid(path) => hybrid(path, names)?,
                _ if is_transformer(path)? => ModelKind::Transformer(Box::new(load_transformer(path)?)),
                _ => ModelKind::Nnue(AnyNetwork::load(path)?.0),
            };
            let description = match &kind {
                ModelKind::Bootstrap => "the hand-written evaluation".to_owned(),
                ModelKind::Nnue(network) => network.architecture().to_string(),
                ModelKind::Transformer(network) => {
                    format!("{}, {}", outline(network.architecture()), network.precision().name())
                }
                ModelKind::Hybrid(network, nnue, bridge) => format!(
                    "{}, {}, with a {} bridge from {}",
                    outline(network.architecture()),
                    network.precision().name(),
                    bridge.form(),
                    nnue.architecture()
                ),
            };
            models.push(Self { name, description, kind });
        }
        Ok(models)
    }

    /// The transformer, if the network is one; that of a hybrid included.
    pub(super) fn transformer(&self) -> Option<&tandem_transformer::Network> {
        match &self.kind {
            ModelKind::Transformer(network) => Some(network),
            ModelKind::Hybrid(network, ..) => Some(network),
            ModelKind::Bootstrap | ModelKind::Nnue(_) => None,
        }
    }

    /// The bridge of a hybrid, and a reader of the NNUE's accumulator, which supplies the input of the
    /// bridge.
    pub(super) fn bridge(&self) -> Option<(&Bridge, AccumulatorReader)> {
        match &self.kind {
            ModelKind::Hybrid(_, nnue, bridge) => Some((bridge, AccumulatorReader::new(Arc::clone(nnue)))),
            ModelKind::Transformer(_) | ModelKind::Bootstrap | ModelKind::Nnue(_) => None,
        }
    }

    /// The scorer of this network for one thread; `None` for transformers, which evaluate moves too, and many
    /// positions at a time.
    pub(super) fn position_scorer(&self) -> Option<PositionScorer<'_>> {
        Some(match &self.kind {
            ModelKind::Bootstrap => PositionScorer::Bootstrap(Box::default()),
            ModelKind::Nnue(AnyNetwork::Integer(network)) => {
                PositionScorer::Integer(network, Box::new(Accumulators::new(network)))
            }
            ModelKind::Nnue(AnyNetwork::Float(network, _)) => PositionScorer::Float(network),
            ModelKind::Transformer(_) | ModelKind::Hybrid(..) => return None,
        })
    }
}

/// Loads a hybrid, whose networks must be among the named files, and checks that all three fit together.
fn hybrid(path: &Path, names: &[String]) -> Result<ModelKind, LabError> {
    let shown = path.display();
    let hybrid = Hybrid::load(path)?;
    let Some(bridge) = hybrid.bridge.clone() else {
        return Err(LabError::Usage(format!("{shown}: it has no bridge; evaluate its transformer alone")));
    };
    let JoinedNetworks { nnue, transformer, hybrid } = JoinedNetworks::load(path, hybrid, names)?;
    // Joining the networks checks that they fit.
    let networks = HybridNetworks::new(Arc::clone(&transformer), Some(Arc::clone(&nnue)));
    let joined = networks.and_then(|networks| networks.with_hybrid(hybrid));
    joined.map_err(|error| LabError::Usage(format!("{shown}: {error}")))?;
    Ok(ModelKind::Hybrid(transformer, nnue, Box::new(bridge)))
}

/// The two networks of a hybrid, and the hybrid itself.
pub(super) struct JoinedNetworks {
    pub(super) nnue: Arc<Network>,
    pub(super) transformer: Arc<tandem_transformer::Network>,
    pub(super) hybrid: Hybrid,
}

impl JoinedNetworks {
    /// Finds the networks of a hybrid among the named files by their SHA-256. The NNUE may also be the
    /// built-in one.
    ///
    /// # Errors
    ///
    /// When a network is not among the files or cannot be loaded.
    pub(super) fn load(path: &Path, hybrid: Hybrid, names: &[String]) -> Result<Self, LabError> {
        let Hybrid { nnue, transformer, .. } = hybrid;
        let shown = path.display();
        let found = |wanted: Fingerprint| {
            names.iter().find(|name| match built_in(Path::new(name)) {
                Some(bytes) => Fingerprint::of(bytes) == wanted,
                None => Fingerprint::of_file(name).is_ok_and(|hash| hash == wanted),
            })
        };
        let missing = |which: &str, hash: Fingerprint| {
            LabError::Usage(format!("{shown}: name its {which} too, the file with SHA-256 {hash}"))
        };
        let network = found(transformer).ok_or_else(|| missing("transformer", transformer))?;
        let is_built_in = Fingerprint::of(tandem_nets::built_in_bytes()) == nnue;
        let nnue = match found(nnue) {
            Some(name) if built_in(Path::new(name)).is_none() => Network::load(name)?,
            _ if is_built_in => Network::from_bytes(tandem_nets::built_in_bytes())
                .map_err(|error| LabError::Usage(format!("the built-in network: {error}")))?,
            _ => return Err(missing("NNUE", nnue)),
        };
        let network = load_transformer(Path::new(network))?;
        Ok(Self { nnue: Arc::new(nnue), transformer: Arc::new(network), hybrid })
    }
}

impl PositionScorer<'_> {
    /// Evaluates a position in centipawns for the side to move.
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
                // The value is not rounded to whole centipawns.
                f64::from(evaluation.value()) * 100.0 / f64::from(evaluation.pawn())
            }
            Self::Float(network) => network.evaluate(board) * 100.0 / f64::from(network.pawn),
        }
    }
}
