//! `tandem-lab train`: trains what a recipe describes — an NNUE, a transformer, a bridge, a selector, or
//! several in phases.
//!
//! NNUEs are trained here; transformers and bridges, which need libtorch, and selectors have modules of their
//! own.

mod display;
mod hybrids;
mod selectors;
#[cfg_attr(not(feature = "torch"), path = "train_command/no_transformers.rs")]
mod transformers;

#[cfg(feature = "torch")]
pub(crate) use transformers::compute_of;
pub(crate) use transformers::measure as measure_transformer;

use crate::any_network::parameters;
use crate::device::Device;
use crate::error::LabError;
use crate::export_command::report_table;
use crate::interrupt;
use crate::model_card::{ModelCard, sha256};
use clap::Args;
use display::Display;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tandem_nnue::FloatNetwork;
use tandem_train::transformer::AnyRecipe;
use tandem_train::{Job, Metric, Recipe, RunOptions, RunOutcome, SourceRecipe, run as make_run};
use tandem_util::output;

/// Train a network from a recipe
///
/// A recipe (TOML) describes an NNUE, a transformer, a bridge between the two, a selector (a classifier that
/// decides which positions a transformer evaluates), or several of these as phases that are trained one after
/// the other. The folder of a run holds its checkpoints, its log (log.jsonl, TensorBoard events, loss.svg),
/// and at the end the network: for an NNUE in floating point (.safetensors) and quantised (.tnn). Ctrl-C
/// writes a checkpoint and stops. --resume then continues the run; the final network is the same as that of
/// an uninterrupted run, to the last bit on the CPU, up to rounding on a GPU.
#[derive(Args, Debug)]
pub(crate) struct TrainArgs {
    /// Recipe file (TOML) that describes the network, the data and the training; the folder recipes has
    /// examples
    recipe: PathBuf,
    /// Override a key of the recipe, for example --set training.batch=256; without a value (--set
    /// training.batch=) remove the key, so that its default applies; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Folder to write the run to (default: runs/NAME, where NAME is the name in the recipe)
    #[arg(long)]
    run: Option<PathBuf>,
    /// Continue the run from its newest checkpoint
    #[arg(long)]
    resume: bool,
    /// Print the recipe with the values of all keys, defaults included, and exit without training
    #[arg(long)]
    explain: bool,
    /// Device to train on: auto (a GPU if there is one, else the CPU), cpu, cuda (the first NVIDIA GPU),
    /// cuda:N for NVIDIA GPU N, counted from 0, or mps (an Apple GPU, for transformers only)
    #[arg(long, default_value = "auto")]
    device: Device,
    /// Number of CPU threads that load data and, on the CPU, train (default: all cores)
    #[arg(long)]
    threads: Option<usize>,
}

impl TrainArgs {
    fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.run.clone().unwrap_or_else(|| Path::new("runs").join(name))
    }
}

/// Runs the command.
///
/// # Errors
///
/// When the recipe is invalid, the data or the folder cannot be used, training diverges, or the run is
/// interrupted.
pub(crate) fn run(args: &TrainArgs) -> Result<(), LabError> {
    let mut notices = Vec::new();
    let recipe = AnyRecipe::load_with_notices(&args.recipe, &args.set, &mut notices)?;
    for notice in notices {
        errln!("{}: {notice}", args.recipe.display());
    }
    match recipe {
        AnyRecipe::Nnue(recipe) if args.explain => out!("{}", recipe.explain()),
        AnyRecipe::Transformer(recipe) if args.explain => out!("{}", recipe.explain()),
        AnyRecipe::Nnue(recipe) => train_nnue(args, &recipe)?,
        AnyRecipe::Transformer(recipe) => transformers::train(args, &recipe)?,
        AnyRecipe::Selector(recipe) if args.explain => out!("{}", recipe.explain()),
        AnyRecipe::Selector(recipe) => selectors::train(args, &recipe)?,
        AnyRecipe::Phases(recipes) => train_phases(args, &recipes)?,
    }
    Ok(())
}

/// Runs several recipes one after the other, each in a process of its own and in the folder that it would use
/// alone. A phase that has written its network is skipped, and an interrupted one is resumed, so that
/// repeating the command completes it.
fn train_phases(args: &TrainArgs, recipes: &[PathBuf]) -> Result<(), LabError> {
    if !args.set.is_empty() || args.run.is_some() {
        let problem = "the phases of a recipe expect each other's folders: leave out --set and --run, or train them \
                       one by one";
        return Err(LabError::Usage(problem.into()));
    }
    // A request to stop is passed on to the running phase, which stops after a checkpoint; then this process
    // ends too.
    let stop = interrupt::flag();
    for path in recipes {
        if stop.load(Ordering::Relaxed) {
            return Err(LabError::interrupted());
        }
        let name = match AnyRecipe::load(path)? {
            AnyRecipe::Nnue(recipe) => recipe.core.name,
            AnyRecipe::Transformer(recipe) => recipe.core.name,
            AnyRecipe::Selector(recipe) => recipe.core.name,
            AnyRecipe::Phases(_) => {
                return Err(LabError::Usage(format!("{}: a phase cannot have phases", path.display())));
            }
        };
        let folder = args.folder(&name);
        if !args.explain && has_network(&folder) {
            outln!("{}: completed before", folder.display());
            continue;
        }
        let program = std::env::current_exe().map_err(LabError::file(Path::new("tandem-lab")))?;
        let mut command = std::process::Command::new(&program);
        command.arg("train").arg(path).arg("--device").arg(args.device.to_string());
        if let Some(threads) = args.threads {
            command.arg("--threads").arg(threads.to_string());
        }
        if args.explain {
            command.arg("--explain");
        } else if folder.join("log.jsonl").exists() {
            command.arg("--resume");
        }
        // A terminal's Ctrl-C reaches the whole process group, and a second signal ends a run at once: in a
        // group of its own, the phase gets exactly one signal, from here.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let status =
            command.spawn().and_then(|child| wait_for(child, &stop)).map_err(LabError::file(&program))?;
        if status.code() == Some(interrupt::STATUS.into()) {
            return Err(LabError::interrupted());
        }
        if !status.success() || !(args.explain || has_network(&folder)) {
            return Err(LabError::Usage(format!("{} was not completed", path.display())));
        }
    }
    Ok(())
}

