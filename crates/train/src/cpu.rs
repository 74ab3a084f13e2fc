//! A trainer for processors.
//!
//! A step has four parts. The rows of the first layer that are on are found for each side of each position. Every side's
//! accumulator is gathered from its rows, the sides of one king after the other, so that the rows of a king are still at
//! hand for the next. The layers after the accumulators are computed forth and back, a few hundred positions at a time,
//! each group with sums of its own that are added up in their order. Then every row of the first layer is visited once:
//! the slopes of all sides that it was on for are added up, and the optimiser applied while the row is at hand.
//!
//! Nothing depends on the number of threads, and nothing on the instructions: sums are made in lanes of one fixed width.

mod head;
mod kernels;

use crate::batch::{Batch, Rows};
use crate::layout::round_to;
use crate::optimiser::Update;
use crate::state::State;
use crate::trainer::{Job, Told, TrainError, Trainer};
use head::Head;
use kernels::{FirstLayer, RowUpdate};
use rayon::prelude::*;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};
use tandem_nnue::{FeatureSet, Inputs, Isa, PSQT_BUCKETS};

/// Positions, or sides, that are computed together.
const GROUP: usize = 512;

/// Rows of the first layer that are visited together.
const ROWS: usize = 64;

/// Parts that the search for the sides of each row is cut into.
const PARTS: usize = 8;

/// A network in training on the processor.
pub struct CpuTrainer<I = FeatureSet> {
    job: Job<I>,
    isa: Isa,
    state: State,
    told: Vec<Told>,
    /// Kept from step to step, so that nothing is allocated anew.
    rows: Rows,
    work: Work,
}

/// What one step computes.
#[derive(Default)]
struct Work {
    /// The sides, those of one king after the other, and the place of each among them.
    order: Vec<u32>,
    places: Vec<u32>,
    /// In that order.
    accumulators: Vec<f32>,
    /// By the accumulators, in the order of the positions.
    slopes: Vec<f32>,
    by_output: Vec<f32>,
    users: Users,
}

/// For each row of the first layer the sides that it is on for, in the order of kings.
#[derive(Default)]
struct Users {
    /// Where those of each row end.
    ends: Vec<u32>,
    sides: Vec<AtomicU32>,
}

/// Sums over a group of positions.
struct GroupSums {
    loss: f64,
    bias: Vec<f32>,
    /// For each stack that judged any of them, by its numbers.
    stacks: Vec<Option<Vec<f32>>>,
}

impl<I: Inputs + Sync> CpuTrainer<I> {
    /// Goes on from a state.
    pub fn new(job: Job<I>, state: State) -> Self {
        Self::with_isa(job, state, Isa::best())
    }

    /// Goes on from a state, with given instructions; the best there are where they are missing.
    pub fn with_isa(job: Job<I>, state: State, isa: Isa) -> Self {
        let isa = if isa.is_available() { isa } else { Isa::best() };
        let rows = Rows::of(&job.layout);
        Self { job, isa, state, told: Vec::new(), rows, work: Work::default() }
    }

    /// Learns from positions whose rows are known.
    pub fn learn_rows(&mut self, rows: &Rows, rate: f64) {
        if rows.is_empty() {
            return;
        }
        let mut work = std::mem::take(&mut self.work);
        let head = self.head(&self.state.numbers);
        self.forward(&self.state.numbers, rows, &mut work);
        let sums = self.back(&head, rows, &mut work);
        work.users.find(rows, &work.order, self.job.layout.rows());
        drop(head);
        let told = self.update(rows, &work, sums, rate);
        self.told.push(told);
        self.work = work;
        self.state.step += 1;
        if let Some(share) = self.job.average_after(self.state.step) {
            let pieces =
                self.state.average.par_chunks_mut(1 << 14).zip(self.state.numbers.par_chunks(1 << 14));
            pieces.for_each(|(average, numbers)| {
                for (average, number) in average.iter_mut().zip(numbers) {
                    *average += (1.0 - share) * (number - *average);
                }
            });
        }
    }

