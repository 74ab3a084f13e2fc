//! A trainer for CPUs.
//!
//! A step has four parts. First, the active features of each side of each position are found. Then every
//! side's accumulator is gathered from its weight rows, grouped by king bucket so that the rows of a bucket
//! stay in the cache. Next, the layers after the accumulators are computed forward and backward, a few
//! hundred positions at a time, each group with its own gradient sums, which are added in a fixed order.
//! Finally, every weight row of the first layer is visited once: the gradients of all sides for which it was
//! active are summed, and the optimiser is applied while the row is in the cache.
//!
//! The result depends neither on the number of threads nor on the instruction set, because sums are made in
//! lanes of one fixed width.

mod head;
mod kernels;

use crate::batch::{ActiveFeatures, Batch};
use crate::layout::round_to;
use crate::optimiser::Update;
use crate::state::State;
use crate::trainer::{Job, StepMetrics, TrainError, Trainer};
use head::Head;
use kernels::{FirstLayer, RowGradients};
use rayon::prelude::*;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};
use tandem_nnue::{FeatureSet, Inputs, Isa, PSQT_BUCKETS};

/// Positions, or sides, that one task of the thread pool computes; fixed, because sums are made group by
/// group.
const GROUP: usize = 512;

/// Weight rows of the first layer that one task updates.
const ROWS_PER_TASK: usize = 64;

/// Parallel tasks that list the sides for which each feature is active.
const SEARCH_TASKS: usize = 8;

/// An NNUE in training on the CPU; also for networks that are not chess, by
/// [`CpuTrainer::train_step_features`].
pub struct CpuTrainer<I = FeatureSet> {
    job: Job<I>,
    isa: Isa,
    state: State,
    metrics: Vec<StepMetrics>,
    /// Kept from step to step, so that nothing is allocated again.
    features: ActiveFeatures,
    buffers: StepBuffers,
}

/// Intermediate results of one step, kept between steps to avoid allocations.
#[derive(Default)]
struct StepBuffers {
    /// Sides sorted by king bucket, and the place of each side in that order.
    order: Vec<u32>,
    places: Vec<u32>,
    /// Accumulators of all sides, in the order of their king buckets.
    accumulators: Vec<f32>,
    /// Gradients of the accumulators, in the order of the positions.
    grads: Vec<f32>,
    grad_outputs: Vec<f32>,
    users: FeatureUsers,
}

/// For each feature the sides for which it is active, sorted by king bucket.
#[derive(Default)]
struct FeatureUsers {
    /// End of each feature's list within `sides`; it begins where the previous one ends.
    ends: Vec<u32>,
    sides: Vec<AtomicU32>,
}

/// Loss and gradients summed over a group of positions, to be added to those of the others in order.
struct GroupSums {
    loss: f64,
    bias: Vec<f32>,
    /// Gradients of each stack that was used by any of the positions.
    stacks: Vec<Option<Vec<f32>>>,
}

impl<I: Inputs + Sync> CpuTrainer<I> {
    /// Continues from a state, with the best instruction set of this CPU.
    pub fn new(job: Job<I>, state: State) -> Self {
        Self::with_isa(job, state, Isa::best())
    }

    /// Continues from a state with a given instruction set, or with the best one if this CPU lacks it. All
    /// give the same bits.
    pub fn with_isa(job: Job<I>, state: State, isa: Isa) -> Self {
        let isa = if isa.is_available() { isa } else { Isa::best() };
        let features = ActiveFeatures::of(&job.layout);
        Self { job, isa, state, metrics: Vec::new(), features, buffers: StepBuffers::default() }
    }

    /// Trains on positions given by their active features; an empty batch is not a step.
    pub fn train_step_features(&mut self, features: &ActiveFeatures, lr: f64) {
        if features.is_empty() {
            return;
        }
        let mut buffers = std::mem::take(&mut self.buffers);
        let head = self.head(&self.state.parameters);
        self.forward(&self.state.parameters, features, &mut buffers);
        let sums = self.backward(&head, features, &mut buffers);
        buffers.users.find(features, &buffers.order, self.job.layout.num_weight_rows());
        drop(head);
        let metrics = self.update(features, &buffers, sums, lr);
        self.metrics.push(metrics);
        self.buffers = buffers;
        self.state.step += 1;
        if let Some(decay) = self.job.ema_decay_after(self.state.step) {
            let pieces =
                self.state.ema.par_chunks_mut(1 << 14).zip(self.state.parameters.par_chunks(1 << 14));
            pieces.for_each(|(ema, parameters)| {
                for (average, value) in ema.iter_mut().zip(parameters) {
                    *average += (1.0 - decay) * (value - *average);
                }
            });
        }
    }

