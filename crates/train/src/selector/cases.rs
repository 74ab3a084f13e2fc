//! Cases: positions evaluated by both networks, with the value of a deep search as the label.

use super::evaluation::{self, SelectorReport};
use super::recipe::NetworkPair;
use crate::loss::sigmoid;
use crate::metrics::Phase;
use crate::recipe::RecipeError;
use crate::run::RunError;
use crate::transformer::LabelConfig;
use rayon::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tandem_chess::Position;
use tandem_data::Record;
use tandem_hybrid::{
    FeatureContext, Features, Hybrid, HybridNetworks, IncompatibleNetworks, StrategistEvaluator,
};
use tandem_nnue::Accumulators;
use tandem_transformer::{Isa, Network};
use tandem_util::random::SplitMix;

/// One position for training or measuring a selector: the evaluation of each network and the value of a deep
/// search, which counts as correct. Win probabilities are those of the side to move, and a draw counts half.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Input of the selector: features of the position and of the search.
    pub features: Features,
    /// Score of the NNUE in centipawns, from the side to move's view.
    pub centipawns: f64,
    /// Win probability by the strategist, from 0 to 1.
    pub strategist: f64,
    /// Win probability by the deep search, from 0 to 1: the reference for both networks.
    pub deep: f64,
    /// Phase of the game, for the rules that a selector is compared with.
    pub phase: Phase,
}

/// A [`Case`] with the label that a selector learns, and with the NNUE's score as a win probability. All win
/// probabilities are those of the side to move, from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelledCase {
    /// Input of the selector: features of the position and of the search.
    pub features: Features,
    /// Score of the NNUE in centipawns, from the side to move's view.
    pub centipawns: f64,
    /// Win probability by the NNUE, from 0 to 1: the sigmoid of `centipawns` divided by the scale given to
    /// [`Self::new`].
    pub nnue: f64,
    /// Win probability by the strategist, from 0 to 1.
    pub strategist: f64,
    /// Win probability by the deep search, from 0 to 1: the reference for the errors of both networks.
    pub deep: f64,
    /// Phase of the game, for the rules that a selector is compared with.
    pub phase: Phase,
    /// Label: true if [`Self::gain`] is at least the margin given to [`Self::new`], so that a query would
    /// have been worthwhile.
    pub strategist_is_better: bool,
}

impl LabelledCase {
    /// Labels a case. `scale` is the number of centipawns that the NNUE's score is divided by before the
    /// sigmoid; `margin`, from 0 to 1, is the least [`Self::gain`] for which the strategist counts as better.
    pub fn new(case: Case, scale: f64, margin: f64) -> Self {
        let Case { features, centipawns, strategist, deep, phase } = case;
        let nnue = sigmoid(centipawns / scale);
        let mut labelled =
            Self { features, centipawns, nnue, strategist, deep, phase, strategist_is_better: false };
        labelled.strategist_is_better = labelled.gain() >= margin;
        labelled
    }

    /// Absolute error of the NNUE minus that of the strategist, both against the deep search, in win
    /// probability from −1 to 1. Positive if the strategist is closer.
    pub fn gain(&self) -> f64 {
        (self.nnue - self.deep).abs() - (self.strategist - self.deep).abs()
    }
}

/// The sigmoid scale that brings the NNUE's win probabilities closest to those of the deep search, by least
/// squares.
pub(super) fn fitted_scale(cases: &[Case]) -> f64 {
    let error = |scale: f64| -> f64 {
        cases.iter().map(|case| (sigmoid(case.centipawns / scale) - case.deep).powi(2)).sum()
    };
    evaluation::golden_section(10.0, 2000.0, error)
}

/// Records between two reports of progress, and two checks of `stop`.
const BLOCK: usize = 1024;
/// Range of remaining depths in plies, from which each case draws one for its features.
const DEPTHS: std::ops::RangeInclusive<i32> = 4..=20;

