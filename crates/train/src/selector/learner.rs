//! Training steps of a selector: forward pass, backward pass and an optimiser step, written out for its three
//! layers.

use super::cases::LabelledCase;
use super::evaluation::weight;
use crate::loss::sigmoid;
use crate::optimiser::{ClampRange, Optimiser};
use crate::recipe::TrainingRecipe;
use crate::state::State;
use crate::trainer::{StepMetrics, TrainError, Trainer};
use tandem_hybrid::Selector;
use tandem_util::random::SplitMix;

/// A linear layer within the flat parameter buffer: one weight row per output, then the biases.
#[derive(Clone, Copy)]
struct Layer {
    start: usize,
    inputs: usize,
    outputs: usize,
}

impl Layer {
    fn weights(self) -> std::ops::Range<usize> {
        self.start..self.start + self.inputs * self.outputs
    }

    fn biases(self) -> std::ops::Range<usize> {
        let end = self.weights().end;
        end..end + self.outputs
    }

    fn forward(self, parameters: &[f32], inputs: &[f32], outputs: &mut [f32]) {
        let rows = parameters[self.weights()].chunks_exact(self.inputs).zip(&parameters[self.biases()]);
        for (output, (row, bias)) in outputs.iter_mut().zip(rows) {
            *output = bias + row.iter().zip(inputs).map(|(weight, input)| weight * input).sum::<f32>();
        }
    }

    /// Adds the gradients of the layer's parameters, and computes those of its inputs.
    fn backward(
        self,
        parameters: &[f32],
        inputs: &[f32],
        d_outputs: &[f32],
        gradients: &mut [f32],
        d_inputs: &mut [f32],
    ) {
        d_inputs.fill(0.0);
        for (output, &gradient) in d_outputs.iter().enumerate() {
            gradients[self.biases().start + output] += gradient;
            let row = self.start + output * self.inputs;
            for ((sum, input), (d_input, weight)) in
                gradients[row..].iter_mut().zip(inputs).zip(d_inputs.iter_mut().zip(&parameters[row..]))
            {
                *sum += gradient * input;
                *d_input += gradient * weight;
            }
        }
    }
}

/// A selector in training, with the state of its optimiser.
pub(super) struct Learner {
    layers: [Layer; 3],
    /// Steps done, parameters and optimiser buffers; the state of the dropout is in `random`.
    state: State,
    gradients: Vec<f32>,
    optimiser: Optimiser,
    dropout: f64,
    max_grad_norm: f64,
    by_gain: bool,
    random: SplitMix,
    pending_metrics: Vec<StepMetrics>,
}

/// Hidden activations of a case, and the factor of each after ReLU and dropout.
struct Hidden {
    values: [Vec<f32>; 2],
    mask: [Vec<f32>; 2],
}

impl Learner {
    pub(super) fn new(start: &Selector, training: &TrainingRecipe, optimiser: Optimiser, seed: u64) -> Self {
        let mut parameters = Vec::new();
        let mut layers = Vec::new();
        for (_, shape, tensor) in start.tensors() {
            if let [outputs, inputs] = shape[..] {
                layers.push(Layer { start: parameters.len(), inputs, outputs });
            }
            parameters.extend(tensor);
        }
        let Ok(layers) = <[Layer; 3]>::try_from(layers) else { unreachable!("a selector has three layers") };
        Self {
            layers,
            gradients: vec![0.0; parameters.len()],
            state: State::new(parameters, optimiser, false),
            optimiser,
            dropout: training.dropout,
            max_grad_norm: training.max_grad_norm,
            by_gain: training.by_gain,
            random: SplitMix::new(seed),
            pending_metrics: Vec::new(),
        }
    }

    /// Continues from the state of a checkpoint, which has the right size.
    pub(super) fn resume(self, state: State) -> Self {
        Self { random: SplitMix::new(state.dropout_rng), state, ..self }
    }

    /// The selector with its current weights.
    pub(super) fn selector(&self) -> Selector {
        let mut rest = self.state.parameters.as_slice();
        let made = Selector::from_tensors(|_, shape| {
            let (tensor, others) = rest.split_at(shape.iter().product());
            rest = others;
            Ok(tensor.to_vec())
        });
        let Ok::<Selector, std::convert::Infallible>(selector) = made;
        selector
    }

