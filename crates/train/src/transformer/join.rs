//! A bridge from an NNUE, which a run teaches while both networks stay as they are.

use super::recipe::TransformerRecipe;
use super::samples::SampleShape;
use crate::base::{BaseNetwork, read_expected};
use crate::recipe::RecipeError;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tandem_hybrid::{Bridge, BridgeForm, Fingerprint, Hybrid, Onlooker};
use tandem_transformer::{Architecture, Weights};

/// What is said of a bridge in a recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeRecipe {
    /// The NNUE whose accumulators it reads.
    pub nnue: BaseNetwork,
    /// How the transformer is given what it makes.
    #[serde(default)]
    pub form: BridgeForm,
    /// The share of its numbers that is left out of each step, by chance.
    #[serde(default = "usual_dropout")]
    pub dropout: f64,
}

fn usual_dropout() -> f64 {
    0.1
}

/// Both networks of a hybrid, and the bridge between them before the first step.
#[derive(Clone, Debug)]
pub struct Join {
    nnue: Arc<tandem_nnue::Network>,
    /// The bridge.
    pub bridge: Bridge,
    /// The share of its numbers that is left out of each step.
    pub dropout: f64,
    nnue_is: Fingerprint,
    transformer_is: Fingerprint,
}

impl Join {
    /// What a recipe asks for, if it asks for a bridge to the network that its run begins with.
    pub fn of(recipe: &TransformerRecipe, architecture: &Architecture) -> Result<Option<Self>, RecipeError> {
        let Some(wanted) = &recipe.bridge else { return Ok(None) };
        let Some(outputs) = architecture.board_code() else {
            let problem = "the transformer has no code of the whole board that a bridge could lead to: \
                           `embedding = { kind = \"dense-board\" }` has one";
            return Err(RecipeError::Wrong { key: "bridge", problem: problem.into() });
        };
        let (_, transformer_is) = recipe.network.read_start()?;
        let (bytes, nnue_is) = wanted.nnue.read("bridge.nnue")?;
        let nnue = tandem_nnue::Network::from_bytes(&bytes).map_err(|error| RecipeError::Wrong {
            key: "bridge.nnue",
            problem: format!("{}: {error}", wanted.nnue.path),
        })?;
        let bridge = Bridge::random(wanted.form, Onlooker::numbers(&nnue), outputs, recipe.seed);
        Ok(Some(Self { nnue: Arc::new(nnue), bridge, dropout: wanted.dropout, nnue_is, transformer_is }))
    }

    /// What was learnt, as a file that belongs to these two networks.
    pub fn hybrid(&self, bridge: Bridge, description: &str) -> Hybrid {
        let hybrid = Hybrid::new(self.nnue_is, self.transformer_is);
        Hybrid { bridge: Some(bridge), description: description.into(), ..hybrid }
    }

    /// Which files both networks are: the NNUE's first.
    pub(super) fn bases(&self) -> [String; 2] {
        [self.nnue_is, self.transformer_is].map(|file| file.to_string())
    }

    /// Numbers that are learnt.
    pub fn len(&self) -> usize {
        self.bridge.tensors().iter().map(|(_, _, numbers)| numbers.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What samples are made for: the arrays that a network needs, and the NNUE that looks at each position for a bridge.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The arrays.
    pub shape: SampleShape,
    /// The NNUE.
    pub nnue: Option<Arc<tandem_nnue::Network>>,
}

impl Reading {
    /// What a network needs, and the bridge to it if there is one.
    pub fn of(architecture: &Architecture, join: Option<&Join>) -> Self {
        let mut shape = SampleShape::of(architecture);
        shape.seen = join.map_or(0, |join| join.bridge.inputs());
        Self { shape, nnue: join.map(|join| Arc::clone(&join.nnue)) }
    }
}

impl From<SampleShape> for Reading {
    fn from(shape: SampleShape) -> Self {
        Self { shape, nnue: None }
    }
}

/// What a run begins with.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The network.
    pub weights: &'a Weights,
    /// What it is joined to. Then the bridge alone is learnt.
    pub join: Option<&'a Join>,
}

impl<'a> From<&'a Weights> for Start<'a> {
    fn from(weights: &'a Weights) -> Self {
        Self { weights, join: None }
    }
}

/// The file that a run begins with, if it is the one that is expected.
pub(super) fn read_start(path: &str, sha256: Option<&str>) -> Result<(Vec<u8>, Fingerprint), RecipeError> {
    read_expected("network.start", path, sha256)
}
