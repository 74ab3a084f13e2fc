//! Evaluation of a selector on cases, which are positions with the evaluations of both networks and the
//! value of a deep search: precision, recall, AUC, and the value error for each fraction of cases in which
//! the strategist is queried.

use super::cases::LabelledCase;
use crate::metrics::Phase;
use tandem_hybrid::Selector;

/// Fractions of the labelled positions (cases) in which the strategist is queried, for which
/// [`SelectorReport`] has errors, precision and recall.
pub const FRACTIONS: [f64; 11] = [0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 0.9, 1.0];

/// A simple rule that ranks labelled positions (cases): those ranked first are queried first. The error of
/// each rule is a baseline that a trained selector has to beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// In random order: the error to be expected if positions are chosen blindly.
    Random,
    /// Positions whose NNUE score is closest to zero first, because they can still go either way.
    EvenFirst,
    /// Positions whose NNUE score is farthest from zero first, whichever side is ahead.
    DecidedFirst,
    /// Positions with the most pieces left first, by phase of the game.
    OpeningFirst,
    /// Positions with the fewest pieces left first, by phase of the game.
    EndgameFirst,
}

impl Rule {
    /// All rules, in the order in which reports list them.
    pub const ALL: [Self; 5] =
        [Self::Random, Self::EvenFirst, Self::DecidedFirst, Self::OpeningFirst, Self::EndgameFirst];

    /// Name of the rule in reports, for example `even first`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::EvenFirst => "even first",
            Self::DecidedFirst => "decided first",
            Self::OpeningFirst => "opening first",
            Self::EndgameFirst => "endgame first",
        }
    }

    /// Score of a case under the rule: greater ones are queried first, equal ones in random order.
    fn score(self, case: &LabelledCase) -> f64 {
        let phase = Phase::ALL.iter().position(|&phase| phase == case.phase).unwrap_or(0) as f64;
        match self {
            Self::Random => 0.0,
            Self::EvenFirst => -case.centipawns.abs(),
            Self::DecidedFirst => case.centipawns.abs(),
            Self::OpeningFirst => -phase,
            Self::EndgameFirst => phase,
        }
    }
}

/// Mean squared error of the engine's value against the deep search, as a function of the fraction of cases
/// (labelled positions) that are queried. The value of a queried case is a blend of both networks, that of
/// any other the NNUE's; values go from −1 for a loss to 1 for a win.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorCurve {
    /// Name of the ranking by which cases are queried, the first ones first: `selector`, or the name of a
    /// [`Rule`].
    pub name: &'static str,
    /// Mean squared error at each of the [`FRACTIONS`], from 0 to 4: the first is the NNUE's without any
    /// query.
    pub errors: [f64; FRACTIONS.len()],
}

/// Metrics of a selector on cases, which are positions with a label that tells whether the strategist is
/// better. `usage`, `precision` and `recall` hold at the threshold that the engine uses; `auc`, `curves`,
/// `precisions` and `recalls` rank the cases by the selector's probability, so they need no threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectorReport {
    /// Number of labelled positions that the selector was evaluated on.
    pub cases: usize,
    /// Fraction of cases in which the strategist is better, from 0 to 1: the precision of random queries.
    pub base_rate: f64,
    /// Fraction of cases in which the strategist is queried, from 0 to 1: those whose probability by the
    /// selector is at least `threshold`.
    pub usage: f64,
    /// Fraction of the queried cases in which the strategist is better; `None` if none is queried.
    pub precision: Option<f64>,
    /// Fraction of the cases with a better strategist that are queried; `None` if there is none.
    pub recall: Option<f64>,
    /// Area under the ROC curve: the probability that a case in which the strategist is better has a higher
    /// output of the selector than one in which it is not. Random outputs give 0.5; `None` if all cases have
    /// the same label.
    pub auc: Option<f64>,
    /// Minimum output of the selector, a probability from 0 to 1, with which a position is queried.
    pub threshold: f64,
    /// Weight of the strategist in the blended value of a queried position, from 0 to 1.
    pub blend: f64,
    /// Centipawns that an NNUE score is divided by before the sigmoid turns it into a win probability.
    pub scale: f64,
    /// Baseline without any network: mean squared error against the deep search if every case had the mean
    /// value of all deep searches. Same unit as [`ErrorCurve::errors`].
    pub constant: f64,
    /// Error curve of the selector, then that of each [`Rule`] for comparison.
    pub curves: Vec<ErrorCurve>,
    /// Precision if each of the [`FRACTIONS`] of the cases is queried, those with the highest probabilities
    /// first; `None` if none is queried.
    pub precisions: [Option<f64>; FRACTIONS.len()],
    /// Fraction of the cases with a better strategist that are among those queried, at each of the
    /// [`FRACTIONS`]; `None` if the strategist is never better.
    pub recalls: [Option<f64>; FRACTIONS.len()],
}

