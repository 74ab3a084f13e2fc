//! The table `[data]`, which recipes of all kinds share.

use super::{RecipeError, SourceRecipe, check_sources, within};
use serde::{Deserialize, Serialize};
use tandem_data::OnError;

/// Training and validation data, with the order in which it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataRecipe {
    /// Sources of training positions, at least one; each is read again from its start when it ends. If there
    /// are several, each gives a fraction of the positions in proportion to its weight.
    pub train: Vec<SourceRecipe>,
    /// Sources of validation positions, which should not share games with the training data; without any, an
    /// NNUE's run has no validation loss and no best checkpoint.
    pub validation: Vec<SourceRecipe>,
    /// Fraction of the training games that is held out for validation, from 0 to 0.9, if there are no
    /// validation sources. Not for NNUEs.
    pub validation_fraction: f64,
    /// Number of records that are shuffled together; default 2^20 for an NNUE and 2^18 for a transformer.
    /// Files whose neighbours come from one game need a buffer of many games.
    pub shuffle_buffer: usize,
    /// Augmentation for transformers: half of the positions, at random, are shown with colours swapped, and
    /// half of those without castling rights mirrored from left to right.
    pub flip: bool,
    /// Trains even if the scores look wrong, for example all zero or in pawns; default false, which makes
    /// that an error.
    pub any_scores: bool,
    /// Treatment of broken records and illegal moves by transformers: `"stop"`, the default, or `"skip"`.
    pub on_invalid: OnInvalid,
    /// Number of training positions that a selector reads, default 100,000; fewer if the data ends before.
    pub cases: u64,
    /// Number of validation positions that a selector reads, default 20,000; fewer if the data ends before.
    pub validation_cases: u64,
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

impl Default for DataRecipe {
    /// The defaults for an NNUE, without any source; other kinds replace some of them.
    fn default() -> Self {
        Self {
            train: Vec::new(),
            validation: Vec::new(),
            validation_fraction: 0.0,
            shuffle_buffer: 1 << 20,
            flip: false,
            any_scores: false,
            on_invalid: OnInvalid::Stop,
            cases: 100_000,
            validation_cases: 20_000,
        }
    }
}

impl DataRecipe {
    /// True if the run has validation data, of its own sources or held out.
    pub fn has_validation(&self) -> bool {
        self.validation_fraction > 0.0 || !self.validation.is_empty()
    }

    /// Checks ranges and sources.
    pub(super) fn check(&self) -> Result<(), RecipeError> {
        check_sources(&self.train, &self.validation)?;
        within("data.validation_fraction", self.validation_fraction, 0.0, 0.9)?;
        within("data.shuffle_buffer", self.shuffle_buffer as f64, 0.0, f64::from(1 << 30))?;
        within("data.cases", self.cases as f64, 1.0, 1e8)?;
        within("data.validation_cases", self.validation_cases as f64, 1.0, 1e8)?;
        if self.validation_fraction > 0.0 && !self.validation.is_empty() {
            let problem = "there is validation data already: leave out one of the two".into();
            return Err(RecipeError::Invalid { key: "data.validation_fraction", problem });
        }
        Ok(())
    }
}
