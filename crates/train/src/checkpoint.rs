//! A run in a file: everything that is needed to go on as if nothing had happened.

use crate::pool::DataCursor;
use crate::recipe::{Recipe, RecipeError};
use crate::state::State;
use crate::trainer::Job;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use tandem_chess::output;
use tandem_nnue::FloatNetwork;
use thiserror::Error;

/// A checkpoint that cannot be written or read.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The file system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is none, or is damaged.
    #[error("{}: no checkpoint: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
}

/// How a run stands beside its numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    /// Where the data is read on.
    pub cursor: DataCursor,
    /// The lowest validation loss so far, and the step it was seen at.
    pub best: Option<(f64, u64)>,
    /// Looks at the validation data since then.
    pub stale: u32,
    /// The NNUE and the transformer that a bridge is learnt between, where one is, by the SHA-256 of their files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bases: Option<[String; 2]>,
}

impl Standing {
    /// Takes in the validation loss after a step, and says whether it is the lowest so far.
    pub(crate) fn look(&mut self, loss: f64, step: u64) -> bool {
        let is_best = self.best.is_none_or(|(best, _)| loss < best);
        if is_best {
            (self.best, self.stale) = (Some((loss, step)), 0);
        } else {
            self.stale += 1;
        }
        is_best
    }

    /// Whether the loss has not fallen for too many looks; `patience` is how many, and zero is any.
    pub(crate) fn is_stale(&self, patience: u32) -> bool {
        patience > 0 && self.stale >= patience
    }
}

/// A run at a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Its recipe.
    pub recipe: Recipe,
    /// Its numbers.
    pub state: State,
    /// How it stands.
    pub standing: Standing,
}

const KIND: &str = "tandem checkpoint 1";

impl Checkpoint {
    /// The network as it stands: the moving average where one is kept.
    pub fn network(&self) -> Result<FloatNetwork, RecipeError> {
        let job = Job::of(&self.recipe)?;
        let averaged = !self.state.average.is_empty();
        let numbers = if averaged { &self.state.average } else { &self.state.numbers };
        if numbers.len() != job.layout.numbers() {
            let problem = format!("{} numbers found, {} expected", numbers.len(), job.layout.numbers());
            return Err(RecipeError::Wrong { key: "network", problem });
        }
        Ok(job.network(numbers, &self.recipe.name))
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let (about, mut rows) = read_rows(bytes, KIND)?;
        let mut state = State { step: about.number("step")?, ..State::default() };
        let names = state.parts().map(|(name, _)| name);
        for (name, numbers) in names.into_iter().zip(state.parts_mut()) {
            *numbers = rows.remove(name).unwrap_or_default();
        }
        Ok(Self {
            recipe: Recipe::parse(about.get("recipe")?).map_err(|error| error.to_string())?,
            state,
            standing: about.json("standing")?,
        })
    }
}

impl Kept for Checkpoint {
    fn step(&self) -> u64 {
        self.state.step
    }

    fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        let mut about = About::new(KIND);
        about.set("step", self.state.step.to_string());
        about.set("recipe", self.recipe.explain());
        about.set("standing", serde_json::json!(self.standing).to_string());
        write_rows(path, about, self.state.parts().map(|(name, row)| (name, row.as_slice())))
    }

    fn load(path: &Path) -> Result<Self, CheckpointError> {
        read_whole(path, Self::from_bytes)
    }
}

/// What a checkpoint says of itself beside its numbers.
pub(crate) struct About(HashMap<String, String>);

