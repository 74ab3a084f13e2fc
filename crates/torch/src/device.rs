//! Devices, and process groups for distributed training.

use crate::shim::{Group, Rendezvous, TorchError, allow_tf32, load_cuda, load_gpu_library};
use std::time::Duration;
use tch::{Device, Tensor};
use thiserror::Error;

/// A device that libtorch computes on: the CPU, an NVIDIA GPU or an Apple GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compute {
    device: Device,
    supports_graphs: bool,
}

/// Reasons why a device or a process group cannot be used.
#[derive(Debug, Error)]
pub enum ComputeError {
    /// No device has this name; see [`Compute::from_name`] for those that exist.
    #[error("device {0:?} is not one of cpu, cuda, cuda:NUMBER, mps")]
    Unknown(String),
    /// libtorch was built without support for the device, or the machine does not have it.
    #[error("{name}: {problem}")]
    Missing {
        /// Name of the device that was asked for, for example `cuda:1`.
        name: String,
        /// Missing library or GPU, as a sentence for the user.
        problem: String,
    },
    /// A variable of the environment that torchrun sets does not hold a number.
    #[error("the environment's {name} is {value:?}, which is not a valid number")]
    Environment {
        /// Name of the variable, for example `LOCAL_RANK`.
        name: &'static str,
        /// Value of the variable.
        value: String,
    },
    /// An error of libtorch itself, for example of NCCL.
    #[error(transparent)]
    Torch(#[from] TorchError),
}

impl Compute {
    /// Finds a device by its name: `cpu`, `cuda`, `cuda:1` or `mps`. `cuda` without an index is the GPU with
    /// the index `LOCAL_RANK`, which torchrun sets, and GPU 0 otherwise. Allows TF32 on NVIDIA GPUs.
    ///
    /// # Errors
    /// Returns an error if the name is unknown, if `LOCAL_RANK` is not a number, or if libtorch or the
    /// machine does not have the device.
    pub fn from_name(name: &str) -> Result<Self, ComputeError> {
        let missing = |problem: String| ComputeError::Missing { name: name.into(), problem };
        if name == "cpu" {
            return Ok(Self { device: Device::Cpu, supports_graphs: false });
        }
        if name == "mps" {
            return match tch::utils::has_mps() {
                true => Ok(Self { device: Device::Mps, supports_graphs: false }),
                false => Err(missing("this libtorch does not support Apple GPUs".into())),
            };
        }
        let index = match name.strip_prefix("cuda") {
            Some("") => env_number("LOCAL_RANK")?.unwrap_or(0),
            Some(rest) => rest
                .strip_prefix(':')
                .and_then(|index| index.parse().ok())
                .ok_or_else(|| ComputeError::Unknown(name.into()))?,
            None => return Err(ComputeError::Unknown(name.into())),
        };
        load_cuda().map_err(|error| missing(error.to_string()))?;
        let count = tch::Cuda::device_count();
        if !i64::try_from(index).is_ok_and(|index: i64| index < count) {
            return Err(missing(format!("libtorch sees {count} NVIDIA GPUs on this machine")));
        }
        allow_tf32(true)?;
        // Training works without CUDA graphs, only more slowly.
        let loaded = load_gpu_library()
            .inspect_err(|error| eprintln!("warning: steps are not captured as CUDA graphs: {error}"));
        Ok(Self { device: Device::Cuda(index), supports_graphs: loaded.is_ok() })
    }

    /// An NVIDIA GPU if libtorch finds one, and the CPU otherwise.
    ///
    /// # Errors
    /// Returns an error if there is a GPU that cannot be used, because falling back to the CPU in silence
    /// would cost hours.
    pub fn best() -> Result<Self, ComputeError> {
        if load_cuda().is_err() || tch::Cuda::device_count() == 0 {
            return Ok(Self::cpu());
        }
        Self::from_name("cuda")
    }

    /// Computes on the CPU, which is always available.
    pub fn cpu() -> Self {
        Self { device: Device::Cpu, supports_graphs: false }
    }

    /// Sets the number of threads of libtorch's CPU operations. On a GPU it is always set to 1, because
    /// further threads would busy-wait on cores that the data loaders need.
    pub fn set_num_threads(&self, threads: usize) {
        let threads = if self.device == Device::Cpu { threads.max(1) } else { 1 };
        tch::set_num_threads(threads as i32);
    }

