//! Optimisers, on one flat buffer of parameters.

use crate::parameters::ParameterLayout;
use crate::shim::{AdamW, AdamWTensors, TorchError};
use tandem_train::{Optimiser as OptimiserRecipe, nadam_momentum, nadam_momentum_product};
use tch::{Device, Kind, Tensor};

/// An optimiser with its state. The fields follow PyTorch's AdamW; Adadelta keeps its mean squared gradient
/// in `exp_avg` and its mean squared update in `exp_avg_sq`, so that checkpoints of all optimisers have the
/// same fields.
pub(crate) struct Optimiser {
    kind: OptimiserRecipe,
    /// Moving average of gradients.
    pub(crate) exp_avg: Tensor,
    pub(crate) exp_avg_sq: Tensor,
    /// Number of steps so far, as a scalar on the device.
    pub(crate) step_count: Tensor,
    lr: Tensor,
    num_decayed: i64,
    /// NAdam's product of all momentum coefficients so far.
    momentum_product: f64,
}

impl Optimiser {
    pub(crate) fn new(kind: OptimiserRecipe, layout: &ParameterLayout, device: Device) -> Self {
        let zeros = |shape: &[i64]| Tensor::zeros(shape, (Kind::Float, device));
        Self {
            kind,
            exp_avg: zeros(&[layout.len()]),
            exp_avg_sq: zeros(&[layout.len()]),
            step_count: zeros(&[]),
            lr: zeros(&[]),
            num_decayed: layout.num_decayed(),
            momentum_product: 1.0,
        }
    }

    /// Continues from the state of a checkpoint.
    pub(crate) fn load_state(&mut self, exp_avg: Tensor, exp_avg_sq: Tensor, step_count: u64) {
        (self.exp_avg, self.exp_avg_sq) = (exp_avg, exp_avg_sq);
        let _ = self.step_count.fill_(step_count as f64);
        if let OptimiserRecipe::NAdam { beta1, .. } = self.kind {
            self.momentum_product = nadam_momentum_product(beta1, step_count);
        }
    }

    /// True if a step can be captured as a CUDA graph: the learning rate must be the only value that a step
    /// reads from the CPU.
    pub(crate) fn supports_graph_capture(&self) -> bool {
        matches!(self.kind, OptimiserRecipe::AdamW { .. })
    }

    pub(crate) fn set_lr(&mut self, lr: f64) {
        let _ = self.lr.fill_(lr);
    }

