//! Everything about a run, in a file that a person can read in one screen.

mod source;

pub use source::SourceRecipe;
pub(crate) use source::check_sources;

use crate::loss::Loss;
use crate::optimiser::Optimiser;
use crate::schedule::{Schedule, number_or_schedule};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tandem_nnue::{Activation, Architecture, Buckets, FeatureSet, HeadShape, Squeeze, StackShape};
use thiserror::Error;

/// A recipe that cannot be followed.
#[derive(Debug, Error)]
pub enum RecipeError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no TOML, or has a key that there is none of.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A key cannot be set so.
    #[error("{setting:?}: {problem}")]
    Setting {
        /// What was asked for.
        setting: String,
        /// Why not.
        problem: String,
    },
    /// Something is wrong with a file, one of several perhaps.
    #[error("{}: {source}", path.display())]
    In {
        /// The file.
        path: PathBuf,
        /// What.
        source: Box<RecipeError>,
    },
    /// It asks for something that cannot be.
    #[error("{key}: {problem}")]
    Wrong {
        /// Which part of it.
        key: &'static str,
        /// What to change.
        problem: String,
    },
}

/// A recipe for an NNUE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// What the network is called.
    pub name: String,
    /// What chance starts from: the same seed, the same run; on a card, to rounding.
    #[serde(default = "one")]
    pub seed: u64,
    /// What it learns from.
    pub data: DataRecipe,
    /// What it is made of.
    pub network: NetworkRecipe,
    /// What it should come to.
    #[serde(default)]
    pub target: TargetRecipe,
    /// How it gets there.
    #[serde(default)]
    pub training: TrainingRecipe,
    /// The optimiser.
    #[serde(default)]
    pub optimiser: Optimiser,
    /// The learning rate.
    #[serde(default = "usual_rate", deserialize_with = "number_or_schedule")]
    pub rate: Schedule,
}

/// What a network learns from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataRecipe {
    /// To learn from.
    pub train: Vec<SourceRecipe>,
    /// To watch learning with.
    #[serde(default)]
    pub validation: Vec<SourceRecipe>,
    /// Records that are mixed at a time.
    #[serde(default = "usual_buffer")]
    pub shuffle_buffer: usize,
    /// Train even where the scores look as if they meant nothing.
    #[serde(default)]
    pub any_scores: bool,
}

/// What a network is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkRecipe {
    /// A network in floating point to begin with, of the same shape; chance begins where there is none.
    #[serde(default)]
    pub start: Option<String>,
    /// The inputs.
    pub features: String,
    /// Values of one side's accumulator.
    pub accumulator: usize,
    /// Both perspectives share their weights.
    #[serde(default = "yes")]
    pub tied: bool,
    /// What becomes of a value before it meets the output weights, where there are no stacks.
    #[serde(default = "screlu")]
    pub activation: String,
    /// Outputs or stacks, by the number of pieces.
    #[serde(default = "one_bucket")]
    pub buckets: usize,
    /// Dense layers after the accumulators.
    #[serde(default)]
    pub stacks: Option<StackRecipe>,
    /// Piece-square values beside the first layer, where there are stacks.
    #[serde(default)]
    pub psqt: bool,
    /// Weights that all king buckets share, added to each when the network is written.
    #[serde(default)]
    pub factoriser: bool,
    /// What an output of one is worth in centipawns, where there are no stacks.
    #[serde(default = "four_hundred")]
    pub scale: i32,
    /// What stands for one in the accumulators of the quantised network, where there are no stacks.
    #[serde(default = "usual_qa")]
    pub qa: i16,
    /// What stands for one in its output weights.
    #[serde(default = "usual_qb")]
    pub qb: i16,
}

/// Dense layers after the accumulators.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackRecipe {
    /// Outputs of the first.
    pub hidden: usize,
    /// Outputs of the second.
    pub second: usize,
    /// Values of the accumulators are multiplied in pairs.
    #[serde(default)]
    pub pairwise: bool,
    /// The second layer sees squares as well as clipped values.
    #[serde(default)]
    pub dual: bool,
    /// The last output of the first goes straight to the end.
    #[serde(default)]
    pub skip: bool,
}

/// What a network should come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetRecipe {
    /// How wrong is measured.
    #[serde(default)]
    pub loss: Loss,
    /// Centipawns that stand for one before the sigmoid.
    #[serde(default = "four_hundred_centipawns")]
    pub scale: f64,
    /// The share of the game's result in the target; the rest is the score's.
    #[serde(default = "no_result", deserialize_with = "number_or_schedule")]
    pub result_share: Schedule,
}

