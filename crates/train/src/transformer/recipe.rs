//! Everything about a transformer's run, in a file that a person can read in one screen.

use super::join::{BridgeRecipe, read_start};
use super::optimiser::TransformerOptimiser;
use super::targets::Targets;
use crate::base::check_sha256;
use crate::recipe::{ALMOST_ONE, RecipeError, SourceRecipe, check_name, check_rate, check_sources, within};
use crate::schedule::{Schedule, number_or_schedule};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use tandem_data::OnError;
use tandem_hybrid::Fingerprint;
use tandem_transformer::{Architecture, Preset, Weights};

/// A recipe for a transformer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerRecipe {
    /// What the network is called.
    pub name: String,
    /// What chance starts from: the same seed, the same run; on a card, to rounding.
    #[serde(default = "one")]
    pub seed: u64,
    /// The learning rate.
    #[serde(default = "usual_rate", deserialize_with = "number_or_schedule")]
    pub rate: Schedule,
    /// What it learns from.
    pub data: SampleData,
    /// What it is made of.
    pub network: TransformerNetwork,
    /// What it should come to.
    #[serde(default)]
    pub targets: Targets,
    /// How it gets there.
    #[serde(default)]
    pub training: TransformerTraining,
    /// The optimiser.
    #[serde(default)]
    pub optimiser: TransformerOptimiser,
    /// A bridge from an NNUE, which is then all that is learnt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<BridgeRecipe>,
}

/// What a transformer learns from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleData {
    /// To learn from.
    pub train: Vec<SourceRecipe>,
    /// To watch learning with.
    #[serde(default)]
    pub validation: Vec<SourceRecipe>,
    /// This share of the games to learn from is kept to watch learning with, where nothing else is given for that.
    #[serde(default)]
    pub validation_share: f64,
    /// Records that are mixed at a time.
    #[serde(default = "usual_buffer")]
    pub shuffle_buffer: usize,
    /// Every other position, by chance, is shown with colours exchanged, and every other one in which nobody may castle
    /// with left and right exchanged.
    #[serde(default)]
    pub flip: bool,
    /// Train even where the scores look as if they meant nothing.
    #[serde(default)]
    pub any_scores: bool,
    /// What becomes of broken records and of moves that are not legal.
    #[serde(default)]
    pub broken: Broken,
}

/// What becomes of a broken record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Broken {
    /// It ends the run, with a message that says which it is.
    #[default]
    Stop,
    /// It is left out and counted.
    Skip,
}

impl From<Broken> for OnError {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Stop => Self::Stop,
            Broken::Skip => Self::Skip,
        }
    }
}

/// What a transformer is made of: one of `preset` and `architecture`, or what `start` is made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransformerNetwork {
    /// A network file to begin with; chance begins where there is none.
    pub start: Option<String>,
    /// The SHA-256 that this file must have; any will do where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_sha256: Option<String>,
    /// A network that is known by a name.
    pub preset: Option<String>,
    /// A description: a TOML file that has it, or the description itself.
    pub architecture: Option<Description>,
}

/// A description of a network.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Description {
    /// In a file.
    File(String),
    /// In the recipe.
    Here(Box<Architecture>),
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
                Ok(Description::Here(Box::new(described)))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// How a transformer gets there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransformerTraining {
    /// Positions of a step, of all processes together.
    pub batch: usize,
    /// Parts in which a step is computed, one after the other, where memory does not hold it at once.
    pub accumulate: usize,
    /// Positions of the whole run; data is read again from the start as often as it takes.
    pub positions: u64,
    /// Positions between two looks at the validation data, with a checkpoint each.
    pub validate_every: u64,
    /// Positions of the validation data that are looked at.
    pub validation_positions: u64,
    /// The run ends when the validation loss has not fallen for so many looks; zero for never.
    pub patience: u32,
    /// Checkpoints that are kept beside the best.
    pub keep: usize,
    /// Slopes are held to this length all together; zero for any.
    pub clip: f64,
    /// The share of the moving average of the weights that stays at each step; zero for no average.
    pub ema: f64,
    /// The plain average of the last weights, if one is wanted.
    pub swa: Option<Swa>,
    /// Tensors that stay as they are, by name; a star stands for anything.
    pub freeze: Vec<String>,
    /// Of every four weights of a layer of the body, the two largest stay.
    pub two_of_four: bool,
    /// What is computed with.
    pub precision: TrainingPrecision,
    /// A step is recorded once and played back from then on, where the device can do that.
    pub graph: bool,
}

