//! `tandem-lab train-speed`: measures training throughput, without or with loading data.

use crate::device::Device;
use crate::error::LabError;
use crate::train_command::measure_transformer;
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;
use tandem_train::transformer::AnyRecipe;
use tandem_train::{CpuTrainer, Job, Loader, NnueTrainer, Recipe, StepMetrics, TrainError, Trainer, speed};

/// Measure how many positions per second training processes
///
/// By default, times training steps of an NNUE, described by the options below, on random positions that are
/// made beforehand, so that the trainer alone is measured, without reading data. --recipe times a transformer
/// instead, --load only the data loader.
#[derive(Args, Debug)]
pub(crate) struct TrainSpeedArgs {
    /// Recipe (TOML) of a transformer to time instead of an NNUE, on four batches of its own data, which are
    /// used in turn; of the other options, only --steps, --threads and --device apply
    #[arg(long, value_name = "PATH")]
    recipe: Option<PathBuf>,
    /// Feature set (input) of the NNUE, by its name in recipes, for example 768 (a piece on a square), halfkp
    /// or halfka-v2-hm (a piece on a square for each square of the own king)
    #[arg(long, default_value = "halfkp")]
    features: String,
    /// Number of outputs of the NNUE's first layer for each of the two perspectives (accumulator width)
    #[arg(long, default_value_t = 256)]
    accumulator: usize,
    /// Number of output buckets: separate output layers, of which one is chosen by the number of pieces; 1
    /// for a single layer
    #[arg(long, default_value_t = 1)]
    buckets: usize,
    /// Instead of making positions of --pieces pieces, give each of the two perspectives of a position this
    /// number of random active features, which need not belong to a possible position; on the CPU only
    #[arg(long)]
    active: Option<usize>,
    /// Number of pieces in each random position, kings included, from 2 to 32; unused with --active
    #[arg(long, default_value_t = 16)]
    pieces: usize,
    /// Number of positions in the batch of each training step
    #[arg(long, default_value_t = 16_384)]
    batch: usize,
    /// Number of training steps to time, or with --load of batches, after a short warm-up that is not timed
    #[arg(long, default_value_t = 20)]
    steps: usize,
    /// Number of CPU threads to use
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Device to train on: cpu, cuda (the first NVIDIA GPU), cuda:N for GPU N, counted from 0, mps (an Apple
    /// GPU, for --recipe only), or auto for a GPU if there is one
    #[arg(long, default_value = "cpu")]
    device: Device,
    /// Time the data loader alone, without training: read this data, in any format that `tandem-lab data
    /// formats` lists, and make --steps batches of it with --threads threads
    #[arg(long, value_name = "PATH")]
    load: Option<String>,
    /// Train the NNUE quantisation-aware: the weights are rounded in each step, as the recipe key
    /// `training.qat` does
    #[arg(long)]
    qat: bool,
    /// Instead of a single output layer, give the NNUE stacks of three dense layers after the accumulators,
    /// one stack for each of the --buckets, and PSQT outputs (weights from the inputs directly to the
    /// evaluation), as in Stockfish 15
    #[arg(long)]
    stacks: bool,
}

/// Number of different batches that are used in turn.
const BATCHES: u64 = 4;

/// Steps before the clock starts, in which memory is touched for the first time, libtorch chooses its algorithms
/// and a CUDA graph is recorded.
const WARM_UP: usize = 8;

/// Runs the command.
///
/// # Errors
///
/// When the recipe or the device is unusable, or --load names data that cannot be read.
pub(crate) fn run(args: &TrainSpeedArgs) -> Result<(), LabError> {
    if let Some(path) = &args.recipe {
        return match AnyRecipe::load(path)? {
            AnyRecipe::Transformer(recipe) => {
                measure_transformer(&recipe, args.device, args.threads, args.steps)
            }
            AnyRecipe::Nnue(_) | AnyRecipe::Selector(_) | AnyRecipe::Phases(_) => {
                Err(LabError::Usage(format!(
                    "{} is not a recipe of a transformer; describe an NNUE by --features, --accumulator, --buckets, --stacks",
                    path.display()
                )))
            }
        };
    }
    let stacks = "stacks = { hidden = 16, second = 32, pairwise = true, squared_clipped = true, skip = true }\npsqt = true\n";
    let text = format!(
        "name = \"speed\"\n[data]\ntrain = [{{ path = {:?} }}]\nany_scores = true\n[network]\nfeatures = {:?}\naccumulator = {}\n\
         buckets = {}\n{}[training]\nbatch = {}\nqat = {}\n",
        args.load.as_deref().unwrap_or("none"),
        args.features,
        args.accumulator,
        args.buckets,
        if args.stacks { stacks } else { "" },
        args.batch,
        args.qat
    );
    let recipe = Recipe::parse(&text)?;
    if args.load.is_some() {
        return load(args, &recipe);
    }
    let job = Job::of(&recipe)?;
    if args.active.is_some() && args.device != Device::Cpu {
        return Err(LabError::Usage("--active is for the CPU; on a GPU, use --pieces".into()));
    }
    let (device, name) = args.device.choose()?;
    let qat = if args.qat { ", qat" } else { "" };
    outln!("{}, batch {}, AdamW{qat}, on {name}", job.layout.architecture(), args.batch);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads).build()?;
    pool.install(|| match args.active {
        Some(active) => time_features(args, &job, active),
        None => time_positions(args, &job, device),
    })
}

