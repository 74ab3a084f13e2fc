//! Scores as chances of a win, a draw and a loss: the curve by which value heads are taught.

/// The chance of a win is one half at so many centipawns, of a loss at as many below zero; what is left is a draw's. Both
/// numbers are a fit to engines' tournament games and the scores that the engines gave.
const HALF: f64 = 120.0;
/// How many centipawns it takes from one half to 73 %.
const SCALE: f64 = 60.0;

/// Scores beyond this are the same to a chance.
const MOST: f64 = 2000.0;

/// The chances of a win, a draw and a loss at a score in centipawns. A win's is 1 / (1 + e^((120 − score) / 60)), a loss's
/// the same for the other side, a draw has the rest.
pub fn chances_of_outcomes(centipawns: f64) -> [f64; 3] {
    let chance = |score: f64| 1.0 / (1.0 + ((HALF - score) / SCALE).exp());
    let (win, loss) = (chance(centipawns), chance(-centipawns));
    [win, 1.0 - win - loss, loss]
}

/// The score at which the chance to win, of which a draw is one half, is so much; at most 2000 centipawns either way.
///
/// ```
/// use tandem_transformer::encoding::outcomes::{centipawns_of_outcomes, chances_of_outcomes};
///
/// let [win, draw, _] = chances_of_outcomes(85.0);
/// assert!((centipawns_of_outcomes(win + draw / 2.0) - 85.0).abs() < 1e-9);
/// ```
pub fn centipawns_of_outcomes(chance: f64) -> f64 {
    // With a = e^(score / 60) and k = e^(-120 / 60), win less loss is a k / (1 + a k) − k / (a + k): a quadratic in a.
    let balance = (2.0 * chance - 1.0).clamp(-1.0, 1.0);
    let k = (-HALF / SCALE).exp();
    let middle = balance.abs() * (1.0 + k * k);
    let root = (middle * middle + 4.0 * k * k * (1.0 - balance * balance)).sqrt();
    let size = SCALE * ((middle + root) / (2.0 * k * (1.0 - balance.abs()))).ln();
    size.min(MOST).copysign(balance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_becomes_chances_and_they_the_score() {
        for score in -900..=900 {
            let [win, draw, loss] = chances_of_outcomes(f64::from(score));
            assert!((win + draw + loss - 1.0).abs() < 1e-12 && draw > 0.0);
            let back = centipawns_of_outcomes(win + draw / 2.0);
            assert!((back - f64::from(score)).abs() < 1e-3, "{score}: {back}");
        }
        assert_eq!(chances_of_outcomes(120.0)[0], 0.5);
        assert_eq!([0.0, 0.5, 1.0].map(centipawns_of_outcomes), [-MOST, 0.0, MOST]);
        assert!([-3.0, 7.0].map(centipawns_of_outcomes).iter().all(|score| score.abs() == MOST));
    }
}
