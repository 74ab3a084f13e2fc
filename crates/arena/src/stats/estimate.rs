//! Elo estimates with error bars, from pairs of games or single games.

use super::{NELO_PER_SIGMA, Pentanomial, Wdl, Z95, normal_cdf};
use serde::Serialize;

/// Elo difference at which a player is expected to score `score` points per game: 400 log10(score / (1 -
/// score)). Infinite at 0 and 1.
pub fn elo_of_score(score: f64) -> f64 {
    -400.0 * (1.0 / score - 1.0).log10()
}

/// Expected points per game, from 0 to 1, of a player that is stronger by `elo`: 1 / (1 + 10^(-elo / 400)).
pub fn score_of_elo(elo: f64) -> f64 {
    1.0 / (1.0 + 10f64.powf(-elo / 400.0))
}

/// Strength of a player relative to its opponent, estimated from game results. Infinite values (of a perfect
/// score, or the error of a single observation) become `null` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Mean points per game, from 0 to 1.
    pub score: f64,
    /// Half-width of the 95 % interval of the score, in points per game.
    pub score_error: f64,
    /// Logistic Elo difference for the score, positive if the player is stronger.
    pub elo: f64,
    /// Lower end of the 95 % interval of the Elo difference.
    pub elo_low: f64,
    /// Upper end of the 95 % interval of the Elo difference.
    pub elo_high: f64,
    /// Normalised Elo: the excess of the score over 1/2, in standard deviations of a single game, times
    /// [`super::NELO_PER_SIGMA`].
    pub nelo: f64,
    /// Half-width of the 95 % interval of the normalised Elo.
    pub nelo_error: f64,
    /// Likelihood of superiority: probability from 0 to 1 that the player is stronger than its opponent.
    pub los: f64,
}

impl Estimate {
    /// Estimate from the points of game pairs; `None` if there are no pairs.
    pub fn of_pairs(pairs: &Pentanomial) -> Option<Self> {
        Self::of_counts(&pairs.0, 2.0)
    }

    /// Estimate from single games, which are taken as independent; `None` without any.
    pub fn of_games(games: &Wdl) -> Option<Self> {
        Self::of_counts(&[games.losses, games.draws, games.wins], 1.0)
    }

    /// Estimate from pairs if at least nine in ten games belong to one, otherwise from all single games;
    /// `None` without games.
    pub fn of(pairs: &Pentanomial, games: &Wdl) -> Option<Self> {
        let paired = 2 * pairs.pairs();
        // An interrupted match has some games whose other half is missing.
        if paired > 0 && paired * 10 >= games.games() * 9 {
            Self::of_pairs(pairs)
        } else {
            Self::of_games(games)
        }
    }

    /// Estimate from counts of observations whose values are evenly spaced from 0 to 1. Each observation
    /// consists of `games_each` games.
    fn of_counts(counts: &[u64], games_each: f64) -> Option<Self> {
        let n = counts.iter().sum::<u64>() as f64;
        if n == 0.0 {
            return None;
        }
        let top = (counts.len() - 1) as f64;
        let moment = |f: &dyn Fn(f64) -> f64| {
            counts.iter().enumerate().map(|(i, &count)| count as f64 * f(i as f64 / top)).sum::<f64>() / n
        };
        let score = moment(&|x| x);
        let variance = moment(&|x| (x - score).powi(2));
        // A single observation has no variance from which an error could be estimated.
        let known = |error: f64| if n < 2.0 { f64::INFINITY } else { error };
        // Identical results may still differ in future: the variance is taken as if one more result, of any
        // kind with equal probability, were among them.
        let spread = match variance {
            0.0 => {
                (0..counts.len()).map(|i| (i as f64 / top - score).powi(2)).sum::<f64>()
                    / (top + 1.0)
                    / (n + 1.0)
            }
            variance => variance,
        };
        let deviation = known((spread / n).sqrt());
        let sigma_game = (variance * games_each).sqrt();
        let excess = score - 0.5;
        // Without variance there is no unit to measure in, except that a zero excess is zero in any unit.
        let in_units = |unit: f64| if excess == 0.0 { 0.0 } else { excess / unit };
        Some(Self {
            score,
            score_error: Z95 * deviation,
            elo: elo_of_score(score),
            elo_low: elo_of_score((score - Z95 * deviation).max(0.0)),
            elo_high: elo_of_score((score + Z95 * deviation).min(1.0)),
            nelo: in_units(sigma_game) * NELO_PER_SIGMA,
            nelo_error: known(Z95 * NELO_PER_SIGMA / (n * games_each).sqrt()),
            los: normal_cdf(in_units(deviation)),
        })
    }

