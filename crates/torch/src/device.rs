//! What computes: a processor or a card, and the processes of a run.

use crate::shim::{Group, Meeting, TorchError, allow_tf32, load_card, load_cuda};
use std::time::Duration;
use tch::{Device, Tensor};
use thiserror::Error;

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compute {
    device: Device,
    has_graphs: bool,
}

/// Why nothing can compute.
#[derive(Debug, Error)]
pub enum ComputeError {
    /// There is no such thing.
    #[error("device {0:?} is none of cpu, cuda, cuda:NUMBER, mps")]
    Unknown(String),
    /// libtorch has no part for it, or the machine has no such card.
    #[error("{name}: {problem}")]
    Missing {
        /// What was asked for.
        name: String,
        /// What is missing.
        problem: String,
    },
    /// What torchrun tells is not what it should be.
    #[error("the environment's {name} is {value:?}, which is no such number")]
    Environment {
        /// The variable.
        name: &'static str,
        /// What it says.
        value: String,
    },
    /// libtorch refuses.
    #[error(transparent)]
    Torch(#[from] TorchError),
}

impl Compute {
    /// By its name: `cpu`, `cuda`, `cuda:1`, `mps`. A card without a number is the one that this process of the machine
    /// has for itself.
    pub fn named(name: &str) -> Result<Self, ComputeError> {
        let missing = |problem: String| ComputeError::Missing { name: name.into(), problem };
        if name == "cpu" {
            return Ok(Self { device: Device::Cpu, has_graphs: false });
        }
        if name == "mps" {
            return match tch::utils::has_mps() {
                true => Ok(Self { device: Device::Mps, has_graphs: false }),
                false => Err(missing("this libtorch computes on no Apple card".into())),
            };
        }
        let number = match name.strip_prefix("cuda") {
            Some("") => environment("LOCAL_RANK")?.unwrap_or(0),
            Some(rest) => rest
                .strip_prefix(':')
                .and_then(|number| number.parse().ok())
                .ok_or_else(|| ComputeError::Unknown(name.into()))?,
            None => return Err(ComputeError::Unknown(name.into())),
        };
        load_cuda().map_err(|error| missing(error.to_string()))?;
        let count = tch::Cuda::device_count();
        if !i64::try_from(number).is_ok_and(|number: i64| number < count) {
            return Err(missing(format!("libtorch sees {count} cards of NVIDIA on this machine")));
        }
        allow_tf32(true)?;
        // Steps are made without recording them too.
        let opened = load_card().inspect_err(|error| eprintln!("warning: steps are not recorded: {error}"));
        Ok(Self { device: Device::Cuda(number), has_graphs: opened.is_ok() })
    }

    /// A card of NVIDIA's if libtorch sees any, and else the processor. A card that is there and cannot be used is told of.
    pub fn best() -> Result<Self, ComputeError> {
        if load_cuda().is_err() || tch::Cuda::device_count() == 0 {
            return Ok(Self::processor());
        }
        Self::named("cuda")
    }

    /// A processor computes.
    pub fn processor() -> Self {
        Self { device: Device::Cpu, has_graphs: false }
    }

    /// A processor computes with so many threads. Beside a card one is enough: others would only wait for work, awake, on
    /// cores that somebody needs.
    pub fn use_threads(&self, threads: usize) {
        let threads = if self.device == Device::Cpu { threads.max(1) } else { 1 };
        tch::set_num_threads(threads as i32);
    }

    /// What it is called.
    pub fn name(&self) -> String {
        match self.device {
            Device::Cpu => "cpu".into(),
            Device::Cuda(number) => format!("cuda:{number}"),
            Device::Mps => "mps".into(),
            Device::Vulkan => "vulkan".into(),
        }
    }

    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// Whether steps can be recorded and played back, and sums made over cards.
    pub fn has_graphs(&self) -> bool {
        self.has_graphs
    }

    pub(crate) fn card(&self) -> Option<usize> {
        match self.device {
            Device::Cuda(number) => Some(number),
            _ => None,
        }
    }
}

fn environment(name: &'static str) -> Result<Option<usize>, ComputeError> {
    let Ok(value) = std::env::var(name) else { return Ok(None) };
    match value.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(ComputeError::Environment { name, value }),
    }
}

fn port() -> Result<u16, ComputeError> {
    let port = environment("MASTER_PORT")?.unwrap_or(29500);
    let unfit = |_| ComputeError::Environment { name: "MASTER_PORT", value: port.to_string() };
    u16::try_from(port).map_err(unfit)
}

/// The processes of a run, of which this is one.
pub struct Processes {
    rank: usize,
    ranks: usize,
    group: Option<Group>,
}

/// How long a process waits for the others before it gives up.
const PATIENCE: Duration = Duration::from_secs(300);

impl Processes {
    /// This one alone.
    pub fn one() -> Self {
        Self { rank: 0, ranks: 1, group: None }
    }

    /// Those that `torchrun` has started, which tells each by its environment who it is; else this one alone.
    pub fn of_environment(compute: &Compute) -> Result<Self, ComputeError> {
        let ranks = environment("WORLD_SIZE")?.unwrap_or(1);
        if ranks <= 1 && std::env::var_os("TORCHELASTIC_RUN_ID").is_none() {
            return Ok(Self::one());
        }
        let rank = environment("RANK")?.unwrap_or(0);
        let held = std::env::var("TORCHELASTIC_USE_AGENT_STORE").is_ok_and(|value| value == "True");
        let meeting = Meeting {
            rank,
            ranks,
            address: std::env::var("MASTER_ADDR").unwrap_or_else(|_| "127.0.0.1".into()),
            port: port()?,
            holds_store: rank == 0 && !held,
            card: compute.card(),
            patience: PATIENCE,
        };
        Ok(Self::met(&meeting, Group::join(&meeting)?))
    }

    /// Those that have met.
    pub(crate) fn met(meeting: &Meeting, group: Group) -> Self {
        Self { rank: meeting.rank, ranks: meeting.ranks, group: Some(group) }
    }

    /// Which one this is.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many there are.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    pub(crate) fn alone(&self) -> bool {
        self.group.is_none()
    }

    pub(crate) fn sum(&self, tensor: &Tensor) -> Result<(), TorchError> {
        self.group.as_ref().map_or(Ok(()), |group| group.sum(tensor))
    }

    pub(crate) fn mean(&self, tensor: &mut Tensor) -> Result<(), TorchError> {
        let Some(group) = &self.group else { return Ok(()) };
        group.sum(tensor)?;
        let _ = tensor.g_div_scalar_(self.ranks as f64);
        Ok(())
    }

    /// Makes a tensor that of the first process.
    pub(crate) fn same(&self, tensor: &Tensor) -> Result<(), TorchError> {
        self.group.as_ref().map_or(Ok(()), |group| group.broadcast(tensor))
    }
}
