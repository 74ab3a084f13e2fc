//! A run from a recipe to a network: steps, looks at the validation data, checkpoints, a log.

mod folder;

pub(crate) use folder::{OTHER_RECIPE, claim, keep_recipe, to_go_on_from};

use crate::batch::Batch;
use crate::checkpoint::{Checkpoint, CheckpointError, Checkpoints, Kept, Standing};
use crate::loader::{Loader, load_some};
use crate::log::{LogError, RunLog};
use crate::loss::sigmoid;
use crate::metrics::{Judgement, Metrics, Phase};
use crate::pace::Pace;
use crate::pool::LoadDataError;
use crate::recipe::{Averaging, Recipe, RecipeError};
use crate::saturation::saturation;
use crate::state::State;
use crate::trainer::{Job, Told, TrainError, Trainer};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tandem_chess::output;
use tandem_data::Record;
use tandem_nnue::{FloatNetwork, NetworkError};
use thiserror::Error;

/// A run that cannot begin or go on.
#[derive(Debug, Error)]
pub enum RunError {
    /// The recipe cannot be followed.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The data cannot be used.
    #[error(transparent)]
    Data(#[from] LoadDataError),
    /// The trainer has failed.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A checkpoint cannot be written or read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The log cannot be written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The network to begin with cannot be read.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The folder is not as it should be.
    #[error("{}: {problem}", path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A loss is no number.
    #[error(
        "the loss of step {step} is {loss}: the learning rate may be too high, or a number of the network too great; its batch \
         is in {}", batch.display()
    )]
    NotANumber {
        /// The step.
        step: u64,
        /// What it said.
        loss: f32,
        /// Where the positions of that step are.
        batch: PathBuf,
    },
    /// A transformer's loss is no number.
    #[error(
        "the loss of step {step} is {loss}: the learning rate may be too high, or `training.clip` too high or zero"
    )]
    Diverged {
        /// The step.
        step: u64,
        /// What it said.
        loss: f32,
    },
    /// A network that should stay as it is did not.
    #[error("the network under the bridge has changed, which must not be: please report this")]
    Changed,
    /// No head that counts has a target in the validation data.
    #[error(
        "the validation data has no target for any head that counts: choose data with what they learn (moves, results, scores), or \
         give weights to heads that it has targets for"
    )]
    NothingToJudge,
    /// The validation loss is no number.
    #[error("the validation loss after step {step} is {loss}: the learning rate may be too high")]
    Validation {
        /// The step.
        step: u64,
        /// What it is.
        loss: f64,
    },
}

/// How a run is made.
pub struct RunOptions<'a> {
    /// Where everything of it is kept.
    pub folder: &'a Path,
    /// It goes on from the newest checkpoint.
    pub resume: bool,
    /// Threads that load data.
    pub threads: usize,
    /// It ends after the step at hand when this becomes true.
    pub stop: &'a AtomicBool,
}

/// What happens in a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// It begins, or goes on, at a step of so many.
    Begin {
        /// Steps that are done.
        step: u64,
        /// Steps of the whole run.
        steps: u64,
    },
    /// Some steps are done.
    Steps {
        /// All that are done.
        step: u64,
        /// The mean loss of the last few.
        loss: f64,
        /// The learning rate.
        rate: f64,
        /// Positions a second, since the last look.
        speed: f64,
        /// The share of the time in which the trainer waited for data, since the last look.
        waiting: f64,
    },
    /// A look at the validation data.
    Validated {
        /// Steps that are done.
        step: u64,
        /// What it showed.
        metrics: &'a Metrics,
        /// It is the best so far.
        is_best: bool,
    },
}

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// The network.
    pub network: FloatNetwork,
    /// The job it was trained by.
    pub job: Job,
    /// Steps that were made.
    pub steps: u64,
    /// Whether it came to its end; else it was stopped and can go on.
    pub finished: bool,
    /// The last look at the validation data.
    pub metrics: Option<Metrics>,
}

/// Steps between two looks at the losses, which a trainer on another machine must be waited for.
const LOOK: usize = 64;

