//! A suite's results against earlier ones.

use super::SuiteReport;
use std::collections::{BTreeMap, VecDeque};

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

/// Compares two runs by the names of positions; the first of a name is held against the first, the second against the second.
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
        let twins = report(&[("x", true), ("x", false)]);
        assert_eq!(compare(&twins, &twins), Comparison::default());
    }
}
