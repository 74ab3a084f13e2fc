//! The sequential probability ratio test, generalised to pairs of games.
//!
//! Two hypotheses about strength, H0 and H1, are compared by the likelihood of the results under each. The
//! distribution of the pairs is not known, so each hypothesis gets the most likely distribution that it allows
//! (Van den Bergh's GSPRT, after Owen's empirical likelihood). The test stops when the ratio leaves a corridor that
//! the wanted error rates set.

use super::{NELO_PER_SIGMA, Pentanomial, score_of_elo};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// In what the bounds of a test are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SprtModel {
    /// Elo of the expected score.
    Logistic,
    /// Normalised Elo: the score's excess in standard deviations. It costs the same number of games whatever the
    /// book and the share of draws.
    #[default]
    Normalised,
}

/// Bounds that make no test.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum SprtError {
    /// H1 is not above H0.
    #[error(
        "the SPRT bounds are {0} and {1}; the second must be greater, and both within +-1000, or +-{MOST_NELO} where \
         they are normalised"
    )]
    Bounds(f64, f64),
    /// Error rates that are none.
    #[error("the SPRT error rates alpha {0} and beta {1} must lie between 0 and 0.5")]
    Rates(f64, f64),
}

/// A test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sprt {
    elo0: f64,
    elo1: f64,
    alpha: f64,
    beta: f64,
    model: SprtModel,
}

/// From 231.6 on, which is 0.943 standard deviations of even shares, the search for the most likely distribution has nothing
/// to begin with: all values that it weighs are negative.
const MOST_NELO: f64 = 200.0;

/// What a test says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// H1 is accepted: the first engine is stronger, as asked.
    Accepted,
    /// H0 is accepted: it is not.
    Rejected,
    /// More games are needed.
    Undecided,
}

/// Where a test stands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SprtState {
    /// The log-likelihood ratio of H1 to H0.
    pub llr: f64,
    /// At or below this H0 is accepted.
    pub lower: f64,
    /// At or above this H1 is accepted.
    pub upper: f64,
    /// What follows.
    pub verdict: Verdict,
}

impl Sprt {
    /// A test of H0: `elo0` against H1: `elo1`, with the rates of wrongly accepting (`alpha`) and rejecting (`beta`).
    pub fn new(elo0: f64, elo1: f64, alpha: f64, beta: f64, model: SprtModel) -> Result<Self, SprtError> {
        let most = match model {
            SprtModel::Logistic => 1000.0,
            SprtModel::Normalised => MOST_NELO,
        };
        let usable = |elo: f64| elo.is_finite() && elo.abs() <= most;
        if !usable(elo0) || !usable(elo1) || elo0 >= elo1 {
            return Err(SprtError::Bounds(elo0, elo1));
        }
        if [alpha, beta].iter().any(|rate| !(1e-9..0.5).contains(rate)) {
            return Err(SprtError::Rates(alpha, beta));
        }
        Ok(Self { elo0, elo1, alpha, beta, model })
    }

    /// The corridor: below it H0 is accepted, above it H1.
    pub fn bounds(&self) -> (f64, f64) {
        ((self.beta / (1.0 - self.alpha)).ln(), ((1.0 - self.beta) / self.alpha).ln())
    }

    /// What the pairs say so far.
    pub fn state(&self, pairs: &Pentanomial) -> SprtState {
        let llr = self.llr(pairs);
        let (lower, upper) = self.bounds();
        let verdict = if llr >= upper {
            Verdict::Accepted
        } else if llr <= lower {
            Verdict::Rejected
        } else {
            Verdict::Undecided
        };
        SprtState { llr, lower, upper, verdict }
    }

