//! What a selector is worth on some cases.

use super::cases::Weighed;
use crate::metrics::Phase;
use tandem_hybrid::Selector;

/// Shares of the cases that the strategist is asked about, for curves.
pub const SHARES: [f64; 11] = [0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 0.9, 1.0];

/// Rules that anybody would think of: who is asked about first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Nobody in particular.
    Chance,
    /// Positions that the NNUE finds even.
    EvenFirst,
    /// Positions that it finds decided.
    DecidedFirst,
    /// The beginning of the game.
    OpeningFirst,
    /// Its end.
    EndgameFirst,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Chance, Self::EvenFirst, Self::DecidedFirst, Self::OpeningFirst, Self::EndgameFirst];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chance => "chance",
            Self::EvenFirst => "even first",
            Self::DecidedFirst => "decided first",
            Self::OpeningFirst => "opening first",
            Self::EndgameFirst => "endgame first",
        }
    }

    /// The greater, the sooner a case is asked about. Those that are alike are drawn by chance.
    fn score(self, case: &Weighed) -> f64 {
        let phase = Phase::ALL.iter().position(|&phase| phase == case.phase).unwrap_or(0) as f64;
        match self {
            Self::Chance => 0.0,
            Self::EvenFirst => -case.centipawns.abs(),
            Self::DecidedFirst => case.centipawns.abs(),
            Self::OpeningFirst => -phase,
            Self::EndgameFirst => phase,
        }
    }
}

/// The mean square error of the value, from -1 to 1, by the share of cases that the strategist is asked about.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Who chooses.
    pub name: &'static str,
    /// The errors at [`SHARES`].
    pub errors: [f64; SHARES.len()],
}

/// What a selector is worth.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Cases.
    pub cases: usize,
    /// The share in which the strategist knows better.
    pub base_rate: f64,
    /// The share that it is asked about.
    pub usage: f64,
    /// Of those, the share in which it knows better.
    pub precision: Option<f64>,
    /// Of those in which it knows better, the share that it is asked about.
    pub recall: Option<f64>,
    /// How probable it is that a case in which it knows better is held for likelier than one in which it does not.
    pub auc: Option<f64>,
    /// The probability from which on it is asked.
    pub threshold: f64,
    /// Its share of the value where it is asked.
    pub blend: f64,
    /// The scale of the NNUE's centipawns.
    pub scale: f64,
    /// The error of a value that is always the same, the mean.
    pub constant: f64,
    /// The selector's curve, and after it each [`Rule`]'s.
    pub curves: Vec<Curve>,
    /// The precision if it asked about the likeliest, at [`SHARES`].
    pub precisions: [Option<f64>; SHARES.len()],
    /// The recall at the same shares.
    pub recalls: [Option<f64>; SHARES.len()],
}

impl Report {
    /// By the probabilities that a selector gives to cases.
    pub(super) fn of(
        cases: &[Weighed],
        probabilities: &[f32],
        threshold: f32,
        blend: f64,
        scale: f64,
    ) -> Self {
        let count = cases.len() as f64;
        let better = cases.iter().filter(|case| case.knows_better).count() as f64;
        let asked = || cases.iter().zip(probabilities).filter(|&(_, &share)| share >= threshold);
        let (used, right) =
            (asked().count() as f64, asked().filter(|(case, _)| case.knows_better).count() as f64);
        let ratio = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        let mean = cases.iter().map(|case| case.deep).sum::<f64>() / count;
        let constant = cases.iter().map(|case| square(mean, case.deep)).sum::<f64>() / count;
        let scores: Vec<f64> = probabilities.iter().map(|&share| share.into()).collect();
        let mut curves = vec![Curve { name: "selector", errors: errors(cases, &scores, blend) }];
        curves.extend(Rule::ALL.map(|rule| {
            let scores: Vec<f64> = cases.iter().map(|case| rule.score(case)).collect();
            Curve { name: rule.name(), errors: errors(cases, &scores, blend) }
        }));
        let hits = gained(&scores, |at| if cases[at].knows_better { 1.0 } else { 0.0 });
        let firsts = SHARES.map(|share| {
            let first = first_of(share, cases.len());
            (first as f64, hits[first])
        });
        Self {
            cases: cases.len(),
            base_rate: better / count,
            usage: used / count,
            precision: ratio(right, used),
            recall: ratio(right, better),
            auc: auc(cases, probabilities),
            threshold: threshold.into(),
            blend,
            scale,
            constant,
            curves,
            precisions: firsts.map(|(used, right)| ratio(right, used)),
            recalls: firsts.map(|(_, right)| ratio(right, better)),
        }
    }
}

