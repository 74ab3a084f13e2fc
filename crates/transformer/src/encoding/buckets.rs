//! Win probabilities as distributions over equal intervals (buckets), with the boundaries of searchless
//! chess.

use crate::softmax::{Temperature, unnormalised_softmax};

/// Usual standard deviation of an HL-Gauss target (a normal distribution over buckets), in bucket widths.
pub const HL_GAUSS_SIGMA: f64 = 0.75;

/// Scale of the logistic curve from centipawns to win probability, as Lichess fitted it.
const LOGISTIC_SCALE: f64 = 0.003_682_08;

/// Win probability, from 0 to 1, of an evaluation in centipawns, by Lichess's logistic curve.
pub fn win_probability_of_centipawns(centipawns: f64) -> f64 {
    1.0 / (1.0 + (-LOGISTIC_SCALE * centipawns).exp())
}

/// Largest evaluation that a win probability is converted to, because the inverse curve diverges near 0 and
/// 1.
const MAX_CENTIPAWNS: f64 = 5000.0;

/// Evaluation in centipawns that belongs to a win probability by the same curve, at most ±5000; 0 for NaN and
/// values outside 0 to 1.
pub fn centipawns_of_win_probability(probability: f64) -> f64 {
    let odds = probability / (1.0 - probability);
    let centipawns = odds.ln() / LOGISTIC_SCALE;
    if centipawns.is_nan() { 0.0 } else { centipawns.clamp(-MAX_CENTIPAWNS, MAX_CENTIPAWNS) }
}

/// Division of the win probabilities from 0 to 1 into a number of equal intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Buckets(usize);

impl Buckets {
    /// The 128 buckets of searchless chess, which also are the default of recipes.
    pub const SEARCHLESS: Self = Self(128);

    /// The buckets of a head with `count` outputs; `None` if `count` is zero.
    pub fn new(count: usize) -> Option<Self> {
        (count > 0).then_some(Self(count))
    }

    /// Number of buckets, which is the number of logits of the head.
    pub fn count(self) -> usize {
        self.0
    }

    /// Lower boundary of a bucket, rounded as NumPy's `linspace` rounds it.
    fn edge(self, bucket: usize) -> f64 {
        if bucket == self.0 { 1.0 } else { bucket as f64 * (1.0 / self.0 as f64) }
    }

    /// Index of the bucket that contains a win probability. A boundary belongs to the lower bucket; values
    /// below 0 and NaN belong to the first bucket, values above 1 to the last.
    pub fn bucket(self, probability: f64) -> usize {
        let last = self.0 - 1;
        // An estimate that is off by at most one, because the boundaries are rounded.
        let mut bucket = ((probability * self.0 as f64) as usize).min(last);
        while bucket > 0 && self.edge(bucket) >= probability {
            bucket -= 1;
        }
        while bucket < last && self.edge(bucket + 1) < probability {
            bucket += 1;
        }
        bucket
    }

    /// Win probability in the middle of a bucket (interval), which stands for all of it.
    pub fn middle(self, bucket: usize) -> f64 {
        (self.edge(bucket) + self.edge(bucket + 1)) / 2.0
    }

    /// Expected win probability, from 0 to 1, of a distribution given as one probability for each bucket
    /// (interval).
    pub fn expectation(self, probabilities: &[f32]) -> f64 {
        let masses = probabilities.iter().map(|&probability| f64::from(probability));
        masses.enumerate().map(|(bucket, mass)| mass * self.middle(bucket)).sum()
    }

    /// Expected win probability of the softmax of `logits`. Always from 0 to 1, even if logits are infinite
    /// or NaN: see [`Temperature`].
    pub fn win_probability(self, logits: &[f32]) -> f64 {
        let (mut sum, mut total) = (0.0, 0.0);
        for (bucket, weight) in unnormalised_softmax(logits.iter().copied(), Temperature::ONE).enumerate() {
            sum += weight * self.middle(bucket);
            total += weight;
        }
        sum / total
    }

    /// Writes the HL-Gauss target of a win probability: a normal distribution around it with a standard
    /// deviation of `sigma` buckets, usually [`HL_GAUSS_SIGMA`], truncated at 0 and 1. Buckets near the right
    /// one thus cost less than distant ones. Values outside are clamped as by [`Self::bucket`].
    ///
    /// # Panics
    /// If `target` does not have a value for each bucket.
    pub fn hl_gauss(self, probability: f64, sigma: f64, target: &mut [f32]) {
        assert_eq!(target.len(), self.0, "a number for each bucket");
        let probability = if probability.is_nan() { 0.0 } else { probability.clamp(0.0, 1.0) };
        let deviations = |bucket: usize| (self.edge(bucket) - probability) * self.0 as f64 / sigma;
        let whole = normal_between(deviations(0), deviations(self.0));
        for (bucket, mass) in target.iter_mut().enumerate() {
            *mass = (normal_between(deviations(bucket), deviations(bucket + 1)) / whole) as f32;
        }
    }
}

