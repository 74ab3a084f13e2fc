//! Keys that have no effect because of the values of other keys. They are refused with the reason, so that no
//! recipe means less than it says.

use super::kind::{get, remove};
use super::{RecipeError, RecipeKind};
use toml::{Table, Value};

/// A key that has no effect in a recipe.
struct Ineffective {
    /// Path of the key.
    key: &'static str,
    /// The reason, as a clause.
    reason: &'static str,
    /// Value that the key has if it is left out. Stating it changes nothing and is accepted.
    default: Option<Value>,
}

/// All keys without an effect that stand in a recipe.
fn find(kind: RecipeKind, table: &Table) -> Vec<Ineffective> {
    let mut found = Vec::new();
    let mut add = |key, reason, default: Option<Value>| {
        if get(table, key).is_some() {
            found.push(Ineffective { key, reason, default });
        }
    };
    if kind == RecipeKind::Nnue && get(table, "network.stacks").is_some() {
        add("network.activation", "`network.stacks` has activations of its own", Some("screlu".into()));
        let reason = "networks with `network.stacks` have fixed scales, which are those of Stockfish";
        add("network.scale", reason, Some(400.into()));
        add("network.qa", reason, Some(255.into()));
        add("network.qb", reason, Some(64.into()));
    }
    let is_positive = |value: &Value| value.as_float().is_some_and(|value| value > 0.0);
    if !get(table, "training.ema_decay").is_some_and(is_positive) {
        add("training.ema_every", "there is no moving average without `training.ema_decay`", Some(10.into()));
    }
    let sources = get(table, "data.validation").and_then(Value::as_array);
    let has_validation = sources.is_some_and(|sources| !sources.is_empty())
        || get(table, "data.validation_fraction").is_some_and(is_positive);
    if !has_validation {
        let default = get(&kind.defaults(), "training.validation_positions").cloned();
        add(
            "training.validation_positions",
            "there is no validation data: name some in `data.validation`",
            Some(default.unwrap_or(1_000_000.into())),
        );
    }
    if kind == RecipeKind::Transformer && get(table, "network.init_from").is_none() {
        add("network.init_sha256", "there is no `network.init_from` whose file could have this hash", None);
    }
    found
}

/// Refuses keys without an effect. Where an earlier version wrote the default of such a key into recipes, a
/// notice says that it is left out.
pub(super) fn refuse(
    kind: RecipeKind,
    table: &mut Table,
    notices: &mut Vec<String>,
) -> Result<(), RecipeError> {
    for Ineffective { key, reason, default } in find(kind, table) {
        if get(table, key) != default.as_ref() {
            return Err(RecipeError::Invalid { key, problem: format!("it has no effect: {reason}") });
        }
        if key.starts_with("network.") {
            remove(table, key);
            notices.push(format!("`{key}` has no effect and is left out: {reason}"));
        }
    }
    Ok(())
}

/// Removes keys without an effect from the recipe of a checkpoint, which an earlier version accepted.
pub(super) fn drop_all(kind: RecipeKind, table: &mut Table) {
    for Ineffective { key, .. } in find(kind, table) {
        remove(table, key);
    }
}