    /// Half the width of the 95 % interval of the Elo difference, as tables show it after `+-`; the interval
    /// itself need not be symmetric.
    pub fn elo_error(&self) -> f64 {
        (self.elo_high - self.elo_low) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance, "{a} is not {b}");
    }

    #[test]
    fn elo_and_score_are_inverse() {
        close(elo_of_score(0.75), 190.848_501_887_865, 1e-9);
        for elo in [-700.0, -3.0, 0.0, 5.5, 400.0] {
            close(elo_of_score(score_of_elo(elo)), elo, 1e-9);
        }
    }

    #[test]
    fn estimates_are_those_of_fastchess() {
        // Values of fastchess's own tests. Its pairs of two draws, and of a win and a loss, are one kind
        // here.
        let estimate = Estimate::of_pairs(&Pentanomial([34, 54, 63, 64, 75])).unwrap();
        close(estimate.elo, 55.58, 0.01);
        close(estimate.elo_error(), 27.65, 0.01);
        close(estimate.nelo, 57.94, 0.01);
        close(estimate.nelo_error, 28.28, 0.01);
        let estimate = Estimate::of_pairs(&Pentanomial([332, 433, 498, 333, 334])).unwrap();
        close(estimate.elo, -8.64, 0.01);
        close(estimate.elo_error(), 10.33, 0.01);
        close(estimate.nelo, -9.17, 0.01);
        close(estimate.los, 0.0505, 1e-4);
        let estimate = Estimate::of_games(&Wdl { wins: 136, draws: 111, losses: 96 }).unwrap();
        close(estimate.elo, 40.70, 0.01);
        close(estimate.elo_error(), 30.43, 0.01);
        close(estimate.nelo, 49.77, 0.01);
        close(estimate.nelo_error, 36.77, 0.01);
        close(estimate.los, 0.9960, 1e-4);
    }

    #[test]
    fn a_perfect_score_is_infinite_and_level_is_zero() {
        let won = Estimate::of_games(&Wdl { wins: 10, draws: 0, losses: 0 }).unwrap();
        assert!(won.elo == f64::INFINITY && won.elo_high == f64::INFINITY && won.los > 0.99);
        assert!((100.0..1000.0).contains(&won.elo_low), "{}", won.elo_low);
        let level = Estimate::of_games(&Wdl { wins: 0, draws: 10, losses: 0 }).unwrap();
        assert_eq!((level.elo, level.nelo, level.los), (0.0, 0.0, 0.5));
        assert_eq!(Estimate::of_games(&Wdl::default()), None);
    }

    #[test]
    fn one_observation_proves_nothing() {
        let pair = Estimate::of_pairs(&Pentanomial([0, 0, 0, 1, 0])).unwrap();
        let game = Estimate::of_games(&Wdl { wins: 1, draws: 0, losses: 0 }).unwrap();
        for one in [pair, game] {
            assert_eq!((one.elo_low, one.elo_high, one.los), (f64::NEG_INFINITY, f64::INFINITY, 0.5));
            assert_eq!((one.elo_error(), one.nelo_error), (f64::INFINITY, f64::INFINITY));
            assert!(serde_json::to_value(one).unwrap()["elo_high"].is_null());
        }
        close(pair.elo, 190.85, 0.01);
    }

    #[test]
    fn games_outside_pairs_count_where_there_are_many() {
        let (pair, two) = (Pentanomial([0, 0, 0, 0, 1]), Wdl { wins: 2, draws: 0, losses: 0 });
        assert_eq!(Estimate::of(&pair, &two).unwrap().score, 1.0);
        let all = Wdl { losses: 998, ..two };
        assert!(Estimate::of(&pair, &all).unwrap().score < 0.01);
        // The last game of an interrupted match is not a reason to ignore the pairs.
        let (pairs, games) = (Pentanomial([2, 3, 10, 3, 2]), Wdl { wins: 10, draws: 21, losses: 10 });
        assert_eq!(Estimate::of(&pairs, &games), Estimate::of_pairs(&pairs));
    }

    #[test]
    fn correlated_games_have_a_smaller_error_in_pairs() {
        // Every pair has one win each: the openings decide all games, so the players are equal almost without
        // doubt.
        let pairs = Estimate::of_pairs(&Pentanomial([0, 0, 50, 0, 0])).unwrap();
        assert!(pairs.elo == 0.0 && (1.0..15.0).contains(&pairs.elo_error()), "{}", pairs.elo_error());
        let few = Estimate::of_pairs(&Pentanomial([0, 0, 2, 0, 0])).unwrap();
        assert!(few.elo_error() > 100.0, "{}", few.elo_error());
        let games = Estimate::of_games(&Wdl { wins: 50, draws: 0, losses: 50 }).unwrap();
        assert!(games.elo_error() > 60.0);
    }
}
