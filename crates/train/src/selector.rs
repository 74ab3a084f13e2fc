//! Trains a selector, which predicts where the strategist's evaluation is better than the NNUE's.
//!
//! - [`SelectorRecipe`]: a selector's training in one TOML file;
//! - [`Case`]: a position with both evaluations and the value of a deep search;
//! - [`train_selector`]: training on cases, which keeps the best epoch and returns a [`Hybrid`] with its threshold;
//! - [`SelectorReport`]: precision, recall and value error on cases, compared with simple rules;
//! - [`EvaluatorPair`]: both networks, for evaluating records, and for measuring a selector that was trained before.
//!
//! No training framework is needed: 3,457 parameters and some 100,000 cases take a minute on a CPU. Most of the
//! time goes into the evaluation of the cases, which a resumed run repeats.

mod cases;
mod evaluation;
#[cfg(test)]
mod every_key;
mod learner;
mod recipe;

pub use cases::{Case, EvaluatorPair, LabelledCase};
pub use evaluation::{ErrorCurve, FRACTIONS, Rule, SelectorReport};
pub use recipe::{DEFAULT_MARGIN, NetworkPair, SelectorRecipe};

use crate::checkpoint::Checkpoint;
use crate::metric::Metric;
use crate::metrics::{Metrics, WHOLE};
use crate::pool::{DataCursor, Loader};
use crate::recipe::RecipeCore;
use crate::run::{Event, RunError, RunOptions, RunOutcome, RunPlan, Task, run_task};
use crate::state::State;
use learner::Learner;
use std::sync::Arc;
use tandem_hybrid::{Hybrid, Selector, threshold_for};
use tandem_util::random::SplitMix;

/// Result of a selector's training: the contents of a hybrid file, and the selector's metrics on validation
/// data.
#[derive(Clone, Debug)]
pub struct TrainedSelector {
    /// The contents of the hybrid file: the hashes of both networks, the trained selector, its threshold, the
    /// blend and the scale, and the bridge if there was one.
    pub hybrid: Hybrid,
    /// Metrics on the validation positions. The epoch was chosen by their loss, so the metrics are slightly
    /// optimistic; [`EvaluatorPair::evaluate_selector`] measures the selector on other data.
    pub report: SelectorReport,
}

/// Trains a selector as the recipe describes: evaluates the data with both networks, trains all epochs on the
/// CPU and keeps the one with the lowest validation loss. `watch` is called with every event.
///
/// # Errors
/// If the recipe, the networks, the data or the folder cannot be used, if no record can be evaluated, if a loss
/// is not finite, or if the run is stopped before the first step.
pub fn train_selector(
    recipe: &SelectorRecipe,
    options: &RunOptions<'_>,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<RunOutcome<TrainedSelector>, RunError> {
    let evaluators = EvaluatorPair::of(&recipe.selector)?;
    let task = SelectorTask { recipe, evaluators, scale: 0.0, train: Arc::default(), validation: Vec::new() };
    run_task(task, options, watch)
}

struct SelectorTask<'a> {
    recipe: &'a SelectorRecipe,
    evaluators: EvaluatorPair,
    /// Centipawns that an NNUE score is divided by before the sigmoid, fitted to the training cases.
    scale: f64,
    train: Arc<[LabelledCase]>,
    validation: Vec<LabelledCase>,
}

impl SelectorTask<'_> {
    /// Steps of an epoch, the last of which may have fewer cases.
    fn steps_per_epoch(&self) -> u64 {
        self.train.len().div_ceil(self.recipe.training.batch) as u64
    }
}

