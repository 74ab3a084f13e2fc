//! Sequential probability ratio test (SPRT), generalised to pairs of games.
//!
//! Two hypotheses about strength, H0 and H1, are compared by the likelihood of the results under each. The
//! distribution of the pairs is not known, so each hypothesis gets the most likely distribution that it
//! allows (Van den Bergh's GSPRT, after Owen's empirical likelihood). The test stops when the log-likelihood
//! ratio leaves the interval that belongs to the wanted error rates.

use super::{NELO_PER_SIGMA, Pentanomial, score_of_elo};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Elo scale in which the two hypotheses of a sequential test are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SprtModel {
    /// Logistic Elo: the usual scale, on which 400 Elo are odds of 10 to 1.
    Logistic,
    /// Normalised Elo: the excess of the score over 1/2 in standard deviations of a game, on the scale of
    /// Elo. The expected number of games depends neither on the book nor on the fraction of draws.
    #[default]
    Normalised,
}

/// Error for parameters that do not define a test.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum SprtError {
    /// H1 is not above H0, or one of them is out of range.
    #[error(
        "the SPRT bounds are {0} and {1}; the second must be greater, and both within +-1000, or +-{MAX_NELO} where \
         they are normalised"
    )]
    Bounds(f64, f64),
    /// An error rate is not between 0 and 0.5.
    #[error("the SPRT error rates alpha {0} and beta {1} must lie between 0 and 0.5")]
    Rates(f64, f64),
}

/// A sequential probability ratio test: two hypotheses about the strength of one engine against another, H0
/// and H1, and the probability of each wrong decision.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sprt {
    elo0: f64,
    elo1: f64,
    alpha: f64,
    beta: f64,
    model: SprtModel,
}

/// Largest bound in normalised Elo. From 231.6 on, which is 0.943 standard deviations of a uniform
/// distribution, the iteration for the most likely distribution has no valid start, because all of its values
/// are negative.
const MAX_NELO: f64 = 200.0;

/// Decision of a sequential test between its hypotheses H0 and H1, or the lack of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// H1 is accepted: the first engine is stronger by about `elo1` or more.
    Accepted,
    /// H0 is accepted: the first engine is not stronger than `elo0`.
    Rejected,
    /// The log-likelihood ratio is between the two bounds, so more games are needed.
    Undecided,
}

/// State of a sequential test after some pairs of games.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SprtState {
    /// Natural logarithm of the likelihood ratio of H1 to H0; positive if the results favour H1.
    pub llr: f64,
    /// Value of [`Self::llr`] at or below which H0 is accepted.
    pub lower: f64,
    /// Value of [`Self::llr`] at or above which H1 is accepted.
    pub upper: f64,
    /// Decision that follows from the ratio and the bounds.
    pub verdict: Verdict,
}