    /// The layers after the first layer's weights, rounded if training is quantisation-aware.
    fn head<'a>(&'a self, parameters: &'a [f32]) -> Head<'a> {
        let layout = &self.job.layout;
        let start = layout.bias().start;
        let rest = &parameters[start..];
        let rest = if layout.options().qat {
            let mut rounded = rest.to_vec();
            for tensor in &layout.tensors()[1..] {
                let place = tensor.start - start..tensor.start + tensor.len - start;
                rounded[place].iter_mut().for_each(|value| *value = round_to(*value, tensor.quant_scale));
            }
            Cow::Owned(rounded)
        } else {
            Cow::Borrowed(rest)
        };
        Head::new(layout, rest, self.job.loss, self.job.output_scale)
    }

    /// Computes the accumulators of all sides from their weight rows.
    fn forward(&self, parameters: &[f32], features: &ActiveFeatures, buffers: &mut StepBuffers) {
        let layout = &self.job.layout;
        let outputs = layout.architecture().outputs;
        sort_by_king_bucket(features, layout.architecture().features.stride(), buffers);
        let rounded = layout.options().qat;
        let bias: Vec<f32> = parameters[layout.bias().span()]
            .iter()
            .map(|&value| if rounded { round_to(value, layout.bias().quant_scale) } else { value })
            .collect();
        let first = FirstLayer {
            weights: &parameters[layout.weights().span()],
            bias: &bias,
            outputs,
            width: layout.architecture().width(),
            scale: rounded.then_some(layout.weights().quant_scale),
        };
        buffers.accumulators.resize(I::SIDES * features.len() * outputs, 0.0);
        let groups =
            buffers.accumulators.par_chunks_mut(GROUP * outputs).zip(buffers.order.par_chunks(GROUP));
        groups.for_each(|(accumulators, sides)| {
            kernels::gather(self.isa, &first, features, sides, accumulators);
        });
    }

    /// Computes the layers after the accumulators, forward and backward.
    fn backward(&self, head: &Head<'_>, features: &ActiveFeatures, buffers: &mut StepBuffers) -> GroupSums {
        let StepBuffers { places, accumulators, grads, grad_outputs, .. } = buffers;
        let outputs = self.job.layout.architecture().outputs;
        grads.resize(I::SIDES * features.len() * outputs, 0.0);
        grad_outputs.resize(features.len(), 0.0);
        let groups = grads
            .par_chunks_mut(GROUP * I::SIDES * outputs)
            .zip(grad_outputs.par_chunks_mut(GROUP))
            .enumerate();
        let groups = groups.map(|(group, (grads, grad_outputs))| {
            let mut sums = GroupSums {
                loss: 0.0,
                bias: vec![0.0; self.job.layout.bias().len],
                stacks: vec![None; self.job.layout.architecture().buckets().count],
            };
            let positions = group * GROUP..group * GROUP + grad_outputs.len();
            kernels::head(
                self.isa,
                head,
                features,
                positions,
                (places, accumulators),
                grads,
                grad_outputs,
                &mut sums,
            );
            sums
        });
        // In a fixed order, because floating-point sums depend on it.
        let mut groups: std::vec::IntoIter<GroupSums> = groups.collect::<Vec<_>>().into_iter();
        let mut total =
            groups.next().unwrap_or_else(|| GroupSums { loss: 0.0, bias: Vec::new(), stacks: Vec::new() });
        for group in groups {
            total.loss += group.loss;
            add(&mut total.bias, &group.bias);
            for (sum, part) in total.stacks.iter_mut().zip(group.stacks) {
                match (sum, part) {
                    (Some(sum), Some(part)) => add(sum, &part),
                    (sum @ None, part @ Some(_)) => *sum = part,
                    (_, None) => {}
                }
            }
        }
        total
    }

