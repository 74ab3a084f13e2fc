//! Linear baseline: one weight for each feature plus a bias. Where it predicts as well as a network, the
//! network is not needed.

use crate::train::Sample;

/// A linear model over feature counts: one weight for each feature and a bias.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearModel {
    weights: Vec<f64>,
    bias: f64,
}

/// Maximum number of conjugate-gradient iterations; each brings the weights closer to the optimum.
const MAX_ITERATIONS: usize = 400;

/// Ridge penalty, which keeps the weights of rare features near zero.
const RIDGE: f64 = 1.0;

impl LinearModel {
    /// Fits a model with `num_features` weights by ridge regression, solving the normal equations by
    /// conjugate gradients.
    pub fn fit(samples: &[Sample], num_features: usize) -> Self {
        let apply = |weights: &[f64]| -> Vec<f64> {
            let mut out: Vec<f64> = weights.iter().map(|weight| RIDGE * weight).collect();
            out[num_features] -= RIDGE * weights[num_features];
            for sample in samples {
                let value = value_of(weights, &sample.features);
                sample.features.iter().for_each(|&feature| out[feature as usize] += value);
                out[num_features] += value;
            }
            out
        };
        let mut residual = vec![0.0; num_features + 1];
        for sample in samples {
            sample.features.iter().for_each(|&feature| residual[feature as usize] += sample.value);
            residual[num_features] += sample.value;
        }
        let mut weights = vec![0.0; num_features + 1];
        let mut direction = residual.clone();
        let mut squared_norm = dot(&residual, &residual);
        let tolerance = squared_norm * 1e-14;
        for _ in 0..MAX_ITERATIONS {
            if squared_norm <= tolerance {
                break;
            }
            let image = apply(&direction);
            let step = squared_norm / dot(&direction, &image).max(f64::MIN_POSITIVE);
            add_scaled(&mut weights, step, &direction);
            add_scaled(&mut residual, -step, &image);
            let next = dot(&residual, &residual);
            let beta = next / squared_norm;
            direction.iter_mut().zip(&residual).for_each(|(old, new)| *old = new + beta * *old);
            squared_norm = next;
        }
        let bias = weights.pop().unwrap_or_default();
        Self { weights, bias }
    }

    /// Prediction for an object with these active features.
    pub fn predict(&self, features: &[u32]) -> f64 {
        self.bias + features.iter().map(|&feature| self.weights[feature as usize]).sum::<f64>()
    }
}

/// Value of a model whose last weight is the bias.
fn value_of(weights: &[f64], features: &[u32]) -> f64 {
    weights[weights.len() - 1] + features.iter().map(|&feature| weights[feature as usize]).sum::<f64>()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add_scaled(to: &mut [f64], factor: f64, vector: &[f64]) {
    to.iter_mut().zip(vector).for_each(|(to, value)| *to += factor * value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_util::random::SplitMix;

    #[test]
    fn a_linear_function_is_recovered() {
        let mut random = SplitMix::new(3);
        let samples: Vec<Sample> = (0..2000)
            .map(|_| {
                let features: Vec<u32> = (0..6).map(|_| random.below(20)).collect();
                let value = 7.0 + features.iter().map(|&feature| f64::from(feature) - 9.0).sum::<f64>();
                Sample { features, value }
            })
            .collect();
        let model = LinearModel::fit(&samples, 20);
        for sample in &samples {
            assert!((model.predict(&sample.features) - sample.value).abs() < 0.2, "{sample:?}");
        }
    }
}
