//! A trainer for processors.
//!
//! A step has three parts. Every position's accumulators are gathered from the rows of its inputs. The layers after them
//! are computed forth and back, a few hundred positions at a time, each group with sums of its own that are added up in
//! their order, so that the number of threads changes nothing. Then every row of the first layer is visited once: the
//! slopes of all positions that it was part of are added up and the optimiser applied while the row is at hand.

use crate::batch::Batch;
use crate::loss::Loss;
use crate::optimiser::{Moments, Optimiser, Range, Update};
use rayon::prelude::*;
use tandem_nnue::{Activation, FloatLayer, FloatNetwork, HeadShape, PSQT_BUCKETS, StackShape};

/// Positions whose layers are computed together.
const GROUP: usize = 256;

/// A layer's moments.
#[derive(Clone, Debug, PartialEq)]
struct LayerMoments {
    weights: Moments,
    bias: Moments,
}

/// A network in training.
#[derive(Clone, Debug)]
pub struct CpuTrainer {
    network: FloatNetwork,
    optimiser: Optimiser,
    loss: Loss,
    unit: f32,
    ranges: Ranges,
    weights: Moments,
    bias: Moments,
    psqt: Moments,
    stacks: Vec<Vec<LayerMoments>>,
    step: u64,
    /// Kept from step to step, so that nothing is allocated anew.
    accumulators: Vec<f32>,
}

/// Where weights may be.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranges {
    /// Those of the first layer.
    pub first: Range,
    /// Those of the layers after it, in order.
    pub layers: Vec<Range>,
}

/// Slopes by a layer's weights and biases.
type LayerSlopes = (Vec<f32>, Vec<f32>);

/// Slopes of a group of positions.
struct GroupSlopes {
    loss: f64,
    bias: Vec<f32>,
    /// By the weights and biases of each layer of each stack that judged any of them.
    stacks: Vec<Option<Vec<LayerSlopes>>>,
}

impl CpuTrainer {
    /// Begins with a network. An output of one is `unit` of the target's scale.
    pub fn new(network: FloatNetwork, optimiser: Optimiser, loss: Loss, unit: f64, ranges: Ranges) -> Self {
        let moments = |numbers: &[f32]| optimiser.moments(numbers);
        let layer = |layer: &FloatLayer| LayerMoments {
            weights: moments(&layer.weights),
            bias: moments(&layer.bias),
        };
        Self {
            optimiser,
            loss,
            unit: unit as f32,
            ranges,
            weights: moments(&network.weights),
            bias: moments(&network.bias),
            psqt: moments(&network.psqt),
            stacks: network.stacks.iter().map(|stack| stack.iter().map(layer).collect()).collect(),
            step: 0,
            accumulators: Vec::new(),
            network,
        }
    }

    /// The network as it is now.
    pub fn network(&self) -> &FloatNetwork {
        &self.network
    }

    /// Learns from a batch at a learning rate. Returns the mean loss before it.
    pub fn learn(&mut self, batch: &Batch, rate: f64) -> f64 {
        if batch.is_empty() {
            return 0.0;
        }
        let mut accumulators = std::mem::take(&mut self.accumulators);
        self.gather(batch, &mut accumulators);
        let mut by_output = vec![0f32; batch.len()];
        let sums = self.layers(batch, &mut accumulators, &mut by_output);
        let update = self.optimiser.update(self.step, rate);
        self.update_first(batch, &accumulators, &by_output, &update);
        self.update_rest(&sums, &update);
        self.step += 1;
        self.accumulators = accumulators;
        sums.loss / batch.len() as f64
    }

    /// The mean loss of a batch.
    pub fn loss(&self, batch: &Batch) -> f64 {
        let mut accumulators = Vec::new();
        self.gather(batch, &mut accumulators);
        let mut by_output = vec![0f32; batch.len()];
        self.layers(batch, &mut accumulators, &mut by_output).loss / batch.len().max(1) as f64
    }

