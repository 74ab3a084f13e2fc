//! NNUE recipes: the TOML file that describes a whole training run, and the checks that find a mistake before
//! the run begins rather than at its end.
//!
//! A short recipe is enough, because every key but the data, the features and the accumulator has a default;
//! [`Recipe::explain`] writes all of them out.

mod source;

pub use source::SourceRecipe;
pub(crate) use source::check_sources;

use crate::loss::Loss;
use crate::old_keys::{self, RecipeKind};
use crate::optimiser::Optimiser;
use crate::schedule::{Schedule, number_or_schedule};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tandem_nnue::{
    Activation, Architecture, FeatureSet, HeadShape, InputActivation, OutputBuckets, StackShape,
};
use thiserror::Error;

/// A recipe that cannot be read, is not TOML, or describes a run that is not possible.
#[derive(Debug, Error)]
pub enum RecipeError {
    /// The file cannot be read, for example because it does not exist.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file, as it was given to the program or in a recipe.
        path: PathBuf,
        /// The file system's reason.
        source: std::io::Error,
    },
    /// The text is not TOML, or has an unknown key or a value of the wrong type.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A setting of the form `key=value` cannot be applied to the recipe.
    #[error("{setting:?}: {problem}")]
    Setting {
        /// The setting as it was given, for example `training.batch=256`, with its value.
        setting: String,
        /// The reason, for example that it has no `=` between key and value.
        problem: String,
    },
    /// Another error, with the file that it is about, since a command may read several recipes.
    #[error("{}: {source}", path.display())]
    In {
        /// Path of that recipe, as it was given.
        path: PathBuf,
        /// The error itself, which names the key but not the file.
        source: Box<RecipeError>,
    },
    /// A value that is out of range or contradicts another one.
    #[error("{key}: {problem}")]
    Invalid {
        /// Path of the key in the recipe, for example `training.batch`.
        key: &'static str,
        /// The problem with the value, and what to change about it.
        problem: String,
    },
}

/// A recipe for an NNUE, as it stands in a TOML file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Name of the network and of its files; it has to be a valid file name.
    pub name: String,
    /// Seed of the random initialisation and of the order of the data; default 1. The same seed gives the
    /// same network to the bit on the CPU, and to rounding on a GPU.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Training and validation data, and the size of the buffer in which records are shuffled.
    pub data: DataRecipe,
    /// Architecture of the network, the network to start from, and the quantisation.
    pub network: NetworkRecipe,
    /// Loss function and training targets; default the squared error of win probabilities, from scores alone.
    #[serde(default)]
    pub target: TargetRecipe,
    /// Batch size, length, validation, clipping and averaging of the run.
    #[serde(default)]
    pub training: TrainingRecipe,
    /// Optimiser and its hyperparameters; default AdamW with a weight decay of 0.01.
    #[serde(default)]
    pub optimiser: Optimiser,
    /// Learning rate, a number or a schedule over the steps of the run; default a cosine from 1e-3 to 2.4e-6.
    #[serde(default = "default_lr", deserialize_with = "number_or_schedule")]
    pub lr: Schedule,
}

/// Training and validation data of an NNUE, with the size of the shuffle buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataRecipe {
    /// Sources of training positions, at least one; each is read again from its start when it ends.
    pub train: Vec<SourceRecipe>,
    /// Sources of validation positions; without any, the run has no validation loss and no best checkpoint.
    #[serde(default)]
    pub validation: Vec<SourceRecipe>,
    /// Number of records that are shuffled together; default 2^20. Files whose neighbours come from one game
    /// need a buffer of many games.
    #[serde(default = "default_shuffle_buffer")]
    pub shuffle_buffer: usize,
    /// Trains even if the scores look wrong, for example all zero or in pawns; default false, which makes
    /// that an error.
    #[serde(default)]
    pub any_scores: bool,
}

