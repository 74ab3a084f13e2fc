//! Recipes of every kind. Any text is either refused with a message or parsed. A parsed recipe, written out
//! with all defaults, parses to the same recipe, and everything computed before the first step of a run can
//! be computed.
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
        let _ = (recipe.lr.at(0, steps), recipe.lr.at(steps, steps));
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
        let _ = (recipe.lr.at(0, steps), recipe.lr.at(steps, steps));
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