/// How a network gets there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingRecipe {
    /// Positions of a step.
    #[serde(default = "usual_batch")]
    pub batch: usize,
    /// Positions of the whole run; data is read again from the start as often as it takes.
    #[serde(default = "usual_positions")]
    pub positions: u64,
    /// Positions between two looks at the validation data, with a checkpoint each.
    #[serde(default = "usual_pause")]
    pub validate_every: u64,
    /// Positions of the validation data that are looked at.
    #[serde(default = "usual_validation")]
    pub validation_positions: u64,
    /// The run ends when the validation loss has not fallen for so many looks; zero for never.
    #[serde(default)]
    pub patience: u32,
    /// Checkpoints that are kept beside the best.
    #[serde(default = "three")]
    pub keep: usize,
    /// Slopes are held to this length all together; zero for any.
    #[serde(default)]
    pub clip_slopes: f64,
    /// Weights stay where the quantised network can hold them.
    #[serde(default = "yes")]
    pub clip_weights: bool,
    /// Weights are rounded as the quantised network's will be before anything is computed with them.
    #[serde(default)]
    pub round_weights: bool,
    /// Which average of weights becomes the network.
    #[serde(default)]
    pub average: Averaging,
}

/// Which average of weights becomes the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Averaging {
    /// None: the last weights do.
    #[default]
    None,
    /// One that follows the weights slowly.
    Moving {
        /// The share of the average that stays each time.
        #[serde(default = "usual_share")]
        share: f64,
        /// Steps between two times.
        #[serde(default = "ten")]
        every: u64,
    },
    /// That of the last checkpoints.
    Last {
        /// How many.
        #[serde(default = "three")]
        checkpoints: usize,
    },
}

fn usual_share() -> f64 {
    0.99
}
fn ten() -> u64 {
    10
}

fn one() -> u64 {
    1
}
fn one_bucket() -> usize {
    1
}
fn three() -> usize {
    3
}
fn yes() -> bool {
    true
}
fn screlu() -> String {
    "screlu".into()
}
fn four_hundred() -> i32 {
    400
}
fn four_hundred_centipawns() -> f64 {
    400.0
}
fn usual_qa() -> i16 {
    255
}
fn usual_qb() -> i16 {
    64
}
fn usual_buffer() -> usize {
    1 << 20
}
fn usual_batch() -> usize {
    16_384
}
fn usual_positions() -> u64 {
    100_000_000
}
fn usual_pause() -> u64 {
    10_000_000
}
fn usual_validation() -> u64 {
    1_000_000
}
fn no_result() -> Schedule {
    Schedule::Constant { value: 0.0 }
}
fn usual_rate() -> Schedule {
    Schedule::Cosine { start: 1e-3, end: 2.4e-6 }
}

impl Default for TargetRecipe {
    fn default() -> Self {
        Self { loss: Loss::default(), scale: four_hundred_centipawns(), result_share: no_result() }
    }
}

impl Default for TrainingRecipe {
    fn default() -> Self {
        Self {
            batch: usual_batch(),
            positions: usual_positions(),
            validate_every: usual_pause(),
            validation_positions: usual_validation(),
            patience: 0,
            keep: three(),
            clip_slopes: 0.0,
            clip_weights: true,
            round_weights: false,
            average: Averaging::None,
        }
    }
}

/// What a pawn is worth in the units of stacks: those of Stockfish since 15.1.
pub const STACK_PAWN: i32 = 361;

impl NetworkRecipe {
    /// The architecture that is asked for.
    pub fn architecture(&self) -> Result<Architecture, RecipeError> {
        let wrong = |key, problem: String| RecipeError::Wrong { key, problem };
        let features = FeatureSet::by_name(&self.features);
        let features = features.map_err(|unknown| wrong("network.features", unknown.to_string()))?;
        let activation = match self.activation.as_str() {
            "relu" => Activation::Relu,
            "crelu" => Activation::Crelu,
            "screlu" => Activation::Screlu,
            other => {
                return Err(wrong("network.activation", format!("{other:?} is none of relu, crelu, screlu")));
            }
        };
        let head = match &self.stacks {
            None => HeadShape::Flat { activation, buckets: Buckets::bullet(self.buckets) },
            Some(stack) => HeadShape::Stacks(StackShape {
                squeeze: if stack.pairwise { Squeeze::Pairwise127 } else { Squeeze::Clip },
                dual: stack.dual,
                skip: stack.skip,
                hidden: stack.hidden,
                second: stack.second,
                buckets: if self.buckets == 8 { Buckets::STOCKFISH } else { Buckets::bullet(self.buckets) },
            }),
        };
        let architecture =
            Architecture { features, outputs: self.accumulator, tied: self.tied, psqt: self.psqt, head };
        architecture.check().map_err(|error| wrong("network", error.to_string()))?;
        Ok(architecture)
    }
}

