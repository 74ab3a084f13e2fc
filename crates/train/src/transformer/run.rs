//! The training loop of a transformer, from a recipe to a network: steps, validation, checkpoints and the
//! log.
//!
//! Several processes can share a run: each computes its rows of every batch, and only the first of them
//! writes files.

use super::difference::architecture_difference;
use super::{
    BridgeSetup, Head, HeadOutputs, InitialNetworks, Metric, OutputsByHead, ProcessRank, SampleLoader,
    SampleShape, SampleSpec, Samples, TransformerMetrics, TransformerRecipe, TransformerTrainer,
    ValueHeadOutputs, baseline, load_samples,
};
use crate::checkpoint::{Checkpoint, Checkpoints, RunProgress};
use crate::log::RunLog;
use crate::metrics::Phase;
use crate::recipe::RecipeError;
use crate::run::{RECIPE_CHANGED, RunError, lock_folder, resume_point, write_recipe};
use crate::state::State;
use crate::throughput::Throughput;
use crate::trainer::{StepMetrics, TrainError};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tandem_hybrid::Hybrid;
use tandem_transformer::Weights;

/// Settings of a run that are not part of its recipe.
pub struct TransformerOptions<'a> {
    /// Folder of the run: checkpoints, logs and a copy of the recipe.
    pub folder: &'a Path,
    /// Continues from the newest checkpoint in the folder, which must have been written with an equal recipe.
    pub resume: bool,
    /// Threads that read and prepare data; results do not depend on their number.
    pub threads: usize,
    /// Rank of this process and the number of processes, for training on several GPUs.
    pub process: ProcessRank,
    /// Set to true in any process, it ends the run after the next metrics, with a checkpoint to continue
    /// from.
    pub stop: &'a AtomicBool,
}

/// Progress of a run, passed to the caller for display; logs are written without it.
#[derive(Debug)]
pub enum TransformerEvent<'a> {
    /// The run starts, or continues from a checkpoint.
    Begin {
        /// Number of steps done before; 0 unless the run is resumed.
        step: u64,
        /// Steps of the whole run, from its number of positions and the batch size.
        steps: u64,
        /// Baseline loss of each classifying head on the validation data: the entropy of its labels.
        baseline: &'a [(Head, f64)],
    },
    /// Metrics of the steps since the last event, every 32 steps and before each validation.
    Steps {
        /// Steps done since the start of the run, resumed parts included.
        step: u64,
        /// Mean of the losses of those steps, and the greatest of their gradient norms.
        metrics: &'a StepMetrics,
        /// Learning rate of the last step that this event reports.
        lr: f64,
        /// Positions per second since the last event, all processes together.
        speed: f64,
        /// Fraction of the time since the last event that the trainer waited for data.
        data_wait: f64,
    },
    /// More broken records were skipped since the last report, with `broken = "skip"`.
    Skipped {
        /// Records skipped so far, each counted only in the first epoch.
        count: u64,
        /// The first few of them, each with file, record number and reason.
        examples: &'a [String],
    },
    /// A validation is done; a checkpoint follows it.
    Validated {
        /// Number of optimiser steps done before this validation.
        step: u64,
        /// Losses and accuracies on the validation data of all processes.
        metrics: &'a TransformerMetrics,
        /// Weighted sum of the heads' losses, by which the best checkpoint is chosen.
        loss: f64,
        /// True if this loss is the lowest of the run so far.
        is_best: bool,
    },
}

/// Result of a run that has ended without an error.
#[derive(Debug)]
pub struct TransformerOutcome {
    /// The trained network, with averaged weights if the recipe asks for an average.
    pub weights: Weights,
    /// The hybrid with the trained bridge, if the recipe has one.
    pub hybrid: Option<Hybrid>,
    /// Steps done when the run ended, whether by itself or by `stop`.
    pub steps: u64,
    /// Step of the best validation if the returned network is the one from there, as with
    /// `training.patience`; `None` if it is the last one.
    pub best: Option<u64>,
    /// True if the run is complete, false if it was stopped and can be resumed.
    pub finished: bool,
    /// Validation metrics of the returned network: those of the best validation with `training.patience`,
    /// otherwise those of the last. `None` if there was no validation.
    pub metrics: Option<TransformerMetrics>,
}

