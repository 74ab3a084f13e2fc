//! Our own format: a header that says everything, then the numbers, where a machine likes to read them. `docs/formats.md`
//! describes it for others.

use super::{FileDescription, FileError, Format, LoadError, check_architecture, map};
use crate::floats::{LARGEST_BF16, from_bf16, to_bf16};
use crate::quantise::{is_quantised, quantise_rows, restore_rows};
use crate::{Architecture, NamedTensors, TensorSpec, Weights, WeightsError};
use bytemuck::cast_slice;
use memmap2::Mmap;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;
use tandem_chess::checksum;

/// How a file begins. The line ends show whether it was sent as text.
pub(super) const MAGIC: &[u8; 8] = b"TTRAN\r\n\x1A";
const VERSION: u32 = 1;
/// Magic, version, length of the header.
const HEADER: usize = 16;
const CHECKSUM: usize = 8;
/// Numbers begin at multiples of this: a cache line.
const ALIGNMENT: usize = 64;
/// More bytes than a header should have.
const MAX_HEADER: usize = 1 << 24;
/// So much of a description is written.
const MAX_DESCRIPTION: usize = 1 << 19;

// Numbers are used where they lie.
const _: () =
    assert!(cfg!(target_endian = "little"), "network files are used in place, as little-endian machines do");

/// How a network's weights are stored. What little room is saved by, such as biases and norms, has 32 bits in every
/// file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Storage {
    /// Floating point of 32 bits.
    #[default]
    F32,
    /// The upper half of it.
    Bf16,
    /// Bytes, with a scale for each output of a layer.
    Int8,
}

impl Storage {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::Int8];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        }
    }
}

/// The numbers of a tensor, where they lie in the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stored<'a> {
    /// Floating point of 32 bits.
    F32(&'a [f32]),
    /// The upper halves of such numbers.
    Bf16(&'a [u16]),
    /// Bytes, and what one is worth in each row.
    Int8 {
        /// A row for each output.
        bytes: &'a [i8],
        /// A scale for each row.
        scales: &'a [f32],
    },
}

impl Stored<'_> {
    /// The numbers in full.
    pub fn to_f32(self) -> Vec<f32> {
        match self {
            Self::F32(numbers) => numbers.to_vec(),
            Self::Bf16(halves) => halves.iter().map(|&half| from_bf16(half)).collect(),
            Self::Int8 { bytes, scales } => restore_rows(bytes, scales),
        }
    }

    /// The first number that is none.
    fn not_finite(self) -> Option<(usize, f32)> {
        let none = |numbers: &[f32]| {
            let found = numbers.iter().position(|number| !number.is_finite());
            found.map(|index| (index, numbers[index]))
        };
        match self {
            Self::F32(numbers) => none(numbers),
            Self::Bf16(halves) => {
                let found = halves.iter().position(|&half| !from_bf16(half).is_finite());
                found.map(|index| (index, from_bf16(halves[index])))
            }
            Self::Int8 { scales, .. } => none(scales),
        }
    }
}

/// What a file says before its numbers.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    #[serde(default)]
    description: String,
    architecture: Architecture,
    tensors: Vec<Entry>,
}

/// A tensor in the header.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    storage: Storage,
    shape: Vec<usize>,
}

impl Entry {
    /// Bytes of the scales, if there are any, and of the numbers; none if there is no such number of them.
    fn sizes(&self) -> Option<[usize; 2]> {
        let numbers = self.shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))?;
        Some(match self.storage {
            Storage::F32 => [0, numbers.checked_mul(4)?],
            Storage::Bf16 => [0, numbers.checked_mul(2)?],
            Storage::Int8 => [self.shape.first()?.checked_mul(4)?, numbers],
        })
    }
}

/// A network file, used where it lies: mapped, or bytes from elsewhere that begin where an f32 can be read.
#[derive(Debug)]
pub struct NetworkFile<B = Mmap> {
    bytes: B,
    description: String,
    architecture: Architecture,
    tensors: Vec<(TensorSpec, Storage, [Range<usize>; 2])>,
}

impl NetworkFile {
    /// Opens a file and looks it through: it is whole, undamaged, and has the tensors that its architecture says.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        Self::new(map(path)?).map_err(|source| FileError::Load { path: path.into(), source })
    }
}

