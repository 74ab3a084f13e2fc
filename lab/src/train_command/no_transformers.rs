//! A lab without libtorch.

use super::TrainArgs;
use crate::error::LabError;
use tandem_train::transformer::TransformerRecipe;

/// Says what is missing.
pub(super) fn train(_: &TrainArgs, recipe: &TransformerRecipe) -> Result<(), LabError> {
    Err(LabError::Usage(format!(
        "{} is a transformer, which is trained with libtorch, and this lab was built without: \
         `scripts/libtorch.sh FOLDER` fetches it and says how to build with it (docs/training-transformers.md)",
        recipe.name
    )))
}
