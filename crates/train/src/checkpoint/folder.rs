//! The checkpoints of a run in its folder.

use super::{Checkpoint, CheckpointError, RunRecipe};
use std::path::{Path, PathBuf};
use tandem_util::output;

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
    /// If a file cannot be written, or does not reach the disk; failing to remove an old one is not an error.
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
        // Before older ones are removed, the name of the new one must be on the disk, as its contents are.
        output::sync_folder(&self.folder)
            .map_err(|source| CheckpointError::Io { path: self.folder.clone(), source })?;
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
    /// favour of an older one; `notice` receives a line about each such file, and about a checkpoint of an
    /// earlier version, which has no checksum.
    ///
    /// # Errors
    ///
    /// If there are checkpoints but none of them can be read.
    pub fn newest<R: RunRecipe>(
        &self,
        notice: &mut dyn FnMut(String),
    ) -> Result<Option<Checkpoint<R>>, CheckpointError> {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut newest: Option<(Checkpoint<R>, bool, PathBuf)> = None;
        let mut problems = Vec::new();
        let stopped = Some(self.stopped()).filter(|path| path.exists());
        for path in self.list().into_iter().rev().map(|(_, path)| path) {
            match Checkpoint::load_checked(&path) {
                Ok((checkpoint, has_checksum)) => {
                    newest = Some((checkpoint, has_checksum, path));
                    break;
                }
                Err(error) => problems.push(error),
            }
        }
        match stopped.map(|path| (Checkpoint::load_checked(&path), path)) {
            Some((Ok((checkpoint, has_checksum)), path))
                if newest.as_ref().is_none_or(|(newest, ..)| newest.state.step <= checkpoint.state.step) =>
            {
                newest = Some((checkpoint, has_checksum, path));
            }
            Some((Err(error), _)) => problems.insert(0, error),
            _ => {}
        }
        let Some((checkpoint, has_checksum, path)) = newest else {
            return problems.into_iter().next().map_or(Ok(None), Err);
        };
        for problem in problems {
            notice(format!("{problem}; going on from {}", name(&path)));
        }
        if !has_checksum {
            let name = name(&path);
            notice(format!(
                "{name} has no checksum (an earlier version wrote it), so damage may go unnoticed"
            ));
        }
        Ok(Some(checkpoint))
    }
}
