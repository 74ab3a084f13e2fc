//! Positions that both minds have judged.

use super::SelectorError;
use super::judgement::{self, Report};
use super::recipe::Pair;
use crate::loss::sigmoid;
use crate::metrics::Phase;
use crate::recipe::RecipeError;
use crate::transformer::Aim;
use rayon::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tandem_chess::Position;
use tandem_chess::random::SplitMix;
use tandem_data::Record;
use tandem_hybrid::{Circumstances, Features, Hybrid, Minds, Strategist, UnfitMinds};
use tandem_nnue::Accumulators;
use tandem_transformer::{Isa, Network};

/// A position, what either mind says of it, and its deep value. Chances are the side to move's; a draw counts half.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What the selector sees.
    pub features: Features,
    /// The NNUE's score.
    pub centipawns: f64,
    /// The strategist's chance to win.
    pub strategist: f64,
    /// The deep one.
    pub deep: f64,
    /// How much of the game is left.
    pub phase: Phase,
}

/// A case, once it is known what chance a score of the NNUE's stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Weighed {
    /// What the selector sees.
    pub features: Features,
    /// The NNUE's score.
    pub centipawns: f64,
    /// The NNUE's chance to win.
    pub nnue: f64,
    /// The strategist's.
    pub strategist: f64,
    /// The deep one.
    pub deep: f64,
    /// How much of the game is left.
    pub phase: Phase,
    /// The strategist knows better, by the recipe's margin.
    pub knows_better: bool,
}

impl Weighed {
    /// A case, with the scale of the NNUE's centipawns and the margin from which on somebody knows better.
    pub fn new(case: Case, scale: f64, margin: f64) -> Self {
        let Case { features, centipawns, strategist, deep, phase } = case;
        let nnue = sigmoid(centipawns / scale);
        let mut weighed = Self { features, centipawns, nnue, strategist, deep, phase, knows_better: false };
        weighed.knows_better = weighed.gain() >= margin;
        weighed
    }

    /// How much nearer the strategist is.
    pub fn gain(&self) -> f64 {
        (self.nnue - self.deep).abs() - (self.strategist - self.deep).abs()
    }
}

/// The scale of the NNUE's centipawns that makes its chances, by the curve that NNUEs learn by, nearest to the deep ones.
pub(super) fn fitted_scale(cases: &[Case]) -> f64 {
    let error = |scale: f64| -> f64 {
        cases.iter().map(|case| (sigmoid(case.centipawns / scale) - case.deep).powi(2)).sum()
    };
    judgement::least(10.0, 2000.0, error)
}

/// Records that are judged before anybody hears of it.
const AT_A_TIME: usize = 1024;
/// Plies that a search may still have to go where it asks.
const DEPTHS: std::ops::RangeInclusive<i32> = 4..=20;

/// Both minds at work, with what was learnt between them.
pub struct Judges {
    nnue: Arc<tandem_nnue::Network>,
    minds: Arc<Minds>,
    hybrid: Hybrid,
}

impl Judges {
    /// Of two networks, and what was learnt between them.
    pub fn new(
        nnue: Arc<tandem_nnue::Network>,
        transformer: Arc<Network>,
        hybrid: Hybrid,
    ) -> Result<Self, UnfitMinds> {
        let minds = Minds::new(transformer, Some(Arc::clone(&nnue)))?.with_hybrid(hybrid.clone())?;
        Ok(Self { nnue, minds: Arc::new(minds), hybrid })
    }

    /// Those that a recipe names.
    pub(super) fn of(pair: &Pair) -> Result<Self, SelectorError> {
        let wrong = |key, problem: String| RecipeError::Wrong { key, problem };
        let (bytes, nnue_is) = pair.nnue.read("selector.nnue")?;
        let nnue = tandem_nnue::Network::from_bytes(&bytes)
            .map_err(|error| wrong("selector.nnue", format!("{}: {error}", pair.nnue.path)))?;
        let (bytes, transformer_is) = pair.transformer.read("selector.transformer")?;
        let network = Network::from_bytes(&bytes, Isa::best())
            .map_err(|error| wrong("selector.transformer", format!("{}: {error}", pair.transformer.path)))?;
        let unfit = |problem: String| SelectorError::from(wrong("selector.hybrid", problem));
        let hybrid = match &pair.hybrid {
            None => Hybrid::new(nnue_is, transformer_is),
            Some(path) => Hybrid::load(path).map_err(|error| unfit(error.to_string()))?,
        };
        hybrid.check(Some(nnue_is), Some(transformer_is)).map_err(|error| unfit(error.to_string()))?;
        Ok(Self::new(Arc::new(nnue), Arc::new(network), hybrid)?)
    }

