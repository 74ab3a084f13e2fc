//! Optimisers: the update rules of the parameters, with the names and formulas of their papers and of
//! PyTorch.
//!
//! One step is computed in two parts: [`Optimiser::update`] finds the coefficients of the step once, and
//! [`Update::apply`] is called for each slice of the parameters. `cuda/step.cu` has the same formulas for
//! GPUs.

use crate::kinds::{Field, kinds};
use crate::recipe::{ALMOST_ONE, RecipeError, within};
use toml::Value;

kinds! {
    /// An optimiser with its hyperparameters, as the table `optimiser` of a recipe gives it. The key `kind`
    /// names it; `adam` is another name of `adamw`, whose weight decay is 0 by default.
    ///
    /// NNUEs and selectors can be trained with all of them, transformers with AdamW, NAdam and Adadelta.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub enum Optimiser {
        /// Stochastic gradient descent (SGD) with momentum, mostly useful for tests, because its step is easy
        /// to compute by hand.
        Sgd = "sgd" {
            /// Momentum, from 0 to below 1; default 0, plain gradient descent.
            momentum: f64 = 0.0,
        },
        /// Adam (Kingma and Ba, 2014) with decoupled weight decay (Loshchilov and Hutter, 2017).
        AdamW = "adamw" {
            /// Decay of the first moment, the running mean of gradients; default 0.9.
            beta1: f64 = 0.9,
            /// Decay of the second moment, the running mean of squared gradients; default 0.999.
            beta2: f64 = 0.999,
            /// Decoupled weight decay: each step multiplies weights by 1 − lr × this; default 0.01.
            weight_decay: f64 = 0.01,
            /// Added to the root of the second moment; default 1e-8. It damps weights whose gradients are
            /// smaller than that, which are those of rarely active features: with little data, 1e-6 keeps
            /// them from memorising single positions.
            epsilon: f64 = 1e-8,
        },
        /// RAdam (Liu and others, 2019): Adam whose step is corrected for the variance of its early
        /// estimates.
        RAdam = "radam" {
            /// Decay of the first moment, the running mean of gradients; default 0.9, as in the paper.
            beta1: f64 = 0.9,
            /// Decay of the second moment, the running mean of squared gradients; default 0.999.
            beta2: f64 = 0.999,
            /// Decoupled weight decay as for AdamW; default 0.
            weight_decay: f64 = 0.0,
            /// Added to the root of the second moment, as for AdamW; default 1e-8.
            epsilon: f64 = 1e-8,
        },
        /// Ranger: RAdam with Lookahead (Zhang and others, 2019), whose slow weights move towards the fast
        /// ones at intervals.
        Ranger = "ranger" {
            /// Decay of the first moment; default 0.99, higher than Adam's, as in Stockfish's training.
            beta1: f64 = 0.99,
            /// Decay of the second moment, the running mean of squared gradients; default 0.999.
            beta2: f64 = 0.999,
            /// Decoupled weight decay as for AdamW; default 0.
            weight_decay: f64 = 0.0,
            /// Added to the root of the second moment, as for AdamW; default 1e-8.
            epsilon: f64 = 1e-8,
            /// Steps between two synchronisations of slow and fast weights (k in the paper); default 6.
            lookahead_steps: u64 = 6,
            /// Fraction of the way that the slow weights move towards the fast ones (alpha in the paper);
            /// default 0.5.
            lookahead_alpha: f64 = 0.5,
        },
        /// Adam with Nesterov momentum (Dozat, 2016), with the defaults that lc0's networks are trained with.
        NAdam = "nadam" {
            /// Decay of the first moment, the running mean of gradients; default 0.9.
            beta1: f64 = 0.9,
            /// Decay of the second moment, the running mean of squared gradients; default 0.98.
            beta2: f64 = 0.98,
            /// Decoupled weight decay as for AdamW; default 0.
            weight_decay: f64 = 0.0,
            /// Added to the root of the second moment; default 1e-7.
            epsilon: f64 = 1e-7,
        },
        /// Adadelta (Zeiler, 2012), whose step size follows the size of the previous steps.
        Adadelta = "adadelta" {
            /// Decay of the running means of squared gradients and of squared steps; default 0.9.
            rho: f64 = 0.9,
            /// Added to both means before the root, so that the first steps are not zero; default 1e-6.
            epsilon: f64 = 1e-6,
            /// Decoupled weight decay as for AdamW; default 0.
            weight_decay: f64 = 0.0,
        },
    }
}