    /// The log-likelihood ratio of H1 to H0.
    pub fn llr(&self, pairs: &Pentanomial) -> f64 {
        let n = pairs.pairs();
        if n == 0 {
            return 0.0;
        }
        let sample = Sample::new(pairs);
        let [likely0, likely1] = [self.elo0, self.elo1].map(|elo| match self.model {
            SprtModel::Logistic => sample.most_likely_with_mean(score_of_elo(elo)),
            // A pair's mean varies less than a game's by the root of two, so its excess in its own deviations is
            // greater by as much.
            SprtModel::Normalised => {
                sample.most_likely_with_excess(std::f64::consts::SQRT_2 * elo / NELO_PER_SIGMA)
            }
        });
        let ratio = |i: usize| sample.shares[i] * (likely1[i] / likely0[i]).ln();
        sample.total * (0..5).map(ratio).sum::<f64>()
    }

    /// The bounds in words.
    pub fn description(&self) -> String {
        let unit = match self.model {
            SprtModel::Logistic => "Elo",
            SprtModel::Normalised => "nElo",
        };
        format!("[{}, {}] {unit}, alpha {}, beta {}", self.elo0, self.elo1, self.alpha, self.beta)
    }
}

/// What was seen: the shares of pairs with 0, 1/4, 1/2, 3/4 and 1 of the points.
struct Sample {
    shares: [f64; 5],
    total: f64,
}

/// The points of a pair, per game.
const POINTS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

impl Sample {
    fn new(pairs: &Pentanomial) -> Self {
        // A kind of pair that was not seen yet is not impossible; a thousandth of one keeps every logarithm finite.
        let counts = pairs.0.map(|count| if count == 0 { 1e-3 } else { count as f64 });
        let total: f64 = counts.iter().sum();
        Self { shares: counts.map(|count| count / total), total }
    }

    /// The most likely distribution with a given mean.
    fn most_likely_with_mean(&self, mean: f64) -> [f64; 5] {
        self.most_likely_with(POINTS.map(|points| points - mean))
    }

    /// The most likely distribution in which the sum of `values`, by probability, is zero. With a multiplier for
    /// that constraint it is share / (1 + m * value), and m is found by halving: the sum falls as m grows.
    fn most_likely_with(&self, values: [f64; 5]) -> [f64; 5] {
        let (least, most) = values.iter().fold((0f64, 0f64), |(a, b), &v| (a.min(v), b.max(v)));
        if least >= 0.0 || most <= 0.0 {
            return self.shares;
        }
        // Between these every probability is positive.
        let (mut low, mut high) = (-1.0 / most, -1.0 / least);
        for _ in 0..100 {
            let m = 0.5 * (low + high);
            let sum: f64 = self.shares.iter().zip(values).map(|(share, v)| share * v / (1.0 + m * v)).sum();
            if sum > 0.0 {
                low = m;
            } else {
                high = m;
            }
            if high - low < 1e-13 {
                break;
            }
        }
        let m = 0.5 * (low + high);
        std::array::from_fn(|i| self.shares[i] / (1.0 + m * values[i]))
    }

