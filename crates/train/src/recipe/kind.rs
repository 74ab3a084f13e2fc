//! The kinds of recipes: their defaults, and the shared keys that a kind does not have.

use super::RecipeError;
use toml::{Table, Value};

/// The kinds of recipes. They share the tables `[data]`, `[training]`, `[optimiser]` and `[logging]`, and
/// each has tables of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecipeKind {
    /// For an NNUE, parsed as [`Recipe`](crate::Recipe).
    Nnue,
    /// For a transformer or a bridge, parsed as [`TransformerRecipe`](crate::transformer::TransformerRecipe).
    Transformer,
    /// For a selector, parsed as [`SelectorRecipe`](crate::selector::SelectorRecipe).
    Selector,
}

/// Keys outside any table, and tables, that all kinds have.
const SHARED: [&str; 7] = ["name", "seed", "lr", "data", "training", "optimiser", "logging"];

/// Shared keys that have no effect on an NNUE, with the reason.
const NOT_OF_NNUES: &[(&str, &str)] = &[
    ("data.validation_fraction", "`tandem-lab data split` divides an NNUE's data by games"),
    ("data.flip", "an NNUE sees every position from both sides already"),
    ("data.on_invalid", "a broken record in an NNUE's data always ends the run"),
    ("data.cases", "an NNUE is trained on all records; `training.positions` is the length of the run"),
    ("data.validation_cases", "`training.validation_positions` is the number of validation positions"),
    ("training.gradient_accumulation_steps", "a batch of an NNUE fits into memory whole"),
    ("training.epochs", "`training.positions` is the length of the run"),
    ("training.swa", "`training.average_checkpoints` averages an NNUE's weights over the end of the run"),
    ("training.freeze", "all tensors of an NNUE are trained"),
    ("training.sparsity", "an NNUE's layers are dense"),
    ("training.precision", "an NNUE is trained in 32 bits; `training.qat` trains for its integers"),
    ("training.cuda_graph", "the CUDA trainer of NNUEs needs few launches and no graph"),
    ("training.dropout", "only selectors have dropout"),
    ("training.by_gain", "only selectors have a gain to weight by"),
];

/// Shared keys that have no effect on a transformer, with the reason.
const NOT_OF_TRANSFORMERS: &[(&str, &str)] = &[
    ("data.cases", "a transformer is trained on all records; `training.positions` is the length of the run"),
    ("data.validation_cases", "`training.validation_positions` is the number of validation positions"),
    ("training.epochs", "`training.positions` is the length of the run"),
    (
        "training.clip_weights",
        "a transformer's weights have no bounds: `tandem-lab` quantises them as they are",
    ),
    ("training.qat", "a transformer is quantised after training, for inference alone"),
    ("training.ema_every", "a transformer's average is updated after every step"),
    (
        "training.average_checkpoints",
        "`training.swa` averages a transformer's weights over the end of the run",
    ),
    ("training.dropout", "of a transformer's run only a bridge has dropout: set `bridge.dropout`"),
    ("training.by_gain", "only selectors have a gain to weight by"),
];

/// Shared keys that have no effect on a selector, with the reason.
const NOT_OF_SELECTORS: &[(&str, &str)] = &[
    ("data.shuffle_buffer", "all cases are in memory and are shuffled together"),
    ("data.flip", "a selector's features are those of the side to move already"),
    ("data.any_scores", "the scores of a selector's data are not checked"),
    ("data.on_invalid", "a broken record in a selector's data always ends the run"),
    ("training.gradient_accumulation_steps", "a batch of a selector fits into memory whole"),
    ("training.positions", "`training.epochs` is the length of the training"),
    ("training.validate_every", "a selector is validated after every epoch"),
    ("training.validation_positions", "`data.validation_cases` is the number of validation positions"),
    ("training.clip_weights", "a selector is not quantised"),
    ("training.qat", "a selector is not quantised"),
    ("training.ema_decay", "the best epoch is kept, and not an average"),
    ("training.ema_every", "the best epoch is kept, and not an average"),
    ("training.average_checkpoints", "the best epoch is kept, and not an average"),
    ("training.swa", "the best epoch is kept, and not an average"),
    ("training.freeze", "all tensors of a selector are trained"),
    ("training.sparsity", "a selector's layers are dense"),
    ("training.precision", "a selector is trained in 32 bits"),
    ("training.cuda_graph", "a selector is trained on the CPU"),
    ("logging", "a selector logs every epoch"),
];

/// Defaults in which transformers differ from NNUEs.
const TRANSFORMER_DEFAULTS: &str = r#"
lr = { kind = "warm-up", steps = 500, then = { kind = "cosine", start = 5e-4, end = 5e-6 } }
[data]
shuffle_buffer = 262_144
[training]
batch = 1024
positions = 10_000_000
validate_every = 1_000_000
validation_positions = 100_000
max_grad_norm = 1.0
ema_decay = 0.999
[logging]
every = 32
"#;

