//! The folder of a run: whose it is, and which recipe it has.

use super::RunError;
use crate::checkpoint::{Checkpoints, Kept};
use std::fs::File;
use std::path::Path;
use tandem_chess::output;

/// The recipe of a run, with every default, in its folder.
const RECIPE: &str = "recipe.toml";

/// Why a run does not go on with another's checkpoint.
pub(crate) const OTHER_RECIPE: &str = "the run in this folder has another recipe (recipe.toml there has it in full): name \
                                       another folder, and begin with its network by `network.start` if that is what is wanted";

/// Two runs in one folder would spoil each other's files.
pub(crate) fn claim(folder: &Path) -> Result<File, RunError> {
    let wrong = |problem: String| RunError::Folder { path: folder.into(), problem };
    std::fs::create_dir_all(folder).map_err(|error| wrong(error.to_string()))?;
    let lock = File::create(folder.join("lock")).map_err(|error| wrong(error.to_string()))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(std::fs::TryLockError::WouldBlock) => Err(wrong("another run is at work in this folder".into())),
        // A file system that knows no locks.
        Err(std::fs::TryLockError::Error(_)) => Ok(lock),
    }
}

/// The newest checkpoint in a folder, if there is one and that is what the run is to go on from.
pub(crate) fn to_go_on_from<C: Kept>(
    folder: &Path,
    checkpoints: &Checkpoints,
    resume: bool,
) -> Result<Option<C>, RunError> {
    let newest = checkpoints.newest()?;
    if newest.is_some() && !resume {
        let problem = "there is a run in this folder: --resume goes on with it, --run names another folder";
        return Err(RunError::Folder { path: folder.into(), problem: problem.into() });
    }
    Ok(newest)
}

/// Writes the recipe into the folder of its run.
pub(crate) fn keep_recipe(folder: &Path, explained: &str) -> Result<(), RunError> {
    let path = folder.join(RECIPE);
    output::write_whole(&path, explained.as_bytes())
        .map_err(|error| RunError::Folder { path, problem: error.to_string() })
}