    /// Updates the parameters with one step of gradient descent.
    pub(crate) fn step(&mut self, params: &mut Tensor, grads: &Tensor) -> Result<(), TorchError> {
        let _guard = tch::no_grad_guard();
        let _ = self.step_count.g_add_scalar_(1.0);
        match self.kind {
            OptimiserRecipe::AdamW { beta1, beta2, epsilon, weight_decay } => {
                let num_params = params.size()[0];
                let with_decay = (0, self.num_decayed, weight_decay);
                let without_decay = (self.num_decayed, num_params - self.num_decayed, 0.0);
                for (first, len, weight_decay) in [with_decay, without_decay] {
                    let range = |tensor: &Tensor| tensor.narrow(0, first, len);
                    let kind = AdamW { beta1, beta2, weight_decay, epsilon };
                    kind.step(&AdamWTensors {
                        params: &range(params),
                        grads: &range(grads),
                        exp_avg: &range(&self.exp_avg),
                        exp_avg_sq: &range(&self.exp_avg_sq),
                        steps: &self.step_count,
                        lr: &self.lr,
                    })?;
                }
            }
            OptimiserRecipe::NAdam { beta1, beta2, epsilon, weight_decay } => {
                let (step, lr) = (self.step_count.double_value(&[]), self.lr.double_value(&[]));
                let (momentum, next_momentum) =
                    (nadam_momentum(beta1, step), nadam_momentum(beta1, step + 1.0));
                self.momentum_product *= momentum;
                let momentum_product = self.momentum_product;
                let _ = params.narrow(0, 0, self.num_decayed).g_mul_scalar_(1.0 - lr * weight_decay);
                let _ = self.exp_avg.lerp_(grads, 1.0 - beta1);
                let _ = self.exp_avg_sq.lerp_(&grads.square(), 1.0 - beta2);
                let denominator = (&self.exp_avg_sq / (1.0 - beta2.powf(step))).sqrt() + epsilon;
                let from_grads = grads * ((1.0 - momentum) / (1.0 - momentum_product));
                let from_average = &self.exp_avg * (next_momentum / (1.0 - momentum_product * next_momentum));
                let update = from_grads + from_average;
                let _ = params.g_sub_(&(update / denominator * lr));
            }
            OptimiserRecipe::Adadelta { rho, epsilon, weight_decay } => {
                let lr = self.lr.double_value(&[]);
                let _ = params.narrow(0, 0, self.num_decayed).g_mul_scalar_(1.0 - lr * weight_decay);
                let _ = self.exp_avg.lerp_(&grads.square(), 1.0 - rho);
                let step = (&self.exp_avg_sq + epsilon).sqrt() / (&self.exp_avg + epsilon).sqrt() * grads;
                let _ = self.exp_avg_sq.lerp_(&step.square(), 1.0 - rho);
                let _ = params.g_sub_(&(step * lr));
            }
            OptimiserRecipe::Sgd { .. } | OptimiserRecipe::RAdam { .. } | OptimiserRecipe::Ranger { .. } => {
                // A recipe with one of these is refused when it is parsed.
                let kind = self.kind.kind();
                return Err(TorchError::new(&format!("transformers are not trained by {kind}")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::to_vec;
    use tandem_transformer::TensorSpec;

    /// Parameters of which the first four in the buffer decay.
    const START: [f64; 7] = [0.5, -0.25, 1.0, 2.0, 0.1, 0.2, -0.3];
    const LR: f64 = 0.1;

    fn grad(index: usize, step: usize) -> f64 {
        ((index * 5 + step * 3) % 7) as f64 / 10.0 - 0.25
    }

    /// Parameters after four steps.
    fn params_after_steps(kind: OptimiserRecipe) -> Vec<f32> {
        let spec = |name: &str, shape: &[usize]| TensorSpec { name: name.into(), shape: shape.into() };
        let layout =
            ParameterLayout::from_specs([spec("a.bias", &[3]), spec("a.weight", &[2, 2])].into_iter());
        let mut optimiser = Optimiser::new(kind, &layout, Device::Cpu);
        let mut params = Tensor::from_slice(&START.map(|value| value as f32));
        optimiser.set_lr(LR);
        for step in 1..=4 {
            let grads: Vec<f32> = (0..START.len()).map(|index| grad(index, step) as f32).collect();
            optimiser.step(&mut params, &Tensor::from_slice(&grads)).unwrap();
        }
        to_vec(&params)
    }

    fn assert_close(actual: &[f32], expected: &[f64]) {
        for (actual, expected) in actual.iter().zip(expected) {
            assert!((f64::from(*actual) - expected).abs() < 1e-5, "{actual}, not {expected}");
        }
    }

    /// Reference that updates each parameter by itself, as in the papers: `step` gets the number of the step,
    /// the gradient, and two values of state.
    fn expected(weight_decay: f64, step: impl Fn(f64, f64, &mut [f64; 2]) -> f64) -> Vec<f64> {
        let updated = START.iter().enumerate().map(|(at, &initial)| {
            let (mut value, mut state) = (initial, [0.0; 2]);
            for t in 1..=4 {
                value *= if at < 4 { 1.0 - LR * weight_decay } else { 1.0 };
                value -= LR * step(t as f64, grad(at, t), &mut state);
            }
            value
        });
        updated.collect()
    }

    #[test]
    fn adamw_matches_its_paper() {
        let (beta1, beta2, epsilon, weight_decay) = (0.9, 0.99, 1e-6, 0.2);
        let plain = expected(weight_decay, |t, grad, state| {
            state[0] = beta1 * state[0] + (1.0 - beta1) * grad;
            state[1] = beta2 * state[1] + (1.0 - beta2) * grad * grad;
            state[0] / (1.0 - beta1.powf(t)) / ((state[1] / (1.0 - beta2.powf(t))).sqrt() + epsilon)
        });
        assert_close(
            &params_after_steps(OptimiserRecipe::AdamW { beta1, beta2, epsilon, weight_decay }),
            &plain,
        );
    }

    #[test]
    fn nadam_matches_its_paper() {
        let (beta1, beta2, epsilon, weight_decay) = (0.9, 0.98, 1e-7, 0.1);
        let momentum = |t: f64| beta1 * (1.0 - 0.5 * 0.96f64.powf(t / 250.0));
        let plain = expected(weight_decay, |t, grad, state| {
            state[0] = beta1 * state[0] + (1.0 - beta1) * grad;
            state[1] = beta2 * state[1] + (1.0 - beta2) * grad * grad;
            let momentum_product: f64 = (1..=t as usize).map(|step| momentum(step as f64)).product();
            let from_average = momentum(t + 1.0) * state[0] / (1.0 - momentum_product * momentum(t + 1.0));
            let from_grad = (1.0 - momentum(t)) * grad / (1.0 - momentum_product);
            (from_average + from_grad) / ((state[1] / (1.0 - beta2.powf(t))).sqrt() + epsilon)
        });
        assert_close(
            &params_after_steps(OptimiserRecipe::NAdam { beta1, beta2, epsilon, weight_decay }),
            &plain,
        );
    }

    #[test]
    fn adadelta_matches_its_paper() {
        let (rho, epsilon, weight_decay) = (0.9, 1e-3, 0.3);
        let plain = expected(weight_decay, |_, grad, state| {
            state[0] = rho * state[0] + (1.0 - rho) * grad * grad;
            let step = (state[1] + epsilon).sqrt() / (state[0] + epsilon).sqrt() * grad;
            state[1] = rho * state[1] + (1.0 - rho) * step * step;
            step
        });
        assert_close(&params_after_steps(OptimiserRecipe::Adadelta { rho, epsilon, weight_decay }), &plain);
    }
}