/// The plain average of the last weights.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Swa {
    /// The share of the run after which it begins.
    pub from: f64,
    /// Steps between two that are averaged.
    pub every: u64,
}

/// What is computed with. Weights are kept in full precision beside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrainingPrecision {
    /// 32 bits; on a card products are rounded to 19 of them (TF32).
    #[default]
    F32,
    /// 16 bits with the exponents of 32.
    Bf16,
}

fn one() -> u64 {
    1
}
fn usual_buffer() -> usize {
    1 << 18
}
fn usual_rate() -> Schedule {
    Schedule::WarmUp { steps: 500, then: Box::new(Schedule::Cosine { start: 5e-4, end: 5e-6 }) }
}

impl Default for TransformerTraining {
    fn default() -> Self {
        Self {
            batch: 1024,
            accumulate: 1,
            positions: 10_000_000,
            validate_every: 1_000_000,
            validation_positions: 100_000,
            patience: 0,
            keep: 3,
            clip: 1.0,
            ema: 0.999,
            swa: None,
            freeze: Vec::new(),
            two_of_four: false,
            precision: TrainingPrecision::F32,
            graph: false,
        }
    }
}

impl Default for Swa {
    fn default() -> Self {
        Self { from: 0.75, every: 100 }
    }
}

impl TransformerNetwork {
    /// The architecture that is asked for. Files that the recipe names are read.
    pub fn architecture(&self) -> Result<Architecture, RecipeError> {
        if let Some(described) = self.described()? {
            return Ok(described);
        }
        let wrong = |key, problem: String| RecipeError::Wrong { key, problem };
        if let Some(Description::File(path)) = &self.architecture {
            let text = std::fs::read_to_string(path)
                .map_err(|source| RecipeError::Io { path: path.into(), source })?;
            return Architecture::from_toml(&text)
                .map_err(|error| wrong("network.architecture", format!("{path}: {error}")));
        }
        // Nothing is asked for but what is there already.
        let path = self.start.as_deref().unwrap_or_default();
        match Weights::load(path, None) {
            Ok(weights) => Ok(weights.architecture().clone()),
            Err(error) => Err(wrong("network.start", error.to_string())),
        }
    }

    /// The bytes of the file to begin with, and which file it is.
    pub(super) fn read_start(&self) -> Result<(Vec<u8>, Fingerprint), RecipeError> {
        read_start(self.start.as_deref().unwrap_or_default(), self.start_sha256.as_deref())
    }

    /// The architecture where the recipe itself has it; whether it has one at all, and only one.
    fn described(&self) -> Result<Option<Architecture>, RecipeError> {
        let wrong = |key, problem: String| Err(RecipeError::Wrong { key, problem });
        match (&self.preset, &self.architecture, &self.start) {
            (Some(_), Some(_), _) => {
                wrong("network", "name a preset or an architecture, and not both".into())
            }
            (None, None, None) => wrong(
                "network",
                "name a preset, an architecture, or a network to start with; `preset = \"byte\"` is the smallest".into(),
            ),
            (Some(name), None, _) => match Preset::named(name) {
                Some(preset) => Ok(Some(preset.architecture())),
                None => {
                    let known = Preset::ALL.map(Preset::name).join(", ");
                    wrong("network.preset", format!("{name:?} is none of {known}"))
                }
            },
            (None, Some(Description::Here(architecture)), _) => match architecture.check() {
                Ok(()) => Ok(Some((**architecture).clone())),
                Err(error) => wrong("network.architecture", error.to_string()),
            },
            (None, Some(Description::File(_)) | None, _) => Ok(None),
        }
    }
}