impl<B: AsRef<[u8]>> NetworkFile<B> {
    /// The same for bytes in memory. Nothing is set aside but for the header.
    pub fn new(file: B) -> Result<Self, LoadError> {
        let bytes = file.as_ref();
        let (header, mut at) = read_header(bytes)?;
        let Header { description, architecture, tensors: entries } = header;
        architecture.check().map_err(|error| LoadError::new("architecture", HEADER, error.to_string()))?;
        check_architecture(&architecture, None, entries.len(), HEADER)?;

        // 1. The header's tensors are the architecture's.
        let specs = architecture.tensors();
        for (spec, entry) in specs.iter().zip(&entries) {
            if spec.name != entry.name {
                let (name, expected) = (spec.name.clone(), spec.shape.clone());
                return Err(WeightsError::Missing { name, expected }.into());
            }
            if spec.shape != entry.shape {
                let (name, found, expected) = (entry.name.clone(), entry.shape.clone(), spec.shape.clone());
                return Err(WeightsError::Shape { name, found, expected }.into());
            }
            if entry.storage != Storage::F32 && !is_quantised(spec) {
                let problem = "only weights of layers have less than 32 bits";
                return Err(LoadError::new(format!("{} in the header", entry.name), HEADER, problem));
            }
        }
        match specs.len().cmp(&entries.len()) {
            std::cmp::Ordering::Less => {
                return Err(WeightsError::Unknown(entries[specs.len()].name.clone()).into());
            }
            std::cmp::Ordering::Greater => {
                let TensorSpec { name, shape: expected } = specs[entries.len()].clone();
                return Err(WeightsError::Missing { name, expected }.into());
            }
            std::cmp::Ordering::Equal => {}
        }
        // 2. Their numbers are there.
        let mut tensors = Vec::with_capacity(specs.len());
        for (spec, entry) in specs.into_iter().zip(entries) {
            let absurd =
                || LoadError::new(&entry.name, HEADER, format!("a shape of {:?} is absurd", entry.shape));
            let mut ranges = [0..0, 0..0];
            for (range, size) in ranges.iter_mut().zip(entry.sizes().ok_or_else(absurd)?) {
                let begin = next_line(at, size);
                let left = bytes.len().saturating_sub(CHECKSUM).saturating_sub(begin);
                if size > left {
                    let problem = format!("{size} bytes are needed, {left} are left in the file");
                    return Err(LoadError::new(&entry.name, begin.min(bytes.len()), problem));
                }
                if bytes[at..begin].iter().any(|&byte| byte != 0) {
                    return Err(LoadError::new("padding", at, format!("before {} is not zero", entry.name)));
                }
                at = begin + size;
                *range = begin..at;
            }
            tensors.push((spec, entry.storage, ranges));
        }
        // 3. Nothing follows, and all is as it was written.
        let more = bytes.len() - at;
        if more != CHECKSUM {
            return Err(LoadError::new("end of file", at, format!("{more} bytes follow, a checksum has 8")));
        }
        if bytes[at..] != checksum(&bytes[..at]).to_le_bytes() {
            return Err(LoadError::new("checksum", at, "does not fit: the file is damaged"));
        }
        if !bytes.as_ptr().addr().is_multiple_of(align_of::<f32>()) {
            return Err(LoadError::new(
                "magic",
                0,
                "the bytes do not begin where numbers can be read in place",
            ));
        }
        let opened = Self { description, architecture, tensors, bytes: file };
        // 4. Numbers are numbers, and none is larger than what a row's scale was made for.
        for ((spec, stored), (_, _, [_, numbers])) in opened.iter().zip(&opened.tensors) {
            if let Stored::Int8 { bytes, .. } = stored
                && let Some(index) = bytes.iter().position(|&byte| byte == i8::MIN)
            {
                let problem = "-128 found, where bytes are from -127 to 127";
                return Err(LoadError::new(spec.name.clone(), numbers.start + index, problem));
            }
            if let Some((index, value)) = stored.not_finite() {
                let (name, value) = (spec.name.clone(), value.to_string());
                return Err(WeightsError::NotFinite { name, index, value }.into());
            }
        }
        Ok(opened)
    }

    /// What the network is made of.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// Whatever its maker wrote about it.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// All tensors, in the architecture's order, where they lie in the file.
    pub fn iter(&self) -> impl Iterator<Item = (&TensorSpec, Stored<'_>)> {
        let bytes = self.bytes.as_ref();
        self.tensors.iter().map(move |(spec, storage, [scales, numbers])| {
            let numbers = &bytes[numbers.clone()];
            let stored = match storage {
                Storage::F32 => Stored::F32(cast_slice(numbers)),
                Storage::Bf16 => Stored::Bf16(cast_slice(numbers)),
                Storage::Int8 => {
                    Stored::Int8 { bytes: cast_slice(numbers), scales: cast_slice(&bytes[scales.clone()]) }
                }
            };
            (spec, stored)
        })
    }

    /// The numbers in full precision.
    pub fn to_weights(&self) -> Result<Weights, WeightsError> {
        let tensor = |(spec, stored): (&TensorSpec, Stored<'_>)| {
            (spec.name.clone(), (spec.shape.clone(), stored.to_f32()))
        };
        let tensors: NamedTensors = self.iter().map(tensor).collect();
        Weights::new(self.architecture.clone(), tensors)
    }
}

/// Reads a file into memory, wherever its bytes begin.
pub(super) fn read(bytes: &[u8]) -> Result<Weights, LoadError> {
    let mut copy = Vec::new();
    Ok(NetworkFile::new(in_place(bytes, &mut copy))?.to_weights()?)
}

