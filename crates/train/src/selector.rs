//! Trains a selector, which predicts where the strategist's evaluation is better than the NNUE's.
//!
//! - [`SelectorRecipe`]: a selector's training in one TOML file;
//! - [`Case`]: a position with both evaluations and the value of a deep search;
//! - [`train_selector`]: training on cases, which keeps the best epoch and returns a [`Hybrid`] with its threshold;
//! - [`SelectorReport`]: precision, recall and value error on cases, compared with simple rules;
//! - [`EvaluatorPair`]: both networks, for evaluating records, and for measuring a selector that was trained before.
//!
//! No training framework is needed: 3,457 parameters and some 100,000 cases take a minute on a CPU.

mod cases;
mod evaluation;
mod learner;
mod recipe;

pub use cases::{Case, EvaluatorPair, LabelledCase};
pub use evaluation::{ErrorCurve, FRACTIONS, Rule, SelectorReport};
pub use recipe::{CaseData, DEFAULT_MARGIN, NetworkPair, SelectorRecipe, SelectorTraining};

use crate::pool::LoadDataError;
use crate::recipe::RecipeError;
use learner::Learner;
use std::sync::atomic::{AtomicBool, Ordering};
use tandem_hybrid::{Hybrid, IncompatibleNetworks, Selector, threshold_for};
use tandem_util::random::SplitMix;
use thiserror::Error;

/// Reason for which a selector was not trained, or not evaluated.
#[derive(Debug, Error)]
pub enum SelectorError {
    /// The recipe is not valid, or a file that it names cannot be loaded.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The data cannot be read, or has no usable records.
    #[error(transparent)]
    Data(#[from] LoadDataError),
    /// The networks do not fit together, for example because the hybrid names other files.
    #[error(transparent)]
    HybridNetworks(#[from] IncompatibleNetworks),
    /// No record could be evaluated by both networks, the hybrid has no selector to measure, or no loss of
    /// the training was finite.
    #[error("{0}")]
    Cases(String),
    /// The caller set `stop` before training was done; it has to start again, because a selector's training
    /// writes no checkpoints.
    #[error("stopped; nothing was written")]
    Stopped,
}

/// Progress of a selector's training, passed to the caller for display.
#[derive(Clone, Copy, Debug)]
pub enum SelectorEvent {
    /// Number of records handled so far of those that both networks are to evaluate, and their total number,
    /// training and validation together.
    Cases(usize, usize),
    /// An epoch is over: its number, counted from 1, its mean training loss, and its mean loss on the
    /// validation positions. Losses are cross-entropies in nats.
    Epoch(u64, f64, f64),
}

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
    /// The epoch with the lowest validation loss, counted from 1.
    pub epoch: u64,
}

/// Trains a selector as the recipe describes: evaluates the data with both networks, trains all epochs on the
/// CPU and keeps the one with the lowest validation loss. `threads` reads the data; `watch` receives every
/// event, for example to print progress.
///
/// # Errors
/// If the recipe, the networks or the data cannot be used, if no record can be evaluated, if no loss is
/// finite, or after `stop`.
pub fn train_selector(
    recipe: &SelectorRecipe,
    threads: usize,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(SelectorEvent),
) -> Result<TrainedSelector, SelectorError> {
    let evaluators = EvaluatorPair::of(&recipe.selector)?;
    let data = &recipe.data;
    let (train, validation) = data.records(recipe.seed, threads)?;
    let all = train.len() + validation.len();
    let mut done = 0;
    let mut evaluate = |records: &[_], seed: u64| {
        evaluators.cases(records, seed, stop, &mut |count| {
            done += count;
            watch(SelectorEvent::Cases(done, all));
        })
    };
    let train = evaluate(&train, recipe.seed)?;
    let validation = evaluate(&validation, recipe.seed ^ 1)?;
    if train.is_empty() || validation.is_empty() {
        return Err(SelectorError::Cases(
            "there are no cases to train on, or none for validation: `tandem-lab data head` shows what the data has".into(),
        ));
    }
    let scale = cases::fitted_scale(&train);
    let [train, validation] = [train, validation].map(|cases| {
        cases
            .into_iter()
            .map(|case| LabelledCase::new(case, scale, recipe.selector.margin))
            .collect::<Vec<_>>()
    });
    let (selector, epoch) = train_epochs(recipe, &train, &validation, stop, watch)?;
    let probabilities = |cases: &[LabelledCase]| -> Vec<f32> {
        cases.iter().map(|case| selector.probability(&case.features)).collect()
    };
    let train_probabilities = probabilities(&train);
    let threshold = threshold_for(&train_probabilities, recipe.selector.usage).probability();
    let queried: Vec<&LabelledCase> = train
        .iter()
        .zip(&train_probabilities)
        .filter(|&(_, &p)| p >= threshold)
        .map(|(case, _)| case)
        .collect();
    let blend = evaluation::fitted_blend(&queried).unwrap_or(f64::from(evaluators.hybrid().blend));
    let report = SelectorReport::of(&validation, &probabilities(&validation), threshold, blend, scale);
    let hybrid = Hybrid {
        selector: Some(selector),
        threshold,
        blend: blend as f32,
        scale: scale as f32,
        description: recipe.name.clone(),
        ..evaluators.hybrid().clone()
    };
    Ok(TrainedSelector { hybrid, report, epoch })
}

/// Trains all epochs and returns the selector of the one with the lowest validation loss.
fn train_epochs(
    recipe: &SelectorRecipe,
    train: &[LabelledCase],
    validation: &[LabelledCase],
    stop: &AtomicBool,
    watch: &mut dyn FnMut(SelectorEvent),
) -> Result<(Selector, u64), SelectorError> {
    let training = &recipe.training;
    let mut order: Vec<usize> = (0..train.len()).collect();
    let mut random = SplitMix::new(recipe.seed);
    let mut learner = Learner::new(&Selector::random(recipe.seed), training, recipe.seed);
    let batches = train.len().div_ceil(training.batch) as u64;
    let steps = batches * training.epochs;
    let mut best: Option<(f64, Selector, u64)> = None;
    for epoch in 1..=training.epochs {
        random.shuffle(&mut order);
        let mut sum = 0.0;
        for batch in order.chunks(training.batch) {
            let cases: Vec<&LabelledCase> = batch.iter().map(|&at| &train[at]).collect();
            sum += learner.train_step(&cases, training.lr.at(learner.steps(), steps)) * batch.len() as f64;
        }
        if stop.load(Ordering::Relaxed) {
            return Err(SelectorError::Stopped);
        }
        let selector = learner.selector();
        let loss = evaluation::loss(&selector, validation, training.by_gain);
        watch(SelectorEvent::Epoch(epoch, sum / train.len() as f64, loss));
        if loss.is_finite() && best.as_ref().is_none_or(|(lowest, ..)| loss < *lowest) {
            best = Some((loss, selector, epoch));
        }
    }
    let (_, selector, epoch) = best.ok_or_else(|| {
        SelectorError::Cases("no loss was finite: the learning rate may be too high".into())
    })?;
    Ok((selector, epoch))
}
