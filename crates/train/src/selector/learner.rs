//! Steps of a selector: forward, back, and against the slopes.

use super::cases::Weighed;
use super::judgement::weight;
use super::recipe::SelectorTraining;
use crate::loss::sigmoid;
use crate::optimiser::{Optimiser, Range};
use tandem_chess::random::SplitMix;
use tandem_hybrid::Selector;

/// A layer within the row of all numbers: weights with a row for each output, and after them the biases.
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

    fn forward(self, numbers: &[f32], inputs: &[f32], outputs: &mut [f32]) {
        let rows = numbers[self.weights()].chunks_exact(self.inputs).zip(&numbers[self.biases()]);
        for (output, (row, bias)) in outputs.iter_mut().zip(rows) {
            *output = bias + row.iter().zip(inputs).map(|(weight, input)| weight * input).sum::<f32>();
        }
    }

    /// Adds the slopes of its numbers, and finds those of its inputs.
    fn backward(
        self,
        numbers: &[f32],
        inputs: &[f32],
        of_outputs: &[f32],
        slopes: &mut [f32],
        of_inputs: &mut [f32],
    ) {
        of_inputs.fill(0.0);
        for (output, &slope) in of_outputs.iter().enumerate() {
            slopes[self.biases().start + output] += slope;
            let row = self.start + output * self.inputs;
            for ((sum, input), (of_input, weight)) in
                slopes[row..].iter_mut().zip(inputs).zip(of_inputs.iter_mut().zip(&numbers[row..]))
            {
                *sum += slope * input;
                *of_input += slope * weight;
            }
        }
    }
}

/// A selector that learns.
pub(super) struct Learner {
    layers: [Layer; 3],
    numbers: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
    slopes: Vec<f32>,
    steps: u64,
    optimiser: Optimiser,
    dropout: f64,
    clip: f64,
    by_gain: bool,
    random: SplitMix,
}

/// The hidden numbers of one case, and what is left of each after some were left out.
struct Hidden {
    values: [Vec<f32>; 2],
    kept: [Vec<f32>; 2],
}

impl Learner {
    pub(super) fn new(start: &Selector, training: &SelectorTraining, seed: u64) -> Self {
        let mut numbers = Vec::new();
        let mut layers = Vec::new();
        for (_, shape, tensor) in start.tensors() {
            if let [outputs, inputs] = shape[..] {
                layers.push(Layer { start: numbers.len(), inputs, outputs });
            }
            numbers.extend(tensor);
        }
        let Ok(layers) = <[Layer; 3]>::try_from(layers) else { unreachable!("a selector has three layers") };
        let zeros = vec![0.0; numbers.len()];
        let optimiser = Optimiser::Adam { beta1: 0.9, beta2: 0.999, decay: training.decay, epsilon: 1e-8 };
        Self {
            layers,
            first: zeros.clone(),
            second: zeros.clone(),
            slopes: zeros,
            numbers,
            steps: 0,
            optimiser,
            dropout: training.dropout,
            clip: training.clip,
            by_gain: training.by_gain,
            random: SplitMix::new(seed),
        }
    }

    /// Steps that were made.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// The selector as it is.
    pub(super) fn selector(&self) -> Selector {
        let mut rest = self.numbers.as_slice();
        let made = Selector::of_tensors(|_, shape| {
            let (tensor, others) = rest.split_at(shape.iter().product());
            rest = others;
            Ok(tensor.to_vec())
        });
        let Ok::<Selector, std::convert::Infallible>(selector) = made;
        selector
    }

    /// Makes a step; returns the mean loss before it.
    pub(super) fn learn(&mut self, cases: &[&Weighed], rate: f64) -> f64 {
        let loss = self.find_slopes(cases);
        let length = self.slopes.iter().map(|slope| f64::from(slope * slope)).sum::<f64>().sqrt();
        let factor = if self.clip > 0.0 && length > self.clip { self.clip / length } else { 1.0 };
        let update = self.optimiser.update(self.steps, rate).times(factor as f32);
        let Self { numbers, slopes, first, second, .. } = self;
        update.apply(numbers, slopes, first, second, &mut [], Range::ALL);
        self.steps += 1;
        loss
    }

    /// The mean loss of cases, and its slopes.
    fn find_slopes(&mut self, cases: &[&Weighed]) -> f64 {
        self.slopes.fill(0.0);
        let weights: f64 = cases.iter().map(|case| weight(case, self.by_gain)).sum();
        let mut loss = 0.0;
        for case in cases {
            let share = weight(case, self.by_gain) / weights;
            loss += share * self.add_case(case, share);
        }
        loss
    }