/// Defaults in which selectors differ from NNUEs.
const SELECTOR_DEFAULTS: &str = r#"
lr = { kind = "cosine", start = 1e-3, end = 1e-5 }
[training]
batch = 256
keep = 1
max_grad_norm = 1.0
[optimiser]
kind = "adamw"
weight_decay = 1e-4
"#;

impl RecipeKind {
    /// The tables that only this kind has.
    pub(crate) fn own_tables(self) -> &'static [&'static str] {
        match self {
            Self::Nnue => &["network", "target"],
            Self::Transformer => &["network", "targets", "bridge"],
            Self::Selector => &["selector"],
        }
    }

    /// Shared keys that this kind does not have, with the reason; `logging` is a whole table.
    pub fn refused_keys(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Nnue => NOT_OF_NNUES,
            Self::Transformer => NOT_OF_TRANSFORMERS,
            Self::Selector => NOT_OF_SELECTORS,
        }
    }

    /// Refuses keys outside any table that no recipe of this kind has, and shared keys that this kind does
    /// not have.
    pub(super) fn check_keys(self, table: &Table) -> Result<(), RecipeError> {
        let known = || SHARED.iter().chain(self.own_tables());
        if let Some(unknown) = table.keys().find(|key| !known().any(|known| known == key)) {
            let known: Vec<&str> = known().copied().collect();
            let problem = format!("unknown key or table; a recipe of this kind has {}", known.join(", "));
            return Err(RecipeError::Key { key: unknown.clone(), problem });
        }
        for &(key, reason) in self.refused_keys() {
            if get(table, key).is_some() {
                let problem = format!("it has no effect on {}: {reason}", self.plural());
                return Err(RecipeError::Invalid { key, problem });
            }
        }
        Ok(())
    }

    fn plural(self) -> &'static str {
        match self {
            Self::Nnue => "NNUEs",
            Self::Transformer => "transformers",
            Self::Selector => "selectors",
        }
    }

    /// Defaults in which this kind differs from NNUEs.
    pub(super) fn defaults(self) -> Table {
        let text = match self {
            Self::Nnue => "",
            Self::Transformer => TRANSFORMER_DEFAULTS,
            Self::Selector => SELECTOR_DEFAULTS,
        };
        // The texts are constants, and a test parses them.
        toml::from_str(text).unwrap_or_default()
    }

    /// Adds this kind's defaults to a recipe where it has no value of its own.
    pub(super) fn add_defaults(self, table: &mut Table) {
        for (key, default) in self.defaults() {
            match (table.get_mut(&key), default) {
                (None, default) => drop(table.insert(key, default)),
                // An optimiser that is named has defaults of its own.
                (Some(Value::Table(own)), _) if key == "optimiser" && own.contains_key("kind") => {}
                (Some(Value::Table(own)), Value::Table(defaults)) if key != "lr" => {
                    for (key, default) in defaults {
                        own.entry(key).or_insert(default);
                    }
                }
                _ => {}
            }
        }
        if let Some(Value::Table(own)) = table.get_mut("optimiser") {
            own.entry("kind").or_insert_with(|| "adamw".into());
        }
    }

    /// Removes the shared keys that this kind does not have.
    pub(super) fn remove_refused(self, table: &mut Table) {
        for (key, _) in self.refused_keys() {
            remove(table, key);
        }
    }
}

/// The value at a path such as `training.batch`.
pub(crate) fn get<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    match path.split_once('.') {
        None => table.get(path),
        Some((first, rest)) => get(table.get(first)?.as_table()?, rest),
    }
}

/// Removes the value at a path such as `training.batch`.
pub(crate) fn remove(table: &mut Table, path: &str) {
    match path.split_once('.') {
        None => drop(table.remove(path)),
        Some((first, rest)) => {
            if let Some(inner) = table.get_mut(first).and_then(Value::as_table_mut) {
                remove(inner, rest);
            }
        }
    }
}

/// The value at a path, for writing.
pub(crate) fn get_mut<'a>(table: &'a mut Table, path: &str) -> Option<&'a mut Value> {
    match path.split_once('.') {
        None => table.get_mut(path),
        Some((first, rest)) => get_mut(table.get_mut(first)?.as_table_mut()?, rest),
    }
}

/// Stores a value at a path, and returns the one that was there. Nothing is stored below a value that is not
/// a table, which the recipe's parser reports.
pub(crate) fn put(table: &mut Table, path: &str, value: Value) -> Option<Value> {
    match path.split_once('.') {
        None => table.insert(path.into(), value),
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| Table::new().into());
            put(inner.as_table_mut()?, rest, value)
        }
    }
}