/// Bytes that begin where numbers can be read in place: these, or a copy.
pub(super) fn in_place<'a>(bytes: &'a [u8], copy: &'a mut Vec<u64>) -> &'a [u8] {
    if bytes.as_ptr().addr().is_multiple_of(align_of::<f32>()) {
        return bytes;
    }
    copy.resize(bytes.len().div_ceil(8), 0);
    let copy = &mut bytemuck::cast_slice_mut::<u64, u8>(copy)[..bytes.len()];
    copy.copy_from_slice(bytes);
    copy
}

/// What the header says.
pub(super) fn describe(bytes: &[u8]) -> Result<FileDescription, LoadError> {
    let (Header { description, architecture, tensors }, _) = read_header(bytes)?;
    architecture.check().map_err(|error| LoadError::new("architecture", HEADER, error.to_string()))?;
    let is_there = |storage: &Storage| tensors.iter().any(|entry| entry.storage == *storage);
    let numbers: Vec<&str> = Storage::ALL.into_iter().rev().filter(is_there).map(Storage::name).collect();
    let (architecture, numbers) = (Some(architecture), numbers.join(" and "));
    Ok(FileDescription { format: Format::Tandem, architecture, description, numbers })
}

/// What stands before the numbers, and where it ends.
fn read_header(bytes: &[u8]) -> Result<(Header, usize), LoadError> {
    let field = |name: &str, range: Range<usize>| {
        let problem = || {
            format!(
                "{} bytes are needed, {} are left in the file",
                range.len(),
                bytes.len().saturating_sub(range.start)
            )
        };
        bytes.get(range.clone()).ok_or_else(|| LoadError::new(name, range.start.min(bytes.len()), problem()))
    };
    let word = |name: &str, at: usize| {
        field(name, at..at + 4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap_or_default()))
    };
    if field("magic", 0..MAGIC.len())? != MAGIC {
        return Err(LoadError::new("magic", 0, "this is no transformer of ours"));
    }
    let version = word("version", 8)?;
    if version != VERSION {
        return Err(LoadError::new("version", 8, format!("{version} found, {VERSION} expected")));
    }
    let len = word("header", 12)? as usize;
    if len > MAX_HEADER {
        return Err(LoadError::new("header", 12, format!("a length of {len} bytes is absurd")));
    }
    let text = field("header", HEADER..HEADER + len)?;
    let text = str::from_utf8(text).map_err(|error| LoadError::new("header", HEADER, error.to_string()))?;
    let header = toml::from_str(text).map_err(|error| LoadError::new("header", HEADER, error.message()))?;
    Ok((header, HEADER + len))
}

/// Where numbers begin after what ends at a place. What has no bytes takes no room.
fn next_line(at: usize, size: usize) -> usize {
    if size == 0 { at } else { at.next_multiple_of(ALIGNMENT) }
}

/// Puts the checksum right in a file that was changed. Only fuzzing and tests have a use for it.
pub fn reseal(bytes: &mut [u8]) {
    if let Some(end) = bytes.len().checked_sub(CHECKSUM) {
        let sum = checksum(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum.to_le_bytes());
    }
}

impl Weights {
    /// The network as a file of our own format, which [`NetworkFile`] uses in place and [`Self::from_bytes`] reads.
    pub fn to_bytes(&self, storage: Storage, description: &str) -> Vec<u8> {
        let of = |spec: &TensorSpec| if is_quantised(spec) { storage } else { Storage::F32 };
        let specs = self.architecture().tensors();
        let header = Header {
            description: description[..description.floor_char_boundary(MAX_DESCRIPTION)].into(),
            architecture: self.architecture().clone(),
            tensors: specs
                .iter()
                .map(|spec| Entry { name: spec.name.clone(), storage: of(spec), shape: spec.shape.clone() })
                .collect(),
        };
        // Every value of these types has a form in TOML, which is tested.
        let header = toml::to_string(&header).unwrap_or_default();
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((header.len() as u32).to_le_bytes());
        bytes.extend(header.as_bytes());
        let mut put = |numbers: &[u8]| {
            bytes.resize(next_line(bytes.len(), numbers.len()), 0);
            bytes.extend(numbers);
        };
        for (spec, numbers) in self.iter() {
            match of(&spec) {
                Storage::F32 => put(cast_slice(numbers)),
                Storage::Bf16 => {
                    // What rounds to infinity could not be read again.
                    let half = |number: &f32| to_bf16(number.clamp(-LARGEST_BF16, LARGEST_BF16));
                    let halves: Vec<u16> = numbers.iter().map(half).collect();
                    put(cast_slice(&halves));
                }
                Storage::Int8 => {
                    let (rows, scales) = quantise_rows(numbers, spec.shape[0], spec.shape[1]);
                    put(cast_slice(&scales));
                    put(cast_slice(&rows));
                }
            }
        }
        bytes.extend(checksum(&bytes).to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests;
