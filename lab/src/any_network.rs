//! NNUE files of any format, quantised or in floating point, for the commands that accept both.

use crate::error::LabError;
use std::io::Read;
use std::path::Path;
use tandem_chess::{Board, Position};
use tandem_nnue::{Architecture, FloatNetwork, Format, Network, Quantisation};
use tandem_train::{Checkpoint, Job, Recipe};
use tandem_transformer::FileError;

/// An NNUE as it was loaded: quantised to integers, or in floating point.
pub(crate) enum AnyNetwork {
    /// A quantised network, as the engine evaluates it.
    Integer(Box<Network>),
    /// A network in floating point, as trainers write it, with its quantisation; the default one where the
    /// file does not say.
    Float(Box<FloatNetwork>, Quantisation),
}

impl AnyNetwork {
    /// Loads a file and detects its format from its first bytes; `None` for our own checkpoints and formats
    /// without a name.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is damaged, or holds a transformer.
    pub(crate) fn load(path: &Path) -> Result<(Self, Option<Format>), LabError> {
        let start = start_of(path)?;
        let format = Format::of(&start);
        if let (None, Some(transformer)) = (format, tandem_transformer::Format::of(&start)) {
            let (path, name) = (path.display(), transformer.name());
            return Err(LabError::Usage(format!("{path}: a {name}, but an NNUE is needed")));
        }
        let network = match format {
            // Checkpoints are safetensors too, but hold more than a network.
            Some(Format::Float) if path.extension().is_some_and(|end| end == "checkpoint") => {
                let checkpoint = Checkpoint::<Recipe>::load(path)?;
                let quantisation = Job::of(&checkpoint.recipe)?.quantisation;
                Self::Float(Box::new(checkpoint.network()?), quantisation)
            }
            Some(Format::Float) => Self::Float(Box::new(FloatNetwork::load(path)?), Quantisation::default()),
            _ => Self::Integer(Box::new(match built_in(path) {
                Some(bytes) => Network::from_bytes(bytes)
                    .map_err(|error| LabError::Usage(format!("the built-in network: {error}")))?,
                None => Network::load(path)?,
            })),
        };
        Ok((network, format))
    }

    /// The architecture: features, layer sizes, activation and buckets.
    pub(crate) fn architecture(&self) -> Architecture {
        match self {
            Self::Integer(network) => network.architecture(),
            Self::Float(network, _) => network.architecture.clone(),
        }
    }

    /// The description stored in the file, which may be empty.
    pub(crate) fn description(&self) -> &str {
        match self {
            Self::Integer(network) => network.description(),
            Self::Float(network, _) => &network.description,
        }
    }

    /// The evaluation of a position in centipawns for the side to move.
    pub(crate) fn centipawns(&self, board: &Board) -> f64 {
        match self {
            Self::Integer(network) => {
                let evaluation = network.evaluate(board);
                f64::from(evaluation.value()) * 100.0 / f64::from(evaluation.pawn())
            }
            Self::Float(network, _) => network.evaluate(board) * 100.0 / f64::from(network.pawn),
        }
    }

    /// The evaluation of the starting position, in the network's own units and in centipawns.
    pub(crate) fn start_position(&self) -> String {
        let start = Position::startpos();
        match self {
            Self::Integer(network) => {
                let evaluation = network.evaluate(start.board());
                format!("{} ({} centipawns)", evaluation.value(), evaluation.centipawns())
            }
            Self::Float(network, _) => {
                let value = network.evaluate(start.board());
                format!("{value:.2} ({:.2} centipawns)", value * 100.0 / f64::from(network.pawn))
            }
        }
    }
}

/// The first 16 bytes of a file, which identify its format; fewer if it is shorter, and none of a pipe, which
/// opening would block.
///
/// # Errors
///
/// When the file is missing or cannot be read.
pub(crate) fn start_of(path: &Path) -> Result<Vec<u8>, LabError> {
    let mut start = Vec::new();
    if let Some(bytes) = built_in(path) {
        return Ok(bytes.iter().copied().take(16).collect());
    }
    if path.metadata().map_err(LabError::file(path))?.is_file() {
        let file = std::fs::File::open(path).map_err(LabError::file(path))?;
        file.take(16).read_to_end(&mut start).map_err(LabError::file(path))?;
    }
    Ok(start)
}

/// Name of the built-in NNUE, accepted in place of a network file.
pub(crate) const TACTICIAN: &str = "tactician";
/// Name of the built-in transformer, accepted in place of a network file.
pub(crate) const STRATEGIST: &str = "strategist";

/// The bytes of the built-in network that a path names; `None` for a file, also for one of that name.
pub(crate) fn built_in(path: &Path) -> Option<&'static [u8]> {
    let bytes = match path.to_str()? {
        TACTICIAN => tandem_nets::built_in_bytes(),
        STRATEGIST => tandem_nets::built_in_transformer(),
        _ => return None,
    };
    (!bytes.is_empty() && !path.exists()).then_some(bytes)
}

/// The transformer of a file, or the built-in one by its name.
///
/// # Errors
///
/// When the file is missing or damaged, or holds no transformer.
pub(crate) fn load_transformer(path: &Path) -> Result<tandem_transformer::Network, FileError> {
    let isa = tandem_transformer::Isa::best();
    match built_in(path) {
        Some(bytes) => tandem_transformer::Network::from_bytes(bytes, isa)
            .map_err(|source| FileError::Load { path: path.into(), source }),
        None => tandem_transformer::Network::load(path, isa),
    }
}

/// True if the file name has the extension of a hybrid.
pub(crate) fn is_hybrid(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "hybrid")
}

/// The number of parameters of a network with this architecture.
pub(crate) fn parameters(architecture: &Architecture) -> usize {
    let (inputs, width) = (architecture.features.num_inputs(), architecture.width());
    let psqt = if architecture.psqt { inputs * tandem_nnue::PSQT_BUCKETS } else { 0 };
    let stack: usize = architecture.layers().iter().map(|(inputs, outputs)| (inputs + 1) * outputs).sum();
    (inputs + 1) * width + psqt + architecture.buckets().count * stack
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_nnue::*;

    #[test]
    fn every_parameter_is_counted() {
        let head = HeadShape::Flat { activation: Activation::Crelu, buckets: OutputBuckets::bullet(4) };
        let architecture =
            Architecture { features: FeatureSet::plain(), outputs: 32, tied: false, psqt: false, head };
        let float = FloatNetwork::zeroed(architecture, 400, 100);
        let stacks: usize = float.stacks.iter().flatten().map(|l| l.weights.len() + l.bias.len()).sum();
        let expected = float.weights.len() + float.bias.len() + float.psqt.len() + stacks;
        assert_eq!(parameters(&float.architecture), expected);
    }
}
