//! A run from a recipe to a network: training steps, validation, checkpoints and a log.
//!
//! The result does not depend on interruptions: a run that is stopped and resumed gives the same network, on
//! the CPU to the bit.

mod folder;

pub(crate) use folder::{RECIPE_CHANGED, lock_folder, resume_point, write_recipe};

use crate::batch::Batch;
use crate::checkpoint::{Checkpoint, CheckpointError, Checkpoints, RunProgress};
use crate::loader::{Loader, load_validation};
use crate::log::{LogError, RunLog};
use crate::loss::sigmoid;
use crate::metrics::{LabelledPrediction, Metrics, Phase};
use crate::pool::LoadDataError;
use crate::recipe::{Averaging, Recipe, RecipeError};
use crate::saturation::saturation;
use crate::state::State;
use crate::throughput::Throughput;
use crate::trainer::{Job, NnueTrainer, StepMetrics, TrainError};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tandem_data::Record;
use tandem_nnue::{FloatNetwork, NetworkError};
use tandem_util::output;
use thiserror::Error;

/// A run that cannot begin or continue, with what to do about it.
#[derive(Debug, Error)]
pub enum RunError {
    /// The recipe describes a run that is not possible, for example an unknown feature set.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The training or validation data cannot be used, for example because it has no scores.
    #[error(transparent)]
    Data(#[from] LoadDataError),
    /// The trainer has failed, for example because the GPU has.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A checkpoint cannot be written or read, for example because the disk is full.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The log cannot be written, or an old one cannot be continued.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The network to start from cannot be read, or is not a float network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The run's folder is locked, belongs to another run, or cannot be written.
    #[error("{}: {problem}", path.display())]
    Folder {
        /// Path of the folder, or of the file within it.
        path: PathBuf,
        /// Description of the problem with the folder, and the remedy.
        problem: String,
    },
    /// The loss or the gradient norm of an NNUE's step is infinite or not a number.
    #[error(
        "the loss of step {step} is {loss}: the learning rate may be too high, or a parameter of the network too large; its batch \
         is in {}", batch.display()
    )]
    NonFiniteLoss {
        /// Step whose loss it is, counted from one.
        step: u64,
        /// Loss of that step, possibly finite if only the gradient norm is not.
        loss: f64,
        /// CSV file with the positions and targets of that step, written for inspection.
        batch: PathBuf,
    },
    /// The loss of a transformer's step is infinite or not a number.
    #[error(
        "the loss of step {step} is {loss}: the learning rate may be too high, or `training.max_grad_norm` too high or zero"
    )]
    Diverged {
        /// Step whose loss it is, counted from one.
        step: u64,
        /// Loss of that step, infinite or not a number.
        loss: f64,
    },
    /// A frozen network was changed by training, which would be a bug.
    #[error("the frozen network has changed during training: this is a bug, please report it")]
    BaseChanged,
    /// The validation data has no target for any head with a weight above zero.
    #[error(
        "the validation data has no target for any head with a weight above zero: choose data with the labels that heads need \
         (moves, results, scores), or give weights to heads that it has targets for"
    )]
    NoValidationTargets,
    /// The validation loss is infinite or not a number, although the training loss was finite.
    #[error("the validation loss after step {step} is {loss}: the learning rate may be too high")]
    NonFiniteValidationLoss {
        /// Number of steps done before that validation.
        step: u64,
        /// Validation loss, averaged over the positions with a target.
        loss: f64,
    },
}

/// Options of a run that do not change its result: where it is stored, and how it is executed.
pub struct RunOptions<'a> {
    /// Folder of the run's checkpoints, log and networks; created if it does not exist.
    pub folder: &'a Path,
    /// Resumes from the newest checkpoint in the folder; if false, a checkpoint there is an error.
    pub resume: bool,
    /// Number of threads that load data; the result does not depend on it.
    pub threads: usize,
    /// Ends the run after the current step, with a checkpoint, once another thread sets this.
    pub stop: &'a AtomicBool,
}

