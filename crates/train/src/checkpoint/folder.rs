//! The checkpoints of a run in its folder.

use super::{Checkpoint, CheckpointError, RunRecipe};
use std::path::{Path, PathBuf};

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
    pub fn save<R: RunRecipe>(
        &self,
        checkpoint: &Checkpoint<R>,
        is_best: bool,
    ) -> Result<(), CheckpointError> {
        let path = self.folder.join(format!("step-{:09}.checkpoint", checkpoint.state.step));
        if is_best {
            // The best checkpoint is written first, because the numbered one refers to it in its progress. A
            // run that is killed in between repeats this step.
            checkpoint.save(&self.best())?;
            self.link(checkpoint, &self.best(), &path)?;
        } else {
            checkpoint.save(&path)?;
        }
        // Checkpoints of later steps belong to another run.
        let earlier = |(step, _): &(u64, PathBuf)| *step <= checkpoint.state.step;
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
    pub fn save_stopped<R: RunRecipe>(&self, checkpoint: &Checkpoint<R>) -> Result<(), CheckpointError> {
        checkpoint.save(&self.stopped())
    }

    pub(super) fn stopped(&self) -> PathBuf {
        self.folder.join(STOPPED)
    }

    /// Makes a written checkpoint available under a second name: as a hard link if possible, otherwise as a
    /// copy.
    fn link<R: RunRecipe>(
        &self,
        checkpoint: &Checkpoint<R>,
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
    pub fn newest<R: RunRecipe>(&self) -> Result<Option<Checkpoint<R>>, CheckpointError> {
        let stopped =
            Some(self.stopped()).filter(|path| path.exists()).map(|path| Checkpoint::<R>::load(&path));
        let mut problem = None;
        let mut newest = None;
        for (_, path) in self.list().iter().rev() {
            match Checkpoint::<R>::load(path) {
                Ok(checkpoint) => {
                    newest = Some(checkpoint);
                    break;
                }
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        match (stopped, newest) {
            (Some(Ok(stopped)), Some(newest)) if newest.state.step > stopped.state.step => Ok(Some(newest)),
            (Some(Ok(stopped)), _) => Ok(Some(stopped)),
            (_, Some(newest)) => Ok(Some(newest)),
            (Some(Err(error)), None) => Err(error),
            (None, None) => problem.map_or(Ok(None), Err),
        }
    }
}
