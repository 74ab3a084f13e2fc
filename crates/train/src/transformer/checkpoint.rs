//! A transformer's run in a file.

use super::{TransformerRecipe, TransformerState};
use crate::checkpoint::{About, CheckpointError, Kept, read_rows, read_whole, write_rows};
use crate::pool::DataCursor;
use serde::{Deserialize, Serialize};
use std::path::Path;
use tandem_transformer::Architecture;

/// How a run stands beside its numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerStanding {
    /// Where the data is read on.
    pub cursor: DataCursor,
    /// The lowest validation loss so far, and the step it was seen at.
    pub best: Option<(f64, u64)>,
    /// Looks at the validation data since then.
    pub stale: u32,
    /// The NNUE and the transformer that a bridge is learnt between, by the SHA-256 of their files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bases: Option<[String; 2]>,
}

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
    pub standing: TransformerStanding,
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
        match state.rows.iter().find(|(_, row)| row.len() != numbers) {
            Some((name, row)) => Err(format!("{name} has {} numbers, not {numbers}", row.len())),
            None => Ok(Self { recipe, architecture, state, standing: about.json("standing")? }),
        }
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
