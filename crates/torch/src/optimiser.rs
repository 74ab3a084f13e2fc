//! The rules of the next step, on one row of numbers.

use crate::parameters::Row;
use crate::shim::{AdamW, AdamWRows, TorchError};
use tandem_train::transformer::TransformerOptimiser;
use tch::{Device, Kind, Tensor};

/// An optimiser with what it remembers.
pub(crate) struct Optimiser {
    rule: TransformerOptimiser,
    /// Slopes and their squares, or squares of slopes and of steps.
    pub(crate) first: Tensor,
    pub(crate) second: Tensor,
    /// Steps that were made, on the device.
    pub(crate) steps: Tensor,
    rate: Tensor,
    decayed: i64,
    /// How much of the remembered slopes all steps so far have taken, each a share of what was left.
    product: f64,
}

impl Optimiser {
    pub(crate) fn new(rule: TransformerOptimiser, row: &Row, device: Device) -> Self {
        let zeros = |shape: &[i64]| Tensor::zeros(shape, (Kind::Float, device));
        Self {
            rule,
            first: zeros(&[row.len()]),
            second: zeros(&[row.len()]),
            steps: zeros(&[]),
            rate: zeros(&[]),
            decayed: row.decayed(),
            product: 1.0,
        }
    }

    /// Goes on from where another one was.
    pub(crate) fn restore(&mut self, first: Tensor, second: Tensor, steps: u64) {
        (self.first, self.second) = (first, second);
        let _ = self.steps.fill_(steps as f64);
        if let TransformerOptimiser::NAdam { beta1, .. } = self.rule {
            self.product = (1..=steps).map(|step| taken(beta1, step as f64)).product();
        }
    }

    /// Whether a recorded step can be played back: the rate is the only number that a step needs from outside.
    pub(crate) fn can_be_recorded(&self) -> bool {
        matches!(self.rule, TransformerOptimiser::AdamW { .. })
    }

    pub(crate) fn set_rate(&mut self, rate: f64) {
        let _ = self.rate.fill_(rate);
    }

    /// Moves the numbers against their slopes.
    pub(crate) fn step(&mut self, numbers: &mut Tensor, slopes: &Tensor) -> Result<(), TorchError> {
        let _guard = tch::no_grad_guard();
        let _ = self.steps.g_add_scalar_(1.0);
        match self.rule {
            TransformerOptimiser::AdamW { beta1, beta2, epsilon, decay } => {
                let len = numbers.size()[0];
                for (start, len, decay) in [(0, self.decayed, decay), (self.decayed, len - self.decayed, 0.0)]
                {
                    let part = |tensor: &Tensor| tensor.narrow(0, start, len);
                    let rule = AdamW { beta1, beta2, decay, epsilon };
                    rule.step(&AdamWRows {
                        numbers: &part(numbers),
                        slopes: &part(slopes),
                        first: &part(&self.first),
                        second: &part(&self.second),
                        steps: &self.steps,
                        rate: &self.rate,
                    })?;
                }
            }
            TransformerOptimiser::NAdam { beta1, beta2, epsilon, decay } => {
                let (step, rate) = (self.steps.double_value(&[]), self.rate.double_value(&[]));
                let (now, next) = (taken(beta1, step), taken(beta1, step + 1.0));
                self.product *= now;
                let product = self.product;
                let _ = numbers.narrow(0, 0, self.decayed).g_mul_scalar_(1.0 - rate * decay);
                let _ = self.first.lerp_(slopes, 1.0 - beta1);
                let _ = self.second.lerp_(&slopes.square(), 1.0 - beta2);
                let size = (&self.second / (1.0 - beta2.powf(step))).sqrt() + epsilon;
                let ahead =
                    slopes * ((1.0 - now) / (1.0 - product)) + &self.first * (next / (1.0 - product * next));
                let _ = numbers.g_sub_(&(ahead / size * rate));
            }
            TransformerOptimiser::Adadelta { rho, epsilon, decay } => {
                let rate = self.rate.double_value(&[]);
                let _ = numbers.narrow(0, 0, self.decayed).g_mul_scalar_(1.0 - rate * decay);
                let _ = self.first.lerp_(&slopes.square(), 1.0 - rho);
                let step = (&self.second + epsilon).sqrt() / (&self.first + epsilon).sqrt() * slopes;
                let _ = self.second.lerp_(&step.square(), 1.0 - rho);
                let _ = numbers.g_sub_(&(step * rate));
            }
        }
        Ok(())
    }
}

/// How much of the remembered slopes a step of NAdam takes: it grows from a half, as Dozat has it.
fn taken(beta1: f64, step: f64) -> f64 {
    beta1 * (1.0 - 0.5 * 0.96f64.powf(step * 0.004))
}
