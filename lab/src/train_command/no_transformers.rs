//! The replacements for training transformers in a build without libtorch: they say how to get it.

use super::TrainArgs;
use crate::device::Device;
use crate::error::LabError;
use tandem_train::transformer::TransformerRecipe;

/// Fails, because transformers are trained with libtorch.
pub(super) fn train(_: &TrainArgs, recipe: &TransformerRecipe) -> Result<(), LabError> {
    Err(missing(recipe))
}

/// Fails, because the speed of training transformers is measured with libtorch.
pub(crate) fn measure(recipe: &TransformerRecipe, _: Device, _: usize, _: usize) -> Result<(), LabError> {
    Err(missing(recipe))
}

fn missing(recipe: &TransformerRecipe) -> LabError {
    LabError::Usage(format!(
        "{} is a transformer, which needs libtorch, and this build has none: \
         `scripts/libtorch.sh FOLDER` downloads it and says how to build with it (docs/training-transformers.md)",
        recipe.name
    ))
}
