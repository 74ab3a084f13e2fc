//! Training of selectors, which runs on the CPU and needs no libtorch.

use super::{TrainArgs, finished, hybrids};
use crate::error::LabError;
use crate::interrupt;
use crate::model_card::ModelCard;
use crate::progress::Progress;
use crate::selector_report::{
    ERROR_HEADING, THRESHOLD_HEADING, error_table, metrics_table, threshold_table, to_json,
};
use tandem_train::selector::*;
use tandem_train::{Event, RunOptions};
use tandem_util::output;

/// Trains a selector and writes the hybrid with it, its model card, and all metrics as JSON.
///
/// # Errors
///
/// When the recipe, the data or the folder is unusable, the output exists already, or the run is interrupted.
pub(super) fn train(args: &TrainArgs, recipe: &SelectorRecipe) -> Result<(), LabError> {
    let threads = args.threads();
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    let folder = args.folder(&recipe.name);
    let path = folder.join(format!("{}.hybrid", recipe.name));
    if path.exists() {
        let path = path.display();
        return Err(LabError::Usage(format!("{path} exists already: name another folder with --run")));
    }
    let stop = interrupt::flag();
    let options = RunOptions { folder: &folder, resume: args.resume, threads, stop: &stop };
    let mut progress = None;
    let (mut train_loss, mut steps_per_epoch) = (f64::NAN, 1);
    let outcome = train_selector(recipe, &options, &mut |event| match event {
        Event::Notice(text) => errln!("{text}"),
        Event::Preparing { done, all } => {
            progress.get_or_insert_with(|| Progress::new("cases", Some(all as u64))).set(done as u64);
        }
        Event::Begin { step, steps, .. } => {
            if let Some(progress) = progress.take() {
                errln!("{}", progress.finish());
            }
            steps_per_epoch = steps / recipe.training.epochs;
            if step > 0 {
                outln!("resuming at step {step}");
            }
        }
        Event::Steps { metrics, .. } => train_loss = metrics.loss,
        Event::Validated { step, loss, .. } => {
            outln!("epoch {}: loss {train_loss:.4}, validation loss {loss:.4}", step / steps_per_epoch);
        }
        Event::Skipped { .. } | Event::Trained { .. } | Event::ManyEpochs { .. } => {}
    })?;
    finished(&outcome)?;
    let TrainedSelector { hybrid, report } = &outcome.network;
    let epoch = outcome.best.unwrap_or(outcome.steps) / steps_per_epoch;
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
    facts["epoch"] = epoch.into();
    let text = format!("{facts:#}\n");
    output::write_atomically(&json_path, text.as_bytes()).map_err(LabError::file(&json_path))?;
    hybrids::write(&folder, &recipe.name, hybrid, model_card)?;
    Ok(())
}
