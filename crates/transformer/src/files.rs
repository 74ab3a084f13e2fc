//! Network files: detection of their format, reading and writing.

mod description;
mod lc0;
pub(crate) mod onnx;
#[cfg(feature = "safetensors")]
mod safetensors;
mod ttn;

use crate::{Architecture, Isa, Network, Precision, Weights, WeightsError};
use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use tandem_util::protobuf::WireError;
use thiserror::Error;

pub use description::FileDescription;
pub use ttn::{NetworkFile, Storage, Stored, reseal};

/// Bytes that are not a valid network file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// A field of the file is malformed or has an unsupported value.
    #[error("{field} at byte {offset}: {problem}")]
    Malformed {
        /// Name of the field or tensor that was being read.
        field: String,
        /// Byte offset in the file at which it begins.
        offset: usize,
        /// Reason, which follows the field and offset in the message.
        problem: String,
    },
    /// The tensors of the file do not have the names or shapes that its architecture needs.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

impl From<WireError> for LoadError {
    fn from(error: WireError) -> Self {
        Self::Malformed { field: error.field, offset: error.offset, problem: error.problem }
    }
}

impl LoadError {
    /// An error about the field that begins at `offset`.
    fn new(field: impl Into<String>, offset: usize, problem: impl Into<String>) -> Self {
        Self::Malformed { field: field.into(), offset, problem: problem.into() }
    }
}

/// Error while loading a network file, with the path of the file.
#[derive(Debug, Error)]
pub enum FileError {
    /// The operating system could not open or map the file.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file, as it was given.
        path: PathBuf,
        /// Error of the operating system, for example that the file does not exist.
        source: io::Error,
    },
    /// The file was read, but its contents are not a valid network.
    #[error("{path}: {source}")]
    Load {
        /// Path of the file, as it was given.
        path: PathBuf,
        /// Field or tensor, byte offset and reason.
        source: LoadError,
    },
}

/// A network that cannot be stored in a file format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{format} does not support {what}")]
pub struct UnsupportedNetwork {
    /// Name of the format as it begins the message.
    pub format: &'static str,
    /// Part of the architecture that the format does not support.
    pub what: String,
}

/// Format of a network file, which its first bytes identify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// This project's own format, `.ttn`, which is used in place.
    Tandem,
    /// lc0's protocol buffers, `.pb.gz`; only networks of the BT family.
    Lc0,
    /// Safetensors with the architecture in its metadata, as PyTorch and Hugging Face tools read it.
    Safetensors,
    /// ONNX graph for other inference engines, `.onnx`; it is only written.
    Onnx,
}

impl Format {
    /// Detects the format from the first bytes of a file; `None` if they belong to no known format.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(ttn::MAGIC) {
            return Some(Self::Tandem);
        }
        // Of all known formats only lc0's is compressed.
        if bytes.starts_with(lc0::GZIP) || bytes.starts_with(lc0::UNPACKED) {
            return Some(Self::Lc0);
        }
        // An ONNX file begins with the fields version and producer, in any program that writes it.
        if bytes.len() > 2 && bytes[0] == 0x08 && bytes[1] < 32 && bytes[2] == 0x12 {
            return Some(Self::Onnx);
        }
        // Eight bytes of length, then JSON.
        (bytes.get(4..9)? == b"\0\0\0\0{").then_some(Self::Safetensors)
    }

    /// Description of the format for messages, for example `ONNX graph`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tandem => "Tandem transformer",
            Self::Lc0 => "lc0 network",
            Self::Safetensors => "transformer in floating point",
            Self::Onnx => "ONNX graph",
        }
    }
}

/// Error for bytes of no known format.
fn unknown() -> LoadError {
    let problem =
        "these bytes do not begin any known network file (our own .ttn, .safetensors, lc0's .pb.gz)";
    LoadError::new("magic", 0, problem)
}

