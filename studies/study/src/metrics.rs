//! Metrics that compare predictions with true values, or one set with another.

/// Errors and correlation of predictions against true values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitQuality {
    /// Number of pairs of prediction and true value that were compared.
    pub count: usize,
    /// Pearson's correlation coefficient, from -1 to 1; a constant offset of the predictions does not change
    /// it.
    pub correlation: f64,
    /// Root mean square error (RMSE), in the unit of the values.
    pub rmse: f64,
    /// Mean absolute error (MAE), in the unit of the values.
    pub mae: f64,
    /// Standard deviation of the true values, which is the root mean square error of the best constant
    /// prediction.
    pub std_dev: f64,
}

impl FitQuality {
    /// Compares predictions with true values, given as pairs of both. Without pairs all metrics are 0.
    pub fn of(pairs: &[(f64, f64)]) -> Self {
        let count = pairs.len().max(1) as f64;
        let mean = |value: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(value).sum::<f64>() / count;
        let (predicted_mean, true_mean) = (mean(&|pair| pair.0), mean(&|pair| pair.1));
        let covariance = mean(&|pair| (pair.0 - predicted_mean) * (pair.1 - true_mean));
        let predicted_std_dev = mean(&|pair| (pair.0 - predicted_mean).powi(2)).sqrt();
        let std_dev = mean(&|pair| (pair.1 - true_mean).powi(2)).sqrt();
        Self {
            count: pairs.len(),
            correlation: covariance / (predicted_std_dev * std_dev).max(f64::MIN_POSITIVE),
            rmse: mean(&|pair| (pair.0 - pair.1).powi(2)).sqrt(),
            mae: mean(&|pair| (pair.0 - pair.1).abs()),
            std_dev,
        }
    }
}

/// Mean of a set of values with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanWithError {
    /// Arithmetic mean; 0 without values.
    pub mean: f64,
    /// Standard error of the mean; 0 for fewer than two values.
    pub error: f64,
}

impl MeanWithError {
    /// Computes both from a set of values, with the unbiased variance.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance =
            values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        Self { mean, error: (variance / count).sqrt() }
    }
}

/// Minimum of some times: the cost of an operation without interference from other processes. Infinite
/// without any.
pub fn fastest(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

/// F1 score, the harmonic mean of precision and recall, of one set against another, from 0 to 1. Two empty
/// sets score 1.
pub fn f1_score<T: PartialEq>(found: &[T], expected: &[T]) -> f64 {
    if found.is_empty() && expected.is_empty() {
        return 1.0;
    }
    let both = found.iter().filter(|item| expected.contains(item)).count();
    2.0 * both as f64 / (found.len() + expected.len()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_is_an_error_but_keeps_the_correlation() {
        let fit = FitQuality::of(&[(3.0, 1.0), (4.0, 2.0), (5.0, 3.0)]);
        assert!((fit.correlation - 1.0).abs() < 1e-12);
        assert_eq!((fit.rmse, fit.mae, fit.count), (2.0, 2.0, 3));
        assert!((fit.std_dev - (2.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!(FitQuality::of(&[]).correlation.is_finite());
    }

    #[test]
    fn the_standard_error_is_that_of_the_mean() {
        let few = MeanWithError::of(&[1.0, 3.0]);
        assert_eq!(few, MeanWithError { mean: 2.0, error: 1.0 });
        assert_eq!(MeanWithError::of(&[5.0]), MeanWithError { mean: 5.0, error: 0.0 });
    }

    #[test]
    fn slow_rounds_do_not_count() {
        assert_eq!(fastest(&[3.0, 1e9, 1.0, 2.0]), 1.0);
    }

    #[test]
    fn sets_are_compared() {
        assert_eq!(f1_score(&[1, 2], &[2, 3]), 0.5);
        assert_eq!(f1_score::<u8>(&[], &[]), 1.0);
        assert_eq!(f1_score(&[1], &[]), 0.0);
    }
}
