//! The recipe of a transformer's run: every setting of it, in a TOML file that fits on a screen. Keys that
//! are left out have the defaults given here, and [`TransformerRecipe::explain`] writes them all out.

use super::bridge_setup::{BridgeRecipe, read_initial_network};
use super::optimiser::TransformerOptimiser;
use super::targets::Targets;
use crate::base::check_sha256;
use crate::old_keys::{self, RecipeKind};
use crate::recipe::{ALMOST_ONE, RecipeError, SourceRecipe, check_lr, check_name, check_sources, within};
use crate::schedule::{Schedule, number_or_schedule};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use tandem_data::OnError;
use tandem_hybrid::Fingerprint;
use tandem_transformer::{Architecture, Preset, Weights};

/// A transformer's run, as described in a TOML file. [`TransformerRecipe::parse`] reads one, and
/// [`run_transformer`](super::run_transformer) trains it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerRecipe {
    /// Name of the network and of its files; the run's folder is `runs/NAME` unless the caller chooses
    /// another.
    pub name: String,
    /// Seed of the initial weights, the order of the data and the augmentation, default 1. The same seed
    /// gives the same run; on a GPU up to rounding.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Learning rate, as a number or a schedule. Default: 500 steps of warm-up, then a cosine from 5e-4 to
    /// 5e-6.
    #[serde(default = "default_lr", deserialize_with = "number_or_schedule")]
    pub lr: Schedule,
    /// Training and validation data, which must at least name one file to train on.
    pub data: SampleData,
    /// Architecture of the network, and a network file to start from instead of random weights.
    pub network: TransformerNetwork,
    /// Labels that the heads are trained on, and the weights of their losses in the total.
    #[serde(default)]
    pub targets: Targets,
    /// Batch size, length, averaging and everything else about the steps.
    #[serde(default)]
    pub training: TransformerTraining,
    /// Optimiser and its hyperparameters; AdamW with the defaults of PyTorch if the table is left out.
    #[serde(default)]
    pub optimiser: TransformerOptimiser,
    /// A bridge from an NNUE. If there is one, only the bridge is trained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<BridgeRecipe>,
}

/// Data of a transformer's run: the sources, the held-out games, the order and the augmentation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleData {
    /// Sources of the training data. If there are several, each gives a fraction of the samples in proportion
    /// to its weight.
    pub train: Vec<SourceRecipe>,
    /// Sources of the validation data; none by default. They should not share games with the training data.
    #[serde(default)]
    pub validation: Vec<SourceRecipe>,
    /// Fraction of the training games that is held out for validation, from 0 to 0.9, if there are no
    /// validation sources.
    #[serde(default)]
    pub validation_fraction: f64,
    /// Records in the shuffle buffer, default 262,144. A larger buffer mixes more games and needs more
    /// memory.
    #[serde(default = "default_shuffle_buffer")]
    pub shuffle_buffer: usize,
    /// Augmentation: half of the positions, at random, are shown with colours swapped, and half of those
    /// without castling rights mirrored from left to right.
    #[serde(default)]
    pub flip: bool,
    /// Trains even if the scores look meaningless, for example all zero.
    #[serde(default)]
    pub any_scores: bool,
    /// Treatment of broken records and illegal moves: `"stop"`, the default, or `"skip"`.
    #[serde(default)]
    pub on_invalid: OnInvalid,
}

/// Treatment of a record that cannot be decoded, or whose move is illegal in its position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnInvalid {
    /// The run ends with an error that names the record.
    #[default]
    Stop,
    /// The record is skipped and counted; the run reports the count and the first few examples.
    Skip,
}

impl From<OnInvalid> for OnError {
    fn from(broken: OnInvalid) -> Self {
        match broken {
            OnInvalid::Stop => Self::Stop,
            OnInvalid::Skip => Self::Skip,
        }
    }
}

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
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Description {
    /// Path of a TOML file, relative to the working directory.
    File(String),
    /// A table in the recipe itself, so that the recipe is complete without other files.
    Inline(Box<Architecture>),
}