/// The NNUE and the transformer, ready to evaluate positions, and the hybrid file's contents: bridge,
/// selector, threshold, blend and scale.
pub struct EvaluatorPair {
    nnue: Arc<tandem_nnue::Network>,
    networks: Arc<HybridNetworks>,
    hybrid: Hybrid,
}

impl EvaluatorPair {
    /// Combines an NNUE and a transformer with a hybrid, whose bridge feeds the NNUE's accumulators into the
    /// transformer if there is one.
    ///
    /// # Errors
    /// If the transformer has no usable head, or if the bridge's shape does not fit the networks. File hashes
    /// are not compared.
    pub fn new(
        nnue: Arc<tandem_nnue::Network>,
        transformer: Arc<Network>,
        hybrid: Hybrid,
    ) -> Result<Self, IncompatibleNetworks> {
        let networks =
            HybridNetworks::new(transformer, Some(Arc::clone(&nnue)))?.with_hybrid(hybrid.clone())?;
        Ok(Self { nnue, networks: Arc::new(networks), hybrid })
    }

    /// Loads and checks the networks that a recipe names, and its hybrid file if it has one.
    pub(super) fn of(pair: &NetworkPair) -> Result<Self, RunError> {
        let invalid = |key, problem: String| RecipeError::Invalid { key, problem };
        let (bytes, nnue_file) = pair.nnue.read("selector.nnue")?;
        let nnue = tandem_nnue::Network::from_bytes(&bytes)
            .map_err(|error| invalid("selector.nnue", format!("{}: {error}", pair.nnue.path)))?;
        let (bytes, transformer_file) = pair.transformer.read("selector.transformer")?;
        let network = Network::from_bytes(&bytes, Isa::best()).map_err(|error| {
            invalid("selector.transformer", format!("{}: {error}", pair.transformer.path))
        })?;
        let unsupported = |problem: String| RunError::from(invalid("selector.hybrid", problem));
        let hybrid = match &pair.hybrid {
            None => Hybrid::new(nnue_file, transformer_file),
            Some(path) => Hybrid::load(path).map_err(|error| {
                unsupported(format!(
                    "{error}; train it first, name another one, for example with --set \
                     selector.hybrid=nets/tandem.hybrid, or leave the key out to train without a bridge: --set \
                     selector.hybrid="
                ))
            })?,
        };
        hybrid
            .check(Some(nnue_file), Some(transformer_file))
            .map_err(|error| unsupported(error.to_string()))?;
        Ok(Self::new(Arc::new(nnue), Arc::new(network), hybrid)?)
    }

    /// Measures the hybrid's selector on records, whose scores count as correct; records without a score or a
    /// legal move are skipped. The strategist counts as better if its win probability is closer to the
    /// score's than the NNUE's by at least `margin`. `done` receives the number of records of each finished
    /// block.
    ///
    /// # Errors
    /// If the hybrid has no selector, if no record can be evaluated, or after `stop`.
    pub fn evaluate_selector(
        &self,
        records: &[Record],
        margin: f64,
        stop: &AtomicBool,
        done: &mut dyn FnMut(usize),
    ) -> Result<SelectorReport, RunError> {
        let Hybrid { selector, threshold, blend, scale, .. } = &self.hybrid;
        let selector = selector.as_ref().ok_or_else(|| {
            RunError::Cases("the hybrid has no selector: recipes/hybrid-phase2.toml trains one".into())
        })?;
        let scale = f64::from(*scale);
        let cases = self.cases(records, 0, stop, done)?;
        if cases.is_empty() {
            let problem = "there are no cases: positions need a score and a legal move, and the transformer a head for \
                           the win probability. `tandem-lab data head` shows what the data has";
            return Err(RunError::Cases(problem.into()));
        }
        let cases: Vec<LabelledCase> =
            cases.into_iter().map(|case| LabelledCase::new(case, scale, margin)).collect();
        let probabilities: Vec<f32> = cases.iter().map(|case| selector.probability(&case.features)).collect();
        Ok(SelectorReport::of(&cases, &probabilities, *threshold, f64::from(*blend), scale))
    }