    /// Everything after the first layer's weights, rounded if need be.
    fn head<'a>(&'a self, numbers: &'a [f32]) -> Head<'a> {
        let layout = &self.job.layout;
        let start = layout.bias().start;
        let rest = &numbers[start..];
        let rest = if layout.shape().rounded {
            let mut rounded = rest.to_vec();
            for tensor in &layout.tensors()[1..] {
                let place = tensor.start - start..tensor.start + tensor.len - start;
                rounded[place].iter_mut().for_each(|number| *number = round_to(*number, tensor.grid));
            }
            Cow::Owned(rounded)
        } else {
            Cow::Borrowed(rest)
        };
        Head::new(layout, rest, self.job.loss, self.job.unit)
    }

    /// The accumulators of all sides.
    fn forward(&self, numbers: &[f32], rows: &Rows, work: &mut Work) {
        let layout = &self.job.layout;
        let outputs = layout.architecture().outputs;
        sort_by_king(rows, layout.architecture().features.stride(), work);
        let rounded = layout.shape().rounded;
        let bias: Vec<f32> = numbers[layout.bias().place()]
            .iter()
            .map(|&number| if rounded { round_to(number, layout.bias().grid) } else { number })
            .collect();
        let first = FirstLayer {
            weights: &numbers[layout.weights().place()],
            bias: &bias,
            outputs,
            width: layout.architecture().width(),
            grid: rounded.then_some(layout.weights().grid),
        };
        work.accumulators.resize(I::SIDES * rows.len() * outputs, 0.0);
        let groups = work.accumulators.par_chunks_mut(GROUP * outputs).zip(work.order.par_chunks(GROUP));
        groups.for_each(|(accumulators, sides)| kernels::gather(self.isa, &first, rows, sides, accumulators));
    }