    /// Trains on a batch; returns the metrics before the step.
    fn step(&mut self, cases: &[LabelledCase], lr: f64) -> StepMetrics {
        let loss = self.compute_gradients(cases);
        let norm = self.gradients.iter().map(|gradient| f64::from(gradient * gradient)).sum::<f64>().sqrt();
        let scale = if self.max_grad_norm > 0.0 && norm > self.max_grad_norm {
            self.max_grad_norm / norm
        } else {
            1.0
        };
        let update = self.optimiser.update(self.state.step, lr).with_grad_scale(scale as f32);
        let State { parameters, exp_avg, exp_avg_sq, slow_weights, .. } = &mut self.state;
        update.apply(parameters, &self.gradients, exp_avg, exp_avg_sq, slow_weights, ClampRange::UNBOUNDED);
        self.state.step += 1;
        StepMetrics { loss, grad_norm: norm, ..StepMetrics::default() }
    }

    /// Computes the mean loss of some cases and its gradients.
    fn compute_gradients(&mut self, cases: &[LabelledCase]) -> f64 {
        self.gradients.fill(0.0);
        let weights: f64 = cases.iter().map(|case| weight(case, self.by_gain)).sum();
        let mut loss = 0.0;
        for case in cases {
            let normalised = weight(case, self.by_gain) / weights;
            loss += normalised * self.add_case(case, normalised);
        }
        loss
    }

    /// Adds the gradients of a case with a weight; returns its loss.
    fn add_case(&mut self, case: &LabelledCase, weight: f64) -> f64 {
        let inputs = case.features.values();
        let hidden = self.hidden(inputs);
        let [first, second, last] = self.layers;
        let mut logit = [0.0];
        last.forward(&self.state.parameters, &hidden.values[1], &mut logit);
        let logit = f64::from(logit[0]);
        let label = f64::from(u8::from(case.strategist_is_better));
        let loss = logit.max(0.0) - logit * label + (-logit.abs()).exp().ln_1p();
        let d_logit = [(weight * (sigmoid(logit) - label)) as f32];

        let mut d_second = vec![0.0; second.outputs];
        last.backward(
            &self.state.parameters,
            &hidden.values[1],
            &d_logit,
            &mut self.gradients,
            &mut d_second,
        );
        let apply_mask = |gradients: &mut [f32], mask: &[f32]| {
            gradients.iter_mut().zip(mask).for_each(|(gradient, kept)| *gradient *= kept);
        };
        apply_mask(&mut d_second, &hidden.mask[1]);
        let mut d_first = vec![0.0; first.outputs];
        second.backward(
            &self.state.parameters,
            &hidden.values[0],
            &d_second,
            &mut self.gradients,
            &mut d_first,
        );
        apply_mask(&mut d_first, &hidden.mask[0]);
        let mut d_inputs = vec![0.0; first.inputs];
        first.backward(&self.state.parameters, inputs, &d_first, &mut self.gradients, &mut d_inputs);
        loss
    }

    /// Forward pass through the hidden layers: ReLU and inverted dropout.
    fn hidden(&mut self, inputs: &[f32]) -> Hidden {
        let [first, second, _] = self.layers;
        let mut hidden = Hidden { values: Default::default(), mask: Default::default() };
        for (index, layer) in [first, second].into_iter().enumerate() {
            let mut values = vec![0.0; layer.outputs];
            let layer_inputs = if index == 0 { inputs } else { hidden.values[0].as_slice() };
            layer.forward(&self.state.parameters, layer_inputs, &mut values);
            let mut mask = vec![0.0; layer.outputs];
            for (value, kept) in values.iter_mut().zip(&mut mask) {
                let keep = self.dropout == 0.0 || self.random.unit() >= self.dropout;
                if keep && *value > 0.0 {
                    *kept = (1.0 / (1.0 - self.dropout)) as f32;
                }
                *value *= *kept;
            }
            (hidden.values[index], hidden.mask[index]) = (values, mask);
        }
        hidden
    }
}

impl Trainer for Learner {
    type Batch = Vec<LabelledCase>;
    type Outputs = Vec<f32>;

    fn train_step(&mut self, batch: &Vec<LabelledCase>, lr: f64) -> Result<(), TrainError> {
        let metrics = self.step(batch, lr);
        self.pending_metrics.push(metrics);
        Ok(())
    }

    fn take_metrics(&mut self) -> Result<Vec<StepMetrics>, TrainError> {
        Ok(std::mem::take(&mut self.pending_metrics))
    }

