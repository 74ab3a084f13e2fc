//! `tandem-lab train`.

mod display;
mod hybrids;
mod selectors;
#[cfg_attr(not(feature = "torch"), path = "train_command/no_transformers.rs")]
mod transformers;

#[cfg(feature = "torch")]
pub(crate) use transformers::compute_of;
pub(crate) use transformers::measure as measure_transformer;

use crate::any_network::parameters;
use crate::card::{Card, sha256};
use crate::device::Device;
use crate::error::LabError;
use crate::export_command::report_table;
use crate::interrupt;
use clap::Args;
use display::Display;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tandem_chess::output;
use tandem_train::transformer::AnyRecipe;
use tandem_train::{Event, Metrics, Recipe, RunOptions, RunOutcome, SourceRecipe, run as make_run};

/// Train a network by a recipe
///
/// Everything of a run is in its folder: checkpoints, the log (log.jsonl, TensorBoard's events, loss.svg), and at the end the
/// network in floating point (.safetensors) and quantised (.tnn). Ctrl-C stops after a checkpoint; --resume goes on to the
/// same network that an uninterrupted run gives: to the last bit on the processor, to rounding on a card.
#[derive(Args, Debug)]
pub(crate) struct TrainArgs {
    /// The recipe
    recipe: PathBuf,
    /// Set a key of the recipe to another value, as in training.batch=256; without a value, take it out. May be given more
    /// than once
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Folder of the run; runs/NAME where this is left out
    #[arg(long)]
    run: Option<PathBuf>,
    /// Go on from the newest checkpoint
    #[arg(long)]
    resume: bool,
    /// Print the recipe with every default written out, and end
    #[arg(long)]
    explain: bool,
    /// What to train on: auto, cpu, cuda, or cuda:N for card N
    #[arg(long, default_value = "auto")]
    device: Device,
    /// Threads; all there are where this is left out
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
pub(crate) fn run(args: &TrainArgs) -> Result<(), LabError> {
    match AnyRecipe::load_with(&args.recipe, &args.set)? {
        AnyRecipe::Nnue(recipe) if args.explain => say!("{}", recipe.explain()),
        AnyRecipe::Transformer(recipe) if args.explain => say!("{}", recipe.explain()),
        AnyRecipe::Nnue(recipe) => train_nnue(args, &recipe)?,
        AnyRecipe::Transformer(recipe) => transformers::train(args, &recipe)?,
        AnyRecipe::Selector(recipe) if args.explain => say!("{}", recipe.explain()),
        AnyRecipe::Selector(recipe) => selectors::train(args, &recipe)?,
        AnyRecipe::Phases(recipes) => train_phases(args, &recipes)?,
    }
    Ok(())
}

/// Follows recipes one after the other, each in a process of its own and in the folder that it would have alone. One that has
/// written its network is passed over and one that was interrupted goes on, so that the same command ends what it began.
fn train_phases(args: &TrainArgs, recipes: &[PathBuf]) -> Result<(), LabError> {
    if !args.set.is_empty() || args.run.is_some() {
        let problem = "recipes that are named by another one know of each other's folders: leave out --set and --run, or follow \
                       them one by one";
        return Err(LabError::Usage(problem.into()));
    }
    // Whoever asks for an end means the one at work, which stops after a checkpoint and is waited for.
    let stop = interrupt::flag();
    for path in recipes {
        if stop.load(Ordering::Relaxed) {
            return Err(LabError::interrupted());
        }
        let name = match AnyRecipe::load(path)? {
            AnyRecipe::Nnue(recipe) => recipe.name,
            AnyRecipe::Transformer(recipe) => recipe.name,
            AnyRecipe::Selector(recipe) => recipe.name,
            AnyRecipe::Phases(_) => {
                return Err(LabError::Usage(format!("{}: a phase cannot have phases", path.display())));
            }
        };
        let folder = args.folder(&name);
        if !args.explain && has_network(&folder) {
            sayln!("{}: done before", folder.display());
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
        // A terminal's Ctrl-C reaches a whole group, and the second signal ends a run at once: so it hears of one from here.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let status =
            command.spawn().and_then(|child| wait_for(child, &stop)).map_err(LabError::file(&program))?;
        if status.code() == Some(interrupt::STATUS.into()) {
            return Err(LabError::interrupted());
        }
        if !status.success() || !(args.explain || has_network(&folder)) {
            return Err(LabError::Usage(format!("{} did not come to its end", path.display())));
        }
    }
    Ok(())
}

/// Waits for a process, which is asked to stop when this one is.
fn wait_for(mut child: Child, stop: &AtomicBool) -> std::io::Result<ExitStatus> {
    let mut was_asked = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if stop.load(Ordering::Relaxed) && !was_asked {
            ask_to_stop(&child);
            was_asked = true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(unix)]
fn ask_to_stop(child: &Child) {
    // SAFETY: no memory is touched, and the number is the child's as long as nobody has waited for it.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
}

/// Where there are no signals, a console's Ctrl-C reaches both.
#[cfg(not(unix))]
fn ask_to_stop(_: &Child) {}

/// Whether a run in a folder has come to its end: its network is what it writes last.
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
    sayln!("{}: {}, on {device_name}", recipe.name, recipe.network.architecture()?);
    sayln!(
        "{} positions in steps of {}, in {}",
        recipe.training.positions,
        recipe.training.batch,
        folder.display()
    );
    let mut display = Display::new(recipe.training.batch as u64);
    let batch = recipe.training.batch;
    let outcome =
        make_run(recipe, &options, &move |job, state| device.trainer(job, state, batch), &mut |event| {
            match event {
                Event::Begin { step, steps } => display.begin(step, steps),
                Event::Steps { step, loss, rate, speed, waiting } => {
                    display.steps(step, &format!("loss {loss:.6}"), rate, speed, waiting);
                }
                Event::Validated { step, metrics, is_best } => {
                    display.validated(step, &figures(metrics), is_best);
                }
            }
        })?;
    display.finish();
    if !outcome.finished {
        return Err(LabError::Interrupted(format!("stopped after step {}; --resume goes on", outcome.steps)));
    }
    write_networks(recipe, &folder, &outcome)
}

/// The network in floating point and in integers, and its card.
fn write_networks(recipe: &Recipe, folder: &Path, outcome: &RunOutcome) -> Result<(), LabError> {
    let write = |path: &Path, bytes: &[u8]| output::write_whole(path, bytes).map_err(LabError::file(path));
    let float = folder.join(format!("{}.safetensors", recipe.name));
    write(&float, &outcome.network.to_safetensors()?)?;
    let quantised = outcome.network.quantise(outcome.job.quantisation).map_err(|error| {
        let kept = float.display();
        LabError::Usage(format!(
            "{error}; the network is kept in floating point in {kept}; `training.clip_weights = true` holds numbers to what \
             integers can hold"
        ))
    });
    let (network, reports) = quantised?;
    let clipped: usize = reports.iter().map(|report| report.clipped).sum();
    if clipped > 0 {
        sayln!(
            "{clipped} numbers did not fit into integers and were held back; the card says in which layers"
        );
    }
    let quantised = folder.join(format!("{}.tnn", recipe.name));
    let bytes = network.to_bytes();
    let mut card = Card { title: recipe.name.clone(), recipe: Some(recipe.explain()), ..Card::default() };
    card.fact("architecture", network.architecture().to_string());
    card.fact("parameters", parameters(&network.architecture()).to_string());
    card.fact("positions", (outcome.steps * recipe.training.batch as u64).to_string());
    card.fact("file size", format!("{} bytes", bytes.len()));
    card.fact("sha256", sha256(&bytes));
    let paths = |sources: &[SourceRecipe]| -> String {
        sources.iter().map(|source| source.path.as_str()).collect::<Vec<_>>().join(", ")
    };
    card.fact("data", paths(&recipe.data.train));
    if let Some(metrics) = &outcome.metrics {
        card.fact("validation data", paths(&recipe.data.validation));
        card.fact("validation", figures(metrics));
    }
    card.tables.push(("Quantisation".into(), report_table(&reports)));
    let path = Card::path(&quantised);
    write(&path, card.markdown().as_bytes())?;
    // Last, since whoever finds it takes the run for ended.
    write(&quantised, &bytes)?;
    sayln!("{}, {} and {}", float.display(), quantised.display(), path.display());
    Ok(())
}

/// What a look at the validation data showed, in one line.
fn figures(metrics: &Metrics) -> String {
    let figure = |value: Option<f64>, scale: f64, unit: &str| match value {
        Some(value) => format!("{:.2}{unit}", value * scale),
        None => "-".into(),
    };
    format!(
        "validation loss {}, mean error {}, sign right in {}",
        metrics.loss().map_or("-".into(), |loss| format!("{loss:.6}")),
        figure(metrics.mae(), 1.0, " cp"),
        figure(metrics.sign_accuracy(), 100.0, " %")
    )
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_process_at_work_hears_that_it_is_to_stop() {
        let child = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(wait_for(child(), &AtomicBool::new(true)).unwrap().signal(), Some(libc::SIGTERM));
        let quick = std::process::Command::new("true").spawn().unwrap();
        assert!(wait_for(quick, &AtomicBool::new(false)).unwrap().success());
    }
}