impl Task for SelectorTask<'_> {
    type Recipe = SelectorRecipe;
    type Batch = Vec<LabelledCase>;
    type Trainer = Learner;
    type Network = TrainedSelector;

    fn recipe(&self) -> &SelectorRecipe {
        self.recipe
    }

    /// Evaluates the data with both networks.
    fn open(&mut self, options: &RunOptions<'_>, watch: &mut dyn FnMut(Event<'_>)) -> Result<(), RunError> {
        let (seed, margin) = (self.recipe.seed, self.recipe.selector.margin);
        let (train, validation) = recipe::load_records(&self.recipe.data, seed, options.threads)?;
        let all = train.len() + validation.len();
        let mut done = 0;
        let mut evaluate = |records: &[_], seed: u64| {
            self.evaluators.cases(records, seed, options.stop, &mut |count| {
                done += count;
                watch(Event::Preparing { done, all });
            })
        };
        let train = evaluate(&train, seed)?;
        let validation = evaluate(&validation, seed ^ 1)?;
        if train.is_empty() || validation.is_empty() {
            return Err(RunError::Cases(
                "there are no cases to train on, or none for validation: `tandem-lab data head` shows what the data has".into(),
            ));
        }
        self.scale = cases::fitted_scale(&train);
        let label = |case| LabelledCase::new(case, self.scale, margin);
        self.train = train.into_iter().map(label).collect();
        self.validation = validation.into_iter().map(label).collect();
        Ok(())
    }

    fn plan(&self) -> RunPlan {
        let epoch = self.steps_per_epoch();
        RunPlan {
            validate_every: epoch,
            log_every: epoch,
            returns_best: true,
            ..RunPlan::of(self.recipe, epoch * self.recipe.training.epochs)
        }
    }

    fn bases(&self) -> Option<[String; 2]> {
        let hybrid = self.evaluators.hybrid();
        Some([hybrid.nnue, hybrid.transformer].map(|file| file.to_string()))
    }

    fn difference(&self, checkpoint: &Checkpoint<SelectorRecipe>) -> Option<String> {
        let expected: usize = Selector::random(0).tensors().iter().map(|(_, _, values)| values.len()).sum();
        let fresh = State::new(vec![0.0; expected], self.recipe.optimiser, false);
        let lengths = |state: &State| state.buffers().map(|(_, buffer)| buffer.len());
        let fits = lengths(&checkpoint.state) == lengths(&fresh);
        (!fits).then(|| format!("a selector has {expected} parameters"))
    }

    fn load(
        &mut self,
        _threads: usize,
        first_step: u64,
        _cursor: Option<DataCursor>,
    ) -> Result<Loader<Vec<LabelledCase>>, RunError> {
        let batches = batches(Arc::clone(&self.train), self.recipe.training.batch, self.recipe.seed);
        Ok(Loader::from_batches(64, batches.skip(first_step as usize)))
    }

    fn trainer(&self, state: Option<State>) -> Result<Box<Learner>, RunError> {
        let RecipeCore { seed, training, optimiser, .. } = &self.recipe.core;
        let learner = Learner::new(&Selector::random(*seed), training, *optimiser, *seed);
        Ok(Box::new(match state {
            Some(state) => learner.resume(state),
            None => learner,
        }))
    }

    fn positions(&self, step: u64) -> u64 {
        let (epochs, rest) = (step / self.steps_per_epoch(), step % self.steps_per_epoch());
        epochs * self.train.len() as u64 + rest * self.recipe.training.batch as u64
    }

    fn evaluate(&self, learner: &mut Learner) -> Result<Option<Metrics>, RunError> {
        let loss = evaluation::loss(&learner.selector(), &self.validation, self.recipe.training.by_gain);
        let mut metrics = Metrics::default();
        metrics.add_value(&[WHOLE], Metric::TargetLoss, loss);
        Ok(Some(metrics))
    }

    fn loss(&self, metrics: &Metrics) -> Option<f64> {
        metrics.overall().get(Metric::TargetLoss)
    }

    fn network(&self, learner: &mut Learner) -> Result<TrainedSelector, RunError> {
        let selector = learner.selector();
        let predict = |cases: &[LabelledCase]| -> Vec<f32> {
            cases.iter().map(|case| selector.probability(&case.features)).collect()
        };
        let (train_probabilities, probabilities) = (predict(&self.train), predict(&self.validation));
        let threshold = threshold_for(&train_probabilities, self.recipe.selector.usage).probability();
        let queried: Vec<&LabelledCase> = self
            .train
            .iter()
            .zip(&train_probabilities)
            .filter(|&(_, &p)| p >= threshold)
            .map(|(case, _)| case)
            .collect();
        let start = self.evaluators.hybrid();
        let blend = evaluation::fitted_blend(&queried).unwrap_or(f64::from(start.blend));
        let report = SelectorReport::of(&self.validation, &probabilities, threshold, blend, self.scale);
        let hybrid = Hybrid {
            selector: Some(selector),
            threshold,
            blend: blend as f32,
            scale: self.scale as f32,
            description: self.recipe.name.clone(),
            ..start.clone()
        };
        Ok(TrainedSelector { hybrid, report })
    }
}

