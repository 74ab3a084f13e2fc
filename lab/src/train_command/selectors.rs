//! Selectors, which need no libtorch.

use super::{TrainArgs, hybrids};
use crate::card::Card;
use crate::error::LabError;
use crate::interrupt;
use crate::progress::Progress;
use crate::selector_report::{ERRORS, FIRSTS, curves_of, facts_of, figures_of, firsts_of};
use tandem_chess::output;
use tandem_train::selector::*;

/// Teaches a selector: the hybrid with it, its card, and all figures as JSON.
pub(super) fn train(args: &TrainArgs, recipe: &SelectorRecipe) -> Result<(), LabError> {
    if args.resume {
        let problem = "a selector takes minutes and is taught in one go: leave out --resume";
        return Err(LabError::Usage(problem.into()));
    }
    let threads = args.threads();
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    let folder = args.folder(&recipe.name);
    std::fs::create_dir_all(&folder).map_err(LabError::file(&folder))?;
    let path = folder.join(format!("{}.hybrid", recipe.name));
    if path.exists() {
        let path = path.display();
        return Err(LabError::Usage(format!("{path} is there already: --run names another folder")));
    }
    let stop = interrupt::flag();
    let mut progress = None;
    let taught = teach_selector(recipe, threads, &stop, &mut |event| match event {
        SelectorEvent::Cases(done, all) => {
            progress.get_or_insert_with(|| Progress::new("cases", Some(all as u64))).set(done as u64);
        }
        SelectorEvent::Epoch(epoch, learnt, validation) => {
            if let Some(progress) = progress.take() {
                tellln!("{}", progress.finish());
            }
            sayln!("epoch {epoch}: loss {learnt:.4}, on validation cases {validation:.4}");
        }
    })?;
    let Taught { hybrid, report, epoch } = &taught;
    let (figures, curves, firsts) = (figures_of(report), curves_of(report), firsts_of(report));
    sayln!("\nthe best was epoch {epoch}\n\n{}\n{}\n{}", figures.text(), curves.text(), firsts.text());
    let bases = [&recipe.selector.nnue.path, &recipe.selector.transformer.path];
    hybrids::check(hybrid, bases.map(String::as_str))?;
    let mut card = Card { recipe: Some(recipe.explain()), ..Card::default() };
    card.fact("epoch", epoch.to_string());
    card.tables.push(("On validation cases".into(), figures));
    card.tables.push((ERRORS.into(), curves));
    card.tables.push((FIRSTS.into(), firsts));
    let facts = folder.join(format!("{}.json", recipe.name));
    let mut all = facts_of(report);
    all["epoch"] = (*epoch).into();
    let text = format!("{all:#}\n");
    output::write_whole(&facts, text.as_bytes()).map_err(LabError::file(&facts))?;
    hybrids::write(&folder, &recipe.name, hybrid, card)?;
    Ok(())
}
