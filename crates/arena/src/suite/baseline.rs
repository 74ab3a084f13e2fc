//! Comparison of a suite's results with those of an earlier run.

use super::SuiteReport;
use std::collections::{BTreeMap, VecDeque};

/// Differences between two runs of a suite: positions solved in only one of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Identifiers of the positions that only the new run solved.
    pub gained: Vec<String>,
    /// Identifiers of the positions that only the old run solved.
    pub lost: Vec<String>,
    /// Number of positions that occur in one run only and therefore are not compared.
    pub unmatched: usize,
}

/// Compares two runs by the identifiers of positions. If an identifier occurs several times, its first
/// occurrences are compared with each other, then the second ones, and so on.
pub fn compare(new: &SuiteReport, old: &SuiteReport) -> Comparison {
    let mut before: BTreeMap<&str, VecDeque<bool>> = BTreeMap::new();
    for item in &old.items {
        before.entry(&item.id).or_default().push_back(item.solved);
    }
    let mut comparison = Comparison::default();
    for item in &new.items {
        let earlier = before.get_mut(item.id.as_str()).and_then(VecDeque::pop_front);
        match (earlier, item.solved) {
            (Some(false), true) => comparison.gained.push(item.id.clone()),
            (Some(true), false) => comparison.lost.push(item.id.clone()),
            (Some(_), _) => {}
            (None, _) => comparison.unmatched += 1,
        }
    }
    comparison.unmatched += before.values().map(VecDeque::len).sum::<usize>();
    comparison
}

#[cfg(test)]
mod tests {
    use super::super::ItemResult;
    use super::*;

    #[test]
    fn gains_and_losses_are_distinguished() {
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
        let twins = report(&[("x", true), ("x", false)]);
        assert_eq!(compare(&twins, &twins), Comparison::default());
    }
}
