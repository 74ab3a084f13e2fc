//! Everything about the teaching of a selector, in a file.

use crate::base::{BaseNetwork, check_sha256};
use crate::pool::LoadDataError;
use crate::recipe::{ALMOST_ONE, RecipeError, SourceRecipe, check_name, check_rate, check_sources, within};
use crate::schedule::{Schedule, number_or_schedule};
use crate::transformer::first_records;
use serde::{Deserialize, Serialize};
use tandem_data::{Part, Record, Split};

/// By so much of the chance to win a mind must be nearer to know better, if a recipe says nothing else.
pub const MARGIN: f64 = 0.05;

/// A recipe for a selector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectorRecipe {
    /// What the hybrid is called.
    pub name: String,
    /// What chance starts from: the same seed, the same selector.
    #[serde(default = "one")]
    pub seed: u64,
    /// The two minds, and what it is to say of them.
    pub selector: Pair,
    /// What it learns from.
    pub data: CaseData,
    /// How it learns.
    #[serde(default)]
    pub training: SelectorTraining,
}

/// The two minds, which stay as they are, and what the selector is to say of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// The NNUE.
    pub nnue: BaseNetwork,
    /// The transformer.
    pub transformer: BaseNetwork,
    /// A file of what was learnt between them before, such as a bridge; the selector joins it.
    #[serde(default)]
    pub hybrid: Option<String>,
    /// The strategist knows better where its chance to win is nearer to the deep one than the NNUE's by at least this.
    #[serde(default = "usual_margin")]
    pub margin: f64,
    /// The share of positions that the strategist should be asked about: it decides the threshold.
    #[serde(default = "usual_usage")]
    pub usage: f64,
}

/// Positions with deep scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseData {
    /// To learn from.
    pub train: Vec<SourceRecipe>,
    /// To judge by.
    #[serde(default)]
    pub validation: Vec<SourceRecipe>,
    /// This share of the games to learn from is kept to judge by, where nothing else is given for that.
    #[serde(default)]
    pub validation_share: f64,
    /// Positions to learn from.
    #[serde(default = "usual_cases")]
    pub cases: u64,
    /// Positions to judge by.
    #[serde(default = "usual_validation")]
    pub validation_cases: u64,
}

/// How a selector learns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SelectorTraining {
    /// Cases of a step.
    pub batch: usize,
    /// How often it sees all cases; the best time is kept.
    pub epochs: u64,
    /// The learning rate.
    #[serde(deserialize_with = "number_or_schedule")]
    pub rate: Schedule,
    /// So much of each weight is lost at every step, times the learning rate.
    pub decay: f64,
    /// The share of the hidden numbers that is left out of each step, by chance.
    pub dropout: f64,
    /// Slopes are held to this length all together; zero for any.
    pub clip: f64,
    /// Cases count by how much nearer one mind is than the other, and not all alike.
    pub by_gain: bool,
}

fn one() -> u64 {
    1
}
fn usual_margin() -> f64 {
    MARGIN
}
fn usual_usage() -> f64 {
    0.1
}
fn usual_cases() -> u64 {
    100_000
}
fn usual_validation() -> u64 {
    20_000
}

impl Default for SelectorTraining {
    fn default() -> Self {
        Self {
            batch: 256,
            epochs: 30,
            rate: Schedule::Cosine { start: 1e-3, end: 1e-5 },
            decay: 1e-4,
            dropout: 0.2,
            clip: 1.0,
            by_gain: false,
        }
    }
}

impl SelectorRecipe {
    /// Reads a recipe from text, and looks whether it can be followed. Files that it names are not looked for.
    pub fn parse(text: &str) -> Result<Self, RecipeError> {
        let recipe: Self = toml::from_str(text)?;
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
        within("data.validation_share", data.validation_share, 0.0, 0.9)?;
        let wrong = |key, problem: &str| Err(RecipeError::Wrong { key, problem: problem.into() });
        match (data.validation_share > 0.0, data.validation.is_empty()) {
            (true, false) => {
                return wrong(
                    "data.validation_share",
                    "there is validation data already: leave out one of the two",
                );
            }
            (false, true) => {
                return wrong("data.validation", "what a selector is worth is seen on games it has not seen");
            }
            _ => {}
        }
        for (key, count) in [("data.cases", data.cases), ("data.validation_cases", data.validation_cases)] {
            within(key, count as f64, 1.0, 1e8)?;
        }
        check_rate(&training.rate)?;
        within("training.batch", training.batch as f64, 1.0, f64::from(1 << 20))?;
        within("training.epochs", training.epochs as f64, 1.0, 1e6)?;
        within("training.decay", training.decay, 0.0, 1e6)?;
        within("training.dropout", training.dropout, 0.0, ALMOST_ONE)?;
        within("training.clip", training.clip, 0.0, f64::MAX)
    }

    /// The recipe with every default written out.
    pub fn explain(&self) -> String {
        // Numbers, texts and tables: nothing that TOML has no place for.
        toml::to_string_pretty(self).unwrap_or_default()
    }
}

impl CaseData {
    /// Records to learn from and to judge by, of different games.
    pub(super) fn records(
        &self,
        seed: u64,
        threads: usize,
    ) -> Result<(Vec<Record>, Vec<Record>), LoadDataError> {
        let split = Split { validation: self.validation_share, test: 0.0, seed };
        let kept = |part| self.validation.is_empty().then_some((split, part));
        let others = if self.validation.is_empty() { &self.train } else { &self.validation };
        Ok((
            first_records(&self.train, threads, self.cases, kept(Part::Train))?,
            first_records(others, threads, self.validation_cases, kept(Part::Validation))?,
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
        validation_share = 0.1
    "#;

    #[test]
    fn a_short_recipe_is_explained_in_full_and_means_the_same() {
        let recipe = SelectorRecipe::parse(SHORT).unwrap();
        let explained = recipe.explain();
        for default in ["margin = 0.05", "dropout = 0.2", "cases = 100000", "usage = 0.1", "clip = 1.0"] {
            assert!(explained.contains(default), "{explained}");
        }
        assert_eq!(SelectorRecipe::parse(&explained).unwrap(), recipe);
    }

    #[test]
    fn what_cannot_be_is_told_by_its_key() {
        let told =
            |from: &str, to: &str| SelectorRecipe::parse(&SHORT.replace(from, to)).unwrap_err().to_string();
        let more = |more: &str| told("validation_share = 0.1", &format!("validation_share = 0.1\n{more}"));
        assert!(told("validation_share = 0.1", "").starts_with("data.validation: "));
        assert!(told("\"a.tnn\"", "\"a.tnn\", sha256 = \"x\"").starts_with("selector.nnue.sha256: "));
        assert!(more("cases = 0").starts_with("data.cases: "));
        assert!(more("validation = [{ path = \"y.csv\" }]").starts_with("data.validation_share: "));
        assert!(more("[training]\ndropout = 1.0").starts_with("training.dropout: "));
        assert!(more("[training]\nepoch = 1").contains("epoch"));
        assert!(told("[data]", "margin = 2.0\n[data]").starts_with("selector.margin: "));
    }
}
