//! Scores in centipawns as probabilities of win, draw and loss: the model behind the targets of value heads.

/// Score in centipawns at which a win has probability one half; a loss has it at the negative score, and
/// draws have the rest. Both constants are a fit to tournament games of engines and the scores that the
/// engines reported.
const OFFSET: f64 = 120.0;
/// Centipawns from a win probability of 50 % to one of 73 %.
const SCALE: f64 = 60.0;

/// Probabilities of win, draw and loss at a score in centipawns. A win has 1 / (1 + e^((120 − score) / 60)),
/// a loss the same for the other side, and a draw has the rest.
pub fn wdl_of_centipawns(centipawns: f64) -> [f64; 3] {
    let win_probability = |score: f64| 1.0 / (1.0 + ((OFFSET - score) / SCALE).exp());
    let (win, loss) = (win_probability(centipawns), win_probability(-centipawns));
    // A draw is P(the better side does not win) - P(the worse side wins), because 1 - win - loss would lose
    // precision where one of them is nearly one.
    let worse_side_wins = win_probability(-centipawns.abs());
    let not_won = 1.0 / (1.0 + ((centipawns.abs() - OFFSET) / SCALE).exp());
    [win, not_won - worse_side_wins, loss]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_map_to_wdl_probabilities() {
        let wdl = |score: i32| wdl_of_centipawns(f64::from(score));
        for score in -900..=900 {
            let [win, draw, loss] = wdl(score);
            assert!((win + draw + loss - 1.0).abs() < 1e-12 && draw > 0.0);
            let [other_win, _, other_loss] = wdl(-score);
            assert_eq!([win, loss], [other_loss, other_win]);
            assert!(win < wdl(score + 1)[0]);
        }
        for score in (-32_000..=32_000).step_by(50) {
            let all = wdl(score);
            assert!(all.iter().all(|probability| (0.0..=1.0).contains(probability)), "{score}: {all:?}");
            assert_eq!(all[1], wdl(-score)[1]);
        }
        assert_eq!(wdl(120)[0], 0.5);
    }
}
