//! The recipe of a selector: networks, cases and training settings in one TOML file.

use crate::base::{BaseNetwork, check_sha256};
use crate::old_keys::{self, RecipeKind};
use crate::pool::LoadDataError;
use crate::recipe::{ALMOST_ONE, RecipeError, SourceRecipe, check_lr, check_name, check_sources, within};
use crate::schedule::{Schedule, number_or_schedule};
use crate::transformer::first_records;
use serde::{Deserialize, Serialize};
use tandem_data::{Record, Split, Subset};

/// Default margin, in win probability from 0 to 1: the strategist counts as better if its error against the
/// deep search is smaller than the NNUE's by at least this much.
pub const DEFAULT_MARGIN: f64 = 0.05;

/// A selector's training, as described in a TOML file; [`train_selector`](super::train_selector) runs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectorRecipe {
    /// Name of the hybrid and of its file `runs/NAME/NAME.hybrid`.
    pub name: String,
    /// Seed of the initial weights, of the validation split, of dropout and of the order of training
    /// positions, default 1. The same seed gives the same selector.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// The two networks, the margin that defines the label, and the fraction of positions to query.
    pub selector: NetworkPair,
    /// Positions with scores of deep searches, for training and for validation.
    pub data: CaseData,
    /// Settings of the training loop; all of them have defaults.
    #[serde(default)]
    pub training: SelectorTraining,
}

/// The table `selector` of a recipe: the two networks, which are not trained, the margin from which the
/// strategist counts as better, and the fraction of positions to query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkPair {
    /// The NNUE that evaluates every position, as a network file.
    pub nnue: BaseNetwork,
    /// The transformer that the strategist runs, as a network file.
    pub transformer: BaseNetwork,
    /// A hybrid file trained before, for example with a bridge; the selector is added to it.
    #[serde(default)]
    pub hybrid: Option<String>,
    /// The strategist counts as better if its win probability is closer to the deep search's than the NNUE's
    /// by at least this; default 0.05.
    #[serde(default = "default_margin")]
    pub margin: f64,
    /// Fraction of positions in which the strategist is to be queried, which sets the threshold; default 0.1.
    #[serde(default = "default_usage")]
    pub usage: f64,
}

/// Data of a selector: positions with the scores of deep searches. Each becomes a case, that is a position
/// with both networks' evaluations; a few from each game suffice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseData {
    /// Sources of the training positions, read one after the other until there are `cases` of them.
    pub train: Vec<SourceRecipe>,
    /// Sources of the validation positions, which should not share games with the training data. If there are
    /// none, `validation_fraction` must be above zero.
    #[serde(default)]
    pub validation: Vec<SourceRecipe>,
    /// Fraction of the training games that is held out for validation, from 0 to 0.9, if there are no
    /// validation sources.
    #[serde(default)]
    pub validation_fraction: f64,
    /// Number of training positions to read, default 100,000; fewer if the data ends before.
    #[serde(default = "default_cases")]
    pub cases: u64,
    /// Number of validation positions to read, default 20,000; fewer if the data ends before.
    #[serde(default = "default_validation_cases")]
    pub validation_cases: u64,
}

/// Settings of a selector's training loop, which runs on the CPU with Adam.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SelectorTraining {
    /// Labelled positions per optimiser step, default 256; the last batch of an epoch may be smaller.
    pub batch: usize,
    /// Passes over all training positions, default 30; the selector of the epoch with the lowest validation
    /// loss is kept.
    pub epochs: u64,
    /// Learning rate, as a number or a schedule. Default: a cosine from 1e-3 to 1e-5.
    #[serde(deserialize_with = "number_or_schedule")]
    pub lr: Schedule,
    /// Decoupled weight decay, multiplied by the learning rate; default 1e-4.
    pub weight_decay: f64,
    /// Dropout probability of hidden values, default 0.2; 0 disables dropout.
    pub dropout: f64,
    /// Maximum gradient norm over all parameters together, default 1; 0 disables clipping.
    pub max_grad_norm: f64,
    /// Weights each position in the loss by the size of the difference between the two networks' errors
    /// against the deep search; false, the default, weights all equally.
    pub by_gain: bool,
}

fn default_seed() -> u64 {
    1
}
fn default_margin() -> f64 {
    DEFAULT_MARGIN
}
fn default_usage() -> f64 {
    0.1
}
fn default_cases() -> u64 {
    100_000
}
fn default_validation_cases() -> u64 {
    20_000
}

impl Default for SelectorTraining {
    fn default() -> Self {
        Self {
            batch: 256,
            epochs: 30,
            lr: Schedule::Cosine { start: 1e-3, end: 1e-5 },
            weight_decay: 1e-4,
            dropout: 0.2,
            max_grad_norm: 1.0,
            by_gain: false,
        }
    }
}

impl SelectorRecipe {
    /// Parses and checks a recipe. Files that it names are not opened.
    ///
    /// # Errors
    /// If the text is not TOML, has an unknown key, or a value is out of range; the message names the key.
    pub fn parse(text: &str) -> Result<Self, RecipeError> {
        Self::parse_with_notices(text, &mut Vec::new())
    }