    fn predict(&mut self, batch: &Vec<LabelledCase>, _averaged: bool) -> Result<Vec<f32>, TrainError> {
        let selector = self.selector();
        Ok(batch.iter().map(|case| selector.probability(&case.features)).collect())
    }

    fn state(&mut self) -> Result<State, TrainError> {
        Ok(State { dropout_rng: self.random.state(), ..self.state.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::Case;
    use super::super::evaluation::loss;
    use super::super::evaluation::tests::case;
    use super::*;

    const ADAM: Optimiser = Optimiser::AdamW { beta1: 0.9, beta2: 0.999, weight_decay: 0.0, epsilon: 1e-8 };

    fn plain(dropout: f64, by_gain: bool) -> TrainingRecipe {
        TrainingRecipe { dropout, by_gain, max_grad_norm: 0.0, ..TrainingRecipe::default() }
    }

    /// Cases in which the strategist is better where there are captures.
    fn cases(count: u64) -> Vec<LabelledCase> {
        (0..count)
            .map(|seed| {
                let case = case(seed);
                let deep = if case.features.values()[1] > 0.1 { 0.9 } else { 0.5 };
                LabelledCase::new(Case { strategist: 0.9, deep, ..case }, 100.0, 0.05)
            })
            .collect()
    }

    #[test]
    fn gradients_match_finite_differences() {
        let cases = cases(12);
        for by_gain in [false, true] {
            let mut learner = Learner::new(&Selector::random(3), &plain(0.0, by_gain), ADAM, 1);
            assert!(
                (learner.compute_gradients(&cases) - loss(&learner.selector(), &cases, by_gain)).abs() < 1e-5
            );
            let gradients = learner.gradients.clone();
            let mut seen = 0;
            for at in (0..gradients.len()).step_by(37) {
                let mut moved = |by: f32| {
                    let before = learner.state.parameters[at];
                    learner.state.parameters[at] += by;
                    let loss = learner.compute_gradients(&cases);
                    learner.state.parameters[at] = before;
                    loss
                };
                let step = 1e-3;
                let expected = (moved(step) - moved(-step)) / (2.0 * f64::from(step));
                let found = f64::from(gradients[at]);
                assert!(
                    (found - expected).abs() < 1e-3 * (1.0 + expected.abs()),
                    "{at}: {found}, not {expected}"
                );
                seen += usize::from(found.abs() > 1e-3);
            }
            assert!(seen > 10, "only {seen} parameters have a gradient");
        }
    }

    #[test]
    fn a_visible_pattern_is_learnt() {
        let (train, others) = (cases(600), cases(900).split_off(600));
        let mut learner = Learner::new(&Selector::random(2), &plain(0.2, false), ADAM, 4);
        let before = loss(&learner.selector(), &others, false);
        for _ in 0..40 {
            for batch in train.chunks(60) {
                learner.step(batch, 3e-3);
            }
        }
        let after = loss(&learner.selector(), &others, false);
        assert!(after < 0.25 && after < before / 2.0, "{before} to {after}");
    }

    #[test]
    fn gradients_are_clipped_and_equal_seeds_give_equal_selectors() {
        let cases = cases(50);
        let training = TrainingRecipe { max_grad_norm: 1e-3, ..plain(0.5, false) };
        let trained = |seed: u64| {
            let mut learner = Learner::new(&Selector::random(1), &training, ADAM, seed);
            for _ in 0..5 {
                learner.step(&cases, 0.01);
            }
            assert!(
                learner.state.exp_avg.iter().map(|gradient| gradient * gradient).sum::<f32>().sqrt() <= 1e-3
            );
            learner.selector()
        };
        assert_eq!(trained(1), trained(1));
        assert_ne!(trained(1), trained(2));
    }

    #[test]
    fn a_learner_continues_from_its_state_to_the_bit() {
        let (cases, training) = (cases(60), plain(0.3, true));
        let new = || Learner::new(&Selector::random(1), &training, ADAM, 5);
        let mut whole = new();
        let steps =
            |learner: &mut Learner| cases.chunks(20).for_each(|batch| drop(learner.step(batch, 0.01)));
        steps(&mut whole);
        let mut resumed = new().resume(whole.state().unwrap());
        steps(&mut whole);
        steps(&mut resumed);
        assert_eq!(whole.state().unwrap(), resumed.state().unwrap());
    }
}
