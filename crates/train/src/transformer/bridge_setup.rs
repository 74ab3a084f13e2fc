//! A bridge from an NNUE to a transformer, which a run trains while both networks stay frozen. Here are its
//! table in the recipe, the two networks as loaded, and what samples need for it.

use super::recipe::TransformerRecipe;
use super::samples::SampleShape;
use crate::base::{BaseNetwork, read_expected};
use crate::recipe::RecipeError;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tandem_hybrid::{AccumulatorReader, Bridge, BridgeForm, Fingerprint, Hybrid};
use tandem_transformer::{Architecture, Weights};

/// The table `bridge` of a recipe, which trains a layer from an NNUE's accumulators to a transformer's input:
/// the NNUE, the layer's form and its dropout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeRecipe {
    /// The NNUE whose accumulators are the bridge's input, as a network file with an optional SHA-256.
    pub nnue: BaseNetwork,
    /// Form of the bridge's output: `gated`, the default, is added to the transformer's own encoding of the
    /// board through learnt gates; `plain` replaces that encoding.
    #[serde(default)]
    pub form: BridgeForm,
    /// Probability with which each value of the bridge, after ReLU and before the gates, is set to zero in
    /// training; default 0.1, and 0 disables dropout.
    #[serde(default = "default_dropout")]
    pub dropout: f64,
}

fn default_dropout() -> f64 {
    0.1
}

/// All that a run needs to train a bridge (a layer from NNUE accumulators to the transformer's input): the
/// frozen NNUE, the untrained bridge, and the hashes of both network files.
#[derive(Clone, Debug)]
pub struct BridgeSetup {
    nnue: Arc<tandem_nnue::Network>,
    /// The bridge with its initial weights, which are drawn from the recipe's seed.
    pub bridge: Bridge,
    /// Probability with which each value of the bridge, after ReLU and before the gates, is set to zero in
    /// training.
    pub dropout: f64,
    nnue_file: Fingerprint,
    transformer_file: Fingerprint,
}

impl BridgeSetup {
    /// Loads the networks that a recipe names and initialises a bridge between them; `None` if the recipe has
    /// no table `bridge`.
    ///
    /// # Errors
    /// If a file cannot be read, has another SHA-256 than the recipe says, or if the transformer has no board
    /// encoding that a bridge can replace.
    pub fn of(recipe: &TransformerRecipe, architecture: &Architecture) -> Result<Option<Self>, RecipeError> {
        let Some(bridge_recipe) = &recipe.bridge else { return Ok(None) };
        let Some(outputs) = architecture.board_code() else {
            let problem = "the transformer has no encoding of the whole board that a bridge could replace: \
                           `embedding = { kind = \"dense-board\" }` has one";
            return Err(RecipeError::Invalid { key: "bridge", problem: problem.into() });
        };
        let (_, transformer_file) = recipe.network.read_initial_network()?;
        let (bytes, nnue_file) = bridge_recipe.nnue.read("bridge.nnue")?;
        let nnue = tandem_nnue::Network::from_bytes(&bytes).map_err(|error| RecipeError::Invalid {
            key: "bridge.nnue",
            problem: format!("{}: {error}", bridge_recipe.nnue.path),
        })?;
        let bridge =
            Bridge::random(bridge_recipe.form, AccumulatorReader::width(&nnue), outputs, recipe.seed);
        Ok(Some(Self {
            nnue: Arc::new(nnue),
            bridge,
            dropout: bridge_recipe.dropout,
            nnue_file,
            transformer_file,
        }))
    }

    /// The contents of a hybrid file with the trained bridge and no selector. It names both networks by their
    /// hashes and is refused with any others.
    pub fn hybrid(&self, bridge: Bridge, description: &str) -> Hybrid {
        let hybrid = Hybrid::new(self.nnue_file, self.transformer_file);
        Hybrid { bridge: Some(bridge), description: description.into(), ..hybrid }
    }

    /// SHA-256 of both network files, the NNUE's first, as text.
    pub(super) fn file_hashes(&self) -> [String; 2] {
        [self.nnue_file, self.transformer_file].map(|file| file.to_string())
    }

    /// Number of trained parameters, which are those of the bridge alone.
    pub fn len(&self) -> usize {
        self.bridge.tensors().iter().map(|(_, _, values)| values.len()).sum()
    }

    /// True if the bridge has no parameters, which no valid bridge has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Specification of what the loader computes for each training position: the arrays of the transformer's
/// input and labels, and the NNUE whose accumulators are the input of a bridge, if one is trained.
#[derive(Clone, Debug)]
pub struct SampleSpec {
    /// Input encoding and labels of the transformer, which decide the arrays of [`Samples`](super::Samples)
    /// that are filled.
    pub shape: SampleShape,
    /// The NNUE whose accumulators are a bridge's input; `None` if no bridge is trained.
    pub nnue: Option<Arc<tandem_nnue::Network>>,
}

impl SampleSpec {
    /// Derives the specification from a transformer's architecture, and from the NNUE of `bridge_setup` if a
    /// bridge is trained; without it the bridge's array stays empty.
    pub fn of(architecture: &Architecture, bridge_setup: Option<&BridgeSetup>) -> Self {
        let mut shape = SampleShape::of(architecture);
        shape.bridge_inputs = bridge_setup.map_or(0, |setup| setup.bridge.inputs());
        Self { shape, nnue: bridge_setup.map(|setup| Arc::clone(&setup.nnue)) }
    }
}

impl From<SampleShape> for SampleSpec {
    fn from(shape: SampleShape) -> Self {
        Self { shape, nnue: None }
    }
}

/// The networks before the first step of a run, from which a trainer is created.
#[derive(Clone, Copy, Debug)]
pub struct InitialNetworks<'a> {
    /// Weights of the transformer, from a file or random.
    pub weights: &'a Weights,
    /// The untrained bridge and its NNUE: only the bridge is then trained. `None` trains the transformer
    /// itself.
    pub bridge_setup: Option<&'a BridgeSetup>,
}

impl<'a> From<&'a Weights> for InitialNetworks<'a> {
    fn from(weights: &'a Weights) -> Self {
        Self { weights, bridge_setup: None }
    }
}

/// Reads the network file that a run starts from, and checks its SHA-256 if the recipe has one.
pub(super) fn read_initial_network(
    path: &str,
    sha256: Option<&str>,
) -> Result<(Vec<u8>, Fingerprint), RecipeError> {
    read_expected("network.init_from", path, sha256)
}
