//! A transformer's run from a recipe to a network: steps, looks at the validation data, checkpoints, a log.
//!
//! Several processes make a run together: each learns from its share of every batch, and the first of them alone writes.

use super::checkpoint::TransformerCheckpoint;
use super::{
    Answers, Figure, Head, Join, Judged, Reading, SampleLoader, SampleShape, Samples, Share, Start, StepTold,
    TransformerMetrics, TransformerRecipe, TransformerState, TransformerTrainer, ValueAnswers, blind,
    load_samples,
};
use crate::checkpoint::{Checkpoints, Kept, Standing};
use crate::log::RunLog;
use crate::metrics::Phase;
use crate::pace::Pace;
use crate::recipe::RecipeError;
use crate::run::{OTHER_RECIPE, RunError, claim, keep_recipe, to_go_on_from};
use crate::trainer::TrainError;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tandem_hybrid::Hybrid;
use tandem_transformer::Weights;

/// How a transformer's run is made.
pub struct TransformerOptions<'a> {
    /// Where everything of it is kept.
    pub folder: &'a Path,
    /// It goes on from the newest checkpoint.
    pub resume: bool,
    /// Threads that load data.
    pub threads: usize,
    /// Which process this is, of how many.
    pub share: Share,
    /// It ends after the steps at hand when this becomes true in any process.
    pub stop: &'a AtomicBool,
}

/// What happens in a transformer's run.
#[derive(Debug)]
pub enum TransformerEvent<'a> {
    /// It begins, or goes on, at a step of so many.
    Begin {
        /// Steps that are done.
        step: u64,
        /// Steps of the whole run.
        steps: u64,
        /// What heads would lose on the validation data that say the same of every position: the labels' entropy.
        blind: &'a [(Head, f64)],
    },
    /// Some steps are done.
    Steps {
        /// All that are done.
        step: u64,
        /// What the last few said, on average.
        told: &'a StepTold,
        /// The learning rate.
        rate: f64,
        /// Positions a second of all processes together, since the last look.
        speed: f64,
        /// The share of the time in which the trainer waited for data, since the last look.
        waiting: f64,
    },
    /// More broken records were left out than when it was told last.
    Skipped {
        /// All of the first reading, so far.
        count: u64,
        /// Why, for the first few, with their places.
        examples: &'a [String],
    },
    /// A look at the validation data.
    Validated {
        /// Steps that are done.
        step: u64,
        /// What it showed.
        metrics: &'a TransformerMetrics,
        /// The weighted sum of its losses.
        loss: f64,
        /// It is the best so far.
        is_best: bool,
    },
}

/// How a transformer's run ended.
#[derive(Debug)]
pub struct TransformerOutcome {
    /// The network.
    pub weights: Weights,
    /// What was learnt between it and an NNUE, where that was asked for.
    pub hybrid: Option<Hybrid>,
    /// Steps that were made.
    pub steps: u64,
    /// The steps after which it was best, where that network was kept.
    pub best: Option<u64>,
    /// Whether it came to its end; else it was stopped and can go on.
    pub finished: bool,
    /// The look at the validation data that is of this network: the best one's with `training.patience`, else the last.
    pub metrics: Option<TransformerMetrics>,
}

/// Steps between two looks at what they said, which a card must be waited for.
const LOOK: u64 = 32;

/// Makes a trainer that begins with a network, or goes on from a state.
pub type MakeTransformerTrainer<'a> = dyn Fn(
        &TransformerRecipe,
        Start<'_>,
        Option<&TransformerState>,
    ) -> Result<Box<dyn TransformerTrainer>, TrainError>
    + 'a;