/// Steps between two fetches of metrics, because each waits for the GPU.
const LOG_INTERVAL: u64 = 32;

/// Creates a trainer for a recipe from the initial networks, or, if a state is given, from the state of a
/// checkpoint.
pub type MakeTransformerTrainer<'a> = dyn Fn(
        &TransformerRecipe,
        InitialNetworks<'_>,
        Option<&State>,
    ) -> Result<Box<dyn TransformerTrainer>, TrainError>
    + 'a;

/// Runs a recipe to its end, or until it is stopped. `watch` receives every event.
///
/// # Errors
/// If the recipe, the data or the folder cannot be used, if training diverges, or if the trainer or the file
/// system fails.
pub fn run_transformer(
    recipe: &TransformerRecipe,
    options: &TransformerOptions<'_>,
    trainer: &MakeTransformerTrainer<'_>,
    watch: &mut dyn FnMut(TransformerEvent<'_>),
) -> Result<TransformerOutcome, RunError> {
    let mut run = Run::begin(recipe, options, trainer)?;
    let finished = run.steps(options, watch)?;
    let is_first = options.process.rank == 0;
    let best = run.progress.best.filter(|_| finished && recipe.training.patience > 0).map(|(_, step)| step);
    if is_first && best.is_some() {
        // Later steps only made the loss worse, so the best checkpoint is loaded. The other processes'
        // networks are not used.
        let kept = Checkpoint::<TransformerRecipe>::load(&run.checkpoints.best())?;
        let start = InitialNetworks { weights: &run.start, bridge_setup: run.bridge_setup.as_ref() };
        // A GPU may not have the memory for two trainers.
        drop(run.trainer);
        run.trainer = trainer(recipe, start, Some(&kept.state))?;
    }
    let weights = run.trainer.weights()?;
    let bridge = run.trainer.bridge()?;
    let hybrid = run.bridge_setup.zip(bridge).map(|(setup, bridge)| setup.hybrid(bridge, &recipe.name));
    if hybrid.is_some() && weights != run.start {
        return Err(RunError::BaseChanged);
    }
    Ok(TransformerOutcome { weights, hybrid, steps: run.step, best, finished, metrics: run.metrics })
}

struct Run<'a> {
    recipe: &'a TransformerRecipe,
    /// The transformer before the first step; with a bridge it must be unchanged at the end.
    start: Weights,
    /// The bridge and its NNUE, if a bridge is trained.
    bridge_setup: Option<BridgeSetup>,
    trainer: Box<dyn TransformerTrainer>,
    loader: SampleLoader,
    validation: Vec<Samples>,
    shape: SampleShape,
    checkpoints: Checkpoints,
    progress: RunProgress,
    step: u64,
    metrics: Option<TransformerMetrics>,
    /// Log and folder lock, which only the first process has.
    writes: Option<(RunLog, File)>,
    /// Number of skipped records that were reported to the caller, so that each is reported once.
    skips_reported: u64,
}

