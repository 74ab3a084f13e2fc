//! The numbers of a network.

use crate::encoding::planes;
use crate::{Architecture, Input, TensorSpec};
use std::collections::HashMap;
use tandem_chess::random::SplitMix;
use thiserror::Error;

/// The layer that reads the numbers of each square.
pub(crate) const SQUARES_LAYER: &str = "embedding.squares.weight";

/// The numbers of a network, in full precision: what files hold, trainers make and inference is built from.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    architecture: Architecture,
    tensors: HashMap<String, Vec<f32>>,
}

/// Tensors by their names, with their shapes, as a file has them.
pub type NamedTensors = HashMap<String, (Vec<usize>, Vec<f32>)>;

/// Why tensors are not a network's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WeightsError {
    /// One is missing.
    #[error("tensor {name} is missing; the architecture has it as {expected:?}")]
    Missing {
        /// Which.
        name: String,
        /// Its shape in the architecture.
        expected: Vec<usize>,
    },
    /// One has another shape.
    #[error("tensor {name} is {found:?}, but the architecture has it as {expected:?}")]
    Shape {
        /// Which.
        name: String,
        /// The shape in the file.
        found: Vec<usize>,
        /// Its shape in the architecture.
        expected: Vec<usize>,
    },
    /// One is not of this architecture.
    #[error("tensor {0} is not of this architecture")]
    Unknown(String),
    /// A number is none.
    #[error("tensor {name}: number {index} is {value}")]
    NotFinite {
        /// Which tensor.
        name: String,
        /// Which of its numbers.
        index: usize,
        /// Infinite or no number.
        value: String,
    },
}

impl Weights {
    /// The tensors of an architecture, if they are all there, have its shapes, and hold finite numbers.
    pub fn new(architecture: Architecture, mut given: NamedTensors) -> Result<Self, WeightsError> {
        let mut tensors = HashMap::new();
        for TensorSpec { name, shape: expected } in architecture.tensors() {
            let Some((found, numbers)) = given.remove(&name) else {
                return Err(WeightsError::Missing { name, expected });
            };
            if found != expected || numbers.len() != expected.iter().product::<usize>() {
                return Err(WeightsError::Shape { name, found, expected });
            }
            if let Some(index) = numbers.iter().position(|number| !number.is_finite()) {
                return Err(WeightsError::NotFinite { name, index, value: numbers[index].to_string() });
            }
            tensors.insert(name, numbers);
        }
        match given.into_keys().min() {
            Some(name) => Err(WeightsError::Unknown(name)),
            None => Ok(Self { architecture, tensors }),
        }
    }

    /// Numbers by chance, of a size that keeps rows in bounds: a start for training, and networks for tests.
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
        weights.empty_unseen();
        weights
    }

    /// Sets the weights to zero whose inputs are always empty ([`Input::LonePlanes`]): training leaves them there, and
    /// the network says the same where somebody else fills those planes, as lc0 does.
    pub(crate) fn empty_unseen(&mut self) {
        let width = self.architecture.body.width;
        if self.architecture.input == Input::LonePlanes
            && let Some(numbers) = self.tensors.get_mut(SQUARES_LAYER)
        {
            let inputs = numbers.len() / width;
            numbers.chunks_exact_mut(inputs).for_each(|row| row[planes::HISTORY].fill(0.0));
        }
    }

    /// What the network is made of.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// A tensor by its name, if the architecture has it.
    pub fn get(&self, name: &str) -> Option<&[f32]> {
        self.tensors.get(name).map(Vec::as_slice)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut [f32]> {
        self.tensors.get_mut(name).map(Vec::as_mut_slice)
    }

    /// All tensors with their shapes, in the architecture's order.
    pub fn iter(&self) -> impl Iterator<Item = (TensorSpec, &[f32])> {
        self.architecture.tensors().into_iter().map(|spec| {
            let numbers = self.tensors[&spec.name].as_slice();
            (spec, numbers)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    fn given(weights: &Weights) -> NamedTensors {
        weights.iter().map(|(spec, numbers)| (spec.name, (spec.shape, numbers.to_vec()))).collect()
    }

    #[test]
    fn tensors_are_checked_one_by_one() {
        let weights = Weights::random(Preset::Byte.architecture(), 1);
        let architecture = weights.architecture().clone();
        assert_eq!(Weights::new(architecture.clone(), given(&weights)).unwrap(), weights);
        let told = |change: &dyn Fn(&mut NamedTensors)| {
            let mut tensors = given(&weights);
            change(&mut tensors);
            Weights::new(architecture.clone(), tensors).unwrap_err().to_string()
        };
        let missing = told(&|tensors| drop(tensors.remove("layers.2.router.weight")));
        assert_eq!(missing, "tensor layers.2.router.weight is missing; the architecture has it as [8, 64]");
        let shape = told(&|tensors| tensors.get_mut("last_norm.scale").unwrap().0 = vec![8, 8]);
        assert_eq!(shape, "tensor last_norm.scale is [8, 8], but the architecture has it as [64]");
        let unknown = told(&|tensors| drop(tensors.insert("more".into(), (vec![1], vec![0.0]))));
        assert_eq!(unknown, "tensor more is not of this architecture");
        let infinite = told(&|tensors| tensors.get_mut("last_norm.scale").unwrap().1[3] = f32::NAN);
        assert_eq!(infinite, "tensor last_norm.scale: number 3 is NaN");
    }
}