impl Default for Optimiser {
    fn default() -> Self {
        Self::AdamW { beta1: 0.9, beta2: 0.999, weight_decay: 0.01, epsilon: 1e-8 }
    }
}

impl Field for Optimiser {
    fn from_value(value: Value) -> Result<Self, String> {
        let Value::Table(mut table) = value else {
            return Err(format!("a table with the key `kind` is expected, not {value}"));
        };
        if table.get("kind").and_then(Value::as_str) == Some("adam") {
            table.insert("kind".into(), "adamw".into());
            table.entry("weight_decay").or_insert(Value::Float(0.0));
        }
        Self::from_table(table)
    }

    fn to_value(&self) -> Value {
        self.table().into()
    }
}

/// Optimiser state of each parameter: the buffers that a [`State`](crate::State) has to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptimiserBuffers {
    /// `exp_avg`: running mean of gradients; momentum for SGD, and squared steps for Adadelta.
    pub exp_avg: bool,
    /// `exp_avg_sq`: running mean of squared gradients, for all but SGD.
    pub exp_avg_sq: bool,
    /// `slow_weights`: a second copy of the parameters for Lookahead, which only Ranger has.
    pub slow_weights: bool,
}

/// Range that parameters are clamped to after each step: the one that the quantised network can hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClampRange {
    /// Lower bound, to which each step clamps smaller parameters; minus infinity for none.
    pub min: f32,
    /// Upper bound, to which each step clamps larger parameters; infinity for none.
    pub max: f32,
}

impl ClampRange {
    /// No clamping, for parameters whose quantised form has bits to spare.
    pub const UNBOUNDED: Self = Self { min: f32::NEG_INFINITY, max: f32::INFINITY };

    /// The symmetric range from `-max` to `max`, which weights of a quantised layer have.
    pub fn symmetric(max: f32) -> Self {
        Self { min: -max, max }
    }
}

/// Coefficients of one step, computed once for all parameters because they do not depend on the gradient.
#[derive(Clone, Copy, Debug)]
pub struct Update {
    pub(crate) optimiser: Optimiser,
    pub(crate) lr: f32,
    pub(crate) beta1: f32,
    pub(crate) beta2: f32,
    /// Factor of the first moment in the step. It corrects the bias towards zero, the initial value:
    /// 1 / (1 − beta1^t), except in NAdam.
    pub(crate) avg_factor: f32,
    /// Factor of the gradient in NAdam's step; zero for other optimisers.
    pub(crate) grad_factor: f32,
    /// Factor that corrects the bias of the second moment: 1 / (1 − beta2^t).
    pub(crate) bias_correction2: f32,
    /// Factor that the decoupled weight decay applies to each weight.
    pub(crate) decay_factor: f32,
    /// Rectification of RAdam's step; 1 for other optimisers, and `None` in RAdam's first steps, which ignore
    /// the second moment.
    pub(crate) rectification: Option<f32>,
    /// True if Lookahead synchronises slow and fast weights after this step.
    pub(crate) sync_slow: bool,
    /// Factor of all gradients, below 1 if their norm is clipped.
    pub(crate) grad_scale: f32,
    pub(crate) epsilon: f32,
}

