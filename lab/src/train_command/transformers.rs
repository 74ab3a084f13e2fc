//! Transformers, with libtorch.

use super::display::Display;
use super::{TrainArgs, hybrids};
use crate::card::{Card, sha256};
use crate::device::Device;
use crate::error::LabError;
use crate::interrupt;
use std::path::Path;
use std::time::Instant;
use tandem_chess::output;
use tandem_hybrid::Hybrid;
use tandem_torch::{Compute, Processes, TorchTrainer};
use tandem_train::transformer::*;
use tandem_transformer::{Storage, Weights};

/// Trains a transformer, alone or as one of the processes that `torchrun` has started.
pub(super) fn train(args: &TrainArgs, recipe: &TransformerRecipe) -> Result<(), LabError> {
    let threads = args.threads();
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    let compute = compute_of(args.device)?;
    compute.use_threads(threads);
    let processes = Processes::of_environment(&compute)?;
    let share = Share { rank: processes.rank(), ranks: processes.ranks() };
    let is_first = share.rank == 0;
    let folder = args.folder(&recipe.name);
    let architecture = recipe.network.architecture()?;
    if is_first {
        let together = if share.ranks > 1 { format!(", {} processes", share.ranks) } else { String::new() };
        let bridge = recipe.bridge.as_ref();
        let bridge =
            bridge.map_or_else(String::new, |bridge| format!(", and a {} bridge to it", bridge.form));
        sayln!(
            "{}: {} parameters{bridge}, on {}{together}",
            recipe.name,
            architecture.parameters(),
            compute.name()
        );
        sayln!(
            "{} positions in steps of {}, in {}",
            recipe.training.positions,
            recipe.training.batch,
            folder.display()
        );
    }
    let stop = interrupt::flag();
    let options = TransformerOptions { folder: &folder, resume: args.resume, threads, share, stop: &stop };
    let mut display = Display::new(recipe.training.batch as u64);
    let processes = std::cell::RefCell::new(Some(processes));
    let make = |recipe: &TransformerRecipe, start: Start<'_>, state: Option<&TransformerState>| {
        // Only the network that a run begins with is trained by all.
        let processes = processes.borrow_mut().take().unwrap_or_else(Processes::one);
        let trainer = TorchTrainer::new(recipe, start, state, compute, processes)?;
        Ok(Box::new(trainer) as Box<dyn TransformerTrainer>)
    };
    let outcome = run_transformer(recipe, &options, &make, &mut |event| {
        if !is_first {
            return;
        }
        match event {
            TransformerEvent::Begin { step, steps, blind } => {
                for (head, loss) in blind {
                    sayln!("{}: who says the same of every position loses {loss:.4}", head.name());
                }
                display.begin(step, steps);
            }
            TransformerEvent::Steps { step, told, rate, speed, waiting } => {
                display.steps(step, &format!("loss {:.4}", told.loss), rate, speed, waiting);
            }
            TransformerEvent::Skipped { count, examples } => {
                tellln!("{count} broken records were left out so far; the first of them:");
                for example in examples {
                    tellln!("  {example}");
                }
            }
            TransformerEvent::Validated { step, metrics, loss, is_best } => {
                display.validated(step, &figures(metrics, Some(loss)), is_best);
            }
        }
    })?;
    display.finish();
    if !outcome.finished {
        return Err(LabError::Interrupted(format!("stopped after step {}; --resume goes on", outcome.steps)));
    }
    if !is_first {
        return Ok(());
    }
    match &outcome.hybrid {
        Some(hybrid) => write_hybrid(recipe, &folder, &outcome, hybrid),
        None => write_network(recipe, &folder, &outcome),
    }
}

/// What was learnt between two networks, and its card.
fn write_hybrid(
    recipe: &TransformerRecipe,
    folder: &Path,
    outcome: &TransformerOutcome,
    hybrid: &Hybrid,
) -> Result<(), LabError> {
    let mut card = Card { recipe: Some(recipe.explain()), ..Card::default() };
    card.fact("positions", positions(recipe, outcome));
    if let Some(metrics) = &outcome.metrics {
        card.fact("validation", figures(metrics, metrics.whole().loss(&recipe.targets.weights)));
    }
    // A bridge has both.
    let nnue = recipe.bridge.as_ref().map_or("", |bridge| &bridge.nnue.path);
    let start = recipe.network.start.as_deref().unwrap_or_default();
    hybrids::check(hybrid, [nnue, start])?;
    hybrids::write(folder, &recipe.name, hybrid, card).map(drop)
}

/// How many positions were read, and with how many of them this network was made.
fn positions(recipe: &TransformerRecipe, outcome: &TransformerOutcome) -> String {
    let batch = recipe.training.batch as u64;
    let read = outcome.steps * batch;
    match outcome.best {
        Some(best) if best < outcome.steps => {
            format!("{read}; after {} it was best and is kept", best * batch)
        }
        _ => read.to_string(),
    }
}

