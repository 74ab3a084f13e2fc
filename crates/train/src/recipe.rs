//! Recipes: TOML files that describe a whole training run, with checks that find a mistake before the run
//! begins rather than at its end.
//!
//! Recipes of all kinds have the same core, [`RecipeCore`]: the tables `[data]`, `[training]`, `[optimiser]`
//! and `[logging]`. Each kind adds tables of its own, such as `[network]`. A short recipe is enough, because
//! nearly every key has a default; `explain` writes all of them out.

mod data;
#[cfg(test)]
pub(crate) mod every_key;
mod ineffective;
mod kind;
mod nnue;
mod source;
mod training;

pub use data::{DataRecipe, OnInvalid};
pub use kind::RecipeKind;
pub(crate) use kind::{get_mut, put, remove};
pub use nnue::{NetworkRecipe, Recipe, STACK_PAWN, StackRecipe, TargetRecipe};
pub use source::SourceRecipe;
pub(crate) use source::check_sources;
pub(crate) use training::matches;
pub use training::{Averaging, LoggingRecipe, Sparsity, Swa, TrainingPrecision, TrainingRecipe};

use crate::old_keys;
use crate::optimiser::Optimiser;
use crate::schedule::Schedule;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ops::DerefMut;
use std::path::{Path, PathBuf};
use thiserror::Error;
use toml::Table;

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
    #[error("{}", in_words(&.0.to_string()))]
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
    /// A key that recipes of this kind do not have.
    #[error("{key}: {problem}")]
    Key {
        /// The key, as the recipe has it.
        key: String,
        /// The reason, with the keys that are possible.
        problem: String,
    },
    /// A value that is out of range, contradicts another one, or has no effect.
    #[error("{key}: {problem}")]
    Invalid {
        /// Path of the key in the recipe, for example `training.batch`.
        key: &'static str,
        /// The problem with the value, and what to change about it.
        problem: String,
    },
}

/// The text of a TOML error with the types of the program replaced by words for them.
pub(crate) fn in_words(error: &str) -> String {
    const TYPES: [(&str, &str); 10] = [
        ("usize", "a whole number of 0 or more"),
        ("u64", "a whole number of 0 or more"),
        ("u32", "a whole number of 0 or more"),
        ("u16", "a whole number of 0 or more"),
        ("u8", "a whole number from 0 to 255"),
        ("i32", "a whole number"),
        ("i16", "a whole number"),
        ("f64", "a number"),
        ("f32", "a number"),
        ("a boolean", "true or false"),
    ];
    let mut text = error.to_owned();
    for (name, words) in TYPES {
        text = text.replace(&format!("expected {name}\n"), &format!("expected {words}\n"));
        if let Some(start) = text.strip_suffix(&format!("expected {name}")) {
            text = format!("{start}expected {words}");
        }
    }
    text
}

/// The keys that recipes of all kinds share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecipeCore {
    /// Name of the network and of its files; it has to be a valid file name. The run's folder is `runs/NAME`
    /// unless the caller chooses another.
    pub name: String,
    /// Seed of the initial weights, of the order of the data, of augmentation and of dropout; default 1. The
    /// same seed gives the same network to the bit on the CPU, and to rounding on a GPU.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Learning rate, a number or a schedule over the steps of the run. Default for an NNUE: a cosine from
    /// 1e-3 to 2.4e-6; for a transformer: 500 steps of warm-up, then a cosine from 5e-4 to 5e-6; for a
    /// selector: a cosine from 1e-3 to 1e-5.
    #[serde(default = "default_lr")]
    pub lr: Schedule,
    /// Training and validation data, and the size of the buffer in which records are shuffled.
    pub data: DataRecipe,
    /// Batch size, length, validation, clipping and averaging of the run.
    #[serde(default)]
    pub training: TrainingRecipe,
    /// Optimiser and its hyperparameters; default AdamW with a weight decay of 0.01, or 1e-4 for a selector.
    #[serde(default)]
    pub optimiser: Optimiser,
    /// Frequency of the log's entries.
    #[serde(default)]
    pub logging: LoggingRecipe,
}

