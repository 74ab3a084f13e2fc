//! Checkpoint of a transformer's run: recipe, architecture, weights, optimiser state and progress in one
//! safetensors file, from which the run continues to the bit.

use super::{TransformerRecipe, TransformerState};
use crate::checkpoint::{
    CheckpointError, Metadata, RunProgress, StoredCheckpoint, read_file, read_tensors, write_tensors,
};
use std::path::Path;
use tandem_transformer::Architecture;

/// Checkpoint of a transformer's run: everything that is needed to resume it after a given step.
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerCheckpoint {
    /// The recipe of the run; a run is resumed only with an equal one.
    pub recipe: TransformerRecipe,
    /// The network's architecture, kept because the recipe may only name a file.
    pub architecture: Architecture,
    /// Weights, optimiser moments and averages.
    pub state: TransformerState,
    /// Place in the data from which to read on, and the lowest validation loss so far.
    pub progress: RunProgress,
}

const KIND: &str = "tandem transformer checkpoint 1";

impl TransformerCheckpoint {
    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let (about, buffers) = read_tensors(bytes, KIND)?;
        let architecture =
            Architecture::from_toml(about.get("architecture")?).map_err(|error| error.to_string())?;
        let state =
            TransformerState { step: about.integer("step")?, swa_count: about.integer("averaged")?, buffers };
        let recipe = TransformerRecipe::parse(about.get("recipe")?).map_err(|error| error.to_string())?;
        let Some(weights) = state.buffers.get("numbers") else { return Err("it has no numbers".into()) };
        // The size of a bridge depends on its NNUE, which is checked when the run is resumed.
        let count = match &recipe.bridge {
            None => architecture.parameters(),
            Some(_) => weights.len().max(architecture.parameters()),
        };
        if let Some((name, buffer)) = state.buffers.iter().find(|(_, buffer)| buffer.len() != count) {
            return Err(format!("{name} has {} values, not {count}", buffer.len()));
        }
        // Without one of these a resumed run would silently restart that part from zero.
        let required = [
            ("first", true),
            ("second", true),
            ("following", recipe.training.ema_decay > 0.0),
            ("plain", state.swa_count > 0),
        ];
        if let Some((name, _)) =
            required.iter().find(|(name, needed)| *needed && !state.buffers.contains_key(*name))
        {
            return Err(format!("it has no buffer {name:?}"));
        }
        Ok(Self { recipe, architecture, state, progress: about.json("standing")? })
    }

    /// Describes the first tensor in which the network differs from another one; `None` if the architectures
    /// are equal.
    pub fn difference(&self, other: &Architecture) -> Option<String> {
        if self.architecture == *other {
            return None;
        }
        let (own, others) = (self.architecture.tensors(), other.tensors());
        let differs = own.iter().zip(&others).find(|(own, other)| own != other);
        Some(match differs {
            Some((own, others)) => {
                format!(
                    "it has {} {:?} where the recipe has {} {:?}",
                    own.name, own.shape, others.name, others.shape
                )
            }
            None if own.len() != others.len() => {
                let more = if own.len() > others.len() { &own[others.len()] } else { &others[own.len()] };
                format!("one of the two has no {} {:?}", more.name, more.shape)
            }
            None => "its tensors are the same, but the architectures use them differently".into(),
        })
    }
}

impl StoredCheckpoint for TransformerCheckpoint {
    fn step(&self) -> u64 {
        self.state.step
    }

    fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        let mut about = Metadata::new(KIND);
        about.set("step", self.state.step.to_string());
        about.set("averaged", self.state.swa_count.to_string());
        about.set("recipe", self.recipe.explain());
        about.set("architecture", self.architecture.to_toml());
        about.set("standing", serde_json::json!(self.progress).to_string());
        write_tensors(
            path,
            about,
            self.state.buffers.iter().map(|(name, buffer)| (name.as_str(), buffer.as_slice())),
        )
    }

    fn load(path: &Path) -> Result<Self, CheckpointError> {
        read_file(path, Self::from_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_that_lacks_a_buffer_is_refused() {
        let path = std::env::temp_dir().join(format!("tandem-transformer-{}.checkpoint", std::process::id()));
        let text = "name = \"x\"\n[data]\ntrain = [{ path = \"x.pgn\" }]\n[network]\npreset = \"bt-small\"\n";
        let architecture =
            Architecture::from_toml(include_str!("../../../transformer/tests/architectures/squares.toml"))
                .unwrap();
        let values = vec![0.25; architecture.parameters()];
        let names = ["numbers", "first", "second", "following", "plain"];
        let whole = TransformerCheckpoint {
            recipe: TransformerRecipe::parse(text).unwrap(),
            architecture,
            state: TransformerState {
                step: 7,
                swa_count: 2,
                buffers: names.map(|name| (name.to_owned(), values.clone())).into(),
            },
            progress: RunProgress {
                best: Some((0.5, 6)),
                validations_since_best: 1,
                ..RunProgress::default()
            },
        };
        whole.save(&path).unwrap();
        assert_eq!(TransformerCheckpoint::load(&path).unwrap(), whole);
        for name in names {
            let mut incomplete = whole.clone();
            incomplete.state.buffers.remove(name);
            incomplete.save(&path).unwrap();
            let error = TransformerCheckpoint::load(&path).unwrap_err().to_string();
            assert!(error.contains("not a checkpoint: it has no "), "{name}: {error}");
        }
        // A run without averages has no buffers for them.
        let mut plain = whole;
        plain.recipe.training.ema_decay = 0.0;
        plain.state.swa_count = 0;
        plain.state.buffers.retain(|name, _| name != "following" && name != "plain");
        plain.save(&path).unwrap();
        assert_eq!(TransformerCheckpoint::load(&path).unwrap(), plain);
        std::fs::remove_file(path).unwrap();
    }
}