/// What computes on a device.
pub(crate) fn compute_of(device: Device) -> Result<Compute, LabError> {
    Ok(match device {
        Device::Auto => Compute::best()?,
        Device::Cpu => Compute::processor(),
        Device::Cuda(0) => Compute::named("cuda")?,
        Device::Cuda(card) => Compute::named(&format!("cuda:{card}"))?,
        Device::Mps => Compute::named("mps")?,
    })
}

/// Says how fast a recipe's steps are, with a few batches of its data that take turns.
pub(crate) fn measure(
    recipe: &TransformerRecipe,
    device: Device,
    threads: usize,
    steps: usize,
) -> Result<(), LabError> {
    const BATCHES: usize = 4;
    // Before the clock starts libtorch chooses its ways, and a graph is recorded.
    const WARM_UP: usize = 8;
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    let compute = compute_of(device)?;
    compute.use_threads(threads);
    let weights = Weights::random(recipe.network.architecture()?, recipe.seed);
    let join = Join::of(recipe, weights.architecture())?;
    sayln!(
        "{}: {} parameters, steps of {}, on {}",
        recipe.name,
        weights.architecture().parameters(),
        recipe.training.batch,
        compute.name()
    );
    let reading = Reading::of(weights.architecture(), join.as_ref());
    let mut loader = SampleLoader::new(recipe, reading, Share::WHOLE, threads, 0, None);
    let mut batches = Vec::new();
    for _ in 0..BATCHES {
        batches.push(loader.next_batch()?.batch);
    }
    drop(loader);
    let start = Start { weights: &weights, join: join.as_ref() };
    let mut trainer = TorchTrainer::new(recipe, start, None, compute, Processes::one())?;
    for step in 0..WARM_UP {
        trainer.learn(&batches[step % BATCHES], 1e-3)?;
    }
    trainer.told()?;
    let since = Instant::now();
    for step in 0..steps {
        trainer.learn(&batches[step % BATCHES], 1e-3)?;
    }
    let told = trainer.told()?;
    let seconds = since.elapsed().as_secs_f64();
    let memory = trainer
        .peak_memory()
        .map_or_else(String::new, |bytes| format!("; {:.2} GB of the card at most", bytes as f64 / 1e9));
    sayln!(
        "{:.0} positions a second, {:.2} ms a step; loss {:.4}{memory}",
        (recipe.training.batch * steps) as f64 / seconds,
        seconds * 1e3 / steps as f64,
        told.last().map_or(f32::NAN, |told| told.loss)
    );
    Ok(())
}

/// The network in its own format and as safetensors, and its card.
fn write_network(
    recipe: &TransformerRecipe,
    folder: &Path,
    outcome: &TransformerOutcome,
) -> Result<(), LabError> {
    let write = |path: &Path, bytes: &[u8]| output::write_whole(path, bytes).map_err(LabError::file(path));
    let weights = &outcome.weights;
    let own = folder.join(format!("{}.ttn", recipe.name));
    let bytes = weights.to_bytes(Storage::F32, &recipe.name);
    let open = folder.join(format!("{}.safetensors", recipe.name));
    write(&open, &weights.to_safetensors(&recipe.name))?;
    let mut card = Card { title: recipe.name.clone(), recipe: Some(recipe.explain()), ..Card::default() };
    card.fact("parameters", weights.architecture().parameters().to_string());
    card.fact("positions", positions(recipe, outcome));
    card.fact("file size", format!("{} bytes", bytes.len()));
    card.fact("sha256", sha256(&bytes));
    let paths: Vec<&str> = recipe.data.train.iter().map(|source| source.path.as_str()).collect();
    card.fact("data", paths.join(", "));
    if let Some(metrics) = &outcome.metrics {
        card.fact("validation", figures(metrics, metrics.whole().loss(&recipe.targets.weights)));
    }
    let path = Card::path(&own);
    write(&path, card.markdown().as_bytes())?;
    // Last, since whoever finds it takes the run for ended.
    write(&own, &bytes)?;
    sayln!("{}, {} and {}", own.display(), open.display(), path.display());
    Ok(())
}

/// What a look at the validation data showed, in one line: every figure is in the log.
fn figures(metrics: &TransformerMetrics, loss: Option<f64>) -> String {
    let loss = loss.map_or("-".into(), |loss| format!("{loss:.4}"));
    let shown =
        [Figure::PolicyTop1, Figure::ValueError, Figure::BucketTop1, Figure::ActionAccuracy].into_iter();
    let others =
        shown.filter_map(|figure| Some(format!(", {} {:.4}", figure.name(), metrics.whole().get(figure)?)));
    format!("validation loss {loss}{}", others.collect::<String>())
}
