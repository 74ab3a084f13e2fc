//! The `--device` option: the processor or a GPU that networks are trained or evaluated on.

use crate::error::LabError;
use std::fmt;
use std::str::FromStr;
use tandem_train::{CpuTrainer, CudaTrainer, Job, NnueTrainer, State, TrainError};

/// A device to compute on, as `--device` names it: auto, cpu, cuda, cuda:N or mps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// The first GPU if there is a usable one, otherwise the processor.
    Auto,
    /// The processor, with as many threads as `--threads` says.
    Cpu,
    /// An NVIDIA GPU by its CUDA index, from 0.
    Cuda(usize),
    /// The GPU of an Apple computer (Metal), for transformers only.
    Mps,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
            Self::Mps => f.write_str("mps"),
        }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let cuda = |index: &str| index.parse().map(Self::Cuda).ok();
        match text {
            "auto" => Some(Self::Auto),
            "cpu" => Some(Self::Cpu),
            "cuda" => Some(Self::Cuda(0)),
            "mps" => Some(Self::Mps),
            _ => text.strip_prefix("cuda:").and_then(cuda),
        }
        .ok_or_else(|| format!("{text:?} is not one of auto, cpu, cuda, cuda:0, cuda:1, ..., mps"))
    }
}

impl Device {
    /// Resolves `auto` and returns the device together with its name for display.
    ///
    /// # Errors
    ///
    /// When an NVIDIA GPU is requested and CUDA is not usable, or when an Apple GPU is requested, which
    /// trains transformers only.
    pub(crate) fn choose(self) -> Result<(Self, String), LabError> {
        if self == Self::Cpu {
            return Ok((Self::Cpu, "the CPU".into()));
        }
        if self == Self::Mps {
            return Err(LabError::Usage(
                "on Apple GPUs, only transformers can be trained; use --device cpu".into(),
            ));
        }
        match (self, tandem_train::gpus()) {
            (Self::Cuda(index), Ok(names)) => {
                let name = names.get(index).cloned().unwrap_or_else(|| format!("GPU {index}"));
                Ok((Self::Cuda(index), name))
            }
            (Self::Cuda(_), Err(error)) => Err(error.into()),
            (_, Ok(names)) => Ok((Self::Cuda(0), names.into_iter().next().unwrap_or_default())),
            (_, Err(error)) => Ok((Self::Cpu, format!("the CPU ({error})"))),
        }
    }

    /// Makes an NNUE trainer on this device for batches of at most `batch` positions.
    ///
    /// # Errors
    ///
    /// When the GPU has too little memory or its kernels cannot be compiled.
    pub(crate) fn trainer(
        self,
        job: &Job,
        state: State,
        batch: usize,
    ) -> Result<Box<NnueTrainer>, TrainError> {
        Ok(match self {
            Self::Cuda(index) => Box::new(CudaTrainer::new(job.clone(), state, index, batch)?),
            Self::Auto | Self::Cpu | Self::Mps => Box::new(CpuTrainer::new(job.clone(), state)),
        })
    }
}
