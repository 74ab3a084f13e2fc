//! How weights follow their slopes.

use serde::{Deserialize, Serialize};

/// A rule for the next step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Optimiser {
    /// Down the slope, with momentum.
    Sgd {
        /// The share of the last step that is kept.
        #[serde(default)]
        momentum: f64,
    },
    /// Adam (Kingma and Ba, 2014), and AdamW (Loshchilov and Hutter, 2017) where weights decay.
    Adam {
        /// How long slopes are remembered.
        #[serde(default = "beta1")]
        beta1: f64,
        /// How long their squares are.
        #[serde(default = "beta2")]
        beta2: f64,
        /// So much of each weight is lost at every step, times the learning rate.
        #[serde(default)]
        decay: f64,
        /// Slopes that are smaller than this move a weight less than others do. Rows of the first layer that are hardly ever
        /// on have such slopes: with little data, 1e-6 keeps them from learning single positions by heart.
        #[serde(default = "adam_epsilon")]
        epsilon: f64,
    },
    /// Adam that waits until it knows how much slopes vary (Liu and others, 2019).
    RAdam {
        /// How long slopes are remembered.
        #[serde(default = "beta1")]
        beta1: f64,
        /// How long their squares are.
        #[serde(default = "beta2")]
        beta2: f64,
        /// As for Adam.
        #[serde(default)]
        decay: f64,
        /// As for Adam.
        #[serde(default = "adam_epsilon")]
        epsilon: f64,
    },
    /// RAdam with slow weights that every so often meet the fast ones half-way (Zhang and others, 2019).
    Ranger {
        /// How long slopes are remembered.
        #[serde(default = "ranger_beta1")]
        beta1: f64,
        /// How long their squares are.
        #[serde(default = "beta2")]
        beta2: f64,
        /// As for Adam.
        #[serde(default)]
        decay: f64,
        /// As for Adam.
        #[serde(default = "adam_epsilon")]
        epsilon: f64,
        /// Steps between two meetings.
        #[serde(default = "six")]
        every: u64,
        /// How far the slow weights come.
        #[serde(default = "half")]
        pull: f64,
    },
    /// Steps as large as the last ones were (Zeiler, 2012).
    Adadelta {
        /// How long squares are remembered.
        #[serde(default = "rho")]
        rho: f64,
        /// What keeps the first steps from being nothing.
        #[serde(default = "adadelta_epsilon")]
        epsilon: f64,
    },
}

fn beta1() -> f64 {
    0.9
}

fn ranger_beta1() -> f64 {
    0.99
}

fn beta2() -> f64 {
    0.999
}

fn six() -> u64 {
    6
}

fn half() -> f64 {
    0.5
}

fn rho() -> f64 {
    0.9
}

fn adadelta_epsilon() -> f64 {
    1e-6
}

impl Default for Optimiser {
    fn default() -> Self {
        Self::Adam { beta1: beta1(), beta2: beta2(), decay: 0.01, epsilon: adam_epsilon() }
    }
}

fn adam_epsilon() -> f64 {
    1e-8
}

/// What is remembered of each weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Slopes, or steps.
    pub first: bool,
    /// Their squares.
    pub second: bool,
    /// Weights that follow slowly.
    pub slow: bool,
}

/// Where weights may be: what the quantised network can hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// No less.
    pub least: f32,
    /// No more.
    pub most: f32,
}

impl Range {
    /// Anywhere.
    pub const ALL: Self = Self { least: f32::NEG_INFINITY, most: f32::INFINITY };

    /// As far from zero as this.
    pub fn within(most: f32) -> Self {
        Self { least: -most, most }
    }
}

/// One step's numbers, found once for all weights.
#[derive(Clone, Copy, Debug)]
pub struct Update {
    pub(crate) optimiser: Optimiser,
    pub(crate) rate: f32,
    pub(crate) beta1: f32,
    pub(crate) beta2: f32,
    /// What the first and second moments are multiplied by, because they began at zero.
    pub(crate) mend1: f32,
    pub(crate) mend2: f32,
    /// What is left of a weight after its decay.
    pub(crate) keep: f32,
    /// The trust in the second moment: all of it but for RAdam, which has none yet where it is absent.
    pub(crate) trust: Option<f32>,
    /// The slow weights meet the fast ones after this step.
    pub(crate) meet: bool,
    /// What slopes are multiplied by first.
    pub(crate) factor: f32,
    pub(crate) epsilon: f32,
}

