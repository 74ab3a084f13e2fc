//! Networks in floating point as safetensors: one tensor each for a layer's weights and biases, and the
//! architecture in the metadata. `docs/formats.md` lists the names.

use super::header::{Header, header_lines};
use super::reader::bounded;
use super::{FieldReader, LoadError, NetworkError, read_file};
use crate::architecture::{Architecture, ArchitectureError};
use crate::float::{FloatNetwork, tensor_shapes};
use crate::inputs::Inputs;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The metadata entry that identifies the format and its version.
const FORMAT: (&str, &str) = ("format", "tandem-nnue-1");

/// Offset of the header in the file, after its length.
const HEADER: usize = 8;

impl<I: Inputs> FloatNetwork<I> {
    /// Writes the network as a safetensors file, with its architecture in the metadata.
    ///
    /// # Errors
    /// The network fails [`Self::check`], for example because a tensor has the wrong length.
    pub fn to_safetensors(&self) -> Result<Vec<u8>, ArchitectureError> {
        self.check()?;
        let mut metadata: HashMap<String, String> =
            header_lines(&self.architecture).into_iter().map(|(key, value)| (key.into(), value)).collect();
        metadata.insert(FORMAT.0.into(), FORMAT.1.into());
        metadata.insert("scale".into(), self.scale.to_string());
        metadata.insert("pawn".into(), self.pawn.to_string());
        metadata.insert("description".into(), bounded(&self.description).to_owned());

        let tensors = tensor_shapes(&self.architecture);
        let little = |numbers: &Vec<f32>| -> Vec<u8> {
            numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
        };
        let bytes: Vec<Vec<u8>> = self.parameters().into_iter().map(little).collect();
        let views = tensors.into_iter().zip(&bytes).map(|((name, shape), bytes)| {
            let view = TensorView::new(Dtype::F32, shape, bytes);
            (name, view.expect("check() has counted the parameters"))
        });
        let bytes =
            safetensors::serialize(views, Some(metadata)).expect("tensors of distinct names can be written");
        Ok(with_sorted_header(bytes))
    }

    /// Reads a safetensors file of a network with the given inputs, which need not be chess.
    ///
    /// # Errors
    /// The file is damaged, its architecture has other inputs, or a tensor is missing, superfluous or not
    /// finite.
    pub fn from_safetensors_as(bytes: &[u8], inputs: I) -> Result<Self, LoadError> {
        Self::read(bytes, |header| header.architecture_as(inputs))
    }

    fn read(
        bytes: &[u8],
        architecture: impl FnOnce(&mut Header) -> Result<Architecture<I>, LoadError>,
    ) -> Result<Self, LoadError> {
        let broken =
            |error: safetensors::SafeTensorError| FieldReader::error("safetensors", 0, error.to_string());
        let (header_len, tensor_info) = SafeTensors::read_metadata(bytes).map_err(broken)?;
        let file = SafeTensors::deserialize(bytes).map_err(broken)?;
        let metadata = tensor_info.metadata().clone().unwrap_or_default();
        let mut header = Header::new(metadata.into_iter().collect(), HEADER);
        // Offset of a tensor's data; a missing tensor is reported at the header.
        let place = |name: &str| {
            tensor_info.info(name).map_or(HEADER, |info| HEADER + header_len + info.data_offsets.0)
        };
        let format = header.take(FORMAT.0)?;
        if format != FORMAT.1 {
            return Err(header.error(FORMAT.0, format!("{format:?} found, {:?} expected", FORMAT.1)));
        }
        let architecture = architecture(&mut header)?;
        let (scale, pawn) = header.units(&architecture, true)?;
        let description = header.take("description").unwrap_or_default();
        header.end()?;

        // Everything is checked before memory is allocated.
        let tensors = tensor_shapes(&architecture);
        for (name, shape) in &tensors {
            let tensor =
                file.tensor(name).map_err(|_| FieldReader::error(name, HEADER, "this tensor is missing"))?;
            if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
                let (found, dtype) = (tensor.shape(), tensor.dtype());
                let problem = format!("{dtype:?} {found:?} found, F32 {shape:?} expected");
                return Err(FieldReader::error(name, place(name), problem));
            }
        }
        if let Some(other) =
            file.names().into_iter().find(|&name| tensors.iter().all(|(known, _)| known != name))
        {
            return Err(FieldReader::error(other, place(other), "the architecture has no such tensor"));
        }
        let mut network = Self::zeroed(architecture, scale, pawn);
        network.description = description;
        for ((name, _), numbers) in tensors.iter().zip(network.parameters_mut()) {
            let tensor = file.tensor(name).map_err(broken)?;
            let stored = tensor.data().as_chunks::<4>().0;
            *numbers = stored.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
            if let Some(index) = numbers.iter().position(|number| !number.is_finite()) {
                let problem = format!("number {index} is {}", numbers[index]);
                return Err(FieldReader::error(name, place(name) + 4 * index, problem));
            }
        }
        Ok(network)
    }
}

impl FloatNetwork {
    /// Reads a safetensors file of a chess network.
    ///
    /// # Errors
    /// The file is damaged, its feature set is unknown, or a tensor is missing, superfluous or not finite.
    pub fn from_safetensors(bytes: &[u8]) -> Result<Self, LoadError> {
        Self::read(bytes, Header::architecture)
    }

    /// Reads a safetensors file of a chess network from disk.
    ///
    /// # Errors
    /// The file cannot be read, or is not such a network.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, NetworkError> {
        let path = path.as_ref();
        let bytes =
            read_file(path).map_err(|source| NetworkError::Io { path: path.to_path_buf(), source })?;
        Self::from_safetensors(&bytes)
            .map_err(|source| NetworkError::Load { path: path.to_path_buf(), source })
    }
}