    /// Name that [`Compute::from_name`] accepts: `cpu`, `cuda:0`, `mps`.
    pub fn name(&self) -> String {
        match self.device {
            Device::Cpu => "cpu".into(),
            Device::Cuda(index) => format!("cuda:{index}"),
            Device::Mps => "mps".into(),
            Device::Vulkan => "vulkan".into(),
        }
    }

    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// True if steps can be captured as CUDA graphs and gradients summed by NCCL: both need an NVIDIA GPU and
    /// the GPU library.
    pub fn supports_graphs(&self) -> bool {
        self.supports_graphs
    }

    pub(crate) fn gpu(&self) -> Option<usize> {
        match self.device {
            Device::Cuda(index) => Some(index),
            _ => None,
        }
    }
}

fn env_number(name: &'static str) -> Result<Option<usize>, ComputeError> {
    let Ok(value) = std::env::var(name) else { return Ok(None) };
    match value.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(ComputeError::Environment { name, value }),
    }
}

fn master_port() -> Result<u16, ComputeError> {
    let port = env_number("MASTER_PORT")?.unwrap_or(29500);
    let invalid = |_| ComputeError::Environment { name: "MASTER_PORT", value: port.to_string() };
    u16::try_from(port).map_err(invalid)
}

/// This process's place in a process group. A run without torchrun is a group of one.
pub struct Processes {
    rank: usize,
    world_size: usize,
    group: Option<Group>,
}

/// Timeout of collective operations. A rank that has died stops the others after this time.
const TIMEOUT: Duration = Duration::from_secs(300);

impl Processes {
    /// A single process, for which all collective operations do nothing.
    pub fn single() -> Self {
        Self { rank: 0, world_size: 1, group: None }
    }

    /// The process group that `torchrun` has set up in the environment (`RANK`, `WORLD_SIZE`, `MASTER_ADDR`,
    /// `MASTER_PORT`), or a single process if there is none. Uses NCCL on GPUs and Gloo on CPUs.
    ///
    /// # Errors
    /// Returns an error if a variable is not a number, or if the other ranks do not join within five minutes.
    pub fn from_env(compute: &Compute) -> Result<Self, ComputeError> {
        let world_size = env_number("WORLD_SIZE")?.unwrap_or(1);
        if world_size <= 1 && std::env::var_os("TORCHELASTIC_RUN_ID").is_none() {
            return Ok(Self::single());
        }
        let rank = env_number("RANK")?.unwrap_or(0);
        let agent_hosts_store =
            std::env::var("TORCHELASTIC_USE_AGENT_STORE").is_ok_and(|value| value == "True");
        let rendezvous = Rendezvous {
            rank,
            world_size,
            address: std::env::var("MASTER_ADDR").unwrap_or_else(|_| "127.0.0.1".into()),
            port: master_port()?,
            is_store_host: rank == 0 && !agent_hosts_store,
            gpu: compute.gpu(),
            timeout: TIMEOUT,
        };
        Ok(Self::from_group(&rendezvous, Group::join(&rendezvous)?))
    }

    /// The members of a group that has been joined already.
    pub(crate) fn from_group(rendezvous: &Rendezvous, group: Group) -> Self {
        Self { rank: rendezvous.rank, world_size: rendezvous.world_size, group: Some(group) }
    }

    /// Rank of this process among those that train together, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of processes that train together; 1 for a single process.
    pub fn world_size(&self) -> usize {
        self.world_size
    }

    pub(crate) fn is_single(&self) -> bool {
        self.group.is_none()
    }

    pub(crate) fn all_reduce_sum(&self, tensor: &Tensor) -> Result<(), TorchError> {
        self.group.as_ref().map_or(Ok(()), |group| group.all_reduce_sum(tensor))
    }

    pub(crate) fn all_reduce_mean(&self, tensor: &mut Tensor) -> Result<(), TorchError> {
        let Some(group) = &self.group else { return Ok(()) };
        group.all_reduce_sum(tensor)?;
        let _ = tensor.g_div_scalar_(self.world_size as f64);
        Ok(())
    }

    /// Overwrites a tensor with that of rank 0.
    pub(crate) fn broadcast(&self, tensor: &Tensor) -> Result<(), TorchError> {
        self.group.as_ref().map_or(Ok(()), |group| group.broadcast(tensor))
    }
}
