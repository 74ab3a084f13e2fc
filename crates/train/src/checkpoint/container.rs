//! The container of a checkpoint: a safetensors file with tensors in 32-bit floats, and text as metadata.

use super::CheckpointError;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use tandem_util::output;

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
    metadata: Metadata,
    tensors: impl IntoIterator<Item = (&'a str, &'a [f32])>,
) -> Result<(), CheckpointError> {
    let damaged = |problem: String| CheckpointError::Damaged { path: path.into(), problem };
    let mut views = Vec::new();
    for (name, values) in tensors.into_iter().filter(|(_, values)| !values.is_empty()) {
        let view = TensorView::new(Dtype::F32, vec![values.len()], bytemuck::cast_slice(values));
        views.push((name, view.map_err(|error| damaged(error.to_string()))?));
    }
    let bytes =
        safetensors::serialize(views, Some(metadata.0)).map_err(|error| damaged(error.to_string()))?;
    let bytes = tandem_nnue::with_sorted_header(bytes);
    output::write_atomically(path, &bytes).map_err(|source| CheckpointError::Io { path: path.into(), source })
}

/// Reads all tensors of a checkpoint of the expected kind, by name, with its metadata.
pub(super) fn read_tensors(
    bytes: &[u8],
    kind: &str,
) -> Result<(Metadata, BTreeMap<String, Vec<f32>>), String> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| error.to_string())?;
    let metadata = Metadata(header.metadata().clone().unwrap_or_default());
    if metadata.get("kind")? != kind {
        return Err(format!("its kind is {:?}, not {kind:?}", metadata.get("kind")?));
    }
    let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut tensors = BTreeMap::new();
    for (name, tensor) in file.tensors() {
        if tensor.dtype() != Dtype::F32 {
            return Err(format!("{name} has values of another type"));
        }
        tensors.insert(name, bytemuck::pod_collect_to_vec(tensor.data()));
    }
    Ok((metadata, tensors))
}
