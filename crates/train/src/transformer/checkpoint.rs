//! A transformer's run in a file.

use super::{TransformerRecipe, TransformerState};
use crate::checkpoint::{About, CheckpointError, Kept, Standing, read_rows, read_whole, write_rows};
use std::path::Path;
use tandem_transformer::Architecture;

/// A transformer's run at a step.
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerCheckpoint {
    /// Its recipe.
    pub recipe: TransformerRecipe,
    /// What the network is made of.
    pub architecture: Architecture,
    /// Its numbers.
    pub state: TransformerState,
    /// How it stands.
    pub standing: Standing,
}

const KIND: &str = "tandem transformer checkpoint 1";

impl TransformerCheckpoint {
    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let (about, rows) = read_rows(bytes, KIND)?;
        let architecture =
            Architecture::from_toml(about.get("architecture")?).map_err(|error| error.to_string())?;
        let state =
            TransformerState { step: about.number("step")?, averaged: about.number("averaged")?, rows };
        let recipe = TransformerRecipe::parse(about.get("recipe")?).map_err(|error| error.to_string())?;
        let Some(row) = state.rows.get("numbers") else { return Err("it has no numbers".into()) };
        // A bridge is as long as its NNUE makes it, which a run that goes on finds out.
        let numbers = match &recipe.bridge {
            None => architecture.parameters(),
            Some(_) => row.len().max(architecture.parameters()),
        };
        if let Some((name, row)) = state.rows.iter().find(|(_, row)| row.len() != numbers) {
            return Err(format!("{name} has {} numbers, not {numbers}", row.len()));
        }
        // A run that goes on without one of these would begin anew there, and nobody would know.
        let remembered = [
            ("first", true),
            ("second", true),
            ("following", recipe.training.ema > 0.0),
            ("plain", state.averaged > 0),
        ];
        if let Some((name, _)) =
            remembered.iter().find(|(name, needed)| *needed && !state.rows.contains_key(*name))
        {
            return Err(format!("it has no row {name:?}"));
        }
        Ok(Self { recipe, architecture, state, standing: about.json("standing")? })
    }

    /// The first tensor in which the network differs from another one, in words; none where they are alike.
    pub fn difference(&self, other: &Architecture) -> Option<String> {
        if self.architecture == *other {
            return None;
        }
        let (mine, theirs) = (self.architecture.tensors(), other.tensors());
        let differs = mine.iter().zip(&theirs).find(|(mine, theirs)| mine != theirs);
        Some(match differs {
            Some((mine, theirs)) => {
                format!(
                    "it has {} {:?} where the recipe has {} {:?}",
                    mine.name, mine.shape, theirs.name, theirs.shape
                )
            }
            None if mine.len() != theirs.len() => {
                let more = if mine.len() > theirs.len() { &mine[theirs.len()] } else { &theirs[mine.len()] };
                format!("one of the two has no {} {:?}", more.name, more.shape)
            }
            None => "its tensors are the same, but not what is done with them".into(),
        })
    }
}

impl Kept for TransformerCheckpoint {
    fn step(&self) -> u64 {
        self.state.step
    }

    fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        let mut about = About::new(KIND);
        about.set("step", self.state.step.to_string());
        about.set("averaged", self.state.averaged.to_string());
        about.set("recipe", self.recipe.explain());
        about.set("architecture", self.architecture.to_toml());
        about.set("standing", serde_json::json!(self.standing).to_string());
        write_rows(path, about, self.state.rows.iter().map(|(name, row)| (name.as_str(), row.as_slice())))
    }

    fn load(path: &Path) -> Result<Self, CheckpointError> {
        read_whole(path, Self::from_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_from_all_that_it_remembered_or_not_at_all() {
        let path = std::env::temp_dir().join(format!("tandem-transformer-{}.checkpoint", std::process::id()));
        let text = "name = \"x\"\n[data]\ntrain = [{ path = \"x.pgn\" }]\n[network]\npreset = \"bt-small\"\n";
        let architecture =
            Architecture::from_toml(include_str!("../../../transformer/tests/architectures/squares.toml"))
                .unwrap();
        let row = vec![0.25; architecture.parameters()];
        let names = ["numbers", "first", "second", "following", "plain"];
        let whole = TransformerCheckpoint {
            recipe: TransformerRecipe::parse(text).unwrap(),
            architecture,
            state: TransformerState {
                step: 7,
                averaged: 2,
                rows: names.map(|name| (name.to_owned(), row.clone())).into(),
            },
            standing: Standing { best: Some((0.5, 6)), stale: 1, ..Standing::default() },
        };
        whole.save(&path).unwrap();
        assert_eq!(TransformerCheckpoint::load(&path).unwrap(), whole);
        for name in names {
            let mut torn = whole.clone();
            torn.state.rows.remove(name);
            torn.save(&path).unwrap();
            let error = TransformerCheckpoint::load(&path).unwrap_err().to_string();
            assert!(error.contains("no checkpoint: it has no "), "{name}: {error}");
        }
        // Who keeps no averages has none.
        let mut plain = whole;
        plain.recipe.training.ema = 0.0;
        plain.state.averaged = 0;
        plain.state.rows.retain(|name, _| name != "following" && name != "plain");
        plain.save(&path).unwrap();
        assert_eq!(TransformerCheckpoint::load(&path).unwrap(), plain);
        std::fs::remove_file(path).unwrap();
    }
}