    /// Where the columns of each perspective begin.
    fn starts(&self) -> [usize; 2] {
        let architecture = &self.network.architecture;
        [0, architecture.width() - architecture.outputs]
    }

    fn gather(&self, batch: &Batch, accumulators: &mut Vec<f32>) {
        let outputs = self.network.architecture.outputs;
        let (width, starts) = (self.network.architecture.width(), self.starts());
        accumulators.resize(2 * batch.len() * outputs, 0.0);
        accumulators.par_chunks_exact_mut(outputs).enumerate().with_min_len(GROUP).for_each(
            |(row, values)| {
                let start = starts[row % 2];
                values.copy_from_slice(&self.network.bias[start..start + outputs]);
                for &input in batch.side(row) {
                    let weights = &self.network.weights[input as usize * width + start..][..outputs];
                    values.iter_mut().zip(weights).for_each(|(value, weight)| *value += weight);
                }
            },
        );
    }

    /// Forth and back: the accumulators become their slopes.
    fn layers(&self, batch: &Batch, accumulators: &mut [f32], by_output: &mut [f32]) -> GroupSlopes {
        let (outputs, starts) = (self.network.architecture.outputs, self.starts());
        let share = 1.0 / batch.len() as f32;
        let groups = accumulators
            .par_chunks_mut(2 * outputs * GROUP)
            .zip(by_output.par_chunks_mut(GROUP))
            .enumerate()
            .map(|(group, (accumulators, by_output))| {
                let mut sums = GroupSlopes {
                    loss: 0.0,
                    bias: vec![0.0; self.network.bias.len()],
                    stacks: vec![None; self.network.stacks.len()],
                };
                let rows = accumulators.chunks_exact_mut(2 * outputs).zip(by_output);
                for (at, (values, by_output)) in rows.enumerate() {
                    self.position(batch, group * GROUP + at, share, values, by_output, &mut sums);
                    for (start, by_values) in starts.into_iter().zip(values.chunks_exact(outputs)) {
                        add(&mut sums.bias[start..start + outputs], by_values);
                    }
                }
                sums
            });
        // In their order, whoever computed them.
        let groups: Vec<GroupSlopes> = groups.collect();
        let mut total = GroupSlopes {
            loss: 0.0,
            bias: vec![0.0; self.network.bias.len()],
            stacks: vec![None; self.network.stacks.len()],
        };
        for group in groups {
            total.loss += group.loss;
            add(&mut total.bias, &group.bias);
            for (sum, part) in total.stacks.iter_mut().zip(group.stacks) {
                match (sum, part) {
                    (Some(sum), Some(part)) => {
                        for (sum, part) in sum.iter_mut().zip(&part) {
                            add(&mut sum.0, &part.0);
                            add(&mut sum.1, &part.1);
                        }
                    }
                    (sum @ None, part @ Some(_)) => *sum = part,
                    (_, None) => {}
                }
            }
        }
        total
    }

    fn position(
        &self,
        batch: &Batch,
        number: usize,
        share: f32,
        values: &mut [f32],
        by_output: &mut f32,
        sums: &mut GroupSlopes,
    ) {
        let bucket = usize::from(batch.buckets[number]);
        let stack = &self.network.stacks[bucket];
        let sums_of_stack = sums.stacks[bucket].get_or_insert_with(|| {
            stack.iter().map(|layer| (vec![0.0; layer.weights.len()], vec![0.0; layer.bias.len()])).collect()
        });
        let psqt = self.psqt_of(batch, number, bucket);
        let mut loss = 0.0;
        let mut judge = |output: f32| {
            let target = batch.targets[number];
            let (value, slope) = self.loss.of(f64::from((output + psqt) * self.unit), target);
            loss = value;
            slope as f32 * share * self.unit
        };
        *by_output = match self.network.architecture.head {
            HeadShape::Flat { activation, .. } => {
                flat(activation, &stack[0], values, &mut judge, &mut sums_of_stack[0])
            }
            HeadShape::Stacks(shape) => through_stack(stack, values, shape, &mut judge, sums_of_stack),
        };
        sums.loss += loss;
    }

