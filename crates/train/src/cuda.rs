//! A trainer for NVIDIA cards.
//!
//! The driver and the run-time compiler are looked for when a run begins; the program (`cuda/step.cu`) is compiled for the
//! shape of the network at hand. Positions travel as they are packed, 32 bytes each; the card finds the rows of the first
//! layer itself. While it works on one batch, the next is on its way. Nothing waits for the card but [`Trainer::told`],
//! [`Trainer::outputs`] and [`Trainer::state`].

mod position;
mod program;
mod source;

pub use program::cards;

use crate::batch::Batch;
use crate::loss::{Loss, Target};
use crate::optimiser::{Optimiser, Update};
use crate::state::State;
use crate::trainer::{Job, Told, TrainError, Trainer};
use cudarc::driver::sys::CUdevice_attribute_enum as About;
use cudarc::driver::{
    CudaContext, CudaEvent, CudaSlice, CudaStream, DeviceRepr, DriverError, LaunchConfig, PinnedHostSlice,
    PushKernelArg,
};
use position::{CardPosition, order, views};
use program::{Program, compile};
use std::sync::Arc;
use tandem_chess::Color;
use tandem_data::Packed;
use tandem_nnue::HeadShape;

/// Batches that may be on their way or at work.
const BUFFERS: usize = 4;

/// Steps whose losses the card keeps until it is asked.
const RING: usize = 1024;

/// Threads of most blocks.
const THREADS: u32 = 256;

/// An update as the program takes it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct CardUpdate {
    rate: f32,
    beta1: f32,
    beta2: f32,
    mend1: f32,
    mend2: f32,
    keep: f32,
    trust: f32,
    pull: f32,
    epsilon: f32,
    limit: f32,
    trusted: i32,
    meet: i32,
}

// SAFETY: plain numbers without gaps, laid out as the program says.
unsafe impl DeviceRepr for CardUpdate {}

impl CardUpdate {
    fn new(update: &Update, limit: f32) -> Self {
        Self {
            rate: update.rate,
            beta1: update.beta1,
            beta2: update.beta2,
            mend1: update.mend1,
            mend2: update.mend2,
            keep: update.keep,
            trust: update.trust.unwrap_or(1.0),
            pull: if let Optimiser::Ranger { pull, .. } = update.optimiser { pull as f32 } else { 0.0 },
            epsilon: update.epsilon,
            limit,
            trusted: i32::from(update.trust.is_some()),
            meet: i32::from(update.meet),
        }
    }
}

/// A batch on its way to the card.
struct Buffer {
    pinned: PinnedHostSlice<CardPosition>,
    positions: CudaSlice<CardPosition>,
    /// It has left the host's memory.
    left: CudaEvent,
    /// The card has made its step with it.
    used: CudaEvent,
}

/// What a step computes on the card.
struct Work {
    rows: CudaSlice<u32>,
    slots: CudaSlice<u32>,
    counts: CudaSlice<u32>,
    buckets: CudaSlice<u8>,
    /// How often each row is on.
    uses: CudaSlice<u32>,
    /// Users and items of all rows.
    totals: CudaSlice<u32>,
    starts: CudaSlice<u32>,
    item_starts: CudaSlice<u32>,
    item_rows: CudaSlice<u32>,
    users: CudaSlice<u32>,
    slopes: CudaSlice<f32>,
    partial: CudaSlice<f32>,
    outputs: CudaSlice<f32>,
}

/// A network in training on a card.
pub struct CudaTrainer {
    job: Job,
    stream: Arc<CudaStream>,
    /// On which batches travel.
    travel: Arc<CudaStream>,
    program: Program,
    processors: u32,
    buffers: Vec<Buffer>,
    turn: usize,
    capacity: usize,
    work: Work,
    views: CudaSlice<u32>,
    planes: CudaSlice<i32>,
    least: CudaSlice<f32>,
    most: CudaSlice<f32>,
    /// The numbers, and what is remembered of them.
    parts: [CudaSlice<f32>; 5],
    rest: CudaSlice<f32>,
    /// Loss and square of the slopes of each step since the last look.
    told: CudaSlice<f32>,
    untold: usize,
    step: u64,
    /// Whether a moving average is kept.
    averaged: bool,
    earlier: Vec<Told>,
}