impl Optimiser {
    /// What it remembers of each weight.
    pub fn needs(self) -> Needs {
        Needs {
            first: !matches!(self, Self::Sgd { momentum: 0.0 }),
            second: !matches!(self, Self::Sgd { .. }),
            slow: matches!(self, Self::Ranger { .. }),
        }
    }

    /// The step with this number, counted from zero, at a learning rate.
    pub fn update(self, step: u64, rate: f64) -> Update {
        let count = (step + 1) as f64;
        let (beta1, beta2, decay, epsilon) = match self {
            Self::Sgd { momentum } => (momentum, 0.0, 0.0, 0.0),
            Self::Adam { beta1, beta2, decay, epsilon }
            | Self::RAdam { beta1, beta2, decay, epsilon }
            | Self::Ranger { beta1, beta2, decay, epsilon, .. } => (beta1, beta2, decay, epsilon),
            Self::Adadelta { rho, epsilon } => (rho, rho, 0.0, epsilon),
        };
        let (left1, left2) = (beta1.powf(count), beta2.powf(count));
        let trust = match self {
            Self::RAdam { .. } | Self::Ranger { .. } => {
                let most = 2.0 / (1.0 - beta2) - 1.0;
                let known = most - 2.0 * count * left2 / (1.0 - left2);
                // With five or fewer effective samples the variance cannot be told.
                (known > 5.0).then(|| {
                    let ratio = (known - 4.0) * (known - 2.0) * most / ((most - 4.0) * (most - 2.0) * known);
                    ratio.sqrt() as f32
                })
            }
            _ => Some(1.0),
        };
        let meet = matches!(self, Self::Ranger { every, .. } if (step + 1).is_multiple_of(every.max(1)));
        Update {
            optimiser: self,
            rate: rate as f32,
            beta1: beta1 as f32,
            beta2: beta2 as f32,
            mend1: (1.0 / (1.0 - left1)) as f32,
            mend2: (1.0 / (1.0 - left2)) as f32,
            keep: (1.0 - rate * decay) as f32,
            trust,
            meet,
            factor: 1.0,
            epsilon: epsilon as f32,
        }
    }
}

impl Update {
    /// With all slopes multiplied by a factor first.
    pub fn times(self, factor: f32) -> Self {
        Self { factor, ..self }
    }

