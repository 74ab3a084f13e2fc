//! The training loop for networks of all kinds: training steps, validation, checkpoints and a log.
//!
//! The result does not depend on interruptions: a run that is stopped and resumed gives the same network, on
//! the CPU to the bit. A [`Task`] says what is trained: an NNUE, a transformer or a selector. Several processes
//! can share a run: each computes its rows of every batch, and only the first of them writes files.

mod error;
mod folder;
mod task;

pub use error::RunError;
pub(crate) use task::{RunPlan, Task};

use crate::checkpoint::{Checkpoint, Checkpoints, RunProgress};
use crate::log::RunLog;
use crate::metrics::Metrics;
use crate::pool::Loader;
use crate::throughput::Throughput;
use crate::trainer::{StepMetrics, Trainer};
use folder::{RECIPE_CHANGED, discard_empty, lock_folder, resume_point, write_recipe};
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tandem_util::output;

/// Options of a run that do not change its result: where it is stored, and how it is executed.
pub struct RunOptions<'a> {
    /// Folder of the run's checkpoints, log and networks; created if it does not exist.
    pub folder: &'a Path,
    /// Resumes from the newest checkpoint in the folder; if false, a checkpoint there is an error.
    pub resume: bool,
    /// Number of threads that load data; the result does not depend on it.
    pub threads: usize,
    /// Ends the run soon, with a checkpoint, once another thread sets this; in any process, it ends all.
    pub stop: &'a AtomicBool,
}

/// Progress of a run, reported to the caller while it goes on; logs are written without it.
#[derive(Debug)]
pub enum Event<'a> {
    /// Something that the user should know although the run goes on, for example that a checkpoint is damaged
    /// and an older one is used.
    Notice(&'a str),
    /// Data is prepared before the first step: records evaluated so far, of all that a selector learns from.
    Preparing {
        /// Number of records handled so far.
        done: usize,
        /// Number of all records, training and validation together.
        all: usize,
    },
    /// The run begins or is resumed.
    Begin {
        /// Steps done so far; zero unless the run is resumed.
        step: u64,
        /// Steps of the whole run.
        steps: u64,
        /// Size of the parameters and buffers of a checkpoint, in bytes.
        checkpoint_size: u64,
        /// Largest number of checkpoints in the folder: those of the last validations, the best one, and one that
        /// is being written.
        checkpoints: u64,
        /// Baseline loss of each classifying head of a transformer on the validation data, by the head's name:
        /// the entropy of its labels. Empty for other networks.
        baseline: &'a [(String, f64)],
    },
    /// Steps were done since the last event: as many as metrics are collected at a time.
    Steps {
        /// Number of optimiser steps done so far, including those that this event reports.
        step: u64,
        /// Means over the steps since the last event, and the greatest of their gradient norms.
        metrics: &'a StepMetrics,
        /// Learning rate of the last step that this event reports.
        lr: f64,
        /// Positions trained on per second since the last event, all processes together.
        positions_per_second: f64,
        /// Fraction of the time since the last event that was spent in waiting for data, from 0 to 1.
        data_wait: f64,
    },
    /// The run reads its data very often, so that the network will learn it by heart.
    ManyEpochs {
        /// Passes over the data in the whole run.
        epochs: f64,
    },
    /// More broken records were skipped since the last report, with `on_invalid = "skip"`.
    Skipped {
        /// Records skipped so far, each counted only in the first epoch.
        count: u64,
        /// The first few of them, each with file, record number and reason.
        examples: &'a [String],
    },
    /// A checkpoint follows, in a run without validation data.
    Trained {
        /// Steps done so far.
        step: u64,
        /// Progress since the last event of this kind.
        training: TrainingProgress,
    },
    /// The network was evaluated on the validation data, and a checkpoint follows.
    Validated {
        /// Steps done so far, after which it was evaluated.
        step: u64,
        /// Progress since the last event of this kind.
        training: TrainingProgress,
        /// Metrics on the validation data, as a whole and by groups.
        metrics: &'a Metrics,
        /// Validation loss, by which the best checkpoint is chosen.
        loss: f64,
        /// True if the loss is the lowest so far, so that the checkpoint becomes the best one.
        is_best: bool,
    },
}

