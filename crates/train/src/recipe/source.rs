//! Data sources as recipes of all kinds name them: a path, its sampling weight, and the filter of its
//! records.

use super::{RecipeError, check_fraction};
use crate::pool::LoadDataError;
use crate::schedule::Schedule;
use serde::{Deserialize, Serialize};
use tandem_data::{Filter, Format, Options, Source};

/// A source of training or validation records: one file, or a pattern or folder of files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRecipe {
    /// Path of the data, in any form that `tandem-lab data` accepts.
    pub path: String,
    /// Sampling weight relative to the other sources; default 1. A source of weight 0 is not read.
    #[serde(default = "default_weight")]
    pub weight: f64,
    /// Filter of the records, for example `no-checks,max-score=2500`; default none.
    #[serde(default)]
    pub filter: String,
    /// Meaning of the columns of a CSV file, for example `unit=pawns`; refused with other formats.
    #[serde(default)]
    pub columns: Option<String>,
    /// Content of a bag file: `action-value`, `state-value` or `behavioral-cloning`; taken from its name if
    /// absent, and refused with other formats.
    #[serde(default)]
    pub bag: Option<String>,
    /// Weight of the game result in this source's targets, instead of the weight that all targets have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wdl: Option<Schedule>,
}

impl SourceRecipe {
    /// Weight of the game result for this source, or `default` if it has none of its own.
    pub fn wdl_or<'a>(&'a self, default: &'a Schedule) -> &'a Schedule {
        self.wdl.as_ref().unwrap_or(default)
    }

    /// Opens the files behind the path, and checks that the filter can be applied to their format.
    ///
    /// # Errors
    ///
    /// If a file is missing or of an unknown format, or if the filter needs something that the format does
    /// not store.
    pub(crate) fn open(&self) -> Result<(Vec<Source>, Filter), LoadDataError> {
        let (options, filter) = self.read()?;
        let sources = Source::parse(&self.path, &options)?;
        filter.check(&sources)?;
        let has_any = |format| sources.iter().any(|source| source.format == format);
        for (key, given, format) in [
            ("data.columns", self.columns.is_some(), Format::Csv),
            ("data.bag", self.bag.is_some(), Format::Bag),
        ] {
            if given && !has_any(format) {
                let problem = format!(
                    "it has no effect on {}, which is not in the format {}",
                    self.path,
                    format.name()
                );
                return Err(RecipeError::Invalid { key, problem }.into());
            }
        }
        Ok((sources, filter))
    }

    /// Text for an error about a source without usable records: what they lack, and the filter, if it may be
    /// the reason.
    pub(crate) fn needed(&self, needed: &str) -> String {
        match self.filter.as_str() {
            "" => needed.into(),
            filter => format!("{needed}; or the filter {filter:?} leaves nothing: try without it"),
        }
    }

    /// Parses the options and the filter without opening any file.
    fn read(&self) -> Result<(Options, Filter), RecipeError> {
        let invalid = |key, problem: String| RecipeError::Invalid { key, problem };
        if !(self.weight.is_finite() && self.weight >= 0.0) {
            return Err(invalid("data.weight", "must be zero or more".into()));
        }
        let filter = self.filter.parse::<Filter>().map_err(|bad| invalid("data.filter", bad.to_string()))?;
        let columns = self.columns.as_deref().map(str::parse).transpose();
        let columns = columns.map_err(|problem| invalid("data.columns", problem))?;
        let bag = self.bag.as_deref().map(str::parse).transpose();
        let bag = bag.map_err(|problem| invalid("data.bag", problem))?;
        Ok((Options { columns: columns.unwrap_or_default(), bag }, filter))
    }
}

fn default_weight() -> f64 {
    1.0
}

/// Checks that there is training data, and that every source is valid on its own.
pub(crate) fn check_sources(train: &[SourceRecipe], validation: &[SourceRecipe]) -> Result<(), RecipeError> {
    let invalid = |key, problem: &str| Err(RecipeError::Invalid { key, problem: problem.into() });
    if train.is_empty() {
        return invalid("data.train", "name at least one file to train on");
    }
    for source in train.iter().chain(validation) {
        source.read()?;
        if let Some(wdl) = &source.wdl {
            check_fraction("data.wdl", wdl)?;
        }
    }
    if train.iter().all(|source| source.weight == 0.0) {
        return invalid("data.weight", "at least one file to train on needs a weight above zero");
    }
    Ok(())
}