/// Architecture of an NNUE and the scales of its quantisation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkRecipe {
    /// Float network (`.safetensors`) to start from, of the same architecture and scale; random
    /// initialisation if absent.
    #[serde(default)]
    pub init_from: Option<String>,
    /// Name of the feature set, for example `768`, `halfkp` or `halfka-v2-hm`.
    pub features: String,
    /// Width of the accumulator of one perspective, a multiple of 32.
    pub accumulator: usize,
    /// Both perspectives share the weights of the first layer; default true.
    #[serde(default = "default_true")]
    pub tied: bool,
    /// Activation of the accumulator in networks without stacks: `relu`, `crelu` or `screlu`, the default.
    #[serde(default = "default_activation")]
    pub activation: String,
    /// Number of output buckets, chosen by the number of pieces; default 1. With stacks, 8 means Stockfish's
    /// buckets.
    #[serde(default = "default_buckets")]
    pub buckets: usize,
    /// Dense layers after the accumulators; absent for a network with one output layer.
    #[serde(default)]
    pub stacks: Option<StackRecipe>,
    /// Piece-square values (PSQT) beside the first layer, for networks with stacks; default false.
    #[serde(default)]
    pub psqt: bool,
    /// Adds virtual features that all king buckets share, and folds them into each bucket when the network is
    /// written; default false. Helps if most features are rare in the data.
    #[serde(default)]
    pub factoriser: bool,
    /// Centipawns of an output of one, for networks without stacks; default 400.
    #[serde(default = "default_scale")]
    pub scale: i32,
    /// Quantisation scale of the accumulator for networks without stacks, the integer that represents 1.0;
    /// default 255.
    #[serde(default = "default_qa")]
    pub qa: i16,
    /// Quantisation scale of the output weights for networks without stacks, the integer that represents 1.0;
    /// default 64.
    #[serde(default = "default_qb")]
    pub qb: i16,
}

/// Dense layers after the accumulators, one set of them for each output bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackRecipe {
    /// Outputs of the first dense layer of each stack, for example 16.
    pub hidden: usize,
    /// Outputs of the second dense layer of each stack, for example 32.
    pub second: usize,
    /// Multiplies the two halves of each accumulator in pairs, which halves the inputs of the first dense
    /// layer; default false.
    #[serde(default)]
    pub pairwise: bool,
    /// Gives the second dense layer the squares of its inputs beside the clipped values, twice as many
    /// inputs; default false.
    #[serde(default)]
    pub squared_clipped: bool,
    /// Adds the last output of the first dense layer directly to the network's output; default false.
    #[serde(default)]
    pub skip: bool,
}

/// Loss function and training targets: how a score and a game result become one value to learn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetRecipe {
    /// Loss between the network's output and the target; default the square of the difference of win
    /// probabilities.
    #[serde(default)]
    pub loss: Loss,
    /// Centipawns that become 1.0 before the sigmoid, in the target and in the network's output; default 400.
    #[serde(default = "default_target_scale")]
    pub scale: f64,
    /// Weight of the game result in the target, from 0 to 1, as a number or a schedule; the rest is the
    /// score's. Default 0, scores alone. Called lambda, counted from the other end, in nnue-pytorch.
    #[serde(default = "default_wdl", deserialize_with = "number_or_schedule")]
    pub wdl: Schedule,
}

/// Batch size, length, validation, clipping and averaging of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingRecipe {
    /// Number of positions in the batch of one optimiser step; default 16384.
    #[serde(default = "default_batch")]
    pub batch: usize,
    /// Positions of the whole run, which reads the data as many times as needed; default 100 million.
    #[serde(default = "default_positions")]
    pub positions: u64,
    /// Positions between two validations, each with a checkpoint; default 10 million.
    #[serde(default = "default_validate_every")]
    pub validate_every: u64,
    /// Validation positions, from the start of the validation data; default 1 million.
    #[serde(default = "default_validation_positions")]
    pub validation_positions: u64,
    /// Ends the run after this many validations without a lower loss, and takes the best network; default 0,
    /// which runs to the end.
    #[serde(default)]
    pub patience: u32,
    /// Number of checkpoints to keep, beside the best one; default 3.
    #[serde(default = "default_keep")]
    pub keep: usize,
    /// Maximum gradient norm over all parameters together; default 0, which disables clipping.
    #[serde(default)]
    pub max_grad_norm: f64,
    /// Clamps weights to the range of the quantised network after each step; default true.
    #[serde(default = "default_true")]
    pub clip_weights: bool,
    /// Quantisation-aware training: the forward pass uses weights rounded as in the quantised network;
    /// default false.
    #[serde(default)]
    pub qat: bool,
    /// Decay of the exponential moving average (EMA) of the weights, which then becomes the network; from 0
    /// to below 1, for example 0.999. 0, the default, for no average.
    #[serde(default)]
    pub ema_decay: f64,
    /// Steps between two updates of the moving average; default 10.
    #[serde(default = "default_ema_every")]
    pub ema_every: u64,
    /// The plain mean of this many last checkpoints becomes the network, at most `keep`; 0, the default, for
    /// no mean.
    #[serde(default)]
    pub average_checkpoints: usize,
}

