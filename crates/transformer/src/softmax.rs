//! Logits as shares of one, whatever they are.

/// How much logits count: they are divided by it before they become probabilities. At 0 the greatest one has all, or
/// shares it with those that are as great; without bound all have the same.
///
/// Probabilities are never other than numbers that add up to one:
///
/// - a logit that is no number (NaN) counts as negative infinity;
/// - negative infinity has no share; if there is nothing else, all have the same;
/// - infinite logits share everything among themselves.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Temperature(f32);

impl Temperature {
    /// Logits as they are.
    pub const ONE: Self = Self(1.0);
    /// The greatest alone.
    pub const ZERO: Self = Self(0.0);

    /// A temperature, if it is a number and not negative.
    pub fn new(temperature: f32) -> Option<Self> {
        (temperature >= 0.0).then_some(Self(temperature))
    }

    /// The number.
    pub fn get(self) -> f32 {
        self.0
    }
}

/// The weights of logits. Divided by their sum they are probabilities: the greatest is one, so the sum of any is not
/// zero.
pub(crate) fn weights(
    logits: impl Iterator<Item = f32> + Clone,
    temperature: Temperature,
) -> impl Iterator<Item = f64> {
    // Of a number and none, `max` gives the number.
    let greatest = logits.clone().fold(f32::NEG_INFINITY, f32::max);
    logits.map(move |logit| {
        let logit = logit.max(f32::NEG_INFINITY);
        if logit == greatest {
            1.0
        } else if logit == f32::NEG_INFINITY || greatest == f32::INFINITY {
            0.0
        } else {
            // A finite number below zero, over what may be zero or infinite: never zero over zero.
            ((f64::from(logit) - f64::from(greatest)) / f64::from(temperature.0)).exp()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFINITY: f32 = f32::INFINITY;

    fn shares<const N: usize>(logits: [f32; N], temperature: f32) -> [f32; N] {
        let weights = weights(logits.into_iter(), Temperature::new(temperature).unwrap());
        let weights: Vec<f64> = weights.collect();
        let sum: f64 = weights.iter().sum();
        std::array::from_fn(|at| (weights[at] / sum) as f32)
    }

    #[test]
    fn logits_become_shares() {
        assert_eq!(shares([0.0, 0.0, 2f32.ln()], 1.0), [0.25, 0.25, 0.5]);
        assert_eq!(shares([1000.0, 1000.0], 1.0), [0.5, 0.5]);
        assert_eq!(shares([f32::MAX, f32::MIN], 1.0), [1.0, 0.0]);
        assert_eq!(shares([0.0, 2f32.ln()], 0.5), [0.2, 0.8]);
    }

    #[test]
    fn what_is_no_logit_has_a_meaning() {
        assert_eq!(shares([INFINITY, 3.0, INFINITY, f32::NAN], 1.0), [0.5, 0.0, 0.5, 0.0]);
        assert_eq!(shares([f32::NAN, -INFINITY, 7.0], 1.0), [0.0, 0.0, 1.0]);
        assert_eq!(shares([f32::NAN, -INFINITY], 1.0), [0.5, 0.5]);
        assert_eq!(shares([-f32::NAN; 4], 1.0), [0.25; 4]);
    }

    #[test]
    fn temperatures_have_ends() {
        assert_eq!(shares([1.0, 3.0, 3.0, f32::NAN], 0.0), [0.0, 0.5, 0.5, 0.0]);
        assert_eq!(shares([1.0, 3.0, -INFINITY], INFINITY), [0.5, 0.5, 0.0]);
        assert_eq!(shares([INFINITY, 1.0], INFINITY), [1.0, 0.0]);
        assert_eq!(Temperature::new(-1.0), None);
        assert_eq!(Temperature::new(f32::NAN), None);
    }
}
