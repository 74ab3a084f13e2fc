//! Networks as safetensors: all tensors of the architecture, and the architecture itself in the metadata.

use super::{FileDescription, Format, LoadError, check_architecture};
use crate::floats::{from_bf16, from_f16};
use crate::{Architecture, NamedTensors, TensorSpec, Weights, WeightsError};
use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashMap};

/// Offset of the header, which follows its length.
const HEADER: usize = 8;
const FORMAT: &str = "format";
const ARCHITECTURE: &str = "architecture";
const DESCRIPTION: &str = "description";
/// Value of the `format` key in files of this project.
const OURS: &str = "tandem-transformer-1";

impl Weights {
    /// The network as a safetensors file of f32 tensors with its architecture. The same network always gives
    /// the same bytes.
    pub fn to_safetensors(&self, description: &str) -> Vec<u8> {
        let metadata =
            json!({ FORMAT: OURS, ARCHITECTURE: self.architecture().to_toml(), DESCRIPTION: description });
        let mut header = Map::new();
        header.insert("__metadata__".into(), metadata);
        let mut end = 0;
        for (TensorSpec { name, shape }, values) in self.iter() {
            let begin = end;
            end += 4 * values.len();
            header.insert(name, json!({ "dtype": "F32", "shape": shape, "data_offsets": [begin, end] }));
        }
        let mut header = Value::Object(header).to_string().into_bytes();
        // Aligns the tensors.
        header.resize(header.len().next_multiple_of(8), b' ');

        let mut bytes = Vec::with_capacity(HEADER + header.len() + end);
        bytes.extend((header.len() as u64).to_le_bytes());
        bytes.extend(header);
        for (_, values) in self.iter() {
            bytes.extend(values.iter().flat_map(|number| number.to_le_bytes()));
        }
        bytes
    }

    /// Reads a safetensors file of f32, f16 or bf16 tensors. `given` is needed if the metadata has no
    /// architecture, and must be equal to it if it does.
    ///
    /// # Errors
    /// If the file is malformed, has tensors of other names, shapes or types than the architecture, or does
    /// not match `given`.
    pub fn from_safetensors(bytes: &[u8], given: Option<&Architecture>) -> Result<Self, LoadError> {
        let (header_len, header) = SafeTensors::read_metadata(bytes).map_err(broken)?;
        let file = SafeTensors::deserialize(bytes).map_err(broken)?;
        let architecture = match header.metadata() {
            Some(metadata) => described(metadata)?,
            None => None,
        };
        let Some(architecture) = architecture.as_ref().or(given) else {
            let problem = "the metadata has none, so one must be given";
            return Err(LoadError::new(ARCHITECTURE, HEADER, problem));
        };
        check_architecture(architecture, given, file.len(), HEADER)?;

        // All tensors are checked before memory is allocated.
        let specs = architecture.tensors();
        let mut views = Vec::new();
        for TensorSpec { name, shape: expected } in &specs {
            let Ok(view) = file.tensor(name) else {
                return Err(WeightsError::Missing { name: name.clone(), expected: expected.clone() }.into());
            };
            if view.shape() != expected {
                let (name, found) = (name.clone(), view.shape().to_vec());
                return Err(WeightsError::Shape { name, found, expected: expected.clone() }.into());
            }
            if !matches!(view.dtype(), Dtype::F32 | Dtype::F16 | Dtype::BF16) {
                let begin = header.info(name).map_or(0, |info| info.data_offsets.0);
                let problem = format!("values of type {:?}; F32, F16 and BF16 can be read", view.dtype());
                return Err(LoadError::new(name, HEADER + header_len + begin, problem));
            }
            views.push(view);
        }
        if file.len() > specs.len() {
            let known = |name: &str| specs.iter().any(|spec| spec.name == name);
            if let Some(other) = file.names().into_iter().filter(|name| !known(name)).min() {
                return Err(WeightsError::Unknown(other.to_owned()).into());
            }
        }
        let read = |(spec, view): (TensorSpec, TensorView<'_>)| (spec.name, (spec.shape, values(&view)));
        let tensors: NamedTensors = specs.into_iter().zip(views).map(read).collect();
        Ok(Self::new(architecture.clone(), tensors)?)
    }
}

fn broken(error: SafeTensorError) -> LoadError {
    LoadError::new("safetensors", 0, error.to_string())
}

/// Describes a file by its header.
pub(super) fn describe(bytes: &[u8]) -> Result<FileDescription, LoadError> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(broken)?;
    let kinds: BTreeSet<String> =
        header.tensors().values().map(|info| format!("{:?}", info.dtype).to_lowercase()).collect();
    let metadata = header.metadata().as_ref();
    // Networks of other kinds use other keys.
    let ours = metadata.filter(|metadata| metadata.contains_key(ARCHITECTURE));
    Ok(FileDescription {
        format: Format::Safetensors,
        architecture: ours.map(described).transpose()?.flatten(),
        description: metadata.and_then(|metadata| metadata.get(DESCRIPTION).cloned()).unwrap_or_default(),
        dtypes: kinds.into_iter().collect::<Vec<_>>().join(" and "),
    })
}