    /// The most likely distribution whose mean exceeds one half by `excess` standard deviations. The constraint is
    /// not linear in the probabilities; around a distribution with mean mu and deviation sigma it is, to first
    /// order, linear with the values below, and repeating this converges quickly.
    fn most_likely_with_excess(&self, excess: f64) -> [f64; 5] {
        let mut likely = [0.2; 5];
        for _ in 0..50 {
            let mean: f64 = likely.iter().zip(POINTS).map(|(p, x)| p * x).sum();
            let variance: f64 = likely.iter().zip(POINTS).map(|(p, x)| p * (x - mean).powi(2)).sum();
            let sigma = variance.sqrt();
            let values =
                POINTS.map(|x| x - 0.5 - excess * sigma * (1.0 + ((x - mean) / sigma).powi(2)) / 2.0);
            let next = self.most_likely_with(values);
            let change = next.iter().zip(likely).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            likely = next;
            if change < 1e-10 {
                break;
            }
        }
        likely
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::random::SplitMix;

    fn sprt(elo0: f64, elo1: f64, model: SprtModel) -> Sprt {
        Sprt::new(elo0, elo1, 0.05, 0.05, model).unwrap()
    }

    #[test]
    fn ratios_are_those_of_fastchess() {
        // The pairs and ratios of fastchess's own tests; pairs of two draws and of a win and a loss are one kind.
        use SprtModel::{Logistic, Normalised};
        for (counts, elo0, elo1, model, expected) in [
            ([365, 16618, 36229, 16974, 390], 0.0, 2.0, Normalised, 2.25),
            ([127, 4883, 10712, 5150, 104], -1.75, 0.25, Normalised, 3.01),
            ([223, 9863, 21279, 10037, 246], 0.5, 2.5, Logistic, -3.07),
            ([871, 26175, 55983, 26678, 821], 0.0, 2.0, Logistic, -4.98),
        ] {
            let llr = sprt(elo0, elo1, model).llr(&Pentanomial(counts));
            assert!((llr - expected).abs() <= 0.01, "{llr} against {expected}");
        }
    }

    #[test]
    fn the_corridor_is_walds() {
        let (lower, upper) = sprt(0.0, 5.0, SprtModel::Logistic).bounds();
        assert!((upper - 2.944).abs() < 1e-3 && (lower + 2.944).abs() < 1e-3);
        assert_eq!(sprt(0.0, 5.0, SprtModel::Normalised).llr(&Pentanomial::default()), 0.0);
    }

    #[test]
    fn turned_results_turn_the_ratio() {
        let pairs = Pentanomial([12, 150, 420, 170, 20]);
        for model in [SprtModel::Logistic, SprtModel::Normalised] {
            let llr = sprt(-3.0, 3.0, model).llr(&pairs);
            let turned = sprt(-3.0, 3.0, model).llr(&pairs.turned());
            assert!(llr > 0.0 && (llr + turned).abs() < 1e-6, "{llr} {turned}");
        }
    }

    #[test]
    fn extreme_results_stay_finite() {
        for counts in [[1, 0, 0, 0, 0], [0, 0, 1000, 0, 0], [0, 0, 0, 0, 5000], [1, 0, 0, 0, 1]] {
            for model in [SprtModel::Logistic, SprtModel::Normalised] {
                let llr = sprt(0.0, 5.0, model).llr(&Pentanomial(counts));
                assert!(llr.is_finite(), "{counts:?} {llr}");
            }
        }
    }

    #[test]
    fn what_is_most_likely_keeps_to_the_hypothesis() {
        let mut random = SplitMix::new(7);
        let mut seen = vec![[1, 0, 0, 0, 0], [0, 0, 1000, 0, 0], [0, 0, 0, 0, 5000], [100, 50, 20, 6, 2]];
        let mut some = || {
            let bits = random.below(12);
            u64::from(random.below(1 << bits))
        };
        seen.extend((0..200).map(|_| std::array::from_fn(|_| some())));
        for counts in seen.into_iter().filter(|counts| counts.iter().sum::<u64>() > 0) {
            let sample = Sample::new(&Pentanomial(counts));
            for nelo in [-MOST_NELO, -30.0, 0.0, 5.0, MOST_NELO] {
                let likely = sample.most_likely_with_excess(std::f64::consts::SQRT_2 * nelo / NELO_PER_SIGMA);
                let sum: f64 = likely.iter().sum();
                assert!((sum - 1.0).abs() < 1e-6, "{counts:?} at {nelo}: probabilities add up to {sum}");
                assert!(
                    (nelo_of(&likely) - nelo).abs() < 0.01,
                    "{counts:?}: {} for {nelo}",
                    nelo_of(&likely)
                );
            }
        }
    }

    #[test]
    fn bounds_that_make_no_test_are_refused() {
        let test = |elo0, elo1, alpha| Sprt::new(elo0, elo1, alpha, 0.05, SprtModel::Logistic);
        assert!(Sprt::new(0.0, 300.0, 0.05, 0.05, SprtModel::Normalised).is_err());
        assert!(test(0.0, 300.0, 0.05).is_ok());
        assert!(matches!(test(5.0, 0.0, 0.05), Err(SprtError::Bounds(..))));
        assert!(matches!(test(0.0, f64::NAN, 0.05), Err(SprtError::Bounds(..))));
        assert!(matches!(test(0.0, 5.0, 0.0), Err(SprtError::Rates(..))));
        assert!(matches!(test(0.0, 5.0, 0.6), Err(SprtError::Rates(..))));
    }

    /// Plays matches whose pairs have a known distribution, and counts those that the test accepts.
    fn accepted(sprt: &Sprt, distribution: [f64; 5], matches: u32, seed: u64) -> u32 {
        let mut random = SplitMix::new(seed);
        let mut one = || {
            let mut pairs = Pentanomial::default();
            loop {
                // The test is looked at every ten pairs: often enough, and quick.
                for _ in 0..10 {
                    let x = random.unit();
                    let mut sum = 0.0;
                    let kind = distribution.iter().position(|p| {
                        sum += p;
                        x < sum
                    });
                    pairs.0[kind.unwrap_or(4)] += 1;
                }
                match sprt.state(&pairs).verdict {
                    Verdict::Undecided => {}
                    verdict => return verdict == Verdict::Accepted,
                }
            }
        };
        (0..matches).filter(|_| one()).count() as u32
    }

    /// A distribution of pairs with the mean that an Elo difference means.
    fn pairs_of_elo(elo: f64) -> [f64; 5] {
        let shift = score_of_elo(elo) - 0.5;
        // Moving a share from 1/4 to 3/4 of the points moves the mean by half as much.
        [0.03, 0.20 - 2.0 * shift, 0.54, 0.20 + 2.0 * shift, 0.03].map(|share: f64| share.max(0.0))
    }

    fn nelo_of(pairs: &[f64; 5]) -> f64 {
        let mean: f64 = pairs.iter().zip(POINTS).map(|(p, x)| p * x).sum();
        let variance: f64 = pairs.iter().zip(POINTS).map(|(p, x)| p * (x - mean).powi(2)).sum();
        (mean - 0.5) / (2.0 * variance).sqrt() * NELO_PER_SIGMA
    }

    /// A distribution of pairs with a normalised Elo difference, found by halving.
    fn pairs_of_nelo(nelo: f64) -> [f64; 5] {
        let (mut low, mut high) = (-200.0, 200.0);
        for _ in 0..60 {
            let elo = 0.5 * (low + high);
            if nelo_of(&pairs_of_elo(elo)) < nelo { low = elo } else { high = elo }
        }
        pairs_of_elo(low)
    }

    #[test]
    fn simulated_matches_err_as_often_as_stated() {
        // 2,000 matches for each hypothesis and model. The stated rates are bounds that overshoot makes a little
        // smaller; three deviations of chance are 1.5 %.
        const MATCHES: u32 = 2000;
        let most = MATCHES * 65 / 1000;
        let least = MATCHES * 20 / 1000;
        let logistic = sprt(0.0, 20.0, SprtModel::Logistic);
        let normalised = sprt(0.0, 30.0, SprtModel::Normalised);
        for (sprt, h0, h1) in [
            (&logistic, pairs_of_elo(0.0), pairs_of_elo(20.0)),
            (&normalised, pairs_of_nelo(0.0), pairs_of_nelo(30.0)),
        ] {
            let wrongly_accepted = accepted(sprt, h0, MATCHES, 1);
            let wrongly_rejected = MATCHES - accepted(sprt, h1, MATCHES, 2);
            assert!((least..=most).contains(&wrongly_accepted), "{wrongly_accepted} of {MATCHES}");
            assert!((least..=most).contains(&wrongly_rejected), "{wrongly_rejected} of {MATCHES}");
        }
    }
}
