//! A trainer for NVIDIA GPUs.
//!
//! The driver and the run-time compiler (NVRTC) are loaded when a run begins, so that the same binary works
//! without a GPU; the program (`cuda/step.cu`) is compiled for the shape of the network at hand. Positions
//! are sent packed, 32 bytes each, and the GPU finds the active features itself. While it trains on one
//! batch, the next is being copied. Only [`Trainer::take_metrics`], [`Trainer::predict`] and
//! [`Trainer::state`] wait for the GPU.

mod position;
mod program;
mod source;

pub use program::gpus;

use crate::batch::Batch;
use crate::loss::{Loss, Target};
use crate::optimiser::{Optimiser, Update};
use crate::state::State;
use crate::trainer::{Job, StepMetrics, TrainError, Trainer};
use cudarc::driver::sys::CUdevice_attribute_enum as About;
use cudarc::driver::{
    CudaContext, CudaEvent, CudaSlice, CudaStream, DeviceRepr, DriverError, LaunchConfig, PinnedHostSlice,
    PushKernelArg,
};
use position::{DevicePosition, order, views};
use program::{Program, compile};
use std::sync::Arc;
use tandem_chess::Color;
use tandem_data::Packed;
use tandem_nnue::HeadShape;

/// Batches that may be in flight at once: being copied, or queued for their step.
const BUFFERS: usize = 4;

/// Steps whose metrics the GPU keeps before they have to be fetched.
const RING: usize = 1024;

/// Threads of a block in kernels without other needs.
const THREADS: u32 = 256;

/// Coefficients of a step in the layout of the program's `Update`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct DeviceUpdate {
    lr: f32,
    beta1: f32,
    beta2: f32,
    avg_factor: f32,
    grad_factor: f32,
    bias_correction2: f32,
    decay_factor: f32,
    rectification: f32,
    lookahead_alpha: f32,
    epsilon: f32,
    max_grad_norm: f32,
    rectified: i32,
    sync_slow: i32,
}

// SAFETY: plain numbers without gaps, laid out as the program's `Update`.
unsafe impl DeviceRepr for DeviceUpdate {}

impl DeviceUpdate {
    fn new(update: &Update, max_grad_norm: f32) -> Self {
        Self {
            lr: update.lr,
            beta1: update.beta1,
            beta2: update.beta2,
            avg_factor: update.avg_factor,
            grad_factor: update.grad_factor,
            bias_correction2: update.bias_correction2,
            decay_factor: update.decay_factor,
            rectification: update.rectification.unwrap_or(1.0),
            lookahead_alpha: if let Optimiser::Ranger { lookahead_alpha, .. } = update.optimiser {
                lookahead_alpha as f32
            } else {
                0.0
            },
            epsilon: update.epsilon,
            max_grad_norm,
            rectified: i32::from(update.rectification.is_some()),
            sync_slow: i32::from(update.sync_slow),
        }
    }
}

/// A staging buffer for one batch, in pinned host memory and in GPU memory.
struct StagingBuffer {
    pinned: PinnedHostSlice<DevicePosition>,
    positions: CudaSlice<DevicePosition>,
    /// Event recorded when the batch has left pinned host memory, which may then be overwritten.
    left: CudaEvent,
    /// Event recorded when the step with the batch is complete, after which GPU memory may be overwritten.
    used: CudaEvent,
}

/// Intermediate results of a step in GPU memory, allocated once for the largest batch.
struct StepBuffers {
    features: CudaSlice<u32>,
    slots: CudaSlice<u32>,
    counts: CudaSlice<u32>,
    buckets: CudaSlice<u8>,
    /// Number of sides for which each feature is active in this batch.
    uses: CudaSlice<u32>,
    /// Total numbers of list entries and of work items in this batch.
    totals: CudaSlice<u32>,
    starts: CudaSlice<u32>,
    item_starts: CudaSlice<u32>,
    item_rows: CudaSlice<u32>,
    users: CudaSlice<u32>,
    grads: CudaSlice<f32>,
    partial: CudaSlice<f32>,
    outputs: CudaSlice<f32>,
}

