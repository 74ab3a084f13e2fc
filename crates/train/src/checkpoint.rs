//! Checkpoints: files that hold everything needed to resume a run exactly.
//!
//! A checkpoint is a safetensors file with the parameters and optimiser buffers as tensors, and the recipe,
//! the step and the run's progress as metadata. Names in the file are older than those in the code, and stay
//! as they are so that old checkpoints can be read.

use crate::pool::DataCursor;
use crate::recipe::{Recipe, RecipeError};
use crate::state::State;
use crate::trainer::Job;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use tandem_nnue::FloatNetwork;
use tandem_util::output;
use thiserror::Error;

/// A checkpoint that cannot be written or read, with its path.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The file cannot be accessed, for example because the disk is full.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the checkpoint file.
        path: PathBuf,
        /// The file system's reason.
        source: std::io::Error,
    },
    /// The file is not a checkpoint of the expected kind, or is damaged.
    #[error("{}: not a checkpoint: {problem}", path.display())]
    Damaged {
        /// Path of the checkpoint file.
        path: PathBuf,
        /// The inconsistency that was found, for example a missing tensor.
        problem: String,
    },
}

/// Progress of a run beyond its parameters, stored in the checkpoint's metadata as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunProgress {
    /// Place from which the data is read on after resuming.
    pub cursor: DataCursor,
    /// Lowest validation loss so far, with its step; absent before the first validation.
    pub best: Option<(f64, u64)>,
    /// Number of validations after the best one, compared with the recipe's patience.
    #[serde(rename = "stale")]
    pub validations_since_best: u32,
    /// SHA-256 of the NNUE and of the transformer between which a bridge is trained; absent in other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bases: Option<[String; 2]>,
}

impl RunProgress {
    /// Records the validation loss after a step, and returns true if it is the lowest so far.
    pub(crate) fn record_validation(&mut self, loss: f64, step: u64) -> bool {
        let is_best = self.best.is_none_or(|(best, _)| loss < best);
        if is_best {
            (self.best, self.validations_since_best) = (Some((loss, step)), 0);
        } else {
            self.validations_since_best += 1;
        }
        is_best
    }

    /// True if the loss has not fallen for `patience` validations; a patience of 0 is never exhausted.
    pub(crate) fn patience_exhausted(&self, patience: u32) -> bool {
        patience > 0 && self.validations_since_best >= patience
    }
}

/// A run after some step: recipe, parameters and progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Recipe that the run follows; a resumed run must have the same one.
    pub recipe: Recipe,
    /// Parameters and optimiser buffers after the step.
    pub state: State,
    /// Position in the data, and the best validation so far.
    pub progress: RunProgress,
}

const KIND: &str = "tandem checkpoint 1";

impl Checkpoint {
    /// The network at this step, from the moving average if the run has one.
    ///
    /// # Errors
    ///
    /// If the parameters do not fit the recipe's architecture, as in a damaged file.
    pub fn network(&self) -> Result<FloatNetwork, RecipeError> {
        let job = Job::of(&self.recipe)?;
        let averaged = !self.state.ema.is_empty();
        let parameters = if averaged { &self.state.ema } else { &self.state.parameters };
        if parameters.len() != job.layout.num_parameters() {
            let problem =
                format!("{} parameters found, {} expected", parameters.len(), job.layout.num_parameters());
            return Err(RecipeError::Invalid { key: "network", problem });
        }
        Ok(job.network(parameters, &self.recipe.name))
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let (metadata, mut tensors) = read_tensors(bytes, KIND)?;
        let mut state = State { step: metadata.integer("step")?, ..State::default() };
        let names = state.buffers().map(|(name, _)| name);
        for (name, parameters) in names.into_iter().zip(state.buffers_mut()) {
            *parameters = tensors.remove(name).unwrap_or_default();
        }
        Ok(Self {
            recipe: Recipe::parse(metadata.get("recipe")?).map_err(|error| error.to_string())?,
            state,
            progress: metadata.json("standing")?,
        })
    }
}

impl StoredCheckpoint for Checkpoint {
    fn step(&self) -> u64 {
        self.state.step
    }

    fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        let mut metadata = Metadata::new(KIND);
        metadata.set("step", self.state.step.to_string());
        metadata.set("recipe", self.recipe.explain());
        metadata.set("standing", serde_json::json!(self.progress).to_string());
        write_tensors(path, metadata, self.state.buffers().map(|(name, values)| (name, values.as_slice())))
    }

    fn load(path: &Path) -> Result<Self, CheckpointError> {
        read_file(path, Self::from_bytes)
    }
}

/// Text metadata of a checkpoint file, by name.
pub(crate) struct Metadata(HashMap<String, String>);

impl Metadata {
    pub(crate) fn new(kind: &str) -> Self {
        Self(HashMap::from([("kind".to_owned(), kind.to_owned())]))
    }

    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), value);
    }

    pub(crate) fn get(&self, name: &str) -> Result<&str, String> {
        self.0.get(name).map(String::as_str).ok_or_else(|| format!("it has no {name}"))
    }

    pub(crate) fn integer(&self, name: &str) -> Result<u64, String> {
        self.get(name)?.parse().map_err(|_| format!("its {name} is not a number"))
    }

    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, String> {
        serde_json::from_str(self.get(name)?).map_err(|error| error.to_string())
    }
}

/// Writes tensors and metadata atomically: the file is complete or absent. Empty tensors are left out.
pub(crate) fn write_tensors<'a>(
    path: &Path,
    metadata: Metadata,
    tensors: impl IntoIterator<Item = (&'a str, &'a [f32])>,
) -> Result<(), CheckpointError> {
    let damaged = |problem: String| CheckpointError::Damaged { path: path.into(), problem };
    let mut views = Vec::new();
    for (name, values) in tensors.into_iter().filter(|(_, values)| !values.is_empty()) {
        let view = TensorView::new(Dtype::F32, vec![values.len()], bytemuck::cast_slice(values));
        views.push((name, view.map_err(|error| damaged(error.to_string()))?));
    }
    let bytes =
        safetensors::serialize(views, Some(metadata.0)).map_err(|error| damaged(error.to_string()))?;
    let bytes = tandem_nnue::with_sorted_header(bytes);
    output::write_atomically(path, &bytes).map_err(|source| CheckpointError::Io { path: path.into(), source })
}

/// Reads all tensors of a checkpoint of the expected kind, by name, with its metadata.
pub(crate) fn read_tensors(
    bytes: &[u8],
    kind: &str,
) -> Result<(Metadata, BTreeMap<String, Vec<f32>>), String> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| error.to_string())?;
    let metadata = Metadata(header.metadata().clone().unwrap_or_default());
    if metadata.get("kind")? != kind {
        return Err(format!("its kind is {:?}, not {kind:?}", metadata.get("kind")?));
    }
    let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut tensors = BTreeMap::new();
    for (name, tensor) in file.tensors() {
        if tensor.dtype() != Dtype::F32 {
            return Err(format!("{name} has values of another type"));
        }
        tensors.insert(name, bytemuck::pod_collect_to_vec(tensor.data()));
    }
    Ok((metadata, tensors))
}

/// Reads and decodes a file; a decoding error names the file.
pub(crate) fn read_file<T>(
    path: &Path,
    read: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<T, CheckpointError> {
    let bytes = std::fs::read(path).map_err(|source| CheckpointError::Io { path: path.into(), source })?;
    read(&bytes).map_err(|problem| CheckpointError::Damaged { path: path.into(), problem })
}

/// A checkpoint type with its file format; implemented for NNUEs and transformers.
pub trait StoredCheckpoint: Sized {
    /// Number of steps done when the checkpoint was made.
    fn step(&self) -> u64;

    /// Writes the checkpoint atomically: the file is complete or absent.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    fn save(&self, path: &Path) -> Result<(), CheckpointError>;

    /// Reads a checkpoint from a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is not an intact checkpoint of this type.
    fn load(path: &Path) -> Result<Self, CheckpointError>;
}

/// The checkpoints in a run's folder: the last few, the best one, and one of a stopped run.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    keep: usize,
}

/// File of the checkpoint with the lowest validation loss.
const BEST: &str = "best.checkpoint";