    /// Updates all parameters with their gradients, and returns the metrics of the step.
    fn update(
        &mut self,
        features: &ActiveFeatures,
        buffers: &StepBuffers,
        sums: GroupSums,
        lr: f64,
    ) -> StepMetrics {
        let layout = &self.job.layout;
        let architecture = layout.architecture();
        let first_rest = layout.bias().start;
        // Gradients of everything after the first layer's weights; the piece-square values are found feature
        // by feature.
        let mut rest = vec![0f32; layout.num_parameters() - first_rest];
        rest[..sums.bias.len()].copy_from_slice(&sums.bias);
        let starts: Vec<usize> =
            (0..architecture.buckets().count).map(|stack| layout.layer(stack, 0).0.start).collect();
        for (start, grads) in starts.iter().zip(&sums.stacks) {
            if let Some(grads) = grads {
                rest[start - first_rest..][..grads.len()].copy_from_slice(grads);
            }
        }
        let row_grads = RowGradients {
            grads: &buffers.grads,
            ends: &buffers.users.ends,
            sides: &buffers.users.sides,
            outputs: architecture.outputs,
            width: architecture.width(),
        };
        if let Some(psqt) = layout.psqt() {
            let place = psqt.start - first_rest..psqt.start + psqt.len - first_rest;
            rest[place].par_chunks_mut(PSQT_BUCKETS * ROWS_PER_TASK).enumerate().for_each(
                |(chunk, grads)| {
                    for (row, grads) in (chunk * ROWS_PER_TASK..).zip(grads.chunks_exact_mut(PSQT_BUCKETS)) {
                        for side in row_grads.users_of(row) {
                            let position = side / 2;
                            let sign = if side % 2 == 0 { 0.5 } else { -0.5 };
                            grads[usize::from(features.buckets[position])] +=
                                sign * buffers.grad_outputs[position];
                        }
                    }
                },
            );
        }
        let rest_square: f64 = rest.iter().map(|grad| f64::from(*grad).powi(2)).sum();

        let mut update = self.job.optimiser.update(self.state.step, lr);
        if self.job.max_grad_norm > 0.0 {
            // Gradient clipping. The norm must be known first, so the gradients are computed twice.
            let norm = (rest_square + self.visit_rows(&row_grads, None)).sqrt();
            update =
                update.with_grad_scale((f64::from(self.job.max_grad_norm) / norm.max(1e-30)).min(1.0) as f32);
        }
        let square = rest_square + self.visit_rows(&row_grads, Some(&update));
        let State { parameters, exp_avg, exp_avg_sq, slow_weights, .. } = &mut self.state;
        for tensor in &self.job.layout.tensors()[1..] {
            let part = |buffer: &mut Vec<f32>| if buffer.is_empty() { 0..0 } else { tensor.span() };
            let grads = &rest[tensor.start - first_rest..][..tensor.len];
            let spans = (part(exp_avg), part(exp_avg_sq), part(slow_weights));
            update.apply(
                &mut parameters[tensor.span()],
                grads,
                &mut exp_avg[spans.0],
                &mut exp_avg_sq[spans.1],
                &mut slow_weights[spans.2],
                tensor.clamp,
            );
        }
        StepMetrics {
            loss: sums.loss / features.len() as f64,
            grad_norm: square.sqrt(),
            ..StepMetrics::default()
        }
    }

    /// Computes the gradients of every weight row of the first layer, and updates the rows if an update is
    /// given. Returns the sum of the squared gradients.
    fn visit_rows(&mut self, rows: &RowGradients<'_>, update: Option<&Update>) -> f64 {
        let layout = &self.job.layout;
        let (len, range, isa) = (layout.weights().len, layout.weights().clamp, self.isa);
        let State { parameters, exp_avg, exp_avg_sq, slow_weights, .. } = &mut self.state;
        let chunk = ROWS_PER_TASK * rows.width;
        let count = len.div_ceil(chunk);
        let pieces = par_chunks_or_empty(&mut parameters[..len], chunk, count)
            .zip(par_chunks_or_empty(prefix(exp_avg, len), chunk, count))
            .zip(par_chunks_or_empty(prefix(exp_avg_sq, len), chunk, count))
            .zip(par_chunks_or_empty(prefix(slow_weights, len), chunk, count));
        let squares: Vec<f64> = pieces
            .enumerate()
            .map(|(chunk_index, (((weights, exp_avg), exp_avg_sq), slow_weights))| {
                kernels::update_rows(
                    isa,
                    rows,
                    chunk_index * ROWS_PER_TASK,
                    update,
                    range,
                    weights,
                    exp_avg,
                    exp_avg_sq,
                    slow_weights,
                )
            })
            .collect();
        squares.iter().sum()
    }

    /// Outputs for positions given by their active features, on the scale of the targets.
    pub fn predict_features(&mut self, features: &ActiveFeatures) -> Vec<f32> {
        let mut buffers = std::mem::take(&mut self.buffers);
        let outputs = self.outputs_of(&self.state.parameters, features, &mut buffers);
        self.buffers = buffers;
        outputs
    }

    /// Parameters and optimiser buffers after the last step, without a copy.
    pub fn current_state(&self) -> &State {
        &self.state
    }

    /// Metrics of the steps since the previous call, in order.
    pub fn drain_metrics(&mut self) -> Vec<StepMetrics> {
        std::mem::take(&mut self.metrics)
    }

    fn outputs_of(
        &self,
        parameters: &[f32],
        features: &ActiveFeatures,
        buffers: &mut StepBuffers,
    ) -> Vec<f32> {
        let head = self.head(parameters);
        self.forward(parameters, features, buffers);
        let mut outputs = vec![0f32; features.len()];
        let StepBuffers { places, accumulators, .. } = buffers;
        outputs.par_chunks_mut(GROUP).enumerate().for_each(|(group, outputs)| {
            let first = group * GROUP;
            kernels::predict(self.isa, &head, features, first, (places, accumulators), outputs);
        });
        outputs
    }
}