    fn psqt_of(&self, batch: &Batch, number: usize, bucket: usize) -> f32 {
        if self.network.psqt.is_empty() {
            return 0.0;
        }
        let sum = |row: usize| {
            let values = batch
                .side(row)
                .iter()
                .map(|&input| self.network.psqt[input as usize * PSQT_BUCKETS + bucket]);
            values.sum::<f32>()
        };
        (sum(2 * number) - sum(2 * number + 1)) / 2.0
    }

    /// Visits every row of the first layer with the slopes of all sides that it was on for.
    fn update_first(&mut self, batch: &Batch, by_values: &[f32], by_output: &[f32], update: &Update) {
        let architecture = &self.network.architecture;
        let (outputs, width, starts) = (architecture.outputs, architecture.width(), self.starts());
        let inputs = architecture.features.inputs();
        let (ends, users) = users(batch, inputs);
        let users_of = |input: usize| {
            let start = if input == 0 { 0 } else { ends[input - 1] as usize };
            &users[start..ends[input] as usize]
        };
        let range = self.ranges.first;
        let Moments { first, second, slow } = &mut self.weights;
        let rows = self.network.weights.par_chunks_exact_mut(width).enumerate();
        let moments = parts(first, inputs).zip(parts(second, inputs)).zip(parts(slow, inputs));
        rows.zip(moments).with_min_len(64).for_each_init(
            || vec![0f32; width],
            |slopes, ((input, weights), ((first, second), slow))| {
                slopes.fill(0.0);
                for &row in users_of(input) {
                    let row = row as usize;
                    let by_side = &by_values[row * outputs..(row + 1) * outputs];
                    add(&mut slopes[starts[row % 2]..][..outputs], by_side);
                }
                update.apply(weights, slopes, first, second, slow, range);
            },
        );
        if !self.network.psqt.is_empty() {
            let Moments { first, second, slow } = &mut self.psqt;
            let rows = self.network.psqt.par_chunks_exact_mut(PSQT_BUCKETS).enumerate();
            let moments = parts(first, inputs).zip(parts(second, inputs)).zip(parts(slow, inputs));
            rows.zip(moments).with_min_len(64).for_each(|((input, weights), ((first, second), slow))| {
                let mut slopes = [0f32; PSQT_BUCKETS];
                for &row in users_of(input) {
                    let position = row as usize / 2;
                    let sign = if row % 2 == 0 { 0.5 } else { -0.5 };
                    slopes[usize::from(batch.buckets[position])] += sign * by_output[position];
                }
                update.apply(weights, &slopes, first, second, slow, Range::ALL);
            });
        }
    }

    fn update_rest(&mut self, sums: &GroupSlopes, update: &Update) {
        let Moments { first, second, slow } = &mut self.bias;
        update.apply(&mut self.network.bias, &sums.bias, first, second, slow, Range::ALL);
        for ((layers, moments), sums) in
            self.network.stacks.iter_mut().zip(&mut self.stacks).zip(&sums.stacks)
        {
            for (number, (layer, moments)) in layers.iter_mut().zip(moments).enumerate() {
                let none = || (vec![0.0; layer.weights.len()], vec![0.0; layer.bias.len()]);
                // A stack that judged nothing still has moments that fade.
                let owned;
                let (weights, bias) = match sums {
                    Some(sums) => &sums[number],
                    None => {
                        owned = none();
                        &owned
                    }
                };
                let range = self.ranges.layers.get(number).copied().unwrap_or(Range::ALL);
                let Moments { first, second, slow } = &mut moments.weights;
                update.apply(&mut layer.weights, weights, first, second, slow, range);
                let Moments { first, second, slow } = &mut moments.bias;
                update.apply(&mut layer.bias, bias, first, second, slow, Range::ALL);
            }
        }
    }
}

#[inline]
fn add(sums: &mut [f32], parts: &[f32]) {
    sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
}

