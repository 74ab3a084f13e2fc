//! NNUE files of any format, quantised or in floating point, for the commands that accept both.

use crate::error::LabError;
use std::io::Read;
use std::path::Path;
use tandem_chess::Position;
use tandem_nnue::{Architecture, FloatNetwork, Format, Network, Quantisation};
use tandem_train::{Checkpoint, Job, Recipe};

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
        let start = start_of(path);
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
            _ => Self::Integer(Box::new(Network::load(path)?)),
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

/// The first 16 bytes of a file, which identify its format; fewer if it is shorter, and none if it cannot be
/// read.
pub(crate) fn start_of(path: &Path) -> Vec<u8> {
    let mut start = Vec::new();
    // Opening a pipe would block.
    let is_file = path.metadata().is_ok_and(|found| found.is_file());
    if let Some(file) = is_file.then(|| std::fs::File::open(path).ok()).flatten() {
        // An error here occurs again when the file is loaded, and is reported there.
        let _ = file.take(16).read_to_end(&mut start);
    }
    start
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
