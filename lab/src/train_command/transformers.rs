//! Training of transformers and bridges, with libtorch.

use super::display::Display;
use super::{TrainArgs, finished, hybrids};
use crate::device::Device;
use crate::error::LabError;
use crate::interrupt;
use crate::model_card::{ModelCard, sha256};
use crate::train_speed_command::time_steps;
use std::path::Path;
use tandem_hybrid::Hybrid;
use tandem_torch::{Compute, Processes, TorchTrainer};
use tandem_train::transformer::*;
use tandem_train::{Loader, RunOptions, RunOutcome, State, Trainer};
use tandem_transformer::{Storage, Weights};
use tandem_util::output;

/// Trains a transformer or a bridge, alone or as one of the processes that `torchrun` started. Only the first
/// process prints and writes files.
///
/// # Errors
///
/// When libtorch or the device is unusable, the recipe or the data is, training diverges, or the run is
/// interrupted.
pub(super) fn train(args: &TrainArgs, recipe: &TransformerRecipe) -> Result<(), LabError> {
    let threads = args.threads();
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    let compute = compute_of(args.device)?;
    compute.set_num_threads(threads);
    let processes = Processes::from_env(&compute)?;
    let process = ProcessRank { rank: processes.rank(), world_size: processes.world_size() };
    let is_first = process.rank == 0;
    let folder = args.folder(&recipe.name);
    let architecture = recipe.network.architecture()?;
    if is_first {
        let together = if process.world_size > 1 {
            format!(", {} processes", process.world_size)
        } else {
            String::new()
        };
        let bridge = recipe.bridge.as_ref();
        let bridge = bridge.map_or_else(String::new, |bridge| format!(", and a {} bridge", bridge.form));
        outln!(
            "{}: {} parameters{bridge}, on {}{together}",
            recipe.name,
            architecture.parameters(),
            compute.name()
        );
        outln!(
            "{} positions, batch size {}, in {}",
            recipe.training.positions,
            recipe.training.batch,
            folder.display()
        );
    }
    let stop = interrupt::flag();
    let options = RunOptions { folder: &folder, resume: args.resume, threads, stop: &stop };
    let mut display = Display::new(recipe.training.batch as u64);
    let processes = std::cell::RefCell::new(Some(processes));
    let make = |recipe: &TransformerRecipe, start: InitialNetworks<'_>, state: Option<&State>| {
        // Only the first trainer of a run spans all processes; later ones, for example for averaged weights,
        // are local.
        let processes = processes.borrow_mut().take().unwrap_or_else(Processes::single);
        let trainer = TorchTrainer::new(recipe, start, state, compute, processes)?;
        Ok(Box::new(trainer) as Box<dyn TransformerTrainer>)
    };
    let outcome = run_transformer(recipe, process, &options, &make, &mut |event| {
        if is_first {
            display.show(event);
        }
    })?;
    display.finish();
    finished(&outcome)?;
    if !is_first {
        return Ok(());
    }
    match &outcome.network.hybrid {
        Some(hybrid) => write_hybrid(recipe, &folder, &outcome, hybrid),
        None => write_network(recipe, &folder, &outcome),
    }
}

/// Writes the trained bridge as a hybrid, with its model card.
fn write_hybrid(
    recipe: &TransformerRecipe,
    folder: &Path,
    outcome: &RunOutcome<TrainedTransformer>,
    hybrid: &Hybrid,
) -> Result<(), LabError> {
    let mut model_card = ModelCard { recipe: Some(recipe.explain()), ..ModelCard::default() };
    model_card.property("positions", positions(recipe, outcome));
    if let Some(metrics) = &outcome.metrics {
        model_card.property(
            "validation",
            metrics.summary(metrics.overall().weighted_loss(&recipe.targets.weights)),
        );
    }
    // The recipe of a bridge always names both networks.
    let nnue = recipe.bridge.as_ref().map_or("", |bridge| &bridge.nnue.path);
    let start = recipe.network.init_from.as_deref().unwrap_or_default();
    hybrids::check(hybrid, [nnue, start])?;
    hybrids::write(folder, &recipe.name, hybrid, model_card).map(drop)
}

