//! The folder of a run: its lock, its recipe, and the checkpoint to resume from.

use super::RunError;
use crate::checkpoint::{Checkpoint, Checkpoints, RunRecipe};
use std::fs::File;
use std::path::Path;
use tandem_util::output;

/// The run's recipe with every default written out, stored in its folder.
const RECIPE: &str = "recipe.toml";

/// Error text for resuming with a recipe that differs from the checkpoint's.
pub(super) const RECIPE_CHANGED: &str = "the run in this folder has another recipe (recipe.toml there has it in full): name \
                                       another folder; a recipe with a table [network] can begin with this run's network by `network.init_from`";

/// Creates and locks a run's folder, because two runs in one folder would overwrite each other's files. The
/// lock lasts as long as the returned file.
///
/// # Errors
///
/// If the folder cannot be created, or if another process holds the lock.
pub(super) fn lock_folder(folder: &Path) -> Result<File, RunError> {
    let folder_error = |problem: String| RunError::Folder { path: folder.into(), problem };
    std::fs::create_dir_all(folder).map_err(|error| folder_error(error.to_string()))?;
    let lock = File::create(folder.join("lock")).map_err(|error| folder_error(error.to_string()))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(folder_error("another run is at work in this folder".into()))
        }
        // Some network file systems do not support locks.
        Err(std::fs::TryLockError::Error(_)) => Ok(lock),
    }
}

/// Removes the folder of a run that failed before its first log entry, for example because its data is missing.
/// A folder with anything else than the files of its beginning stays.
pub(super) fn discard_empty(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let is_of_the_beginning = |entry: std::io::Result<std::fs::DirEntry>| {
        let Ok(entry) = entry else { return false };
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_empty = entry.metadata().is_ok_and(|file| file.len() == 0);
        name == "lock"
            || name == RECIPE
            || name == "log.jsonl" && is_empty
            || name.starts_with("events.out.tfevents")
    };
    if entries.into_iter().all(is_of_the_beginning) {
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// The newest checkpoint in a folder, or `None` for a new run. `notice` receives a line about each damaged
/// one.
///
/// # Errors
///
/// If there is a checkpoint but the run was not asked to resume, or if no checkpoint can be read.
pub(super) fn resume_point<R: RunRecipe>(
    folder: &Path,
    resume: bool,
    notice: &mut dyn FnMut(String),
) -> Result<Option<Checkpoint<R>>, RunError> {
    let newest = Checkpoints::new(folder, 1).newest(notice)?;
    if newest.is_some() && !resume {
        let problem = "there is a run in this folder: --resume goes on with it, --run names another folder";
        return Err(RunError::Folder { path: folder.into(), problem: problem.into() });
    }
    Ok(newest)
}

/// Writes the recipe into the run's folder, as a record of what was trained.
///
/// # Errors
///
/// If the file cannot be written.
pub(super) fn write_recipe(folder: &Path, recipe: &impl RunRecipe) -> Result<(), RunError> {
    let path = folder.join(RECIPE);
    output::write_atomically(&path, recipe.to_text().as_bytes())
        .map_err(|error| RunError::Folder { path, problem: error.to_string() })
}