fn default_seed() -> u64 {
    1
}

fn default_lr() -> Schedule {
    Schedule::Cosine { start: 1e-3, end: 2.4e-6 }
}

impl Default for RecipeCore {
    /// The defaults for an NNUE, without a name and without data.
    fn default() -> Self {
        Self {
            name: String::new(),
            seed: default_seed(),
            lr: default_lr(),
            data: DataRecipe::default(),
            training: TrainingRecipe::default(),
            optimiser: Optimiser::default(),
            logging: LoggingRecipe::default(),
        }
    }
}

impl RecipeCore {
    /// Number of optimiser steps of the whole run, the last batch counted as a full one.
    pub fn steps(&self) -> u64 {
        self.training.positions.div_ceil(self.training.batch as u64)
    }

    /// Refuses keys of sources that have no effect. Validation sources, and all sources of a selector, are
    /// read one after the other.
    fn check_sources_effects(&self, kind: RecipeKind) -> Result<(), RecipeError> {
        let invalid = |key, problem: &str| Err(RecipeError::Invalid { key, problem: problem.into() });
        let is_selector = kind == RecipeKind::Selector;
        let in_order = self.data.train.iter().filter(|_| is_selector).chain(&self.data.validation);
        if in_order.clone().any(|source| source.weight != 0.0 && source.weight != 1.0) {
            return invalid(
                "data.weight",
                "it has no effect: these sources are read one after the other; 0 leaves one out, 1 reads it",
            );
        }
        if is_selector && in_order.clone().any(|source| source.wdl.is_some()) {
            return invalid("data.wdl", "it has no effect on selectors, which learn from scores alone");
        }
        Ok(())
    }

    fn check(&self) -> Result<(), RecipeError> {
        check_name(&self.name)?;
        check_lr(&self.lr)?;
        self.data.check()?;
        self.training.check(self.data.has_validation())?;
        self.optimiser.check()?;
        self.logging.check()
    }
}

/// A recipe of one kind, which derefs to its core. The core is no field of the serialised form, because its
/// keys stand beside the kind's own tables.
pub(crate) trait KindOfRecipe: Serialize + DeserializeOwned + DerefMut<Target = RecipeCore> {
    /// The kind, which has defaults, old keys and refused keys of its own.
    const KIND: RecipeKind;

    /// Checks the kind's own tables, and values of the core that do not fit them.
    fn check(&self) -> Result<(), RecipeError>;

    /// Refuses values that have no effect in this recipe. Not called for recipes of checkpoints, because
    /// earlier versions accepted them.
    fn check_effects(&self) -> Result<(), RecipeError> {
        Ok(())
    }
}

