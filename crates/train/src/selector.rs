//! Teaches a selector where the strategist knows better.
//!
//! - [`SelectorRecipe`]: everything about it, in a file;
//! - [`Case`]: a position that both minds have judged, and whose deep value is known;
//! - [`teach_selector`]: cases, epochs, the best of them kept, and a [`Hybrid`](tandem_hybrid::Hybrid) with its threshold;
//! - [`Report`]: what it is worth on cases, beside rules that anybody would think of;
//! - [`Judges`]: both minds, which judge records, and with them a selector that was taught before.
//!
//! It needs no training framework: 3,457 numbers and some thousands of cases take a minute.

mod cases;
mod judgement;
mod learner;
mod recipe;

pub use cases::{Case, Judges, Weighed};
pub use judgement::{Curve, Report, Rule, SHARES};
pub use recipe::{CaseData, MARGIN, Pair, SelectorRecipe, SelectorTraining};

use crate::pool::LoadDataError;
use crate::recipe::RecipeError;
use learner::Learner;
use std::sync::atomic::{AtomicBool, Ordering};
use tandem_chess::random::SplitMix;
use tandem_hybrid::{Hybrid, Selector, UnfitMinds, threshold_for};
use thiserror::Error;

/// Why a selector was not taught.
#[derive(Debug, Error)]
pub enum SelectorError {
    /// The recipe cannot be followed.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The data cannot be used.
    #[error(transparent)]
    Data(#[from] LoadDataError),
    /// The networks are no pair.
    #[error(transparent)]
    Minds(#[from] UnfitMinds),
    /// Nothing can be learnt from the cases.
    #[error("{0}")]
    Cases(String),
    /// It was told to stop.
    #[error("stopped; nothing was written")]
    Stopped,
}

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum SelectorEvent {
    /// So many cases of so many are there.
    Cases(usize, usize),
    /// An epoch is over, from one on: its loss, and that on the validation cases.
    Epoch(u64, f64, f64),
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Taught {
    /// The pair with its selector, threshold and blend.
    pub hybrid: Hybrid,
    /// What it is worth on the validation cases, by which its epoch was chosen: [`Judges::judge`] tells it of others.
    pub report: Report,
    /// The epoch that was best, from one on.
    pub epoch: u64,
}

/// Teaches a selector. `watch` is told what happens.
pub fn teach_selector(
    recipe: &SelectorRecipe,
    threads: usize,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(SelectorEvent),
) -> Result<Taught, SelectorError> {
    let judges = Judges::of(&recipe.selector)?;
    let data = &recipe.data;
    let (train, validation) = data.records(recipe.seed, threads)?;
    let all = train.len() + validation.len();
    let mut done = 0;
    let mut judged = |records: &[_], seed: u64| {
        judges.cases(records, seed, stop, &mut |count| {
            done += count;
            watch(SelectorEvent::Cases(done, all));
        })
    };
    let train = judged(&train, recipe.seed)?;
    let validation = judged(&validation, recipe.seed ^ 1)?;
    if train.is_empty() || validation.is_empty() {
        return Err(SelectorError::Cases(
            "there are no cases to learn from or none to judge by: `tandem-lab data head` shows what the data has".into(),
        ));
    }
    let scale = cases::fitted_scale(&train);
    let [train, validation] = [train, validation].map(|cases| {
        cases.into_iter().map(|case| Weighed::new(case, scale, recipe.selector.margin)).collect::<Vec<_>>()
    });
    let (selector, epoch) = teach(recipe, &train, &validation, stop, watch)?;
    let probabilities = |cases: &[Weighed]| -> Vec<f32> {
        cases.iter().map(|case| selector.probability(&case.features)).collect()
    };
    let learnt = probabilities(&train);
    let threshold = threshold_for(&learnt, recipe.selector.usage).probability();
    let asked: Vec<&Weighed> =
        train.iter().zip(&learnt).filter(|&(_, &share)| share >= threshold).map(|(case, _)| case).collect();
    let blend = judgement::fitted_blend(&asked).unwrap_or(f64::from(judges.hybrid().blend));
    let report = Report::of(&validation, &probabilities(&validation), threshold, blend, scale);
    let hybrid = Hybrid {
        selector: Some(selector),
        threshold,
        blend: blend as f32,
        scale: scale as f32,
        description: recipe.name.clone(),
        ..judges.hybrid().clone()
    };
    Ok(Taught { hybrid, report, epoch })
}

/// Epochs, of which the one with the least loss on the validation cases is kept.
fn teach(
    recipe: &SelectorRecipe,
    train: &[Weighed],
    validation: &[Weighed],
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
            let cases: Vec<&Weighed> = batch.iter().map(|&at| &train[at]).collect();
            sum += learner.learn(&cases, training.rate.at(learner.steps(), steps)) * batch.len() as f64;
        }
        if stop.load(Ordering::Relaxed) {
            return Err(SelectorError::Stopped);
        }
        let selector = learner.selector();
        let loss = judgement::loss(&selector, validation, training.by_gain);
        watch(SelectorEvent::Epoch(epoch, sum / train.len() as f64, loss));
        if loss.is_finite() && best.as_ref().is_none_or(|(least, ..)| loss < *least) {
            best = Some((loss, selector, epoch));
        }
    }
    let (_, selector, epoch) = best.ok_or_else(|| {
        SelectorError::Cases("no loss was a number: the learning rate may be too high".into())
    })?;
    Ok((selector, epoch))
}