impl Sprt {
    /// Creates a test of H0: `elo0` against H1: `elo1`. `alpha` is the probability of accepting H1 although
    /// H0 holds, `beta` that of accepting H0 although H1 holds; 0.05 is usual for both.
    ///
    /// # Errors
    ///
    /// Fails if `elo0` is not below `elo1`, if either is out of range, or if a rate is not between 0 and 0.5.
    pub fn new(elo0: f64, elo1: f64, alpha: f64, beta: f64, model: SprtModel) -> Result<Self, SprtError> {
        let most = match model {
            SprtModel::Logistic => 1000.0,
            SprtModel::Normalised => MAX_NELO,
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

    /// Lower and upper bound (Wald's) of the log-likelihood ratio: at or below the first H0 is accepted, at
    /// or above the second H1.
    pub fn bounds(&self) -> (f64, f64) {
        ((self.beta / (1.0 - self.alpha)).ln(), ((1.0 - self.beta) / self.alpha).ln())
    }

    /// State of the test, decided or not, after these pairs of games.
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

    /// Natural logarithm of the likelihood ratio of H1 to H0, given the points in these pairs of games; 0
    /// without any.
    pub fn llr(&self, pairs: &Pentanomial) -> f64 {
        let n = pairs.pairs();
        if n == 0 {
            return 0.0;
        }
        let sample = PairFrequencies::new(pairs);
        let [likely0, likely1] = [self.elo0, self.elo1].map(|elo| match self.model {
            SprtModel::Logistic => sample.most_likely_with_mean(score_of_elo(elo)),
            // The mean of a pair has a standard deviation smaller by the square root of two than a single
            // game, so its excess in its own standard deviations is greater by the same factor.
            SprtModel::Normalised => {
                sample.most_likely_with_excess(std::f64::consts::SQRT_2 * elo / NELO_PER_SIGMA)
            }
        });
        let ratio = |i: usize| sample.frequencies[i] * (likely1[i] / likely0[i]).ln();
        sample.total * (0..5).map(ratio).sum::<f64>()
    }

    /// Parameters in words, for example `[0, 2] nElo, alpha 0.05, beta 0.05`.
    pub fn description(&self) -> String {
        let unit = match self.model {
            SprtModel::Logistic => "Elo",
            SprtModel::Normalised => "nElo",
        };
        format!("[{}, {}] {unit}, alpha {}, beta {}", self.elo0, self.elo1, self.alpha, self.beta)
    }
}

/// Observed frequencies of pairs with 0, 1/4, 1/2, 3/4 and 1 of the points.
struct PairFrequencies {
    frequencies: [f64; 5],
    total: f64,
}

/// Points per game of each kind of pair.
const POINTS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

impl PairFrequencies {
    fn new(pairs: &Pentanomial) -> Self {
        // A kind of pair that has not occurred is not impossible; a thousandth of one keeps every logarithm
        // finite.
        let counts = pairs.0.map(|count| if count == 0 { 1e-3 } else { count as f64 });
        let total: f64 = counts.iter().sum();
        Self { frequencies: counts.map(|count| count / total), total }
    }

    /// Maximum-likelihood distribution with a given mean.
    fn most_likely_with_mean(&self, mean: f64) -> [f64; 5] {
        self.most_likely_with(POINTS.map(|points| points - mean))
    }

    /// Maximum-likelihood distribution under which the expectation of `values` is zero. With a Lagrange
    /// multiplier m for that constraint it is frequency / (1 + m * value), and m is found by bisection,
    /// because the sum falls as m grows.
    fn most_likely_with(&self, values: [f64; 5]) -> [f64; 5] {
        let (least, most) = values.iter().fold((0f64, 0f64), |(a, b), &v| (a.min(v), b.max(v)));
        if least >= 0.0 || most <= 0.0 {
            return self.frequencies;
        }
        // All probabilities are positive between these limits.
        let (mut low, mut high) = (-1.0 / most, -1.0 / least);
        for _ in 0..100 {
            let m = 0.5 * (low + high);
            let sum: f64 =
                self.frequencies.iter().zip(values).map(|(frequency, v)| frequency * v / (1.0 + m * v)).sum();
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
        std::array::from_fn(|i| self.frequencies[i] / (1.0 + m * values[i]))
    }

    /// Maximum-likelihood distribution whose mean exceeds one half by `excess` standard deviations. The
    /// constraint is not linear in the probabilities; around a distribution with mean mu and deviation sigma
    /// it is, to first order, linear with the values below, and repeating this converges quickly.
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
    use tandem_util::random::SplitMix;

    fn sprt(elo0: f64, elo1: f64, model: SprtModel) -> Sprt {
        Sprt::new(elo0, elo1, 0.05, 0.05, model).unwrap()
    }

    #[test]
    fn ratios_are_those_of_fastchess() {
        // Pairs and ratios of fastchess's own tests; pairs of two draws, and of a win and a loss, are one
        // kind.
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
    fn the_bounds_are_those_of_wald() {
        let (lower, upper) = sprt(0.0, 5.0, SprtModel::Logistic).bounds();
        assert!((upper - 2.944).abs() < 1e-3 && (lower + 2.944).abs() < 1e-3);
        assert_eq!(sprt(0.0, 5.0, SprtModel::Normalised).llr(&Pentanomial::default()), 0.0);
    }

    #[test]
    fn swapping_the_players_negates_the_ratio() {
        let pairs = Pentanomial([12, 150, 420, 170, 20]);
        for model in [SprtModel::Logistic, SprtModel::Normalised] {
            let llr = sprt(-3.0, 3.0, model).llr(&pairs);
            let flipped = sprt(-3.0, 3.0, model).llr(&pairs.flipped());
            assert!(llr > 0.0 && (llr + flipped).abs() < 1e-6, "{llr} {flipped}");
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
    fn most_likely_distributions_satisfy_the_hypothesis() {
        let mut random = SplitMix::new(7);
        let mut seen = vec![[1, 0, 0, 0, 0], [0, 0, 1000, 0, 0], [0, 0, 0, 0, 5000], [100, 50, 20, 6, 2]];
        let mut some = || {
            let bits = random.below(12);
            u64::from(random.below(1 << bits))
        };
        seen.extend((0..200).map(|_| std::array::from_fn(|_| some())));
        for counts in seen.into_iter().filter(|counts| counts.iter().sum::<u64>() > 0) {
            let sample = PairFrequencies::new(&Pentanomial(counts));
            for nelo in [-MAX_NELO, -30.0, 0.0, 5.0, MAX_NELO] {
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
    fn invalid_parameters_are_refused() {
        let test = |elo0, elo1, alpha| Sprt::new(elo0, elo1, alpha, 0.05, SprtModel::Logistic);
        assert!(Sprt::new(0.0, 300.0, 0.05, 0.05, SprtModel::Normalised).is_err());
        assert!(test(0.0, 300.0, 0.05).is_ok());
        assert!(matches!(test(5.0, 0.0, 0.05), Err(SprtError::Bounds(..))));
        assert!(matches!(test(0.0, f64::NAN, 0.05), Err(SprtError::Bounds(..))));
        assert!(matches!(test(0.0, 5.0, 0.0), Err(SprtError::Rates(..))));
        assert!(matches!(test(0.0, 5.0, 0.6), Err(SprtError::Rates(..))));
    }

    /// Simulates matches whose pairs have a known distribution, and counts those in which the test accepts
    /// H1.
    fn accepted(sprt: &Sprt, distribution: [f64; 5], matches: u32, seed: u64) -> u32 {
        let mut random = SplitMix::new(seed);
        let mut one = || {
            let mut pairs = Pentanomial::default();
            loop {
                // The test is evaluated every ten pairs, which is often enough, and fast.
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

    /// A distribution of pairs whose mean is the expected score for an Elo difference.
    fn pairs_of_elo(elo: f64) -> [f64; 5] {
        let shift = score_of_elo(elo) - 0.5;
        // Moving a probability from 1/4 to 3/4 of the points moves the mean by half of it.
        [0.03, 0.20 - 2.0 * shift, 0.54, 0.20 + 2.0 * shift, 0.03]
            .map(|probability: f64| probability.max(0.0))
    }

    fn nelo_of(pairs: &[f64; 5]) -> f64 {
        let mean: f64 = pairs.iter().zip(POINTS).map(|(p, x)| p * x).sum();
        let variance: f64 = pairs.iter().zip(POINTS).map(|(p, x)| p * (x - mean).powi(2)).sum();
        (mean - 0.5) / (2.0 * variance).sqrt() * NELO_PER_SIGMA
    }

    /// A distribution of pairs with a given normalised Elo difference, found by bisection.
    fn pairs_of_nelo(nelo: f64) -> [f64; 5] {
        let (mut low, mut high) = (-200.0, 200.0);
        for _ in 0..60 {
            let elo = 0.5 * (low + high);
            if nelo_of(&pairs_of_elo(elo)) < nelo { low = elo } else { high = elo }
        }
        pairs_of_elo(low)
    }

    #[test]
    fn simulated_matches_have_the_stated_error_rates() {
        // 2,000 matches for each hypothesis and model. The stated rates are bounds, which overshoot makes a
        // little smaller; three standard deviations of the sampling error are 1.5 %.
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