    /// The hybrid as it was before training, possibly with a bridge.
    pub(super) fn hybrid(&self) -> &Hybrid {
        &self.hybrid
    }

    /// Evaluates records with both networks, on all threads. Records without a score or a legal move are
    /// skipped.
    pub(super) fn cases(
        &self,
        records: &[Record],
        seed: u64,
        stop: &AtomicBool,
        done: &mut dyn FnMut(usize),
    ) -> Result<Vec<Case>, RunError> {
        let mut cases = Vec::with_capacity(records.len());
        for (block, records) in records.chunks(BLOCK).enumerate() {
            let workers =
                || (Accumulators::new(&self.nnue), StrategistEvaluator::new(Arc::clone(&self.networks)));
            let evaluate = |(accumulators, strategist): &mut (Accumulators, StrategistEvaluator),
                            (at, record): (usize, &_)| {
                let index = (block * BLOCK + at) as u64;
                self.case(record, SplitMix::new(seed ^ index << 8), accumulators, strategist)
            };
            let evaluated: Vec<Option<Case>> =
                records.par_iter().enumerate().map_init(workers, evaluate).collect();
            if stop.load(Ordering::Relaxed) {
                return Err(RunError::Stopped);
            }
            cases.extend(evaluated.into_iter().flatten());
            done(records.len());
        }
        Ok(cases)
    }

    fn case(
        &self,
        record: &Record,
        mut random: SplitMix,
        accumulators: &mut Accumulators,
        strategist: &mut StrategistEvaluator,
    ) -> Option<Case> {
        let position = Position::from(record.position.board().ok()?);
        if position.legal_moves().is_empty() {
            return None;
        }
        // The label is the score of the deep search; the result of the game is not used.
        let by_score = LabelConfig { value_wdl: 0.0, ..LabelConfig::default() };
        let [win, draw, _] = record.score.and(by_score.outcome(record))?;
        accumulators.reset(&self.nnue, position.board());
        let evaluation = accumulators.evaluate(&self.nnue, position.board());
        let strategist = strategist.evaluate(&position).win_probability()?;
        let width = DEPTHS.end() - DEPTHS.start() + 1;
        // The engine queries at many depths, and the label does not depend on the depth, so it is drawn at
        // random.
        let depth = DEPTHS.start() + random.below(width as u32) as i32;
        let context =
            FeatureContext { depth, psqt_positional_gap: evaluation.psqt_positional_gap() as f32 / 100.0 };
        Some(Case {
            features: Features::of(&position, context),
            centipawns: f64::from(evaluation.value()) * 100.0 / f64::from(evaluation.pawn()),
            strategist,
            deep: win + draw / 2.0,
            phase: Phase::of(&record.position),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::evaluation::tests::case;
    use super::*;

    #[test]
    fn the_fitted_scale_is_that_of_the_cases() {
        let cases: Vec<Case> = (-40..40)
            .map(|at| {
                let centipawns = f64::from(at) * 9.0;
                Case { centipawns, deep: sigmoid(centipawns / 170.0), ..case(at as u64) }
            })
            .collect();
        assert!((fitted_scale(&cases) - 170.0).abs() < 0.1, "{}", fitted_scale(&cases));
    }

    #[test]
    fn the_strategist_is_better_from_the_margin_on() {
        let is_better = |strategist: f64, deep: f64| {
            let case = Case { centipawns: 0.0, strategist, deep, ..case(1) };
            LabelledCase::new(case, 100.0, 0.05).strategist_is_better
        };
        // The NNUE's win probability is 0.5.
        assert!(is_better(0.7, 0.7) && is_better(0.64, 0.6) && is_better(0.56, 0.56));
        assert!(
            !is_better(0.5, 0.7) && !is_better(0.54, 0.54) && !is_better(0.9, 0.6) && !is_better(0.4, 0.9)
        );
    }
}