/// Positions that saturation is told from.
const PROBED: usize = 512;

/// Makes a trainer for a job that begins with a state.
pub type MakeTrainer = dyn Fn(&Job, State) -> Result<Box<dyn Trainer>, TrainError>;

/// Makes a run. `trainer` begins with a state; `watch` is told what happens.
pub fn run(
    recipe: &Recipe,
    options: &RunOptions<'_>,
    trainer: &MakeTrainer,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome, RunError> {
    let _lock = claim(options.folder)?;
    let mut run = Run::begin(recipe, options, trainer)?;
    let finished = run.steps(options, watch)?;
    let numbers = run.numbers(finished)?;
    let network = run.job.network(&numbers, &recipe.name);
    let metrics = match finished && !run.validation.is_empty() {
        // What is told of the network is of the one that is handed out, whichever that is.
        true => {
            // A card may have no room for two.
            drop(run.trainer);
            let mut last = trainer(&run.job, State::new(numbers, run.job.optimiser, false))?;
            Some(measure(last.as_mut(), recipe, &run.job, &run.validation)?)
        }
        false => None,
    };
    Ok(Outcome { network, steps: run.step, job: run.job, finished, metrics })
}

struct Run<'a> {
    recipe: &'a Recipe,
    job: Job,
    trainer: Box<dyn Trainer>,
    loader: Loader,
    validation: Vec<(Batch, Vec<Record>)>,
    checkpoints: Checkpoints,
    log: RunLog,
    standing: Standing,
    step: u64,
    /// The batches of the steps whose losses are not known yet.
    recent: VecDeque<Batch>,
    folder: PathBuf,
}

impl<'a> Run<'a> {
    fn begin(recipe: &'a Recipe, options: &RunOptions<'_>, trainer: &MakeTrainer) -> Result<Self, RunError> {
        let job = Job::of(recipe)?;
        let folder = options.folder;
        let wrong = |problem: &str| RunError::Folder { path: folder.into(), problem: problem.into() };
        let checkpoints = Checkpoints::new(folder, recipe.training.keep);
        let (state, standing) = match to_go_on_from::<Checkpoint>(folder, &checkpoints, options.resume)? {
            None => (first_state(&job, recipe)?, Standing::default()),
            Some(found) => {
                if found.recipe != *recipe {
                    return Err(wrong(OTHER_RECIPE));
                }
                if !found.state.fits(&job.layout, job.optimiser, job.is_averaged()) {
                    return Err(wrong("its newest checkpoint is of another network"));
                }
                (found.state, found.standing)
            }
        };
        let step = state.step;
        keep_recipe(folder, &recipe.explain())?;
        let cursor = (step > 0).then(|| standing.cursor.clone());
        let loader = Loader::new(recipe, options.threads, step, cursor);
        let positions = recipe.training.validation_positions;
        let validation = load_some(&recipe.data.validation, recipe, options.threads, positions)?;
        // What a run left behind that came to no checkpoint is nothing to keep.
        let log = RunLog::resume(folder, step)?;
        Ok(Self {
            trainer: trainer(&job, state)?,
            recipe,
            job,
            loader,
            validation,
            checkpoints,
            log,
            standing,
            step,
            recent: VecDeque::new(),
            folder: folder.into(),
        })
    }