/// Progress of a run, reported to the caller while it goes on.
#[derive(Debug)]
pub enum Event<'a> {
    /// The run begins or is resumed; the first event of every run.
    Begin {
        /// Steps done so far; zero unless the run is resumed.
        step: u64,
        /// Steps of the whole run, as [`Recipe::steps`] gives them.
        steps: u64,
    },
    /// Steps were done since the last event: at most 64, because their metrics are collected at that
    /// interval.
    Steps {
        /// Number of optimiser steps done so far, including those that this event reports.
        step: u64,
        /// Mean training loss of the steps since the last event.
        loss: f64,
        /// Learning rate of the last step that this event reports.
        lr: f64,
        /// Positions trained on per second since the last event.
        positions_per_second: f64,
        /// Fraction of the time since the last event that was spent in waiting for data, from 0 to 1.
        data_wait: f64,
    },
    /// The network was evaluated on the validation data, and a checkpoint follows.
    Validated {
        /// Steps done so far, after which it was evaluated.
        step: u64,
        /// Loss and accuracy on the validation data, as a whole and by groups.
        metrics: &'a Metrics,
        /// True if the loss is the lowest so far, so that the checkpoint becomes the best one.
        is_best: bool,
    },
}

/// Result of a run that came to its end or was stopped.
#[derive(Debug)]
pub struct Outcome {
    /// The network: the average if the recipe asks for one, the best checkpoint with patience, or the last
    /// weights.
    pub network: FloatNetwork,
    /// Architecture, loss and optimiser of the run, and the scales by which the network is quantised.
    pub job: Job,
    /// Number of steps done, including those before a resumption.
    pub steps: u64,
    /// True if the run came to its end; false if it was stopped and can be resumed.
    pub finished: bool,
    /// Metrics of the returned network on the validation data; absent if stopped, or without such data.
    pub metrics: Option<Metrics>,
}

/// Steps between two collections of their metrics, because a GPU has to be waited for each time.
const LOG_INTERVAL: usize = 64;

/// Validation positions on which saturation is measured; a few hundred give stable fractions.
const SATURATION_POSITIONS: usize = 512;

/// Creates a trainer for a job, starting from a state.
pub type MakeTrainer = dyn Fn(&Job, State) -> Result<Box<NnueTrainer>, TrainError>;

/// Trains a network by a recipe. `trainer` creates the trainer from a state; `watch` is called with every
/// event.
///
/// # Errors
///
/// If the folder holds another run, if data, recipe or starting network cannot be used, if a file cannot be
/// written, or if the loss stops being finite.
pub fn run(
    recipe: &Recipe,
    options: &RunOptions<'_>,
    trainer: &MakeTrainer,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome, RunError> {
    let _lock = lock_folder(options.folder)?;
    let mut run = Run::begin(recipe, options, trainer)?;
    let finished = run.steps(options, watch)?;
    let parameters = run.final_parameters(finished)?;
    let network = run.job.network(&parameters, &recipe.name);
    let metrics = match finished && !run.validation.is_empty() {
        // These metrics are of the returned network, which may be an average or an earlier checkpoint.
        true => {
            // GPU memory may not hold two trainers.
            drop(run.trainer);
            let mut last = trainer(&run.job, State::new(parameters, run.job.optimiser, false))?;
            Some(measure(last.as_mut(), recipe, &run.job, &run.validation)?)
        }
        false => None,
    };
    Ok(Outcome { network, steps: run.step, job: run.job, finished, metrics })
}

struct Run<'a> {
    recipe: &'a Recipe,
    job: Job,
    trainer: Box<NnueTrainer>,
    loader: Loader,
    validation: Vec<(Batch, Vec<Record>)>,
    checkpoints: Checkpoints,
    log: RunLog,
    progress: RunProgress,
    step: u64,
    /// Batches of the steps whose metrics are not collected yet, kept to be written to a file if one
    /// diverges.
    recent: VecDeque<Batch>,
    folder: PathBuf,
}