impl TransformerTraining {
    /// Whether a tensor stays as it is.
    pub fn is_frozen(&self, tensor: &str) -> bool {
        self.freeze.iter().any(|pattern| fits(pattern, tensor))
    }
}

/// Whether a name is one of those that a pattern stands for.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            // The star stands for more and more of it.
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.into_iter().any(|at| fits(rest, &name[at..]))
        }),
    }
}

impl TransformerRecipe {
    /// Reads a recipe from text, and the description of the network where it names a file that has it.
    pub(super) fn parse_whole(text: &str) -> Result<Self, RecipeError> {
        let recipe = Self::parse(text)?;
        recipe.check_network(&recipe.network.architecture()?)?;
        Ok(recipe)
    }

    /// Reads a recipe from text, and looks whether it can be followed. Files that it names are not looked for.
    pub fn parse(text: &str) -> Result<Self, RecipeError> {
        let recipe: Self = toml::from_str(text)?;
        recipe.check()?;
        if let Some(architecture) = recipe.network.described()? {
            recipe.check_network(&architecture)?;
        }
        Ok(recipe)
    }

    fn check(&self) -> Result<(), RecipeError> {
        let Self { name, rate, data, targets, training, .. } = self;
        check_name(name)?;
        check_rate(rate)?;
        check_sources(&data.train, &data.validation)?;
        within("data.validation_share", data.validation_share, 0.0, 0.9)?;
        within("data.shuffle_buffer", data.shuffle_buffer as f64, 0.0, f64::from(1 << 30))?;
        if data.validation_share > 0.0 && !data.validation.is_empty() {
            let problem = "there is validation data already: leave out one of the two".into();
            return Err(RecipeError::Wrong { key: "data.validation_share", problem });
        }
        let has_validation = data.validation_share > 0.0 || !data.validation.is_empty();
        if training.patience > 0 && !(has_validation && training.validation_positions > 0) {
            let problem = "it needs validation data to look at: name some, or leave it out".into();
            return Err(RecipeError::Wrong { key: "training.patience", problem });
        }
        targets.check()?;
        let most = f64::from(1 << 22);
        within("training.batch", training.batch as f64, 1.0, most)?;
        within("training.accumulate", training.accumulate as f64, 1.0, most)?;
        if !training.batch.is_multiple_of(training.accumulate) {
            let problem = format!("{} positions cannot be shared out equally", training.batch);
            return Err(RecipeError::Wrong { key: "training.accumulate", problem });
        }
        within("training.positions", training.positions as f64, 1.0, u64::MAX as f64)?;
        within("training.validate_every", training.validate_every as f64, 1.0, u64::MAX as f64)?;
        within("training.clip", training.clip, 0.0, f64::MAX)?;
        within("training.ema", training.ema, 0.0, ALMOST_ONE)?;
        if let Some(swa) = training.swa {
            within("training.swa.from", swa.from, 0.0, 1.0)?;
            within("training.swa.every", swa.every as f64, 1.0, u64::MAX as f64)?;
        }
        for (key, sha256) in [
            ("network.start_sha256", self.network.start_sha256.as_deref()),
            ("bridge.nnue.sha256", self.bridge.as_ref().and_then(|bridge| bridge.nnue.sha256.as_deref())),
        ] {
            check_sha256(key, sha256)?;
        }
        if let Some(bridge) = &self.bridge {
            self.check_bridge(bridge)?;
        }
        self.optimiser.check()
    }