/// Sorts the keys in the header of a safetensors file and returns the file. The library writes them in random
/// order, but equal networks should give equal files.
pub fn with_sorted_header(mut bytes: Vec<u8>) -> Vec<u8> {
    let len = bytes.first_chunk().map_or(0, |len| u64::from_le_bytes(*len) as usize);
    let Some(header) = bytes.get_mut(HEADER..HEADER.saturating_add(len)) else { return bytes };
    let sorted = serde_json::from_slice::<BTreeMap<String, serde_json::Value>>(header);
    let sorted = sorted.and_then(|sorted| serde_json::to_vec(&sorted)).unwrap_or_default();
    // The sorted header is as long as the original; the padding stays behind it.
    if !sorted.is_empty() && sorted.len() <= header.len() {
        header[..sorted.len()].copy_from_slice(&sorted);
        header[sorted.len()..].fill(b' ');
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::FeatureSet;
    use crate::test_nets;

    #[test]
    fn float_networks_survive_a_round_trip() {
        for network in [
            test_nets::flat(FeatureSet::plain(), 32, 1),
            test_nets::stacks(FeatureSet::plain(), 64, 2),
            test_nets::untied(FeatureSet::plain(), 32, 3),
        ] {
            let float = network.to_float();
            let bytes = float.to_safetensors().unwrap();
            assert_eq!(FloatNetwork::from_safetensors(&bytes).unwrap(), float);
            let error = crate::Network::from_bytes(&bytes).unwrap_err();
            assert!(error.problem.contains("quantise it first"), "{error}");
        }
    }

    #[test]
    fn missing_and_superfluous_tensors_are_named() {
        let bytes = test_nets::flat(FeatureSet::plain(), 32, 1).to_float().to_safetensors().unwrap();
        for len in [0, 7, 8, 40, 1000, bytes.len() - 1] {
            assert!(FloatNetwork::from_safetensors(&bytes[..len]).is_err(), "{len} bytes");
        }
        let with = |from: &str, to: &str| {
            let mut changed = bytes.clone();
            let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
            changed[at..at + from.len()].copy_from_slice(to.as_bytes());
            FloatNetwork::from_safetensors(&changed).unwrap_err()
        };
        assert_eq!(with("stack.7.0.bias", "stack.9.0.bias").field, "stack.7.0.bias");
        let error = with("[768,32]", "[32,768]");
        assert!(error.problem.contains("F32 [768, 32] expected"), "{error}");
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        assert!(error.offset >= 8 + header && error.offset < bytes.len(), "{error}");
        assert_eq!(with("\"scale\":\"400\"", "\"scale\":\"000\"").field, "scale in the header");
        assert_eq!(with("\"screlu\"", "\"screly\"").field, "activation in the header");
        assert_eq!(with("tandem-nnue-1", "tandem-nnue-9").field, "format in the header");
        for number in [f32::NAN, f32::INFINITY] {
            let mut float = FloatNetwork::from_safetensors(&bytes).unwrap();
            float.bias[3] = number;
            let bytes = float.to_safetensors().unwrap();
            let error = FloatNetwork::from_safetensors(&bytes).unwrap_err();
            assert_eq!(
                (error.field.as_str(), error.problem),
                ("input.bias", format!("number 3 is {number}"))
            );
            assert_eq!(bytes[error.offset..][..4], number.to_le_bytes());
        }
    }

    #[test]
    fn inconsistent_networks_are_not_written() {
        let mut float = test_nets::flat(FeatureSet::plain(), 32, 1).to_float();
        float.weights.pop();
        assert_eq!(float.to_safetensors().unwrap_err().part, "input.weight");
        let stacks = test_nets::stacks(FeatureSet::plain(), 32, 2).to_float();
        let bytes = stacks.to_safetensors().unwrap();
        let at = bytes.windows(13).position(|part| part == b"\"scale\":\"600\"").unwrap();
        let mut other = bytes;
        other[at..at + 13].copy_from_slice(b"\"scale\":\"400\"");
        assert!(FloatNetwork::from_safetensors(&other).unwrap_err().problem.contains("stacks have 600"));
    }

    /// Inputs without further meaning.
    #[derive(Clone, Debug, PartialEq)]
    struct Switches(&'static str);

    impl Inputs for Switches {
        const SIDES: usize = 1;

        fn name(&self) -> &str {
            self.0
        }

        fn num_inputs(&self) -> usize {
            40
        }

        fn max_active(&self) -> usize {
            40
        }
    }

    #[test]
    fn custom_inputs_are_identified_by_their_name() {
        let head = test_nets::flat(FeatureSet::plain(), 32, 1).architecture().head;
        let architecture =
            Architecture { features: Switches("switches"), outputs: 32, tied: true, psqt: false, head };
        let mut float = FloatNetwork::zeroed(architecture, 100, 100);
        float.weights[77] = 0.25;
        let bytes = float.to_safetensors().unwrap();
        assert_eq!(FloatNetwork::from_safetensors_as(&bytes, Switches("switches")).unwrap(), float);
        let error = FloatNetwork::from_safetensors_as(&bytes, Switches("levers")).unwrap_err();
        assert!(error.problem.contains("\"levers\" expected"), "{error}");
        assert!(FloatNetwork::from_safetensors(&bytes).unwrap_err().problem.contains("no feature set"));
    }
}