impl<'a> Run<'a> {
    fn begin(
        recipe: &'a TransformerRecipe,
        options: &TransformerOptions<'_>,
        trainer: &MakeTransformerTrainer<'_>,
    ) -> Result<Self, RunError> {
        let folder = options.folder;
        let is_first = options.process.rank == 0;
        let invalid = |problem: String| RunError::Folder { path: folder.into(), problem };
        let parts = options.process.world_size * recipe.training.gradient_accumulation_steps.max(1);
        if !recipe.training.batch.is_multiple_of(parts) {
            let problem = format!(
                "{} positions cannot be split equally among {} processes, each in {} parts",
                recipe.training.batch,
                options.process.world_size,
                recipe.training.gradient_accumulation_steps
            );
            return Err(RecipeError::Invalid { key: "training.batch", problem }.into());
        }
        let lock = if is_first { Some(lock_folder(folder)?) } else { None };
        let start = first_weights(recipe)?;
        let checkpoints = Checkpoints::new(folder, recipe.training.keep);
        let newest = resume_point::<TransformerRecipe>(folder, &checkpoints, options.resume)?;
        let (state, mut progress) = match newest {
            None => (None, RunProgress::default()),
            Some(found) => {
                let architecture = found.architecture.as_ref().unwrap_or(start.architecture());
                if let Some(difference) = architecture_difference(architecture, start.architecture()) {
                    return Err(invalid(format!(
                        "its newest checkpoint is of another network: {difference}"
                    )));
                }
                if found.recipe != *recipe {
                    return Err(invalid(RECIPE_CHANGED.into()));
                }
                (Some(found.state), found.progress)
            }
        };
        let step = state.as_ref().map_or(0, |state| state.step);
        let bridge_setup = BridgeSetup::of(recipe, start.architecture())?;
        let bases = bridge_setup.as_ref().map(BridgeSetup::file_hashes);
        if state.is_some() && progress.bases != bases {
            return Err(invalid(
                "its bridge was trained between other networks than those that are there now: bring them back, or \
                 name another folder"
                    .into(),
            ));
        }
        progress.bases = bases;
        let trained = start.architecture().parameters() + bridge_setup.as_ref().map_or(0, BridgeSetup::len);
        if let Some(buffer) = state.as_ref().and_then(|state| {
            state
                .buffers()
                .into_iter()
                .map(|(_, buffer)| buffer)
                .find(|buffer| !buffer.is_empty() && buffer.len() != trained)
        }) {
            let problem =
                format!("its newest checkpoint has {} values, and {trained} are trained", buffer.len());
            return Err(invalid(problem));
        }
        let spec = SampleSpec::of(start.architecture(), bridge_setup.as_ref());
        let shape = spec.shape;
        let cursor = (step > 0).then(|| progress.cursor.clone());
        let loader = SampleLoader::new(recipe, spec.clone(), options.process, options.threads, step, cursor);
        let validation = load_samples(recipe, spec, options.process, options.threads, loader.skipped())?;
        let writes = match lock {
            Some(lock) => {
                write_recipe(folder, &recipe.explain())?;
                Some((RunLog::resume(folder, step)?, lock))
            }
            None => None,
        };
        Ok(Self {
            trainer: trainer(
                recipe,
                InitialNetworks { weights: &start, bridge_setup: bridge_setup.as_ref() },
                state.as_ref(),
            )?,
            recipe,
            start,
            bridge_setup,
            loader,
            validation,
            shape,
            checkpoints,
            progress,
            step,
            metrics: None,
            skips_reported: 0,
            writes,
        })
    }