/// Makes a run. `watch` is told what happens.
pub fn run_transformer(
    recipe: &TransformerRecipe,
    options: &TransformerOptions<'_>,
    trainer: &MakeTransformerTrainer<'_>,
    watch: &mut dyn FnMut(TransformerEvent<'_>),
) -> Result<TransformerOutcome, RunError> {
    let mut run = Run::begin(recipe, options, trainer)?;
    let finished = run.steps(options, watch)?;
    let is_first = options.share.rank == 0;
    let best = run.standing.best.filter(|_| finished && recipe.training.patience > 0).map(|(_, step)| step);
    if is_first && best.is_some() {
        // What was learnt after the best look made it worse. The others' networks are not asked for.
        let kept = TransformerCheckpoint::load(&run.checkpoints.best())?;
        let start = Start { weights: &run.start, join: run.join.as_ref() };
        // A card may have no room for two.
        drop(run.trainer);
        run.trainer = trainer(recipe, start, Some(&kept.state))?;
    }
    let weights = run.trainer.weights()?;
    let bridge = run.trainer.bridge()?;
    let hybrid = run.join.zip(bridge).map(|(join, bridge)| join.hybrid(bridge, &recipe.name));
    if hybrid.is_some() && weights != run.start {
        return Err(RunError::Changed);
    }
    Ok(TransformerOutcome { weights, hybrid, steps: run.step, best, finished, metrics: run.metrics })
}

struct Run<'a> {
    recipe: &'a TransformerRecipe,
    /// The network before the first step.
    start: Weights,
    /// What it is joined to.
    join: Option<Join>,
    trainer: Box<dyn TransformerTrainer>,
    loader: SampleLoader,
    validation: Vec<Samples>,
    shape: SampleShape,
    checkpoints: Checkpoints,
    standing: Standing,
    step: u64,
    metrics: Option<TransformerMetrics>,
    /// What the first process alone has: the log, and the folder for itself.
    writes: Option<(RunLog, File)>,
    /// Broken records of which the user was told.
    skips_told: u64,
}

impl<'a> Run<'a> {
    fn begin(
        recipe: &'a TransformerRecipe,
        options: &TransformerOptions<'_>,
        trainer: &MakeTransformerTrainer<'_>,
    ) -> Result<Self, RunError> {
        let folder = options.folder;
        let is_first = options.share.rank == 0;
        let wrong = |problem: String| RunError::Folder { path: folder.into(), problem };
        let parts = options.share.ranks * recipe.training.accumulate.max(1);
        if !recipe.training.batch.is_multiple_of(parts) {
            let problem = format!(
                "{} positions cannot be shared out equally among {} processes, each in {} parts",
                recipe.training.batch, options.share.ranks, recipe.training.accumulate
            );
            return Err(RecipeError::Wrong { key: "training.batch", problem }.into());
        }
        let lock = if is_first { Some(claim(folder)?) } else { None };
        let start = first_weights(recipe)?;
        let checkpoints = Checkpoints::new(folder, recipe.training.keep);
        let newest: Option<TransformerCheckpoint> = to_go_on_from(folder, &checkpoints, options.resume)?;
        let (state, mut standing) = match newest {
            None => (None, Standing::default()),
            Some(found) => {
                if let Some(difference) = found.difference(start.architecture()) {
                    return Err(wrong(format!("its newest checkpoint is of another network: {difference}")));
                }
                if found.recipe != *recipe {
                    return Err(wrong(OTHER_RECIPE.into()));
                }
                (Some(found.state), found.standing)
            }
        };
        let step = state.as_ref().map_or(0, |state| state.step);
        let join = Join::of(recipe, start.architecture())?;
        let bases = join.as_ref().map(Join::bases);
        if state.is_some() && standing.bases != bases {
            return Err(wrong(
                "the networks that its bridge was learnt between are not those that are there now: bring them back, or \
                 name another folder"
                    .into(),
            ));
        }
        standing.bases = bases;
        let learnt = start.architecture().parameters() + join.as_ref().map_or(0, Join::len);
        if let Some(row) =
            state.as_ref().and_then(|state| state.rows.values().find(|row| row.len() != learnt))
        {
            let problem = format!("its newest checkpoint has {} numbers, and {learnt} are learnt", row.len());
            return Err(wrong(problem));
        }
        let reading = Reading::of(start.architecture(), join.as_ref());
        let shape = reading.shape;
        let cursor = (step > 0).then(|| standing.cursor.clone());
        let loader = SampleLoader::new(recipe, reading.clone(), options.share, options.threads, step, cursor);
        let validation = load_samples(recipe, reading, options.share, options.threads, loader.skipped())?;
        let writes = match lock {
            Some(lock) => {
                keep_recipe(folder, &recipe.explain())?;
                Some((RunLog::resume(folder, step)?, lock))
            }
            None => None,
        };
        Ok(Self {
            trainer: trainer(recipe, Start { weights: &start, join: join.as_ref() }, state.as_ref())?,
            recipe,
            start,
            join,
            loader,
            validation,
            shape,
            checkpoints,
            standing,
            step,
            metrics: None,
            skips_told: 0,
            writes,
        })
    }

