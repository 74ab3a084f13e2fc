//! The `.ttn` format: a header in TOML, then the tensors, aligned so that they can be used in place.
//! `docs/formats.md` specifies it for other programs.

use super::{FileDescription, FileError, Format, LoadError, check_architecture, map};
use crate::floats::{LARGEST_BF16, from_bf16, to_bf16};
use crate::int8::{quantise_rows, restore_rows};
use crate::quantise::is_quantised;
use crate::{Architecture, NamedTensors, TensorSpec, Weights, WeightsError};
use bytemuck::cast_slice;
use memmap2::Mmap;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;
use tandem_util::checksum::checksum;

/// First bytes of a file. The line ends reveal transfers in text mode.
pub(super) const MAGIC: &[u8; 8] = b"TTRAN\r\n\x1A";
const VERSION: u32 = 1;
/// Bytes of magic, version and header length.
const HEADER: usize = 16;
const CHECKSUM: usize = 8;
/// Tensors begin at multiples of this, a cache line.
const ALIGNMENT: usize = 64;
/// Longest header that is read, in bytes.
const MAX_HEADER: usize = 1 << 24;
/// Longest description that is written, in bytes; the rest is cut off.
const MAX_DESCRIPTION: usize = 1 << 19;

// Tensors are used in place, in the byte order of the file.
const _: () =
    assert!(cfg!(target_endian = "little"), "network files are used in place, as little-endian machines do");

/// Number format of a network's weights in a file. Small tensors, such as biases and norms, are f32 in every
/// file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Storage {
    /// 32-bit floating point, four bytes for each parameter; nothing is lost.
    #[default]
    F32,
    /// bfloat16, the upper half of an f32: two bytes for each parameter, 8 bits of precision.
    Bf16,
    /// int8 with a scale for each output of a layer.
    Int8,
}

impl Storage {
    /// All formats, from four bytes for each parameter to one.
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::Int8];

    /// Name in options and messages: `f32`, `bf16` or `int8`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        }
    }
}

/// Elements of a tensor, in place in the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stored<'a> {
    /// 32-bit floating point, as all small tensors are stored.
    F32(&'a [f32]),
    /// bfloat16, the upper halves of f32 values; appending 16 zero bits restores them.
    Bf16(&'a [u16]),
    /// int8 with a scale for each row: an element is its byte times the scale.
    Int8 {
        /// Elements in row-major order, a row for each output.
        bytes: &'a [i8],
        /// Scale of each row, which is zero if the row is.
        scales: &'a [f32],
    },
}

impl Stored<'_> {
    /// All elements in full precision, dequantised if they are stored in fewer bits.
    pub fn to_f32(self) -> Vec<f32> {
        match self {
            Self::F32(values) => values.to_vec(),
            Self::Bf16(halves) => halves.iter().map(|&half| from_bf16(half)).collect(),
            Self::Int8 { bytes, scales } => restore_rows(bytes, scales),
        }
    }

    /// Index and value of the first element or scale that is infinite or NaN.
    fn not_finite(self) -> Option<(usize, f32)> {
        let none = |values: &[f32]| {
            let found = values.iter().position(|number| !number.is_finite());
            found.map(|index| (index, values[index]))
        };
        match self {
            Self::F32(values) => none(values),
            Self::Bf16(halves) => {
                let found = halves.iter().position(|&half| !from_bf16(half).is_finite());
                found.map(|index| (index, from_bf16(halves[index])))
            }
            Self::Int8 { scales, .. } => none(scales),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    #[serde(default)]
    description: String,
    architecture: Architecture,
    tensors: Vec<Entry>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    storage: Storage,
    shape: Vec<usize>,
}

impl Entry {
    /// Bytes of the scales and of the elements; `None` if they overflow.
    fn sizes(&self) -> Option<[usize; 2]> {
        let values = self.shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))?;
        Some(match self.storage {
            Storage::F32 => [0, values.checked_mul(4)?],
            Storage::Bf16 => [0, values.checked_mul(2)?],
            Storage::Int8 => [self.shape.first()?.checked_mul(4)?, values],
        })
    }
}

/// A `.ttn` file that is used in place: mapped, or bytes from elsewhere that are aligned for f32.
#[derive(Debug)]
pub struct NetworkFile<B = Mmap> {
    bytes: B,
    description: String,
    architecture: Architecture,
    tensors: Vec<(TensorSpec, Storage, [Range<usize>; 2])>,
}

impl NetworkFile {
    /// Memory-maps a `.ttn` file, and verifies its header and all of its tensors.
    ///
    /// # Errors
    /// If the file cannot be opened, is truncated or damaged, or lacks tensors of its architecture.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        Self::new(map(path)?).map_err(|source| FileError::Load { path: path.into(), source })
    }
}

