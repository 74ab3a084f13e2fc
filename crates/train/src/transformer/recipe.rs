//! The recipe of a transformer's run: the network and the targets of its heads, and perhaps a bridge, besides
//! what all recipes have.

use super::bridge_setup::{BridgeRecipe, read_initial_network};
use super::targets::Targets;
use crate::base::check_sha256;
use crate::checkpoint::Checkpoint;
use crate::optimiser::Optimiser;
use crate::recipe::{
    ALMOST_ONE, KindOfRecipe, RecipeCore, RecipeError, RecipeKind, matches, recipe_of_kind, within,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tandem_hybrid::Fingerprint;
use tandem_transformer::{Architecture, Preset, Weights};
use toml::Value;

/// A transformer's run, as described in a TOML file. It derefs to the keys that all recipes have.
/// [`TransformerRecipe::parse`] reads one, and [`run_transformer`](super::run_transformer) trains it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransformerRecipe {
    /// The keys that all recipes have.
    #[serde(skip)]
    pub core: RecipeCore,
    /// Architecture of the network, and a network file to start from instead of random weights.
    pub network: TransformerNetwork,
    /// Labels that the heads are trained on, and the weights of their losses in the total.
    #[serde(default)]
    pub targets: Targets,
    /// A bridge from an NNUE. If there is one, only the bridge is trained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<BridgeRecipe>,
}

recipe_of_kind!(TransformerRecipe, "tandem transformer checkpoint 1", check_checkpoint);

/// Architecture of a transformer: one of `preset` and `architecture`, or that of the network in `init_from`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransformerNetwork {
    /// Network file to start from; without one the weights are initialised at random.
    pub init_from: Option<String>,
    /// SHA-256 that this file must have; not checked if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_sha256: Option<String>,
    /// Name of a predefined architecture: for example `byte`, the smallest, or `bt-small`, the body of the
    /// strategist.
    pub preset: Option<String>,
    /// Architecture: the path of a TOML file, or a table in the recipe itself.
    pub architecture: Option<Description>,
}

/// An architecture as a recipe gives it, either by the path of a file or in place.
#[derive(Clone, Debug, PartialEq)]
pub enum Description {
    /// Path of a TOML file, relative to the working directory.
    File(String),
    /// A table in the recipe itself, so that the recipe is complete without other files.
    Inline(Box<Architecture>),
}

impl Serialize for Description {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::File(path) => path.serialize(serializer),
            // The architecture is read and written as TOML by its own crate, which need not be compiled for
            // serialisers of this one.
            Self::Inline(architecture) => {
                let table: toml::Table =
                    toml::from_str(&architecture.to_toml()).map_err(serde::ser::Error::custom)?;
                table.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Description {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let described = match Value::deserialize(deserializer)? {
            Value::String(path) => Ok(Self::File(path)),
            Value::Table(table) => Architecture::from_toml(&table.to_string())
                .map(|architecture| Self::Inline(Box::new(architecture)))
                .map_err(|error| error.to_string()),
            _ => {
                Err("the name of a file, or a table with input, embedding, body and heads is expected".into())
            }
        };
        described.map_err(serde::de::Error::custom)
    }
}

impl TransformerNetwork {
    /// The architecture of the network. Reads the files that the recipe names.
    ///
    /// # Errors
    /// If the recipe names no architecture or two, or if its file cannot be read or does not describe a
    /// possible network.
    pub fn architecture(&self) -> Result<Architecture, RecipeError> {
        if let Some(described) = self.described()? {
            return Ok(described);
        }
        let invalid = |key, problem: String| RecipeError::Invalid { key, problem };
        if let Some(Description::File(path)) = &self.architecture {
            let text = std::fs::read_to_string(path)
                .map_err(|source| RecipeError::Io { path: path.into(), source })?;
            return Architecture::from_toml(&text)
                .map_err(|error| invalid("network.architecture", format!("{path}: {error}")));
        }
        // Neither a preset nor a description, so the initial network's own architecture.
        let path = self.init_from.as_deref().unwrap_or_default();
        match Weights::load(path, None) {
            Ok(weights) => Ok(weights.architecture().clone()),
            Err(error) => Err(invalid("network.init_from", error.to_string())),
        }
    }

    /// The bytes and the SHA-256 of the file to start from.
    pub(super) fn read_initial_network(&self) -> Result<(Vec<u8>, Fingerprint), RecipeError> {
        read_initial_network(self.init_from.as_deref().unwrap_or_default(), self.init_sha256.as_deref())
    }

