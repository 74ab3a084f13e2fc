//! Which kind of network a recipe is for.

use super::TransformerRecipe;
use crate::recipe::{Recipe, RecipeError};
use std::path::Path;

/// A recipe of either kind.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyRecipe {
    /// For an NNUE.
    Nnue(Box<Recipe>),
    /// For a transformer.
    Transformer(Box<TransformerRecipe>),
}

impl AnyRecipe {
    /// Reads a recipe. An NNUE's has features for its network, a transformer's has not.
    pub fn load(path: &Path) -> Result<Self, RecipeError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| RecipeError::Io { path: path.to_path_buf(), source })?;
        let table: toml::Table = toml::from_str(&text)?;
        let network = table.get("network").and_then(toml::Value::as_table);
        let of_transformer = |network: &toml::Table| {
            network.contains_key("preset")
                || network.contains_key("architecture")
                || !network.contains_key("features")
        };
        Ok(match network.is_some_and(of_transformer) {
            true => Self::Transformer(Box::new(TransformerRecipe::load(path)?)),
            false => Self::Nnue(Box::new(Recipe::parse(&text)?)),
        })
    }
}