/// Times the data loader alone.
fn load(args: &TrainSpeedArgs, recipe: &Recipe) -> Result<(), LabError> {
    rayon::ThreadPoolBuilder::new().num_threads(args.threads).build_global()?;
    let mut loader = Loader::of_positions(recipe, args.threads, 0, None);
    for _ in 0..WARM_UP {
        loader.next_batch()?;
    }
    let since = Instant::now();
    for _ in 0..args.steps {
        let loaded = loader.next_batch()?;
        loader.recycle(loaded.batch);
    }
    let speed = (args.batch * args.steps) as f64 / since.elapsed().as_secs_f64();
    outln!("{speed:.0} positions a second loaded on {} threads", args.threads);
    Ok(())
}

/// Times training steps on samples with `active` random features per side, on the CPU.
fn time_features(args: &TrainSpeedArgs, job: &Job, active: usize) -> Result<(), LabError> {
    let features: Vec<_> =
        (0..BATCHES).map(|seed| speed::random_features(job, args.batch, active, seed)).collect();
    let mut trainer = CpuTrainer::new(job.clone(), job.initial_state(1));
    let step = |trainer: &mut CpuTrainer, at: usize| {
        trainer.train_step_features(&features[at % features.len()], 1e-3);
        Ok(())
    };
    outln!("{}", time_steps(&mut trainer, step, args.batch, args.steps)?);
    Ok(())
}

/// Times training steps on synthetic positions, which are sent to the device in each step.
fn time_positions(args: &TrainSpeedArgs, job: &Job, device: Device) -> Result<(), LabError> {
    let batches: Vec<_> =
        (0..BATCHES).map(|seed| speed::random_batch(args.batch, args.pieces, seed)).collect();
    let mut trainer = device.trainer(job, job.initial_state(1), args.batch)?;
    let step = |trainer: &mut NnueTrainer, at: usize| trainer.train_step(&batches[at % batches.len()], 1e-3);
    outln!("{}", time_steps(&mut *trainer, step, args.batch, args.steps)?);
    Ok(())
}

/// Times training steps of any network, after a few that are not timed; `step` makes the step of a number.
/// Returns the speed as text.
///
/// # Errors
///
/// When the device fails.
pub(crate) fn time_steps<T: Trainer + ?Sized>(
    trainer: &mut T,
    step: impl Fn(&mut T, usize) -> Result<(), TrainError>,
    batch: usize,
    steps: usize,
) -> Result<String, LabError> {
    (0..WARM_UP).try_for_each(|at| step(trainer, at))?;
    trainer.take_metrics()?;
    let since = Instant::now();
    (0..steps).try_for_each(|at| step(trainer, at))?;
    let metrics = trainer.take_metrics()?;
    let seconds = since.elapsed().as_secs_f64();
    let loss = |step: Option<&StepMetrics>| step.map_or(0.0, |step| step.loss);
    Ok(format!(
        "{:.0} positions a second, {:.1} microseconds a step; loss {:.5} -> {:.5}",
        (batch * steps) as f64 / seconds,
        seconds * 1e6 / steps as f64,
        loss(metrics.first()),
        loss(metrics.last())
    ))
}