impl About {
    pub(crate) fn new(kind: &str) -> Self {
        Self(HashMap::from([("kind".to_owned(), kind.to_owned())]))
    }

    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), value);
    }

    pub(crate) fn get(&self, name: &str) -> Result<&str, String> {
        self.0.get(name).map(String::as_str).ok_or_else(|| format!("it has no {name}"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<u64, String> {
        self.get(name)?.parse().map_err(|_| format!("its {name} is no number"))
    }

    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, String> {
        serde_json::from_str(self.get(name)?).map_err(|error| error.to_string())
    }
}

/// Writes rows of numbers, whole or not at all. Empty ones are left out.
pub(crate) fn write_rows<'a>(
    path: &Path,
    about: About,
    rows: impl IntoIterator<Item = (&'a str, &'a [f32])>,
) -> Result<(), CheckpointError> {
    let damaged = |problem: String| CheckpointError::Damaged { path: path.into(), problem };
    let mut tensors = Vec::new();
    for (name, numbers) in rows.into_iter().filter(|(_, numbers)| !numbers.is_empty()) {
        let view = TensorView::new(Dtype::F32, vec![numbers.len()], bytemuck::cast_slice(numbers));
        tensors.push((name, view.map_err(|error| damaged(error.to_string()))?));
    }
    let bytes = safetensors::serialize(tensors, Some(about.0)).map_err(|error| damaged(error.to_string()))?;
    let bytes = tandem_nnue::with_sorted_header(bytes);
    output::write_whole(path, &bytes).map_err(|source| CheckpointError::Io { path: path.into(), source })
}

/// Rows of numbers by their names, and what is said of them, if they are of the kind that is looked for.
pub(crate) fn read_rows(bytes: &[u8], kind: &str) -> Result<(About, BTreeMap<String, Vec<f32>>), String> {
    let (_, about) = SafeTensors::read_metadata(bytes).map_err(|error| error.to_string())?;
    let about = About(about.metadata().clone().unwrap_or_default());
    if about.get("kind")? != kind {
        return Err(format!("it calls itself {:?}", about.get("kind")?));
    }
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut rows = BTreeMap::new();
    for (name, tensor) in tensors.tensors() {
        if tensor.dtype() != Dtype::F32 {
            return Err(format!("{name} has numbers of another kind"));
        }
        rows.insert(name, bytemuck::pod_collect_to_vec(tensor.data()));
    }
    Ok((about, rows))
}

/// Reads a file whose bytes mean something.
pub(crate) fn read_whole<T>(
    path: &Path,
    read: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<T, CheckpointError> {
    let bytes = std::fs::read(path).map_err(|source| CheckpointError::Io { path: path.into(), source })?;
    read(&bytes).map_err(|problem| CheckpointError::Damaged { path: path.into(), problem })
}

/// A run at a step, kept in a file.
pub trait Kept: Sized {
    /// The step.
    fn step(&self) -> u64;

    /// Writes it, whole or not at all.
    fn save(&self, path: &Path) -> Result<(), CheckpointError>;

    /// Reads one.
    fn load(path: &Path) -> Result<Self, CheckpointError>;
}

/// The checkpoints of a run's folder.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    keep: usize,
}

/// The checkpoint with the lowest validation loss.
const BEST: &str = "best.checkpoint";

/// That of a run that was stopped between two looks at the validation data.
const STOPPED: &str = "stopped.checkpoint";

impl Checkpoints {
    /// In a folder, of which the last few are kept.
    pub fn new(folder: &Path, keep: usize) -> Self {
        Self { folder: folder.into(), keep: keep.max(1) }
    }

    /// Those that are there with their steps, the oldest first.
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

    /// The path of the best.
    pub fn best(&self) -> PathBuf {
        self.folder.join(BEST)
    }

    /// Writes one and removes those that are too old.
    pub fn save<C: Kept>(&self, checkpoint: &C, is_best: bool) -> Result<(), CheckpointError> {
        let path = self.folder.join(format!("step-{:09}.checkpoint", checkpoint.step()));
        if is_best {
            // The best comes first: one that knows of a best must find it. A run that is killed in between makes this step again.
            checkpoint.save(&self.best())?;
            self.link(checkpoint, &self.best(), &path)?;
        } else {
            checkpoint.save(&path)?;
        }
        // Those of later steps are none of this run's.
        let earlier = |(step, _): &(u64, PathBuf)| *step <= checkpoint.step();
        let all: Vec<(u64, PathBuf)> = self.list().into_iter().filter(earlier).collect();
        let old = all[..all.len().saturating_sub(self.keep)].iter().map(|(_, path)| path.clone());
        for old in old.chain([self.stopped()]) {
            // One that stays does no harm.
            let _ = std::fs::remove_file(old);
        }
        Ok(())
    }

    /// Writes one between two looks, which counts for nothing but to go on from.
    pub fn save_stopped(&self, checkpoint: &impl Kept) -> Result<(), CheckpointError> {
        checkpoint.save(&self.stopped())
    }

    fn stopped(&self) -> PathBuf {
        self.folder.join(STOPPED)
    }

    /// Gives a checkpoint that was written another name, where the file system can do that, and else another file.
    fn link(&self, checkpoint: &impl Kept, from: &Path, to: &Path) -> Result<(), CheckpointError> {
        let aside = self.folder.join("best.link");
        let _ = std::fs::remove_file(&aside);
        match std::fs::hard_link(from, &aside).and_then(|()| std::fs::rename(&aside, to)) {
            Ok(()) => Ok(()),
            Err(_) => checkpoint.save(to),
        }
    }

    /// The newest that can be read; none where there are none. One that cannot be read is passed over, if there are others.
    pub fn newest<C: Kept>(&self) -> Result<Option<C>, CheckpointError> {
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
        let mut state = crate::trainer::Job::of(&recipe).unwrap().start(step);
        state.step = step;
        Checkpoint {
            recipe,
            state,
            standing: Standing { best: Some((0.067_123_456_789_012_3, 7)), stale: 2, ..Standing::default() },
        }
    }

    #[test]
    fn a_checkpoint_comes_back_and_damage_is_told() {
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
        assert_eq!(network.weights[..], checkpoint(5).state.numbers[..network.weights.len()]);
        // The newest is cut short: the one before it serves.
        let path = checkpoints.list()[1].1.clone();
        let bytes = std::fs::read(&path).unwrap();
        for len in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..len]).unwrap();
            assert!(Checkpoint::load(&path).unwrap_err().to_string().contains("no checkpoint"), "{len}");
        }
        assert_eq!(checkpoints.newest().unwrap(), Some(checkpoint(10)));
        checkpoints.save_stopped(&checkpoint(12)).unwrap();
        assert_eq!(checkpoints.newest().unwrap(), Some(checkpoint(12)));
        // None that can be read is not the same as none.
        for path in checkpoints.list().into_iter().map(|(_, path)| path).chain([checkpoints.stopped()]) {
            std::fs::write(path, b"").unwrap();
        }
        assert!(checkpoints.newest::<Checkpoint>().is_err());
        checkpoints.save(&checkpoint(3), false).unwrap();
        assert_eq!(checkpoints.newest().unwrap(), Some(checkpoint(3)));
        assert_eq!(Checkpoints::new(&folder.join("none"), 1).newest::<Checkpoint>().unwrap(), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