/// The square of a difference of values, which are twice chances.
fn square(left: f64, right: f64) -> f64 {
    (2.0 * (left - right)).powi(2)
}

/// How many cases a share of them is.
fn first_of(share: f64, cases: usize) -> usize {
    (share * cases as f64).round() as usize
}

/// What asking about the first so many gains, those with the highest scores first. Those whose scores are alike count as if they
/// were drawn by chance: by equal parts.
fn gained(scores: &[f64], gain: impl Fn(usize) -> f64) -> Vec<f64> {
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

/// The errors of a curve.
fn errors(cases: &[Weighed], scores: &[f64], blend: f64) -> [f64; SHARES.len()] {
    let without: Vec<f64> = cases.iter().map(|case| square(case.nnue, case.deep)).collect();
    let gain = |at: usize| {
        let case = &cases[at];
        without[at] - square(case.nnue + blend * (case.strategist - case.nnue), case.deep)
    };
    let gained = gained(scores, gain);
    let all: f64 = without.iter().sum();
    SHARES.map(|share| (all - gained[first_of(share, cases.len())]) / cases.len() as f64)
}

/// The area under the curve of hits by false alarms.
fn auc(cases: &[Weighed], probabilities: &[f32]) -> Option<f64> {
    let mut order: Vec<usize> = (0..cases.len()).collect();
    order.sort_by(|&left, &right| probabilities[left].total_cmp(&probabilities[right]));
    let (mut others, mut better, mut pairs) = (0.0, 0.0, 0.0);
    for alike in order.chunk_by(|&left, &right| probabilities[left] == probabilities[right]) {
        let count = alike.iter().filter(|&&at| cases[at].knows_better).count() as f64;
        let rest = alike.len() as f64 - count;
        pairs += count * (others + rest / 2.0);
        others += rest;
        better += count;
    }
    (others > 0.0 && better > 0.0).then(|| pairs / (others * better))
}

/// The strategist's share of the value that makes the error of some cases least; none where both say the same.
pub(super) fn fitted_blend(cases: &[&Weighed]) -> Option<f64> {
    let sums = cases.iter().map(|case| {
        let apart = case.strategist - case.nnue;
        (apart * (case.deep - case.nnue), apart * apart)
    });
    let (product, square) = sums.fold((0.0, 0.0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
    (square > 0.0).then(|| (product / square).clamp(0.0, 1.0))
}

/// How much a case counts.
pub(super) fn weight(case: &Weighed, by_gain: bool) -> f64 {
    // Also what makes no difference is to be known for it, a little.
    const LEAST: f64 = 0.01;
    if by_gain { case.gain().abs() + LEAST } else { 1.0 }
}

/// The mean surprise of a selector.
pub(super) fn loss(selector: &Selector, cases: &[Weighed], by_gain: bool) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for case in cases {
        let probability = f64::from(selector.probability(&case.features)).clamp(1e-7, 1.0 - 1e-7);
        let right = if case.knows_better { probability } else { 1.0 - probability };
        let weight = weight(case, by_gain);
        sum -= weight * right.ln();
        weights += weight;
    }
    sum / weights
}

/// Where a function with one valley is least.
pub(super) fn least(mut low: f64, mut high: f64, of: impl Fn(f64) -> f64) -> f64 {
    // The part of a stretch that is to the whole as the rest is to it.
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
    use tandem_chess::random::SplitMix;
    use tandem_hybrid::{Circumstances, Features};

    /// A position after some moves by chance, about which nothing else is known.
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
        let features = Features::of(&position, Circumstances { depth: 8, discord: 1.0 });
        Case { features, centipawns: 0.0, strategist: 0.5, deep: 0.5, phase: Phase::of_pieces(pieces / 2) }
    }

    /// The NNUE says one half; the strategist is right, or as wrong as can be.
    fn weighed(seed: u64, deep: f64, is_right: bool) -> Weighed {
        let strategist = if is_right { deep } else { 1.0 - deep };
        Weighed::new(Case { deep, strategist, ..case(seed) }, 100.0, 0.05)
    }

    #[test]
    fn figures_are_those_of_the_cases() {
        let cases: Vec<Weighed> = (0..10).map(|at| weighed(at, 0.9, at < 4)).collect();
        let probabilities: [f32; 10] = [0.9, 0.8, 0.7, 0.1, 0.75, 0.3, 0.2, 0.15, 0.12, 0.05];
        let report = Report::of(&cases, &probabilities, 0.5, 1.0, 1.0);
        assert_eq!((report.base_rate, report.usage), (0.4, 0.4));
        assert_eq!((report.precision, report.recall), (Some(0.75), Some(0.75)));
        // The likeliest is right, so are the first two, and of all as many as there are.
        assert_eq!(report.precisions[2..4], [Some(1.0), Some(1.0)]);
        assert_eq!(report.recalls[2..4], [Some(0.25), Some(0.5)]);
        assert_eq!((report.precisions[0], report.recalls[0]), (None, Some(0.0)));
        assert_eq!((report.precisions[10], report.recalls[10]), (Some(0.4), Some(1.0)));
        // Of 24 pairs 18 stand right: the third loses to one, the fourth to five.
        assert!((report.auc.unwrap() - 18.0 / 24.0).abs() < 1e-12);
        let curve = |name: &str| report.curves.iter().find(|curve| curve.name == name).unwrap().errors;
        let nobody = (2.0f64 * 0.4).powi(2);
        assert!((curve("selector")[0] - nobody).abs() < 1e-12);
        // The first two are right, and their errors go.
        assert!((curve("selector")[3] - 0.8 * nobody).abs() < 1e-12, "{:?}", curve("selector"));
        // Asked about all, the six that are wrong are twice as far off as nobody.
        let all = 0.6 * 4.0 * nobody;
        for curve in &report.curves {
            assert!((curve.errors[SHARES.len() - 1] - all).abs() < 1e-12, "{}", curve.name);
        }
        // Who says the same of all is as often right as chance.
        let even = Report::of(&cases, &[0.5; 10], 0.5, 1.0, 1.0);
        assert_eq!((even.precisions[2], even.recalls[3]), (Some(0.4), Some(0.2)));
        let half = curve("chance")[SHARES.iter().position(|&share| share == 0.5).unwrap()];
        assert!((half - (nobody + all) / 2.0).abs() < 1e-12);
    }

    #[test]
    fn rules_ask_in_their_order() {
        let mut cases: Vec<Weighed> = (0..8).map(|at| weighed(at, 0.9, at < 2)).collect();
        for (at, case) in cases.iter_mut().enumerate() {
            case.centipawns = at as f64 * 50.0;
            case.phase = if at < 2 { Phase::Endgame } else { Phase::Opening };
        }
        let error = |rule: Rule| {
            let scores: Vec<f64> = cases.iter().map(|case| rule.score(case)).collect();
            errors(&cases, &scores, 1.0)[3]
        };
        assert!(
            error(Rule::EvenFirst) < error(Rule::Chance) && error(Rule::Chance) < error(Rule::DecidedFirst)
        );
        assert!(error(Rule::EndgameFirst) < error(Rule::OpeningFirst));
        assert_eq!(error(Rule::EvenFirst), error(Rule::EndgameFirst));
    }

    #[test]
    fn the_blend_is_found_that_the_values_were_made_with() {
        let cases: Vec<Weighed> = (0..50)
            .map(|at| {
                let strategist = 0.1 + 0.016 * at as f64;
                let deep = 0.5 + 0.3 * (strategist - 0.5);
                Weighed::new(Case { strategist, deep, ..case(at) }, 100.0, 0.05)
            })
            .collect();
        let all: Vec<&Weighed> = cases.iter().collect();
        assert!((fitted_blend(&all).unwrap() - 0.3).abs() < 1e-9);
        assert_eq!(fitted_blend(&[]), None);
    }

    #[test]
    fn valleys_are_found() {
        assert!((least(-5.0, 9.0, |x| (x - 2.5).powi(2)) - 2.5).abs() < 1e-6);
    }
}