    /// Makes steps to the end, or until told to stop. Returns whether it came to the end.
    fn steps(
        &mut self,
        options: &RunOptions<'_>,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<bool, RunError> {
        let training = &self.recipe.training;
        let steps = self.recipe.steps();
        let pause = training.validate_every.div_ceil(training.batch as u64);
        watch(Event::Begin { step: self.step, steps });
        let mut pace = Pace::new(self.step, self.loader.waited());
        while self.step < steps && !self.standing.is_stale(training.patience) {
            let loaded = self.loader.next_batch()?;
            let rate = self.recipe.rate.at(self.step, steps);
            self.trainer.learn(&loaded.batch, rate)?;
            if self.standing.cursor != *loaded.cursor {
                self.standing.cursor = Arc::unwrap_or_clone(loaded.cursor);
            }
            self.recent.push_back(loaded.batch);
            self.step += 1;
            let stopped = options.stop.load(Ordering::Relaxed);
            let validates = self.step.is_multiple_of(pause) || self.step == steps;
            if self.recent.len() == LOOK || validates || stopped {
                let told = self.look()?;
                let (speed, waiting) = pace.tell(self.step, self.loader.waited(), training.batch);
                let loss =
                    told.iter().map(|told| f64::from(told.loss)).sum::<f64>() / told.len().max(1) as f64;
                watch(Event::Steps { step: self.step, loss, rate, speed, waiting });
                self.tell(&told, loss, rate, speed, waiting)?;
                pace = Pace::new(self.step, self.loader.waited());
            }
            if validates {
                self.validate(watch)?;
                pace = Pace::new(self.step, self.loader.waited());
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

    /// Waits for the steps under way, and stops if one of them said no number.
    fn look(&mut self) -> Result<Vec<Told>, RunError> {
        let told = self.trainer.told()?;
        let first = self.step - told.len() as u64;
        if let Some(at) = told.iter().position(|told| !(told.loss.is_finite() && told.slope.is_finite())) {
            let step = first + at as u64 + 1;
            let path = self.folder.join(format!("bad-batch-{step:09}.csv"));
            let mut text = "fen,score,chance\n".to_owned();
            let batch = &self.recent[at];
            for (position, target) in batch.positions.iter().zip(&batch.targets) {
                let fen = position.board().map_or_else(|error| error.to_string(), |board| board.to_string());
                let _ = writeln!(text, "{fen},{},{}", target.score, target.chance);
            }
            output::write_whole(&path, text.as_bytes())
                .map_err(|error| RunError::Folder { path: path.clone(), problem: error.to_string() })?;
            return Err(RunError::NotANumber { step, loss: told[at].loss, batch: path });
        }
        self.recent.drain(..).for_each(|batch| self.loader.recycle(batch));
        Ok(told)
    }

    fn positions(&self) -> u64 {
        self.step * self.recipe.training.batch as u64
    }

    fn tell(
        &mut self,
        told: &[Told],
        loss: f64,
        rate: f64,
        speed: f64,
        waiting: f64,
    ) -> Result<(), RunError> {
        let slope = told.iter().map(|told| f64::from(told.slope)).fold(0.0, f64::max);
        let share = self.recipe.target.result_share.at(self.step.saturating_sub(1), self.recipe.steps());
        let scalars = [
            ("train/loss", loss),
            ("train/slope", slope),
            ("rate", rate),
            ("train/result_share", share),
            ("speed/positions", speed),
            ("speed/waiting", waiting),
        ];
        Ok(self.log.scalars(self.step, self.positions(), &scalars)?)
    }

    /// Looks at the validation data, writes a checkpoint, and draws the curves.
    fn validate(&mut self, watch: &mut dyn FnMut(Event<'_>)) -> Result<(), RunError> {
        let mut is_best = false;
        if !self.validation.is_empty() {
            let metrics = measure(self.trainer.as_mut(), self.recipe, &self.job, &self.validation)?;
            let whole = metrics.whole();
            let loss = whole.loss().unwrap_or(f64::NAN);
            if !loss.is_finite() {
                return Err(RunError::Validation { step: self.step, loss });
            }
            is_best = self.standing.look(loss, self.step);
            let mut scalars = vec![("validation/loss", loss)];
            let figures = [
                ("validation/mae", whole.mae()),
                ("validation/sign_accuracy", whole.sign_accuracy()),
                ("validation/wdl_accuracy", whole.wdl_accuracy()),
                ("validation/correlation", whole.correlation()),
            ];
            scalars.extend(figures.into_iter().filter_map(|(name, value)| Some((name, value?))));
            self.log.scalars(self.step, self.positions(), &scalars)?;
            watch(Event::Validated { step: self.step, metrics: &metrics, is_best });
        }
        let checkpoint = self.checkpoint()?;
        self.checkpoints.save(&checkpoint, is_best)?;
        self.tell_numbers(&checkpoint.state)?;
        self.log.draw()?;
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<Checkpoint, RunError> {
        let state = self.trainer.state()?;
        Ok(Checkpoint { recipe: self.recipe.clone(), state, standing: self.standing.clone() })
    }

    /// Histograms of the numbers, and how many values are held at their edges.
    fn tell_numbers(&mut self, state: &State) -> Result<(), RunError> {
        for tensor in self.job.layout.tensors() {
            // A stack tells enough of all stacks.
            if !tensor.name.starts_with("stack.") || tensor.name.starts_with("stack.0.") {
                let tag = format!("weights/{}", tensor.name);
                self.log.histogram(self.step, &tag, &state.numbers[tensor.place()])?;
            }
        }
        let probed = self.validation.first().map(|(batch, _)| &batch.positions[..batch.len().min(PROBED)]);
        let found = saturation(&self.job.layout, &state.numbers, probed.unwrap_or_default());
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

    /// The numbers of the network that comes of the run.
    fn numbers(&mut self, finished: bool) -> Result<Vec<f32>, RunError> {
        let training = &self.recipe.training;
        if let Averaging::Last { checkpoints } = training.average
            && finished
        {
            return self.mean_of_last(checkpoints);
        }
        let keeps_best = training.patience > 0 && self.standing.best.is_some();
        let state = match keeps_best {
            true => Checkpoint::load(&self.checkpoints.best())?.state,
            false => self.trainer.state()?,
        };
        Ok(if state.average.is_empty() { state.numbers } else { state.average })
    }

    fn mean_of_last(&self, count: usize) -> Result<Vec<f32>, RunError> {
        let all = self.checkpoints.list();
        let last = &all[all.len().saturating_sub(count)..];
        let mut sums = vec![0f32; self.job.layout.numbers()];
        for (_, path) in last {
            let numbers = Checkpoint::load(path)?.state.numbers;
            sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        }
        sums.iter_mut().for_each(|sum| *sum /= last.len().max(1) as f32);
        Ok(sums)
    }
}

/// How a network does on the validation data.
fn measure(
    trainer: &mut dyn Trainer,
    recipe: &Recipe,
    job: &Job,
    validation: &[(Batch, Vec<Record>)],
) -> Result<Metrics, RunError> {
    let mut metrics = Metrics::default();
    for (batch, records) in validation {
        let outputs = trainer.outputs(batch, true)?;
        for ((&output, record), &target) in outputs.iter().zip(records).zip(&batch.targets) {
            let output = f64::from(output);
            metrics.add(&Judgement {
                centipawns: output * recipe.target.scale,
                chance: sigmoid(output),
                score: record.score.map(|score| f64::from(score.centipawns())),
                loss: Some(job.loss.of(output, target).0),
                result: record.result,
                pieces: record.position.piece_count(),
                phase: Phase::of(&record.position),
            });
        }
    }
    Ok(metrics)
}

/// Chance, or a network that is there already.
fn first_state(job: &Job, recipe: &Recipe) -> Result<State, RunError> {
    let Some(path) = &recipe.network.start else { return Ok(job.start(recipe.seed)) };
    let network = FloatNetwork::load(path)?;
    if network.architecture != *job.layout.architecture() {
        let problem =
            format!("{path} is {}, the recipe asks for {}", network.architecture, job.layout.architecture());
        return Err(RecipeError::Wrong { key: "network.start", problem }.into());
    }
    // Its outputs would mean other centipawns from the first step on.
    if (network.scale, network.pawn) != (job.scale, job.pawn) {
        let problem = format!(
            "{path} says {} for an output of one and {} for a pawn, the recipe's network {} and {}",
            network.scale, network.pawn, job.scale, job.pawn
        );
        return Err(RecipeError::Wrong { key: "network.start", problem }.into());
    }
    Ok(State::new(job.layout.numbers_of(&network), job.optimiser, job.is_averaged()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Learns nothing: all its numbers are the steps that were made, and what it says is wrong by how far they are from the
    /// thirtieth.
    struct Counter {
        state: State,
        untold: usize,
    }

    impl Trainer for Counter {
        fn learn(&mut self, _: &Batch, _: f64) -> Result<(), TrainError> {
            self.state.step += 1;
            self.state.numbers.fill(self.state.step as f32);
            self.untold += 1;
            Ok(())
        }

        fn told(&mut self) -> Result<Vec<Told>, TrainError> {
            Ok(vec![Told::default(); std::mem::take(&mut self.untold)])
        }

        fn outputs(&mut self, batch: &Batch, _: bool) -> Result<Vec<f32>, TrainError> {
            Ok(vec![(self.state.numbers[0] - 30.0).abs() / 10.0; batch.len()])
        }

        fn state(&mut self) -> Result<State, TrainError> {
            Ok(self.state.clone())
        }
    }

    fn count(_: &Job, state: State) -> Result<Box<dyn Trainer>, TrainError> {
        Ok(Box::new(Counter { state, untold: 0 }))
    }

    /// A folder with drawn games, gone when the test is.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tandem-run-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            let rows = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1,1/2-1/2\n".repeat(50);
            std::fs::write(path.join("draws.csv"), format!("fen,result\n{rows}")).unwrap();
            Self(path)
        }

        /// A hundred steps, with a look after every tenth.
        fn recipe(&self, network: &str, training: &str) -> Recipe {
            let data = self.0.join("draws.csv");
            let text = format!(
                "name = \"x\"\n[data]\nshuffle_buffer = 50\ntrain = [{{ path = {data:?} }}]\n\
                 validation = [{{ path = {data:?} }}]\n[network]\nfeatures = \"768\"\n{network}\n[target]\n\
                 result_share = 1.0\n[training]\nbatch = 10\npositions = 1000\nvalidate_every = 100\n{training}\n"
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
    fn patience_ends_a_run_and_the_best_network_comes_of_it() {
        let folder = Folder::new("patience");
        let outcome = folder.run(&folder.recipe("accumulator = 32", "patience = 2"), &count).unwrap();
        assert!(outcome.finished);
        assert_eq!((outcome.steps, outcome.network.bias[0]), (50, 30.0));
        let loss = outcome.metrics.unwrap().whole().loss().unwrap();
        assert!(loss < 1e-12, "what is told is of that network: {loss}");
    }

    #[test]
    fn the_mean_of_the_last_checkpoints_comes_of_a_run() {
        let folder = Folder::new("mean");
        let training = "average = { kind = \"last\", checkpoints = 3 }\nkeep = 4";
        let outcome = folder.run(&folder.recipe("accumulator = 32", training), &count).unwrap();
        assert_eq!((outcome.steps, outcome.network.bias[0]), (100, 90.0));
    }

    #[test]
    fn a_run_begins_with_the_network_that_it_is_given() {
        let folder = Folder::new("start");
        let path = folder.0.join("start.safetensors");
        let recipe = |network: &str| folder.recipe(&format!("{network}\nstart = {path:?}"), "");
        let job = Job::of(&recipe("accumulator = 32")).unwrap();
        let network = job.network(&job.layout.start(5), "start");
        std::fs::write(&path, network.to_safetensors().unwrap()).unwrap();
        let begun = Rc::new(RefCell::new(None));
        let seen = Rc::clone(&begun);
        let trainer = move |job: &Job, state: State| {
            *seen.borrow_mut() = Some(job.network(&state.numbers, "start"));
            Err(TrainError("enough".into()))
        };
        let told = |network: &str| folder.run(&recipe(network), &trainer).unwrap_err().to_string();
        assert_eq!(told("accumulator = 32"), "enough");
        assert_eq!(begun.take(), Some(network));
        // One of another shape, or whose outputs mean other centipawns, is no beginning.
        for other in ["accumulator = 64", "accumulator = 32\nscale = 300"] {
            let error = told(other);
            assert!(error.contains("network.start"), "{error}");
            assert_eq!(begun.take(), None);
        }
    }
}