/// The average of weights that becomes the network; averages usually play better than the last weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Averaging {
    /// No average: the weights after the last step are the network.
    #[default]
    None,
    /// Exponential moving average, updated during training, at the cost of one more buffer in memory.
    Ema {
        /// Fraction of the average that stays at each update, from 0 to below 1.
        decay: f64,
        /// Optimiser steps between two updates of the average, at least one.
        every: u64,
    },
    /// Mean of the last checkpoints, computed when the run ends.
    Checkpoints {
        /// Number of checkpoints, at most as many as the run keeps.
        count: usize,
    },
}

impl TrainingRecipe {
    /// The average that `ema_decay`, `ema_every` and `average_checkpoints` describe together; checked recipes
    /// ask for one at most.
    pub fn averaging(&self) -> Averaging {
        if self.ema_decay > 0.0 {
            Averaging::Ema { decay: self.ema_decay, every: self.ema_every }
        } else if self.average_checkpoints > 0 {
            Averaging::Checkpoints { count: self.average_checkpoints }
        } else {
            Averaging::None
        }
    }
}

fn default_ema_every() -> u64 {
    10
}

fn default_seed() -> u64 {
    1
}
fn default_buckets() -> usize {
    1
}
fn default_keep() -> usize {
    3
}
fn default_true() -> bool {
    true
}
fn default_activation() -> String {
    "screlu".into()
}
fn default_scale() -> i32 {
    400
}
fn default_target_scale() -> f64 {
    400.0
}
fn default_qa() -> i16 {
    255
}
fn default_qb() -> i16 {
    64
}
fn default_shuffle_buffer() -> usize {
    1 << 20
}
fn default_batch() -> usize {
    16_384
}
fn default_positions() -> u64 {
    100_000_000
}
fn default_validate_every() -> u64 {
    10_000_000
}
fn default_validation_positions() -> u64 {
    1_000_000
}
fn default_wdl() -> Schedule {
    Schedule::Constant { value: 0.0 }
}
fn default_lr() -> Schedule {
    Schedule::Cosine { start: 1e-3, end: 2.4e-6 }
}

impl Default for TargetRecipe {
    fn default() -> Self {
        Self { loss: Loss::default(), scale: default_target_scale(), wdl: default_wdl() }
    }
}

impl Default for TrainingRecipe {
    fn default() -> Self {
        Self {
            batch: default_batch(),
            positions: default_positions(),
            validate_every: default_validate_every(),
            validation_positions: default_validation_positions(),
            patience: 0,
            keep: default_keep(),
            max_grad_norm: 0.0,
            clip_weights: true,
            qat: false,
            ema_decay: 0.0,
            ema_every: default_ema_every(),
            average_checkpoints: 0,
        }
    }
}

/// Value of a pawn in the units of networks with stacks, which are those of Stockfish since 15.1.
pub const STACK_PAWN: i32 = 361;

impl NetworkRecipe {
    /// Architecture of the network that the keys of `[network]` describe.
    ///
    /// # Errors
    ///
    /// If the feature set or the activation is unknown, or if the sizes do not fit together.
    pub fn architecture(&self) -> Result<Architecture, RecipeError> {
        let invalid = |key, problem: String| RecipeError::Invalid { key, problem };
        let features = FeatureSet::by_name(&self.features);
        let features = features.map_err(|unknown| invalid("network.features", unknown.to_string()))?;
        let activation = self.activation.parse::<Activation>();
        let activation = activation.map_err(|unknown| invalid("network.activation", unknown.to_string()))?;
        let head = match &self.stacks {
            None => HeadShape::Flat { activation, buckets: OutputBuckets::bullet(self.buckets) },
            Some(stack) => HeadShape::Stacks(StackShape {
                input_activation: if stack.pairwise {
                    InputActivation::PairwiseMul127
                } else {
                    InputActivation::Clipped
                },
                squared_clipped: stack.squared_clipped,
                skip: stack.skip,
                hidden: stack.hidden,
                second: stack.second,
                buckets: if self.buckets == 8 {
                    OutputBuckets::STOCKFISH
                } else {
                    OutputBuckets::bullet(self.buckets)
                },
            }),
        };
        let architecture =
            Architecture { features, outputs: self.accumulator, tied: self.tied, psqt: self.psqt, head };
        architecture.check().map_err(|error| invalid("network", error.to_string()))?;
        Ok(architecture)
    }
}