    /// The architecture if the recipe itself contains it; an error unless it names exactly one.
    fn described(&self) -> Result<Option<Architecture>, RecipeError> {
        let invalid = |key, problem: String| Err(RecipeError::Invalid { key, problem });
        match (&self.preset, &self.architecture, &self.init_from) {
            (Some(_), Some(_), _) => {
                invalid("network", "name a preset or an architecture, and not both".into())
            }
            (None, None, None) => invalid(
                "network",
                "name a preset, an architecture, or a network to start from; `preset = \"byte\"` is the smallest".into(),
            ),
            (Some(name), None, _) => match Preset::named(name) {
                Some(preset) => Ok(Some(preset.architecture())),
                None => {
                    let known = Preset::ALL.map(Preset::name).join(", ");
                    invalid("network.preset", format!("{name:?} is not one of {known}"))
                }
            },
            (None, Some(Description::Inline(architecture)), _) => match architecture.check() {
                Ok(()) => Ok(Some((**architecture).clone())),
                Err(error) => invalid("network.architecture", error.to_string()),
            },
            (None, Some(Description::File(_)) | None, _) => Ok(None),
        }
    }
}

impl KindOfRecipe for TransformerRecipe {
    const KIND: RecipeKind = RecipeKind::Transformer;

    fn check(&self) -> Result<(), RecipeError> {
        self.targets.check()?;
        for (key, sha256) in [
            ("network.init_sha256", self.network.init_sha256.as_deref()),
            ("bridge.nnue.sha256", self.bridge.as_ref().and_then(|bridge| bridge.nnue.sha256.as_deref())),
        ] {
            check_sha256(key, sha256)?;
        }
        if let Some(bridge) = &self.bridge {
            self.check_bridge(bridge)?;
        }
        self.check_optimiser()?;
        match self.network.described()? {
            Some(architecture) => self.check_network(&architecture),
            None => Ok(()),
        }
    }

    fn check_effects(&self) -> Result<(), RecipeError> {
        if self.training.cuda_graph && !matches!(self.optimiser, Optimiser::AdamW { .. }) {
            let kind = self.optimiser.kind();
            let problem = format!(
                "a step of {kind}, which computes on the CPU too, cannot be recorded: use adamw, or leave this out"
            );
            return Err(RecipeError::Invalid { key: "training.cuda_graph", problem });
        }
        match self.network.described()? {
            Some(architecture) => self.targets.check_heads(&architecture),
            None => Ok(()),
        }
    }
}

impl TransformerRecipe {
    /// Parses a recipe, and checks it against its architecture even if that is in another file.
    pub(super) fn parse_with_architecture(
        text: &str,
        notices: &mut Vec<String>,
    ) -> Result<Self, RecipeError> {
        let recipe = Self::parse_with_notices(text, notices)?;
        let architecture = recipe.network.architecture()?;
        recipe.check_network(&architecture)?;
        recipe.targets.check_heads(&architecture)?;
        Ok(recipe)
    }

