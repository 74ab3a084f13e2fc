//! Rating lists for several engines: the model of Bradley and Terry with draws after Davidson (1970) and an
//! advantage for White, fitted by maximum likelihood.
//!
//! With strengths r, White's advantage g and d = r(white) - r(black) + g, the odds of win : draw : loss are
//! exp(d/2) : v : exp(-d/2). The likelihood is concave, so Newton's method finds the unique optimum, at which
//! the expected points of every engine equal its actual points. A common factor then converts strengths into
//! Elo, such that the expected scores of the meetings that were played agree with the logistic Elo formula.

use super::{Z95, elo_of_score};
use serde::Serialize;
use tandem_util::random::SplitMix;

/// Result of one game between two engines, from which ratings are fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RatedGame {
    /// Index of the engine with the white pieces.
    pub white: usize,
    /// Index of the engine with the black pieces.
    pub black: usize,
    /// Points of White in halves: 0, 1 or 2.
    pub half_points: u8,
}

/// Rating and record of one engine in the list.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rating {
    /// Index of the engine among those that were rated.
    pub engine: usize,
    /// Rating in Elo, relative to the mean of all engines unless the list was anchored.
    pub elo: f64,
    /// Half-width of the 95 % interval of the rating, relative to the mean of all engines. Infinite (`null`
    /// in JSON) if the games do not allow an estimate.
    pub error: f64,
    /// Number of games the engine played.
    pub games: u64,
    /// Points the engine scored: 1 for each win, 1/2 for each draw.
    pub points: f64,
    /// Number of games the engine drew.
    pub draws: u64,
}

/// A rating list, with the parameters of the model that belong to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratings {
    /// Ratings of all engines, the strongest first.
    pub list: Vec<Rating>,
    /// Advantage of the white pieces in Elo, common to all engines.
    pub white_advantage: f64,
    /// Fitted probability of a draw, from 0 to 1, between engines of equal strength if White had no
    /// advantage.
    #[serde(rename = "draw_share")]
    pub draw_probability: f64,
}

/// Number of bootstrap resamplings behind the error bars.
const RESAMPLINGS: usize = 200;
/// Elo per unit of strength in a model without draws: 400 / ln 10.
const ELO_PER_UNIT: f64 = 173.717_792_761_300_73;
/// Standard deviations of the Gaussian prior in units of strength: about 1000 Elo for engines, 100 Elo for
/// White's advantage. It is so weak that a few games outweigh it, but gives a perfect score a finite rating.
const PRIOR_STRENGTH: f64 = 5.756;
const PRIOR_WHITE: f64 = 0.5756;
const PRIOR_DRAWS: f64 = 3.0;

/// Fits ratings to the results of games. Each unit holds games that depend on each other, such as a pair with
/// one opening. Errors come from a bootstrap: units are drawn anew, with replacement and a fixed seed, and
/// the fit is repeated. The mean of all ratings is 0.
pub fn rate(engines: usize, units: &[Vec<RatedGame>]) -> Ratings {
    let fit = Fit::new(&Counts::of(engines, units.iter()));
    let mut totals = vec![(0u64, 0u64, 0u64); engines];
    for game in units.iter().flatten() {
        for (engine, half_points) in
            [(game.white, game.half_points), (game.black, 2 - game.half_points.min(2))]
        {
            let (games, points, draws) = &mut totals[engine];
            *games += 1;
            *points += u64::from(half_points);
            *draws += u64::from(half_points == 1);
        }
    }
    let errors = resampled_errors(engines, units);
    let elo = fit.elo();
    let mut list: Vec<Rating> = (0..engines)
        .map(|engine| {
            let (games, half_points, draws) = totals[engine];
            let points = half_points as f64 / 2.0;
            Rating { engine, elo: elo[engine], error: errors[engine], games, points, draws }
        })
        .collect();
    list.sort_by(|a, b| b.elo.total_cmp(&a.elo));
    let draws = fit.draws.exp();
    Ratings { list, white_advantage: fit.white * fit.elo_per_unit, draw_probability: draws / (2.0 + draws) }
}

impl Ratings {
    /// Shifts all ratings by the same amount so that `engine` has the rating `elo`; without that engine in
    /// the list nothing changes.
    pub fn anchor(&mut self, engine: usize, elo: f64) {
        let Some(shift) =
            self.list.iter().find(|rating| rating.engine == engine).map(|rating| elo - rating.elo)
        else {
            return;
        };
        for rating in &mut self.list {
            rating.elo += shift;
        }
    }
}

/// Rounding errors in Elo that sums of squares may leave, here as a bound.
const ROUNDING: f64 = 1e-3;