/// Waits for a process, and asks it to stop when this one is asked to.
fn wait_for(mut child: Child, stop: &AtomicBool) -> std::io::Result<ExitStatus> {
    let mut is_asked = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if stop.load(Ordering::Relaxed) && !is_asked {
            ask_to_stop(&child);
            is_asked = true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(unix)]
fn ask_to_stop(child: &Child) {
    // SAFETY: no memory is touched, and the process id belongs to the child until it has been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
}

/// Without signals, a console's Ctrl-C reaches both processes.
#[cfg(not(unix))]
fn ask_to_stop(_: &Child) {}

/// True if the run in a folder is complete: the network is the last file that it writes.
fn has_network(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_network =
        |path: PathBuf| path.extension().is_some_and(|end| end == "hybrid" || end == "ttn" || end == "tnn");
    entries.into_iter().any(|entry| is_network(entry.path()))
}

fn train_nnue(args: &TrainArgs, recipe: &Recipe) -> Result<(), LabError> {
    let threads = args.threads();
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    let folder = args.folder(&recipe.name);
    let (device, device_name) = args.device.choose()?;
    let stop = interrupt::flag();
    let options = RunOptions { folder: &folder, resume: args.resume, threads, stop: &stop };
    outln!("{}: {}, on {device_name}", recipe.name, recipe.network.architecture()?);
    outln!(
        "{} positions, batch size {}, in {}",
        recipe.training.positions,
        recipe.training.batch,
        folder.display()
    );
    let mut display = Display::new(recipe.training.batch as u64);
    let batch = recipe.training.batch;
    let trainer = move |job: &Job, state| device.trainer(job, state, batch);
    let outcome = make_run(recipe, &options, &trainer, &mut |event| display.show(event))?;
    display.finish();
    finished(&outcome)?;
    write_networks(recipe, &folder, &outcome)
}

/// Fails with the status of an interruption if a run was stopped before its end.
fn finished<N>(outcome: &RunOutcome<N>) -> Result<(), LabError> {
    if outcome.finished {
        return Ok(());
    }
    Err(LabError::Interrupted(format!("stopped after step {}; --resume continues", outcome.steps)))
}

/// Writes the network in floating point and quantised, with its model card.
fn write_networks(
    recipe: &Recipe,
    folder: &Path,
    outcome: &RunOutcome<FloatNetwork>,
) -> Result<(), LabError> {
    let write =
        |path: &Path, bytes: &[u8]| output::write_atomically(path, bytes).map_err(LabError::file(path));
    let float = folder.join(format!("{}.safetensors", recipe.name));
    write(&float, &outcome.network.to_safetensors()?)?;
    let quantised = outcome.network.quantise(Job::of(recipe)?.quantisation).map_err(|error| {
        let float = float.display();
        LabError::Usage(format!(
            "{error}; the network is kept in floating point in {float}; `training.clip_weights = true` keeps \
             weights within the range of integers"
        ))
    });
    let (network, reports) = quantised?;
    let clipped: usize = reports.iter().map(|report| report.clipped).sum();
    if clipped > 0 {
        outln!(
            "{clipped} weights were clipped to the range of their integers; the model card lists them by layer"
        );
    }
    let quantised = folder.join(format!("{}.tnn", recipe.name));
    let bytes = network.to_bytes();
    let mut model_card =
        ModelCard { title: recipe.name.clone(), recipe: Some(recipe.explain()), ..ModelCard::default() };
    model_card.property("architecture", network.architecture().to_string());
    model_card.property("parameters", parameters(&network.architecture()).to_string());
    model_card.property("positions", (outcome.steps * recipe.training.batch as u64).to_string());
    model_card.property("file size", format!("{} bytes", bytes.len()));
    model_card.property("sha256", sha256(&bytes));
    let paths = |sources: &[SourceRecipe]| -> String {
        sources.iter().map(|source| source.path.as_str()).collect::<Vec<_>>().join(", ")
    };
    model_card.property("data", paths(&recipe.data.train));
    if let Some(metrics) = &outcome.metrics {
        model_card.property("validation data", paths(&recipe.data.validation));
        model_card.property("validation", metrics.summary(metrics.overall().get(Metric::TargetLoss)));
    }
    model_card.tables.push(("Quantisation".into(), report_table(&reports)));
    let path = ModelCard::path(&quantised);
    write(&path, model_card.markdown().as_bytes())?;
    // The network is written last, because its presence marks the run as complete.
    write(&quantised, &bytes)?;
    outln!("{}, {} and {}", float.display(), quantised.display(), path.display());
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_running_process_is_asked_to_stop() {
        let child = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(wait_for(child(), &AtomicBool::new(true)).unwrap().signal(), Some(libc::SIGTERM));
        let quick = std::process::Command::new("true").spawn().unwrap();
        assert!(wait_for(quick, &AtomicBool::new(false)).unwrap().success());
    }
}