/// Checks that a run's name is a valid file name, because its networks are named after it.
pub(crate) fn check_name(name: &str) -> Result<(), RecipeError> {
    let is_file = Path::new(name).file_name().is_some_and(|file| file == name);
    if is_file && !name.contains(['/', '\\']) {
        return Ok(());
    }
    let problem = "must be a valid file name, because its networks are named after it".into();
    Err(RecipeError::Invalid { key: "name", problem })
}

/// Checks that a schedule is valid and stays within 0 and 1.
pub(crate) fn check_fraction(key: &'static str, fraction: &Schedule) -> Result<(), RecipeError> {
    let outside = || fraction.values().iter().any(|value| !(0.0..=1.0).contains(value));
    let problem = fraction.problem().or_else(|| outside().then(|| "must be from 0 to 1".into()));
    problem.map_or(Ok(()), |problem| Err(RecipeError::Invalid { key, problem }))
}

/// Checks that a schedule is valid and never gives a learning rate that is negative or not finite.
pub(crate) fn check_lr(lr: &Schedule) -> Result<(), RecipeError> {
    let outside = || lr.values().iter().any(|lr| !(lr.is_finite() && *lr >= 0.0));
    let problem =
        lr.problem().or_else(|| outside().then(|| "a learning rate is a number of zero or more".into()));
    problem.map_or(Ok(()), |problem| Err(RecipeError::Invalid { key: "lr", problem }))
}

/// Checks that a value is within a closed range, and names the range if it is not.
pub(crate) fn within(key: &'static str, value: f64, min: f64, max: f64) -> Result<(), RecipeError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(RecipeError::Invalid { key, problem: format!("{value} is not from {min} to {max}") })
}

/// Upper bound of fractions that must stay below 1, such as decay rates.
pub(crate) const ALMOST_ONE: f64 = 1.0 - 1e-9;

impl Recipe {
    /// Parses a recipe and checks everything that can be checked without its files. Old keys are accepted.
    ///
    /// # Errors
    ///
    /// If the text is not TOML, has an unknown key, or has a value that is out of range or contradicts
    /// another.
    pub fn parse(text: &str) -> Result<Self, RecipeError> {
        Self::parse_with_notices(text, &mut Vec::new())
    }

    /// Like [`Recipe::parse`], and adds a line of text for each key that has another name now: see
    /// [`crate::old_keys`].
    ///
    /// # Errors
    ///
    /// As for [`Recipe::parse`].
    pub fn parse_with_notices(text: &str, notices: &mut Vec<String>) -> Result<Self, RecipeError> {
        let recipe: Self = old_keys::parse(RecipeKind::Nnue, text, notices)?;
        recipe.check()?;
        Ok(recipe)
    }

    fn check(&self) -> Result<(), RecipeError> {
        let invalid = |key, problem: &str| Err(RecipeError::Invalid { key, problem: problem.into() });
        self.network.architecture()?;
        check_name(&self.name)?;
        self.check_ranges()?;
        check_sources(&self.data.train, &self.data.validation)?;
        check_fraction("target.wdl", &self.target.wdl)?;
        check_lr(&self.lr)?;
        let weights =
            self.data.train.iter().chain(&self.data.validation).filter_map(|source| source.wdl.as_ref());
        if self.target.loss == Loss::Score
            && !weights.chain([&self.target.wdl]).all(|weight| weight.is_always(0.0))
        {
            return invalid(
                "target.loss",
                "`score` does not use results: leave out every `wdl`, or choose another loss",
            );
        }
        if !(self.target.scale.is_finite() && self.target.scale > 0.0) {
            return invalid("target.scale", "must be above zero: 400 is usual for centipawns");
        }
        let TrainingRecipe { ema_decay, ema_every, average_checkpoints, keep, .. } = self.training;
        within("training.ema_decay", ema_decay, 0.0, ALMOST_ONE)?;
        if ema_every == 0 {
            return invalid("training.ema_every", "must be above zero");
        }
        if average_checkpoints > keep {
            return invalid("training.average_checkpoints", "must not be more than `training.keep`");
        }
        if ema_decay > 0.0 && average_checkpoints > 0 {
            return invalid(
                "training.average_checkpoints",
                "`training.ema_decay` asks for another average: leave out one of the two",
            );
        }
        if self.training.patience > 0
            && (self.data.validation.is_empty() || self.training.validation_positions == 0)
        {
            return invalid("training.patience", "it needs validation data: name some, or leave it out");
        }
        if self.training.patience > 0 && average_checkpoints > 0 {
            return invalid(
                "training.average_checkpoints",
                "with `patience` the best network is taken, and not the mean of the last",
            );
        }
        if self.training.batch == 0 || self.training.positions == 0 || self.training.validate_every == 0 {
            return invalid("training", "batch, positions and validate_every must be above zero");
        }
        Ok(())
    }

