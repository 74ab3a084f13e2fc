//! What a selector is worth, for people and for machines.

use crate::table::{Table, figure, percent};
use serde_json::json;
use tandem_train::selector::{Report, SHARES};

/// What the curves show.
pub(crate) const ERRORS: &str =
    "Mean square error of the value by the share of cases that the strategist is asked about";

/// What shares of the likeliest are worth.
pub(crate) const FIRSTS: &str =
    "How often the strategist knows better where the selector holds it for likeliest, by the share of cases";

/// Its figures.
pub(crate) fn figures_of(report: &Report) -> Table {
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

/// A table by share.
fn by_share(what: &str) -> Table {
    let shares = SHARES.map(|share| format!("{:.0} %", 100.0 * share));
    let header: Vec<&str> = std::iter::once(what).chain(shares.iter().map(String::as_str)).collect();
    Table::new(&header)
}

/// Its errors by share, beside those of rules.
pub(crate) fn curves_of(report: &Report) -> Table {
    let mut table = by_share("who chooses");
    for curve in &report.curves {
        let errors = curve.errors.map(|error| figure(Some(error), 5));
        table.push(std::iter::once(curve.name.to_owned()).chain(errors).collect());
    }
    table
}

/// What another threshold would give.
pub(crate) fn firsts_of(report: &Report) -> Table {
    let mut table = by_share("");
    for (name, parts) in [("precision", report.precisions), ("recall", report.recalls)] {
        table.push(std::iter::once(name.to_owned()).chain(parts.map(percent)).collect());
    }
    table
}

/// Everything, for machines.
pub(crate) fn facts_of(report: &Report) -> serde_json::Value {
    let curves: serde_json::Map<String, serde_json::Value> =
        report.curves.iter().map(|curve| (curve.name.to_owned(), json!(curve.errors))).collect();
    json!({
        "cases": report.cases, "base_rate": report.base_rate, "usage": report.usage,
        "precision": report.precision, "recall": report.recall, "auc": report.auc,
        "threshold": report.threshold, "blend": report.blend, "scale": report.scale,
        "constant": report.constant, "shares": SHARES, "errors": curves,
        "precisions": report.precisions, "recalls": report.recalls,
    })
}
