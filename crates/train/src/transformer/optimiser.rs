//! Optimisers for transformers, with the names, the formulas and the defaults of PyTorch, except that NAdam
//! has those of lc0.

use crate::recipe::{ALMOST_ONE, RecipeError, within};
use serde::{Deserialize, Serialize};

/// The table `optimiser` of a transformer's recipe, chosen by its key `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum TransformerOptimiser {
    /// Adam with decoupled weight decay (Loshchilov and Hutter, 2017).
    AdamW {
        /// Decay of the mean gradient, default 0.9.
        #[serde(default = "beta1")]
        beta1: f64,
        /// Decay of the mean squared gradient, default 0.999.
        #[serde(default = "adamw_beta2")]
        beta2: f64,
        /// Added to the root of the mean squared gradient, so that tiny gradients do not become large steps;
        /// default 1e-8.
        #[serde(default = "adamw_epsilon")]
        epsilon: f64,
        /// Decoupled weight decay, multiplied by the learning rate; default 0.01.
        #[serde(default = "adamw_decay")]
        weight_decay: f64,
    },
    /// Adam with Nesterov momentum (Dozat, 2016), with the defaults that lc0's networks are trained with.
    NAdam {
        /// Decay of the mean gradient, default 0.9.
        #[serde(default = "beta1")]
        beta1: f64,
        /// Decay of the mean squared gradient, default 0.98.
        #[serde(default = "nadam_beta2")]
        beta2: f64,
        /// Added to the root of the mean squared gradient; default 1e-7.
        #[serde(default = "nadam_epsilon")]
        epsilon: f64,
        /// Decoupled weight decay, multiplied by the learning rate; default 0.
        #[serde(default)]
        weight_decay: f64,
    },
    /// Adadelta, which scales steps by the size of the last ones (Zeiler, 2012).
    Adadelta {
        /// Decay of the mean squared gradient and of the mean squared step, default 0.9.
        #[serde(default = "rho")]
        rho: f64,
        /// Added below both roots, because the mean squared step is zero at first; default 1e-6.
        #[serde(default = "adadelta_epsilon")]
        epsilon: f64,
        /// Decoupled weight decay, multiplied by the learning rate; default 0.
        #[serde(default)]
        weight_decay: f64,
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
        Self::AdamW {
            beta1: beta1(),
            beta2: adamw_beta2(),
            epsilon: adamw_epsilon(),
            weight_decay: adamw_decay(),
        }
    }
}

impl TransformerOptimiser {
    /// Checks the ranges of all values.
    pub(super) fn check(&self) -> Result<(), RecipeError> {
        match *self {
            Self::AdamW { beta1, beta2, epsilon, weight_decay }
            | Self::NAdam { beta1, beta2, epsilon, weight_decay } => {
                within("optimiser.beta1", beta1, 0.0, ALMOST_ONE)?;
                within("optimiser.beta2", beta2, 0.0, ALMOST_ONE)?;
                within("optimiser.epsilon", epsilon, 1e-30, 1.0)?;
                within("optimiser.weight_decay", weight_decay, 0.0, 1e6)
            }
            Self::Adadelta { rho, epsilon, weight_decay } => {
                within("optimiser.rho", rho, 0.0, ALMOST_ONE)?;
                within("optimiser.epsilon", epsilon, 1e-30, 1.0)?;
                within("optimiser.weight_decay", weight_decay, 0.0, 1e6)
            }
        }
    }
}