    /// A bridge is learnt beside a network that stays as it is.
    fn check_bridge(&self, bridge: &BridgeRecipe) -> Result<(), RecipeError> {
        within("bridge.dropout", bridge.dropout, 0.0, ALMOST_ONE)?;
        let wrong = |key, problem: &str| Err(RecipeError::Wrong { key, problem: problem.into() });
        if self.network.start.is_none() {
            return wrong(
                "network.start",
                "a bridge leads to a network that is there already: name its file",
            );
        }
        if !self.training.freeze.is_empty() {
            return wrong(
                "training.freeze",
                "with a bridge everything but the bridge stays as it is: leave this out",
            );
        }
        match self.training.two_of_four {
            true => wrong("training.two_of_four", "with a bridge the network stays as it is: leave this out"),
            false => Ok(()),
        }
    }

    /// What can only be seen once the network is known.
    fn check_network(&self, architecture: &Architecture) -> Result<(), RecipeError> {
        let tensors = architecture.tensors();
        for pattern in &self.training.freeze {
            if !tensors.iter().any(|tensor| fits(pattern, &tensor.name)) {
                let problem =
                    format!("{pattern:?} is the name of no tensor; `tandem-lab inspect` lists them");
                return Err(RecipeError::Wrong { key: "training.freeze", problem });
            }
        }
        if tensors.iter().all(|tensor| self.training.is_frozen(&tensor.name)) {
            let problem = "nothing is left to learn".into();
            return Err(RecipeError::Wrong { key: "training.freeze", problem });
        }
        let (heads, weights) = (&architecture.heads, &self.targets.weights);
        let policy = heads.policy.iter();
        let beside = policy.clone().flat_map(|head| head.beside.iter().map(|&target| weights.beside(target)));
        let values = heads.values().map(|(_, head)| head);
        let of_values = [weights.value, weights.search_value, weights.short_term];
        let learnt = [
            heads.action_value.map(|_| weights.action_value),
            heads.state_value.map(|_| weights.state_value),
            heads.moves_left.map(|_| weights.moves_left),
            heads.move_value.map(|_| weights.move_value),
        ];
        let learnt = learnt.into_iter().flatten().chain(policy.clone().map(|_| weights.policy)).chain(beside);
        let of_values = values.iter().zip(of_values).filter_map(|(head, weight)| head.map(|_| weight));
        if learnt.chain(of_values).sum::<f64>() > 0.0 {
            return Ok(());
        }
        let problem = "no head of this network counts: nothing would be learnt".into();
        Err(RecipeError::Wrong { key: "targets.weights", problem })
    }

    /// The recipe with every default written out.
    pub fn explain(&self) -> String {
        // Numbers, texts and tables: nothing that TOML has no place for.
        toml::to_string_pretty(self).unwrap_or_default()
    }

