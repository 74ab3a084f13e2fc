//! The container of a checkpoint: a safetensors file with tensors in 32-bit floats, and text as metadata.
//!
//! One entry of the metadata is a checksum over the whole file, with zeros in place of its own digits, so that
//! the file stays one that every reader of safetensors accepts. Files of versions before November 2026 have no
//! checksum and are read without one.

use super::CheckpointError;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use tandem_util::checksum::checksum;
use tandem_util::output;

/// Start of the metadata entry that holds the checksum. A quotation mark within a name or a text is escaped in
/// JSON, so these bytes begin this entry and no other.
const CHECKSUM_ENTRY: &[u8] = b"\"checksum\":\"";
/// Hexadecimal digits of the checksum.
const CHECKSUM_DIGITS: usize = 16;
/// Names of all metadata entries. An unknown one is refused, because damage may have changed the name of the
/// checksum, and the file would pass for one without.
const ENTRIES: [&str; 8] =
    ["kind", "step", "averaged", "dropout", "recipe", "architecture", "standing", "checksum"];

/// Text metadata of a checkpoint file, by name.
pub(super) struct Metadata(HashMap<String, String>);

impl Metadata {
    pub(super) fn new(kind: &str) -> Self {
        Self(HashMap::from([("kind".to_owned(), kind.to_owned())]))
    }

    pub(super) fn set(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), value);
    }

    pub(super) fn find(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn get(&self, name: &str) -> Result<&str, String> {
        self.find(name).ok_or_else(|| format!("it has no {name}"))
    }

    pub(super) fn integer(&self, name: &str) -> Result<u64, String> {
        self.get(name)?.parse().map_err(|_| format!("its {name} is not a number"))
    }

    pub(super) fn json<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, String> {
        serde_json::from_str(self.get(name)?).map_err(|error| error.to_string())
    }
}

/// Writes tensors and metadata atomically: the file is complete or absent. Empty tensors are left out.
pub(super) fn write_tensors<'a>(
    path: &Path,
    mut metadata: Metadata,
    tensors: impl IntoIterator<Item = (&'a str, &'a [f32])>,
) -> Result<(), CheckpointError> {
    let damaged = |problem: String| CheckpointError::Damaged { path: path.into(), problem };
    let mut views = Vec::new();
    for (name, values) in tensors.into_iter().filter(|(_, values)| !values.is_empty()) {
        let view = TensorView::new(Dtype::F32, vec![values.len()], bytemuck::cast_slice(values));
        views.push((name, view.map_err(|error| damaged(error.to_string()))?));
    }
    metadata.set("checksum", "0".repeat(CHECKSUM_DIGITS));
    let bytes =
        safetensors::serialize(views, Some(metadata.0)).map_err(|error| damaged(error.to_string()))?;
    let mut bytes = tandem_nnue::with_sorted_header(bytes);
    let digits = checksum_digits(&bytes).ok_or_else(|| damaged("no place for its checksum".into()))?;
    let sum = format!("{:016x}", checksum(&bytes));
    bytes[digits].copy_from_slice(sum.as_bytes());
    output::write_atomically(path, &bytes).map_err(|source| CheckpointError::Io { path: path.into(), source })
}

/// Place of the digits of the checksum in a file, if it has one.
fn checksum_digits(bytes: &[u8]) -> Option<Range<usize>> {
    let (len, rest) = bytes.split_first_chunk::<8>()?;
    let header = rest.get(..usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
    let entry = header.windows(CHECKSUM_ENTRY.len()).position(|window| window == CHECKSUM_ENTRY)?;
    let start = len.len() + entry + CHECKSUM_ENTRY.len();
    (start + CHECKSUM_DIGITS <= bytes.len()).then_some(start..start + CHECKSUM_DIGITS)
}

/// Compares a file with its checksum. Returns false if it has none, as in earlier versions.
fn verify_checksum(bytes: &mut [u8]) -> Result<bool, String> {
    let Some(digits) = checksum_digits(bytes) else { return Ok(false) };
    let stated = bytes[digits.clone()].to_vec();
    bytes[digits].fill(b'0');
    let sum = format!("{:016x}", checksum(bytes));
    if stated == sum.as_bytes() {
        return Ok(true);
    }
    Err(format!("damaged: its checksum is {sum}, not {} as it says", String::from_utf8_lossy(&stated)))
}

/// Contents of a checkpoint file.
pub(super) struct Contents {
    pub(super) metadata: Metadata,
    /// Tensors by name.
    pub(super) tensors: BTreeMap<String, Vec<f32>>,
    /// False for files of earlier versions, in which damage may go unnoticed.
    pub(super) has_checksum: bool,
}

/// Reads all tensors of a checkpoint of the expected kind, with its metadata. The digits of the checksum are
/// overwritten.
pub(super) fn read_tensors(bytes: &mut [u8], kind: &str) -> Result<Contents, String> {
    let has_checksum = verify_checksum(bytes)?;
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| error.to_string())?;
    let metadata = Metadata(header.metadata().clone().unwrap_or_default());
    if metadata.get("kind")? != kind {
        return Err(format!("its kind is {:?}, not {kind:?}", metadata.get("kind")?));
    }
    if let Some(unknown) = metadata.0.keys().find(|name| !ENTRIES.contains(&name.as_str())) {
        return Err(format!("damaged, or of a later version: its metadata has an entry {unknown:?}"));
    }
    let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut tensors = BTreeMap::new();
    for (name, tensor) in file.tensors() {
        if tensor.dtype() != Dtype::F32 {
            return Err(format!("{name} has values of another type"));
        }
        tensors.insert(name, bytemuck::pod_collect_to_vec(tensor.data()));
    }
    Ok(Contents { metadata, tensors, has_checksum })
}
