//! Rules for the next step of a transformer.

use crate::recipe::{ALMOST_ONE, RecipeError, within};
use serde::{Deserialize, Serialize};

/// A rule for the next step of a transformer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum TransformerOptimiser {
    /// Adam whose weights decay by themselves (Loshchilov and Hutter, 2017).
    AdamW {
        /// How long slopes are remembered.
        #[serde(default = "beta1")]
        beta1: f64,
        /// How long their squares are.
        #[serde(default = "adamw_beta2")]
        beta2: f64,
        /// Slopes that are smaller than this move a weight less than others do.
        #[serde(default = "adamw_epsilon")]
        epsilon: f64,
        /// So much of each weight is lost at every step, times the learning rate.
        #[serde(default = "adamw_decay")]
        decay: f64,
    },
    /// Adam that looks a step ahead (Dozat, 2016), as lc0's networks are trained.
    NAdam {
        /// How long slopes are remembered.
        #[serde(default = "beta1")]
        beta1: f64,
        /// How long their squares are.
        #[serde(default = "nadam_beta2")]
        beta2: f64,
        /// As for AdamW.
        #[serde(default = "nadam_epsilon")]
        epsilon: f64,
        /// As for AdamW.
        #[serde(default)]
        decay: f64,
    },
    /// Steps as large as the last ones were (Zeiler, 2012).
    Adadelta {
        /// How long squares are remembered.
        #[serde(default = "rho")]
        rho: f64,
        /// What keeps the first steps from being nothing.
        #[serde(default = "adadelta_epsilon")]
        epsilon: f64,
        /// As for AdamW.
        #[serde(default)]
        decay: f64,
    },
}

fn beta1() -> f64 {
    0.9
}
fn adamw_beta2() -> f64 {
    0.999
}
fn adamw_epsilon() -> f64 {
    1e-8
}
fn adamw_decay() -> f64 {
    0.01
}
fn nadam_beta2() -> f64 {
    0.98
}
fn nadam_epsilon() -> f64 {
    1e-7
}
fn rho() -> f64 {
    0.9
}
fn adadelta_epsilon() -> f64 {
    1e-6
}

impl Default for TransformerOptimiser {
    fn default() -> Self {
        Self::AdamW { beta1: beta1(), beta2: adamw_beta2(), epsilon: adamw_epsilon(), decay: adamw_decay() }
    }
}

impl TransformerOptimiser {
    /// Whether its numbers can be.
    pub(super) fn check(&self) -> Result<(), RecipeError> {
        match *self {
            Self::AdamW { beta1, beta2, epsilon, decay } | Self::NAdam { beta1, beta2, epsilon, decay } => {
                within("optimiser.beta1", beta1, 0.0, ALMOST_ONE)?;
                within("optimiser.beta2", beta2, 0.0, ALMOST_ONE)?;
                within("optimiser.epsilon", epsilon, 1e-30, 1.0)?;
                within("optimiser.decay", decay, 0.0, 1e6)
            }
            Self::Adadelta { rho, epsilon, decay } => {
                within("optimiser.rho", rho, 0.0, ALMOST_ONE)?;
                within("optimiser.epsilon", epsilon, 1e-30, 1.0)?;
                within("optimiser.decay", decay, 0.0, 1e6)
            }
        }
    }
}