fn resampled_errors(engines: usize, units: &[Vec<RatedGame>]) -> Vec<f64> {
    let (mut sums, mut squares) = (vec![0.0; engines], vec![0.0; engines]);
    if units.len() < 2 {
        return vec![f64::INFINITY; engines];
    }
    let mut random = SplitMix::new(0x7a4d_e301);
    let n = u32::try_from(units.len()).unwrap_or(u32::MAX);
    for _ in 0..RESAMPLINGS {
        let drawn = (0..n).map(|_| &units[random.below(n) as usize]);
        for (engine, elo) in Fit::new(&Counts::of(engines, drawn)).elo().into_iter().enumerate() {
            sums[engine] += elo;
            squares[engine] += elo * elo;
        }
    }
    let n = RESAMPLINGS as f64;
    sums.iter()
        .zip(squares)
        .map(|(sum, square)| Z95 * (square / n - (sum / n).powi(2)).max(0.0).sqrt())
        // If all units are the same, only rounding errors remain, because identical results do not tell how
        // much they vary.
        .map(|error| if error < ROUNDING { f64::INFINITY } else { error })
        .collect()
}

/// Results of all games by pairing and colours.
struct Counts {
    engines: usize,
    /// Losses, draws and wins of White, by white engine * `engines` + black engine.
    table: Vec<[f64; 3]>,
}

impl Counts {
    fn of<'a>(engines: usize, units: impl Iterator<Item = &'a Vec<RatedGame>>) -> Self {
        let mut table = vec![[0.0; 3]; engines * engines];
        for game in units.flatten() {
            table[game.white * engines + game.black][usize::from(game.half_points.min(2))] += 1.0;
        }
        Self { engines, table }
    }

    fn meetings(&self) -> impl Iterator<Item = (usize, usize, [f64; 3])> {
        let played = self.table.iter().enumerate().filter(|(_, counts)| counts.iter().sum::<f64>() > 0.0);
        played.map(|(index, &counts)| (index / self.engines, index % self.engines, counts))
    }
}

/// Parameters of the model at the maximum of the likelihood.
struct Fit {
    strengths: Vec<f64>,
    white: f64,
    /// Logarithm of the draw parameter v.
    draws: f64,
    elo_per_unit: f64,
}

impl Fit {
    fn new(counts: &Counts) -> Self {
        let n = counts.engines;
        // Order of the parameters: strengths, White's advantage, logarithm of v.
        let size = n + 2;
        let mut x = vec![0.0; size];
        for _ in 0..100 {
            let mut gradient = vec![0.0; size];
            let mut curvature = vec![0.0; size * size];
            let deviations = std::iter::repeat_n(PRIOR_STRENGTH, n).chain([PRIOR_WHITE, PRIOR_DRAWS]);
            for (i, deviation) in deviations.enumerate() {
                gradient[i] = -x[i] / (deviation * deviation);
                curvature[i * size + i] = 1.0 / (deviation * deviation);
            }
            for (white, black, [lost, drawn, won]) in counts.meetings() {
                let games = lost + drawn + won;
                let [p_lost, p_drawn, p_won] = odds(x[white] - x[black] + x[n], x[n + 1]);
                // Half the difference of wins and losses, and the draws, are sufficient statistics.
                let lead = (p_won - p_lost) / 2.0;
                let surplus = (won - lost) / 2.0 - games * lead;
                let parts = [(white, 1.0), (black, -1.0), (n, 1.0)];
                for (i, sign) in parts {
                    gradient[i] += sign * surplus;
                }
                gradient[n + 1] += drawn - games * p_drawn;
                let variance = games * ((p_won + p_lost) / 4.0 - lead * lead);
                let covariance = -games * lead * p_drawn;
                for (i, sign) in parts {
                    for (j, other) in parts {
                        curvature[i * size + j] += sign * other * variance;
                    }
                    curvature[i * size + n + 1] += sign * covariance;
                    curvature[(n + 1) * size + i] += sign * covariance;
                }
                curvature[(n + 1) * size + n + 1] += games * p_drawn * (1.0 - p_drawn);
            }
            let step = solve(curvature, gradient);
            // Far from the optimum a full Newton step may overshoot, so it is limited to 2 units.
            let longest = step.iter().fold(0.0f64, |longest, part| longest.max(part.abs()));
            let scale = (2.0 / longest).min(1.0);
            x.iter_mut().zip(&step).for_each(|(x, step)| *x += scale * step);
            if longest < 1e-10 {
                break;
            }
        }
        let mean = x[..n].iter().sum::<f64>() / n.max(1) as f64;
        let strengths = x[..n].iter().map(|strength| strength - mean).collect();
        let mut fit = Self { strengths, white: x[n], draws: x[n + 1], elo_per_unit: 0.0 };
        fit.elo_per_unit = fit.scale(counts);
        fit
    }