    /// Moves weights against their slopes. What is remembered may be a part of a whole, as the weights are.
    #[inline(always)]
    pub fn apply(
        &self,
        weights: &mut [f32],
        slopes: &[f32],
        first: &mut [f32],
        second: &mut [f32],
        slow: &mut [f32],
        range: Range,
    ) {
        let held = |weight: f32| weight.clamp(range.least, range.most);
        let factor = self.factor;
        match self.optimiser {
            Optimiser::Sgd { .. } if first.is_empty() => {
                for (weight, slope) in weights.iter_mut().zip(slopes) {
                    *weight = held(*weight - self.rate * (factor * slope));
                }
            }
            Optimiser::Sgd { .. } => {
                for ((weight, slope), first) in weights.iter_mut().zip(slopes).zip(first) {
                    *first = self.beta1 * *first + factor * slope;
                    *weight = held(*weight - self.rate * *first);
                }
            }
            Optimiser::Adadelta { .. } => {
                let epsilon = self.epsilon;
                for (((weight, slope), first), second) in
                    weights.iter_mut().zip(slopes).zip(first).zip(second)
                {
                    let slope = factor * slope;
                    *second = self.beta2 * *second + (1.0 - self.beta2) * slope * slope;
                    let step = ((*first + epsilon) / (*second + epsilon)).sqrt() * slope;
                    *first = self.beta1 * *first + (1.0 - self.beta1) * step * step;
                    *weight = held(*weight - self.rate * step);
                }
            }
            Optimiser::Adam { .. } | Optimiser::RAdam { .. } => {
                self.adam(weights, slopes, first, second, held);
            }
            Optimiser::Ranger { pull, .. } => {
                self.adam(weights, slopes, first, second, held);
                if self.meet {
                    for (weight, slow) in weights.iter_mut().zip(slow) {
                        *slow += pull as f32 * (*weight - *slow);
                        *weight = *slow;
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn adam(
        &self,
        weights: &mut [f32],
        slopes: &[f32],
        first: &mut [f32],
        second: &mut [f32],
        held: impl Fn(f32) -> f32,
    ) {
        let rate = self.rate * self.mend1 * self.trust.unwrap_or(1.0);
        for (((weight, slope), first), second) in weights.iter_mut().zip(slopes).zip(first).zip(second) {
            let slope = self.factor * slope;
            *first = self.beta1 * *first + (1.0 - self.beta1) * slope;
            *second = self.beta2 * *second + (1.0 - self.beta2) * slope * slope;
            let scale = if self.trust.is_some() { (*second * self.mend2).sqrt() + self.epsilon } else { 1.0 };
            *weight = held(*weight * self.keep - rate * *first / scale);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::state::State;

    pub(crate) const ALL: [Optimiser; 6] = [
        Optimiser::Sgd { momentum: 0.0 },
        Optimiser::Sgd { momentum: 0.9 },
        Optimiser::Adam { beta1: 0.9, beta2: 0.999, decay: 0.0, epsilon: 1e-8 },
        Optimiser::RAdam { beta1: 0.9, beta2: 0.999, decay: 0.0, epsilon: 1e-8 },
        Optimiser::Ranger { beta1: 0.9, beta2: 0.999, decay: 0.0, epsilon: 1e-8, every: 6, pull: 0.5 },
        Optimiser::Adadelta { rho: 0.9, epsilon: 1e-6 },
    ];

    fn run(
        optimiser: Optimiser,
        rate: f64,
        steps: u64,
        weights: &mut [f32],
        slope: impl Fn(f32) -> f32,
        range: Range,
    ) {
        let mut state = State::new(weights.to_vec(), optimiser, false);
        for step in 0..steps {
            let slopes: Vec<f32> = weights.iter().map(|&weight| slope(weight)).collect();
            let State { first, second, slow, .. } = &mut state;
            optimiser.update(step, rate).apply(weights, &slopes, first, second, slow, range);
        }
    }

    #[test]
    fn all_find_the_bottom_of_a_bowl() {
        for optimiser in ALL {
            let rate = match optimiser {
                Optimiser::Sgd { .. } => 0.02,
                Optimiser::Adadelta { .. } => 10.0,
                _ => 0.02,
            };
            let mut weights = [3.0, -2.0, 0.5];
            run(optimiser, rate, 2000, &mut weights, |weight| 2.0 * (weight - 1.0), Range::ALL);
            assert!(weights.iter().all(|weight| (weight - 1.0).abs() < 0.05), "{optimiser:?} {weights:?}");
        }
    }

    /// The first steps follow from the papers' formulas by hand.
    #[test]
    fn first_steps_are_those_of_the_papers() {
        let first = |optimiser: Optimiser, rate: f64| {
            let mut weights = [1.0f32];
            run(optimiser, rate, 1, &mut weights, |_| 0.3, Range::ALL);
            1.0 - weights[0]
        };
        let near = |left: f32, right: f64| assert!((f64::from(left) - right).abs() < 1e-6, "{left} {right}");
        near(first(Optimiser::Sgd { momentum: 0.9 }, 0.1), 0.03);
        // Adam's first step is the learning rate, whatever the slope; decay takes its share of the weight.
        near(first(Optimiser::Adam { beta1: 0.9, beta2: 0.999, decay: 0.0, epsilon: 1e-8 }, 0.1), 0.1);
        near(first(Optimiser::Adam { beta1: 0.9, beta2: 0.999, decay: 0.5, epsilon: 1e-8 }, 0.1), 0.15);
        // RAdam's is plain momentum.
        near(first(Optimiser::RAdam { beta1: 0.9, beta2: 0.999, decay: 0.0, epsilon: 1e-8 }, 0.1), 0.03);
        let step = (1e-6f64 / (0.1 * 0.09 + 1e-6)).sqrt() * 0.3;
        near(first(Optimiser::Adadelta { rho: 0.9, epsilon: 1e-6 }, 1.0), step);
        // And RAdam trusts the variance from the sixth step on.
        let radam = Optimiser::RAdam { beta1: 0.9, beta2: 0.999, decay: 0.0, epsilon: 1e-8 };
        assert!(radam.update(4, 0.1).trust.is_none() && radam.update(5, 0.1).trust.is_some());
    }

    #[test]
    fn weights_stay_within_their_range() {
        for optimiser in ALL {
            let mut weights = [0.0; 4];
            run(optimiser, 1.0, 200, &mut weights, |_| -1.0, Range::within(0.5));
            assert!(weights.iter().all(|weight| *weight <= 0.5), "{optimiser:?} {weights:?}");
        }
    }
}
