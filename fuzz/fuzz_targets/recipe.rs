//! Recipes of every kind: any text is refused with a message or read. What was read, written out with every default, is the
//! same recipe, and all that a run asks of it before its first step can be told.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tandem_train::selector::SelectorRecipe;
use tandem_train::transformer::TransformerRecipe;
use tandem_train::{Job, Recipe};

fuzz_target!(|text: &str| {
    if let Ok(recipe) = Recipe::parse(text) {
        let written = recipe.explain();
        assert_eq!(Recipe::parse(&written).expect("what was written can be read"), recipe, "{written}");
        let steps = recipe.steps();
        let _ = (recipe.rate.at(0, steps), recipe.rate.at(steps, steps));
        let _ = Job::of(&recipe);
    }
    if let Ok(recipe) = TransformerRecipe::parse(text) {
        let written = recipe.explain();
        assert_eq!(
            TransformerRecipe::parse(&written).expect("what was written can be read"),
            recipe,
            "{written}"
        );
        let steps = recipe.steps();
        let _ = (recipe.rate.at(0, steps), recipe.rate.at(steps, steps));
    }
    if let Ok(recipe) = SelectorRecipe::parse(text) {
        let written = recipe.explain();
        assert_eq!(
            SelectorRecipe::parse(&written).expect("what was written can be read"),
            recipe,
            "{written}"
        );
    }
});