    /// Elo per unit of strength: least-squares factor over the meetings that were played.
    fn scale(&self, counts: &Counts) -> f64 {
        let (mut above, mut below) = (0.0, 0.0);
        for (white, black, results) in counts.meetings() {
            let difference = self.strengths[white] - self.strengths[black];
            let [_, drawn, won] = odds(difference, self.draws);
            let elo = elo_of_score((won + drawn / 2.0).clamp(1e-9, 1.0 - 1e-9));
            let games: f64 = results.iter().sum();
            above += games * difference * elo;
            below += games * difference * difference;
        }
        if below > 1e-12 { above / below } else { ELO_PER_UNIT * 2.0 / (2.0 + self.draws.exp()) }
    }

    fn elo(&self) -> Vec<f64> {
        self.strengths.iter().map(|strength| strength * self.elo_per_unit).collect()
    }
}

/// Probabilities of loss, draw and win for a difference in strength.
fn odds(difference: f64, draws: f64) -> [f64; 3] {
    let half = (difference / 2.0).clamp(-300.0, 300.0);
    let (lost, drawn, won) = ((-half).exp(), draws.clamp(-300.0, 300.0).exp(), half.exp());
    let sum = lost + drawn + won;
    [lost / sum, drawn / sum, won / sum]
}

/// Solves a linear system with a symmetric, positive definite matrix by Gaussian elimination.
fn solve(mut matrix: Vec<f64>, mut right: Vec<f64>) -> Vec<f64> {
    let size = right.len();
    for pivot in 0..size {
        for row in pivot + 1..size {
            let factor = matrix[row * size + pivot] / matrix[pivot * size + pivot];
            for column in pivot..size {
                matrix[row * size + column] -= factor * matrix[pivot * size + column];
            }
            right[row] -= factor * right[pivot];
        }
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|column| matrix[row * size + column] * right[column]).sum();
        right[row] = (right[row] - known) / matrix[row * size + row];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::score_of_elo;

    fn units(games: &[(usize, usize, u8, usize)]) -> Vec<Vec<RatedGame>> {
        let game = |&(white, black, half_points, _): &_| RatedGame { white, black, half_points };
        games.iter().flat_map(|entry| std::iter::repeat_n(vec![game(entry)], entry.3)).collect()
    }

    #[test]
    fn two_engines_differ_by_the_elo_of_their_score() {
        // 60 wins, 80 draws, 60 losses as White; 90, 70, 40 as Black: 57.5 % of 400.
        let games =
            [(0, 1, 2, 60), (0, 1, 1, 80), (0, 1, 0, 60), (1, 0, 0, 90), (1, 0, 1, 70), (1, 0, 2, 40)];
        let ratings = rate(2, &units(&games));
        let difference = ratings.list[0].elo - ratings.list[1].elo;
        let expected = elo_of_score((60.0 + 40.0 + 90.0 + 35.0) / 400.0);
        assert!((difference - expected).abs() < 1.0, "{difference} against {expected}");
        assert_eq!((ratings.list[0].engine, ratings.list[0].draws, ratings.list[0].games), (0, 150, 400));
        assert!(ratings.white_advantage < 0.0);
        assert!((8.0..25.0).contains(&ratings.list[0].error), "{}", ratings.list[0].error);
    }

    #[test]
    fn known_strengths_are_found_again() {
        let truth = [120.0, 40.0, -20.0, -140.0];
        let mut random = SplitMix::new(5);
        let mut units = Vec::new();
        for white in 0..4 {
            for black in (0..4).filter(|&black| black != white) {
                for _ in 0..800 {
                    let score = score_of_elo(truth[white] - truth[black] + 30.0);
                    // A third of the games are draws, as far as the score allows.
                    let drawn = 0.66 * score.min(1.0 - score);
                    let x = random.unit();
                    let won = score - drawn / 2.0;
                    let half_points = if x < won { 2 } else { u8::from(x < won + drawn) };
                    units.push(vec![RatedGame { white, black, half_points }]);
                }
            }
        }
        let ratings = rate(4, &units);
        for rating in &ratings.list {
            let error = (rating.elo - truth[rating.engine]).abs();
            assert!(error < 2.0 * rating.error && rating.error < 15.0, "{rating:?}");
        }
        assert!(ratings.list.iter().map(|rating| rating.engine).eq(0..4));
        assert!((20.0..40.0).contains(&ratings.white_advantage), "{}", ratings.white_advantage);
    }

    #[test]
    fn perfect_scores_stay_finite_and_in_order() {
        let games = [(0, 1, 2, 20), (1, 2, 2, 20), (2, 0, 0, 20)];
        let mut ratings = rate(3, &units(&games));
        assert!(ratings.list.iter().map(|rating| rating.engine).eq(0..3));
        assert!(ratings.list.iter().all(|rating| rating.elo.is_finite() && rating.error.is_finite()));
        ratings.anchor(2, 1800.0);
        assert_eq!(ratings.list[2].elo, 1800.0);
        // An engine that always wins is better, but the results do not tell by how much.
        let sure = rate(2, &units(&[(0, 1, 2, 20)]));
        assert!(sure.list.iter().all(|rating| rating.error == f64::INFINITY), "{sure:?}");
    }
}