/// An NNUE in training on an NVIDIA GPU, which holds all parameters and optimiser buffers.
pub struct CudaTrainer {
    job: Job,
    stream: Arc<CudaStream>,
    /// Stream on which batches are copied while the other one computes.
    copy_stream: Arc<CudaStream>,
    program: Program,
    processors: u32,
    staging: Vec<StagingBuffer>,
    turn: usize,
    capacity: usize,
    buffers: StepBuffers,
    views: CudaSlice<u32>,
    planes: CudaSlice<i32>,
    min_values: CudaSlice<f32>,
    max_values: CudaSlice<f32>,
    /// Parameters, `exp_avg`, `exp_avg_sq`, slow weights and moving average, one value long if unused.
    state: [CudaSlice<f32>; 5],
    /// First layer rounded for quantisation-aware training, one value long if unused.
    rounded_first: CudaSlice<f32>,
    rest: CudaSlice<f32>,
    /// Loss and squared gradient norm of each step that is not fetched yet.
    metrics: CudaSlice<f32>,
    pending_steps: usize,
    step: u64,
    /// True if a moving average of the parameters is updated.
    averaged: bool,
    fetched: Vec<StepMetrics>,
}

impl From<DriverError> for TrainError {
    fn from(error: DriverError) -> Self {
        Self(format!("the GPU: {error}"))
    }
}

/// Launch configuration with at least `threads` threads in blocks of [`THREADS`].
fn grid(threads: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: ((threads as u32).div_ceil(THREADS).max(1), 1, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: 0,
    }
}

