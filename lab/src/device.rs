//! What a network is trained on.

use crate::error::LabError;
use std::fmt;
use std::str::FromStr;
use tandem_train::{CpuTrainer, CudaTrainer, Job, State, TrainError, Trainer};

/// What a network is trained on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// A card if there is one, or else the processor.
    Auto,
    /// The processor.
    Cpu,
    /// An NVIDIA card by its number.
    Cuda(usize),
    /// Apple's card, for transformers.
    Mps,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(card) => write!(f, "cuda:{card}"),
            Self::Mps => f.write_str("mps"),
        }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let card = |number: &str| number.parse().map(Self::Cuda).ok();
        match text {
            "auto" => Some(Self::Auto),
            "cpu" => Some(Self::Cpu),
            "cuda" => Some(Self::Cuda(0)),
            "mps" => Some(Self::Mps),
            _ => text.strip_prefix("cuda:").and_then(card),
        }
        .ok_or_else(|| format!("{text:?} is none of auto, cpu, cuda, cuda:0, cuda:1, ..., mps"))
    }
}

impl Device {
    /// The device that is meant, and what it is called.
    pub(crate) fn choose(self) -> Result<(Self, String), LabError> {
        if self == Self::Cpu {
            return Ok((Self::Cpu, "the processor".into()));
        }
        if self == Self::Mps {
            return Err(LabError::Usage(
                "on Apple's cards transformers alone are trained; use --device cpu".into(),
            ));
        }
        match (self, tandem_train::cards()) {
            (Self::Cuda(card), Ok(names)) => {
                let name = names.get(card).cloned().unwrap_or_else(|| format!("card {card}"));
                Ok((Self::Cuda(card), name))
            }
            (Self::Cuda(_), Err(error)) => Err(error.into()),
            (_, Ok(names)) => Ok((Self::Cuda(0), names.into_iter().next().unwrap_or_default())),
            (_, Err(error)) => Ok((Self::Cpu, format!("the processor ({error})"))),
        }
    }

    /// A trainer on it, for batches of at most so many positions.
    pub(crate) fn trainer(
        self,
        job: &Job,
        state: State,
        batch: usize,
    ) -> Result<Box<dyn Trainer>, TrainError> {
        Ok(match self {
            Self::Cuda(card) => Box::new(CudaTrainer::new(job.clone(), state, card, batch)?),
            Self::Auto | Self::Cpu | Self::Mps => Box::new(CpuTrainer::new(job.clone(), state)),
        })
    }
}
