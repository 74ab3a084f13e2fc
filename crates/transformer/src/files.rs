//! Network files: what each format is, and how to read and write it.

mod description;
mod lc0;
mod onnx;
mod own;
#[cfg(feature = "safetensors")]
mod safetensors;
mod wire;

use crate::{Architecture, Isa, Network, Precision, Weights, WeightsError};
use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

pub use description::FileDescription;
pub use own::{NetworkFile, Storage, Stored, reseal};

/// A file that is no network, or a damaged one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// A part of the file makes no sense.
    #[error("{field} at byte {offset}: {problem}")]
    Part {
        /// What was being read.
        field: String,
        /// Where it begins.
        offset: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// Its tensors are not those of its architecture.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

impl LoadError {
    /// An error about the field that begins at `offset`.
    fn new(field: impl Into<String>, offset: usize, problem: impl Into<String>) -> Self {
        Self::Part { field: field.into(), offset, problem: problem.into() }
    }
}

/// A network file that could not be read.
#[derive(Debug, Error)]
pub enum FileError {
    /// The file system's word.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        source: io::Error,
    },
    /// What is in the file is no network we know.
    #[error("{path}: {source}")]
    Load {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: LoadError,
    },
}

/// A network that a file format has no place for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{format} has no place for {what}")]
pub struct UnfitNetwork {
    /// The format.
    pub format: &'static str,
    /// What does not fit.
    pub what: String,
}

/// A kind of network file that says what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Ours, `.ttn`.
    Tandem,
    /// lc0's, `.pb.gz`.
    Lc0,
    /// Tensors with a description, as the rest of the world keeps them.
    Safetensors,
    /// A graph that other programs run, `.onnx`.
    Onnx,
}

impl Format {
    /// The format of a file, by its first bytes.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(own::MAGIC) {
            return Some(Self::Tandem);
        }
        // Of the files that we know, only lc0's networks are packed.
        if bytes.starts_with(lc0::GZIP) || bytes.starts_with(lc0::UNPACKED) {
            return Some(Self::Lc0);
        }
        // Version and maker are a graph's first fields, whoever wrote it.
        if bytes.len() > 2 && bytes[0] == 0x08 && bytes[1] < 32 && bytes[2] == 0x12 {
            return Some(Self::Onnx);
        }
        // Eight bytes of length, then JSON.
        (bytes.get(4..9)? == b"\0\0\0\0{").then_some(Self::Safetensors)
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tandem => "Tandem transformer",
            Self::Lc0 => "lc0 network",
            Self::Safetensors => "transformer in floating point",
            Self::Onnx => "ONNX graph",
        }
    }
}

/// No format that we know.
fn unknown() -> LoadError {
    let problem = "these bytes begin no network file that we know (our own .ttn, .safetensors, lc0's .pb.gz)";
    LoadError::new("magic", 0, problem)
}

#[cfg(not(feature = "safetensors"))]
fn without_safetensors() -> LoadError {
    LoadError::new("format", 0, "safetensors, which this program was built without")
}

impl Weights {
    /// Reads a network file of any format that says what it is. An architecture must be given where the file has none,
    /// and be the file's own where it has one.
    pub fn load(path: impl AsRef<Path>, given: Option<&Architecture>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let bytes = map(path)?;
        Self::from_bytes(&bytes, given).map_err(|source| FileError::Load { path: path.into(), source })
    }

    /// Reads a network from memory.
    pub fn from_bytes(bytes: &[u8], given: Option<&Architecture>) -> Result<Self, LoadError> {
        let checked = |weights: Self| -> Result<Self, LoadError> {
            check_architecture(weights.architecture(), given, usize::MAX, 0)?;
            Ok(weights)
        };
        match Format::of(bytes) {
            Some(Format::Tandem) => checked(own::read(bytes)?),
            Some(Format::Lc0) => checked(Self::from_lc0(bytes)?),
            #[cfg(feature = "safetensors")]
            Some(Format::Safetensors) => Self::from_safetensors(bytes, given),
            #[cfg(not(feature = "safetensors"))]
            Some(Format::Safetensors) => Err(without_safetensors()),
            Some(Format::Onnx) => {
                Err(LoadError::new("format", 0, "a graph of ONNX, which is written and never read"))
            }
            None => Err(unknown()),
        }
    }
}