impl CudaTrainer {
    /// Continues from a state on the GPU with index `gpu`, for batches of at most `capacity` positions.
    ///
    /// # Errors
    ///
    /// If there is no such GPU, if the program cannot be compiled for the network, or if GPU memory does not
    /// suffice.
    pub fn new(job: Job, state: State, gpu: usize, capacity: usize) -> Result<Self, TrainError> {
        let names = gpus()?;
        if gpu >= names.len() {
            return Err(TrainError(format!("there is no GPU {gpu}; they are {names:?}, counted from zero")));
        }
        let context = CudaContext::new(gpu)?;
        let (major, minor) = context.compute_capability()?;
        let ptx = compile(&job, &format!("sm_{major}{minor}"))?;
        // SAFETY: everything but the batches lives on one stream; the copies of batches are ordered by the
        // events below.
        unsafe { context.disable_event_tracking() };
        let module = context.load_module(ptx)?;
        let program = Program::new(&context, &module, &job)?;
        let stream = context.new_stream()?;
        let copy_stream = context.new_stream()?;
        let processors = context.attribute(About::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32;

        let layout = &job.layout;
        let (rows, sides, stride) = (layout.num_weight_rows(), 2 * capacity, layout.max_active());
        // Every active feature has at least one work item, and one more for each `ITEM` sides.
        let items = rows.min(sides * stride) + sides * stride / source::ITEM as usize + 1;
        let (outputs, width) = (layout.architecture().outputs, layout.architecture().width());
        let mut staging = Vec::new();
        for _ in 0..BUFFERS {
            // SAFETY: all of it is written before it is read.
            let mut pinned = unsafe { context.alloc_pinned(capacity)? };
            pinned.as_mut_slice()?.fill(DevicePosition::default());
            staging.push(StagingBuffer {
                pinned,
                positions: stream.alloc_zeros(capacity)?,
                left: copy_stream.record_event(None)?,
                used: stream.record_event(None)?,
            });
        }
        let buffers = StepBuffers {
            features: stream.alloc_zeros(sides * stride)?,
            slots: stream.alloc_zeros(sides * stride)?,
            counts: stream.alloc_zeros(sides)?,
            buckets: stream.alloc_zeros(capacity)?,
            uses: stream.alloc_zeros(rows)?,
            totals: stream.alloc_zeros(2)?,
            starts: stream.alloc_zeros(rows)?,
            item_starts: stream.alloc_zeros(rows)?,
            item_rows: stream.alloc_zeros(items)?,
            users: stream.alloc_zeros(sides * stride)?,
            grads: stream.alloc_zeros(sides * outputs)?,
            partial: stream.alloc_zeros(items * width)?,
            outputs: stream.alloc_zeros(capacity)?,
        };
        let (views, planes) = views(&layout.architecture().features);
        let rest = layout.num_parameters() - layout.bias().start;
        let (mut min_values, mut max_values) = (vec![f32::NEG_INFINITY; rest], vec![f32::INFINITY; rest]);
        for tensor in &layout.tensors()[1..] {
            let place = tensor.start - layout.bias().start..tensor.start + tensor.len - layout.bias().start;
            min_values[place.clone()].fill(tensor.clamp.min);
            max_values[place].fill(tensor.clamp.max);
        }
        // A kernel argument needs a valid pointer even if the buffer is not used.
        let rounded = if layout.options().qat { layout.bias().start + layout.bias().len } else { 1 };
        let upload = |values: &Vec<f32>| match values.is_empty() {
            true => stream.alloc_zeros(1),
            false => stream.clone_htod(values),
        };
        let [parameters, exp_avg, exp_avg_sq, slow_weights, ema, _] =
            state.buffers().map(|(_, values)| upload(values));
        let trainer = Self {
            views: stream.clone_htod(&views)?,
            planes: stream.clone_htod(&planes)?,
            min_values: stream.clone_htod(&min_values)?,
            max_values: stream.clone_htod(&max_values)?,
            state: [parameters?, exp_avg?, exp_avg_sq?, slow_weights?, ema?],
            rounded_first: stream.alloc_zeros(rounded)?,
            rest: stream.alloc_zeros(rest)?,
            metrics: stream.alloc_zeros(2 * RING)?,
            pending_steps: 0,
            step: state.step,
            averaged: !state.ema.is_empty(),
            fetched: Vec::new(),
            job,
            copy_stream,
            program,
            processors,
            staging,
            turn: 0,
            capacity,
            buffers,
            stream,
        };
        trainer.stream.synchronize()?;
        Ok(trainer)
    }

    /// Starts copying positions to the GPU, sorted by output bucket. Returns the index of the buffer, and the
    /// order.
    fn send(&mut self, positions: &[Packed], targets: &[Target]) -> Result<(usize, Vec<u32>), TrainError> {
        let turn = self.turn;
        self.turn = (turn + 1) % BUFFERS;
        let order = order(&self.job, positions);
        let by_score = matches!(self.job.loss, Loss::Score);
        let buffer = &mut self.staging[turn];
        // The previous batch may still be waiting in pinned memory, and the slice does not know it, because
        // event tracking is off.
        buffer.left.synchronize()?;
        let places = buffer.pinned.as_mut_slice()?;
        // On this thread alone, because all others are busy with making batches.
        for (place, &at) in places.iter_mut().zip(&order) {
            let (position, target) = (&positions[at as usize], targets[at as usize]);
            let (occupied, pieces) = position.codes_by_square();
            *place = DevicePosition {
                occupied,
                pieces,
                target: if by_score { target.score } else { target.win_probability },
                black: u32::from(position.side_to_move() == Color::Black),
            };
        }
        self.copy_stream.wait(&buffer.used)?;
        self.copy_stream.memcpy_htod(&buffer.pinned, &mut buffer.positions)?;
        buffer.left.record(&self.copy_stream)?;
        self.stream.wait(&buffer.left)?;
        Ok((turn, order))
    }

    /// Finds the active features of a batch and computes the layers; forward only unless `training`.
    fn layers(
        &mut self,
        turn: usize,
        count: usize,
        training: bool,
        averaged: bool,
    ) -> Result<(), TrainError> {
        let count = count as i32;
        let buffers = &mut self.buffers;
        let positions = &self.staging[turn].positions;
        self.stream.memset_zeros(&mut buffers.uses)?;
        self.stream.memset_zeros(&mut buffers.totals)?;
        let mut launch = self.stream.launch_builder(&self.program.find_features);
        launch.arg(positions).arg(&self.views).arg(&self.planes);
        launch
            .arg(&mut buffers.features)
            .arg(&mut buffers.counts)
            .arg(&mut buffers.buckets)
            .arg(&mut buffers.uses);
        launch.arg(&mut buffers.slots).arg(&count);
        // SAFETY: the arguments are those of the program, and every buffer has the capacity for as many
        // positions.
        unsafe { launch.launch(grid(32 * count as usize))? };
        let parameters = &self.state[if averaged { 4 } else { 0 }];
        let first_layer = match &self.program.quantise_first {
            Some(quantise) => {
                let values = self.rounded_first.len();
                let mut launch = self.stream.launch_builder(quantise);
                launch.arg(parameters).arg(&buffers.uses).arg(&mut self.rounded_first);
                // SAFETY: as above; the buffer ends with the biases of the first layer.
                unsafe { launch.launch(grid(values / 4))? };
                &self.rounded_first
            }
            None => parameters,
        };

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
        let is_training = i32::from(training);
        let mut metrics = self.metrics.slice_mut(2 * self.pending_steps..2 * self.pending_steps + 2);
        let mut launch = self.stream.launch_builder(&self.program.step);
        launch
            .arg(parameters)
            .arg(first_layer)
            .arg(&buffers.features)
            .arg(&buffers.counts)
            .arg(&buffers.buckets);
        launch
            .arg(positions)
            .arg(&mut buffers.grads)
            .arg(&mut self.rest)
            .arg(&mut metrics)
            .arg(&mut buffers.outputs);
        launch.arg(&count).arg(&is_training);
        // SAFETY: as above.
        unsafe { launch.launch(config)? };
        Ok(())
    }

    /// Sums the gradients of all weight rows, and updates all parameters.
    fn update(&mut self, count: usize, lr: f64) -> Result<(), TrainError> {
        let layout = &self.job.layout;
        let (rows, width) = (layout.num_weight_rows(), layout.architecture().width());
        let (sides, stride) = (2 * count as i32, layout.max_active());
        let (stream, program, buffers) = (&self.stream, &self.program, &mut self.buffers);
        let mut launch = stream.launch_builder(&program.place_rows);
        launch
            .arg(&buffers.uses)
            .arg(&mut buffers.starts)
            .arg(&mut buffers.item_starts)
            .arg(&mut buffers.item_rows)
            .arg(&mut buffers.totals);
        // SAFETY: the arguments are those of the program; the buffers have the capacity for every feature,
        // list entry and item.
        unsafe { launch.launch(grid(rows.next_multiple_of(32)))? };
        let mut launch = stream.launch_builder(&program.list_users);
        launch
            .arg(&buffers.features)
            .arg(&buffers.counts)
            .arg(&buffers.slots)
            .arg(&buffers.starts)
            .arg(&mut buffers.users)
            .arg(&sides);
        // SAFETY: as above.
        unsafe { launch.launch(grid(sides as usize * stride))? };
        // All columns of a slice for all items, then the next slice, for the sake of the cache.
        let quads = (width / 4).min(64) as u32;
        let mut launch = stream.launch_builder(&program.sum_items);
        launch
            .arg(&buffers.uses)
            .arg(&buffers.starts)
            .arg(&buffers.item_starts)
            .arg(&buffers.item_rows)
            .arg(&buffers.totals)
            .arg(&buffers.users);
        launch.arg(&buffers.grads).arg(&mut buffers.partial);
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
        let mut metrics = self.metrics.slice_mut(2 * self.pending_steps..2 * self.pending_steps + 2);
        let mut launch = stream.launch_builder(&program.square_rows);
        launch.arg(&buffers.uses).arg(&buffers.item_starts).arg(&buffers.partial).arg(&mut metrics);
        // SAFETY: as above.
        unsafe { launch.launch(blocks(8 * self.processors))? };
        let mut launch = stream.launch_builder(&program.square_rest);
        launch.arg(&self.rest).arg(&mut metrics);
        // SAFETY: as above.
        unsafe { launch.launch(blocks(self.processors))? };

        let update = DeviceUpdate::new(&self.job.optimiser.update(self.step, lr), self.job.max_grad_norm);
        let metrics = metrics.as_view();
        let [parameters, exp_avg, exp_avg_sq, slow_weights, ema] = &mut self.state;
        let mut launch = stream.launch_builder(&program.update_rows);
        launch.arg(&mut *parameters).arg(&mut *exp_avg).arg(&mut *exp_avg_sq).arg(&mut *slow_weights);
        launch.arg(&buffers.uses).arg(&buffers.item_starts).arg(&buffers.partial).arg(&metrics).arg(&update);
        // SAFETY: as above.
        unsafe { launch.launch(grid(rows * width / 4))? };
        let mut launch = stream.launch_builder(&program.update_rest);
        launch.arg(&mut *parameters).arg(&mut *exp_avg).arg(&mut *exp_avg_sq).arg(&mut *slow_weights);
        launch.arg(&mut self.rest).arg(&self.min_values).arg(&self.max_values).arg(&metrics).arg(&update);
        let rest = layout.num_parameters() - layout.bias().start;
        // SAFETY: as above.
        unsafe { launch.launch(grid(rest))? };
        self.step += 1;
        if let Some(decay) = self.job.ema_decay_after(self.step).filter(|_| self.averaged) {
            let count = layout.num_parameters() as u32;
            let mut launch = stream.launch_builder(&program.update_ema);
            launch.arg(ema).arg(&*parameters).arg(&decay).arg(&count);
            // SAFETY: as above.
            unsafe { launch.launch(grid(count as usize))? };
        }
        Ok(())
    }

    /// Fetches the metrics of the steps since the previous call.
    fn fetch(&mut self) -> Result<(), TrainError> {
        let metrics = self.stream.clone_dtoh(&self.metrics.slice(..2 * self.pending_steps.max(1)))?;
        self.stream.synchronize()?;
        let pairs = metrics.as_chunks::<2>().0.iter().take(self.pending_steps);
        self.fetched.extend(pairs.map(|&[loss, square]| StepMetrics {
            loss: loss.into(),
            grad_norm: square.sqrt().into(),
            ..StepMetrics::default()
        }));
        self.stream.memset_zeros(&mut self.metrics)?;
        self.pending_steps = 0;
        Ok(())
    }
}

impl Trainer for CudaTrainer {
    type Batch = Batch;
    type Outputs = Vec<f32>;