impl From<DriverError> for TrainError {
    fn from(error: DriverError) -> Self {
        Self(format!("the card: {error}"))
    }
}

/// Blocks of [`THREADS`] for so many threads.
fn grid(threads: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: ((threads as u32).div_ceil(THREADS).max(1), 1, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: 0,
    }
}

impl CudaTrainer {
    /// Goes on from a state, on a card, with batches of at most so many positions.
    pub fn new(job: Job, state: State, card: usize, capacity: usize) -> Result<Self, TrainError> {
        let names = cards()?;
        if card >= names.len() {
            return Err(TrainError(format!(
                "there is no card {card}; they are {names:?}, counted from zero"
            )));
        }
        let context = CudaContext::new(card)?;
        let (major, minor) = context.compute_capability()?;
        let ptx = compile(&job, &format!("sm_{major}{minor}"))?;
        // SAFETY: everything but the batches lives on one stream; the batches' travel is ordered by events below.
        unsafe { context.disable_event_tracking() };
        let module = context.load_module(ptx)?;
        let program = Program::new(&context, &module, &job)?;
        let stream = context.new_stream()?;
        let travel = context.new_stream()?;
        let processors = context.attribute(About::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32;

        let layout = &job.layout;
        let (rows, sides, stride) = (layout.rows(), 2 * capacity, layout.max_active());
        // Every row in use has at least one item, and more only for every so many users.
        let items = rows.min(sides * stride) + sides * stride / source::ITEM as usize + 1;
        let (outputs, width) = (layout.architecture().outputs, layout.architecture().width());
        let mut buffers = Vec::new();
        for _ in 0..BUFFERS {
            // SAFETY: it is written, all of it, before it is read.
            let mut pinned = unsafe { context.alloc_pinned(capacity)? };
            pinned.as_mut_slice()?.fill(CardPosition::default());
            buffers.push(Buffer {
                pinned,
                positions: stream.alloc_zeros(capacity)?,
                left: travel.record_event(None)?,
                used: stream.record_event(None)?,
            });
        }
        let work = Work {
            rows: stream.alloc_zeros(sides * stride)?,
            slots: stream.alloc_zeros(sides * stride)?,
            counts: stream.alloc_zeros(sides)?,
            buckets: stream.alloc_zeros(capacity)?,
            uses: stream.alloc_zeros(rows)?,
            totals: stream.alloc_zeros(2)?,
            starts: stream.alloc_zeros(rows)?,
            item_starts: stream.alloc_zeros(rows)?,
            item_rows: stream.alloc_zeros(items)?,
            users: stream.alloc_zeros(sides * stride)?,
            slopes: stream.alloc_zeros(sides * outputs)?,
            partial: stream.alloc_zeros(items * width)?,
            outputs: stream.alloc_zeros(capacity)?,
        };
        let (views, planes) = views(&layout.architecture().features);
        let rest = layout.numbers() - layout.bias().start;
        let (mut least, mut most) = (vec![f32::NEG_INFINITY; rest], vec![f32::INFINITY; rest]);
        for tensor in &layout.tensors()[1..] {
            let place = tensor.start - layout.bias().start..tensor.start + tensor.len - layout.bias().start;
            least[place.clone()].fill(tensor.range.least);
            most[place].fill(tensor.range.most);
        }
        let part = |numbers: &Vec<f32>| match numbers.is_empty() {
            // Something must be there to point at.
            true => stream.alloc_zeros(1),
            false => stream.clone_htod(numbers),
        };
        let [numbers, first, second, slow, average] = state.parts().map(|(_, numbers)| part(numbers));
        let trainer = Self {
            views: stream.clone_htod(&views)?,
            planes: stream.clone_htod(&planes)?,
            least: stream.clone_htod(&least)?,
            most: stream.clone_htod(&most)?,
            parts: [numbers?, first?, second?, slow?, average?],
            rest: stream.alloc_zeros(rest)?,
            told: stream.alloc_zeros(2 * RING)?,
            untold: 0,
            step: state.step,
            averaged: !state.average.is_empty(),
            earlier: Vec::new(),
            job,
            travel,
            program,
            processors,
            buffers,
            turn: 0,
            capacity,
            work,
            stream,
        };
        trainer.stream.synchronize()?;
        Ok(trainer)
    }

    /// Sends positions on their way, those of one bucket after the other. Returns the buffer, and the order.
    fn send(&mut self, positions: &[Packed], targets: &[Target]) -> Result<(usize, Vec<u32>), TrainError> {
        let turn = self.turn;
        self.turn = (turn + 1) % BUFFERS;
        let order = order(&self.job, positions);
        let by_score = matches!(self.job.loss, Loss::Score);
        let buffer = &mut self.buffers[turn];
        // The batch before it may still be waiting to leave, and the slice itself does not know of that: its own event is
        // tracked no more than any other.
        buffer.left.synchronize()?;
        let places = buffer.pinned.as_mut_slice()?;
        // By this thread alone: all others make batches, and would be waited for.
        for (place, &at) in places.iter_mut().zip(&order) {
            let (position, target) = (&positions[at as usize], targets[at as usize]);
            let (occupied, pieces) = position.codes_by_square();
            *place = CardPosition {
                occupied,
                pieces,
                target: if by_score { target.score } else { target.chance },
                black: u32::from(position.side_to_move() == Color::Black),
            };
        }
        self.travel.wait(&buffer.used)?;
        self.travel.memcpy_htod(&buffer.pinned, &mut buffer.positions)?;
        buffer.left.record(&self.travel)?;
        self.stream.wait(&buffer.left)?;
        Ok((turn, order))
    }

    /// Finds the rows of a batch and steps through the layers; forth only if it is not to learn.
    fn layers(&mut self, turn: usize, count: usize, learns: bool, averaged: bool) -> Result<(), TrainError> {
        let count = count as i32;
        let work = &mut self.work;
        let positions = &self.buffers[turn].positions;
        self.stream.memset_zeros(&mut work.uses)?;
        self.stream.memset_zeros(&mut work.totals)?;
        let mut launch = self.stream.launch_builder(&self.program.find_rows);
        launch.arg(positions).arg(&self.views).arg(&self.planes);
        launch.arg(&mut work.rows).arg(&mut work.counts).arg(&mut work.buckets).arg(&mut work.uses);
        launch.arg(&mut work.slots).arg(&count);
        // SAFETY: the arguments are those of the program, and every buffer has room for as many positions.
        unsafe { launch.launch(grid(32 * count as usize))? };

        let flat = matches!(self.job.layout.architecture().head, HeadShape::Flat { .. });
        let config = match flat {
            true => LaunchConfig {
                grid_dim: (8 * self.processors, 1, 1),
                block_dim: (source::flat_threads(&self.job), 1, 1),
                shared_mem_bytes: 0,
            },
            false => LaunchConfig {
                grid_dim: (2 * self.processors, 1, 1),
                block_dim: (source::STACK_THREADS, 1, 1),
                shared_mem_bytes: source::shared_bytes(&self.job),
            },
        };
        let learn = i32::from(learns);
        let mut told = self.told.slice_mut(2 * self.untold..2 * self.untold + 2);
        let mut launch = self.stream.launch_builder(&self.program.step);
        launch
            .arg(&self.parts[if averaged { 4 } else { 0 }])
            .arg(&work.rows)
            .arg(&work.counts)
            .arg(&work.buckets);
        launch.arg(positions).arg(&mut work.slopes).arg(&mut self.rest).arg(&mut told).arg(&mut work.outputs);
        launch.arg(&count).arg(&learn);
        // SAFETY: as above.
        unsafe { launch.launch(config)? };
        Ok(())
    }

    /// Adds up the slopes of all rows, and moves all numbers.
    fn update(&mut self, count: usize, rate: f64) -> Result<(), TrainError> {
        let layout = &self.job.layout;
        let (rows, width) = (layout.rows(), layout.architecture().width());
        let (sides, stride) = (2 * count as i32, layout.max_active());
        let (stream, program, work) = (&self.stream, &self.program, &mut self.work);
        let mut launch = stream.launch_builder(&program.place_rows);
        launch
            .arg(&work.uses)
            .arg(&mut work.starts)
            .arg(&mut work.item_starts)
            .arg(&mut work.item_rows)
            .arg(&mut work.totals);
        // SAFETY: the arguments are those of the program; there is room for every row, user and item.
        unsafe { launch.launch(grid(rows.next_multiple_of(32)))? };
        let mut launch = stream.launch_builder(&program.list_users);
        launch
            .arg(&work.rows)
            .arg(&work.counts)
            .arg(&work.slots)
            .arg(&work.starts)
            .arg(&mut work.users)
            .arg(&sides);
        // SAFETY: as above.
        unsafe { launch.launch(grid(sides as usize * stride))? };
        // All columns of a slice for all items, then the next slice.
        let quads = (width / 4).min(64) as u32;
        let mut launch = stream.launch_builder(&program.sum_items);
        launch
            .arg(&work.uses)
            .arg(&work.starts)
            .arg(&work.item_starts)
            .arg(&work.item_rows)
            .arg(&work.totals)
            .arg(&work.users);
        launch.arg(&work.slopes).arg(&mut work.partial);
        let config = LaunchConfig {
            grid_dim: (8 * self.processors, (width as u32 / 4).div_ceil(quads), 1),
            block_dim: (quads, THREADS / quads, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: as above.
        unsafe { launch.launch(config)? };
        let blocks = |blocks: u32| LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut told = self.told.slice_mut(2 * self.untold..2 * self.untold + 2);
        let mut launch = stream.launch_builder(&program.square_rows);
        launch.arg(&work.uses).arg(&work.item_starts).arg(&work.partial).arg(&mut told);
        // SAFETY: as above.
        unsafe { launch.launch(blocks(8 * self.processors))? };
        let mut launch = stream.launch_builder(&program.square_rest);
        launch.arg(&self.rest).arg(&mut told);
        // SAFETY: as above.
        unsafe { launch.launch(blocks(self.processors))? };

        let update = CardUpdate::new(&self.job.optimiser.update(self.step, rate), self.job.clip_slopes);
        let told = told.as_view();
        let [numbers, first, second, slow, average] = &mut self.parts;
        let mut launch = stream.launch_builder(&program.update_rows);
        launch.arg(&mut *numbers).arg(&mut *first).arg(&mut *second).arg(&mut *slow);
        launch.arg(&work.uses).arg(&work.item_starts).arg(&work.partial).arg(&told).arg(&update);
        // SAFETY: as above.
        unsafe { launch.launch(grid(rows * width / 4))? };
        let mut launch = stream.launch_builder(&program.update_rest);
        launch.arg(&mut *numbers).arg(&mut *first).arg(&mut *second).arg(&mut *slow);
        launch.arg(&mut self.rest).arg(&self.least).arg(&self.most).arg(&told).arg(&update);
        let rest = layout.numbers() - layout.bias().start;
        // SAFETY: as above.
        unsafe { launch.launch(grid(rest))? };
        self.step += 1;
        if let Some(share) = self.job.average_after(self.step).filter(|_| self.averaged) {
            let count = layout.numbers() as u32;
            let mut launch = stream.launch_builder(&program.move_average);
            launch.arg(average).arg(&*numbers).arg(&share).arg(&count);
            // SAFETY: as above.
            unsafe { launch.launch(grid(count as usize))? };
        }
        Ok(())
    }

    /// Fetches what the steps since the last time said.
    fn fetch(&mut self) -> Result<(), TrainError> {
        let told = self.stream.clone_dtoh(&self.told.slice(..2 * self.untold.max(1)))?;
        self.stream.synchronize()?;
        let pairs = told.as_chunks::<2>().0.iter().take(self.untold);
        self.earlier.extend(pairs.map(|&[loss, square]| Told { loss, slope: square.sqrt() }));
        self.stream.memset_zeros(&mut self.told)?;
        self.untold = 0;
        Ok(())
    }
}

impl Trainer for CudaTrainer {
    fn learn(&mut self, batch: &Batch, rate: f64) -> Result<(), TrainError> {
        if batch.len() > self.capacity {
            let problem = format!("a batch of {} positions, but room for {}", batch.len(), self.capacity);
            return Err(TrainError(problem));
        }
        if batch.is_empty() {
            return Ok(());
        }
        if self.untold == RING {
            self.fetch()?;
        }
        let (turn, _) = self.send(&batch.positions, &batch.targets)?;
        self.layers(turn, batch.len(), true, false)?;
        self.update(batch.len(), rate)?;
        self.buffers[turn].used.record(&self.stream)?;
        self.untold += 1;
        Ok(())
    }

    fn told(&mut self) -> Result<Vec<Told>, TrainError> {
        self.fetch()?;
        Ok(std::mem::take(&mut self.earlier))
    }

    fn outputs(&mut self, batch: &Batch, averaged: bool) -> Result<Vec<f32>, TrainError> {
        let averaged = averaged && self.averaged;
        if self.untold == RING {
            self.fetch()?;
        }
        let mut outputs = vec![0f32; batch.len()];
        let positions = batch.positions.chunks(self.capacity).zip(batch.targets.chunks(self.capacity));
        for ((positions, targets), outputs) in positions.zip(outputs.chunks_mut(self.capacity)) {
            let (turn, order) = self.send(positions, targets)?;
            self.layers(turn, positions.len(), false, averaged)?;
            self.buffers[turn].used.record(&self.stream)?;
            let found = self.stream.clone_dtoh(&self.work.outputs.slice(..positions.len()))?;
            self.stream.synchronize()?;
            for (&at, output) in order.iter().zip(found) {
                outputs[at as usize] = output;
            }
        }
        Ok(outputs)
    }

    fn state(&mut self) -> Result<State, TrainError> {
        let needs = self.job.optimiser.needs();
        let there = [true, needs.first, needs.second, needs.slow, self.averaged];
        let mut state = State { step: self.step, ..State::default() };
        for ((part, there), numbers) in self.parts.iter().zip(there).zip(state.parts_mut()) {
            if there {
                *numbers = self.stream.clone_dtoh(part)?;
            }
        }
        self.stream.synchronize()?;
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuTrainer;
    use crate::cpu::tests::{job, positions};
    use crate::layout::Shape;
    use crate::optimiser::tests::ALL;
    use crate::recipe::Averaging;
    use crate::reference::tests::architectures;
    use tandem_chess::random::SplitMix;
    use tandem_nnue::{Activation, Architecture, Buckets, FeatureSet, Squeeze, StackShape};

    /// One job for each architecture, with every optimiser, loss and shape somewhere among them.
    fn jobs() -> Vec<Job> {
        let losses =
            [Loss::Power { power: 2.0 }, Loss::Power { power: 2.5 }, Loss::CrossEntropy, Loss::Score];
        let mut jobs = Vec::new();
        for (number, mut architecture) in architectures().into_iter().enumerate() {
            if number % 2 == 0 {
                architecture.features = FeatureSet::half_ka_v2_hm();
            }
            if number == 3 {
                architecture.features = FeatureSet::half_kp();
            }
            let shape = Shape { factoriser: number % 2 == 0, clipped: true, rounded: number % 3 == 1 };
            let mut job = job(architecture, ALL[number % 6], losses[number % 4], shape);
            if number % 3 == 2 {
                job.averaging = Averaging::Moving { share: 0.9, every: 2 };
            }
            if number >= 4 {
                job.clip_slopes = 0.05;
            }
            jobs.push(job);
        }
        // Widths that are no multiple of anything, and the smallest and largest layers.
        let adam = ALL[2];
        let flat = |outputs: usize, tied: bool, buckets: usize| Architecture {
            features: FeatureSet::plain(),
            outputs,
            tied,
            psqt: false,
            head: HeadShape::Flat { activation: Activation::Screlu, buckets: Buckets::bullet(buckets) },
        };
        let stacks =
            |outputs: usize, tied: bool, hidden: usize, second: usize, buckets: usize| Architecture {
                head: HeadShape::Stacks(StackShape {
                    squeeze: if tied { Squeeze::Pairwise255 } else { Squeeze::Clip },
                    dual: tied,
                    skip: hidden > 2,
                    hidden,
                    second,
                    buckets: Buckets::bullet(buckets),
                }),
                psqt: tied && buckets <= 8,
                ..flat(outputs, tied, buckets)
            };
        for architecture in [
            flat(96, true, 1),
            flat(160, false, 8),
            flat(320, true, 32),
            flat(1024, true, 1),
            stacks(96, true, 2, 1, 1),
            stacks(160, false, 17, 32, 8),
            stacks(320, true, 32, 32, 8),
            stacks(1024, true, 16, 32, 8),
        ] {
            jobs.push(job(architecture, adam, losses[0], Shape { clipped: true, ..Shape::default() }));
        }
        jobs
    }

    #[test]
    fn programs_of_all_shapes_compile() {
        // SAFETY: it only looks for the library.
        if !unsafe { cudarc::nvrtc::sys::is_culib_present() } {
            println!("skipped: there is no NVRTC here");
            return;
        }
        for job in jobs() {
            for generation in ["compute_75", "compute_90"] {
                if let Err(error) = compile(&job, generation) {
                    panic!("{}: {error}", job.layout.architecture());
                }
            }
        }
    }

    /// The card and the processor say the same, step after step, to rounding.
    #[test]
    fn a_card_trains_as_the_processor_does() {
        if let Err(error) = cards() {
            println!("skipped: {error}");
            return;
        }
        let mut random = SplitMix::new(51);
        for (number, job) in jobs().into_iter().enumerate() {
            let count = [3000, 3000, 257, 3000, 1][number % 5];
            let (batch, _) = positions(job.layout.architecture(), count, &mut random);
            let mut cpu = CpuTrainer::new(job.clone(), job.start(3));
            let mut card = CudaTrainer::new(job.clone(), job.start(3), 0, 4096).unwrap();
            let near = |name: &str, left: &[f32], right: &[f32], slack: f32| {
                assert_eq!(left.len(), right.len());
                for (at, (left, right)) in left.iter().zip(right).enumerate() {
                    let size = left.abs().max(right.abs()).max(0.01);
                    assert!(
                        (left - right).abs() < slack * size,
                        "{name} {at} of {}: {left} {right}",
                        job.layout.architecture()
                    );
                }
            };
            near(
                "outputs",
                &cpu.outputs(&batch, false).unwrap(),
                &card.outputs(&batch, false).unwrap(),
                1e-4,
            );
            // More batches, each another one, than can be on their way at once: none is told of before all are sent.
            let batches: Vec<Batch> = (0..3 * BUFFERS)
                .map(|_| positions(job.layout.architecture(), count, &mut random).0)
                .collect();
            for batch in &batches {
                card.learn(batch, 1e-3).unwrap();
            }
            for batch in &batches {
                cpu.learn(batch, 1e-3).unwrap();
            }
            let (left, right) = (cpu.told().unwrap(), card.told().unwrap());
            let part = |told: &[Told], of: fn(&Told) -> f32| -> Vec<f32> { told.iter().map(of).collect() };
            near("loss", &part(&left, |told| told.loss), &part(&right, |told| told.loss), 1e-3);
            near("slope", &part(&left, |told| told.slope), &part(&right, |told| told.slope), 1e-2);
            near("after", &cpu.outputs(&batch, true).unwrap(), &card.outputs(&batch, true).unwrap(), 5e-2);
            let (left, right) = (cpu.state().unwrap(), card.state().unwrap());
            assert!(right.fits(&job.layout, job.optimiser, job.is_averaged()));
            assert_eq!(left.step, right.step);
            // Adam's first steps are the learning rate whatever the slope, so the sign of almost nothing may differ.
            let far = left.numbers.iter().zip(&right.numbers).filter(|(a, b)| (*a - *b).abs() > 2e-3).count();
            assert!(far * 1000 <= left.numbers.len(), "{far} numbers of {}", job.layout.architecture());
            // It goes on from its own state.
            let mut again = CudaTrainer::new(job.clone(), right, 0, 4096).unwrap();
            near(
                "again",
                &card.outputs(&batch, false).unwrap(),
                &again.outputs(&batch, false).unwrap(),
                1e-5,
            );
        }
    }
}