/// As many parts of equal length as told; all of them empty where an optimiser keeps no such moments.
fn parts(numbers: &mut [f32], count: usize) -> impl IndexedParallelIterator<Item = &mut [f32]> {
    let pieces: Vec<&mut [f32]> = match numbers.len() / count.max(1) {
        0 => std::iter::repeat_with(|| &mut [][..]).take(count).collect(),
        len => numbers.chunks_exact_mut(len).collect(),
    };
    pieces.into_par_iter()
}

/// For each input the sides that it is on for, in their order: where each input's end, and the sides.
fn users(batch: &Batch, inputs: usize) -> (Vec<u32>, Vec<u32>) {
    let mut ends = vec![0u32; inputs];
    for &input in &batch.inputs {
        ends[input as usize] += 1;
    }
    let mut sum = 0;
    for end in &mut ends {
        // Where it begins, for now.
        sum += std::mem::replace(end, sum);
    }
    let mut users = vec![0u32; batch.inputs.len()];
    for row in 0..batch.ends.len() {
        for &input in batch.side(row) {
            let place = &mut ends[input as usize];
            users[*place as usize] = row as u32;
            *place += 1;
        }
    }
    (ends, users)
}

#[inline(always)]
fn clip(value: f32) -> (f32, f32) {
    (value.clamp(0.0, 1.0), if value > 0.0 && value < 1.0 { 1.0 } else { 0.0 })
}

#[inline(always)]
fn flat_with(
    activate: impl Fn(f32) -> (f32, f32),
    layer: &FloatLayer,
    values: &mut [f32],
    judge: &mut dyn FnMut(f32) -> f32,
    sums: &mut LayerSlopes,
) -> f32 {
    let output =
        values.iter().zip(&layer.weights).map(|(&value, weight)| activate(value).0 * weight).sum::<f32>();
    let slope = judge(output + layer.bias[0]);
    sums.1[0] += slope;
    for ((value, weight), sum) in values.iter_mut().zip(&layer.weights).zip(&mut sums.0) {
        let (activated, by_value) = activate(*value);
        *sum += slope * activated;
        *value = slope * weight * by_value;
    }
    slope
}

/// One output: forth, and back into the values. Returns the slope by the output.
fn flat(
    activation: Activation,
    layer: &FloatLayer,
    values: &mut [f32],
    judge: &mut dyn FnMut(f32) -> f32,
    sums: &mut LayerSlopes,
) -> f32 {
    match activation {
        Activation::Relu => {
            let relu = |value: f32| (value.max(0.0), if value > 0.0 { 1.0 } else { 0.0 });
            flat_with(relu, layer, values, judge, sums)
        }
        Activation::Crelu => flat_with(clip, layer, values, judge, sums),
        Activation::Screlu => {
            let screlu = |value: f32| {
                let (held, slope) = clip(value);
                (held * held, 2.0 * held * slope)
            };
            flat_with(screlu, layer, values, judge, sums)
        }
    }
}

fn forward(layer: &FloatLayer, inputs: &[f32], outputs: &mut [f32]) {
    let rows = layer.weights.chunks_exact(inputs.len()).zip(&layer.bias);
    for (output, (row, bias)) in outputs.iter_mut().zip(rows) {
        *output = bias + row.iter().zip(inputs).map(|(weight, input)| weight * input).sum::<f32>();
    }
}

/// Adds the slopes of a layer's weights and biases; those of its inputs go to `by_inputs`.
fn backward(
    layer: &FloatLayer,
    inputs: &[f32],
    by_outputs: &[f32],
    by_inputs: &mut [f32],
    sums: &mut LayerSlopes,
) {
    by_inputs.fill(0.0);
    let rows =
        layer.weights.chunks_exact(inputs.len()).zip(sums.0.chunks_exact_mut(inputs.len())).zip(&mut sums.1);
    for (((row, row_sums), bias_sum), &slope) in rows.zip(by_outputs) {
        *bias_sum += slope;
        for (((weight, sum), input), by_input) in row.iter().zip(row_sums).zip(inputs).zip(&mut *by_inputs) {
            *sum += slope * input;
            *by_input += slope * weight;
        }
    }
}