    /// Checks ranges that would otherwise spoil a run silently, or only at its end.
    fn check_ranges(&self) -> Result<(), RecipeError> {
        // With weights of up to 1.98 and biases of up to 16, more than this would leave 16 bits.
        within("network.qa", f64::from(self.network.qa), 1.0, 400.0)?;
        within("network.qb", f64::from(self.network.qb), 1.0, 16_384.0)?;
        within("network.scale", f64::from(self.network.scale), 1.0, f64::from(1 << 20))?;
        within("training.batch", self.training.batch as f64, 1.0, f64::from(1 << 22))?;
        within("data.shuffle_buffer", self.data.shuffle_buffer as f64, 0.0, f64::from(1 << 30))?;
        within("training.max_grad_norm", self.training.max_grad_norm, 0.0, f64::MAX)?;
        if let Loss::Power { power } = self.target.loss {
            within("target.loss.power", power, 1.0, 8.0)?;
        }
        match self.optimiser {
            Optimiser::Sgd { momentum } => within("optimiser.momentum", momentum, 0.0, ALMOST_ONE),
            Optimiser::Ranger { lookahead_steps: 0, .. } => Err(RecipeError::Invalid {
                key: "optimiser.lookahead_steps",
                problem: "must be above zero".into(),
            }),
            Optimiser::Ranger { lookahead_alpha, .. } if !(0.0..=1.0).contains(&lookahead_alpha) => {
                Err(RecipeError::Invalid {
                    key: "optimiser.lookahead_alpha",
                    problem: format!("{lookahead_alpha} is not from 0 to 1"),
                })
            }
            Optimiser::Adam { beta1, beta2, weight_decay, epsilon }
            | Optimiser::RAdam { beta1, beta2, weight_decay, epsilon }
            | Optimiser::Ranger { beta1, beta2, weight_decay, epsilon, .. } => {
                within("optimiser.beta1", beta1, 0.0, ALMOST_ONE)?;
                within("optimiser.beta2", beta2, 0.0, ALMOST_ONE)?;
                within("optimiser.weight_decay", weight_decay, 0.0, 1e6)?;
                // Zero would divide zero by zero: features that were never active have no gradient.
                within("optimiser.epsilon", epsilon, 1e-30, 1.0)
            }
            Optimiser::Adadelta { rho, epsilon } => {
                within("optimiser.rho", rho, 0.0, ALMOST_ONE)?;
                within("optimiser.epsilon", epsilon, 1e-30, 1.0)
            }
        }
    }

    /// The recipe as TOML with every default written out; parsing it gives the same recipe.
    pub fn explain(&self) -> String {
        // Cannot fail: there is nothing in a recipe that TOML cannot express.
        toml::to_string_pretty(self).unwrap_or_default()
    }