    /// Steps of the whole run.
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
        for default in ["batch = 1024", "ema = 0.999", "kind = \"adamw\"", "kind = \"hl-gauss\"", "router_z"]
        {
            assert!(explained.contains(default), "{explained}");
        }
        assert_eq!(TransformerRecipe::parse(&explained).unwrap(), recipe);
        assert_eq!(recipe.steps(), 9766);
        assert_eq!(recipe.network.architecture().unwrap(), Preset::Byte.architecture());
    }

    #[test]
    fn everything_can_be_asked_for() {
        let described = Preset::BtSmall.architecture().to_toml();
        let described =
            described.replace("\n[[", "\n[[network.architecture.").replace("\n[", "\n[network.architecture.");
        let text = format!(
            r#"
            name = "much"
            seed = 7
            rate = {{ kind = "wsd", peak = 1e-3, warm_up = 1000 }}
            [data]
            train = [
                {{ path = "action_value@4_data.bag", bag = "action-value", weight = 2.0 }},
                {{ path = "x.csv.zst", columns = "unit=pawns,view=white", filter = "no-chess960", result_share = 0.3 }},
            ]
            validation_share = 0.01
            flip = true
            broken = "skip"
            [targets]
            result_share = {{ kind = "linear", start = 0.0, end = 1.0 }}
            label_smoothing = 0.1
            buckets = {{ kind = "cross-entropy" }}
            weights = {{ policy = 2.0, soft_policy = 0.0 }}
            [training]
            batch = 4096
            accumulate = 4
            swa = {{ every = 50 }}
            freeze = ["embedding.*", "*_norm.scale"]
            two_of_four = true
            precision = "bf16"
            graph = true
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
    fn what_cannot_be_is_told_by_its_key() {
        let told = |more: &str| with(more).unwrap_err().to_string();
        for (more, start) in [
            ("[training]\nbatch = 0", "training.batch: 0 is not from 1"),
            ("[training]\naccumulate = 3", "training.accumulate: 1024 positions"),
            ("[training]\nema = 1.0", "training.ema: "),
            ("[training]\nswa = { from = 2.0 }", "training.swa.from: "),
            ("[training]\nfreeze = [\"body.*\"]", "training.freeze: \"body.*\" is the name of no tensor"),
            ("[training]\nfreeze = [\"*\"]", "training.freeze: nothing is left"),
            ("[targets]\nresult_share = 2", "targets.result_share: "),
            ("[targets]\nvalue_result_share = -0.1", "targets.value_result_share: "),
            ("[targets]\nscale = 0.0", "targets.scale: "),
            ("[targets.buckets]\nkind = \"hl-gauss\"\nsigma = 0.0", "targets.buckets.sigma: "),
            ("[targets.weights]\npolicy = -1.0", "targets.weights.policy: "),
            ("[targets.weights]\naction_value = 0.0", "targets.weights: no head"),
            ("[optimiser]\nkind = \"nadam\"\nbeta2 = 1.0", "optimiser.beta2: "),
            ("[bridge]\nnnue = { path = \"x.tnn\" }", "network.start: a bridge leads to a network"),
            ("[bridge]\nnnue = { path = \"x.tnn\" }\ndropout = 1.0", "bridge.dropout: "),
            (
                "[bridge]\nnnue = { path = \"x.tnn\", sha256 = \"12\" }",
                "bridge.nnue.sha256: a SHA-256 has 64",
            ),
        ] {
            let message = told(more);
            assert!(message.starts_with(start), "{message}");
        }
        for (more, part) in [
            ("[training]\nbatches = 1", "batches"),
            ("[training]\nprecision = \"f16\"", "f16"),
            ("[optimiser]\nkind = \"sgd\"", "sgd"),
        ] {
            assert!(told(more).contains(part), "{}", told(more));
        }
        let changed = |from: &str, to: &str| {
            TransformerRecipe::parse(&SHORT.replace(from, to)).unwrap_err().to_string()
        };
        assert!(changed("\"first\"", "\"a/b\"").starts_with("name: "));
        assert!(changed("preset = \"byte\"", "").starts_with("network: name a preset"));
        assert!(changed("\"byte\"", "\"bite\"").contains("none of byte, searchless-9m"));
        assert!(changed("\"byte\"", "\"byte\"\narchitecture = \"x.toml\"").contains("and not both"));
        assert!(changed("preset = \"byte\"", "architecture = 3").contains("the name of a file, or a table"));
        assert!(changed("\"games.pgn\"", "\"x.bag\", bag = \"av\"").starts_with("data.bag: "));
        let missing = TransformerNetwork { start: Some("/none.ttn".into()), ..TransformerNetwork::default() };
        assert!(missing.architecture().unwrap_err().to_string().starts_with("network.start: "));
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, is_so) in [
            ("a.b", "a.b", true),
            ("a.b", "a.bc", false),
            ("a*", "a", true),
            ("*.weight", "layers.0.weight", true),
            ("layers.*.norm.*", "layers.3.norm.scale", true),
            ("layers.*.norm.*", "layers.3.scale", false),
            ("*b*b", "ab", false),
            ("*b*b", "abb", true),
        ] {
            assert_eq!(fits(pattern, name), is_so, "{pattern} {name}");
        }
    }
}
