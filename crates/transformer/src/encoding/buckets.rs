//! Chances to win as equal parts of what lies between losing and winning, as searchless chess cuts them.

use crate::softmax::{Temperature, weights};

/// The usual spread of an HL-Gauss target, in buckets.
pub const SPREAD: f64 = 0.75;

/// How much a centipawn counts: the curve that Lichess measured.
const PER_CENTIPAWN: f64 = 0.003_682_08;

/// The chance to win that an evaluation stands for.
pub fn chance_of_centipawns(centipawns: f64) -> f64 {
    1.0 / (1.0 + (-PER_CENTIPAWN * centipawns).exp())
}

/// No chance stands for more: near certainty the curve has no end.
const MOST_CENTIPAWNS: f64 = 5000.0;

/// The evaluation that a chance to win stands for, up to 50 pawns; that of what is no number is even.
pub fn centipawns_of_chance(chance: f64) -> f64 {
    let odds = chance / (1.0 - chance);
    let centipawns = odds.ln() / PER_CENTIPAWN;
    if centipawns.is_nan() { 0.0 } else { centipawns.clamp(-MOST_CENTIPAWNS, MOST_CENTIPAWNS) }
}

/// Equal parts of the chances from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Buckets(usize);

impl Buckets {
    /// Those of searchless chess.
    pub const SEARCHLESS: Self = Self(128);

    /// So many, if there is one at least.
    pub fn new(count: usize) -> Option<Self> {
        (count > 0).then_some(Self(count))
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.0
    }

    /// Where a bucket begins, rounded as NumPy's `linspace` rounds it.
    fn edge(self, bucket: usize) -> f64 {
        if bucket == self.0 { 1.0 } else { bucket as f64 * (1.0 / self.0 as f64) }
    }

    /// The bucket of a chance. A chance between two buckets belongs to the lower one; one below 0 or above 1 to the
    /// first or last one; what is no number to the first one.
    pub fn bucket(self, chance: f64) -> usize {
        let last = self.0 - 1;
        // Near enough; edges are rounded.
        let mut bucket = ((chance * self.0 as f64) as usize).min(last);
        while bucket > 0 && self.edge(bucket) >= chance {
            bucket -= 1;
        }
        while bucket < last && self.edge(bucket + 1) < chance {
            bucket += 1;
        }
        bucket
    }

    /// The chance that a bucket stands for: its middle.
    pub fn middle(self, bucket: usize) -> f64 {
        (self.edge(bucket) + self.edge(bucket + 1)) / 2.0
    }

    /// The chance that is to be expected from the probabilities of the buckets.
    pub fn expectation(self, probabilities: &[f32]) -> f64 {
        let shares = probabilities.iter().map(|&probability| f64::from(probability));
        shares.enumerate().map(|(bucket, share)| share * self.middle(bucket)).sum()
    }

    /// The chance that is to be expected from the logits of the buckets. Whatever the logits are, it is one:
    /// [`Temperature`] says how.
    pub fn chance(self, logits: &[f32]) -> f64 {
        let (mut sum, mut total) = (0.0, 0.0);
        for (bucket, weight) in weights(logits.iter().copied(), Temperature::ONE).enumerate() {
            sum += weight * self.middle(bucket);
            total += weight;
        }
        sum / total
    }

    /// Writes what a network should answer for a chance: a normal distribution around it with a deviation of `spread`
    /// buckets, [`SPREAD`] as a rule, cut off at 0 and 1 (HL-Gauss). So buckets near the right one are less wrong than
    /// others. Chances outside are taken as by [`Self::bucket`].
    ///
    /// # Panics
    /// If `target` has not a number for each bucket.
    pub fn hl_gauss(self, chance: f64, spread: f64, target: &mut [f32]) {
        assert_eq!(target.len(), self.0, "a number for each bucket");
        let chance = if chance.is_nan() { 0.0 } else { chance.clamp(0.0, 1.0) };
        let deviations = |bucket: usize| (self.edge(bucket) - chance) * self.0 as f64 / spread;
        let whole = normal_between(deviations(0), deviations(self.0));
        for (bucket, share) in target.iter_mut().enumerate() {
            *share = (normal_between(deviations(bucket), deviations(bucket + 1)) / whole) as f32;
        }
    }
}

