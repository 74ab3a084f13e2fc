//! `tandem-lab train-speed`.

use crate::device::Device;
use crate::error::LabError;
use crate::train_command::measure_transformer;
use clap::Args;
use std::path::PathBuf;
use std::time::Instant;
use tandem_train::transformer::AnyRecipe;
use tandem_train::{CpuTrainer, Job, Loader, Recipe, Told, Trainer, speed};

/// Measure how fast a network is trained
///
/// Steps over positions made up for it: nothing is read, so that what a trainer itself can do is seen.
#[derive(Args, Debug)]
pub(crate) struct TrainSpeedArgs {
    /// A transformer's recipe: its steps are timed, with a few batches of its own data
    #[arg(long, value_name = "PATH")]
    recipe: Option<PathBuf>,
    /// Inputs
    #[arg(long, default_value = "halfkp")]
    features: String,
    /// Values of one side's accumulator
    #[arg(long, default_value_t = 256)]
    accumulator: usize,
    /// Outputs, by the number of pieces
    #[arg(long, default_value_t = 1)]
    buckets: usize,
    /// Inputs that are on for each side, whether or not a position can have them; on the processor only
    #[arg(long)]
    active: Option<usize>,
    /// Pieces on the board, where --active is not given
    #[arg(long, default_value_t = 16)]
    pieces: usize,
    /// Positions of a step
    #[arg(long, default_value_t = 16_384)]
    batch: usize,
    /// Steps that are timed
    #[arg(long, default_value_t = 20)]
    steps: usize,
    /// Threads of the processor
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// What to train on: cpu, cuda, or cuda:N for card N
    #[arg(long, default_value = "cpu")]
    device: Device,
    /// Measure only how fast batches of this data are made, on so many threads
    #[arg(long, value_name = "PATH")]
    load: Option<String>,
    /// Dense layers after the accumulators, as in Stockfish 15
    #[arg(long)]
    stacks: bool,
}

/// Batches that take turns.
const BATCHES: u64 = 4;

/// Steps before the clock starts: memory is touched for the first time.
const WARM_UP: usize = 4;

/// Runs the command.
pub(crate) fn run(args: &TrainSpeedArgs) -> Result<(), LabError> {
    if let Some(path) = &args.recipe {
        return match AnyRecipe::load(path)? {
            AnyRecipe::Transformer(recipe) => {
                measure_transformer(&recipe, args.device, args.threads, args.steps)
            }
            AnyRecipe::Nnue(_) | AnyRecipe::Selector(_) | AnyRecipe::Phases(_) => {
                Err(LabError::Usage(format!(
                    "{} is no transformer's recipe; NNUE are described by --features, --accumulator, --buckets, --stacks",
                    path.display()
                )))
            }
        };
    }
    let stacks =
        "stacks = { hidden = 16, second = 32, pairwise = true, dual = true, skip = true }\npsqt = true\n";
    let text = format!(
        "name = \"speed\"\n[data]\ntrain = [{{ path = {:?} }}]\nany_scores = true\n[network]\nfeatures = {:?}\naccumulator = {}\n\
         buckets = {}\n{}[training]\nbatch = {}\n",
        args.load.as_deref().unwrap_or("none"),
        args.features,
        args.accumulator,
        args.buckets,
        if args.stacks { stacks } else { "" },
        args.batch
    );
    let recipe = Recipe::parse(&text)?;
    if args.load.is_some() {
        return load(args, &recipe);
    }
    let job = Job::of(&recipe)?;
    if args.active.is_some() && args.device != Device::Cpu {
        return Err(LabError::Usage(
            "--active is for the processor; a card takes positions: say --pieces".into(),
        ));
    }
    let (device, name) = args.device.choose()?;
    sayln!("{}, batch {}, AdamW, on {name}", job.layout.architecture(), args.batch);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads).build()?;
    pool.install(|| match args.active {
        Some(active) => by_rows(args, &job, active),
        None => by_positions(args, &job, device),
    })
}

/// Makes batches, and nothing else.
fn load(args: &TrainSpeedArgs, recipe: &Recipe) -> Result<(), LabError> {
    rayon::ThreadPoolBuilder::new().num_threads(args.threads).build_global()?;
    let mut loader = Loader::new(recipe, args.threads, 0, None);
    for _ in 0..WARM_UP {
        loader.next_batch()?;
    }
    let since = Instant::now();
    for _ in 0..args.steps {
        let loaded = loader.next_batch()?;
        loader.recycle(loaded.batch);
    }
    let speed = (args.batch * args.steps) as f64 / since.elapsed().as_secs_f64();
    sayln!("{speed:.0} positions a second loaded on {} threads", args.threads);
    Ok(())
}

/// Steps over sides with so many rows each, on the processor.
fn by_rows(args: &TrainSpeedArgs, job: &Job, active: usize) -> Result<(), LabError> {
    let rows: Vec<_> = (0..BATCHES).map(|seed| speed::random_rows(job, args.batch, active, seed)).collect();
    let mut trainer = CpuTrainer::new(job.clone(), job.start(1));
    for step in 0..WARM_UP {
        trainer.learn_rows(&rows[step % rows.len()], 1e-3);
    }
    let since = Instant::now();
    for step in 0..args.steps {
        trainer.learn_rows(&rows[step % rows.len()], 1e-3);
    }
    tell(args, since, &trainer.told()?);
    Ok(())
}

/// Steps over positions, sent to the device each time.
fn by_positions(args: &TrainSpeedArgs, job: &Job, device: Device) -> Result<(), LabError> {
    let batches: Vec<_> =
        (0..BATCHES).map(|seed| speed::random_batch(args.batch, args.pieces, seed)).collect();
    let mut trainer = device.trainer(job, job.start(1), args.batch)?;
    for step in 0..WARM_UP {
        trainer.learn(&batches[step % batches.len()], 1e-3)?;
    }
    trainer.told()?;
    let since = Instant::now();
    for step in 0..args.steps {
        trainer.learn(&batches[step % batches.len()], 1e-3)?;
    }
    let told = trainer.told()?;
    tell(args, since, &told);
    Ok(())
}

fn tell(args: &TrainSpeedArgs, since: Instant, told: &[Told]) {
    let seconds = since.elapsed().as_secs_f64();
    let loss = |told: Option<&Told>| told.map_or(0.0, |told| told.loss);
    sayln!(
        "{:.0} positions a second, {:.1} microseconds a step; loss {:.5} -> {:.5}",
        (args.batch * args.steps) as f64 / seconds,
        seconds * 1e6 / args.steps as f64,
        loss(told.first()),
        loss(told.last())
    );
}