/// Probability mass of the standard normal distribution between two values.
fn normal_between(from: f64, to: f64) -> f64 {
    let above = |deviation: f64| 0.5 * libm::erfc(deviation * std::f64::consts::FRAC_1_SQRT_2);
    // Both tails are computed on the side where they are small, because differences of small values lose no
    // precision.
    if from > 0.0 { above(from) - above(to) } else { above(-to) - above(-from) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::golden;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_boundary_belongs_to_the_lower_bucket() {
        let buckets = Buckets::SEARCHLESS;
        for (probability, bucket) in [
            (0.0, 0),
            (0.001, 0),
            (0.0078125, 0),
            (0.0079, 1),
            (0.25, 31),
            (0.5, 63),
            (0.5000001, 64),
            (0.75, 95),
            (0.9999, 127),
            (1.0, 127),
            (-1.0, 0),
            (2.0, 127),
            (f64::NAN, 0),
            (f64::INFINITY, 127),
        ] {
            assert_eq!(buckets.bucket(probability), bucket, "{probability}");
        }
        assert_eq!(buckets.middle(0), 0.5 / 128.0);
        assert_eq!(buckets.middle(127), 127.5 / 128.0);
        assert_eq!(Buckets::new(0), None);
    }

    #[test]
    #[ignore = "needs reference values"]
    fn win_probabilities_and_buckets_match_searchless_chess() {
        let golden = golden();
        let pairs = |name: &str| -> Vec<(f64, f64)> {
            let pairs = golden[name].as_array().unwrap().iter();
            pairs.map(|pair| (pair[0].as_f64().unwrap(), pair[1].as_f64().unwrap())).collect()
        };
        for (probability, bucket) in pairs("buckets") {
            assert_eq!(Buckets::SEARCHLESS.bucket(probability) as f64, bucket, "{probability}");
        }
        for (centipawns, probability) in pairs("cp_to_wp") {
            assert!((win_probability_of_centipawns(centipawns) - probability).abs() < 1e-15, "{centipawns}");
        }
    }

    #[test]
    fn centipawns_map_to_win_probabilities() {
        for (centipawns, probability) in
            [(-1000.0, 0.02455256365856777), (0.0, 0.5), (20.0, 0.5184020844121936)]
        {
            assert!((win_probability_of_centipawns(centipawns) - probability).abs() < 1e-15);
        }
        assert_eq!(win_probability_of_centipawns(f64::INFINITY), 1.0);
        assert_eq!(win_probability_of_centipawns(f64::NEG_INFINITY), 0.0);
    }

    #[test]
    fn win_probabilities_map_back_to_centipawns() {
        for centipawns in [-4999.0, -300.0, -0.5, 0.0, 1.0, 42.0, 2000.0] {
            let back = centipawns_of_win_probability(win_probability_of_centipawns(centipawns));
            assert!((back - centipawns).abs() < 1e-3, "{centipawns} became {back}");
        }
        let ends = [(0.0, -5000.0), (1.0, 5000.0), (-1.0, 0.0), (2.0, 0.0), (f64::NAN, 0.0)];
        assert!(
            ends.into_iter()
                .all(|(probability, centipawns)| centipawns_of_win_probability(probability) == centipawns)
        );
    }

    #[test]
    fn an_hl_gauss_target_is_a_normal_distribution() {
        let mut target = [0.0; 128];
        Buckets::SEARCHLESS.hl_gauss(64.5 / 128.0, HL_GAUSS_SIGMA, &mut target);
        // The bucket itself reaches two thirds of a deviation to both sides, the next ones to two deviations.
        assert!((f64::from(target[64]) - 0.4950149249).abs() < 1e-7, "{}", target[64]);
        assert!((f64::from(target[65]) - 0.2297424056).abs() < 1e-7, "{}", target[65]);
        assert_eq!(target[63], target[65]);
        assert_eq!(target[0], 0.0);
        // At the boundary half of the distribution is truncated.
        Buckets::SEARCHLESS.hl_gauss(1.0, HL_GAUSS_SIGMA, &mut target);
        assert!((f64::from(target[127]) - 0.8175775605).abs() < 1e-7, "{}", target[127]);
    }

    proptest! {
        #[test]
        fn buckets_contain_their_probabilities(count in 1usize..2000, probability in 0.0f64..=1.0) {
            let buckets = Buckets::new(count).unwrap();
            let bucket = buckets.bucket(probability);
            prop_assert!(bucket == 0 || buckets.edge(bucket) < probability);
            prop_assert!(bucket == count - 1 || probability <= buckets.edge(bucket + 1));
            prop_assert_eq!(buckets.bucket(buckets.middle(bucket)), bucket);
            prop_assert_eq!(buckets.bucket(buckets.edge(bucket + 1)), bucket);
        }

        #[test]
        fn a_target_is_a_distribution_around_its_probability(count in 2usize..300, probability in any::<f64>()) {
            let buckets = Buckets::new(count).unwrap();
            let mut target = vec![f32::NAN; count];
            buckets.hl_gauss(probability, HL_GAUSS_SIGMA, &mut target);
            prop_assert!(target.iter().all(|mass| (0.0..=1.0).contains(mass)));
            prop_assert!((target.iter().map(|&mass| f64::from(mass)).sum::<f64>() - 1.0).abs() < 1e-5);
            let clamped = if probability.is_nan() { 0.0 } else { probability.clamp(0.0, 1.0) };
            prop_assert!((buckets.expectation(&target) - clamped).abs() * (count as f64) < 0.7);
        }

        #[test]
        fn logits_and_probabilities_have_the_same_expectation(logits in prop::collection::vec(-30f32..30.0, 2..200)) {
            let buckets = Buckets::new(logits.len()).unwrap();
            let sum: f32 = logits.iter().map(|logit| logit.exp()).sum();
            let probabilities: Vec<f32> = logits.iter().map(|logit| logit.exp() / sum).collect();
            prop_assert!((buckets.win_probability(&logits) - buckets.expectation(&probabilities)).abs() < 1e-5);
        }

        #[test]
        fn any_logits_give_a_win_probability(logits in prop::collection::vec(any::<f32>(), 2..200)) {
            let probability = Buckets::new(logits.len()).unwrap().win_probability(&logits);
            prop_assert!((0.0..=1.0).contains(&probability));
        }
    }
}
