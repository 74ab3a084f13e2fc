//! An NNUE as a task of the training loop.

use crate::batch::Batch;
use crate::checkpoint::{Checkpoint, Checkpoints};
use crate::loader::load_validation;
use crate::log::RunLog;
use crate::loss::sigmoid;
use crate::metric::Metric;
use crate::metrics::{LabelledPrediction, Metrics, Phase};
use crate::pool::{DataCursor, Loader};
use crate::recipe::{Averaging, Recipe, RecipeError};
use crate::run::{Event, RunError, RunOptions, RunOutcome, RunPlan, Task, run_task};
use crate::saturation::saturation;
use crate::state::State;
use crate::trainer::{Job, NnueTrainer, TrainError};
use std::fmt::Write as _;
use tandem_data::Record;
use tandem_nnue::FloatNetwork;

/// Validation positions on which saturation is measured; a few hundred give stable fractions.
const SATURATION_POSITIONS: usize = 512;

/// Creates a trainer for a job, starting from a state.
pub type MakeTrainer = dyn Fn(&Job, State) -> Result<Box<NnueTrainer>, TrainError>;

/// Trains an NNUE by a recipe. `trainer` creates the trainer from a state; `watch` is called with every event.
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
) -> Result<RunOutcome<FloatNetwork>, RunError> {
    let task = Nnue { recipe, job: Job::of(recipe)?, make_trainer: trainer, validation: Vec::new() };
    run_task(task, options, watch)
}

struct Nnue<'a> {
    recipe: &'a Recipe,
    job: Job,
    make_trainer: &'a MakeTrainer,
    validation: Vec<(Batch, Vec<Record>)>,
}

impl Task for Nnue<'_> {
    type Recipe = Recipe;
    type Batch = Batch;
    type Trainer = NnueTrainer;
    type Network = FloatNetwork;

    const DESCRIBE_BATCH: Option<fn(&Batch) -> String> = Some(|batch| {
        let mut text = "fen,score,win_probability\n".to_owned();
        for (position, target) in batch.positions.iter().zip(&batch.targets) {
            let fen = position.board().map_or_else(|error| error.to_string(), |board| board.to_string());
            let _ = writeln!(text, "{fen},{},{}", target.score, target.win_probability);
        }
        text
    });

    fn recipe(&self) -> &Recipe {
        self.recipe
    }

    fn plan(&self) -> RunPlan {
        RunPlan::of(self.recipe, self.recipe.steps())
    }

    fn difference(&self, checkpoint: &Checkpoint) -> Option<String> {
        let Job { layout, optimiser, .. } = &self.job;
        let fits = checkpoint.state.fits(layout, *optimiser, self.job.is_averaged());
        (!fits).then(|| "its buffers have other sizes".into())
    }

    fn load(
        &mut self,
        threads: usize,
        first_step: u64,
        cursor: Option<DataCursor>,
    ) -> Result<Loader<Batch>, RunError> {
        let loader = Loader::of_positions(self.recipe, threads, first_step, cursor);
        let positions = self.recipe.training.validation_positions;
        self.validation = load_validation(&self.recipe.data.validation, self.recipe, threads, positions)?;
        Ok(loader)
    }

    fn trainer(&self, state: Option<State>) -> Result<Box<NnueTrainer>, RunError> {
        let state = state.map_or_else(|| initial_state(&self.job, self.recipe), Ok)?;
        Ok((self.make_trainer)(&self.job, state)?)
    }

    fn step_scalars(&self, step: u64) -> Vec<(String, f64)> {
        let wdl = self.recipe.target.wdl.at(step.saturating_sub(1), self.recipe.steps());
        vec![("wdl".into(), wdl)]
    }

    fn evaluate(&self, trainer: &mut NnueTrainer) -> Result<Option<Metrics>, RunError> {
        let mut metrics = Metrics::default();
        for (batch, records) in &self.validation {
            let outputs = trainer.predict(batch, true)?;
            for ((&output, record), &target) in outputs.iter().zip(records).zip(&batch.targets) {
                let output = f64::from(output);
                metrics.add(&LabelledPrediction {
                    centipawns: output * self.recipe.target.scale,
                    win_probability: sigmoid(output),
                    score: record.score.map(|score| f64::from(score.centipawns())),
                    loss: Some(self.job.loss.value_and_grad(output, target).0),
                    result: record.result,
                    pieces: record.position.piece_count(),
                    phase: Phase::of(&record.position),
                });
            }
        }
        Ok(Some(metrics).filter(|_| !self.validation.is_empty()))
    }

    fn loss(&self, metrics: &Metrics) -> Option<f64> {
        metrics.overall().get(Metric::TargetLoss)
    }

    /// Logs histograms of the weights, and the saturation of the activations.
    fn log_state(&self, log: &mut RunLog, state: &State) -> Result<(), RunError> {
        for tensor in self.job.layout.tensors() {
            // The first stack represents all of them, to keep the log small.
            if !tensor.name.starts_with("stack.") || tensor.name.starts_with("stack.0.") {
                let tag = format!("weights/{}", tensor.name);
                log.histogram(state.step, &tag, &state.parameters[tensor.span()])?;
            }
        }
        let first = self.validation.first();
        let probed = first.map(|(batch, _)| &batch.positions[..batch.len().min(SATURATION_POSITIONS)]);
        let found = saturation(&self.job.layout, &state.parameters, probed.unwrap_or_default());
        let scalars: Vec<(String, f64)> = found
            .iter()
            .flat_map(|found| {
                let name = |edge: &str| format!("saturation/{}/{edge}", found.layer);
                [(name("low"), found.low), (name("high"), found.high)]
            })
            .collect();
        Ok(log.scalars(state.step, self.positions(state.step), &scalars)?)
    }

    fn mean_of_checkpoints(&self, checkpoints: &Checkpoints) -> Result<Option<State>, RunError> {
        let Averaging::Checkpoints { count } = self.recipe.training.averaging() else { return Ok(None) };
        let all = checkpoints.list();
        let last = &all[all.len().saturating_sub(count)..];
        let mut sums = vec![0f32; self.job.layout.num_parameters()];
        for (_, path) in last {
            let parameters = Checkpoint::<Recipe>::load(path)?.state.parameters;
            sums.iter_mut().zip(parameters).for_each(|(sum, number)| *sum += number);
        }
        sums.iter_mut().for_each(|sum| *sum /= last.len().max(1) as f32);
        Ok(Some(State::new(sums, self.job.optimiser, false)))
    }

    fn network(&self, trainer: &mut NnueTrainer) -> Result<FloatNetwork, RunError> {
        Ok(self.job.network(&trainer.state()?.averaged(), &self.recipe.name))
    }
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
    use crate::metric::Metric;
    use crate::trainer::{StepMetrics, Trainer};
    use std::cell::RefCell;
    use std::path::PathBuf;
    use std::rc::Rc;
    use std::sync::atomic::AtomicBool;

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

        fn run(&self, recipe: &Recipe, trainer: &MakeTrainer) -> Result<RunOutcome<FloatNetwork>, RunError> {
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
        let loss = outcome.metrics.unwrap().overall().get(Metric::TargetLoss).unwrap();
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
