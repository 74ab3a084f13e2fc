//! The parameters of a network in full precision, by tensor name.

use crate::encoding::planes;
use crate::{Architecture, Input, TensorSpec};
use std::collections::HashMap;
use tandem_util::random::SplitMix;
use thiserror::Error;

/// The embedding layer that reads the input channels of each square.
pub(crate) const SQUARES_LAYER: &str = "embedding.squares.weight";

/// Parameters of a network in full precision: files store them, trainers produce them, and [`crate::Network`]
/// packs them for inference.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    architecture: Architecture,
    tensors: HashMap<String, Vec<f32>>,
}

/// Tensors by name, each with its shape and its elements in row-major order.
pub type NamedTensors = HashMap<String, (Vec<usize>, Vec<f32>)>;

/// Tensors that do not match their architecture. Messages name the tensor first.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WeightsError {
    /// A tensor of the architecture is missing; the message has the shape that it should have.
    #[error("tensor {name} is missing; the architecture has it as {expected:?}")]
    Missing {
        /// Name of the tensor in the architecture.
        name: String,
        /// Shape in the architecture, outermost dimension first.
        expected: Vec<usize>,
    },
    /// A tensor has a shape other than in the architecture.
    #[error("tensor {name} is {found:?}, but the architecture has it as {expected:?}")]
    Shape {
        /// Name of the tensor in the architecture.
        name: String,
        /// Shape of the given tensor, outermost dimension first.
        found: Vec<usize>,
        /// Shape in the architecture, outermost dimension first.
        expected: Vec<usize>,
    },
    /// A tensor is not part of the architecture.
    #[error("tensor {0} is not of this architecture")]
    Unknown(String),
    /// A tensor has an element that is infinite or NaN.
    #[error("tensor {name}: number {index} is {value}")]
    NotFinite {
        /// Name of the tensor in the architecture.
        name: String,
        /// Index of the first such element, in row-major order.
        index: usize,
        /// The element as text: `inf`, `-inf` or `NaN`.
        value: String,
    },
}

impl Weights {
    /// Checks that the given tensors are those of an architecture.
    ///
    /// # Errors
    /// If a tensor is missing, unknown or of another shape, or has an element that is infinite or NaN.
    pub fn new(architecture: Architecture, mut given: NamedTensors) -> Result<Self, WeightsError> {
        let mut tensors = HashMap::new();
        for TensorSpec { name, shape: expected } in architecture.tensors() {
            let Some((found, values)) = given.remove(&name) else {
                return Err(WeightsError::Missing { name, expected });
            };
            if found != expected || values.len() != expected.iter().product::<usize>() {
                return Err(WeightsError::Shape { name, found, expected });
            }
            if let Some(index) = values.iter().position(|number| !number.is_finite()) {
                return Err(WeightsError::NotFinite { name, index, value: values[index].to_string() });
            }
            tensors.insert(name, values);
        }
        match given.into_keys().min() {
            Some(name) => Err(WeightsError::Unknown(name)),
            None => Ok(Self { architecture, tensors }),
        }
    }

    /// Random initialisation, uniform with variance 1/inputs for linear layers, so that activations keep
    /// their size. For training from scratch and for tests; the same seed gives the same weights.
    pub fn random(architecture: Architecture, seed: u64) -> Self {
        let mut random = SplitMix::new(seed);
        let mut uniform = |bound: f32| (random.next_u64() >> 40) as f32 / (1u64 << 23) as f32 * bound - bound;
        let mut tensors = HashMap::new();
        for spec in architecture.tensors() {
            let inputs = if spec.shape.len() > 1 { spec.shape[spec.shape.len() - 1] } else { 0 };
            let bound = if inputs > 0 { (3.0 / inputs as f32).sqrt() } else { 0.1 };
            let middle = if spec.name.ends_with(".scale") { 1.0 } else { 0.0 };
            tensors.insert(spec.name.clone(), (0..spec.len()).map(|_| middle + uniform(bound)).collect());
        }
        let mut weights = Self { architecture, tensors };
        weights.zero_history_weights();
        weights
    }

    /// Zeros the weights of history planes for networks of [`Input::PlanesSingle`], whose history planes are
    /// always empty. Training never changes these weights, and the outputs stay the same in programs that
    /// fill those planes, as lc0 does.
    pub(crate) fn zero_history_weights(&mut self) {
        let width = self.architecture.body.width;
        if self.architecture.input == Input::PlanesSingle
            && let Some(values) = self.tensors.get_mut(SQUARES_LAYER)
        {
            let inputs = values.len() / width;
            values.chunks_exact_mut(inputs).for_each(|row| row[planes::HISTORY].fill(0.0));
        }
    }

    /// The architecture that the tensors belong to, which fixes their names and shapes.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// The elements of a tensor, in row-major order; `None` if the architecture does not have it.
    pub fn get(&self, name: &str) -> Option<&[f32]> {
        self.tensors.get(name).map(Vec::as_slice)
    }

    /// Mutable elements of a tensor; `None` if the architecture does not have it.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut [f32]> {
        self.tensors.get_mut(name).map(Vec::as_mut_slice)
    }

    /// All tensors with their names and shapes, in the architecture's order.
    pub fn iter(&self) -> impl Iterator<Item = (TensorSpec, &[f32])> {
        self.architecture.tensors().into_iter().map(|spec| {
            let values = self.tensors[&spec.name].as_slice();
            (spec, values)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    fn given(weights: &Weights) -> NamedTensors {
        weights.iter().map(|(spec, values)| (spec.name, (spec.shape, values.to_vec()))).collect()
    }

    #[test]
    fn every_mismatch_of_tensors_is_reported() {
        let weights = Weights::random(Preset::Byte.architecture(), 1);
        let architecture = weights.architecture().clone();
        assert_eq!(Weights::new(architecture.clone(), given(&weights)).unwrap(), weights);
        let error = |change: &dyn Fn(&mut NamedTensors)| {
            let mut tensors = given(&weights);
            change(&mut tensors);
            Weights::new(architecture.clone(), tensors).unwrap_err().to_string()
        };
        let missing = error(&|tensors| drop(tensors.remove("layers.2.router.weight")));
        assert_eq!(missing, "tensor layers.2.router.weight is missing; the architecture has it as [8, 64]");
        let shape = error(&|tensors| tensors.get_mut("last_norm.scale").unwrap().0 = vec![8, 8]);
        assert_eq!(shape, "tensor last_norm.scale is [8, 8], but the architecture has it as [64]");
        let unknown = error(&|tensors| drop(tensors.insert("more".into(), (vec![1], vec![0.0]))));
        assert_eq!(unknown, "tensor more is not of this architecture");
        let infinite = error(&|tensors| tensors.get_mut("last_norm.scale").unwrap().1[3] = f32::NAN);
        assert_eq!(infinite, "tensor last_norm.scale: number 3 is NaN");
    }
}