/// Training loss and epochs, to be seen beside a validation: if the training loss goes on falling over many
/// epochs while the validation loss does not, the network learns its data by heart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingProgress {
    /// Mean loss on the batches since the last validation, or since the run was resumed.
    pub loss: f64,
    /// Passes over the data so far, over the source that is repeated most often; `None` during the first one.
    pub epochs: Option<f64>,
}

/// Passes over the data of a run from which it is reported that there are too many.
const MANY_EPOCHS: f64 = 50.0;

/// Result of a run that came to its end or was stopped.
#[derive(Debug)]
pub struct RunOutcome<N> {
    /// The network: the average if the recipe asks for one, the best checkpoint with patience, or the last
    /// weights.
    pub network: N,
    /// Number of steps done, including those before a resumption.
    pub steps: u64,
    /// Step of the best validation if the network is the one from there, as with `training.patience`.
    pub best: Option<u64>,
    /// True if the run came to its end; false if it was stopped and can be resumed.
    pub finished: bool,
    /// Metrics of the network on the validation data; `None` without such data, or if the run was stopped before
    /// a validation.
    pub metrics: Option<Metrics>,
}

/// Trains what a task describes. `watch` is called with every event.
pub(crate) fn run_task<T: Task>(
    task: T,
    options: &RunOptions<'_>,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<RunOutcome<T::Network>, RunError> {
    let is_new = task.process().is_first() && !options.folder.exists();
    let begun = Run::begin(task, options, watch).and_then(|mut run| {
        let finished = run.steps(options, watch);
        finished.map(|finished| (run, finished))
    });
    match begun {
        Ok((run, finished)) => run.finish(finished),
        Err(error) => {
            if is_new {
                discard_empty(options.folder);
            }
            Err(error)
        }
    }
}

struct Run<T: Task> {
    task: T,
    plan: RunPlan,
    trainer: Box<T::Trainer>,
    loader: Loader<T::Batch>,
    checkpoints: Checkpoints,
    progress: RunProgress,
    step: u64,
    /// Batches of the steps whose metrics are not collected yet, kept to be written to a file if one diverges;
    /// empty for tasks that cannot describe them.
    recent: VecDeque<T::Batch>,
    /// Metrics of the last validation, or of the best one if its network is the result.
    metrics: Option<Metrics>,
    /// Log and folder lock, which only the first process has.
    writes: Option<(RunLog, File)>,
    /// Number of skipped records that were reported to the caller, so that each is reported once.
    skips_reported: u64,
    /// True once the run was reported to read its data too often.
    many_epochs_reported: bool,
    /// Sum of the training losses of the steps since the last validation, and the number of those steps.
    loss_sum: (f64, u64),
    folder: PathBuf,
}

