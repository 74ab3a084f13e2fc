//! Training of selectors, which runs on the CPU and needs no libtorch.

use super::{TrainArgs, hybrids};
use crate::error::LabError;
use crate::interrupt;
use crate::model_card::ModelCard;
use crate::progress::Progress;
use crate::selector_report::{
    ERROR_HEADING, THRESHOLD_HEADING, error_table, metrics_table, threshold_table, to_json,
};
use tandem_train::selector::*;
use tandem_util::output;

/// Trains a selector and writes the hybrid with it, its model card, and all metrics as JSON.
///
/// # Errors
///
/// When the recipe or the data is unusable, `--resume` is given, the output exists already, or the run is
/// interrupted.
pub(super) fn train(args: &TrainArgs, recipe: &SelectorRecipe) -> Result<(), LabError> {
    if args.resume {
        let problem = "training a selector takes minutes and cannot be resumed: leave out --resume";
        return Err(LabError::Usage(problem.into()));
    }
    let threads = args.threads();
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    let folder = args.folder(&recipe.name);
    std::fs::create_dir_all(&folder).map_err(LabError::file(&folder))?;
    let path = folder.join(format!("{}.hybrid", recipe.name));
    if path.exists() {
        let path = path.display();
        return Err(LabError::Usage(format!("{path} exists already: name another folder with --run")));
    }
    let stop = interrupt::flag();
    let mut progress = None;
    let trained = train_selector(recipe, threads, &stop, &mut |event| match event {
        SelectorEvent::Cases(done, all) => {
            progress.get_or_insert_with(|| Progress::new("cases", Some(all as u64))).set(done as u64);
        }
        SelectorEvent::Epoch(epoch, train_loss, validation_loss) => {
            if let Some(progress) = progress.take() {
                errln!("{}", progress.finish());
            }
            outln!("epoch {epoch}: loss {train_loss:.4}, validation loss {validation_loss:.4}");
        }
    })?;
    let TrainedSelector { hybrid, report, epoch } = &trained;
    let (metrics, errors, thresholds) = (metrics_table(report), error_table(report), threshold_table(report));
    outln!("\nbest epoch: {epoch}\n\n{}\n{}\n{}", metrics.text(), errors.text(), thresholds.text());
    let bases = [&recipe.selector.nnue.path, &recipe.selector.transformer.path];
    hybrids::check(hybrid, bases.map(String::as_str))?;
    let mut model_card = ModelCard { recipe: Some(recipe.explain()), ..ModelCard::default() };
    model_card.property("epoch", epoch.to_string());
    model_card.tables.push(("On validation cases".into(), metrics));
    model_card.tables.push((ERROR_HEADING.into(), errors));
    model_card.tables.push((THRESHOLD_HEADING.into(), thresholds));
    let json_path = folder.join(format!("{}.json", recipe.name));
    let mut facts = to_json(report);
    facts["epoch"] = (*epoch).into();
    let text = format!("{facts:#}\n");
    output::write_atomically(&json_path, text.as_bytes()).map_err(LabError::file(&json_path))?;
    hybrids::write(&folder, &recipe.name, hybrid, model_card)?;
    Ok(())
}
