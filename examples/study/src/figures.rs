//! Figures that say how near one row of numbers is to another.

/// How near predictions are to the truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// How many there are.
    pub count: usize,
    /// Pearson's coefficient of correlation.
    pub correlation: f64,
    /// The root of the mean square of the errors.
    pub rms: f64,
    /// The mean of their sizes.
    pub mean: f64,
    /// The spread of the truth, which a constant would have for its error.
    pub spread: f64,
}

impl Fit {
    /// Compares predictions with the truth, pair by pair.
    pub fn of(pairs: &[(f64, f64)]) -> Self {
        let count = pairs.len().max(1) as f64;
        let mean = |value: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(value).sum::<f64>() / count;
        let (said, true_mean) = (mean(&|pair| pair.0), mean(&|pair| pair.1));
        let covariance = mean(&|pair| (pair.0 - said) * (pair.1 - true_mean));
        let said_spread = mean(&|pair| (pair.0 - said).powi(2)).sqrt();
        let spread = mean(&|pair| (pair.1 - true_mean).powi(2)).sqrt();
        Self {
            count: pairs.len(),
            correlation: covariance / (said_spread * spread).max(f64::MIN_POSITIVE),
            rms: mean(&|pair| (pair.0 - pair.1).powi(2)).sqrt(),
            mean: mean(&|pair| (pair.0 - pair.1).abs()),
            spread,
        }
    }
}

/// The mean of some numbers, and how far from it they lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard error of the mean.
    pub error: f64,
}

impl Spread {
    /// Of some numbers.
    pub fn of(numbers: &[f64]) -> Self {
        let count = numbers.len().max(1) as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let variance =
            numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        Self { mean, error: (variance / count).sqrt() }
    }
}

/// The least of some times: what a thing takes when nobody is in its way.
pub fn fastest(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The harmonic mean of precision and recall of one set against another. Two empty sets are the same.
pub fn f1<T: PartialEq>(found: &[T], wanted: &[T]) -> f64 {
    if found.is_empty() && wanted.is_empty() {
        return 1.0;
    }
    let both = found.iter().filter(|item| wanted.contains(item)).count();
    2.0 * both as f64 / (found.len() + wanted.len()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_is_an_error_and_no_lack_of_correlation() {
        let fit = Fit::of(&[(3.0, 1.0), (4.0, 2.0), (5.0, 3.0)]);
        assert!((fit.correlation - 1.0).abs() < 1e-12);
        assert_eq!((fit.rms, fit.mean, fit.count), (2.0, 2.0, 3));
        assert!((fit.spread - (2.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!(Fit::of(&[]).correlation.is_finite());
    }

    #[test]
    fn the_error_of_a_mean_shrinks_with_the_numbers() {
        let few = Spread::of(&[1.0, 3.0]);
        assert_eq!(few, Spread { mean: 2.0, error: 1.0 });
        assert_eq!(Spread::of(&[5.0]), Spread { mean: 5.0, error: 0.0 });
    }

    #[test]
    fn slow_moments_do_not_count() {
        assert_eq!(fastest(&[3.0, 1e9, 1.0, 2.0]), 1.0);
    }

    #[test]
    fn sets_are_compared() {
        assert_eq!(f1(&[1, 2], &[2, 3]), 0.5);
        assert_eq!(f1::<u8>(&[], &[]), 1.0);
        assert_eq!(f1(&[1], &[]), 0.0);
    }
}