impl<B: AsRef<[u8]>> NetworkFile<B> {
    /// Verifies bytes in memory. Allocates only for the header.
    ///
    /// # Errors
    /// If the bytes are truncated, damaged or not aligned, or lack tensors of their architecture.
    pub fn new(file: B) -> Result<Self, LoadError> {
        let bytes = file.as_ref();
        let (header, mut at) = read_header(bytes)?;
        let Header { description, architecture, tensors: entries } = header;
        architecture.check().map_err(|error| LoadError::new("architecture", HEADER, error.to_string()))?;
        check_architecture(&architecture, None, entries.len(), HEADER)?;

        // 1. The header lists the tensors of the architecture.
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
        // 2. Their elements are in the file.
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
        // 3. Nothing follows but the checksum, which fits.
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
                "the bytes do not begin where values can be read in place",
            ));
        }
        let opened = Self { description, architecture, tensors, bytes: file };
        // 4. Elements are finite, and int8 values are in their symmetric range.
        for ((spec, stored), (_, _, [_, values])) in opened.iter().zip(&opened.tensors) {
            if let Stored::Int8 { bytes, .. } = stored
                && let Some(index) = bytes.iter().position(|&byte| byte == i8::MIN)
            {
                let problem = "-128 found, where bytes are from -127 to 127";
                return Err(LoadError::new(spec.name.clone(), values.start + index, problem));
            }
            if let Some((index, value)) = stored.not_finite() {
                let (name, value) = (spec.name.clone(), value.to_string());
                return Err(WeightsError::NotFinite { name, index, value }.into());
            }
        }
        Ok(opened)
    }

    /// The architecture in the header, which was checked on opening.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// Free text of the author; may be empty.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// All tensors, in the architecture's order, in place in the file.
    pub fn iter(&self) -> impl Iterator<Item = (&TensorSpec, Stored<'_>)> {
        let bytes = self.bytes.as_ref();
        self.tensors.iter().map(move |(spec, storage, [scales, values])| {
            let values = &bytes[values.clone()];
            let stored = match storage {
                Storage::F32 => Stored::F32(cast_slice(values)),
                Storage::Bf16 => Stored::Bf16(cast_slice(values)),
                Storage::Int8 => {
                    Stored::Int8 { bytes: cast_slice(values), scales: cast_slice(&bytes[scales.clone()]) }
                }
            };
            (spec, stored)
        })
    }

    /// All tensors as 32-bit floats; bfloat16 and int8 tensors are expanded.
    ///
    /// # Errors
    /// If dequantisation overflows to infinity; all else was verified on opening.
    pub fn to_weights(&self) -> Result<Weights, WeightsError> {
        let tensor = |(spec, stored): (&TensorSpec, Stored<'_>)| {
            (spec.name.clone(), (spec.shape.clone(), stored.to_f32()))
        };
        let tensors: NamedTensors = self.iter().map(tensor).collect();
        Weights::new(self.architecture.clone(), tensors)
    }
}

/// Reads a file from bytes at any alignment.
pub(super) fn read(bytes: &[u8]) -> Result<Weights, LoadError> {
    let mut copy = Vec::new();
    Ok(NetworkFile::new(in_place(bytes, &mut copy))?.to_weights()?)
}

/// The bytes themselves if they are aligned for f32, or else an aligned copy.
pub(super) fn in_place<'a>(bytes: &'a [u8], copy: &'a mut Vec<u64>) -> &'a [u8] {
    if bytes.as_ptr().addr().is_multiple_of(align_of::<f32>()) {
        return bytes;
    }
    copy.resize(bytes.len().div_ceil(8), 0);
    let copy = &mut bytemuck::cast_slice_mut::<u64, u8>(copy)[..bytes.len()];
    copy.copy_from_slice(bytes);
    copy
}

/// Describes a file by its header.
pub(super) fn describe(bytes: &[u8]) -> Result<FileDescription, LoadError> {
    let (Header { description, architecture, tensors }, _) = read_header(bytes)?;
    architecture.check().map_err(|error| LoadError::new("architecture", HEADER, error.to_string()))?;
    let is_there = |storage: &Storage| tensors.iter().any(|entry| entry.storage == *storage);
    let dtypes: Vec<&str> = Storage::ALL.into_iter().rev().filter(is_there).map(Storage::name).collect();
    let (architecture, dtypes) = (Some(architecture), dtypes.join(" and "));
    Ok(FileDescription { format: Format::Tandem, architecture, description, dtypes })
}

/// Parses the header, and returns it with the offset of its end.
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
        return Err(LoadError::new("magic", 0, "this is not a transformer file of ours"));
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

/// Offset of a tensor after one that ends at `at`. An empty tensor needs no padding.
fn next_line(at: usize, size: usize) -> usize {
    if size == 0 { at } else { at.next_multiple_of(ALIGNMENT) }
}

/// Recomputes the checksum of a file that was changed, for fuzzing and tests.
pub fn reseal(bytes: &mut [u8]) {
    if let Some(end) = bytes.len().checked_sub(CHECKSUM) {
        let sum = checksum(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum.to_le_bytes());
    }
}

impl Weights {
    /// The network in the `.ttn` format, which [`NetworkFile`] uses in place and [`Self::from_bytes`] reads.
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
        // Every value of these types can be written as TOML, which is tested.
        let header = toml::to_string(&header).unwrap_or_default();
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((header.len() as u32).to_le_bytes());
        bytes.extend(header.as_bytes());
        let mut put = |values: &[u8]| {
            bytes.resize(next_line(bytes.len(), values.len()), 0);
            bytes.extend(values);
        };
        for (spec, values) in self.iter() {
            match of(&spec) {
                Storage::F32 => put(cast_slice(values)),
                Storage::Bf16 => {
                    // Values that round to infinity could not be read again.
                    let half = |number: &f32| to_bf16(number.clamp(-LARGEST_BF16, LARGEST_BF16));
                    let halves: Vec<u16> = values.iter().map(half).collect();
                    put(cast_slice(&halves));
                }
                Storage::Int8 => {
                    let (rows, scales) = quantise_rows(values, spec.shape[0], spec.shape[1]);
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
