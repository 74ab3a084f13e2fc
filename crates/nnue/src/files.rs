//! Network files: what each format is, and how to read and write it.

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
use reader::Reader;
use std::path::{Path, PathBuf};
use tandem_chess::input;
use thiserror::Error;

pub use own::reseal;
#[cfg(feature = "safetensors")]
pub use safetensors::with_sorted_header;
pub use single::BulletLayout;

/// A file that is no network, or a damaged one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} at byte {offset}: {problem}")]
pub struct LoadError {
    /// What was being read.
    pub field: String,
    /// Where it begins.
    pub offset: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// A network file that could not be read.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// The file system's word.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        source: std::io::Error,
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
#[error("{format} format has no place for {architecture}")]
pub struct UnfitNetwork {
    /// The network.
    pub architecture: String,
    /// The format.
    pub format: String,
}

/// A kind of network file that says what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Ours.
    Tandem,
    /// Stockfish's `.nnue`, of any generation.
    Stockfish,
    /// Jomfish's `.jnn`.
    Jomfish,
    /// The binary of 16-bit weights, `HALFKP16`, that a student's thesis defined: HalfKP 40,960 -> 256x2 -> 1, with
    /// weights of its own for each perspective.
    Student,
    /// A network in floating point, in safetensors.
    Float,
}

impl Format {
    /// The format of a file, by its first bytes.
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
            // Eight bytes of length, then JSON.
            _ => (bytes.get(4..9)? == b"\0\0\0\0{").then_some(Self::Float),
        }
    }

    /// Its name.
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

/// Larger than any network file should be.
const MAX_LEN: u64 = 1 << 30;

fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    input::read_whole(path, MAX_LEN, "network")
}

impl Network {
    /// Reads a network file of any format that says what it is.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, NetworkError> {
        Ok(Self::load_with_bytes(path)?.0)
    }

    /// Reads a network file, and hands out its bytes too, for those who must know which file it was.
    pub fn load_with_bytes(path: impl AsRef<Path>) -> Result<(Self, Vec<u8>), NetworkError> {
        let path = path.as_ref();
        let bytes =
            read_file(path).map_err(|source| NetworkError::Io { path: path.to_path_buf(), source })?;
        match Self::from_bytes(&bytes) {
            Ok(network) => Ok((network, bytes)),
            Err(source) => Err(NetworkError::Load { path: path.to_path_buf(), source }),
        }
    }

    /// Reads a network from memory.
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
                let problem = "these bytes begin no network file that we know (our own .tnn, Stockfish's .nnue, \
                               Jomfish's .jnn, the student's binary)";
                Err(LoadError { field: "magic".into(), offset: 0, problem: problem.into() })
            }
        }
    }
}

/// Numbers, one after the other.
fn extend<T: Copy, const N: usize>(bytes: &mut Vec<u8>, numbers: &[T], to_le: impl Fn(T) -> [u8; N]) {
    bytes.reserve(N * numbers.len());
    for &number in numbers {
        bytes.extend(to_le(number));
    }
}