impl<T: Task> Run<T> {
    fn begin(
        mut task: T,
        options: &RunOptions<'_>,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<Self, RunError> {
        let folder = options.folder;
        let invalid = |problem: String| RunError::Folder { path: folder.into(), problem };
        let lock = if task.process().is_first() { Some(lock_folder(folder)?) } else { None };
        let mut notice = |text: String| watch(Event::Notice(&text));
        let newest = resume_point::<T::Recipe>(folder, options.resume, &mut notice)?;
        let bases = task.bases();
        if let Some(found) = &newest {
            if found.recipe != *task.recipe() {
                return Err(invalid(RECIPE_CHANGED.into()));
            }
            if found.progress.bases != bases {
                return Err(invalid(
                    "it was trained between other networks than those that are there now: bring them back, or name \
                     another folder"
                        .into(),
                ));
            }
            if let Some(difference) = task.difference(found) {
                let problem = format!("its newest checkpoint is of another network: {difference}");
                return Err(invalid(problem));
            }
        }
        task.open(options, watch)?;
        let plan = task.plan();
        let (state, mut progress) = match newest {
            Some(found) => (Some(found.state), found.progress),
            None => (None, RunProgress::default()),
        };
        progress.bases = bases;
        let step = state.as_ref().map_or(0, |state| state.step);
        let cursor = (step > 0).then(|| progress.cursor.clone());
        let loader = task.load(options.threads, step, cursor)?;
        let writes = match lock {
            Some(lock) => {
                write_recipe(folder, task.recipe())?;
                // Log entries after the last checkpoint are dropped, because their steps are done again.
                Some((RunLog::resume(folder, step)?, lock))
            }
            None => None,
        };
        Ok(Self {
            trainer: task.trainer(state)?,
            task,
            checkpoints: Checkpoints::new(folder, plan.keep),
            plan,
            loader,
            progress,
            step,
            recent: VecDeque::new(),
            metrics: None,
            writes,
            skips_reported: 0,
            many_epochs_reported: false,
            loss_sum: (0.0, 0),
            folder: folder.into(),
        })
    }

    /// Trains to the end, or until stopped. Returns true if the run came to its end.
    fn steps(
        &mut self,
        options: &RunOptions<'_>,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<bool, RunError> {
        let RunPlan { steps, batch, validate_every, log_every, patience, .. } = self.plan;
        self.check_step()?;
        let baseline = self.baseline()?;
        let buffers = self.trainer.state()?;
        let values: usize = buffers.buffers().iter().map(|(_, values)| values.len()).sum();
        watch(Event::Begin {
            step: self.step,
            steps,
            checkpoint_size: (values * size_of::<f32>()) as u64,
            checkpoints: self.plan.keep as u64 + 2,
            baseline: &baseline,
        });
        let mut throughput = Throughput::new(self.step, self.loader.waited());
        while self.step < steps && !self.progress.patience_exhausted(patience) {
            let lr = self.plan.lr.at(self.step, steps);
            self.train_step(lr)?;
            let validates = self.step.is_multiple_of(validate_every) || self.step == steps;
            let is_asked_to_stop = || options.stop.load(Ordering::Relaxed);
            let stops_now = self.plan.stops_at_once && is_asked_to_stop();
            if !validates && !stops_now && self.step - throughput.step() < log_every {
                continue;
            }
            let metrics = self.collect_metrics()?;
            let steps_since = self.step - throughput.step();
            self.loss_sum.0 += metrics.loss * steps_since as f64;
            self.loss_sum.1 += steps_since;
            self.report_epochs(watch);
            // A stop of one process stops all.
            let mut stop = [f64::from(u8::from(stops_now || is_asked_to_stop()))];
            self.trainer.all_reduce_sum(&mut stop)?;
            let stopped = stop[0] > 0.0;
            let (positions_per_second, data_wait) =
                throughput.measure(self.step, self.loader.waited(), batch);
            watch(Event::Steps { step: self.step, metrics: &metrics, lr, positions_per_second, data_wait });
            self.log_steps(&metrics, lr, positions_per_second, data_wait)?;
            if validates {
                self.report_skips(watch);
                self.validate(watch)?;
            } else if stopped {
                let checkpoint = self.checkpoint()?;
                if self.writes.is_some() {
                    self.checkpoints.save_stopped(&checkpoint)?;
                }
            }
            if stopped {
                return Ok(self.step == steps);
            }
            throughput = Throughput::new(self.step, self.loader.waited());
        }
        Ok(true)
    }

    fn train_step(&mut self, lr: f64) -> Result<(), RunError> {
        let loaded = self.loader.next_batch()?;
        self.trainer.train_step(&loaded.batch, lr)?;
        if self.progress.cursor != *loaded.cursor {
            self.progress.cursor = Arc::unwrap_or_clone(loaded.cursor);
        }
        match T::DESCRIBE_BATCH {
            Some(_) => self.recent.push_back(loaded.batch),
            None => self.loader.recycle(loaded.batch),
        }
        self.step += 1;
        if self.task.averages_after(self.step) {
            self.trainer.update_average()?;
        }
        Ok(())
    }