    /// What the hybrid's selector is worth on records with scores: the strategist knows better from a margin on. `done` is told
    /// of records as they are judged.
    pub fn judge(
        &self,
        records: &[Record],
        margin: f64,
        stop: &AtomicBool,
        done: &mut dyn FnMut(usize),
    ) -> Result<Report, SelectorError> {
        let Hybrid { selector, threshold, blend, scale, .. } = &self.hybrid;
        let selector = selector.as_ref().ok_or_else(|| {
            SelectorError::Cases("the hybrid has no selector: recipes/hybrid-phase2.toml teaches one".into())
        })?;
        let scale = f64::from(*scale);
        let cases = self.cases(records, 0, stop, done)?;
        if cases.is_empty() {
            let problem = "there is nothing to judge by: positions need a score and a legal move, and the transformer a head \
                           that tells chances. `tandem-lab data head` shows what the data has";
            return Err(SelectorError::Cases(problem.into()));
        }
        let cases: Vec<Weighed> = cases.into_iter().map(|case| Weighed::new(case, scale, margin)).collect();
        let probabilities: Vec<f32> = cases.iter().map(|case| selector.probability(&case.features)).collect();
        Ok(Report::of(&cases, &probabilities, *threshold, f64::from(*blend), scale))
    }

    /// What was learnt between them before.
    pub(super) fn hybrid(&self) -> &Hybrid {
        &self.hybrid
    }

    /// Lets both judge records, on all threads. Whoever has no legal move, or no score, is left out.
    pub(super) fn cases(
        &self,
        records: &[Record],
        seed: u64,
        stop: &AtomicBool,
        done: &mut dyn FnMut(usize),
    ) -> Result<Vec<Case>, SelectorError> {
        let mut cases = Vec::with_capacity(records.len());
        for (part, some) in records.chunks(AT_A_TIME).enumerate() {
            let seats = || (Accumulators::new(&self.nnue), Strategist::new(Arc::clone(&self.minds)));
            let judge = |(accumulators, strategist): &mut (Accumulators, Strategist),
                         (at, record): (usize, &_)| {
                let place = (part * AT_A_TIME + at) as u64;
                self.case(record, SplitMix::new(seed ^ place << 8), accumulators, strategist)
            };
            let made: Vec<Option<Case>> = some.par_iter().enumerate().map_init(seats, judge).collect();
            if stop.load(Ordering::Relaxed) {
                return Err(SelectorError::Stopped);
            }
            cases.extend(made.into_iter().flatten());
            done(some.len());
        }
        Ok(cases)
    }

    fn case(
        &self,
        record: &Record,
        mut random: SplitMix,
        accumulators: &mut Accumulators,
        strategist: &mut Strategist,
    ) -> Option<Case> {
        let position = Position::from(record.position.board().ok()?);
        if position.legal_moves().is_empty() {
            return None;
        }
        // What a deep search found; the game's end is another matter.
        let by_score = Aim { value_result_share: 0.0, ..Aim::default() };
        let [win, draw, _] = record.score.and(by_score.end(record))?;
        accumulators.reset(&self.nnue, position.board());
        let evaluation = accumulators.evaluate(&self.nnue, position.board());
        let strategist = strategist.judge(&position).chance()?;
        let width = DEPTHS.end() - DEPTHS.start() + 1;
        // The search asks at many depths, and the deep value knows none of them.
        let depth = DEPTHS.start() + random.below(width as u32) as i32;
        let circumstances = Circumstances { depth, discord: evaluation.discord() as f32 / 100.0 };
        Some(Case {
            features: Features::of(&position, circumstances),
            centipawns: f64::from(evaluation.value()) * 100.0 / f64::from(evaluation.pawn()),
            strategist,
            deep: win + draw / 2.0,
            phase: Phase::of(&record.position),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::judgement::tests::case;
    use super::*;

    #[test]
    fn the_scale_is_found_that_the_cases_were_made_with() {
        let cases: Vec<Case> = (-40..40)
            .map(|at| {
                let centipawns = f64::from(at) * 9.0;
                Case { centipawns, deep: sigmoid(centipawns / 170.0), ..case(at as u64) }
            })
            .collect();
        assert!((fitted_scale(&cases) - 170.0).abs() < 0.1, "{}", fitted_scale(&cases));
    }

    #[test]
    fn somebody_knows_better_from_the_margin_on() {
        let knows = |strategist: f64, deep: f64| {
            let case = Case { centipawns: 0.0, strategist, deep, ..case(1) };
            Weighed::new(case, 100.0, 0.05).knows_better
        };
        // The NNUE says one half.
        assert!(knows(0.7, 0.7) && knows(0.64, 0.6) && knows(0.56, 0.56));
        assert!(!knows(0.5, 0.7) && !knows(0.54, 0.54) && !knows(0.9, 0.6) && !knows(0.4, 0.9));
    }
}
