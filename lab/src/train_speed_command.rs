//! `tandem-lab train-speed`.

use crate::error::LabError;
use clap::Args;
use std::time::Instant;
use tandem_train::{CpuTrainer, Job, Recipe, Trainer, speed};

/// Measure how fast a network is trained
///
/// Steps over positions made up for it: nothing is read, so that what a trainer itself can do is seen.
#[derive(Args, Debug)]
pub(crate) struct TrainSpeedArgs {
    /// Inputs
    #[arg(long, default_value = "halfkp")]
    features: String,
    /// Values of one side's accumulator
    #[arg(long, default_value_t = 256)]
    accumulator: usize,
    /// Outputs, by the number of pieces
    #[arg(long, default_value_t = 1)]
    buckets: usize,
    /// Inputs that are on for each side; positions with as many pieces as that takes where this is left out
    #[arg(long)]
    active: Option<usize>,
    /// Pieces on the board
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
}

/// Batches that take turns.
const BATCHES: u64 = 4;

/// Runs the command.
pub(crate) fn run(args: &TrainSpeedArgs) -> Result<(), LabError> {
    let text = format!(
        "name = \"speed\"\n[data]\ntrain = [{{ path = \"none\" }}]\n[network]\nfeatures = {:?}\naccumulator = {}\n\
         buckets = {}\n[training]\nbatch = {}\n",
        args.features, args.accumulator, args.buckets, args.batch
    );
    let job = Job::of(&Recipe::parse(&text)?)?;
    sayln!("{}, batch {}, AdamW", job.layout.architecture(), args.batch);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads).build()?;
    let mut trainer = CpuTrainer::new(job.clone(), job.start(1));
    let mut best = f64::INFINITY;
    let mut total = 0.0;
    let mut timed = |step: usize, learn: &mut dyn FnMut() -> Result<(), LabError>| -> Result<(), LabError> {
        let since = Instant::now();
        learn()?;
        let seconds = since.elapsed().as_secs_f64();
        // The first steps touch memory for the first time.
        if step >= 2 {
            best = best.min(seconds);
            total += seconds;
        }
        Ok(())
    };
    let rows: Option<Vec<_>> = args
        .active
        .map(|active| (0..BATCHES).map(|seed| speed::random_rows(&job, args.batch, active, seed)).collect());
    let batches: Vec<_> = match rows {
        Some(_) => Vec::new(),
        None => (0..BATCHES).map(|seed| speed::random_batch(args.batch, args.pieces, seed)).collect(),
    };
    for step in 0..args.steps + 2 {
        let turn = step % BATCHES as usize;
        timed(step, &mut || {
            match &rows {
                Some(rows) => pool.install(|| trainer.learn_rows(&rows[turn], 1e-3)),
                None => pool.install(|| trainer.learn(&batches[turn], 1e-3))?,
            }
            Ok(())
        })?;
    }
    let told = trainer.told()?;
    let positions = args.batch as f64;
    sayln!(
        "{} threads: {:.0} positions a second, {:.0} in the best step; loss {:.5} -> {:.5}",
        args.threads,
        positions * args.steps as f64 / total,
        positions / best,
        told.first().map_or(0.0, |told| told.loss),
        told.last().map_or(0.0, |told| told.loss)
    );
    Ok(())
}
