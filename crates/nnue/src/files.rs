//! Network file formats: detection by the first bytes, reading and writing. `docs/formats.md` describes the
//! layouts.

mod header;
mod jomfish;
mod leb128;
mod own;
mod reader;
#[cfg(feature = "safetensors")]
mod safetensors;
mod single;
mod stacks;
mod stockfish;

use crate::network::Network;
use reader::FieldReader;
use std::path::{Path, PathBuf};
use tandem_util::input;
use thiserror::Error;

pub use own::reseal;
#[cfg(feature = "safetensors")]
pub use safetensors::with_sorted_header;
pub use single::BulletLayout;

/// A file that is not a network, or a damaged one, with the position of the fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} at byte {offset}: {problem}")]
pub struct LoadError {
    /// The part of the file that was being read, for example `output scale` or `outputs in the header`.
    pub field: String,
    /// Offset in bytes from the start of the file at which that part begins.
    pub offset: usize,
    /// The fault, with the value found and the one expected.
    pub problem: String,
}

/// Error while loading a network file, with the path of the file.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// The file system reported an error.
    #[error("{path}: {source}")]
    Io {
        /// The network file's path.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The contents are not a network in a known format.
    #[error("{path}: {source}")]
    Load {
        /// The network file's path.
        path: PathBuf,
        /// Description of the fault, with the byte offset and the field.
        source: LoadError,
    },
}

/// A network whose architecture a file format cannot represent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{format} format cannot represent {architecture}")]
pub struct UnsupportedArchitecture {
    /// Architecture of the network that the format cannot hold.
    pub architecture: String,
    /// The name of the format, for example `Stockfish's`.
    pub format: String,
}

/// A network file format that can be detected from its first bytes. Bullet's quantised files cannot; see
/// [`BulletLayout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Tandem's own `.tnn`, which can hold every [`Network`].
    Tandem,
    /// Stockfish's `.nnue`, from version 12 to 17.
    Stockfish,
    /// Jomfish's `.jnn`, an architecture like that of Stockfish 12.
    Jomfish,
    /// `HALFKP16`, the binary with 16-bit weights defined by a student's thesis: HalfKP 40,960 -> 256x2 -> 1,
    /// with separate weights for each perspective.
    Student,
    /// A network in floating point as safetensors; see [`FloatNetwork`](crate::FloatNetwork).
    Float,
}

impl Format {
    /// Detects the format from the first bytes; `None` if it is unknown.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(own::MAGIC) {
            return Some(Self::Tandem);
        }
        if bytes.starts_with(single::STUDENT_MAGIC) {
            return Some(Self::Student);
        }
        match u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) {
            stockfish::VERSION_12 | stockfish::VERSION_14 => Some(Self::Stockfish),
            jomfish::MAGIC => Some(Self::Jomfish),
            // Safetensors: eight bytes of length, then JSON.
            _ => (bytes.get(4..9)? == b"\0\0\0\0{").then_some(Self::Float),
        }
    }

    /// A name for messages, for example `Stockfish network`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tandem => "Tandem network",
            Self::Stockfish => "Stockfish network",
            Self::Jomfish => "Jomfish network",
            Self::Student => "student's network",
            Self::Float => "network in floating point",
        }
    }
}

/// Maximum size of a network file in bytes (1 GiB).
const MAX_LEN: u64 = 1 << 30;

fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    input::read_whole(path, MAX_LEN, "network")
}

impl Network {
    /// Reads a network file and detects its format.
    ///
    /// # Errors
    /// The file cannot be read, or its contents are not a valid network in a known format.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, NetworkError> {
        Ok(Self::load_with_bytes(path)?.0)
    }

    /// Reads a network file and also returns its bytes, for example to compute their hash.
    ///
    /// # Errors
    /// The file cannot be read, or its contents are not a valid network in a known format.
    pub fn load_with_bytes(path: impl AsRef<Path>) -> Result<(Self, Vec<u8>), NetworkError> {
        let path = path.as_ref();
        let bytes =
            read_file(path).map_err(|source| NetworkError::Io { path: path.to_path_buf(), source })?;
        match Self::from_bytes(&bytes) {
            Ok(network) => Ok((network, bytes)),
            Err(source) => Err(NetworkError::Load { path: path.to_path_buf(), source }),
        }
    }

    /// Reads a network from the bytes of a file and detects the format.
    ///
    /// # Errors
    /// The bytes are not a valid network in a known format, or one in floating point, which must be quantised
    /// first.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LoadError> {
        match Format::of(bytes) {
            Some(Format::Tandem) => own::read(bytes),
            Some(Format::Student) => single::read_student(bytes),
            Some(Format::Stockfish) => stockfish::read(bytes),
            Some(Format::Jomfish) => jomfish::read(bytes),
            Some(Format::Float) => {
                let problem = "a network in floating point, which cannot evaluate: quantise it first";
                Err(LoadError { field: "format".into(), offset: 0, problem: problem.into() })
            }
            None => {
                let problem = "these bytes do not begin any known network file (our own .tnn, Stockfish's .nnue, \
                               Jomfish's .jnn, the student's binary)";
                Err(LoadError { field: "magic".into(), offset: 0, problem: problem.into() })
            }
        }
    }
}

/// Appends numbers in little-endian order.
fn extend<T: Copy, const N: usize>(bytes: &mut Vec<u8>, numbers: &[T], to_le: impl Fn(T) -> [u8; N]) {
    bytes.reserve(N * numbers.len());
    for &number in numbers {
        bytes.extend(to_le(number));
    }
}
