//! Files of data, as recipes of all kinds name them.

use super::{RecipeError, check_share};
use crate::pool::LoadDataError;
use crate::schedule::{Schedule, some_schedule};
use serde::{Deserialize, Serialize};
use tandem_data::{Filter, Options, Source};

/// A file of data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRecipe {
    /// Where it is: any path that `tandem-lab data` takes.
    pub path: String,
    /// How often it is read, against the others.
    #[serde(default = "one_share")]
    pub weight: f64,
    /// Rules for its records.
    #[serde(default)]
    pub filter: String,
    /// Columns of a CSV file.
    #[serde(default)]
    pub columns: Option<String>,
    /// What a bag holds: `action-value`, `state-value` or `behavioral-cloning`; by its name where it is not told.
    #[serde(default)]
    pub bag: Option<String>,
    /// The share of the game's result for this file alone, instead of that of all targets.
    #[serde(default, deserialize_with = "some_schedule", skip_serializing_if = "Option::is_none")]
    pub result_share: Option<Schedule>,
}

impl SourceRecipe {
    /// The share of the game's result in its targets, which is the usual one if it has none of its own.
    pub fn share<'a>(&'a self, usual: &'a Schedule) -> &'a Schedule {
        self.result_share.as_ref().unwrap_or(usual)
    }

    /// The files that it stands for, and the rules for their records.
    pub(crate) fn open(&self) -> Result<(Vec<Source>, Filter), LoadDataError> {
        let (options, filter) = self.read()?;
        let sources = Source::parse(&self.path, &options)?;
        filter.check(&sources)?;
        Ok((sources, filter))
    }

    /// What its records must have, where none of them can be learnt from.
    pub(crate) fn needed(&self, needed: &str) -> String {
        match self.filter.as_str() {
            "" => needed.into(),
            filter => format!("{needed}; or the filter {filter:?} leaves nothing: try without it"),
        }
    }

    /// What is written in it, if it means anything.
    fn read(&self) -> Result<(Options, Filter), RecipeError> {
        let wrong = |key, problem: String| RecipeError::Wrong { key, problem };
        if !(self.weight.is_finite() && self.weight >= 0.0) {
            return Err(wrong("data.weight", "must be zero or more".into()));
        }
        let filter = self.filter.parse::<Filter>().map_err(|bad| wrong("data.filter", bad.to_string()))?;
        let columns = self.columns.as_deref().map(str::parse).transpose();
        let columns = columns.map_err(|problem| wrong("data.columns", problem))?;
        let bag = self.bag.as_deref().map(str::parse).transpose();
        let bag = bag.map_err(|problem| wrong("data.bag", problem))?;
        Ok((Options { columns: columns.unwrap_or_default(), bag }, filter))
    }
}

fn one_share() -> f64 {
    1.0
}

/// Whether there is something to learn from, and all that is said of it means something.
pub(crate) fn check_sources(train: &[SourceRecipe], validation: &[SourceRecipe]) -> Result<(), RecipeError> {
    let wrong = |key, problem: &str| Err(RecipeError::Wrong { key, problem: problem.into() });
    if train.is_empty() {
        return wrong("data.train", "name at least one file to learn from");
    }
    for source in train.iter().chain(validation) {
        source.read()?;
        if let Some(share) = &source.result_share {
            check_share("data.result_share", share)?;
        }
    }
    if train.iter().all(|source| source.weight == 0.0) {
        return wrong("data.weight", "at least one file to learn from needs a weight above zero");
    }
    Ok(())
}