impl SelectorReport {
    /// Evaluates the probabilities that a selector gives to cases, which are in the same order.
    pub(super) fn of(
        cases: &[LabelledCase],
        probabilities: &[f32],
        threshold: f32,
        blend: f64,
        scale: f64,
    ) -> Self {
        let count = cases.len() as f64;
        let better = cases.iter().filter(|case| case.strategist_is_better).count() as f64;
        let queried = || cases.iter().zip(probabilities).filter(|&(_, &p)| p >= threshold);
        let (num_queried, num_right) = (
            queried().count() as f64,
            queried().filter(|(case, _)| case.strategist_is_better).count() as f64,
        );
        let ratio = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        let mean = cases.iter().map(|case| case.deep).sum::<f64>() / count;
        let constant = cases.iter().map(|case| square(mean, case.deep)).sum::<f64>() / count;
        let scores: Vec<f64> = probabilities.iter().map(|&p| p.into()).collect();
        let mut curves = vec![ErrorCurve { name: "selector", errors: errors(cases, &scores, blend) }];
        curves.extend(Rule::ALL.map(|rule| {
            let scores: Vec<f64> = cases.iter().map(|case| rule.score(case)).collect();
            ErrorCurve { name: rule.name(), errors: errors(cases, &scores, blend) }
        }));
        let cumulative_hits =
            cumulative_gain(&scores, |at| if cases[at].strategist_is_better { 1.0 } else { 0.0 });
        let at_fractions = FRACTIONS.map(|fraction| {
            let first = num_cases_in(fraction, cases.len());
            (first as f64, cumulative_hits[first])
        });
        Self {
            cases: cases.len(),
            base_rate: better / count,
            usage: num_queried / count,
            precision: ratio(num_right, num_queried),
            recall: ratio(num_right, better),
            auc: auc(cases, probabilities),
            threshold: threshold.into(),
            blend,
            scale,
            constant,
            curves,
            precisions: at_fractions.map(|(used, right)| ratio(right, used)),
            recalls: at_fractions.map(|(_, right)| ratio(right, better)),
        }
    }
}

/// Squared difference of two values, whose range is twice that of win probabilities.
fn square(left: f64, right: f64) -> f64 {
    (2.0 * (left - right)).powi(2)
}

/// Number of cases in a fraction of them, rounded to the nearest.
fn num_cases_in(fraction: f64, cases: usize) -> usize {
    (fraction * cases as f64).round() as usize
}

/// Sum of the gains of the first 0, 1, 2 … cases, in descending order of their scores. Cases with equal
/// scores each count with their mean gain, which is the expectation over random orders.
fn cumulative_gain(scores: &[f64], gain: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&left, &right| scores[right].total_cmp(&scores[left]));
    let mut gained = vec![0.0];
    for alike in order.chunk_by(|&left, &right| scores[left] == scores[right]) {
        let all: f64 = alike.iter().map(|&at| gain(at)).sum();
        let before = gained[gained.len() - 1];
        gained.extend((1..=alike.len()).map(|count| before + all * count as f64 / alike.len() as f64));
    }
    gained
}

/// Mean squared errors at [`FRACTIONS`] if cases are queried in descending order of their scores.
fn errors(cases: &[LabelledCase], scores: &[f64], blend: f64) -> [f64; FRACTIONS.len()] {
    let without: Vec<f64> = cases.iter().map(|case| square(case.nnue, case.deep)).collect();
    let gain = |at: usize| {
        let case = &cases[at];
        without[at] - square(case.nnue + blend * (case.strategist - case.nnue), case.deep)
    };
    let gained = cumulative_gain(scores, gain);
    let all: f64 = without.iter().sum();
    FRACTIONS.map(|fraction| (all - gained[num_cases_in(fraction, cases.len())]) / cases.len() as f64)
}