impl<'de> Deserialize<'de> for Description {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Description;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a file, or a table with input, embedding, body and heads")
            }

            fn visit_str<E>(self, path: &str) -> Result<Description, E> {
                Ok(Description::File(path.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Description, A::Error> {
                let described = Architecture::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Description::Inline(Box::new(described)))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// Settings of the training loop: batches, length, validation, averages and precision. All of them have
/// defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransformerTraining {
    /// Positions per step, summed over all processes; default 1024. It must be divisible by the processes and
    /// by the parts of a step.
    pub batch: usize,
    /// Parts into which each step is split, one after the other, if a whole batch does not fit into memory;
    /// default 1. Gradients are summed, so the step is that of the whole batch, except that the load of
    /// experts is balanced within each part.
    pub gradient_accumulation_steps: usize,
    /// Positions of the whole run, default 10,000,000; the data is read again as often as needed.
    pub positions: u64,
    /// Positions between two validations, each of which writes a checkpoint; default 1,000,000.
    pub validate_every: u64,
    /// Positions per validation, default 100,000. They are the first of the validation data and the same
    /// every time.
    pub validation_positions: u64,
    /// Ends the run after this many validations without a lower loss; 0, the default, disables early
    /// stopping.
    pub patience: u32,
    /// Checkpoints kept in addition to the best, default 3; older ones are deleted as new ones are written.
    pub keep: usize,
    /// Maximum gradient norm over all parameters together, default 1; 0 disables clipping.
    pub max_grad_norm: f64,
    /// Decay of the exponential moving average of the weights per step, default 0.999; 0 disables the
    /// average.
    pub ema_decay: f64,
    /// Stochastic weight averaging over the end of the run; none by default.
    pub swa: Option<Swa>,
    /// Names of tensors that are not trained; `*` matches any text.
    pub freeze: Vec<String>,
    /// Structured sparsity of the body's layers, for example `"2:4"`; none by default. Excluded with a
    /// bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparsity: Option<Sparsity>,
    /// Precision of the forward and the backward pass: `"f32"`, the default, or `"bf16"`, which is faster on
    /// a GPU.
    pub precision: TrainingPrecision,
    /// Records a step as a CUDA graph and replays it, which saves up to half of the time at small batches;
    /// false by default. Ignored on CPUs, with several processes, with optimisers other than AdamW, and for
    /// experts without fixed shapes.
    pub cuda_graph: bool,
}

/// Stochastic weight averaging: the plain mean of snapshots of the weights in the last part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Swa {
    /// Fraction of the run after which averaging starts, default 0.75.
    pub from: f64,
    /// Training steps between two snapshots of the weights, all of which are averaged; default 100.
    pub every: u64,
}

/// Structured sparsity of weight matrices: a fixed pattern of zeros, which training keeps by masking the
/// weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sparsity {
    /// The two largest of every four consecutive weights in a row are kept, a pattern that NVIDIA's sparse
    /// tensor cores multiply at twice the speed.
    #[serde(rename = "2:4")]
    TwoOfFour,
}

/// Precision of the forward and the backward pass. Weights and optimiser state are always kept in 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrainingPrecision {
    /// 32-bit floats; on a GPU products use TF32, which has 19 bits.
    #[default]
    F32,
    /// bfloat16: 16 bits, with the exponent of a 32-bit float.
    Bf16,
}

fn default_seed() -> u64 {
    1
}
fn default_shuffle_buffer() -> usize {
    1 << 18
}
fn default_lr() -> Schedule {
    Schedule::WarmUp { steps: 500, then: Box::new(Schedule::Cosine { start: 5e-4, end: 5e-6 }) }
}

impl Default for TransformerTraining {
    fn default() -> Self {
        Self {
            batch: 1024,
            gradient_accumulation_steps: 1,
            positions: 10_000_000,
            validate_every: 1_000_000,
            validation_positions: 100_000,
            patience: 0,
            keep: 3,
            max_grad_norm: 1.0,
            ema_decay: 0.999,
            swa: None,
            freeze: Vec::new(),
            sparsity: None,
            precision: TrainingPrecision::F32,
            cuda_graph: false,
        }
    }
}

impl Default for Swa {
    fn default() -> Self {
        Self { from: 0.75, every: 100 }
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

impl TransformerTraining {
    /// True if a tensor is frozen, because its name matches one of the patterns in `freeze`.
    pub fn is_frozen(&self, tensor: &str) -> bool {
        self.freeze.iter().any(|pattern| matches(pattern, tensor))
    }
}

/// True if a name matches a pattern, in which every star stands for any text, including none.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            // Tries every length for the star, the shortest first.
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.into_iter().any(|at| matches(rest, &name[at..]))
        }),
    }
}

impl TransformerRecipe {
    /// Parses a recipe, and checks it against its architecture even if that is in another file.
    pub(super) fn parse_with_architecture(
        text: &str,
        notices: &mut Vec<String>,
    ) -> Result<Self, RecipeError> {
        let recipe = Self::parse_with_notices(text, notices)?;
        recipe.check_network(&recipe.network.architecture()?)?;
        Ok(recipe)
    }