impl Optimiser {
    /// Checks the ranges of all hyperparameters; the error names the key.
    pub(crate) fn check(&self) -> Result<(), RecipeError> {
        for (key, value) in self.table() {
            let (key, min, max) = match key.as_str() {
                "momentum" => ("optimiser.momentum", 0.0, ALMOST_ONE),
                "beta1" => ("optimiser.beta1", 0.0, ALMOST_ONE),
                "beta2" => ("optimiser.beta2", 0.0, ALMOST_ONE),
                "rho" => ("optimiser.rho", 0.0, ALMOST_ONE),
                "weight_decay" => ("optimiser.weight_decay", 0.0, 1e6),
                // Zero would divide zero by zero: features that were never active have no gradient.
                "epsilon" => ("optimiser.epsilon", 1e-30, 1.0),
                "lookahead_steps" => ("optimiser.lookahead_steps", 1.0, u64::MAX as f64),
                "lookahead_alpha" => ("optimiser.lookahead_alpha", 0.0, 1.0),
                _ => continue,
            };
            within(key, f64::from_value(value).unwrap_or(f64::NAN), min, max)?;
        }
        Ok(())
    }

    /// Buffers that the optimiser keeps for each parameter; plain SGD needs none of them.
    pub fn buffers(self) -> OptimiserBuffers {
        OptimiserBuffers {
            exp_avg: !matches!(self, Self::Sgd { momentum: 0.0 }),
            exp_avg_sq: !matches!(self, Self::Sgd { .. }),
            slow_weights: matches!(self, Self::Ranger { .. }),
        }
    }

    /// Coefficients of a step, counted from zero, at a learning rate.
    pub fn update(self, step: u64, lr: f64) -> Update {
        let count = (step + 1) as f64;
        let (beta1, beta2, weight_decay, epsilon) = match self {
            Self::Sgd { momentum } => (momentum, 0.0, 0.0, 0.0),
            Self::AdamW { beta1, beta2, weight_decay, epsilon }
            | Self::RAdam { beta1, beta2, weight_decay, epsilon }
            | Self::NAdam { beta1, beta2, weight_decay, epsilon }
            | Self::Ranger { beta1, beta2, weight_decay, epsilon, .. } => {
                (beta1, beta2, weight_decay, epsilon)
            }
            Self::Adadelta { rho, epsilon, weight_decay } => (rho, rho, weight_decay, epsilon),
        };
        let (beta1_power, beta2_power) = (beta1.powf(count), beta2.powf(count));
        let rectification = match self {
            Self::RAdam { .. } | Self::Ranger { .. } => {
                let rho_max = 2.0 / (1.0 - beta2) - 1.0;
                let rho_t = rho_max - 2.0 * count * beta2_power / (1.0 - beta2_power);
                // With five or fewer effective samples the variance is not tractable (section 4 of the
                // paper).
                (rho_t > 5.0).then(|| {
                    let ratio =
                        (rho_t - 4.0) * (rho_t - 2.0) * rho_max / ((rho_max - 4.0) * (rho_max - 2.0) * rho_t);
                    ratio.sqrt() as f32
                })
            }
            _ => Some(1.0),
        };
        let (avg_factor, grad_factor) = match self {
            Self::NAdam { beta1, .. } => nadam_factors(beta1, step + 1),
            _ => (1.0 / (1.0 - beta1_power), 0.0),
        };
        let sync_slow = matches!(self, Self::Ranger { lookahead_steps, .. } if (step + 1).is_multiple_of(lookahead_steps.max(1)));
        Update {
            optimiser: self,
            lr: lr as f32,
            beta1: beta1 as f32,
            beta2: beta2 as f32,
            avg_factor: avg_factor as f32,
            grad_factor: grad_factor as f32,
            bias_correction2: (1.0 / (1.0 - beta2_power)) as f32,
            decay_factor: (1.0 - lr * weight_decay) as f32,
            rectification,
            sync_slow,
            grad_scale: 1.0,
            epsilon: epsilon as f32,
        }
    }
}

/// Momentum coefficient of a step of NAdam, counted from one. It grows from beta1 / 2 to beta1 (Dozat, 2016,
/// with a decay of 0.004).
pub fn nadam_momentum(beta1: f64, step: f64) -> f64 {
    beta1 * (1.0 - 0.5 * 0.96f64.powf(step * 0.004))
}

/// Product of the momentum coefficients of the first steps of NAdam.
pub fn nadam_momentum_product(beta1: f64, steps: u64) -> f64 {
    let mut product = 1.0;
    for step in 1..=steps {
        product *= nadam_momentum(beta1, step as f64);
        if product < f64::EPSILON / 4.0 {
            // It is subtracted from 1, which from here on gives exactly 1.
            return 0.0;
        }
    }
    product
}