    /// Adds the slopes of a case that counts so much; returns its loss.
    fn add_case(&mut self, case: &Weighed, share: f64) -> f64 {
        let inputs = case.features.numbers();
        let hidden = self.hidden(inputs);
        let [first, second, last] = self.layers;
        let mut logit = [0.0];
        last.forward(&self.numbers, &hidden.values[1], &mut logit);
        let logit = f64::from(logit[0]);
        let wanted = f64::from(u8::from(case.knows_better));
        let loss = logit.max(0.0) - logit * wanted + (-logit.abs()).exp().ln_1p();
        let of_logit = [(share * (sigmoid(logit) - wanted)) as f32];

        let mut of_second = vec![0.0; second.outputs];
        last.backward(&self.numbers, &hidden.values[1], &of_logit, &mut self.slopes, &mut of_second);
        let times = |slopes: &mut [f32], kept: &[f32]| {
            slopes.iter_mut().zip(kept).for_each(|(slope, kept)| *slope *= kept);
        };
        times(&mut of_second, &hidden.kept[1]);
        let mut of_first = vec![0.0; first.outputs];
        second.backward(&self.numbers, &hidden.values[0], &of_second, &mut self.slopes, &mut of_first);
        times(&mut of_first, &hidden.kept[0]);
        let mut of_inputs = vec![0.0; first.inputs];
        first.backward(&self.numbers, inputs, &of_first, &mut self.slopes, &mut of_inputs);
        loss
    }

    /// The hidden numbers: positive parts, some of them left out and the others larger by as much.
    fn hidden(&mut self, inputs: &[f32]) -> Hidden {
        let [first, second, _] = self.layers;
        let mut hidden = Hidden { values: Default::default(), kept: Default::default() };
        for (place, layer) in [first, second].into_iter().enumerate() {
            let mut values = vec![0.0; layer.outputs];
            let before = if place == 0 { inputs } else { hidden.values[0].as_slice() };
            layer.forward(&self.numbers, before, &mut values);
            let mut kept = vec![0.0; layer.outputs];
            for (value, kept) in values.iter_mut().zip(&mut kept) {
                let stays = self.dropout == 0.0 || self.random.unit() >= self.dropout;
                if stays && *value > 0.0 {
                    *kept = (1.0 / (1.0 - self.dropout)) as f32;
                }
                *value *= *kept;
            }
            (hidden.values[place], hidden.kept[place]) = (values, kept);
        }
        hidden
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::Case;
    use super::super::judgement::loss;
    use super::super::judgement::tests::case;
    use super::*;

    fn plain(dropout: f64, by_gain: bool) -> SelectorTraining {
        SelectorTraining { dropout, by_gain, decay: 0.0, clip: 0.0, ..SelectorTraining::default() }
    }

    /// Cases in which the strategist knows better where there are captures.
    fn cases(count: u64) -> Vec<Weighed> {
        (0..count)
            .map(|seed| {
                let case = case(seed);
                let deep = if case.features.numbers()[1] > 0.1 { 0.9 } else { 0.5 };
                Weighed::new(Case { strategist: 0.9, deep, ..case }, 100.0, 0.05)
            })
            .collect()
    }

    #[test]
    fn slopes_are_those_of_small_steps() {
        let cases = cases(12);
        let all: Vec<&Weighed> = cases.iter().collect();
        for by_gain in [false, true] {
            let mut learner = Learner::new(&Selector::random(3), &plain(0.0, by_gain), 1);
            assert!((learner.find_slopes(&all) - loss(&learner.selector(), &cases, by_gain)).abs() < 1e-5);
            let slopes = learner.slopes.clone();
            let mut seen = 0;
            for at in (0..slopes.len()).step_by(37) {
                let mut moved = |by: f32| {
                    let before = learner.numbers[at];
                    learner.numbers[at] += by;
                    let loss = learner.find_slopes(&all);
                    learner.numbers[at] = before;
                    loss
                };
                let step = 1e-3;
                let expected = (moved(step) - moved(-step)) / (2.0 * f64::from(step));
                let found = f64::from(slopes[at]);
                assert!(
                    (found - expected).abs() < 1e-3 * (1.0 + expected.abs()),
                    "{at}: {found}, not {expected}"
                );
                seen += usize::from(found.abs() > 1e-3);
            }
            assert!(seen > 10, "only {seen} numbers matter");
        }
    }

    #[test]
    fn what_can_be_seen_is_learnt() {
        let (train, others) = (cases(600), cases(900).split_off(600));
        let mut learner = Learner::new(&Selector::random(2), &plain(0.2, false), 4);
        let before = loss(&learner.selector(), &others, false);
        for _ in 0..40 {
            for batch in train.chunks(60) {
                learner.learn(&batch.iter().collect::<Vec<_>>(), 3e-3);
            }
        }
        let after = loss(&learner.selector(), &others, false);
        assert!(after < 0.25 && after < before / 2.0, "{before} to {after}");
    }

    #[test]
    fn slopes_are_held_to_a_length_and_the_same_seed_is_the_same_selector() {
        let cases = cases(50);
        let all: Vec<&Weighed> = cases.iter().collect();
        let training = SelectorTraining { clip: 1e-3, ..plain(0.5, false) };
        let learnt = |seed: u64| {
            let mut learner = Learner::new(&Selector::random(1), &training, seed);
            for _ in 0..5 {
                learner.learn(&all, 0.01);
            }
            assert!(learner.first.iter().map(|slope| slope * slope).sum::<f32>().sqrt() <= 1e-3);
            learner.selector()
        };
        assert_eq!(learnt(1), learnt(1));
        assert_ne!(learnt(1), learnt(2));
    }
}