    /// Parses and checks a recipe. Files that it names are not opened.
    ///
    /// # Errors
    /// If the text is not TOML, has an unknown key or a value out of range, or if its settings exclude each
    /// other; the message names the key.
    pub fn parse(text: &str) -> Result<Self, RecipeError> {
        Self::parse_with_notices(text, &mut Vec::new())
    }

    /// Like [`TransformerRecipe::parse`], and adds a line of text for each key that has another name now: see
    /// [`crate::old_keys`].
    ///
    /// # Errors
    /// As [`TransformerRecipe::parse`].
    pub fn parse_with_notices(text: &str, notices: &mut Vec<String>) -> Result<Self, RecipeError> {
        let recipe: Self = old_keys::parse(RecipeKind::Transformer, text, notices)?;
        recipe.check()?;
        if let Some(architecture) = recipe.network.described()? {
            recipe.check_network(&architecture)?;
        }
        Ok(recipe)
    }

    fn check(&self) -> Result<(), RecipeError> {
        let Self { name, lr, data, targets, training, .. } = self;
        check_name(name)?;
        check_lr(lr)?;
        check_sources(&data.train, &data.validation)?;
        within("data.validation_fraction", data.validation_fraction, 0.0, 0.9)?;
        within("data.shuffle_buffer", data.shuffle_buffer as f64, 0.0, f64::from(1 << 30))?;
        if data.validation_fraction > 0.0 && !data.validation.is_empty() {
            let problem = "there is validation data already: leave out one of the two".into();
            return Err(RecipeError::Invalid { key: "data.validation_fraction", problem });
        }
        let has_validation = data.validation_fraction > 0.0 || !data.validation.is_empty();
        if training.patience > 0 && !(has_validation && training.validation_positions > 0) {
            let problem = "early stopping needs validation data: name some, or leave this out".into();
            return Err(RecipeError::Invalid { key: "training.patience", problem });
        }
        targets.check()?;
        let max_batch = f64::from(1 << 22);
        within("training.batch", training.batch as f64, 1.0, max_batch)?;
        within(
            "training.gradient_accumulation_steps",
            training.gradient_accumulation_steps as f64,
            1.0,
            max_batch,
        )?;
        if !training.batch.is_multiple_of(training.gradient_accumulation_steps) {
            let problem = format!("{} positions cannot be split into equal parts", training.batch);
            return Err(RecipeError::Invalid { key: "training.gradient_accumulation_steps", problem });
        }
        within("training.positions", training.positions as f64, 1.0, u64::MAX as f64)?;
        within("training.validate_every", training.validate_every as f64, 1.0, u64::MAX as f64)?;
        within("training.max_grad_norm", training.max_grad_norm, 0.0, f64::MAX)?;
        within("training.ema_decay", training.ema_decay, 0.0, ALMOST_ONE)?;
        if let Some(swa) = training.swa {
            within("training.swa.from", swa.from, 0.0, 1.0)?;
            within("training.swa.every", swa.every as f64, 1.0, u64::MAX as f64)?;
        }
        for (key, sha256) in [
            ("network.init_sha256", self.network.init_sha256.as_deref()),
            ("bridge.nnue.sha256", self.bridge.as_ref().and_then(|bridge| bridge.nnue.sha256.as_deref())),
        ] {
            check_sha256(key, sha256)?;
        }
        if let Some(bridge) = &self.bridge {
            self.check_bridge(bridge)?;
        }
        self.optimiser.check()
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

    /// The recipe as TOML, with every default written out and all keys by their present names. Parsing it
    /// again gives an equal recipe.
    pub fn explain(&self) -> String {
        // TOML can represent everything that a recipe contains.
        toml::to_string_pretty(self).unwrap_or_default()
    }

    /// Steps of the whole run, the last one rounded up.
    pub fn steps(&self) -> u64 {
        self.training.positions.div_ceil(self.training.batch as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::targets::HeadWeights;
    use super::*;

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
            wdl = {{ kind = "linear", start = 0.0, end = 1.0 }}
            label_smoothing = 0.1
            buckets = {{ kind = "cross-entropy" }}
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
            kind = "nadam"
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
            ("[optimiser]\nkind = \"nadam\"\nbeta2 = 1.0", "optimiser.beta2: "),
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

    #[test]
    fn a_star_matches_any_text() {
        for (pattern, name, expected) in [
            ("a.b", "a.b", true),
            ("a.b", "a.bc", false),
            ("a*", "a", true),
            ("*.weight", "layers.0.weight", true),
            ("layers.*.norm.*", "layers.3.norm.scale", true),
            ("layers.*.norm.*", "layers.3.scale", false),
            ("*b*b", "ab", false),
            ("*b*b", "abb", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