/// Factors of the first moment and of the gradient in a step of NAdam, counted from one.
fn nadam_factors(beta1: f64, step: u64) -> (f64, f64) {
    let (momentum, next) = (nadam_momentum(beta1, step as f64), nadam_momentum(beta1, (step + 1) as f64));
    let product = nadam_momentum_product(beta1, step);
    (next / (1.0 - product * next), (1.0 - momentum) / (1.0 - product))
}

impl Update {
    /// The same step with all gradients multiplied by a factor first, which clips their norm.
    pub fn with_grad_scale(self, grad_scale: f32) -> Self {
        Self { grad_scale, ..self }
    }

    /// Updates parameters in place. All slices must cover the same range of the flat buffers; buffers that
    /// the optimiser does not need are empty.
    #[inline(always)]
    pub fn apply(
        &self,
        weights: &mut [f32],
        grads: &[f32],
        exp_avg: &mut [f32],
        exp_avg_sq: &mut [f32],
        slow_weights: &mut [f32],
        range: ClampRange,
    ) {
        let clamped = |weight: f32| weight.clamp(range.min, range.max);
        let grad_scale = self.grad_scale;
        match self.optimiser {
            Optimiser::Sgd { .. } if exp_avg.is_empty() => {
                for (weight, grad) in weights.iter_mut().zip(grads) {
                    *weight = clamped(*weight - self.lr * (grad_scale * grad));
                }
            }
            Optimiser::Sgd { .. } => {
                for ((weight, grad), exp_avg) in weights.iter_mut().zip(grads).zip(exp_avg) {
                    *exp_avg = self.beta1 * *exp_avg + grad_scale * grad;
                    *weight = clamped(*weight - self.lr * *exp_avg);
                }
            }
            Optimiser::Adadelta { .. } => {
                let epsilon = self.epsilon;
                for (((weight, grad), exp_avg), exp_avg_sq) in
                    weights.iter_mut().zip(grads).zip(exp_avg).zip(exp_avg_sq)
                {
                    let grad = grad_scale * grad;
                    *exp_avg_sq = self.beta2 * *exp_avg_sq + (1.0 - self.beta2) * grad * grad;
                    let step = ((*exp_avg + epsilon) / (*exp_avg_sq + epsilon)).sqrt() * grad;
                    *exp_avg = self.beta1 * *exp_avg + (1.0 - self.beta1) * step * step;
                    *weight = clamped(*weight * self.decay_factor - self.lr * step);
                }
            }
            Optimiser::AdamW { .. } | Optimiser::RAdam { .. } => {
                self.adam(weights, grads, exp_avg, exp_avg_sq, clamped);
            }
            Optimiser::NAdam { .. } => {
                for (((weight, grad), exp_avg), exp_avg_sq) in
                    weights.iter_mut().zip(grads).zip(exp_avg).zip(exp_avg_sq)
                {
                    let grad = grad_scale * grad;
                    *exp_avg = self.beta1 * *exp_avg + (1.0 - self.beta1) * grad;
                    *exp_avg_sq = self.beta2 * *exp_avg_sq + (1.0 - self.beta2) * grad * grad;
                    let step = (self.grad_factor * grad + self.avg_factor * *exp_avg)
                        / ((*exp_avg_sq * self.bias_correction2).sqrt() + self.epsilon);
                    *weight = clamped(*weight * self.decay_factor - self.lr * step);
                }
            }
            Optimiser::Ranger { lookahead_alpha, .. } => {
                self.adam(weights, grads, exp_avg, exp_avg_sq, clamped);
                if self.sync_slow {
                    for (weight, slow_weight) in weights.iter_mut().zip(slow_weights) {
                        *slow_weight += lookahead_alpha as f32 * (*weight - *slow_weight);
                        *weight = *slow_weight;
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn adam(
        &self,
        weights: &mut [f32],
        grads: &[f32],
        exp_avg: &mut [f32],
        exp_avg_sq: &mut [f32],
        clamped: impl Fn(f32) -> f32,
    ) {
        let lr = self.lr * self.avg_factor * self.rectification.unwrap_or(1.0);
        for (((weight, grad), exp_avg), exp_avg_sq) in
            weights.iter_mut().zip(grads).zip(exp_avg).zip(exp_avg_sq)
        {
            let grad = self.grad_scale * grad;
            *exp_avg = self.beta1 * *exp_avg + (1.0 - self.beta1) * grad;
            *exp_avg_sq = self.beta2 * *exp_avg_sq + (1.0 - self.beta2) * grad * grad;
            let scale = if self.rectification.is_some() {
                (*exp_avg_sq * self.bias_correction2).sqrt() + self.epsilon
            } else {
                1.0
            };
            *weight = clamped(*weight * self.decay_factor - lr * *exp_avg / scale);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::state::State;

    pub(crate) const ALL: [Optimiser; 7] = [
        Optimiser::Sgd { momentum: 0.0 },
        Optimiser::Sgd { momentum: 0.9 },
        Optimiser::AdamW { beta1: 0.9, beta2: 0.999, weight_decay: 0.0, epsilon: 1e-8 },
        Optimiser::RAdam { beta1: 0.9, beta2: 0.999, weight_decay: 0.0, epsilon: 1e-8 },
        Optimiser::Ranger {
            beta1: 0.9,
            beta2: 0.999,
            weight_decay: 0.0,
            epsilon: 1e-8,
            lookahead_steps: 6,
            lookahead_alpha: 0.5,
        },
        Optimiser::NAdam { beta1: 0.9, beta2: 0.98, weight_decay: 0.0, epsilon: 1e-7 },
        Optimiser::Adadelta { rho: 0.9, epsilon: 1e-6, weight_decay: 0.0 },
    ];

    fn run(
        optimiser: Optimiser,
        lr: f64,
        steps: u64,
        weights: &mut [f32],
        grad: impl Fn(f32) -> f32,
        range: ClampRange,
    ) {
        let mut state = State::new(weights.to_vec(), optimiser, false);
        for step in 0..steps {
            let grads: Vec<f32> = weights.iter().map(|&weight| grad(weight)).collect();
            let State { exp_avg, exp_avg_sq, slow_weights, .. } = &mut state;
            optimiser.update(step, lr).apply(weights, &grads, exp_avg, exp_avg_sq, slow_weights, range);
        }
    }

    #[test]
    fn all_optimisers_minimise_a_quadratic() {
        for optimiser in ALL {
            let lr = match optimiser {
                Optimiser::Sgd { .. } => 0.02,
                Optimiser::Adadelta { .. } => 10.0,
                _ => 0.02,
            };
            let mut weights = [3.0, -2.0, 0.5];
            run(optimiser, lr, 2000, &mut weights, |weight| 2.0 * (weight - 1.0), ClampRange::UNBOUNDED);
            assert!(weights.iter().all(|weight| (weight - 1.0).abs() < 0.05), "{optimiser:?} {weights:?}");
        }
    }

    #[test]
    fn every_key_of_every_optimiser_changes_its_steps() {
        let steps = |table: toml::Table| {
            let mut weights = [3.0, -2.0, 0.5];
            let optimiser = Optimiser::from_table(table).unwrap();
            run(optimiser, 0.02, 12, &mut weights, |weight| 2.0 * (weight - 1.0), ClampRange::UNBOUNDED);
            weights
        };
        for kind in Optimiser::KINDS {
            let named = toml::Table::from_iter([("kind".to_owned(), Value::from(*kind))]);
            let table = Optimiser::from_table(named).unwrap().table();
            for (key, value) in table.iter().filter(|(key, _)| *key != "kind") {
                let changed = match value {
                    Value::Integer(number) => (number / 2).into(),
                    _ if key == "epsilon" => 0.1.into(),
                    _ => 0.75.into(),
                };
                let mut other = table.clone();
                other.insert(key.clone(), changed);
                assert_ne!(steps(table.clone()), steps(other), "{key} of {kind}");
            }
        }
    }

    /// The reference multiplies the coefficients of every step, as in the paper.
    #[test]
    fn nadam_follows_its_paper() {
        let (beta1, beta2, weight_decay, epsilon) = (0.9, 0.98, 0.1, 1e-7);
        let mut weights = [0.5f32];
        let grads = [0.3, -0.2, 0.25, 0.1];
        let optimiser = Optimiser::NAdam { beta1, beta2, weight_decay, epsilon };
        let mut state = State::new(weights.to_vec(), optimiser, false);
        let (mut expected, mut first, mut second, mut product) = (0.5, 0.0, 0.0, 1.0);
        for (step, &grad) in grads.iter().enumerate() {
            let momentum = |t: f64| beta1 * (1.0 - 0.5 * 0.96f64.powf(t / 250.0));
            let t = (step + 1) as f64;
            product *= momentum(t);
            first = beta1 * first + (1.0 - beta1) * grad;
            second = beta2 * second + (1.0 - beta2) * grad * grad;
            let from_average = momentum(t + 1.0) * first / (1.0 - product * momentum(t + 1.0));
            let from_grad = (1.0 - momentum(t)) * grad / (1.0 - product);
            let root = f64::sqrt(second / (1.0 - beta2.powf(t))) + epsilon;
            expected = expected * (1.0 - 0.1 * weight_decay) - 0.1 * (from_average + from_grad) / root;
            let State { exp_avg, exp_avg_sq, .. } = &mut state;
            let update = optimiser.update(step as u64, 0.1);
            update.apply(&mut weights, &[grad as f32], exp_avg, exp_avg_sq, &mut [], ClampRange::UNBOUNDED);
            assert!((f64::from(weights[0]) - expected).abs() < 1e-5, "{} {expected}", weights[0]);
        }
    }

    /// The first steps follow from the papers' formulas by hand.
    #[test]
    fn first_steps_are_those_of_the_papers() {
        let first = |optimiser: Optimiser, lr: f64| {
            let mut weights = [1.0f32];
            run(optimiser, lr, 1, &mut weights, |_| 0.3, ClampRange::UNBOUNDED);
            1.0 - weights[0]
        };
        let near = |left: f32, right: f64| assert!((f64::from(left) - right).abs() < 1e-6, "{left} {right}");
        near(first(Optimiser::Sgd { momentum: 0.9 }, 0.1), 0.03);
        // Adam's first step is the learning rate, whatever the gradient; weight decay takes its part of the
        // weight.
        near(
            first(Optimiser::AdamW { beta1: 0.9, beta2: 0.999, weight_decay: 0.0, epsilon: 1e-8 }, 0.1),
            0.1,
        );
        near(
            first(Optimiser::AdamW { beta1: 0.9, beta2: 0.999, weight_decay: 0.5, epsilon: 1e-8 }, 0.1),
            0.15,
        );
        // RAdam's is plain momentum.
        near(
            first(Optimiser::RAdam { beta1: 0.9, beta2: 0.999, weight_decay: 0.0, epsilon: 1e-8 }, 0.1),
            0.03,
        );
        let step = (1e-6f64 / (0.1 * 0.09 + 1e-6)).sqrt() * 0.3;
        near(first(Optimiser::Adadelta { rho: 0.9, epsilon: 1e-6, weight_decay: 0.0 }, 1.0), step);
        // RAdam uses the variance from the sixth step on.
        let radam = Optimiser::RAdam { beta1: 0.9, beta2: 0.999, weight_decay: 0.0, epsilon: 1e-8 };
        assert!(radam.update(4, 0.1).rectification.is_none() && radam.update(5, 0.1).rectification.is_some());
    }

    #[test]
    fn weights_stay_within_their_range() {
        for optimiser in ALL {
            let mut weights = [0.0; 4];
            run(optimiser, 1.0, 200, &mut weights, |_| -1.0, ClampRange::symmetric(0.5));
            assert!(weights.iter().all(|weight| *weight <= 0.5), "{optimiser:?} {weights:?}");
        }
    }
}