impl<'a> Run<'a> {
    fn begin(recipe: &'a Recipe, options: &RunOptions<'_>, trainer: &MakeTrainer) -> Result<Self, RunError> {
        let job = Job::of(recipe)?;
        let folder = options.folder;
        let folder_error = |problem: &str| RunError::Folder { path: folder.into(), problem: problem.into() };
        let checkpoints = Checkpoints::new(folder, recipe.training.keep);
        let (state, progress) = match resume_point::<Recipe>(folder, &checkpoints, options.resume)? {
            None => (initial_state(&job, recipe)?, RunProgress::default()),
            Some(found) => {
                if found.recipe != *recipe {
                    return Err(folder_error(RECIPE_CHANGED));
                }
                if !found.state.fits(&job.layout, job.optimiser, job.is_averaged()) {
                    return Err(folder_error("its newest checkpoint is of another network"));
                }
                (found.state, found.progress)
            }
        };
        let step = state.step;
        write_recipe(folder, &recipe.explain())?;
        let cursor = (step > 0).then(|| progress.cursor.clone());
        let loader = Loader::new(recipe, options.threads, step, cursor);
        let positions = recipe.training.validation_positions;
        let validation = load_validation(&recipe.data.validation, recipe, options.threads, positions)?;
        // Log entries after the last checkpoint are dropped, because their steps are done again.
        let log = RunLog::resume(folder, step)?;
        Ok(Self {
            trainer: trainer(&job, state)?,
            recipe,
            job,
            loader,
            validation,
            checkpoints,
            log,
            progress,
            step,
            recent: VecDeque::new(),
            folder: folder.into(),
        })
    }

    /// Trains to the end, or until stopped. Returns true if the run came to its end.
    fn steps(
        &mut self,
        options: &RunOptions<'_>,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<bool, RunError> {
        let training = &self.recipe.training;
        let steps = self.recipe.steps();
        let pause = training.validate_every.div_ceil(training.batch as u64);
        watch(Event::Begin { step: self.step, steps });
        let mut throughput = Throughput::new(self.step, self.loader.waited());
        while self.step < steps && !self.progress.patience_exhausted(training.patience) {
            let loaded = self.loader.next_batch()?;
            let lr = self.recipe.lr.at(self.step, steps);
            self.trainer.train_step(&loaded.batch, lr)?;
            if self.progress.cursor != *loaded.cursor {
                self.progress.cursor = Arc::unwrap_or_clone(loaded.cursor);
            }
            self.recent.push_back(loaded.batch);
            self.step += 1;
            let stopped = options.stop.load(Ordering::Relaxed);
            let validates = self.step.is_multiple_of(pause) || self.step == steps;
            if self.recent.len() == LOG_INTERVAL || validates || stopped {
                let metrics = self.collect_metrics()?;
                let (positions_per_second, data_wait) =
                    throughput.measure(self.step, self.loader.waited(), training.batch);
                let metrics = StepMetrics::mean(&metrics);
                watch(Event::Steps {
                    step: self.step,
                    loss: metrics.loss,
                    lr,
                    positions_per_second,
                    data_wait,
                });
                self.log_steps(&metrics, lr, positions_per_second, data_wait)?;
                throughput = Throughput::new(self.step, self.loader.waited());
            }
            if validates {
                self.validate(watch)?;
                throughput = Throughput::new(self.step, self.loader.waited());
            } else if stopped {
                let checkpoint = self.checkpoint()?;
                self.checkpoints.save_stopped(&checkpoint)?;
            }
            if stopped {
                return Ok(self.step == steps);
            }
        }
        Ok(true)
    }