/// What a run is called, its files are called too.
pub(crate) fn check_name(name: &str) -> Result<(), RecipeError> {
    let is_file = Path::new(name).file_name().is_some_and(|file| file == name);
    if is_file && !name.contains(['/', '\\']) {
        return Ok(());
    }
    let problem = "must be one that a file can have: its networks are called so".into();
    Err(RecipeError::Wrong { key: "name", problem })
}

/// Whether a schedule is one, and never leaves what a share can be.
pub(crate) fn check_share(key: &'static str, share: &Schedule) -> Result<(), RecipeError> {
    let outside = || share.numbers().iter().any(|share| !(0.0..=1.0).contains(share));
    let problem = share.problem().or_else(|| outside().then(|| "a share is from 0 to 1".into()));
    problem.map_or(Ok(()), |problem| Err(RecipeError::Wrong { key, problem }))
}

/// Whether a schedule is one, and never leaves what a learning rate can be.
pub(crate) fn check_rate(rate: &Schedule) -> Result<(), RecipeError> {
    let outside = || rate.numbers().iter().any(|rate| !(rate.is_finite() && *rate >= 0.0));
    let problem =
        rate.problem().or_else(|| outside().then(|| "a learning rate is a number of zero or more".into()));
    problem.map_or(Ok(()), |problem| Err(RecipeError::Wrong { key: "rate", problem }))
}

/// Whether a number is one of those that it may be.
pub(crate) fn within(key: &'static str, number: f64, least: f64, most: f64) -> Result<(), RecipeError> {
    if (least..=most).contains(&number) {
        return Ok(());
    }
    Err(RecipeError::Wrong { key, problem: format!("{number} is not from {least} to {most}") })
}

/// The most that a share can be which must leave something.
pub(crate) const ALMOST_ONE: f64 = 1.0 - 1e-9;

impl Recipe {
    /// Reads a recipe from text, and looks whether it can be followed.
    pub fn parse(text: &str) -> Result<Self, RecipeError> {
        let recipe: Self = toml::from_str(text)?;
        recipe.check()?;
        Ok(recipe)
    }

    fn check(&self) -> Result<(), RecipeError> {
        let wrong = |key, problem: &str| Err(RecipeError::Wrong { key, problem: problem.into() });
        self.network.architecture()?;
        check_name(&self.name)?;
        self.check_numbers()?;
        check_sources(&self.data.train, &self.data.validation)?;
        check_share("target.result_share", &self.target.result_share)?;
        check_rate(&self.rate)?;
        let shares = self
            .data
            .train
            .iter()
            .chain(&self.data.validation)
            .filter_map(|source| source.result_share.as_ref());
        if self.target.loss == Loss::Score
            && !shares.chain([&self.target.result_share]).all(|share| share.is_always(0.0))
        {
            return wrong(
                "target.loss",
                "`score` knows nothing of results: leave out every `result_share`, or choose another loss",
            );
        }
        if !(self.target.scale.is_finite() && self.target.scale > 0.0) {
            return wrong("target.scale", "must be above zero: 400 is usual for centipawns");
        }
        if let Averaging::Moving { share, every } = self.training.average
            && !((0.0..1.0).contains(&share) && every > 0)
        {
            return wrong("training.average", "`share` must be from 0 to 1, and `every` above zero");
        }
        if let Averaging::Last { checkpoints } = self.training.average
            && !(1..=self.training.keep).contains(&checkpoints)
        {
            return wrong("training.average", "`checkpoints` must be from 1 to `training.keep`");
        }
        if self.training.patience > 0
            && (self.data.validation.is_empty() || self.training.validation_positions == 0)
        {
            return wrong(
                "training.patience",
                "it needs validation data to look at: name some, or leave it out",
            );
        }
        if self.training.patience > 0 && matches!(self.training.average, Averaging::Last { .. }) {
            return wrong(
                "training.average",
                "with `patience` the best network is taken, and not the mean of the last",
            );
        }
        if self.training.batch == 0 || self.training.positions == 0 || self.training.validate_every == 0 {
            return wrong("training", "batch, positions and validate_every must be above zero");
        }
        Ok(())
    }