/// The architecture in the metadata, if there is one.
fn described(metadata: &HashMap<String, String>) -> Result<Option<Architecture>, LoadError> {
    if let Some(format) =
        metadata.get(FORMAT).filter(|format| format.starts_with("tandem") && *format != OURS)
    {
        return Err(LoadError::new(FORMAT, HEADER, format!("{format:?} found, {OURS:?} expected")));
    }
    let Some(text) = metadata.get(ARCHITECTURE) else { return Ok(None) };
    let parsed = Architecture::from_toml(text);
    parsed.map(Some).map_err(|error| LoadError::new(ARCHITECTURE, HEADER, error.to_string()))
}

fn values(view: &TensorView<'_>) -> Vec<f32> {
    let halves = || view.data().as_chunks::<2>().0.iter().map(|&bytes| u16::from_le_bytes(bytes));
    match view.dtype() {
        Dtype::F16 => halves().map(from_f16).collect(),
        Dtype::BF16 => halves().map(from_bf16).collect(),
        _ => view.data().as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    fn network() -> Weights {
        Weights::random(Preset::Byte.architecture(), 7)
    }

    #[test]
    fn written_networks_are_read_back() {
        let weights = network();
        let bytes = weights.to_safetensors("a test");
        assert_eq!(Weights::from_bytes(&bytes, None).unwrap(), weights);
        assert_eq!(Weights::from_bytes(&bytes, Some(weights.architecture())).unwrap(), weights);
        assert_eq!(weights.to_safetensors("a test"), bytes);
        let error_of = |change: &dyn Fn(&mut Architecture)| {
            let mut other = weights.architecture().clone();
            change(&mut other);
            Weights::from_bytes(&bytes, Some(&other)).unwrap_err().to_string()
        };
        let wider = error_of(&|other| other.body.width = 128);
        let expected = "architecture at byte 8: another one than was given: tensor embedding.table is [1968, 64], [1968, 128] \
                        was given";
        assert_eq!(wider, expected);
        assert!(
            error_of(&|other| other.body.norm.last = false).contains("it has tensor last_norm.scale where")
        );
        let error = error_of(&|other| other.body.heads = 2);
        assert!(
            error.ends_with("not what is done with them: it has heads = 4 where heads = 2 was given"),
            "{error}"
        );
    }

    /// A file without metadata, its tensors in 16 bits.
    fn foreign(weights: &Weights, dtype: Dtype, half: impl Fn(f32) -> u16) -> Vec<u8> {
        let halves = |values: &[f32]| values.iter().flat_map(|&number| half(number).to_le_bytes()).collect();
        let data: Vec<(TensorSpec, Vec<u8>)> =
            weights.iter().map(|(spec, values)| (spec, halves(values))).collect();
        let views = data.iter().map(|(spec, data)| {
            (spec.name.clone(), TensorView::new(dtype, spec.shape.clone(), data).unwrap())
        });
        safetensors::serialize(views, None).unwrap()
    }

    #[test]
    fn sixteen_bit_files_without_metadata_are_read() {
        let weights = network();
        let bytes = foreign(&weights, Dtype::BF16, crate::floats::to_bf16);
        let read = Weights::from_safetensors(&bytes, Some(weights.architecture())).unwrap();
        for ((spec, exact), (_, near)) in weights.iter().zip(read.iter()) {
            let worst = exact.iter().zip(near).map(|(exact, near)| (exact - near).abs()).fold(0.0, f32::max);
            assert!(worst < 0.005, "{}: {worst}", spec.name);
        }
        let error = Weights::from_safetensors(&bytes, None).unwrap_err().to_string();
        assert_eq!(error, "architecture at byte 8: the metadata has none, so one must be given");
        let infinite = foreign(&weights, Dtype::F16, |_| 0x7C00);
        let error =
            Weights::from_safetensors(&infinite, Some(weights.architecture())).unwrap_err().to_string();
        assert_eq!(error, "tensor embedding.table: number 0 is inf");
    }

    #[test]
    fn mismatches_are_reported_by_name() {
        let bytes = network().to_safetensors("");
        for len in [0, 7, 8, 9, 40, 1000, bytes.len() - 1] {
            assert!(Weights::from_safetensors(&bytes[..len], None).is_err(), "{len} bytes");
        }
        let with = |from: &str, to: &str| {
            assert_eq!(from.len(), to.len());
            let mut changed = bytes.clone();
            let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
            changed[at..at + from.len()].copy_from_slice(to.as_bytes());
            Weights::from_safetensors(&changed, None).unwrap_err().to_string()
        };
        let error = with("\"layers.3.router.weight\"", "\"layers.9.router.weight\"");
        assert_eq!(error, "tensor layers.3.router.weight is missing; the architecture has it as [8, 64]");
        let error = with("\"shape\":[1968,64]", "\"shape\":[64,1968]");
        assert_eq!(error, "tensor embedding.table is [64, 1968], but the architecture has it as [1968, 64]");
        let error = with("count = 8", "count = 9");
        assert_eq!(error, "tensor layers.0.router.weight is [8, 64], but the architecture has it as [9, 64]");
        let error = with("layers = 4\\nheads = 4", "layers= 200\\nheads =4");
        assert!(error.contains("architecture at byte 8: has at least 4000 tensors, the file has"), "{error}");
        assert!(with("tandem-transformer-1", "tandem-transformer-9").contains("format at byte 8"));
        assert!(with("\"dtype\":\"F32\"", "\"dtype\":\"I32\"").contains("values of type I32"));
    }
}
