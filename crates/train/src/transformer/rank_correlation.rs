//! Rank correlation between two scorings of the same legal moves: for example, the network's action values
//! and those of a deep search. There are two versions of Kendall's τ-b, because published figures of
//! searchless chess use an unusual one.

use std::cmp::Ordering;

/// Kendall's τ-b of two lists of scores: 1 if they put all pairs in the same order, −1 if in the opposite
/// one. Pairs that one list ties count as zero. `None` if one of the lists ties every pair.
pub(super) fn kendall(left: &[f64], right: &[f64]) -> Option<f64> {
    let (mut same, mut left_pairs, mut right_pairs) = (0i64, 0i64, 0i64);
    for (at, (one, other)) in left.iter().zip(right).enumerate() {
        for (earlier_one, earlier_other) in left.iter().zip(right).take(at) {
            let (x, y) = (order(*one, *earlier_one), order(*other, *earlier_other));
            same += x * y;
            left_pairs += x.abs();
            right_pairs += y.abs();
        }
    }
    let tau = ((left_pairs as f64) * (right_pairs as f64)).sqrt();
    (tau > 0.0).then(|| same as f64 / tau)
}

fn order(left: f64, right: f64) -> i64 {
    left.partial_cmp(&right).map_or(0, |order| order as i64)
}

/// Kendall's τ-b as searchless chess computes it: over the indices that would sort each list (its argsort),
/// not over the scores. Use it only for comparison with published figures.
pub(super) fn searchless_kendall(left: &[f64], right: &[f64]) -> Option<f64> {
    kendall(&argsort(left), &argsort(right))
}

/// The argsort of the values: the index of the smallest first, ties in the order of the list.
fn argsort(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
    order.into_iter().map(|index| index as f64).collect()
}

/// Index of the greatest value, the first of several equal ones; `None` if no value is a number.
pub(super) fn argmax(values: &[f64]) -> Option<usize> {
    let known = values.iter().enumerate().filter(|(_, value)| !value.is_nan());
    let greater = |one: &(usize, &f64), other: &(usize, &f64)| {
        one.1.partial_cmp(other.1).unwrap_or(Ordering::Equal).then(other.0.cmp(&one.0))
    };
    known.max_by(greater).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tau_is_that_of_scipy() {
        assert_eq!(kendall(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]), Some(1.0));
        assert_eq!(kendall(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(kendall(&[1.0, 1.0], &[3.0, 2.0]), None);
        assert_eq!(kendall(&[], &[]), None);
        // SciPy's example: kendalltau([12, 2, 1, 12, 2], [1, 4, 7, 1, 0]) is −0.4714.
        let tau = kendall(&[12.0, 2.0, 1.0, 12.0, 2.0], &[1.0, 4.0, 7.0, 1.0, 0.0]).unwrap();
        assert!((tau + 0.471_404_520_791_031_7).abs() < 1e-12, "{tau}");
    }

    #[test]
    fn searchless_tau_compares_argsorts() {
        // The argsorts are 2, 0, 1 and 1, 0, 2: one of three pairs is in the opposite order.
        let tau = searchless_kendall(&[5.0, 9.0, 1.0], &[5.0, 1.0, 9.0]).unwrap();
        assert!((tau - 1.0 / 3.0).abs() < 1e-12, "{tau}");
        assert_eq!(searchless_kendall(&[1.0, 2.0], &[1.0, 2.0]), Some(1.0));
    }

    #[test]
    fn argmax_is_the_first_of_equal_values() {
        assert_eq!(argmax(&[1.0, 3.0, f64::NAN, 3.0]), Some(1));
        assert_eq!(argmax(&[f64::NAN]), None);
    }
}