    /// Waits for the queued steps, and fails if the loss or gradient norm of one is not finite.
    fn collect_metrics(&mut self) -> Result<Vec<StepMetrics>, RunError> {
        let metrics = self.trainer.take_metrics()?;
        let first = self.step - metrics.len() as u64;
        if let Some(at) =
            metrics.iter().position(|metrics| !(metrics.loss.is_finite() && metrics.grad_norm.is_finite()))
        {
            let step = first + at as u64 + 1;
            let path = self.folder.join(format!("bad-batch-{step:09}.csv"));
            let mut text = "fen,score,win_probability\n".to_owned();
            let batch = &self.recent[at];
            for (position, target) in batch.positions.iter().zip(&batch.targets) {
                let fen = position.board().map_or_else(|error| error.to_string(), |board| board.to_string());
                let _ = writeln!(text, "{fen},{},{}", target.score, target.win_probability);
            }
            output::write_atomically(&path, text.as_bytes())
                .map_err(|error| RunError::Folder { path: path.clone(), problem: error.to_string() })?;
            return Err(RunError::NonFiniteLoss { step, loss: metrics[at].loss, batch: path });
        }
        self.recent.drain(..).for_each(|batch| self.loader.recycle(batch));
        Ok(metrics)
    }

    fn positions(&self) -> u64 {
        self.step * self.recipe.training.batch as u64
    }

    fn log_steps(
        &mut self,
        metrics: &StepMetrics,
        lr: f64,
        positions_per_second: f64,
        data_wait: f64,
    ) -> Result<(), RunError> {
        let wdl = self.recipe.target.wdl.at(self.step.saturating_sub(1), self.recipe.steps());
        let scalars = [
            ("train/loss", metrics.loss),
            ("train/grad_norm", metrics.grad_norm),
            ("train/lr", lr),
            ("train/wdl", wdl),
            ("speed/positions", positions_per_second),
            ("speed/data_wait", data_wait),
        ];
        Ok(self.log.scalars(self.step, self.positions(), &scalars)?)
    }

