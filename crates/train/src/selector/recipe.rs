//! The recipe of a selector: the networks and the fraction of positions to query, besides what all recipes
//! have.

use crate::base::{BaseNetwork, check_sha256};
use crate::pool::LoadDataError;
use crate::recipe::{DataRecipe, KindOfRecipe, RecipeCore, RecipeError, RecipeKind, recipe_of_kind, within};
use crate::transformer::first_records;
use serde::{Deserialize, Serialize};
use tandem_data::{Record, Split, Subset};

/// Default margin, in win probability from 0 to 1: the strategist counts as better if its error against the
/// deep search is smaller than the NNUE's by at least this much.
pub const DEFAULT_MARGIN: f64 = 0.05;

/// A selector's training, as described in a TOML file. It derefs to the keys that all recipes have.
/// [`train_selector`](super::train_selector) runs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelectorRecipe {
    /// The keys that all recipes have.
    #[serde(skip)]
    pub core: RecipeCore,
    /// The two networks, the margin that defines the label, and the fraction of positions to query.
    pub selector: NetworkPair,
}

recipe_of_kind!(SelectorRecipe, "tandem selector checkpoint 1");

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

fn default_margin() -> f64 {
    DEFAULT_MARGIN
}
fn default_usage() -> f64 {
    0.1
}

impl KindOfRecipe for SelectorRecipe {
    const KIND: RecipeKind = RecipeKind::Selector;

    fn check(&self) -> Result<(), RecipeError> {
        let selector = &self.selector;
        check_sha256("selector.nnue.sha256", selector.nnue.sha256.as_deref())?;
        check_sha256("selector.transformer.sha256", selector.transformer.sha256.as_deref())?;
        within("selector.margin", selector.margin, 0.0, 1.0)?;
        within("selector.usage", selector.usage, 0.0, 1.0)?;
        if self.data.has_validation() {
            return Ok(());
        }
        let problem = "a selector is validated on games that it was not trained on: name some, or set \
                       data.validation_fraction";
        Err(RecipeError::Invalid { key: "data.validation", problem: problem.into() })
    }
}

/// Records for training and for validation, of different games if a fraction is held out.
pub(super) fn load_records(
    data: &DataRecipe,
    seed: u64,
    threads: usize,
) -> Result<(Vec<Record>, Vec<Record>), LoadDataError> {
    let split = Split { validation: data.validation_fraction, test: 0.0, seed };
    let held_out = |part| data.validation.is_empty().then_some((split, part));
    let validation = if data.validation.is_empty() { &data.train } else { &data.validation };
    Ok((
        first_records(&data.train, threads, data.cases, held_out(Subset::Train))?,
        first_records(validation, threads, data.validation_cases, held_out(Subset::Validation))?,
    ))
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