#[cfg(not(feature = "safetensors"))]
fn without_safetensors() -> LoadError {
    LoadError::new("format", 0, "safetensors, which this program was built without")
}

impl Weights {
    /// Reads a network file of any format. `given` is needed if the file does not contain its architecture,
    /// and must be equal to the file's own if it does.
    ///
    /// # Errors
    /// If the file cannot be opened, is malformed, or does not match `given`; the message names the path.
    pub fn load(path: impl AsRef<Path>, given: Option<&Architecture>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let bytes = map(path)?;
        Self::from_bytes(&bytes, given).map_err(|source| FileError::Load { path: path.into(), source })
    }

    /// Reads a network from the bytes of a file, as [`Self::load`] does.
    ///
    /// # Errors
    /// If the bytes are malformed or do not match `given`; the message names the field and its offset.
    pub fn from_bytes(bytes: &[u8], given: Option<&Architecture>) -> Result<Self, LoadError> {
        let checked = |weights: Self| -> Result<Self, LoadError> {
            check_architecture(weights.architecture(), given, usize::MAX, 0)?;
            Ok(weights)
        };
        match Format::of(bytes) {
            Some(Format::Tandem) => checked(ttn::read(bytes)?),
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
    /// Reads a network file of any format, and packs it for an instruction set. It computes in int8 or
    /// bfloat16 if the layers of a `.ttn` file are stored so, and otherwise in full precision.
    ///
    /// # Errors
    /// If the file cannot be opened or is malformed; the message names the path.
    pub fn load(path: impl AsRef<Path>, isa: Isa) -> Result<Self, FileError> {
        let path = path.as_ref();
        let bytes = map(path)?;
        Self::from_bytes(&bytes, isa).map_err(|source| FileError::Load { path: path.into(), source })
    }

    /// Reads a network from memory, at any alignment, as [`Self::load`] does.
    ///
    /// # Errors
    /// If the bytes are malformed; the message names the field and its offset.
    pub fn from_bytes(bytes: &[u8], isa: Isa) -> Result<Self, LoadError> {
        if Format::of(bytes) != Some(Format::Tandem) {
            return Ok(Self::new(&Weights::from_bytes(bytes, None)?, Precision::F32, isa));
        }
        let mut copy = Vec::new();
        let file = NetworkFile::new(ttn::in_place(bytes, &mut copy))?;
        let precision = file.iter().find_map(|(_, stored)| match stored {
            Stored::F32(_) => None,
            Stored::Bf16(_) => Some(Precision::Bf16),
            Stored::Int8 { .. } => Some(Precision::Int8),
        });
        Ok(Self::new(&file.to_weights()?, precision.unwrap_or(Precision::F32), isa))
    }
}

/// Maps a file into memory, so that pages are only read when they are used.
fn map(path: &Path) -> Result<Mmap, FileError> {
    let mapped = || {
        // Checked before opening, because opening a pipe would block.
        if !path.metadata()?.is_file() {
            return Err(io::Error::other("not a file"));
        }
        let file = File::open(path)?;
        // SAFETY: the bytes are only read, and nothing is assumed that was not checked. Network files are
        // written aside and moved into place, never changed in place; truncating one while it is in use ends
        // the program, as with every mapped file.
        unsafe { Mmap::map(&file) }
    };
    mapped().map_err(|source| FileError::Io { path: path.into(), source })
}

/// Checks that the architecture is small enough for a file with this number of tensors, and that it is the
/// given one. The tensor list, which a few bytes could make enormous, is only built after the first check.
fn check_architecture(
    own: &Architecture,
    given: Option<&Architecture>,
    tensors: usize,
    offset: usize,
) -> Result<(), LoadError> {
    let least = own.min_tensors();
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

/// Describes the first difference between two architectures.
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
    /// Lower bound of the number of tensors, found without building their list.
    fn min_tensors(&self) -> usize {
        self.body.layers.saturating_mul(4 + self.body.feed_forward.min_tensors())
    }
}