impl Network {
    /// Reads a network file of any format that says what it is, and packs it for an instruction set. It computes in bytes or
    /// 16 bits where a file of our own has its layers in them, and else in full.
    pub fn load(path: impl AsRef<Path>, isa: Isa) -> Result<Self, FileError> {
        let path = path.as_ref();
        let bytes = map(path)?;
        Self::from_bytes(&bytes, isa).map_err(|source| FileError::Load { path: path.into(), source })
    }

    /// The same from memory, wherever the bytes begin.
    pub fn from_bytes(bytes: &[u8], isa: Isa) -> Result<Self, LoadError> {
        if Format::of(bytes) != Some(Format::Tandem) {
            return Ok(Self::new(&Weights::from_bytes(bytes, None)?, Precision::F32, isa));
        }
        let mut copy = Vec::new();
        let file = NetworkFile::new(own::in_place(bytes, &mut copy))?;
        let precision = file.iter().find_map(|(_, stored)| match stored {
            Stored::F32(_) => None,
            Stored::Bf16(_) => Some(Precision::Bf16),
            Stored::Int8 { .. } => Some(Precision::Int8),
        });
        Ok(Self::new(&file.to_weights()?, precision.unwrap_or(Precision::F32), isa))
    }
}

/// A file as memory: nothing is read before it is looked at.
fn map(path: &Path) -> Result<Mmap, FileError> {
    let mapped = || {
        // Before it is opened: a pipe would let us wait.
        if !path.metadata()?.is_file() {
            return Err(io::Error::other("not a file"));
        }
        let file = File::open(path)?;
        // SAFETY: the bytes are only read, and nothing is taken for granted that was not checked. Network files are
        // written aside and moved into their place, never changed in it; who cuts one short while it is in use ends
        // the program, as with every mapped file.
        unsafe { Mmap::map(&file) }
    };
    mapped().map_err(|source| FileError::Io { path: path.into(), source })
}

/// Whether the architecture is small enough for a file of so many tensors, and the one that was given. The list of its
/// tensors, which a few bytes could make enormous, is made only after the first of these is known.
fn check_architecture(
    own: &Architecture,
    given: Option<&Architecture>,
    tensors: usize,
    offset: usize,
) -> Result<(), LoadError> {
    let least = own.least_tensors();
    if least > tensors {
        let problem = format!("has at least {least} tensors, the file has {tensors}");
        return Err(LoadError::new("architecture", offset, problem));
    }
    match given {
        Some(given) if given != own => {
            let problem = format!("another one than was given: {}", difference(own, given));
            Err(LoadError::new("architecture", offset, problem))
        }
        _ => Ok(()),
    }
}

/// The first tensor in which two architectures differ.
fn difference(own: &Architecture, given: &Architecture) -> String {
    let texts = [own.to_toml(), given.to_toml()];
    let [own, given] = [own.tensors(), given.tensors()];
    let first = own.iter().zip(&given).find(|(own, given)| own != given);
    match first {
        Some((own, given)) if own.name == given.name => {
            format!("tensor {} is {:?}, {:?} was given", own.name, own.shape, given.shape)
        }
        Some((own, given)) => format!("it has tensor {} where {} was given", own.name, given.name),
        None if own.len() != given.len() => {
            format!("it has {} tensors, {} were given", own.len(), given.len())
        }
        None => {
            let lines = texts[0].lines().zip(texts[1].lines()).find(|(own, given)| own != given);
            let (own, given) = lines.unwrap_or(("one thing", "another"));
            format!(
                "the tensors are the same, but not what is done with them: it has {own} where {given} was given"
            )
        }
    }
}

impl Architecture {
    /// No more tensors than the blocks have, found without a list of them.
    fn least_tensors(&self) -> usize {
        let experts = match &self.body.feed_forward {
            crate::FeedForward::Experts(experts) => 2 * experts.count,
            _ => 2,
        };
        self.body.layers.saturating_mul(4 + experts)
    }
}
