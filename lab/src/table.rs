//! Small tables of results: aligned columns on a terminal, Markdown in a model card.

use std::fmt::Write as _;

/// A table with a header. The first column holds names and is aligned to the left; the others hold numbers
/// and are aligned to the right.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these column headers.
    pub(crate) fn new(header: &[&str]) -> Self {
        Self { header: header.iter().map(|&name| name.into()).collect(), rows: Vec::new() }
    }

    /// Appends a row, which must have as many cells as the header.
    pub(crate) fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// The number of rows, the header not counted.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// A copy of the table that has only the first `rows` rows.
    pub(crate) fn first(&self, rows: usize) -> Self {
        Self { header: self.header.clone(), rows: self.rows.iter().take(rows).cloned().collect() }
    }

    /// True if the table has a header only.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as aligned columns for a terminal, two spaces apart, with the header as first line.
    pub(crate) fn text(&self) -> String {
        let all = || std::iter::once(&self.header).chain(&self.rows);
        let mut widths = vec![0; self.header.len()];
        for row in all() {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let mut text = String::new();
        for row in all() {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let _ = match column {
                    0 => write!(text, "{cell:<width$}"),
                    _ => write!(text, "  {cell:>width$}"),
                };
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text
    }

    /// The table as Markdown, with `|` within cells escaped.
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = line(&self.header);
        text.push_str("|---|");
        text.push_str(&"---:|".repeat(self.header.len().saturating_sub(1)));
        text.push('\n');
        text.extend(self.rows.iter().map(|row| line(row)));
        text
    }
}

/// A number with `places` decimal places, or `-` if it is missing.
pub(crate) fn decimal(value: Option<f64>, places: usize) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.places$}"))
}

/// A fraction from 0 to 1 as a percentage with two decimal places, or `-` if it is missing.
pub(crate) fn percent(fraction: Option<f64>) -> String {
    fraction.map_or_else(|| "-".into(), |fraction| format!("{:.2} %", 100.0 * fraction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["name", "count"]);
        table.push(vec!["a|b".into(), "7".into()]);
        table.push(vec!["a long one".into(), decimal(Some(1.25), 1)]);
        assert_eq!(table.text(), "name        count\na|b             7\na long one    1.2\n");
        assert_eq!(table.markdown(), "| name | count |\n|---|---:|\n| a\\|b | 7 |\n| a long one | 1.2 |\n");
        assert_eq!((decimal(None, 2), percent(Some(0.5))), ("-".into(), "50.00 %".into()));
    }
}
