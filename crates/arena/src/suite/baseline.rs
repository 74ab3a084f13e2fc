//! A suite's results against earlier ones.

use super::SuiteReport;
use std::collections::BTreeMap;

/// What changed between two runs of a suite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Positions that only the new run solved.
    pub gained: Vec<String>,
    /// Positions that only the old run solved.
    pub lost: Vec<String>,
    /// Positions that are in one run only: they are not compared.
    pub unmatched: usize,
}

/// Compares two runs by the names of positions.
pub fn compare(new: &SuiteReport, old: &SuiteReport) -> Comparison {
    let mut before: BTreeMap<&str, bool> =
        old.items.iter().map(|item| (item.id.as_str(), item.solved)).collect();
    let mut comparison = Comparison::default();
    for item in &new.items {
        match (before.remove(item.id.as_str()), item.solved) {
            (Some(false), true) => comparison.gained.push(item.id.clone()),
            (Some(true), false) => comparison.lost.push(item.id.clone()),
            (Some(_), _) => {}
            (None, _) => comparison.unmatched += 1,
        }
    }
    comparison.unmatched += before.len();
    comparison
}

#[cfg(test)]
mod tests {
    use super::super::ItemResult;
    use super::*;

    #[test]
    fn gains_and_losses_are_told_apart() {
        let report = |items: &[(&str, bool)]| SuiteReport {
            items: items
                .iter()
                .map(|&(id, solved)| ItemResult { id: id.into(), solved, ..ItemResult::default() })
                .collect(),
            ..SuiteReport::default()
        };
        let old = report(&[("a", true), ("b", false), ("c", true), ("d", true)]);
        let new = report(&[("a", true), ("b", true), ("c", false), ("e", true)]);
        let expected = Comparison { gained: vec!["b".into()], lost: vec!["c".into()], unmatched: 2 };
        assert_eq!(compare(&new, &old), expected);
    }
}