    fn train_step(&mut self, batch: &Batch, lr: f64) -> Result<(), TrainError> {
        if batch.len() > self.capacity {
            let problem = format!("a batch of {} positions, but room for {}", batch.len(), self.capacity);
            return Err(TrainError(problem));
        }
        if batch.is_empty() {
            return Ok(());
        }
        if self.pending_steps == RING {
            self.fetch()?;
        }
        let (turn, _) = self.send(&batch.positions, &batch.targets)?;
        self.layers(turn, batch.len(), true, false)?;
        self.update(batch.len(), lr)?;
        self.staging[turn].used.record(&self.stream)?;
        self.pending_steps += 1;
        Ok(())
    }

    fn take_metrics(&mut self) -> Result<Vec<StepMetrics>, TrainError> {
        self.fetch()?;
        Ok(std::mem::take(&mut self.fetched))
    }

    fn predict(&mut self, batch: &Batch, averaged: bool) -> Result<Vec<f32>, TrainError> {
        let averaged = averaged && self.averaged;
        if self.pending_steps == RING {
            self.fetch()?;
        }
        let mut outputs = vec![0f32; batch.len()];
        let positions = batch.positions.chunks(self.capacity).zip(batch.targets.chunks(self.capacity));
        for ((positions, targets), outputs) in positions.zip(outputs.chunks_mut(self.capacity)) {
            let (turn, order) = self.send(positions, targets)?;
            self.layers(turn, positions.len(), false, averaged)?;
            self.staging[turn].used.record(&self.stream)?;
            let found = self.stream.clone_dtoh(&self.buffers.outputs.slice(..positions.len()))?;
            self.stream.synchronize()?;
            for (&at, output) in order.iter().zip(found) {
                outputs[at as usize] = output;
            }
        }
        Ok(outputs)
    }

    fn state(&mut self) -> Result<State, TrainError> {
        let used = self.job.optimiser.buffers();
        let there = [true, used.exp_avg, used.exp_avg_sq, used.slow_weights, self.averaged];
        let mut state = State { step: self.step, ..State::default() };
        for ((part, there), values) in self.state.iter().zip(there).zip(state.buffers_mut()) {
            if there {
                *values = self.stream.clone_dtoh(part)?;
            }
        }
        self.stream.synchronize()?;
        Ok(state)
    }
}

#[cfg(test)]
mod tests;