    /// Evaluates the network on the validation data, writes a checkpoint, and draws the curves.
    fn validate(&mut self, watch: &mut dyn FnMut(Event<'_>)) -> Result<(), RunError> {
        let mut is_best = false;
        if !self.validation.is_empty() {
            let metrics = measure(self.trainer.as_mut(), self.recipe, &self.job, &self.validation)?;
            let whole = metrics.overall();
            let loss = whole.loss().unwrap_or(f64::NAN);
            if !loss.is_finite() {
                return Err(RunError::NonFiniteValidationLoss { step: self.step, loss });
            }
            is_best = self.progress.record_validation(loss, self.step);
            let mut scalars = vec![("validation/loss", loss)];
            let scalar_metrics = [
                ("validation/mae", whole.mae()),
                ("validation/sign_accuracy", whole.sign_accuracy()),
                ("validation/wdl_accuracy", whole.wdl_accuracy()),
                ("validation/correlation", whole.correlation()),
            ];
            scalars.extend(scalar_metrics.into_iter().filter_map(|(name, value)| Some((name, value?))));
            self.log.scalars(self.step, self.positions(), &scalars)?;
            watch(Event::Validated { step: self.step, metrics: &metrics, is_best });
        }
        let checkpoint = self.checkpoint()?;
        self.checkpoints.save(&checkpoint, is_best)?;
        self.log_weights(&checkpoint.state)?;
        self.log.draw()?;
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<Checkpoint, RunError> {
        let state = self.trainer.state()?;
        let (recipe, progress) = (self.recipe.clone(), self.progress.clone());
        Ok(Checkpoint { recipe, architecture: None, state, progress })
    }

    /// Logs histograms of the weights, and the saturation of the activations.
    fn log_weights(&mut self, state: &State) -> Result<(), RunError> {
        for tensor in self.job.layout.tensors() {
            // The first stack represents all of them, to keep the log small.
            if !tensor.name.starts_with("stack.") || tensor.name.starts_with("stack.0.") {
                let tag = format!("weights/{}", tensor.name);
                self.log.histogram(self.step, &tag, &state.parameters[tensor.span()])?;
            }
        }
        let probed = self
            .validation
            .first()
            .map(|(batch, _)| &batch.positions[..batch.len().min(SATURATION_POSITIONS)]);
        let found = saturation(&self.job.layout, &state.parameters, probed.unwrap_or_default());
        let named: Vec<(String, f64)> = found
            .iter()
            .flat_map(|found| {
                let name = |edge: &str| format!("saturation/{}/{edge}", found.layer);
                [(name("low"), found.low), (name("high"), found.high)]
            })
            .collect();
        let scalars: Vec<(&str, f64)> = named.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        Ok(self.log.scalars(self.step, self.positions(), &scalars)?)
    }

    /// Parameters of the network that the run returns: averaged, best, or last.
    fn final_parameters(&mut self, finished: bool) -> Result<Vec<f32>, RunError> {
        let training = &self.recipe.training;
        if let Averaging::Checkpoints { count } = training.averaging()
            && finished
        {
            return self.mean_of_checkpoints(count);
        }
        let keeps_best = training.patience > 0 && self.progress.best.is_some();
        let state = match keeps_best {
            true => Checkpoint::<Recipe>::load(&self.checkpoints.best())?.state,
            false => self.trainer.state()?,
        };
        Ok(state.averaged())
    }

    fn mean_of_checkpoints(&self, count: usize) -> Result<Vec<f32>, RunError> {
        let all = self.checkpoints.list();
        let last = &all[all.len().saturating_sub(count)..];
        let mut sums = vec![0f32; self.job.layout.num_parameters()];
        for (_, path) in last {
            let parameters = Checkpoint::<Recipe>::load(path)?.state.parameters;
            sums.iter_mut().zip(parameters).for_each(|(sum, number)| *sum += number);
        }
        sums.iter_mut().for_each(|sum| *sum /= last.len().max(1) as f32);
        Ok(sums)
    }
}

/// Metrics of the network on the validation data, with the moving average if there is one.
fn measure(
    trainer: &mut NnueTrainer,
    recipe: &Recipe,
    job: &Job,
    validation: &[(Batch, Vec<Record>)],
) -> Result<Metrics, RunError> {
    let mut metrics = Metrics::default();
    for (batch, records) in validation {
        let outputs = trainer.predict(batch, true)?;
        for ((&output, record), &target) in outputs.iter().zip(records).zip(&batch.targets) {
            let output = f64::from(output);
            metrics.add(&LabelledPrediction {
                centipawns: output * recipe.target.scale,
                win_probability: sigmoid(output),
                score: record.score.map(|score| f64::from(score.centipawns())),
                loss: Some(job.loss.value_and_grad(output, target).0),
                result: record.result,
                pieces: record.position.piece_count(),
                phase: Phase::of(&record.position),
            });
        }
    }
    Ok(metrics)
}

/// State before the first step: randomly initialised, or from the recipe's starting network.
fn initial_state(job: &Job, recipe: &Recipe) -> Result<State, RunError> {
    let Some(path) = &recipe.network.init_from else { return Ok(job.initial_state(recipe.seed)) };
    let network = FloatNetwork::load(path)?;
    if network.architecture != *job.layout.architecture() {
        let problem =
            format!("{path} is {}, the recipe asks for {}", network.architecture, job.layout.architecture());
        return Err(RecipeError::Invalid { key: "network.init_from", problem }.into());
    }
    // Another scale would change what every output means from the first step on.
    if (network.scale, network.pawn) != (job.scale, job.pawn) {
        let problem = format!(
            "{path} has scale {} and pawn {}, the recipe's network {} and {}: start from a network of the same units",
            network.scale, network.pawn, job.scale, job.pawn
        );
        return Err(RecipeError::Invalid { key: "network.init_from", problem }.into());
    }
    Ok(State::new(job.layout.parameters_of(&network), job.optimiser, job.is_averaged()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trainer::Trainer;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// A trainer that learns nothing: all its parameters are the number of steps, and its error is the
    /// distance from the thirtieth step.
    struct Counter {
        state: State,
        pending_steps: usize,
    }

    impl Trainer for Counter {
        type Batch = Batch;
        type Outputs = Vec<f32>;

        fn train_step(&mut self, _: &Batch, _: f64) -> Result<(), TrainError> {
            self.state.step += 1;
            self.state.parameters.fill(self.state.step as f32);
            self.pending_steps += 1;
            Ok(())
        }

        fn take_metrics(&mut self) -> Result<Vec<StepMetrics>, TrainError> {
            Ok(vec![StepMetrics::default(); std::mem::take(&mut self.pending_steps)])
        }

        fn predict(&mut self, batch: &Batch, _: bool) -> Result<Vec<f32>, TrainError> {
            Ok(vec![(self.state.parameters[0] - 30.0).abs() / 10.0; batch.len()])
        }

        fn state(&mut self) -> Result<State, TrainError> {
            Ok(self.state.clone())
        }
    }

    fn count(_: &Job, state: State) -> Result<Box<NnueTrainer>, TrainError> {
        Ok(Box::new(Counter { state, pending_steps: 0 }))
    }

    /// A temporary folder with drawn positions, removed when it is dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tandem-run-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            let rows = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1,1/2-1/2\n".repeat(50);
            std::fs::write(path.join("draws.csv"), format!("fen,result\n{rows}")).unwrap();
            Self(path)
        }

        /// A recipe of a hundred steps with a validation after every tenth.
        fn recipe(&self, network: &str, training: &str) -> Recipe {
            let data = self.0.join("draws.csv");
            let text = format!(
                "name = \"x\"\n[data]\nshuffle_buffer = 50\ntrain = [{{ path = {data:?} }}]\n\
                 validation = [{{ path = {data:?} }}]\n[network]\nfeatures = \"768\"\n{network}\n[target]\n\
                 wdl = 1.0\n[training]\nbatch = 10\npositions = 1000\nvalidate_every = 100\n{training}\n"
            );
            Recipe::parse(&text).unwrap()
        }

        fn run(&self, recipe: &Recipe, trainer: &MakeTrainer) -> Result<Outcome, RunError> {
            let stop = AtomicBool::new(false);
            let folder = self.0.join("run");
            run(
                recipe,
                &RunOptions { folder: &folder, resume: false, threads: 1, stop: &stop },
                trainer,
                &mut |_| (),
            )
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn patience_ends_a_run_and_gives_the_best_network() {
        let folder = Folder::new("patience");
        let outcome = folder.run(&folder.recipe("accumulator = 32", "patience = 2"), &count).unwrap();
        assert!(outcome.finished);
        assert_eq!((outcome.steps, outcome.network.bias[0]), (50, 30.0));
        let loss = outcome.metrics.unwrap().overall().loss().unwrap();
        assert!(loss < 1e-12, "the metrics are of that network: {loss}");
    }

    #[test]
    fn a_run_can_give_the_mean_of_its_last_checkpoints() {
        let folder = Folder::new("mean");
        let training = "average_checkpoints = 3\nkeep = 4";
        let outcome = folder.run(&folder.recipe("accumulator = 32", training), &count).unwrap();
        assert_eq!((outcome.steps, outcome.network.bias[0]), (100, 90.0));
    }

    #[test]
    fn a_run_starts_from_the_given_network() {
        let folder = Folder::new("start");
        let path = folder.0.join("start.safetensors");
        let recipe = |network: &str| folder.recipe(&format!("{network}\ninit_from = {path:?}"), "");
        let job = Job::of(&recipe("accumulator = 32")).unwrap();
        let network = job.network(&job.layout.random_parameters(5), "start");
        std::fs::write(&path, network.to_safetensors().unwrap()).unwrap();
        let begun = Rc::new(RefCell::new(None));
        let seen = Rc::clone(&begun);
        let trainer = move |job: &Job, state: State| {
            *seen.borrow_mut() = Some(job.network(&state.parameters, "start"));
            Err(TrainError("enough".into()))
        };
        let error_of = |network: &str| folder.run(&recipe(network), &trainer).unwrap_err().to_string();
        assert_eq!(error_of("accumulator = 32"), "enough");
        assert_eq!(begun.take(), Some(network));
        // A network of another shape or scale is not accepted.
        for other in ["accumulator = 64", "accumulator = 32\nscale = 300"] {
            let error = error_of(other);
            assert!(error.contains("network.init_from"), "{error}");
            assert_eq!(begun.take(), None);
        }
    }
}
