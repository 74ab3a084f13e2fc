//! A network file of any kind.

use crate::error::LabError;
use std::io::Read;
use std::path::Path;
use tandem_chess::Position;
use tandem_nnue::{Architecture, FloatNetwork, Format, Network, Quantisation};
use tandem_train::{Checkpoint, Job, Kept};

/// A network, of integers or before it became one.
pub(crate) enum AnyNetwork {
    /// Of integers: what evaluates.
    Integer(Box<Network>),
    /// In floating point: what trainers make, and how it is to be quantised where that is known.
    Float(Box<FloatNetwork>, Quantisation),
}

impl AnyNetwork {
    /// Reads a file, and tells which format it has.
    pub(crate) fn load(path: &Path) -> Result<(Self, Option<Format>), LabError> {
        let start = start_of(path);
        let format = Format::of(&start);
        if let (None, Some(transformer)) = (format, tandem_transformer::Format::of(&start)) {
            let (path, name) = (path.display(), transformer.name());
            return Err(LabError::Usage(format!("{path}: a {name}, where an NNUE is wanted")));
        }
        let network = match format {
            // Checkpoints are files of the same kind, with more in them.
            Some(Format::Float) if path.extension().is_some_and(|end| end == "checkpoint") => {
                let checkpoint = Checkpoint::load(path)?;
                let quantisation = Job::of(&checkpoint.recipe)?.quantisation;
                Self::Float(Box::new(checkpoint.network()?), quantisation)
            }
            Some(Format::Float) => Self::Float(Box::new(FloatNetwork::load(path)?), Quantisation::default()),
            _ => Self::Integer(Box::new(Network::load(path)?)),
        };
        Ok((network, format))
    }

    /// Its shape.
    pub(crate) fn architecture(&self) -> Architecture {
        match self {
            Self::Integer(network) => network.architecture(),
            Self::Float(network, _) => network.architecture.clone(),
        }
    }

    /// What it says of itself.
    pub(crate) fn description(&self) -> &str {
        match self {
            Self::Integer(network) => network.description(),
            Self::Float(network, _) => &network.description,
        }
    }

    /// What it says of the starting position, in words.
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

/// The first bytes of a file, which tell what it is; fewer where it cannot be read.
pub(crate) fn start_of(path: &Path) -> Vec<u8> {
    let mut start = Vec::new();
    // A pipe would let us wait.
    let is_file = path.metadata().is_ok_and(|found| found.is_file());
    if let Some(file) = is_file.then(|| std::fs::File::open(path).ok()).flatten() {
        // What cannot be read here cannot be read by those who come after, and they say why.
        let _ = file.take(16).read_to_end(&mut start);
    }
    start
}

/// How many numbers a network of a shape has.
pub(crate) fn parameters(architecture: &Architecture) -> usize {
    let (inputs, width) = (architecture.features.inputs(), architecture.width());
    let psqt = if architecture.psqt { inputs * tandem_nnue::PSQT_BUCKETS } else { 0 };
    let stack: usize = architecture.layers().iter().map(|(inputs, outputs)| (inputs + 1) * outputs).sum();
    (inputs + 1) * width + psqt + architecture.buckets().count * stack
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_nnue::*;

    #[test]
    fn every_number_is_counted() {
        let head = HeadShape::Flat { activation: Activation::Crelu, buckets: Buckets::bullet(4) };
        let architecture =
            Architecture { features: FeatureSet::plain(), outputs: 32, tied: false, psqt: false, head };
        let float = FloatNetwork::zeroed(architecture, 400, 100);
        let stacks: usize = float.stacks.iter().flatten().map(|l| l.weights.len() + l.bias.len()).sum();
        let expected = float.weights.len() + float.bias.len() + float.psqt.len() + stacks;
        assert_eq!(parameters(&float.architecture), expected);
    }
}
