//! The measurements of a selector as tables for the terminal and the model card, and as JSON.
//!
//! A selector predicts in which positions the strategist evaluates better than the NNUE, so that only those
//! are sent to it.

use crate::table::{Table, decimal, percent};
use serde_json::json;
use tandem_train::selector::{FRACTIONS, SelectorReport};

/// Heading of the table that [`error_table`] makes.
pub(crate) const ERROR_HEADING: &str =
    "Mean square error of the value, by the fraction of cases sent to the strategist";

/// Heading of the table that [`threshold_table`] makes.
pub(crate) const THRESHOLD_HEADING: &str =
    "Precision and recall of the cases that the selector ranks highest, by their fraction";

/// The main metrics of a selector, one per row: base rate, usage, precision, recall, AUC, and the values that
/// were fitted.
pub(crate) fn metrics_table(report: &SelectorReport) -> Table {
    let mut table = Table::new(&["metric", "value"]);
    let mut row = |name: &str, value: String| table.push(vec![name.into(), value]);
    row("cases", report.cases.to_string());
    row("base rate", percent(Some(report.base_rate)));
    row("usage", percent(Some(report.usage)));
    row("precision", percent(report.precision));
    row("recall", percent(report.recall));
    row("AUC", decimal(report.auc, 4));
    row("threshold", decimal(Some(report.threshold), 4));
    row("blend", decimal(Some(report.blend), 3));
    row("scale of the NNUE's centipawns", decimal(Some(report.scale), 1));
    row("MSE of the best constant", decimal(Some(report.constant), 5));
    table
}

/// An empty table whose columns are fractions of the cases, as percentages.
fn by_fraction(first_column: &str) -> Table {
    let fractions = FRACTIONS.map(|fraction| format!("{:.0} %", 100.0 * fraction));
    let header: Vec<&str> =
        std::iter::once(first_column).chain(fractions.iter().map(String::as_str)).collect();
    Table::new(&header)
}

/// The mean square error of the value when only a fraction of the cases is sent to the strategist, for the
/// selector and for simple rules.
pub(crate) fn error_table(report: &SelectorReport) -> Table {
    let mut table = by_fraction("selection by");
    for curve in &report.curves {
        let errors = curve.errors.map(|error| decimal(Some(error), 5));
        table.push(std::iter::once(curve.name.to_owned()).chain(errors).collect());
    }
    table
}

/// Precision and recall at other thresholds, by the fraction of the cases above each threshold.
pub(crate) fn threshold_table(report: &SelectorReport) -> Table {
    let mut table = by_fraction("metric");
    for (name, values) in [("precision", report.precisions), ("recall", report.recalls)] {
        table.push(std::iter::once(name.to_owned()).chain(values.map(percent)).collect());
    }
    table
}

/// All metrics as JSON, for other programs.
pub(crate) fn to_json(report: &SelectorReport) -> serde_json::Value {
    let errors: serde_json::Map<String, serde_json::Value> =
        report.curves.iter().map(|curve| (curve.name.to_owned(), json!(curve.errors))).collect();
    json!({
        "cases": report.cases, "base_rate": report.base_rate, "usage": report.usage,
        "precision": report.precision, "recall": report.recall, "auc": report.auc,
        "threshold": report.threshold, "blend": report.blend, "scale": report.scale,
        "constant_mse": report.constant, "fractions": FRACTIONS, "mse_by_fraction": errors,
        "precision_by_fraction": report.precisions, "recall_by_fraction": report.recalls,
    })
}
