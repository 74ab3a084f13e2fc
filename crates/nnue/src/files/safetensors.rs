//! Networks in floating point, as safetensors: one tensor for each layer's weights and biases, the shape of the network
//! in the metadata. `docs/formats.md` has the names.

use super::header::{Header, lines_of};
use super::{LoadError, NetworkError, Reader, read_file};
use crate::architecture::{Architecture, PSQT_BUCKETS};
use crate::float::FloatNetwork;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::HashMap;
use std::path::Path;

/// The metadata's word on what the file is.
const FORMAT: (&str, &str) = ("format", "tandem-nnue-1");

/// The tensors of an architecture, with their shapes.
fn tensors(architecture: &Architecture) -> Vec<(String, Vec<usize>)> {
    let (inputs, width) = (architecture.features.inputs(), architecture.width());
    let mut tensors = vec![("input.weight".into(), vec![inputs, width]), ("input.bias".into(), vec![width])];
    if architecture.psqt {
        tensors.push(("psqt.weight".into(), vec![inputs, PSQT_BUCKETS]));
    }
    for number in 0..architecture.buckets().count {
        for (layer, (inputs, outputs)) in architecture.layers().into_iter().enumerate() {
            tensors.push((format!("stack.{number}.{layer}.weight"), vec![outputs, inputs]));
            tensors.push((format!("stack.{number}.{layer}.bias"), vec![outputs]));
        }
    }
    tensors
}

/// The numbers of each of those tensors.
fn numbers(network: &mut FloatNetwork) -> Vec<&mut Vec<f32>> {
    let mut all = vec![&mut network.weights, &mut network.bias];
    if network.architecture.psqt {
        all.push(&mut network.psqt);
    }
    for layer in network.stacks.iter_mut().flatten() {
        all.extend([&mut layer.weights, &mut layer.bias]);
    }
    all
}

impl FloatNetwork {
    /// The network as a safetensors file.
    pub fn to_safetensors(mut self) -> Vec<u8> {
        let mut metadata: HashMap<String, String> =
            lines_of(&self.architecture).into_iter().map(|(key, value)| (key.into(), value)).collect();
        metadata.insert(FORMAT.0.into(), FORMAT.1.into());
        metadata.insert("scale".into(), self.scale.to_string());
        metadata.insert("pawn".into(), self.pawn.to_string());
        metadata.insert("description".into(), self.description.clone());

        let tensors = tensors(&self.architecture);
        let little = |numbers: &mut Vec<f32>| -> Vec<u8> {
            numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
        };
        let bytes: Vec<Vec<u8>> = numbers(&mut self).into_iter().map(little).collect();
        let views = tensors.into_iter().zip(&bytes).map(|((name, shape), bytes)| {
            let view = TensorView::new(Dtype::F32, shape, bytes);
            (name, view.expect("a network has as many numbers as its architecture says"))
        });
        safetensors::serialize(views, Some(metadata)).expect("tensors of distinct names can be written")
    }

    /// Reads a safetensors file of such tensors and metadata.
    pub fn from_safetensors(bytes: &[u8]) -> Result<Self, LoadError> {
        let broken = |error: safetensors::SafeTensorError| Reader::error("safetensors", 0, error.to_string());
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(broken)?;
        let file = SafeTensors::deserialize(bytes).map_err(broken)?;
        let metadata = metadata.metadata().clone().unwrap_or_default();
        let mut header = Header::new(metadata.into_iter().collect(), 8);
        let format = header.take(FORMAT.0)?;
        if format != FORMAT.1 {
            return Err(header.error(FORMAT.0, format!("{format:?} found, {:?} expected", FORMAT.1)));
        }
        let architecture = header.architecture()?;
        let scale = header.number("scale", 1, 1 << 20)?;
        let pawn = header.number("pawn", 1, 100_000)?;
        let description = header.take("description").unwrap_or_default();
        header.end()?;

        // Everything is seen to be there before memory is set aside.
        let tensors = tensors(&architecture);
        for (name, shape) in &tensors {
            let tensor = file.tensor(name).map_err(|_| Reader::error(name, 0, "this tensor is missing"))?;
            if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
                let (found, dtype) = (tensor.shape(), tensor.dtype());
                let problem = format!("{dtype:?} {found:?} found, F32 {shape:?} expected");
                return Err(Reader::error(name, 0, problem));
            }
        }
        if let Some(other) =
            file.names().into_iter().find(|&name| tensors.iter().all(|(known, _)| known != name))
        {
            return Err(Reader::error(other, 0, "the architecture has no such tensor"));
        }
        let mut network = Self::zeroed(architecture, scale, pawn);
        network.description = description;
        for ((name, _), numbers) in tensors.iter().zip(numbers(&mut network)) {
            let tensor = file.tensor(name).map_err(broken)?;
            let stored = tensor.data().as_chunks::<4>().0;
            *numbers = stored.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        }
        Ok(network)
    }

    /// Reads a safetensors file.
    pub fn load(path: &Path) -> Result<Self, NetworkError> {
        let bytes =
            read_file(path).map_err(|source| NetworkError::Io { path: path.to_path_buf(), source })?;
        Self::from_safetensors(&bytes)
            .map_err(|source| NetworkError::Load { path: path.to_path_buf(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::FeatureSet;
    use crate::test_nets;

    #[test]
    fn floats_are_read_as_they_were_written() {
        for network in [
            test_nets::flat(FeatureSet::plain(), 32, 1),
            test_nets::stacks(FeatureSet::plain(), 64, 2),
            test_nets::untied(FeatureSet::plain(), 32, 3),
        ] {
            let float = network.to_float();
            let bytes = float.clone().to_safetensors();
            assert_eq!(FloatNetwork::from_safetensors(&bytes).unwrap(), float);
            let error = crate::Network::from_bytes(&bytes).unwrap_err();
            assert!(error.problem.contains("must be quantised"), "{error}");
        }
    }

    #[test]
    fn what_is_missing_or_too_much_is_named() {
        let bytes = test_nets::flat(FeatureSet::plain(), 32, 1).to_float().to_safetensors();
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
        assert!(with("[768,32]", "[32,768]").problem.contains("F32 [768, 32] expected"));
        assert_eq!(with("\"screlu\"", "\"screly\"").field, "activation in the header");
        assert_eq!(with("tandem-nnue-1", "tandem-nnue-9").field, "format in the header");
    }
}
