//! How well two judges of the same moves agree.

use std::cmp::Ordering;

/// Kendall's τ-b of two rows of numbers: 1 where they put all pairs in the same order, −1 where in the opposite one. Pairs
/// that one of them does not tell apart count for nothing. None where one tells none apart.
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
    let told = ((left_pairs as f64) * (right_pairs as f64)).sqrt();
    (told > 0.0).then(|| same as f64 / told)
}

fn order(left: f64, right: f64) -> i64 {
    left.partial_cmp(&right).map_or(0, |order| order as i64)
}

/// The same number as searchless chess computes it: not of the two rows, but of the places that sorting them would take
/// their entries from. For comparing with published figures, and for nothing else.
pub(super) fn searchless_kendall(left: &[f64], right: &[f64]) -> Option<f64> {
    kendall(&places(left), &places(right))
}

/// The places of the numbers, the least first.
fn places(numbers: &[f64]) -> Vec<f64> {
    let mut places: Vec<usize> = (0..numbers.len()).collect();
    places.sort_by(|&one, &other| numbers[one].total_cmp(&numbers[other]));
    places.into_iter().map(|place| place as f64).collect()
}

/// The place of the greatest number, the first of several; none where there is no number.
pub(super) fn greatest(numbers: &[f64]) -> Option<usize> {
    let numbered = numbers.iter().enumerate().filter(|(_, number)| !number.is_nan());
    let greater = |one: &(usize, &f64), other: &(usize, &f64)| {
        one.1.partial_cmp(other.1).unwrap_or(Ordering::Equal).then(other.0.cmp(&one.0))
    };
    numbered.max_by(greater).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_compared() {
        assert_eq!(kendall(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]), Some(1.0));
        assert_eq!(kendall(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(kendall(&[1.0, 1.0], &[3.0, 2.0]), None);
        assert_eq!(kendall(&[], &[]), None);
        // SciPy's example: kendalltau([12, 2, 1, 12, 2], [1, 4, 7, 1, 0]) is −0.4714.
        let told = kendall(&[12.0, 2.0, 1.0, 12.0, 2.0], &[1.0, 4.0, 7.0, 1.0, 0.0]).unwrap();
        assert!((told + 0.471_404_520_791_031_7).abs() < 1e-12, "{told}");
    }

    #[test]
    fn searchless_chess_compares_places() {
        // The places are 2, 0, 1 and 1, 0, 2: of three pairs one is turned round.
        let told = searchless_kendall(&[5.0, 9.0, 1.0], &[5.0, 1.0, 9.0]).unwrap();
        assert!((told - 1.0 / 3.0).abs() < 1e-12, "{told}");
        assert_eq!(searchless_kendall(&[1.0, 2.0], &[1.0, 2.0]), Some(1.0));
    }

    #[test]
    fn the_first_of_the_greatest_is_found() {
        assert_eq!(greatest(&[1.0, 3.0, f64::NAN, 3.0]), Some(1));
        assert_eq!(greatest(&[f64::NAN]), None);
    }
}