    /// Fails unless all processes start at the same step, because one that does not see the folder would
    /// start at zero.
    fn check_step(&mut self) -> Result<(), RunError> {
        let step = self.step as f64;
        let mut sums = [1.0, step, step * step];
        self.trainer.all_reduce_sum(&mut sums)?;
        if sums[0] * sums[2] == sums[1] * sums[1] {
            return Ok(());
        }
        let problem = format!(
            "this process would start at step {}, others at another: all need the run's folder to resume",
            self.step
        );
        Err(RunError::Folder { path: self.folder.clone(), problem })
    }

    /// Baseline losses on the validation data of all processes; also logs them at the start of a run.
    fn baseline(&mut self) -> Result<Vec<(String, f64)>, RunError> {
        let losses = self.task.baseline(&mut self.trainer)?;
        if let (0, false, Some((log, _))) = (self.step, losses.is_empty(), &mut self.writes) {
            let tagged = losses.iter().map(|(head, loss)| (format!("validation/baseline/{head}"), *loss));
            log.scalars(0, 0, &tagged.collect::<Vec<_>>())?;
        }
        Ok(losses)
    }

    /// Waits for the queued steps and averages their metrics. Fails if the loss or gradient norm of one is not
    /// finite.
    fn collect_metrics(&mut self) -> Result<StepMetrics, RunError> {
        let metrics = self.trainer.take_metrics()?;
        let is_bad = |step: &StepMetrics| !(step.loss.is_finite() && step.grad_norm.is_finite());
        if let Some(at) = metrics.iter().position(is_bad) {
            let step = self.step - metrics.len() as u64 + at as u64 + 1;
            let batch = T::DESCRIBE_BATCH.zip(self.recent.get(at)).map(|(describe, batch)| {
                let path = self.folder.join(format!("bad-batch-{step:09}.csv"));
                output::write_atomically(&path, describe(batch).as_bytes())
                    .map_err(|error| RunError::Folder { path: path.clone(), problem: error.to_string() })
                    .map(|()| path)
            });
            return Err(RunError::NonFiniteLoss { step, loss: metrics[at].loss, batch: batch.transpose()? });
        }
        self.recent.drain(..).for_each(|batch| self.loader.recycle(batch));
        Ok(StepMetrics::mean(&metrics))
    }

    fn log_steps(
        &mut self,
        metrics: &StepMetrics,
        lr: f64,
        positions_per_second: f64,
        data_wait: f64,
    ) -> Result<(), RunError> {
        let positions = self.task.positions(self.step);
        let Some((log, _)) = &mut self.writes else { return Ok(()) };
        let scalars = [
            ("train/loss", metrics.loss),
            ("train/grad_norm", metrics.grad_norm),
            ("train/lr", lr),
            ("speed/positions", positions_per_second),
            ("speed/data_wait", data_wait),
            ("data/skipped", self.loader.skipped().count() as f64),
        ];
        let more = metrics.components.iter().cloned().chain(self.task.step_scalars(self.step));
        let more = more.map(|(name, value)| (format!("train/{name}"), value));
        let scalars: Vec<(String, f64)> =
            scalars.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(more).collect();
        Ok(log.scalars(self.step, positions, &scalars)?)
    }