    /// Describes a buffer that a checkpoint lacks, or that has another size than the network.
    fn check_checkpoint(checkpoint: &Checkpoint<Self>) -> Result<(), String> {
        let Checkpoint { recipe, architecture, state, .. } = checkpoint;
        let architecture = architecture.as_ref().ok_or("it has no architecture")?;
        // The size of a bridge depends on its NNUE, which is checked when the run is resumed.
        let count = match &recipe.bridge {
            None => architecture.parameters(),
            Some(_) => state.parameters.len().max(architecture.parameters()),
        };
        let has_swa = state.swa_count > 0;
        let needed = [true, true, true, false, recipe.training.ema_decay > 0.0, has_swa];
        for ((name, buffer), needed) in state.buffers().into_iter().zip(needed) {
            match buffer.len() {
                0 if needed => return Err(format!("it has no {name}")),
                len if len != count && len != 0 => {
                    return Err(format!("{name} has {len} values, not {count}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_optimiser(&self) -> Result<(), RecipeError> {
        match self.optimiser {
            Optimiser::AdamW { .. } | Optimiser::NAdam { .. } | Optimiser::Adadelta { .. } => Ok(()),
            Optimiser::Sgd { .. } | Optimiser::RAdam { .. } | Optimiser::Ranger { .. } => {
                let kind = self.optimiser.kind();
                let problem = format!(
                    "{kind} is for NNUEs and selectors: a transformer is trained by adamw, nadam or adadelta"
                );
                Err(RecipeError::Invalid { key: "optimiser.kind", problem })
            }
        }
    }

    /// With a bridge the network is frozen, so settings that would change it are errors.
    fn check_bridge(&self, bridge: &BridgeRecipe) -> Result<(), RecipeError> {
        within("bridge.dropout", bridge.dropout, 0.0, ALMOST_ONE)?;
        let invalid = |key, problem: &str| Err(RecipeError::Invalid { key, problem: problem.into() });
        if self.network.init_from.is_none() {
            return invalid(
                "network.init_from",
                "a bridge is trained for an existing network: name its file",
            );
        }
        if !self.training.freeze.is_empty() {
            return invalid(
                "training.freeze",
                "with a bridge all other tensors are frozen already: leave this out",
            );
        }
        match self.training.sparsity {
            Some(_) => invalid("training.sparsity", "with a bridge the network is frozen: leave this out"),
            None => Ok(()),
        }
    }

    /// Checks that need the architecture: patterns of frozen tensors, and weights of heads.
    fn check_network(&self, architecture: &Architecture) -> Result<(), RecipeError> {
        let tensors = architecture.tensors();
        for pattern in &self.training.freeze {
            if !tensors.iter().any(|tensor| matches(pattern, &tensor.name)) {
                let problem =
                    format!("{pattern:?} does not match any tensor; `tandem-lab inspect` lists them");
                return Err(RecipeError::Invalid { key: "training.freeze", problem });
            }
        }
        if tensors.iter().all(|tensor| self.training.is_frozen(&tensor.name)) {
            let problem = "every tensor is frozen: nothing would be trained".into();
            return Err(RecipeError::Invalid { key: "training.freeze", problem });
        }
        let (heads, weights) = (&architecture.heads, &self.targets.weights);
        let policy = heads.policy.iter();
        let auxiliary = policy
            .clone()
            .flat_map(|head| head.aux_targets.iter().map(|&target| weights.auxiliary_policy(target)));
        let values = heads.values().map(|(_, head)| head);
        let values_of = [weights.value, weights.search_value, weights.short_term];
        let trained = [
            heads.action_value.map(|_| weights.action_value),
            heads.state_value.map(|_| weights.state_value),
            heads.moves_left.map(|_| weights.moves_left),
            heads.move_value.map(|_| weights.move_value),
        ];
        let trained =
            trained.into_iter().flatten().chain(policy.clone().map(|_| weights.policy)).chain(auxiliary);
        let values_of = values.iter().zip(values_of).filter_map(|(head, weight)| head.map(|_| weight));
        if trained.chain(values_of).sum::<f64>() > 0.0 {
            return Ok(());
        }
        let problem = "all heads of this network have weight zero: nothing would be trained".into();
        Err(RecipeError::Invalid { key: "targets.weights", problem })
    }
}

#[cfg(test)]
mod tests {
    use super::super::targets::HeadWeights;
    use super::*;
    use crate::recipe::Swa;

    const SHORT: &str = r#"
        name = "first"
        [data]
        train = [{ path = "games.pgn" }]
        [network]
        preset = "byte"
    "#;

    fn with(more: &str) -> Result<TransformerRecipe, RecipeError> {
        TransformerRecipe::parse(&format!("{SHORT}\n{more}"))
    }

    #[test]
    fn a_short_recipe_is_explained_in_full_and_means_the_same() {
        let recipe = TransformerRecipe::parse(SHORT).unwrap();
        let explained = recipe.explain();
        for default in
            ["batch = 1024", "ema_decay = 0.999", "kind = \"adamw\"", "kind = \"hl-gauss\"", "router_z"]
        {
            assert!(explained.contains(default), "{explained}");
        }
        assert_eq!(TransformerRecipe::parse(&explained).unwrap(), recipe);
        assert_eq!(recipe.steps(), 9766);
        assert_eq!(recipe.network.architecture().unwrap(), Preset::Byte.architecture());
    }

    #[test]
    fn every_key_is_read() {
        let described = Preset::BtSmall.architecture().to_toml();
        let described =
            described.replace("\n[[", "\n[[network.architecture.").replace("\n[", "\n[network.architecture.");
        let text = format!(
            r#"
            name = "much"
            seed = 7
            lr = {{ kind = "wsd", peak = 1e-3, warm_up = 1000 }}
            [data]
            train = [
                {{ path = "action_value@4_data.bag", bag = "action-value", weight = 2.0 }},
                {{ path = "x.csv.zst", columns = "unit=pawns,view=white", filter = "no-chess960", wdl = 0.3 }},
            ]
            validation_fraction = 0.01
            flip = true
            on_invalid = "skip"
            [targets]
            value_wdl = 0.5
            label_smoothing = 0.1
            weights = {{ policy = 2.0, soft_policy = 0.0 }}
            [training]
            batch = 4096
            gradient_accumulation_steps = 4
            swa = {{ every = 50 }}
            freeze = ["embedding.*", "*_norm.scale"]
            sparsity = "2:4"
            precision = "bf16"
            cuda_graph = true
            [optimiser]
            kind = "adamw"
            [logging]
            every = 5
            [network.architecture]
            {described}"#
        );
        let recipe = TransformerRecipe::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(recipe.network.architecture().unwrap(), Preset::BtSmall.architecture());
        assert_eq!(recipe.training.swa, Some(Swa { from: 0.75, every: 50 }));
        assert_eq!(
            recipe.targets.weights,
            HeadWeights { policy: 2.0, soft_policy: 0.0, ..HeadWeights::default() }
        );
        assert_eq!(TransformerRecipe::parse(&recipe.explain()).unwrap(), recipe);
        assert!(recipe.training.is_frozen("embedding.squares.weight"));
        assert!(!recipe.training.is_frozen("layers.0.attention.query.weight"));
    }

    #[test]
    fn invalid_values_are_reported_by_their_key() {
        let message = |more: &str| with(more).unwrap_err().to_string();
        for (more, start) in [
            ("[training]\nbatch = 0", "training.batch: 0 is not from 1"),
            (
                "[training]\ngradient_accumulation_steps = 3",
                "training.gradient_accumulation_steps: 1024 positions",
            ),
            ("[training]\nema_decay = 1.0", "training.ema_decay: "),
            ("[training]\nswa = { from = 2.0 }", "training.swa.from: "),
            ("[training]\nfreeze = [\"body.*\"]", "training.freeze: \"body.*\" does not match any tensor"),
            ("[training]\nfreeze = [\"*\"]", "training.freeze: every tensor is frozen"),
            ("[targets]\nwdl = 2", "targets.wdl: "),
            ("[targets]\nvalue_wdl = -0.1", "targets.value_wdl: "),
            ("[targets]\nscale = 0.0", "targets.scale: "),
            ("[targets.buckets]\nkind = \"hl-gauss\"\nsigma = 0.0", "targets.buckets.sigma: "),
            ("[targets.weights]\npolicy = -1.0", "targets.weights.policy: "),
            ("[targets.weights]\naction_value = 0.0", "targets.weights: all heads"),
            ("[targets.weights]\npolicy = 2.0", "targets.weights.policy: it has no effect"),
            ("[targets]\nvalue_wdl = 0.5", "targets.value_wdl: it has no effect"),
            ("[optimiser]\nkind = \"nadam\"\nbeta2 = 1.0", "optimiser.beta2: "),
            (
                "[training]\ncuda_graph = true\n[optimiser]\nkind = \"nadam\"",
                "training.cuda_graph: a step of nadam",
            ),
            ("[optimiser]\nkind = \"ranger\"", "optimiser.kind: ranger is for NNUEs"),
            ("[training]\nqat = true", "training.qat: it has no effect on transformers"),
            ("[training]\nvalidation_positions = 5", "training.validation_positions: it has no effect"),
            ("[target]\nwdl = 0.5", "target: unknown key or table"),
            (
                "[bridge]\nnnue = { path = \"x.tnn\" }",
                "network.init_from: a bridge is trained for an existing network",
            ),
            ("[bridge]\nnnue = { path = \"x.tnn\" }\ndropout = 1.0", "bridge.dropout: "),
            (
                "[bridge]\nnnue = { path = \"x.tnn\", sha256 = \"12\" }",
                "bridge.nnue.sha256: a SHA-256 has 64",
            ),
        ] {
            let found = message(more);
            assert!(found.starts_with(start), "{found}");
        }
        for (more, part) in [
            ("[training]\nbatches = 1", "batches"),
            ("[training]\nprecision = \"f16\"", "f16"),
            ("[optimiser]\nkind = \"sgd\"", "sgd"),
        ] {
            assert!(message(more).contains(part), "{}", message(more));
        }
        let changed = |from: &str, to: &str| {
            TransformerRecipe::parse(&SHORT.replace(from, to)).unwrap_err().to_string()
        };
        assert!(changed("\"first\"", "\"a/b\"").starts_with("name: "));
        assert!(changed("preset = \"byte\"", "").starts_with("network: name a preset"));
        assert!(changed("\"byte\"", "\"bite\"").contains("is not one of byte, searchless-9m"));
        assert!(changed("\"byte\"", "\"byte\"\narchitecture = \"x.toml\"").contains("and not both"));
        assert!(changed("preset = \"byte\"", "architecture = 3").contains("the name of a file, or a table"));
        assert!(changed("\"games.pgn\"", "\"x.bag\", bag = \"av\"").starts_with("data.bag: "));
        let missing =
            TransformerNetwork { init_from: Some("/none.ttn".into()), ..TransformerNetwork::default() };
        assert!(missing.architecture().unwrap_err().to_string().starts_with("network.init_from: "));
    }
}
