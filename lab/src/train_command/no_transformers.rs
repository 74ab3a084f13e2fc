//! A lab without libtorch.

use super::TrainArgs;
use crate::device::Device;
use crate::error::LabError;
use tandem_train::transformer::TransformerRecipe;

/// Says what is missing.
pub(super) fn train(_: &TrainArgs, recipe: &TransformerRecipe) -> Result<(), LabError> {
    Err(missing(recipe))
}

/// Says what is missing.
pub(crate) fn measure(recipe: &TransformerRecipe, _: Device, _: usize, _: usize) -> Result<(), LabError> {
    Err(missing(recipe))
}

fn missing(recipe: &TransformerRecipe) -> LabError {
    LabError::Usage(format!(
        "{} is a transformer, which is trained with libtorch, and this lab was built without: \
         `scripts/libtorch.sh FOLDER` fetches it and says how to build with it (docs/training-transformers.md)",
        recipe.name
    ))
}