    /// Like [`SelectorRecipe::parse`], and adds a line of text for each key that has another name now: see
    /// [`crate::old_keys`].
    ///
    /// # Errors
    /// As [`SelectorRecipe::parse`].
    pub fn parse_with_notices(text: &str, notices: &mut Vec<String>) -> Result<Self, RecipeError> {
        let recipe: Self = old_keys::parse(RecipeKind::Selector, text, notices)?;
        recipe.check()?;
        Ok(recipe)
    }

    fn check(&self) -> Result<(), RecipeError> {
        let Self { name, selector, data, training, .. } = self;
        check_name(name)?;
        check_sha256("selector.nnue.sha256", selector.nnue.sha256.as_deref())?;
        check_sha256("selector.transformer.sha256", selector.transformer.sha256.as_deref())?;
        within("selector.margin", selector.margin, 0.0, 1.0)?;
        within("selector.usage", selector.usage, 0.0, 1.0)?;
        check_sources(&data.train, &data.validation)?;
        within("data.validation_fraction", data.validation_fraction, 0.0, 0.9)?;
        let invalid = |key, problem: &str| Err(RecipeError::Invalid { key, problem: problem.into() });
        match (data.validation_fraction > 0.0, data.validation.is_empty()) {
            (true, false) => {
                return invalid(
                    "data.validation_fraction",
                    "there is validation data already: leave out one of the two",
                );
            }
            (false, true) => {
                return invalid(
                    "data.validation",
                    "a selector is validated on games that it was not trained on: name some, or set data.validation_fraction",
                );
            }
            _ => {}
        }
        for (key, count) in [("data.cases", data.cases), ("data.validation_cases", data.validation_cases)] {
            within(key, count as f64, 1.0, 1e8)?;
        }
        check_lr(&training.lr)?;
        within("training.batch", training.batch as f64, 1.0, f64::from(1 << 20))?;
        within("training.epochs", training.epochs as f64, 1.0, 1e6)?;
        within("training.weight_decay", training.weight_decay, 0.0, 1e6)?;
        within("training.dropout", training.dropout, 0.0, ALMOST_ONE)?;
        within("training.max_grad_norm", training.max_grad_norm, 0.0, f64::MAX)
    }

    /// The recipe as TOML, with every default written out and all keys by their present names.
    pub fn explain(&self) -> String {
        // TOML can represent everything that a recipe contains.
        toml::to_string_pretty(self).unwrap_or_default()
    }
}

impl CaseData {
    /// Records for training and for validation, of different games if a fraction is held out.
    pub(super) fn records(
        &self,
        seed: u64,
        threads: usize,
    ) -> Result<(Vec<Record>, Vec<Record>), LoadDataError> {
        let split = Split { validation: self.validation_fraction, test: 0.0, seed };
        let held_out = |part| self.validation.is_empty().then_some((split, part));
        let validation = if self.validation.is_empty() { &self.train } else { &self.validation };
        Ok((
            first_records(&self.train, threads, self.cases, held_out(Subset::Train))?,
            first_records(validation, threads, self.validation_cases, held_out(Subset::Validation))?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &str = r#"
        name = "second"
        [selector]
        nnue = { path = "a.tnn" }
        transformer = { path = "b.ttn" }
        [data]
        train = [{ path = "x.csv" }]
        validation_fraction = 0.1
    "#;

    #[test]
    fn a_short_recipe_is_explained_in_full_and_means_the_same() {
        let recipe = SelectorRecipe::parse(SHORT).unwrap();
        let explained = recipe.explain();
        for default in
            ["margin = 0.05", "dropout = 0.2", "cases = 100000", "usage = 0.1", "max_grad_norm = 1.0"]
        {
            assert!(explained.contains(default), "{explained}");
        }
        assert_eq!(SelectorRecipe::parse(&explained).unwrap(), recipe);
    }

    #[test]
    fn invalid_values_are_reported_by_their_key() {
        let message =
            |from: &str, to: &str| SelectorRecipe::parse(&SHORT.replace(from, to)).unwrap_err().to_string();
        let more =
            |more: &str| message("validation_fraction = 0.1", &format!("validation_fraction = 0.1\n{more}"));
        assert!(message("validation_fraction = 0.1", "").starts_with("data.validation: "));
        assert!(message("\"a.tnn\"", "\"a.tnn\", sha256 = \"x\"").starts_with("selector.nnue.sha256: "));
        assert!(more("cases = 0").starts_with("data.cases: "));
        assert!(more("validation = [{ path = \"y.csv\" }]").starts_with("data.validation_fraction: "));
        assert!(more("[training]\ndropout = 1.0").starts_with("training.dropout: "));
        assert!(more("[training]\nepoch = 1").contains("epoch"));
        assert!(message("[data]", "margin = 2.0\n[data]").starts_with("selector.margin: "));
    }
}
