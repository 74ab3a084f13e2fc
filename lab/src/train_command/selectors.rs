//! Selectors, which need no libtorch.

use super::{TrainArgs, hybrids};
use crate::card::Card;
use crate::error::LabError;
use crate::interrupt;
use crate::progress::Progress;
use crate::table::{Table, figure, percent};
use serde_json::json;
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
    let (figures, curves) = (figures_of(report), curves_of(report));
    sayln!("\nthe best was epoch {epoch}\n\n{}\n{}", figures.text(), curves.text());
    let mut card = Card { recipe: Some(recipe.explain()), ..Card::default() };
    card.fact("epoch", epoch.to_string());
    card.tables.push(("On validation cases".into(), figures));
    card.tables.push((ERRORS.into(), curves));
    let facts = folder.join(format!("{}.json", recipe.name));
    let text = format!("{:#}\n", facts_of(report, *epoch));
    output::write_whole(&facts, text.as_bytes()).map_err(LabError::file(&facts))?;
    hybrids::write(&folder, &recipe.name, hybrid, card)?;
    Ok(())
}

const ERRORS: &str =
    "Mean square error of the value by the share of cases that the strategist is asked about";

fn figures_of(report: &Report) -> Table {
    let mut table = Table::new(&["", ""]);
    let mut row = |name: &str, value: String| table.push(vec![name.into(), value]);
    row("cases", report.cases.to_string());
    row("base rate", percent(Some(report.base_rate)));
    row("usage", percent(Some(report.usage)));
    row("precision", percent(report.precision));
    row("recall", percent(report.recall));
    row("AUC", figure(report.auc, 4));
    row("threshold", figure(Some(report.threshold), 4));
    row("blend", figure(Some(report.blend), 3));
    row("scale of the NNUE's centipawns", figure(Some(report.scale), 1));
    row("error of the best constant", figure(Some(report.constant), 5));
    table
}

fn curves_of(report: &Report) -> Table {
    let shares = SHARES.map(|share| format!("{:.0} %", 100.0 * share));
    let header: Vec<&str> = std::iter::once("who chooses").chain(shares.iter().map(String::as_str)).collect();
    let mut table = Table::new(&header);
    for curve in &report.curves {
        let errors = curve.errors.map(|error| figure(Some(error), 5));
        table.push(std::iter::once(curve.name.to_owned()).chain(errors).collect());
    }
    table
}

/// Everything, for machines.
fn facts_of(report: &Report, epoch: u64) -> serde_json::Value {
    let curves: serde_json::Map<String, serde_json::Value> =
        report.curves.iter().map(|curve| (curve.name.to_owned(), json!(curve.errors))).collect();
    json!({
        "epoch": epoch, "cases": report.cases, "base_rate": report.base_rate, "usage": report.usage,
        "precision": report.precision, "recall": report.recall, "auc": report.auc,
        "threshold": report.threshold, "blend": report.blend, "scale": report.scale,
        "constant": report.constant, "shares": SHARES, "errors": curves,
    })
}