    /// Trains to the end, or until stopped. Returns true if the run is complete.
    fn steps(
        &mut self,
        options: &TransformerOptions<'_>,
        watch: &mut dyn FnMut(TransformerEvent<'_>),
    ) -> Result<bool, RunError> {
        let training = &self.recipe.training;
        let steps = self.recipe.steps();
        let pause = training.validate_every.div_ceil(training.batch as u64).max(1);
        self.check_step(options.folder)?;
        let baseline = self.baseline()?;
        watch(TransformerEvent::Begin { step: self.step, steps, baseline: &baseline });
        let mut throughput = Throughput::new(self.step, self.loader.waited());
        while self.step < steps && !self.progress.patience_exhausted(training.patience) {
            let loaded = self.loader.next_batch()?;
            let lr = self.recipe.lr.at(self.step, steps);
            self.trainer.train_step(&loaded.batch, lr)?;
            if self.progress.cursor != *loaded.cursor {
                self.progress.cursor = Arc::unwrap_or_clone(loaded.cursor);
            }
            self.loader.recycle(loaded.batch);
            self.step += 1;
            if let Some(swa) = training.swa
                && self.step as f64 >= swa.from * steps as f64
                && self.step.is_multiple_of(swa.every.max(1))
            {
                self.trainer.update_average()?;
            }
            let validates = self.step.is_multiple_of(pause) || self.step == steps;
            if !validates && self.step - throughput.step() < LOG_INTERVAL {
                continue;
            }
            let metrics = self.step_metrics(throughput.step())?;
            // A stop of one process stops all.
            let mut stop = [f64::from(u8::from(options.stop.load(Ordering::Relaxed)))];
            self.trainer.all_reduce_sum(&mut stop)?;
            let stopped = stop[0] > 0.0;
            let (speed, data_wait) = throughput.measure(self.step, self.loader.waited(), training.batch);
            watch(TransformerEvent::Steps { step: self.step, metrics: &metrics, lr, speed, data_wait });
            self.log_step(&metrics, lr, speed, data_wait)?;
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

    /// Fails unless all processes start at the same step, because one that does not see the folder would
    /// start at zero.
    fn check_step(&mut self, folder: &Path) -> Result<(), RunError> {
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
        Err(RunError::Folder { path: folder.into(), problem })
    }

    /// Baseline losses on the validation data of all processes; also logs them at the start of a run.
    fn baseline(&mut self) -> Result<Vec<(Head, f64)>, RunError> {
        let architecture = self.start.architecture();
        let mut sums = baseline::target_sums(architecture, &self.recipe.targets, &self.validation);
        self.trainer.all_reduce_sum(&mut sums)?;
        let losses = baseline::losses(architecture, &sums);
        if let (0, Some((log, _))) = (self.step, &mut self.writes) {
            let names: Vec<String> =
                losses.iter().map(|(head, _)| format!("validation/baseline/{}", head.name())).collect();
            let scalars: Vec<(&str, f64)> =
                names.iter().zip(&losses).map(|(name, (_, loss))| (name.as_str(), *loss)).collect();
            log.scalars(0, 0, &scalars)?;
        }
        Ok(losses)
    }

    /// Waits for pending steps and averages their metrics. Fails if a loss or a gradient norm is not finite.
    fn step_metrics(&mut self, logged: u64) -> Result<StepMetrics, RunError> {
        let steps = self.trainer.take_metrics()?;
        if let Some(at) = steps.iter().position(|step| !(step.loss.is_finite() && step.grad_norm.is_finite()))
        {
            return Err(RunError::Diverged { step: logged + at as u64 + 1, loss: steps[at].loss });
        }
        Ok(StepMetrics::mean(&steps))
    }

    fn positions(&self) -> u64 {
        self.step * self.recipe.training.batch as u64
    }

    fn log_step(
        &mut self,
        metrics: &StepMetrics,
        lr: f64,
        speed: f64,
        data_wait: f64,
    ) -> Result<(), RunError> {
        let (step, positions) = (self.step, self.positions());
        let Some((log, _)) = &mut self.writes else { return Ok(()) };
        let names: Vec<String> = metrics.components.iter().map(|(name, _)| format!("train/{name}")).collect();
        let mut scalars = vec![
            ("train/loss", metrics.loss),
            ("train/grad_norm", metrics.grad_norm),
            ("train/lr", lr),
            ("speed/positions", speed),
            ("speed/data_wait", data_wait),
            ("data/skipped", self.loader.skipped().count() as f64),
        ];
        scalars
            .extend(names.iter().zip(&metrics.components).map(|(name, (_, value))| (name.as_str(), *value)));
        Ok(log.scalars(step, positions, &scalars)?)
    }

    /// Reports the number of skipped records if it has grown.
    fn report_skips(&mut self, watch: &mut dyn FnMut(TransformerEvent<'_>)) {
        let skipped = self.loader.skipped();
        let count = skipped.count();
        if count > self.skips_reported {
            watch(TransformerEvent::Skipped { count, examples: &skipped.examples() });
            self.skips_reported = count;
        }
    }

    /// Evaluates the network on the validation data, writes a checkpoint and redraws the plots.
    fn validate(&mut self, watch: &mut dyn FnMut(TransformerEvent<'_>)) -> Result<(), RunError> {
        let mut is_best = false;
        if let Some(metrics) = self.evaluate()? {
            let Some(loss) = metrics.overall().loss(&self.recipe.targets.weights) else {
                return Err(RunError::NoValidationTargets);
            };
            if !loss.is_finite() {
                return Err(RunError::NonFiniteValidationLoss { step: self.step, loss });
            }
            is_best = self.progress.record_validation(loss, self.step);
            let (step, positions) = (self.step, self.positions());
            if let Some((log, _)) = &mut self.writes {
                let phases = Phase::ALL.map(|phase| format!("validation/{}", phase.name()));
                let tags = std::iter::once("validation").chain(phases.iter().map(String::as_str));
                let groups = std::iter::once(metrics.overall()).chain(metrics.phases());
                let values: Vec<(String, f64)> = tags
                    .zip(groups)
                    .flat_map(|(tag, group)| {
                        Metric::all().filter_map(move |metric| {
                            Some((format!("{tag}/{}", metric.name()), group.get(metric)?))
                        })
                    })
                    .collect();
                let mut scalars = vec![("validation/loss", loss)];
                scalars.extend(values.iter().map(|(name, value)| (name.as_str(), *value)));
                log.scalars(step, positions, &scalars)?;
            }
            watch(TransformerEvent::Validated { step, metrics: &metrics, loss, is_best });
            // With patience the result is the best network, so its metrics are kept.
            if is_best || self.recipe.training.patience == 0 {
                self.metrics = Some(metrics);
            }
        }
        let checkpoint = self.checkpoint()?;
        if let Some((log, _)) = &mut self.writes {
            self.checkpoints.save(&checkpoint, is_best)?;
            log.draw()?;
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<Checkpoint<TransformerRecipe>, RunError> {
        Ok(Checkpoint {
            recipe: self.recipe.clone(),
            architecture: Some(self.start.architecture().clone()),
            state: self.trainer.state()?,
            progress: self.progress.clone(),
        })
    }

    /// Metrics on the validation data of all processes; `None` if there is none.
    fn evaluate(&mut self) -> Result<Option<TransformerMetrics>, RunError> {
        let mut metrics = TransformerMetrics::default();
        for samples in &self.validation {
            let outputs = self.trainer.predict(samples, true)?;
            metrics.add(samples, &self.shape, &self.recipe.targets, &head_outputs(&outputs));
        }
        let mut sums = metrics.sums();
        self.trainer.all_reduce_sum(&mut sums)?;
        let known = sums.iter().any(|&sum| sum != 0.0);
        Ok(TransformerMetrics::from_sums(&sums).filter(|_| known))
    }
}

/// Converts outputs from a map by head names to a struct with a field for each head; heads that the network
/// lacks are empty.
pub fn head_outputs(outputs: &OutputsByHead) -> HeadOutputs<'_> {
    let of_head = |name: &str| outputs.get(name).map_or(&[][..], Vec::as_slice);
    let value = |name: &str| ValueHeadOutputs {
        wdl: of_head(&format!("{name}.wdl")),
        error: of_head(&format!("{name}.error")),
        buckets: of_head(&format!("{name}.buckets")),
    };
    HeadOutputs {
        action_value: of_head("action_value"),
        state_value: of_head("state_value"),
        policy: of_head("policy"),
        soft_policy: of_head("soft_policy"),
        optimistic_policy: of_head("optimistic_policy"),
        opponent_policy: of_head("opponent_policy"),
        value: value("value"),
        search_value: value("search_value"),
        short_term: value("short_term"),
        moves_left: of_head("moves_left"),
        move_value: of_head("move_value"),
    }
}

/// The network file that the recipe names, or random weights.
fn first_weights(recipe: &TransformerRecipe) -> Result<Weights, RunError> {
    let architecture = recipe.network.architecture()?;
    let Some(path) = &recipe.network.init_from else { return Ok(Weights::random(architecture, recipe.seed)) };
    recipe.network.read_initial_network()?;
    Weights::load(path, Some(&architecture))
        .map_err(|error| RecipeError::Invalid { key: "network.init_from", problem: error.to_string() }.into())
}