    /// The layers after the accumulators, forth and back.
    fn back(&self, head: &Head<'_>, rows: &Rows, work: &mut Work) -> GroupSums {
        let Work { places, accumulators, slopes, by_output, .. } = work;
        let outputs = self.job.layout.architecture().outputs;
        slopes.resize(I::SIDES * rows.len() * outputs, 0.0);
        by_output.resize(rows.len(), 0.0);
        let groups = slopes
            .par_chunks_mut(GROUP * I::SIDES * outputs)
            .zip(by_output.par_chunks_mut(GROUP))
            .enumerate();
        let groups = groups.map(|(group, (slopes, by_output))| {
            let mut sums = GroupSums {
                loss: 0.0,
                bias: vec![0.0; self.job.layout.bias().len],
                stacks: vec![None; self.job.layout.architecture().buckets().count],
            };
            let positions = group * GROUP..group * GROUP + by_output.len();
            kernels::head(
                self.isa,
                head,
                rows,
                positions,
                (places, accumulators),
                slopes,
                by_output,
                &mut sums,
            );
            sums
        });
        // In their order, whoever computed them.
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

    /// Moves all numbers against their slopes.
    fn update(&mut self, rows: &Rows, work: &Work, sums: GroupSums, rate: f64) -> Told {
        let layout = &self.job.layout;
        let architecture = layout.architecture();
        let first_rest = layout.bias().start;
        // The slopes of everything after the first layer's weights but the piece squares, which are found row by row.
        let mut rest = vec![0f32; layout.numbers() - first_rest];
        rest[..sums.bias.len()].copy_from_slice(&sums.bias);
        let starts: Vec<usize> =
            (0..architecture.buckets().count).map(|stack| layout.layer(stack, 0).0.start).collect();
        for (start, slopes) in starts.iter().zip(&sums.stacks) {
            if let Some(slopes) = slopes {
                rest[start - first_rest..][..slopes.len()].copy_from_slice(slopes);
            }
        }
        let row_update = RowUpdate {
            slopes: &work.slopes,
            ends: &work.users.ends,
            sides: &work.users.sides,
            outputs: architecture.outputs,
            width: architecture.width(),
        };
        if let Some(psqt) = layout.psqt() {
            let place = psqt.start - first_rest..psqt.start + psqt.len - first_rest;
            rest[place].par_chunks_mut(PSQT_BUCKETS * ROWS).enumerate().for_each(|(chunk, slopes)| {
                for (row, slopes) in (chunk * ROWS..).zip(slopes.chunks_exact_mut(PSQT_BUCKETS)) {
                    for side in row_update.users_of(row) {
                        let position = side / 2;
                        let sign = if side % 2 == 0 { 0.5 } else { -0.5 };
                        slopes[usize::from(rows.buckets[position])] += sign * work.by_output[position];
                    }
                }
            });
        }
        let rest_square: f64 = rest.iter().map(|slope| f64::from(*slope).powi(2)).sum();

        let mut update = self.job.optimiser.update(self.state.step, rate);
        if self.job.clip_slopes > 0.0 {
            // The length must be known before the first number moves: the slopes are found twice.
            let length = (rest_square + self.visit_rows(&row_update, None)).sqrt();
            update = update.times((f64::from(self.job.clip_slopes) / length.max(1e-30)).min(1.0) as f32);
        }
        let square = rest_square + self.visit_rows(&row_update, Some(&update));
        let State { numbers, first, second, slow, .. } = &mut self.state;
        for tensor in &self.job.layout.tensors()[1..] {
            let part = |numbers: &mut Vec<f32>| if numbers.is_empty() { 0..0 } else { tensor.place() };
            let slopes = &rest[tensor.start - first_rest..][..tensor.len];
            let (first_place, second_place, slow_place) = (part(first), part(second), part(slow));
            update.apply(
                &mut numbers[tensor.place()],
                slopes,
                &mut first[first_place],
                &mut second[second_place],
                &mut slow[slow_place],
                tensor.range,
            );
        }
        Told { loss: (sums.loss / rows.len() as f64) as f32, slope: square.sqrt() as f32 }
    }

    /// Visits every row of the first layer with its slopes: moves it if an update is given. Returns the sum of the squares of
    /// all slopes.
    fn visit_rows(&mut self, rows: &RowUpdate<'_>, update: Option<&Update>) -> f64 {
        let layout = &self.job.layout;
        let (len, range, isa) = (layout.weights().len, layout.weights().range, self.isa);
        let State { numbers, first, second, slow, .. } = &mut self.state;
        let chunk = ROWS * rows.width;
        let count = len.div_ceil(chunk);
        let pieces = parts(&mut numbers[..len], chunk, count)
            .zip(parts(part_of(first, len), chunk, count))
            .zip(parts(part_of(second, len), chunk, count))
            .zip(parts(part_of(slow, len), chunk, count));
        let squares: Vec<f64> = pieces
            .enumerate()
            .map(|(number, (((weights, first), second), slow))| {
                kernels::visit(isa, rows, number * ROWS, update, range, weights, first, second, slow)
            })
            .collect();
        squares.iter().sum()
    }

    /// What the network says of positions whose rows are known, on the target's scale.
    pub fn outputs_of_rows(&mut self, rows: &Rows) -> Vec<f32> {
        let mut work = std::mem::take(&mut self.work);
        let outputs = self.outputs_of(&self.state.numbers, rows, &mut work);
        self.work = work;
        outputs
    }

    /// Everything that is remembered.
    pub fn remembered(&self) -> &State {
        &self.state
    }

    /// What the steps since the last time said.
    pub fn said(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }

    fn outputs_of(&self, numbers: &[f32], rows: &Rows, work: &mut Work) -> Vec<f32> {
        let head = self.head(numbers);
        self.forward(numbers, rows, work);
        let mut outputs = vec![0f32; rows.len()];
        let Work { places, accumulators, .. } = work;
        outputs.par_chunks_mut(GROUP).enumerate().for_each(|(group, outputs)| {
            let first = group * GROUP;
            kernels::judge(self.isa, &head, rows, first, (places, accumulators), outputs);
        });
        outputs
    }
}

impl Trainer for CpuTrainer {
    fn learn(&mut self, batch: &Batch, rate: f64) -> Result<(), TrainError> {
        let mut rows = std::mem::replace(&mut self.rows, Rows::of(&self.job.layout));
        rows.fill(&self.job.layout, batch);
        self.learn_rows(&rows, rate);
        self.rows = rows;
        Ok(())
    }

