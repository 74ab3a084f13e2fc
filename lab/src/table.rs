//! Small tables: columns in line on a terminal, Markdown in a document.

use std::fmt::Write as _;

/// A table with a header. The first column holds names, the others figures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table of these columns.
    pub(crate) fn new(header: &[&str]) -> Self {
        Self { header: header.iter().map(|&name| name.into()).collect(), rows: Vec::new() }
    }

    /// One more row.
    pub(crate) fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The first rows of it.
    pub(crate) fn first(&self, rows: usize) -> Self {
        Self { header: self.header.clone(), rows: self.rows.iter().take(rows).cloned().collect() }
    }

    /// Whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// In line: names to the left, figures to the right.
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

    /// As Markdown.
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

/// A figure that may be missing.
pub(crate) fn figure(value: Option<f64>, places: usize) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.places$}"))
}

/// A share that may be missing.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{:.2} %", 100.0 * share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_in_line() {
        let mut table = Table::new(&["name", "count"]);
        table.push(vec!["a|b".into(), "7".into()]);
        table.push(vec!["a long one".into(), figure(Some(1.25), 1)]);
        assert_eq!(table.text(), "name        count\na|b             7\na long one    1.2\n");
        assert_eq!(table.markdown(), "| name | count |\n|---|---:|\n| a\\|b | 7 |\n| a long one | 1.2 |\n");
        assert_eq!((figure(None, 2), percent(Some(0.5))), ("-".into(), "50.00 %".into()));
    }
}