/// File of the checkpoint of a run that was stopped between two validations.
const STOPPED: &str = "stopped.checkpoint";

impl Checkpoints {
    /// Checkpoints in a folder, of which the last `keep` are kept, at least one.
    pub fn new(folder: &Path, keep: usize) -> Self {
        Self { folder: folder.into(), keep: keep.max(1) }
    }

    /// Steps and paths of the numbered checkpoints, the oldest first.
    pub fn list(&self) -> Vec<(u64, PathBuf)> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let numbered = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let step = name.strip_prefix("step-")?.strip_suffix(".checkpoint")?;
            Some((step.parse().ok()?, entry.path()))
        });
        let mut all: Vec<(u64, PathBuf)> = numbered.collect();
        all.sort();
        all
    }

    /// Path of the best checkpoint, whether or not it exists.
    pub fn best(&self) -> PathBuf {
        self.folder.join(BEST)
    }

    /// Writes a checkpoint, also as the best one if it is, and removes those that are too old.
    ///
    /// # Errors
    ///
    /// If a file cannot be written; failing to remove an old one is not an error.
    pub fn save<C: StoredCheckpoint>(&self, checkpoint: &C, is_best: bool) -> Result<(), CheckpointError> {
        let path = self.folder.join(format!("step-{:09}.checkpoint", checkpoint.step()));
        if is_best {
            // The best checkpoint is written first, because the numbered one refers to it in its progress. A
            // run that is killed in between repeats this step.
            checkpoint.save(&self.best())?;
            self.link(checkpoint, &self.best(), &path)?;
        } else {
            checkpoint.save(&path)?;
        }
        // Checkpoints of later steps belong to another run.
        let earlier = |(step, _): &(u64, PathBuf)| *step <= checkpoint.step();
        let all: Vec<(u64, PathBuf)> = self.list().into_iter().filter(earlier).collect();
        let old = all[..all.len().saturating_sub(self.keep)].iter().map(|(_, path)| path.clone());
        for old in old.chain([self.stopped()]) {
            // An old file that cannot be removed does no harm.
            let _ = std::fs::remove_file(old);
        }
        Ok(())
    }

    /// Writes a checkpoint between two validations, which serves only for resuming.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save_stopped(&self, checkpoint: &impl StoredCheckpoint) -> Result<(), CheckpointError> {
        checkpoint.save(&self.stopped())
    }

    fn stopped(&self) -> PathBuf {
        self.folder.join(STOPPED)
    }

    /// Makes a written checkpoint available under a second name: as a hard link if possible, otherwise as a
    /// copy.
    fn link(
        &self,
        checkpoint: &impl StoredCheckpoint,
        from: &Path,
        to: &Path,
    ) -> Result<(), CheckpointError> {
        let temporary = self.folder.join("best.link");
        let _ = std::fs::remove_file(&temporary);
        match std::fs::hard_link(from, &temporary).and_then(|()| std::fs::rename(&temporary, to)) {
            Ok(()) => Ok(()),
            Err(_) => checkpoint.save(to),
        }
    }

    /// The newest readable checkpoint, or `None` if there are no checkpoints. A damaged one is skipped in
    /// favour of an older one.
    ///
    /// # Errors
    ///
    /// If there are checkpoints but none of them can be read.
    pub fn newest<C: StoredCheckpoint>(&self) -> Result<Option<C>, CheckpointError> {
        let stopped = Some(self.stopped()).filter(|path| path.exists()).map(|path| C::load(&path));
        let mut problem = None;
        let mut newest = None;
        for (_, path) in self.list().iter().rev() {
            match C::load(path) {
                Ok(checkpoint) => {
                    newest = Some(checkpoint);
                    break;
                }
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        match (stopped, newest) {
            (Some(Ok(stopped)), Some(newest)) if newest.step() > stopped.step() => Ok(Some(newest)),
            (Some(Ok(stopped)), _) => Ok(Some(stopped)),
            (_, Some(newest)) => Ok(Some(newest)),
            (Some(Err(error)), None) => Err(error),
            (None, None) => problem.map_or(Ok(None), Err),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(step: u64) -> Checkpoint {
        let text = "name = \"x\"\n[data]\ntrain = [{ path = \"x.bf\" }]\n[network]\nfeatures = \"768\"\naccumulator = 32\n";
        let recipe = Recipe::parse(text).unwrap();
        let mut state = crate::trainer::Job::of(&recipe).unwrap().initial_state(step);
        state.step = step;
        Checkpoint {
            recipe,
            state,
            progress: RunProgress {
                best: Some((0.067_123_456_789_012_3, 7)),
                validations_since_best: 2,
                ..RunProgress::default()
            },
        }
    }

    #[test]
    fn a_checkpoint_is_restored_exactly_and_damage_is_reported() {
        let folder = std::env::temp_dir().join(format!("tandem-checkpoint-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let checkpoints = Checkpoints::new(&folder, 2);
        for step in [5, 10, 15] {
            checkpoints.save(&checkpoint(step), step == 5).unwrap();
        }
        assert_eq!(checkpoints.list().iter().map(|(step, _)| *step).collect::<Vec<_>>(), [10, 15]);
        assert_eq!(checkpoints.newest().unwrap(), Some(checkpoint(15)));
        let again = folder.join("again");
        checkpoint(15).save(&again).unwrap();
        let newest = checkpoints.list()[1].1.clone();
        assert!(std::fs::read(again).unwrap() == std::fs::read(newest).unwrap(), "the same is the same file");
        assert_eq!(Checkpoint::load(&checkpoints.best()).unwrap(), checkpoint(5));
        let network = checkpoint(5).network().unwrap();
        assert_eq!(network.weights[..], checkpoint(5).state.parameters[..network.weights.len()]);
        // The newest is truncated: the one before it is used.
        let path = checkpoints.list()[1].1.clone();
        let bytes = std::fs::read(&path).unwrap();
        for len in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..len]).unwrap();
            assert!(Checkpoint::load(&path).unwrap_err().to_string().contains("not a checkpoint"), "{len}");
        }
        assert_eq!(checkpoints.newest().unwrap(), Some(checkpoint(10)));
        checkpoints.save_stopped(&checkpoint(12)).unwrap();
        assert_eq!(checkpoints.newest().unwrap(), Some(checkpoint(12)));
        // Only unreadable checkpoints are an error, unlike none at all.
        for path in checkpoints.list().into_iter().map(|(_, path)| path).chain([checkpoints.stopped()]) {
            std::fs::write(path, b"").unwrap();
        }
        assert!(checkpoints.newest::<Checkpoint>().is_err());
        checkpoints.save(&checkpoint(3), false).unwrap();
        assert_eq!(checkpoints.newest().unwrap(), Some(checkpoint(3)));
        assert_eq!(Checkpoints::new(&folder.join("none"), 1).newest::<Checkpoint>().unwrap(), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// The recipe in a checkpoint of an earlier version has old keys.
    #[test]
    fn a_checkpoint_with_old_recipe_keys_equals_one_with_the_present_ones() {
        let path = std::env::temp_dir().join(format!("tandem-old-keys-{}", std::process::id()));
        let present = checkpoint(5);
        let text = present.recipe.explain();
        let mut old = text.replace("wdl = ", "result_share = ").replace("[lr]", "[rate]");
        old = old.replace("weight_decay = ", "decay = ").replace("qat = ", "round_weights = ");
        old = old.replace("max_grad_norm = ", "clip_slopes = "); // language: old name
        let ema = "ema_decay = 0.0\nema_every = 10\naverage_checkpoints = 0\n";
        assert!(old.contains(ema), "{old}");
        old = old.replace(ema, "\n[training.average]\nkind = \"none\"\n");
        let mut metadata = Metadata::new(KIND);
        metadata.set("step", "5".into());
        metadata.set("recipe", old.replace("target.wdl", "target.result_share"));
        metadata.set("standing", serde_json::json!(present.progress).to_string());
        let buffers = present.state.buffers();
        write_tensors(&path, metadata, buffers.map(|(name, values)| (name, values.as_slice()))).unwrap();
        assert_eq!(Checkpoint::load(&path).unwrap(), present);
        std::fs::remove_file(path).unwrap();
    }
}