    /// Makes steps to the end, or until told to stop. Returns whether it came to the end.
    fn steps(
        &mut self,
        options: &TransformerOptions<'_>,
        watch: &mut dyn FnMut(TransformerEvent<'_>),
    ) -> Result<bool, RunError> {
        let training = &self.recipe.training;
        let steps = self.recipe.steps();
        let pause = training.validate_every.div_ceil(training.batch as u64).max(1);
        self.check_step(options.folder)?;
        let blind = self.blind()?;
        watch(TransformerEvent::Begin { step: self.step, steps, blind: &blind });
        let mut pace = Pace::new(self.step, self.loader.waited());
        while self.step < steps && !self.standing.is_stale(training.patience) {
            let loaded = self.loader.next_batch()?;
            let rate = self.recipe.rate.at(self.step, steps);
            self.trainer.learn(&loaded.batch, rate)?;
            if self.standing.cursor != *loaded.cursor {
                self.standing.cursor = Arc::unwrap_or_clone(loaded.cursor);
            }
            self.loader.recycle(loaded.batch);
            self.step += 1;
            if let Some(swa) = training.swa
                && self.step as f64 >= swa.from * steps as f64
                && self.step.is_multiple_of(swa.every.max(1))
            {
                self.trainer.average()?;
            }
            let validates = self.step.is_multiple_of(pause) || self.step == steps;
            if !validates && self.step - pace.step() < LOOK {
                continue;
            }
            let told = self.look(pace.step())?;
            // One process that is to stop stops all.
            let mut stop = [f64::from(u8::from(options.stop.load(Ordering::Relaxed)))];
            self.trainer.add_up(&mut stop)?;
            let stopped = stop[0] > 0.0;
            let (speed, waiting) = pace.tell(self.step, self.loader.waited(), training.batch);
            watch(TransformerEvent::Steps { step: self.step, told: &told, rate, speed, waiting });
            self.tell(&told, rate, speed, waiting)?;
            if validates {
                self.tell_skips(watch);
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
            pace = Pace::new(self.step, self.loader.waited());
        }
        Ok(true)
    }

    /// Whether all processes are at the same step: one that does not see the run's folder would begin anew.
    fn check_step(&mut self, folder: &Path) -> Result<(), RunError> {
        let step = self.step as f64;
        let mut sums = [1.0, step, step * step];
        self.trainer.add_up(&mut sums)?;
        if sums[0] * sums[2] == sums[1] * sums[1] {
            return Ok(());
        }
        let problem = format!(
            "this process would begin at step {}, others at another: all need the run's folder to go on",
            self.step
        );
        Err(RunError::Folder { path: folder.into(), problem })
    }

    /// What the labels alone make of the losses, by the validation data of all processes.
    fn blind(&mut self) -> Result<Vec<(Head, f64)>, RunError> {
        let architecture = self.start.architecture();
        let mut sums = blind::target_sums(architecture, &self.recipe.targets, &self.validation);
        self.trainer.add_up(&mut sums)?;
        let losses = blind::losses(architecture, &sums);
        if let (0, Some((log, _))) = (self.step, &mut self.writes) {
            let names: Vec<String> =
                losses.iter().map(|(head, _)| format!("validation/blind/{}", head.name())).collect();
            let scalars: Vec<(&str, f64)> =
                names.iter().zip(&losses).map(|(name, (_, loss))| (name.as_str(), *loss)).collect();
            log.scalars(0, 0, &scalars)?;
        }
        Ok(losses)
    }

    /// Waits for the steps under way, and stops if one of them said no number.
    fn look(&mut self, looked: u64) -> Result<StepTold, RunError> {
        let told = self.trainer.told()?;
        if let Some(at) = told.iter().position(|told| !(told.loss.is_finite() && told.slope.is_finite())) {
            return Err(RunError::Diverged { step: looked + at as u64 + 1, loss: told[at].loss });
        }
        let count = told.len().max(1) as f32;
        let mut mean = told.last().cloned().unwrap_or_default();
        mean.loss = told.iter().map(|told| told.loss).sum::<f32>() / count;
        mean.slope = told.iter().map(|told| told.slope).fold(0.0, f32::max);
        for (place, (_, part)) in mean.parts.iter_mut().enumerate() {
            *part = told.iter().map(|told| told.parts[place].1).sum::<f32>() / count;
        }
        Ok(mean)
    }

    fn positions(&self) -> u64 {
        self.step * self.recipe.training.batch as u64
    }

    fn tell(&mut self, told: &StepTold, rate: f64, speed: f64, waiting: f64) -> Result<(), RunError> {
        let (step, positions) = (self.step, self.positions());
        let Some((log, _)) = &mut self.writes else { return Ok(()) };
        let names: Vec<String> = told.parts.iter().map(|(name, _)| format!("train/{name}")).collect();
        let mut scalars = vec![
            ("train/loss", f64::from(told.loss)),
            ("train/slope", f64::from(told.slope)),
            ("rate", rate),
            ("speed/positions", speed),
            ("speed/waiting", waiting),
            ("data/skipped", self.loader.skipped().count() as f64),
        ];
        scalars.extend(
            names.iter().zip(&told.parts).map(|(name, (_, value))| (name.as_str(), f64::from(*value))),
        );
        Ok(log.scalars(step, positions, &scalars)?)
    }

    /// Says how many broken records were left out, if there are more than it has said.
    fn tell_skips(&mut self, watch: &mut dyn FnMut(TransformerEvent<'_>)) {
        let skipped = self.loader.skipped();
        let count = skipped.count();
        if count > self.skips_told {
            watch(TransformerEvent::Skipped { count, examples: &skipped.examples() });
            self.skips_told = count;
        }
    }

    /// Looks at the validation data, writes a checkpoint, and draws the curves.
    fn validate(&mut self, watch: &mut dyn FnMut(TransformerEvent<'_>)) -> Result<(), RunError> {
        let mut is_best = false;
        if let Some(metrics) = self.measure()? {
            let Some(loss) = metrics.whole().loss(&self.recipe.targets.weights) else {
                return Err(RunError::NothingToJudge);
            };
            if !loss.is_finite() {
                return Err(RunError::Validation { step: self.step, loss });
            }
            is_best = self.standing.look(loss, self.step);
            let (step, positions) = (self.step, self.positions());
            if let Some((log, _)) = &mut self.writes {
                let phases = Phase::ALL.map(|phase| format!("validation/{}", phase.name()));
                let places = std::iter::once("validation").chain(phases.iter().map(String::as_str));
                let groups = std::iter::once(metrics.whole()).chain(metrics.phases());
                let figures: Vec<(String, f64)> = places
                    .zip(groups)
                    .flat_map(|(place, group)| {
                        Figure::all().filter_map(move |figure| {
                            Some((format!("{place}/{}", figure.name()), group.get(figure)?))
                        })
                    })
                    .collect();
                let mut scalars = vec![("validation/loss", loss)];
                scalars.extend(figures.iter().map(|(name, value)| (name.as_str(), *value)));
                log.scalars(step, positions, &scalars)?;
            }
            watch(TransformerEvent::Validated { step, metrics: &metrics, loss, is_best });
            // With patience it is the best network that is handed out.
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

    fn checkpoint(&mut self) -> Result<TransformerCheckpoint, RunError> {
        Ok(TransformerCheckpoint {
            recipe: self.recipe.clone(),
            architecture: self.start.architecture().clone(),
            state: self.trainer.state()?,
            standing: self.standing.clone(),
        })
    }

    /// How the network does on the validation data of all processes; none where there is no such data.
    fn measure(&mut self) -> Result<Option<TransformerMetrics>, RunError> {
        let mut metrics = TransformerMetrics::default();
        for samples in &self.validation {
            let judged = self.trainer.judge(samples)?;
            metrics.add(samples, &self.shape, &self.recipe.targets, &answers_of(&judged));
        }
        let mut sums = metrics.sums();
        self.trainer.add_up(&mut sums)?;
        let known = sums.iter().any(|&sum| sum != 0.0);
        Ok(TransformerMetrics::from_sums(&sums).filter(|_| known))
    }
}

/// What a network said, head by head.
pub fn answers_of(judged: &Judged) -> Answers<'_> {
    let row = |name: &str| judged.get(name).map_or(&[][..], Vec::as_slice);
    let value = |name: &str| ValueAnswers {
        wdl: row(&format!("{name}.wdl")),
        error: row(&format!("{name}.error")),
        buckets: row(&format!("{name}.buckets")),
    };
    Answers {
        action_value: row("action_value"),
        state_value: row("state_value"),
        policy: row("policy"),
        soft_policy: row("soft_policy"),
        optimistic_policy: row("optimistic_policy"),
        opponent_policy: row("opponent_policy"),
        value: value("value"),
        search_value: value("search_value"),
        short_term: value("short_term"),
        moves_left: row("moves_left"),
        move_value: row("move_value"),
    }
}

/// A network that is there already, or chance.
fn first_weights(recipe: &TransformerRecipe) -> Result<Weights, RunError> {
    let architecture = recipe.network.architecture()?;
    let Some(path) = &recipe.network.start else { return Ok(Weights::random(architecture, recipe.seed)) };
    recipe.network.read_start()?;
    Weights::load(path, Some(&architecture))
        .map_err(|error| RecipeError::Wrong { key: "network.start", problem: error.to_string() }.into())
}