impl Trainer for CpuTrainer {
    type Batch = Batch;
    type Outputs = Vec<f32>;

    fn train_step(&mut self, batch: &Batch, lr: f64) -> Result<(), TrainError> {
        let mut features = std::mem::replace(&mut self.features, ActiveFeatures::of(&self.job.layout));
        features.fill(&self.job.layout, batch);
        self.train_step_features(&features, lr);
        self.features = features;
        Ok(())
    }

    fn take_metrics(&mut self) -> Result<Vec<StepMetrics>, TrainError> {
        Ok(self.drain_metrics())
    }

    fn predict(&mut self, batch: &Batch, averaged: bool) -> Result<Vec<f32>, TrainError> {
        let mut features = std::mem::replace(&mut self.features, ActiveFeatures::of(&self.job.layout));
        let mut buffers = std::mem::take(&mut self.buffers);
        features.fill(&self.job.layout, batch);
        let averaged = averaged && !self.state.ema.is_empty();
        let parameters = if averaged { &self.state.ema } else { &self.state.parameters };
        let outputs = self.outputs_of(parameters, &features, &mut buffers);
        (self.features, self.buffers) = (features, buffers);
        Ok(outputs)
    }

    fn state(&mut self) -> Result<State, TrainError> {
        Ok(self.state.clone())
    }
}

#[inline(always)]
fn add(sums: &mut [f32], parts: &[f32]) {
    sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
}

/// The first `len` values, or none if the buffer is empty.
fn prefix(buffer: &mut [f32], len: usize) -> &mut [f32] {
    let len = len.min(buffer.len());
    &mut buffer[..len]
}

/// Splits a buffer into `count` chunks; all of them are empty if the optimiser does not use the buffer.
fn par_chunks_or_empty(
    buffer: &mut [f32],
    chunk: usize,
    count: usize,
) -> impl IndexedParallelIterator<Item = &mut [f32]> {
    let pieces: Vec<&mut [f32]> = match buffer.is_empty() {
        true => std::iter::repeat_with(|| &mut [][..]).take(count).collect(),
        false => buffer.chunks_mut(chunk).collect(),
    };
    pieces.into_par_iter()
}

/// Sorts the sides by king bucket with a counting sort, so that sides that share weight rows are neighbours.
fn sort_by_king_bucket(features: &ActiveFeatures, stride: usize, buffers: &mut StepBuffers) {
    let sides = features.counts.len();
    let bucket_of = |side: usize| features.side(side).first().map_or(0, |&row| row as usize / stride);
    let king_buckets: Vec<u32> =
        (0..sides).into_par_iter().with_min_len(GROUP).map(|side| bucket_of(side) as u32).collect();
    let mut starts = vec![0u32; king_buckets.iter().max().map_or(0, |&bucket| bucket as usize + 1)];
    for &bucket in &king_buckets {
        starts[bucket as usize] += 1;
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += std::mem::replace(start, sum);
    }
    buffers.order.resize(sides, 0);
    buffers.places.resize(sides, 0);
    for (side, &bucket) in king_buckets.iter().enumerate() {
        let place = &mut starts[bucket as usize];
        buffers.order[*place as usize] = side as u32;
        buffers.places[side] = *place;
        *place += 1;
    }
}

impl FeatureUsers {
    /// Lists the sides for which each feature is active, in several parallel parts: each part first counts
    /// its own entries, which gives the places where they begin in the lists.
    fn find(&mut self, features: &ActiveFeatures, order: &[u32], count: usize) {
        let part = order.len().div_ceil(SEARCH_TASKS).max(1);
        let mut counts: Vec<Vec<u32>> = order
            .par_chunks(part)
            .map(|sides| {
                let mut counts = vec![0u32; count];
                for &side in sides {
                    features.side(side as usize).iter().for_each(|&row| counts[row as usize] += 1);
                }
                counts
            })
            .collect();
        self.ends.resize(count, 0);
        let mut sum = 0;
        for row in 0..count {
            for counts in &mut counts {
                // The count becomes the place where this part's entries begin.
                sum += std::mem::replace(&mut counts[row], sum);
            }
            self.ends[row] = sum;
        }
        self.sides.resize_with(sum as usize, AtomicU32::default);
        let users = &self.sides;
        order.par_chunks(part).zip(&mut counts).for_each(|(sides, places)| {
            for &side in sides {
                for &row in features.side(side as usize) {
                    let place = &mut places[row as usize];
                    users[*place as usize].store(side, Ordering::Relaxed);
                    *place += 1;
                }
            }
        });
    }
}

#[cfg(test)]
pub(crate) mod tests;
