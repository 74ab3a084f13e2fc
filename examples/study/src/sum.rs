//! The best plain sum: a number for each row, added up. Where a sum says all there is to say, a network is not needed.

use crate::learn::Sample;

/// A number for each row and one for all.
#[derive(Clone, Debug, PartialEq)]
pub struct Sum {
    weights: Vec<f64>,
    bias: f64,
}

/// Steps of the solver; each brings a sum of so many rows nearer to the best.
const STEPS: usize = 400;

/// Rows that hardly ever are on should stay near zero.
const RIDGE: f64 = 1.0;

impl Sum {
    /// The sum with the least square of errors, by conjugate gradients on the normal equations.
    pub fn fit(samples: &[Sample], rows: usize) -> Self {
        let apply = |weights: &[f64]| -> Vec<f64> {
            let mut out: Vec<f64> = weights.iter().map(|weight| RIDGE * weight).collect();
            out[rows] -= RIDGE * weights[rows];
            for sample in samples {
                let value = value_of(weights, &sample.rows);
                sample.rows.iter().for_each(|&row| out[row as usize] += value);
                out[rows] += value;
            }
            out
        };
        let mut residual = vec![0.0; rows + 1];
        for sample in samples {
            sample.rows.iter().for_each(|&row| residual[row as usize] += sample.value);
            residual[rows] += sample.value;
        }
        let mut weights = vec![0.0; rows + 1];
        let mut direction = residual.clone();
        let mut size = dot(&residual, &residual);
        let small = size * 1e-14;
        for _ in 0..STEPS {
            if size <= small {
                break;
            }
            let image = apply(&direction);
            let step = size / dot(&direction, &image).max(f64::MIN_POSITIVE);
            add(&mut weights, step, &direction);
            add(&mut residual, -step, &image);
            let next = dot(&residual, &residual);
            let share = next / size;
            direction.iter_mut().zip(&residual).for_each(|(old, new)| *old = new + share * *old);
            size = next;
        }
        let bias = weights.pop().unwrap_or_default();
        Self { weights, bias }
    }

    /// The sum for the rows that are on.
    pub fn of(&self, rows: &[u32]) -> f64 {
        self.bias + rows.iter().map(|&row| self.weights[row as usize]).sum::<f64>()
    }
}

/// The last weight counts always.
fn value_of(weights: &[f64], rows: &[u32]) -> f64 {
    weights[weights.len() - 1] + rows.iter().map(|&row| weights[row as usize]).sum::<f64>()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], times: f64, what: &[f64]) {
    to.iter_mut().zip(what).for_each(|(to, what)| *to += times * what);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_chess::random::SplitMix;

    #[test]
    fn a_sum_is_found_again() {
        let mut random = SplitMix::new(3);
        let samples: Vec<Sample> = (0..2000)
            .map(|_| {
                let rows: Vec<u32> = (0..6).map(|_| random.below(20)).collect();
                let value = 7.0 + rows.iter().map(|&row| f64::from(row) - 9.0).sum::<f64>();
                Sample { rows, value }
            })
            .collect();
        let sum = Sum::fit(&samples, 20);
        for sample in &samples {
            assert!((sum.of(&sample.rows) - sample.value).abs() < 0.2, "{sample:?}");
        }
    }
}