/// Area under the ROC curve, in which ties count half; `None` if all cases have the same label.
fn auc(cases: &[LabelledCase], probabilities: &[f32]) -> Option<f64> {
    let mut order: Vec<usize> = (0..cases.len()).collect();
    order.sort_by(|&left, &right| probabilities[left].total_cmp(&probabilities[right]));
    let (mut others, mut better, mut pairs) = (0.0, 0.0, 0.0);
    for alike in order.chunk_by(|&left, &right| probabilities[left] == probabilities[right]) {
        let count = alike.iter().filter(|&&at| cases[at].strategist_is_better).count() as f64;
        let rest = alike.len() as f64 - count;
        pairs += count * (others + rest / 2.0);
        others += rest;
        better += count;
    }
    (others > 0.0 && better > 0.0).then(|| pairs / (others * better))
}

/// The blend weight with the least squared error; `None` if both networks give the same values everywhere.
pub(super) fn fitted_blend(cases: &[&LabelledCase]) -> Option<f64> {
    let sums = cases.iter().map(|case| {
        let difference = case.strategist - case.nnue;
        (difference * (case.deep - case.nnue), difference * difference)
    });
    let (product, square) = sums.fold((0.0, 0.0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
    (square > 0.0).then(|| (product / square).clamp(0.0, 1.0))
}

/// Weight of a case in the loss: 1, or the size of the difference between the networks' errors.
pub(super) fn weight(case: &LabelledCase, by_gain: bool) -> f64 {
    // Cases without a difference also need a label, so their weight is not zero.
    const MIN_WEIGHT: f64 = 0.01;
    if by_gain { case.gain().abs() + MIN_WEIGHT } else { 1.0 }
}

/// Weighted mean cross-entropy of a selector's probabilities on labelled cases, in nats.
pub(super) fn loss(selector: &Selector, cases: &[LabelledCase], by_gain: bool) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for case in cases {
        let probability = f64::from(selector.probability(&case.features)).clamp(1e-7, 1.0 - 1e-7);
        let right = if case.strategist_is_better { probability } else { 1.0 - probability };
        let weight = weight(case, by_gain);
        sum -= weight * right.ln();
        weights += weight;
    }
    sum / weights
}

/// The minimum of a function that is unimodal between two bounds, by golden-section search.
pub(super) fn golden_section(mut low: f64, mut high: f64, of: impl Fn(f64) -> f64) -> f64 {
    // The golden ratio.
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    for _ in 0..60 {
        let (left, right) = (high - golden * (high - low), low + golden * (high - low));
        if of(left) < of(right) { high = right } else { low = left }
    }
    (low + high) / 2.0
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::cases::Case;
    use super::*;
    use tandem_chess::Position;
    use tandem_hybrid::{FeatureContext, Features};
    use tandem_util::random::SplitMix;

    /// A position after random moves, with neutral evaluations.
    pub(in super::super) fn case(seed: u64) -> Case {
        let mut random = SplitMix::new(seed);
        let mut position = Position::startpos();
        for _ in 0..random.below(60) {
            let moves = position.legal_moves();
            if moves.is_empty() {
                break;
            }
            position.play(moves[random.below(moves.len() as u32) as usize]);
        }
        let pieces = position.board().occupied().len() as usize;
        let features = Features::of(&position, FeatureContext { depth: 8, psqt_positional_gap: 1.0 });
        Case { features, centipawns: 0.0, strategist: 0.5, deep: 0.5, phase: Phase::of_pieces(pieces / 2) }
    }

    /// The NNUE's win probability is 0.5; the strategist's is right, or wrong by the greatest possible error.
    fn labelled(seed: u64, deep: f64, is_right: bool) -> LabelledCase {
        let strategist = if is_right { deep } else { 1.0 - deep };
        LabelledCase::new(Case { deep, strategist, ..case(seed) }, 100.0, 0.05)
    }

    #[test]
    fn metrics_are_those_of_the_cases() {
        let cases: Vec<LabelledCase> = (0..10).map(|at| labelled(at, 0.9, at < 4)).collect();
        let probabilities: [f32; 10] = [0.9, 0.8, 0.7, 0.1, 0.75, 0.3, 0.2, 0.15, 0.12, 0.05];
        let report = SelectorReport::of(&cases, &probabilities, 0.5, 1.0, 1.0);
        assert_eq!((report.base_rate, report.usage), (0.4, 0.4));
        assert_eq!((report.precision, report.recall), (Some(0.75), Some(0.75)));
        // The top 10 % and 20 % are right; with all queried, precision is the base rate.
        assert_eq!(report.precisions[2..4], [Some(1.0), Some(1.0)]);
        assert_eq!(report.recalls[2..4], [Some(0.25), Some(0.5)]);
        assert_eq!((report.precisions[0], report.recalls[0]), (None, Some(0.0)));
        assert_eq!((report.precisions[10], report.recalls[10]), (Some(0.4), Some(1.0)));
        // Of 24 pairs 18 are in the right order: the third case loses to one, the fourth to five.
        assert!((report.auc.unwrap() - 18.0 / 24.0).abs() < 1e-12);
        let curve = |name: &str| report.curves.iter().find(|curve| curve.name == name).unwrap().errors;
        let nnue_alone = (2.0f64 * 0.4).powi(2);
        assert!((curve("selector")[0] - nnue_alone).abs() < 1e-12);
        // The first two are right, and their errors vanish.
        assert!((curve("selector")[3] - 0.8 * nnue_alone).abs() < 1e-12, "{:?}", curve("selector"));
        // With all queried, the six wrong ones have twice the error of the NNUE.
        let all = 0.6 * 4.0 * nnue_alone;
        for curve in &report.curves {
            assert!((curve.errors[FRACTIONS.len() - 1] - all).abs() < 1e-12, "{}", curve.name);
        }
        // Equal probabilities are as good as random order.
        let even = SelectorReport::of(&cases, &[0.5; 10], 0.5, 1.0, 1.0);
        assert_eq!((even.precisions[2], even.recalls[3]), (Some(0.4), Some(0.2)));
        let half = curve("random")[FRACTIONS.iter().position(|&fraction| fraction == 0.5).unwrap()];
        assert!((half - (nnue_alone + all) / 2.0).abs() < 1e-12);
    }

    #[test]
    fn rules_query_in_their_order() {
        let mut cases: Vec<LabelledCase> = (0..8).map(|at| labelled(at, 0.9, at < 2)).collect();
        for (at, case) in cases.iter_mut().enumerate() {
            case.centipawns = at as f64 * 50.0;
            case.phase = if at < 2 { Phase::Endgame } else { Phase::Opening };
        }
        let error = |rule: Rule| {
            let scores: Vec<f64> = cases.iter().map(|case| rule.score(case)).collect();
            errors(&cases, &scores, 1.0)[3]
        };
        assert!(
            error(Rule::EvenFirst) < error(Rule::Random) && error(Rule::Random) < error(Rule::DecidedFirst)
        );
        assert!(error(Rule::EndgameFirst) < error(Rule::OpeningFirst));
        assert_eq!(error(Rule::EvenFirst), error(Rule::EndgameFirst));
    }

    #[test]
    fn the_fitted_blend_is_that_of_the_values() {
        let cases: Vec<LabelledCase> = (0..50)
            .map(|at| {
                let strategist = 0.1 + 0.016 * at as f64;
                let deep = 0.5 + 0.3 * (strategist - 0.5);
                LabelledCase::new(Case { strategist, deep, ..case(at) }, 100.0, 0.05)
            })
            .collect();
        let all: Vec<&LabelledCase> = cases.iter().collect();
        assert!((fitted_blend(&all).unwrap() - 0.3).abs() < 1e-9);
        assert_eq!(fitted_blend(&[]), None);
    }

    #[test]
    fn golden_section_search_finds_the_minimum() {
        assert!((golden_section(-5.0, 9.0, |x| (x - 2.5).powi(2)) - 2.5).abs() < 1e-6);
    }
}