    /// Numbers that would spoil a run only at its end, or without a word.
    fn check_numbers(&self) -> Result<(), RecipeError> {
        // With weights of up to 1.98 and biases of up to 16, more than this would leave 16 bits.
        within("network.qa", f64::from(self.network.qa), 1.0, 400.0)?;
        within("network.qb", f64::from(self.network.qb), 1.0, 16_384.0)?;
        within("network.scale", f64::from(self.network.scale), 1.0, f64::from(1 << 20))?;
        within("training.batch", self.training.batch as f64, 1.0, f64::from(1 << 22))?;
        within("data.shuffle_buffer", self.data.shuffle_buffer as f64, 0.0, f64::from(1 << 30))?;
        within("training.clip_slopes", self.training.clip_slopes, 0.0, f64::MAX)?;
        if let Loss::Power { power } = self.target.loss {
            within("target.loss.power", power, 1.0, 8.0)?;
        }
        match self.optimiser {
            Optimiser::Sgd { momentum } => within("optimiser.momentum", momentum, 0.0, ALMOST_ONE),
            Optimiser::Ranger { every: 0, .. } => {
                Err(RecipeError::Wrong { key: "optimiser.every", problem: "must be above zero".into() })
            }
            Optimiser::Ranger { pull, .. } if !(0.0..=1.0).contains(&pull) => Err(RecipeError::Wrong {
                key: "optimiser.pull",
                problem: format!("{pull} is not from 0 to 1"),
            }),
            Optimiser::Adam { beta1, beta2, decay, epsilon }
            | Optimiser::RAdam { beta1, beta2, decay, epsilon }
            | Optimiser::Ranger { beta1, beta2, decay, epsilon, .. } => {
                within("optimiser.beta1", beta1, 0.0, ALMOST_ONE)?;
                within("optimiser.beta2", beta2, 0.0, ALMOST_ONE)?;
                within("optimiser.decay", decay, 0.0, 1e6)?;
                // Rows that were never on have no slope to be divided by.
                within("optimiser.epsilon", epsilon, 1e-30, 1.0)
            }
            Optimiser::Adadelta { rho, epsilon } => {
                within("optimiser.rho", rho, 0.0, ALMOST_ONE)?;
                within("optimiser.epsilon", epsilon, 1e-30, 1.0)
            }
        }
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
        let told = recipe.network.architecture().unwrap().to_string();
        assert_eq!(told, "halfkp 40960 -> 256x2 (own weights for each perspective) crelu -> 1");
        assert_eq!(recipe.steps(), 6104);
    }

    #[test]
    fn what_cannot_be_is_told_by_its_key() {
        let with = |from: &str, to: &str| Recipe::parse(&SHORT.replace(from, to)).unwrap_err().to_string();
        assert!(with("accumulator = 256", "accumulators = 256").contains("accumulators"));
        assert!(with("\"halfkp\"", "\"halfpk\"").starts_with("network.features: "));
        let scores = "[target]\nloss = { kind = \"score\" }\nresult_share = 0.5\n[network]";
        assert!(with("[network]", scores).starts_with("target.loss: "));
        let pulled = "[optimiser]\nkind = \"ranger\"\npull = 1.5\n[network]";
        assert!(with("[network]", pulled).starts_with("optimiser.pull: "));
        assert!(with("accumulator = 256", "accumulator = 250").starts_with("network: "));
        assert!(with("\"crelu\"", "\"gelu\"").contains("none of relu, crelu, screlu"));
        assert!(with("path = \"train.bf\"", "path = \"train.bf\", filter = \"hm\"").contains("is no rule"));
        assert!(with("[{ path = \"train.bf\" }]", "[]").contains("at least one file"));
        let shared = |share: &str| Recipe::parse(&format!("{SHORT}\n[target]\nresult_share = {share}\n"));
        assert!(shared("30.0").unwrap_err().to_string().starts_with("target.result_share: "));
        assert!(shared("\"much\"").unwrap_err().to_string().contains("a number, or a schedule"));
        assert_eq!(shared("0.5").unwrap(), shared("{ kind = \"constant\", value = 0.5 }").unwrap());
        let below = Recipe::parse(&SHORT.replace("[data]", "rate = -1\n[data]"));
        assert!(below.unwrap_err().to_string().starts_with("rate: "));
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
        let rate = format!("{SHORT}\n[rate]\nkind = \"exponential\"\nstart = 1.0\nend = 0.0\n");
        assert!(Recipe::parse(&rate).unwrap_err().to_string().starts_with("rate: "));
    }

    #[test]
    fn stockfishs_architecture_can_be_asked_for() {
        let text = r#"
            name = "sf15"
            [data]
            train = [{ path = "train.binpack", weight = 2.0, filter = "no-checks" }]
            [network]
            features = "halfka-v2-hm"
            accumulator = 1024
            buckets = 8
            psqt = true
            stacks = { hidden = 16, second = 32, pairwise = true, dual = true, skip = true }
            [target]
            loss = { kind = "power", power = 2.5 }
            result_share = { kind = "linear", start = 0.0, end = 0.3 }
            [rate]
            kind = "warm-up"
            steps = 100
            then = { kind = "one-cycle", peak = 1e-3 }
            [optimiser]
            kind = "ranger"
        "#;
        let recipe = Recipe::parse(text).unwrap();
        let told = recipe.network.architecture().unwrap().to_string();
        assert_eq!(told, "halfka-v2-hm 22528 -> 1024x2 pairwise -> 16 -> 32 -> 1, 8 stacks + piece squares");
        assert_eq!(Recipe::parse(&recipe.explain()).unwrap(), recipe);
    }
}