/// The number of positions trained on, and at how many of them the network that is kept was best.
fn positions(recipe: &TransformerRecipe, outcome: &RunOutcome<TrainedTransformer>) -> String {
    let batch = recipe.training.batch as u64;
    let trained = outcome.steps * batch;
    match outcome.best {
        Some(best) if best < outcome.steps => {
            format!("{trained}; the best checkpoint, at {}, is kept", best * batch)
        }
        _ => trained.to_string(),
    }
}

/// The libtorch device for `--device`.
///
/// # Errors
///
/// When libtorch does not support the device, or it is not present.
pub(crate) fn compute_of(device: Device) -> Result<Compute, LabError> {
    Ok(match device {
        Device::Auto => Compute::best()?,
        Device::Cpu => Compute::cpu(),
        Device::Cuda(0) => Compute::from_name("cuda")?,
        Device::Cuda(index) => Compute::from_name(&format!("cuda:{index}"))?,
        Device::Mps => Compute::from_name("mps")?,
    })
}

/// Measures the training speed of a recipe with a few batches of its data, which are used in turn.
///
/// # Errors
///
/// When libtorch or the device is unusable, or the recipe or its data is.
pub(crate) fn measure(
    recipe: &TransformerRecipe,
    device: Device,
    threads: usize,
    steps: usize,
) -> Result<(), LabError> {
    const BATCHES: usize = 4;
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    let compute = compute_of(device)?;
    compute.set_num_threads(threads);
    let weights = Weights::random(recipe.network.architecture()?, recipe.seed);
    let bridge_setup = BridgeSetup::of(recipe, weights.architecture())?;
    outln!(
        "{}: {} parameters, batch size {}, on {}",
        recipe.name,
        weights.architecture().parameters(),
        recipe.training.batch,
        compute.name()
    );
    let spec = SampleSpec::of(weights.architecture(), bridge_setup.as_ref());
    let mut loader = Loader::of_samples(recipe, spec, ProcessRank::SINGLE, threads, 0, None);
    let mut batches = Vec::new();
    for _ in 0..BATCHES {
        batches.push(loader.next_batch()?.batch);
    }
    drop(loader);
    let start = InitialNetworks { weights: &weights, bridge_setup: bridge_setup.as_ref() };
    let mut trainer = TorchTrainer::new(recipe, start, None, compute, Processes::single())?;
    let step = |trainer: &mut TorchTrainer, at: usize| trainer.train_step(&batches[at % BATCHES], 1e-3);
    let speed = time_steps(&mut trainer, step, recipe.training.batch, steps)?;
    let memory = trainer
        .peak_memory()
        .map_or_else(String::new, |bytes| format!("; peak GPU memory {:.2} GB", bytes as f64 / 1e9));
    outln!("{speed}{memory}");
    Ok(())
}

/// Writes the network as .ttn and as safetensors, with its model card.
fn write_network(
    recipe: &TransformerRecipe,
    folder: &Path,
    outcome: &RunOutcome<TrainedTransformer>,
) -> Result<(), LabError> {
    let write =
        |path: &Path, bytes: &[u8]| output::write_atomically(path, bytes).map_err(LabError::file(path));
    let weights = &outcome.network.weights;
    let own = folder.join(format!("{}.ttn", recipe.name));
    let bytes = weights.to_bytes(Storage::F32, &recipe.name);
    let open = folder.join(format!("{}.safetensors", recipe.name));
    write(&open, &weights.to_safetensors(&recipe.name))?;
    let mut model_card =
        ModelCard { title: recipe.name.clone(), recipe: Some(recipe.explain()), ..ModelCard::default() };
    model_card.property("parameters", weights.architecture().parameters().to_string());
    model_card.property("positions", positions(recipe, outcome));
    model_card.property("file size", format!("{} bytes", bytes.len()));
    model_card.property("sha256", sha256(&bytes));
    let paths: Vec<&str> = recipe.data.train.iter().map(|source| source.path.as_str()).collect();
    model_card.property("data", paths.join(", "));
    if let Some(metrics) = &outcome.metrics {
        model_card.property(
            "validation",
            metrics.summary(metrics.overall().weighted_loss(&recipe.targets.weights)),
        );
    }
    let path = ModelCard::path(&own);
    write(&path, model_card.markdown().as_bytes())?;
    // The network is written last, because its presence marks the run as complete.
    write(&own, &bytes)?;
    outln!("{}, {} and {}", own.display(), open.display(), path.display());
    Ok(())
}