/// The share of a normal distribution between two deviations from its middle.
fn normal_between(from: f64, to: f64) -> f64 {
    let above = |deviation: f64| 0.5 * libm::erfc(deviation * std::f64::consts::FRAC_1_SQRT_2);
    // Far from the middle shares are small, and differences of small numbers are exact where those of ones are not.
    if from > 0.0 { above(from) - above(to) } else { above(-to) - above(-from) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::golden;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_chance_between_two_buckets_belongs_to_the_lower_one() {
        let buckets = Buckets::SEARCHLESS;
        for (chance, bucket) in [
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
            assert_eq!(buckets.bucket(chance), bucket, "{chance}");
        }
        assert_eq!(buckets.middle(0), 0.5 / 128.0);
        assert_eq!(buckets.middle(127), 127.5 / 128.0);
        assert_eq!(Buckets::new(0), None);
    }

    #[test]
    fn chances_and_buckets_are_those_of_searchless_chess() {
        let Some(golden) = golden() else { return };
        let pairs = |name: &str| -> Vec<(f64, f64)> {
            let pairs = golden[name].as_array().unwrap().iter();
            pairs.map(|pair| (pair[0].as_f64().unwrap(), pair[1].as_f64().unwrap())).collect()
        };
        for (chance, bucket) in pairs("buckets") {
            assert_eq!(Buckets::SEARCHLESS.bucket(chance) as f64, bucket, "{chance}");
        }
        for (centipawns, chance) in pairs("cp_to_wp") {
            assert!((chance_of_centipawns(centipawns) - chance).abs() < 1e-15, "{centipawns}");
        }
    }

    #[test]
    fn evaluations_become_chances() {
        for (centipawns, chance) in [(-1000.0, 0.02455256365856777), (0.0, 0.5), (20.0, 0.5184020844121936)] {
            assert!((chance_of_centipawns(centipawns) - chance).abs() < 1e-15);
        }
        assert_eq!(chance_of_centipawns(f64::INFINITY), 1.0);
        assert_eq!(chance_of_centipawns(f64::NEG_INFINITY), 0.0);
    }

    #[test]
    fn chances_become_evaluations() {
        for centipawns in [-4999.0, -300.0, -0.5, 0.0, 1.0, 42.0, 2000.0] {
            let back = centipawns_of_chance(chance_of_centipawns(centipawns));
            assert!((back - centipawns).abs() < 1e-3, "{centipawns} became {back}");
        }
        let ends = [(0.0, -5000.0), (1.0, 5000.0), (-1.0, 0.0), (2.0, 0.0), (f64::NAN, 0.0)];
        assert!(ends.into_iter().all(|(chance, centipawns)| centipawns_of_chance(chance) == centipawns));
    }

    #[test]
    fn an_hl_gauss_target_is_a_normal_distribution() {
        let mut target = [0.0; 128];
        Buckets::SEARCHLESS.hl_gauss(64.5 / 128.0, SPREAD, &mut target);
        // The bucket itself reaches two thirds of a deviation to both sides, the next ones to two deviations.
        assert!((f64::from(target[64]) - 0.4950149249).abs() < 1e-7, "{}", target[64]);
        assert!((f64::from(target[65]) - 0.2297424056).abs() < 1e-7, "{}", target[65]);
        assert_eq!(target[63], target[65]);
        assert_eq!(target[0], 0.0);
        // At the end half of it is cut off.
        Buckets::SEARCHLESS.hl_gauss(1.0, SPREAD, &mut target);
        assert!((f64::from(target[127]) - 0.8175775605).abs() < 1e-7, "{}", target[127]);
    }

    proptest! {
        #[test]
        fn buckets_hold_what_falls_into_them(count in 1usize..2000, chance in 0.0f64..=1.0) {
            let buckets = Buckets::new(count).unwrap();
            let bucket = buckets.bucket(chance);
            prop_assert!(bucket == 0 || buckets.edge(bucket) < chance);
            prop_assert!(bucket == count - 1 || chance <= buckets.edge(bucket + 1));
            prop_assert_eq!(buckets.bucket(buckets.middle(bucket)), bucket);
            prop_assert_eq!(buckets.bucket(buckets.edge(bucket + 1)), bucket);
        }

        #[test]
        fn a_target_is_a_distribution_around_its_chance(count in 2usize..300, chance in any::<f64>()) {
            let buckets = Buckets::new(count).unwrap();
            let mut target = vec![f32::NAN; count];
            buckets.hl_gauss(chance, SPREAD, &mut target);
            prop_assert!(target.iter().all(|share| (0.0..=1.0).contains(share)));
            prop_assert!((target.iter().map(|&share| f64::from(share)).sum::<f64>() - 1.0).abs() < 1e-5);
            let told = if chance.is_nan() { 0.0 } else { chance.clamp(0.0, 1.0) };
            prop_assert!((buckets.expectation(&target) - told).abs() * (count as f64) < 0.7);
        }

        #[test]
        fn logits_and_probabilities_tell_the_same(logits in prop::collection::vec(-30f32..30.0, 2..200)) {
            let buckets = Buckets::new(logits.len()).unwrap();
            let sum: f32 = logits.iter().map(|logit| logit.exp()).sum();
            let probabilities: Vec<f32> = logits.iter().map(|logit| logit.exp() / sum).collect();
            prop_assert!((buckets.chance(&logits) - buckets.expectation(&probabilities)).abs() < 1e-5);
        }

        #[test]
        fn a_chance_is_one_whatever_the_logits(logits in prop::collection::vec(any::<f32>(), 2..200)) {
            let chance = Buckets::new(logits.len()).unwrap().chance(&logits);
            prop_assert!((0.0..=1.0).contains(&chance));
        }
    }
}
