//! Scores as chances of a win, a draw and a loss: the curve by which value heads are taught.

/// The chance of a win is one half at so many centipawns, of a loss at as many below zero; what is left is a draw's. Both
/// numbers are a fit to engines' tournament games and the scores that the engines gave.
const HALF: f64 = 120.0;
/// How many centipawns it takes from one half to 73 %.
const SCALE: f64 = 60.0;

/// The chances of a win, a draw and a loss at a score in centipawns. A win's is 1 / (1 + e^((120 − score) / 60)), a loss's
/// the same for the other side, a draw has the rest.
pub fn chances_of_outcomes(centipawns: f64) -> [f64; 3] {
    let chance = |score: f64| 1.0 / (1.0 + ((HALF - score) / SCALE).exp());
    let (win, loss) = (chance(centipawns), chance(-centipawns));
    // What is left of one where the better side does not win, less what it loses: so nothing is taken from what is nearly one.
    let behind = chance(-centipawns.abs());
    let not_won = 1.0 / (1.0 + ((centipawns.abs() - HALF) / SCALE).exp());
    [win, not_won - behind, loss]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_becomes_chances() {
        let chances = |score: i32| chances_of_outcomes(f64::from(score));
        for score in -900..=900 {
            let [win, draw, loss] = chances(score);
            assert!((win + draw + loss - 1.0).abs() < 1e-12 && draw > 0.0);
            let [other_win, _, other_loss] = chances(-score);
            assert_eq!([win, loss], [other_loss, other_win]);
            assert!(win < chances(score + 1)[0]);
        }
        for score in (-32_000..=32_000).step_by(50) {
            let all = chances(score);
            assert!(all.iter().all(|chance| (0.0..=1.0).contains(chance)), "{score}: {all:?}");
            assert_eq!(all[1], chances(-score)[1]);
        }
        assert_eq!(chances(120)[0], 0.5);
    }
}
