//! Softmax that returns probabilities for any logits, even infinite ones and NaN.

/// Softmax temperature: logits are divided by it. At 0 the greatest logit gets all probability, shared with
/// those equal to it; at infinity all finite logits get the same.
///
/// Results always are probabilities that add up to one:
///
/// - NaN counts as negative infinity;
/// - negative infinity has probability zero, unless there is nothing else: then all have the same;
/// - positive infinities share all probability equally.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Temperature(f32);

impl Temperature {
    /// Temperature 1, which leaves the logits as they are: the usual softmax.
    pub const ONE: Self = Self(1.0);
    /// Selects the greatest logit: the limit of low temperatures.
    pub const ZERO: Self = Self(0.0);

    /// Creates a temperature; `None` if it is negative or NaN.
    pub fn new(temperature: f32) -> Option<Self> {
        (temperature >= 0.0).then_some(Self(temperature))
    }

    /// The temperature, from 0 to infinity, both of which are allowed.
    pub fn get(self) -> f32 {
        self.0
    }
}

/// Softmax before normalisation: divided by their sum, the weights are probabilities. The greatest logit has
/// weight one, so the sum is never zero.
pub(crate) fn unnormalised_softmax(
    logits: impl Iterator<Item = f32> + Clone,
    temperature: Temperature,
) -> impl Iterator<Item = f64> {
    // `f32::max` ignores NaN.
    let greatest = logits.clone().fold(f32::NEG_INFINITY, f32::max);
    logits.map(move |logit| {
        let logit = logit.max(f32::NEG_INFINITY);
        if logit == greatest {
            1.0
        } else if logit == f32::NEG_INFINITY || greatest == f32::INFINITY {
            0.0
        } else {
            // The numerator is finite and negative, so that a temperature of zero or infinity gives an
            // exponent of -infinity or -0, never NaN.
            ((f64::from(logit) - f64::from(greatest)) / f64::from(temperature.0)).exp()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFINITY: f32 = f32::INFINITY;

    fn softmax<const N: usize>(logits: [f32; N], temperature: f32) -> [f32; N] {
        let weights = unnormalised_softmax(logits.into_iter(), Temperature::new(temperature).unwrap());
        let weights: Vec<f64> = weights.collect();
        let sum: f64 = weights.iter().sum();
        std::array::from_fn(|at| (weights[at] / sum) as f32)
    }

    #[test]
    fn probabilities_are_proportional_to_powers() {
        assert_eq!(softmax([0.0, 0.0, 2f32.ln()], 1.0), [0.25, 0.25, 0.5]);
        assert_eq!(softmax([1000.0, 1000.0], 1.0), [0.5, 0.5]);
        assert_eq!(softmax([f32::MAX, f32::MIN], 1.0), [1.0, 0.0]);
        assert_eq!(softmax([0.0, 2f32.ln()], 0.5), [0.2, 0.8]);
    }

    #[test]
    fn infinities_and_nan_give_probabilities() {
        assert_eq!(softmax([INFINITY, 3.0, INFINITY, f32::NAN], 1.0), [0.5, 0.0, 0.5, 0.0]);
        assert_eq!(softmax([f32::NAN, -INFINITY, 7.0], 1.0), [0.0, 0.0, 1.0]);
        assert_eq!(softmax([f32::NAN, -INFINITY], 1.0), [0.5, 0.5]);
        assert_eq!(softmax([-f32::NAN; 4], 1.0), [0.25; 4]);
    }

    #[test]
    fn temperatures_of_zero_and_infinity_are_limits() {
        assert_eq!(softmax([1.0, 3.0, 3.0, f32::NAN], 0.0), [0.0, 0.5, 0.5, 0.0]);
        assert_eq!(softmax([1.0, 3.0, -INFINITY], INFINITY), [0.5, 0.5, 0.0]);
        assert_eq!(softmax([INFINITY, 1.0], INFINITY), [1.0, 0.0]);
        assert_eq!(Temperature::new(-1.0), None);
        assert_eq!(Temperature::new(f32::NAN), None);
    }
}