/// Three layers: forth, and back into the values. Returns the slope by the output.
fn through_stack(
    stack: &[FloatLayer],
    values: &mut [f32],
    shape: StackShape,
    judge: &mut dyn FnMut(f32) -> f32,
    sums: &mut [LayerSlopes],
) -> f32 {
    const SQUARE: f32 = 127.0 / 128.0;
    let product = shape.squeeze.product() as f32;
    let len = values.len() / 2;
    let half = len / 2;
    let mut inputs = vec![0f32; if shape.squeeze.is_pairwise() { len } else { 2 * len }];
    if shape.squeeze.is_pairwise() {
        for (inputs, values) in inputs.chunks_exact_mut(half).zip(values.chunks_exact(len)) {
            let (left, right) = values.split_at(half);
            for ((input, a), b) in inputs.iter_mut().zip(left).zip(right) {
                *input = clip(*a).0 * clip(*b).0 * product;
            }
        }
    } else {
        inputs.iter_mut().zip(&*values).for_each(|(input, value)| *input = clip(*value).0);
    }
    let mut first = vec![0f32; shape.hidden];
    forward(&stack[0], &inputs, &mut first);
    let kept = shape.hidden - usize::from(shape.skip);
    let square = |value: f32| {
        let square = value * value * SQUARE;
        (square.min(1.0), if square < 1.0 { 2.0 * value * SQUARE } else { 0.0 })
    };
    let squares = first[..kept].iter().filter(|_| shape.dual).map(|&value| square(value));
    let hidden: Vec<(f32, f32)> = squares.chain(first[..kept].iter().map(|&value| clip(value))).collect();
    let hidden_values: Vec<f32> = hidden.iter().map(|&(value, _)| value).collect();
    let mut second = vec![0f32; shape.second];
    forward(&stack[1], &hidden_values, &mut second);
    let second_values: Vec<f32> = second.iter().map(|&value| clip(value).0).collect();
    let mut output = [0f32];
    forward(&stack[2], &second_values, &mut output);
    let skipped = if shape.skip { first[kept] } else { 0.0 };
    let slope = judge(output[0] + skipped);

    let mut by_second = vec![0f32; shape.second];
    backward(&stack[2], &second_values, &[slope], &mut by_second, &mut sums[2]);
    by_second.iter_mut().zip(&second).for_each(|(by, &value)| *by *= clip(value).1);
    let mut by_hidden = vec![0f32; hidden.len()];
    backward(&stack[1], &hidden_values, &by_second, &mut by_hidden, &mut sums[1]);
    let mut by_first = vec![0f32; shape.hidden];
    for (at, (by, (_, slope))) in by_hidden.iter().zip(&hidden).enumerate() {
        by_first[at % kept] += by * slope;
    }
    if shape.skip {
        by_first[kept] = slope;
    }
    let mut by_inputs = vec![0f32; inputs.len()];
    backward(&stack[0], &inputs, &by_first, &mut by_inputs, &mut sums[0]);
    if shape.squeeze.is_pairwise() {
        for (by_inputs, values) in by_inputs.chunks_exact(half).zip(values.chunks_exact_mut(len)) {
            let (left, right) = values.split_at_mut(half);
            for ((by, a), b) in by_inputs.iter().zip(left).zip(right) {
                let ((held_a, slope_a), (held_b, slope_b)) = (clip(*a), clip(*b));
                *a = by * held_b * product * slope_a;
                *b = by * held_a * product * slope_b;
            }
        }
    } else {
        values.iter_mut().zip(&by_inputs).for_each(|(value, by)| *value = by * clip(*value).1);
    }
    slope
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{self, Sample};
    use tandem_chess::random::SplitMix;
    use tandem_data::{Packed, Record};
    use tandem_nnue::Architecture;

    fn ranges() -> Ranges {
        Ranges { first: Range::ALL, layers: Vec::new() }
    }

    fn positions(architecture: &Architecture, count: usize, random: &mut SplitMix) -> (Batch, Vec<Sample>) {
        let (mut batch, mut samples) = (Batch::default(), Vec::new());
        while batch.len() < count {
            let (position, target) = reference::tests::random_position(random);
            let record = Record::new(Packed::new(position.board()).unwrap());
            assert!(batch.push(architecture, &record, target));
            samples.push(Sample::new(architecture, position.board(), target));
        }
        (batch, samples)
    }

    fn near(name: &str, before: &[f32], after: &[f32], rate: f64, slopes: &[f64]) {
        let size = slopes.iter().map(|slope| slope.abs()).fold(1e-9, f64::max);
        for ((before, after), slope) in before.iter().zip(after).zip(slopes) {
            let moved = (f64::from(*before) - f64::from(*after)) / rate;
            assert!((moved - slope).abs() < 2e-3 * size + 1e-5, "{name}: {moved} {slope}");
        }
    }

    /// One plain step moves every weight by the reference's slope.
    #[test]
    fn slopes_are_those_of_the_reference() {
        let mut random = SplitMix::new(21);
        for architecture in reference::tests::architectures() {
            let network = reference::tests::random_network(architecture.clone(), &mut random);
            let (batch, samples) = positions(&architecture, 300, &mut random);
            let loss = Loss::Power { power: 2.5 };
            let expected = reference::slopes(&network, &samples, loss, 1.5);
            let sgd = Optimiser::Sgd { momentum: 0.0 };
            let mut trainer = CpuTrainer::new(network.clone(), sgd, loss, 1.5, ranges());
            assert!((trainer.loss(&batch) - expected.loss).abs() < 1e-5 * expected.loss, "{architecture}");
            let rate = 16.0;
            let told = trainer.learn(&batch, rate);
            assert!((told - expected.loss).abs() < 1e-5 * expected.loss, "{architecture}");
            let after = trainer.network();
            near("weights", &network.weights, &after.weights, rate, &expected.weights);
            near("bias", &network.bias, &after.bias, rate, &expected.bias);
            near("psqt", &network.psqt, &after.psqt, rate, &expected.psqt);
            for ((before, after), slopes) in network.stacks.iter().zip(&after.stacks).zip(&expected.stacks) {
                for ((before, after), (weights, bias)) in before.iter().zip(after).zip(slopes) {
                    near("layer weights", &before.weights, &after.weights, rate, weights);
                    near("layer bias", &before.bias, &after.bias, rate, bias);
                }
            }
        }
    }

    #[test]
    fn a_small_network_learns_256_positions_by_heart() {
        let mut random = SplitMix::new(31);
        for architecture in reference::tests::architectures() {
            let network = reference::tests::random_network(architecture.clone(), &mut random);
            let (batch, _) = positions(&architecture, 256, &mut random);
            let adam = Optimiser::Adam { beta1: 0.9, beta2: 0.999, decay: 0.0 };
            let mut trainer = CpuTrainer::new(network, adam, Loss::Power { power: 2.0 }, 1.0, ranges());
            let before = trainer.loss(&batch);
            for _ in 0..300 {
                trainer.learn(&batch, 5e-3);
            }
            let after = trainer.loss(&batch);
            assert!(after < before / 20.0, "{architecture}: {before} {after}");
        }
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let mut random = SplitMix::new(41);
        let architecture = reference::tests::architectures().remove(4);
        let network = reference::tests::random_network(architecture.clone(), &mut random);
        let (batch, _) = positions(&architecture, 2000, &mut random);
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let ranger = Optimiser::Ranger { beta1: 0.9, beta2: 0.999, decay: 0.01, every: 3, pull: 0.5 };
            let mut trainer = CpuTrainer::new(network.clone(), ranger, Loss::CrossEntropy, 1.0, ranges());
            pool.install(|| {
                for _ in 0..8 {
                    trainer.learn(&batch, 1e-2);
                }
            });
            trainer.network
        };
        assert_eq!(run(1), run(3));
    }
}