/// Batches of an endless sequence of epochs, in each of which the cases are shuffled again.
fn batches(cases: Arc<[LabelledCase]>, size: usize, seed: u64) -> impl Iterator<Item = Vec<LabelledCase>> {
    let mut random = SplitMix::new(seed);
    let mut order: Vec<usize> = (0..cases.len()).collect();
    let epochs = std::iter::repeat_with(move || {
        random.shuffle(&mut order);
        order.clone()
    });
    epochs.flat_map(move |order| {
        let batch = |batch: &[usize]| batch.iter().map(|&at| cases[at].clone()).collect();
        order.chunks(size).map(batch).collect::<Vec<Vec<LabelledCase>>>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Recipe;
    use crate::trainer::Job;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tandem_chess::Position;
    use tandem_transformer::{Architecture, Storage, Weights};

    /// Writes an NNUE, a transformer and scored positions; returns a recipe with them.
    fn prepare(folder: &Path) -> SelectorRecipe {
        std::fs::create_dir_all(folder).unwrap();
        let path = |name: &str| folder.join(name).display().to_string();
        let text = "name = \"x\"\n[data]\ntrain = [{ path = \"x\" }]\n[network]\nfeatures = \"768\"\naccumulator = 32\n";
        let job = Job::of(&Recipe::parse(text).unwrap()).unwrap();
        let network = job.network(&job.layout.random_parameters(5), "");
        let (network, _) = network.quantise(job.quantisation).unwrap();
        std::fs::write(path("x.tnn"), network.to_bytes()).unwrap();
        let board = include_str!("../../transformer/tests/architectures/board.toml");
        let weights = Weights::random(Architecture::from_toml(board).unwrap(), 4);
        std::fs::write(path("x.ttn"), weights.to_bytes(Storage::F32, "")).unwrap();
        let mut random = SplitMix::new(9);
        let mut rows = "fen,score\n".to_owned();
        for _ in 0..150 {
            let mut position = Position::startpos();
            for _ in 0..random.below(40) {
                let moves = position.legal_moves();
                if moves.is_empty() {
                    break;
                }
                position.play(moves[random.below(moves.len() as u32) as usize]);
            }
            rows += &format!("{},{}\n", position.fen(), f64::from(random.below(600)) - 300.0);
        }
        std::fs::write(path("x.csv"), rows).unwrap();
        let recipe = format!(
            "name = \"x\"\n[selector]\nnnue = {{ path = {:?} }}\ntransformer = {{ path = {:?} }}\n[data]\n\
             train = [{{ path = {:?} }}]\nvalidation = [{{ path = {:?} }}]\n[training]\nepochs = 5\nbatch = 16\n",
            path("x.tnn"),
            path("x.ttn"),
            path("x.csv"),
            path("x.csv")
        );
        SelectorRecipe::parse(&recipe).unwrap()
    }

    #[test]
    fn a_selector_goes_through_the_loop_and_resumes_to_the_same_bits() {
        let folder = std::env::temp_dir().join(format!("tandem-selector-{}", std::process::id()));
        let recipe = prepare(&folder);
        // Stops in the step after `last`, which is within an epoch.
        let run = |name: &str, resume: bool, last: u64| {
            let stop = AtomicBool::new(false);
            let mut losses = Vec::new();
            let run_folder = folder.join(name);
            let options = RunOptions { folder: &run_folder, resume, threads: 1, stop: &stop };
            let outcome = train_selector(&recipe, &options, &mut |event| {
                if let Event::Validated { step, loss, .. } = event {
                    losses.push((step, loss));
                    stop.store(step >= last, Ordering::Relaxed);
                }
            });
            (outcome.unwrap(), losses)
        };
        let (whole, losses) = run("whole", false, u64::MAX);
        assert!(whole.finished && losses.len() == 5 && whole.best.is_some());
        for name in ["log.jsonl", "recipe.toml", "best.checkpoint"] {
            assert!(folder.join("whole").join(name).exists(), "{name}");
        }
        let (first, early) = run("parts", false, 20);
        assert!(!first.finished && first.steps == 21);
        let (second, late) = run("parts", true, u64::MAX);
        assert_eq!(early.into_iter().chain(late).collect::<Vec<_>>(), losses);
        assert_eq!(second.network.hybrid.selector, whole.network.hybrid.selector);
        assert_eq!((second.best, second.network.report), (whole.best, whole.network.report));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