/// Implements what all kinds of recipes have, for a struct with the core as its field `core`. The kind is stored
/// in checkpoints; a function of the struct may check one further.
macro_rules! recipe_of_kind {
    ($name:ident, $checkpoint_kind:literal $(, $check_checkpoint:ident)?) => {
        impl std::ops::Deref for $name {
            type Target = crate::recipe::RecipeCore;

            fn deref(&self) -> &Self::Target {
                &self.core
            }
        }

        impl std::ops::DerefMut for $name {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.core
            }
        }

        impl $name {
            /// Parses a recipe and checks everything that can be checked without the files that it names. Old
            /// keys are accepted.
            ///
            /// # Errors
            ///
            /// If the text is not TOML, or has a key that is unknown or has no effect, or a value that is out
            /// of range or contradicts another; the message names the key.
            pub fn parse(text: &str) -> Result<Self, crate::RecipeError> {
                Self::parse_with_notices(text, &mut Vec::new())
            }

            /// Parses a recipe, and adds a line of text for each key that has another name now: see
            /// [`crate::old_keys`].
            ///
            /// # Errors
            ///
            /// As for `parse`.
            pub fn parse_with_notices(
                text: &str,
                notices: &mut Vec<String>,
            ) -> Result<Self, crate::RecipeError> {
                crate::recipe::parse(text, notices)
            }

            /// Parses the recipe of a checkpoint. Keys without an effect, which earlier versions accepted,
            /// are left out.
            ///
            /// # Errors
            ///
            /// As for `parse`, except for keys without an effect.
            pub fn parse_stored(text: &str) -> Result<Self, crate::RecipeError> {
                crate::recipe::parse_stored(text)
            }

            /// The recipe as TOML with every default written out and all keys by their present names; parsing
            /// it gives the same recipe.
            pub fn explain(&self) -> String {
                crate::recipe::explain(self)
            }
        }

        impl crate::checkpoint::RunRecipe for $name {
            const CHECKPOINT_KIND: &'static str = $checkpoint_kind;

            fn to_text(&self) -> String {
                self.explain()
            }

            fn from_text(text: &str) -> Result<Self, crate::RecipeError> {
                Self::parse_stored(text)
            }

            $(fn check(checkpoint: &crate::Checkpoint<Self>) -> Result<(), String> {
                Self::$check_checkpoint(checkpoint)
            })?
        }
    };
}
pub(crate) use recipe_of_kind;

/// Parses a recipe of one kind, and adds a notice for each old key. Messages about a recipe without old keys
/// show its own lines.
pub(crate) fn parse<T: KindOfRecipe>(text: &str, notices: &mut Vec<String>) -> Result<T, RecipeError> {
    let mut table: Table = toml::from_str(text)?;
    let mut own = Vec::new();
    old_keys::rewrite(T::KIND, &mut table, &mut own)?;
    T::KIND.check_keys(&table)?;
    ineffective::refuse(T::KIND, &mut table, &mut own)?;
    T::KIND.add_defaults(&mut table);
    let recipe = match read::<T>(&table.to_string()) {
        // The recipe's own text has the same mistake, in lines that its author knows.
        Err(error) if own.is_empty() => return Err(read::<T>(text).err().unwrap_or(error).into()),
        read => read?,
    };
    for notice in own {
        old_keys::push_new(notices, notice);
    }
    recipe.deref().check()?;
    recipe.check()?;
    recipe.deref().check_sources_effects(T::KIND)?;
    recipe.check_effects()?;
    Ok(recipe)
}

/// Parses the recipe of a checkpoint, without the keys that have no effect.
pub(crate) fn parse_stored<T: KindOfRecipe>(text: &str) -> Result<T, RecipeError> {
    let mut table: Table = toml::from_str(text)?;
    old_keys::rewrite(T::KIND, &mut table, &mut Vec::new())?;
    T::KIND.check_keys(&table)?;
    ineffective::drop_all(T::KIND, &mut table);
    T::KIND.add_defaults(&mut table);
    let recipe = read::<T>(&table.to_string())?;
    recipe.deref().check()?;
    recipe.check()?;
    Ok(recipe)
}

fn read<T: KindOfRecipe>(text: &str) -> Result<T, toml::de::Error> {
    let mut recipe: T = toml::from_str(text)?;
    *recipe = toml::from_str(text)?;
    Ok(recipe)
}

/// Writes a recipe with all keys that have an effect.
pub(crate) fn explain<T: KindOfRecipe>(recipe: &T) -> String {
    // TOML can represent everything that a recipe contains.
    let mut table = Table::try_from(&**recipe).unwrap_or_default();
    T::KIND.remove_refused(&mut table);
    table.extend(Table::try_from(recipe).unwrap_or_default());
    ineffective::drop_all(T::KIND, &mut table);
    toml::to_string_pretty(&table).unwrap_or_default()
}

/// Checks that a run's name is a valid file name, because its networks are named after it.
fn check_name(name: &str) -> Result<(), RecipeError> {
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
fn check_lr(lr: &Schedule) -> Result<(), RecipeError> {
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
