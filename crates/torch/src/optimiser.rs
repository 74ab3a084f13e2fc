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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::numbers_of;
    use tandem_transformer::TensorSpec;

    /// Numbers of which the first four decay.
    const START: [f64; 7] = [0.5, -0.25, 1.0, 2.0, 0.1, 0.2, -0.3];
    const RATE: f64 = 0.1;

    fn slope(number: usize, step: usize) -> f64 {
        ((number * 5 + step * 3) % 7) as f64 / 10.0 - 0.25
    }

    /// What a rule makes of the numbers in four steps.
    fn found(rule: TransformerOptimiser) -> Vec<f32> {
        let spec = |name: &str, shape: &[usize]| TensorSpec { name: name.into(), shape: shape.into() };
        let row = Row::new([spec("a.bias", &[3]), spec("a.weight", &[2, 2])].into_iter());
        let mut optimiser = Optimiser::new(rule, &row, Device::Cpu);
        let mut numbers = Tensor::from_slice(&START.map(|number| number as f32));
        optimiser.set_rate(RATE);
        for step in 1..=4 {
            let slopes: Vec<f32> = (0..START.len()).map(|number| slope(number, step) as f32).collect();
            optimiser.step(&mut numbers, &Tensor::from_slice(&slopes)).unwrap();
        }
        numbers_of(&numbers)
    }

    fn near(found: &[f32], expected: &[f64]) {
        for (found, expected) in found.iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-5, "{found}, not {expected}");
        }
    }

    /// Each number by itself, as the papers have it: `step` is given the step's number, the slope, and two numbers to remember.
    fn expected(decay: f64, step: impl Fn(f64, f64, &mut [f64; 2]) -> f64) -> Vec<f64> {
        let learnt = START.iter().enumerate().map(|(at, &start)| {
            let (mut number, mut memory) = (start, [0.0; 2]);
            for t in 1..=4 {
                number *= if at < 4 { 1.0 - RATE * decay } else { 1.0 };
                number -= RATE * step(t as f64, slope(at, t), &mut memory);
            }
            number
        });
        learnt.collect()
    }

    #[test]
    fn adamw_is_as_its_paper_has_it() {
        let (beta1, beta2, epsilon, decay) = (0.9, 0.99, 1e-6, 0.2);
        let plain = expected(decay, |t, slope, memory| {
            memory[0] = beta1 * memory[0] + (1.0 - beta1) * slope;
            memory[1] = beta2 * memory[1] + (1.0 - beta2) * slope * slope;
            memory[0] / (1.0 - beta1.powf(t)) / ((memory[1] / (1.0 - beta2.powf(t))).sqrt() + epsilon)
        });
        near(&found(TransformerOptimiser::AdamW { beta1, beta2, epsilon, decay }), &plain);
    }

    #[test]
    fn nadam_is_as_its_paper_has_it() {
        let (beta1, beta2, epsilon, decay) = (0.9, 0.98, 1e-7, 0.1);
        let share = |t: f64| beta1 * (1.0 - 0.5 * 0.96f64.powf(t / 250.0));
        let plain = expected(decay, |t, slope, memory| {
            memory[0] = beta1 * memory[0] + (1.0 - beta1) * slope;
            memory[1] = beta2 * memory[1] + (1.0 - beta2) * slope * slope;
            let product: f64 = (1..=t as usize).map(|step| share(step as f64)).product();
            let ahead = share(t + 1.0) * memory[0] / (1.0 - product * share(t + 1.0));
            let now = (1.0 - share(t)) * slope / (1.0 - product);
            (ahead + now) / ((memory[1] / (1.0 - beta2.powf(t))).sqrt() + epsilon)
        });
        near(&found(TransformerOptimiser::NAdam { beta1, beta2, epsilon, decay }), &plain);
    }

    #[test]
    fn adadelta_is_as_its_paper_has_it() {
        let (rho, epsilon, decay) = (0.9, 1e-3, 0.3);
        let plain = expected(decay, |_, slope, memory| {
            memory[0] = rho * memory[0] + (1.0 - rho) * slope * slope;
            let step = (memory[1] + epsilon).sqrt() / (memory[0] + epsilon).sqrt() * slope;
            memory[1] = rho * memory[1] + (1.0 - rho) * step * step;
            step
        });
        near(&found(TransformerOptimiser::Adadelta { rho, epsilon, decay }), &plain);
    }
}