    /// Number of optimiser steps of the whole run, the last batch counted as a full one.
    pub fn steps(&self) -> u64 {
        self.training.positions.div_ceil(self.training.batch as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &str = r#"
        name = "first"
        [data]
        train = [{ path = "train.bf" }]
        [network]
        features = "halfkp"
        accumulator = 256
        tied = false
        activation = "crelu"
    "#;

    #[test]
    fn a_short_recipe_is_explained_in_full_and_means_the_same() {
        let recipe = Recipe::parse(SHORT).unwrap();
        assert_eq!(recipe.training.batch, 16_384);
        let explained = recipe.explain();
        assert!(explained.contains("validate_every = 10000000"), "{explained}");
        assert_eq!(Recipe::parse(&explained).unwrap(), recipe);
        let described = recipe.network.architecture().unwrap().to_string();
        assert_eq!(described, "halfkp 40960 -> 256x2 (own weights for each perspective) crelu -> 1");
        assert_eq!(recipe.steps(), 6104);
    }

    #[test]
    fn invalid_values_are_reported_by_their_key() {
        let with = |from: &str, to: &str| Recipe::parse(&SHORT.replace(from, to)).unwrap_err().to_string();
        assert!(with("accumulator = 256", "accumulators = 256").contains("accumulators"));
        assert!(with("\"halfkp\"", "\"halfpk\"").starts_with("network.features: "));
        let scores = "[target]\nloss = { kind = \"score\" }\nwdl = 0.5\n[network]";
        assert!(with("[network]", scores).starts_with("target.loss: "));
        let pulled = "[optimiser]\nkind = \"ranger\"\nlookahead_alpha = 1.5\n[network]";
        assert!(with("[network]", pulled).starts_with("optimiser.lookahead_alpha: "));
        assert!(with("accumulator = 256", "accumulator = 250").starts_with("network: "));
        assert!(with("\"crelu\"", "\"gelu\"").contains("not one of relu, crelu, screlu"));
        assert!(
            with("path = \"train.bf\"", "path = \"train.bf\", filter = \"hm\"").contains("is not a rule")
        );
        assert!(with("[{ path = \"train.bf\" }]", "[]").contains("at least one file"));
        let with_wdl = |wdl: &str| Recipe::parse(&format!("{SHORT}\n[target]\nwdl = {wdl}\n"));
        assert!(with_wdl("30.0").unwrap_err().to_string().starts_with("target.wdl: "));
        assert!(with_wdl("\"much\"").unwrap_err().to_string().contains("a number, or a schedule"));
        assert_eq!(with_wdl("0.5").unwrap(), with_wdl("{ kind = \"constant\", value = 0.5 }").unwrap());
        let negative = Recipe::parse(&SHORT.replace("[data]", "lr = -1\n[data]"));
        assert!(negative.unwrap_err().to_string().starts_with("lr: "));
        assert!(with("\"first\"", "\"a/b\"").starts_with("name: "));
        assert!(with("\"first\"", "\"\"").starts_with("name: "));
        assert!(with("tied = false", "qa = 0").starts_with("network.qa: "));
        let beta = format!("{SHORT}\n[optimiser]\nkind = \"adam\"\nbeta2 = 1.0\n");
        assert!(Recipe::parse(&beta).unwrap_err().to_string().starts_with("optimiser.beta2: "));
        for (added, key) in [
            ("[optimiser]\nkind = \"adam\"\nepsilon = 0.0", "optimiser.epsilon: "),
            ("[training]\npatience = 3", "training.patience: "),
        ] {
            let error = Recipe::parse(&format!("{SHORT}\n{added}")).unwrap_err().to_string();
            assert!(error.starts_with(key), "{error}");
        }
        let rate = format!("{SHORT}\n[lr]\nkind = \"exponential\"\nstart = 1.0\nend = 0.0\n");
        assert!(Recipe::parse(&rate).unwrap_err().to_string().starts_with("lr: "));
    }

    #[test]
    fn stockfishs_architecture_can_be_described() {
        let text = r#"
            name = "sf15"
            [data]
            train = [{ path = "train.binpack", weight = 2.0, filter = "no-checks" }]
            [network]
            features = "halfka-v2-hm"
            accumulator = 1024
            buckets = 8
            psqt = true
            stacks = { hidden = 16, second = 32, pairwise = true, squared_clipped = true, skip = true }
            [target]
            loss = { kind = "power", power = 2.5 }
            wdl = { kind = "linear", start = 0.0, end = 0.3 }
            [lr]
            kind = "warm-up"
            steps = 100
            then = { kind = "one-cycle", peak = 1e-3 }
            [optimiser]
            kind = "ranger"
        "#;
        let recipe = Recipe::parse(text).unwrap();
        let described = recipe.network.architecture().unwrap().to_string();
        assert_eq!(
            described,
            "halfka-v2-hm 22528 -> 1024x2 pairwise -> 16 -> 32 -> 1, 8 stacks + piece squares"
        );
        assert_eq!(Recipe::parse(&recipe.explain()).unwrap(), recipe);
    }
}