    /// Reports the number of skipped records if it has grown.
    fn report_skips(&mut self, watch: &mut dyn FnMut(Event<'_>)) {
        let skipped = self.loader.skipped();
        let count = skipped.count();
        if count > self.skips_reported {
            watch(Event::Skipped { count, examples: &skipped.examples() });
            self.skips_reported = count;
        }
    }

    /// Reports once that the run reads its data too often.
    fn report_epochs(&mut self, watch: &mut dyn FnMut(Event<'_>)) {
        if self.many_epochs_reported || self.loader.epochs(self.task.positions(self.step)).is_none() {
            return;
        }
        self.many_epochs_reported = true;
        if let Some(epochs) = self.loader.epochs(self.task.positions(self.plan.steps))
            && epochs >= MANY_EPOCHS
        {
            watch(Event::ManyEpochs { epochs });
        }
    }

    /// Training loss since the last validation, and the epochs so far.
    fn training_progress(&mut self) -> TrainingProgress {
        let (sum, steps) = std::mem::take(&mut self.loss_sum);
        TrainingProgress {
            loss: sum / steps.max(1) as f64,
            epochs: self.loader.epochs(self.task.positions(self.step)),
        }
    }

    /// Evaluates the network on the validation data, writes a checkpoint, and draws the curves.
    fn validate(&mut self, watch: &mut dyn FnMut(Event<'_>)) -> Result<(), RunError> {
        let mut is_best = false;
        let positions = self.task.positions(self.step);
        let training = self.training_progress();
        if let Some(metrics) = self.task.evaluate(&mut self.trainer)? {
            let loss = self.task.loss(&metrics).ok_or(RunError::NoValidationTargets)?;
            if !loss.is_finite() {
                return Err(RunError::NonFiniteValidationLoss { step: self.step, loss });
            }
            is_best = self.progress.record_validation(loss, self.step);
            if let Some((log, _)) = &mut self.writes {
                let others = metrics.scalars().filter(|(tag, _)| tag != "loss");
                let all = std::iter::once(("loss".to_owned(), loss)).chain(others);
                let tagged = all.map(|(tag, value)| (format!("validation/{tag}"), value));
                log.scalars(self.step, positions, &tagged.collect::<Vec<_>>())?;
            }
            watch(Event::Validated { step: self.step, training, metrics: &metrics, loss, is_best });
            if is_best || !self.plan.returns_best {
                self.metrics = Some(metrics);
            }
        } else {
            watch(Event::Trained { step: self.step, training });
        }
        let checkpoint = self.checkpoint()?;
        if let Some((log, _)) = &mut self.writes {
            self.checkpoints.save(&checkpoint, is_best)?;
            self.task.log_state(log, &checkpoint.state)?;
            log.draw()?;
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<Checkpoint<T::Recipe>, RunError> {
        Ok(Checkpoint {
            recipe: self.task.recipe().clone(),
            architecture: self.task.architecture(),
            state: self.trainer.state()?,
            progress: self.progress.clone(),
        })
    }

    /// The network of a run that is over: averaged, best, or last, with its metrics.
    fn finish(mut self, finished: bool) -> Result<RunOutcome<T::Network>, RunError> {
        let is_alone = self.task.process().world_size == 1;
        let mean = if finished { self.task.mean_of_checkpoints(&self.checkpoints)? } else { None };
        let wants_best = finished && self.plan.returns_best && mean.is_none();
        let best = self.progress.best.filter(|_| wants_best).map(|(_, step)| step);
        let is_mean = mean.is_some();
        let replacement = match (mean, best) {
            (Some(mean), _) => Some(mean),
            // Later steps only made the loss worse. The other processes' networks are not used.
            (None, Some(_)) if self.task.process().is_first() => {
                Some(Checkpoint::<T::Recipe>::load(&self.checkpoints.best())?.state)
            }
            _ => None,
        };
        if let Some(state) = replacement {
            // A GPU may not have the memory for two trainers.
            drop(self.trainer);
            self.trainer = self.task.trainer(Some(state))?;
        }
        if finished && is_alone && (is_mean || self.metrics.is_none()) {
            self.metrics = self.task.evaluate(&mut self.trainer)?;
        }
        let network = self.task.network(&mut self.trainer)?;
        Ok(RunOutcome { network, steps: self.step, best, finished, metrics: self.metrics })
    }
}