    fn told(&mut self) -> Result<Vec<Told>, TrainError> {
        Ok(self.said())
    }

    fn outputs(&mut self, batch: &Batch, averaged: bool) -> Result<Vec<f32>, TrainError> {
        let mut rows = std::mem::replace(&mut self.rows, Rows::of(&self.job.layout));
        let mut work = std::mem::take(&mut self.work);
        rows.fill(&self.job.layout, batch);
        let averaged = averaged && !self.state.average.is_empty();
        let numbers = if averaged { &self.state.average } else { &self.state.numbers };
        let outputs = self.outputs_of(numbers, &rows, &mut work);
        (self.rows, self.work) = (rows, work);
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

/// The first numbers of some, or none where there are none.
fn part_of(numbers: &mut [f32], len: usize) -> &mut [f32] {
    let len = len.min(numbers.len());
    &mut numbers[..len]
}

/// As many pieces as told; all of them empty where an optimiser remembers nothing of the kind.
fn parts(numbers: &mut [f32], chunk: usize, count: usize) -> impl IndexedParallelIterator<Item = &mut [f32]> {
    let pieces: Vec<&mut [f32]> = match numbers.is_empty() {
        true => std::iter::repeat_with(|| &mut [][..]).take(count).collect(),
        false => numbers.chunks_mut(chunk).collect(),
    };
    pieces.into_par_iter()
}

/// The sides of one king after the other, in their order.
fn sort_by_king(rows: &Rows, stride: usize, work: &mut Work) {
    let sides = rows.counts.len();
    let king = |side: usize| rows.side(side).first().map_or(0, |&row| row as usize / stride);
    let kings: Vec<u32> =
        (0..sides).into_par_iter().with_min_len(GROUP).map(|side| king(side) as u32).collect();
    let mut starts = vec![0u32; kings.iter().max().map_or(0, |&king| king as usize + 1)];
    for &king in &kings {
        starts[king as usize] += 1;
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += std::mem::replace(start, sum);
    }
    work.order.resize(sides, 0);
    work.places.resize(sides, 0);
    for (side, &king) in kings.iter().enumerate() {
        let place = &mut starts[king as usize];
        work.order[*place as usize] = side as u32;
        work.places[side] = *place;
        *place += 1;
    }
}

impl Users {
    /// Finds them, several parts of the sides at a time: each counts its own, then each knows where its own begin.
    fn find(&mut self, rows: &Rows, order: &[u32], count: usize) {
        let part = order.len().div_ceil(PARTS).max(1);
        let mut counts: Vec<Vec<u32>> = order
            .par_chunks(part)
            .map(|sides| {
                let mut counts = vec![0u32; count];
                for &side in sides {
                    rows.side(side as usize).iter().for_each(|&row| counts[row as usize] += 1);
                }
                counts
            })
            .collect();
        self.ends.resize(count, 0);
        let mut sum = 0;
        for row in 0..count {
            for counts in &mut counts {
                // Where the part's own begin, from now on.
                sum += std::mem::replace(&mut counts[row], sum);
            }
            self.ends[row] = sum;
        }
        self.sides.resize_with(sum as usize, AtomicU32::default);
        let users = &self.sides;
        order.par_chunks(part).zip(&mut counts).for_each(|(sides, places)| {
            for &side in sides {
                for &row in rows.side(side as usize) {
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
