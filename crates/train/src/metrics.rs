//! Metrics of a network against labelled data, for all positions and for groups of them: sums of what the
//! registry ([`Metric`]) declares, for networks of all kinds.

use crate::metric::{Head, Metric, NUM_METRICS};
use crate::transformer::HeadWeights;
use tandem_chess::Piece;
use tandem_data::{Outcome, Packed};
use tandem_transformer::encoding::wdl::wdl_of_centipawns;

/// Positions whose label, a score, is beyond this many centipawns are left out of the mean absolute error and
/// of the correlation, because mates and won games would outweigh everything that a search has to decide.
pub const MAX_LABEL_CENTIPAWNS: f64 = 2000.0;

/// Phase of the game by the number of pieces that are not pawns, kings included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// 13 or more pieces that are not pawns, of the 16 that a game begins with.
    Opening,
    /// 7 to 12 pieces that are not pawns, kings included.
    Middlegame,
    /// At most 6 pieces that are not pawns, kings included, for example two rooks and a minor piece against a
    /// rook.
    Endgame,
}

impl Phase {
    /// All phases, from the opening to the endgame, in the order of the indices of [`Metrics::phases`].
    pub const ALL: [Self; 3] = [Self::Opening, Self::Middlegame, Self::Endgame];

    /// Phase of a position, by the pieces on its board.
    pub fn of(position: &Packed) -> Self {
        Self::of_pieces(position.pieces().filter(|(_, _, piece)| *piece != Piece::Pawn).count())
    }

    /// Phase with this number of pieces that are not pawns.
    pub fn of_pieces(pieces: usize) -> Self {
        match pieces {
            0..=6 => Self::Endgame,
            7..=12 => Self::Middlegame,
            _ => Self::Opening,
        }
    }

    /// Name in lower case, for tables and for the names of logged scalars.
    pub fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Middlegame => "middlegame",
            Self::Endgame => "endgame",
        }
    }
}

/// Names of the groups by the number of pieces on the board, kings and pawns included.
pub const PIECE_GROUPS: [&str; 4] = ["2 to 8", "9 to 16", "17 to 24", "25 to 32"];

/// A network's output for a position together with its labels, which are the score of a search and the result
/// of the game; all from the side to move's view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelledPrediction {
    /// Score by the network, in centipawns from the side to move.
    pub centipawns: f64,
    /// Win probability by the network, from 0 to 1, on the scale of the training target.
    pub win_probability: f64,
    /// Score of the label in centipawns, with mates converted by the caller; `None` if the record has no
    /// score.
    pub score: Option<f64>,
    /// Loss of this prediction against the training target; `None` if the record lacks the score or the
    /// result that the target needs.
    pub loss: Option<f64>,
    /// Game result, if it is known; without it, accuracies and calibration leave the position out.
    pub result: Option<Outcome>,
    /// Number of pieces on the board, kings and pawns included.
    pub pieces: usize,
    /// Phase of the game, which decides the group that it is counted in.
    pub phase: Phase,
}

/// Most likely result at a score in centipawns, by [`wdl_of_centipawns`].
pub fn likely_outcome(centipawns: f64) -> Outcome {
    let [win, draw, loss] = wdl_of_centipawns(centipawns);
    if draw >= win && draw >= loss {
        Outcome::Draw
    } else if win > loss {
        Outcome::Win
    } else {
        Outcome::Loss
    }
}

/// Number of bins of the calibration, the comparison of predicted with actual results: equal steps of the
/// predicted win probability.
pub const BINS: usize = 20;

/// One bin of the calibration: positions with about the same predicted win probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Number of positions with a known result in this bin.
    pub count: u64,
    /// Mean predicted win probability of the bin's positions, from 0 to 1.
    pub predicted: f64,
    /// Mean points that the side to move scored in these games: 1 for a win, 0.5 for a draw, 0 for a loss.
    pub actual: f64,
}

/// Metrics that a line for people shows, after the loss, as far as the network has them.
const SUMMARY: [Metric; 6] = [
    Metric::Mae,
    Metric::SignAccuracy,
    Metric::PolicyTop1,
    Metric::ValueError,
    Metric::BucketTop1,
    Metric::ActionAccuracy,
];

/// Numbers of a group: its positions, sum and count of every metric, and for the correlation the sums of both
/// values, of their squares and of their product.
const GROUP_LEN: usize = 1 + 2 * NUM_METRICS + 5;
/// Groups: all positions, those of each phase, and those of each number of pieces.
const GROUPS: usize = 1 + Phase::ALL.len() + PIECE_GROUPS.len();
/// Numbers of a bin of the calibration: the sums of predictions and of points, and their count.
const BIN_LEN: usize = 3;

/// Metrics of a group of positions. Each covers the positions that have the labels and outputs it needs, and is
/// `None` if there are none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricGroup<'a>(&'a [f64]);

impl MetricGroup<'_> {
    /// Number of positions in the group, with and without labels.
    pub fn positions(&self) -> u64 {
        self.0[0] as u64
    }

    /// Value of a metric over the group; `None` if no position has the labels and outputs that it needs, or if
    /// it is undefined.
    pub fn get(&self, metric: Metric) -> Option<f64> {
        let [sum, count] = self.sum_and_count(metric);
        match metric {
            Metric::Correlation => self.correlation(count),
            _ => (count > 0.0).then(|| sum / count),
        }
    }

    /// Number of positions, or of samples, in a metric.
    pub fn count(&self, metric: Metric) -> u64 {
        self.sum_and_count(metric)[1] as u64
    }

    /// Weighted sum of the losses of a transformer's heads; `None` if no head with a positive weight has a loss.
    pub fn weighted_loss(&self, weights: &HeadWeights) -> Option<f64> {
        let losses = Head::ALL.iter().filter_map(|&head| {
            let weight = head.weight(weights);
            self.get(Metric::Loss(head)).filter(|_| weight > 0.0).map(|loss| weight * loss)
        });
        losses.reduce(|sum, loss| sum + loss)
    }

    fn sum_and_count(&self, metric: Metric) -> [f64; 2] {
        let at = 1 + 2 * metric.index();
        [self.0[at], self.0[at + 1]]
    }

    fn correlation(&self, count: f64) -> Option<f64> {
        let &[x, y, xx, yy, xy] = self.0.last_chunk()?;
        let spread = ((count * xx - x * x) * (count * yy - y * y)).max(0.0).sqrt();
        let correlation = (count * xy - x * y) / spread;
        correlation.is_finite().then_some(correlation)
    }
}

/// Metrics over all positions, by phase and by number of pieces, with the calibration.
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// All groups, then the bins. Metrics of several threads or processes are added number by number.
    sums: Vec<f64>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { sums: vec![0.0; GROUPS * GROUP_LEN + BINS * BIN_LEN] }
    }
}

/// Index of the group of all positions.
pub(crate) const WHOLE: usize = 0;

/// Index of the group of a phase.
pub(crate) fn phase_group(phase: Phase) -> usize {
    1 + phase as usize
}

impl Metrics {
    /// Adds one prediction to all groups that it belongs to.
    pub fn add(&mut self, prediction: &LabelledPrediction) {
        let &LabelledPrediction { centipawns, win_probability, score, loss, result, pieces, phase } =
            prediction;
        let pieces_group = 1 + Phase::ALL.len() + (pieces.saturating_sub(1) / 8).min(3);
        let groups = [WHOLE, phase_group(phase), pieces_group];
        self.add_position(&groups);
        if let Some(loss) = loss {
            self.add_value(&groups, Metric::TargetLoss, loss);
        }
        if let Some(score) = score.filter(|score| score.abs() <= MAX_LABEL_CENTIPAWNS) {
            self.add_value(&groups, Metric::Mae, (centipawns - score).abs());
            self.add_pair(&groups, centipawns, score);
        }
        if let Some(result) = result {
            if result != Outcome::Draw {
                let side = centipawns * f64::from(result.sign());
                let value = if side == 0.0 { 0.5 } else { f64::from(u8::from(side > 0.0)) };
                self.add_value(&groups, Metric::SignAccuracy, value);
            }
            let is_likely = f64::from(u8::from(likely_outcome(centipawns) == result));
            self.add_value(&groups, Metric::WdlAccuracy, is_likely);
            // NaN goes to the first bin, where it shows.
            let bin = ((win_probability * BINS as f64) as usize).min(BINS - 1);
            let numbers = &mut self.sums[GROUPS * GROUP_LEN + bin * BIN_LEN..][..BIN_LEN];
            for (sum, value) in numbers.iter_mut().zip([win_probability, f64::from(result.points()), 1.0]) {
                *sum += value;
            }
        }
    }

    /// Counts a position in some groups.
    pub(crate) fn add_position(&mut self, groups: &[usize]) {
        groups.iter().for_each(|group| self.sums[group * GROUP_LEN] += 1.0);
    }

    /// Adds a value to the mean of a metric in some groups.
    pub(crate) fn add_value(&mut self, groups: &[usize], metric: Metric, value: f64) {
        for group in groups {
            let at = group * GROUP_LEN + 1 + 2 * metric.index();
            self.sums[at] += value;
            self.sums[at + 1] += 1.0;
        }
    }

    fn add_pair(&mut self, groups: &[usize], x: f64, y: f64) {
        self.add_value(groups, Metric::Correlation, 0.0);
        for group in groups {
            let end = (group + 1) * GROUP_LEN;
            for (sum, value) in self.sums[end - 5..end].iter_mut().zip([x, y, x * x, y * y, x * y]) {
                *sum += value;
            }
        }
    }

    /// Adds everything that another instance has counted. Floating-point sums depend on the order of merging,
    /// so merge in a fixed order to get the same metrics whatever the number of threads.
    pub fn merge(&mut self, other: &Self) {
        self.sums.iter_mut().zip(&other.sums).for_each(|(own, more)| *own += more);
    }

    /// All sums and counts, which several processes can add up number by number.
    pub(crate) fn sums_mut(&mut self) -> &mut [f64] {
        &mut self.sums
    }

    /// True if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.sums.iter().all(|&sum| sum == 0.0)
    }

    fn group(&self, group: usize) -> MetricGroup<'_> {
        MetricGroup(&self.sums[group * GROUP_LEN..][..GROUP_LEN])
    }

    /// Metrics over all positions, without grouping by phase or number of pieces.
    pub fn overall(&self) -> MetricGroup<'_> {
        self.group(WHOLE)
    }

    /// Metrics of each phase, in the order of [`Phase::ALL`].
    pub fn phases(&self) -> [MetricGroup<'_>; 3] {
        Phase::ALL.map(|phase| self.group(phase_group(phase)))
    }

    /// Metrics by number of pieces, in the order of [`PIECE_GROUPS`]; empty for transformers.
    pub fn pieces(&self) -> [MetricGroup<'_>; 4] {
        std::array::from_fn(|at| self.group(1 + Phase::ALL.len() + at))
    }

    /// All metrics that are known, over all positions and by phase, with their tags, such as `mae` and
    /// `opening/mae`.
    pub(crate) fn scalars(&self) -> impl Iterator<Item = (String, f64)> {
        let phases = Phase::ALL.map(|phase| format!("{}/", phase.name()));
        let groups =
            [String::new()].into_iter().chain(phases).zip([self.overall()].into_iter().chain(self.phases()));
        groups.flat_map(|(prefix, group)| {
            Metric::all()
                .filter_map(move |metric| Some((format!("{prefix}{}", metric.tag()), group.get(metric)?)))
        })
    }

    /// The main metrics in one line, after the validation loss by which checkpoints are compared.
    pub fn summary(&self, loss: Option<f64>) -> String {
        let mut line = format!("validation loss {}", Metric::TargetLoss.cell(loss));
        for metric in SUMMARY {
            if let Some(value) = self.overall().get(metric) {
                line += &format!(", {} {}", metric.label(), metric.text(value));
            }
        }
        line
    }

    /// Calibration of the predicted win probabilities: [`BINS`] equal steps from 0 to 1, without the empty
    /// ones.
    pub fn calibration(&self) -> Vec<Bin> {
        let bins = self.sums[GROUPS * GROUP_LEN..].as_chunks::<BIN_LEN>().0.iter();
        bins.filter(|[.., count]| *count > 0.0)
            .map(|[predicted, actual, count]| Bin {
                count: *count as u64,
                predicted: predicted / count,
                actual: actual / count,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::sigmoid;

    fn prediction(centipawns: f64, score: f64, result: Outcome, pieces: usize) -> LabelledPrediction {
        let win_probability = sigmoid(centipawns / 400.0);
        let target = sigmoid(score / 400.0);
        LabelledPrediction {
            centipawns,
            win_probability,
            score: Some(score),
            loss: Some((win_probability - target).powi(2)),
            result: Some(result),
            pieces,
            phase: Phase::of_pieces(pieces / 2),
        }
    }

    #[test]
    fn metrics_match_a_calculation_by_hand() {
        let mut metrics = Metrics::default();
        for prediction in [
            prediction(100.0, 150.0, Outcome::Win, 32),
            prediction(-50.0, -20.0, Outcome::Win, 20),
            prediction(0.0, 10.0, Outcome::Loss, 10),
            prediction(10.0, 0.0, Outcome::Draw, 4),
            // A label beyond `MAX_LABEL_CENTIPAWNS` is left out of the mean error, but the game counts for the
            // accuracies.
            prediction(1500.0, 31_990.0, Outcome::Win, 4),
        ] {
            metrics.add(&prediction);
        }
        let whole = metrics.overall();
        assert_eq!((whole.positions(), whole.get(Metric::Mae)), (5, Some((50.0 + 30.0 + 10.0 + 10.0) / 4.0)));
        assert_eq!(whole.get(Metric::SignAccuracy), Some(2.5 / 4.0));
        // A small advantage is most likely a draw: correct once, and for the won game.
        assert_eq!(whole.get(Metric::WdlAccuracy), Some(2.0 / 5.0));
        let (x, y) = ([100.0, -50.0, 0.0, 10.0], [150.0, -20.0, 10.0, 0.0]);
        let mean = |values: [f64; 4]| values.iter().sum::<f64>() / 4.0;
        let (mx, my) = (mean(x), mean(y));
        let product = |a: [f64; 4], ma: f64, b: [f64; 4], mb: f64| -> f64 {
            a.iter().zip(b).map(|(a, b)| (a - ma) * (b - mb)).sum()
        };
        let expected = product(x, mx, y, my) / (product(x, mx, x, mx) * product(y, my, y, my)).sqrt();
        assert!((whole.get(Metric::Correlation).unwrap() - expected).abs() < 1e-12);
        assert_eq!(metrics.pieces().map(|group| group.positions()), [2, 1, 1, 1]);
        assert_eq!(metrics.phases().map(|group| group.positions()), [1, 1, 3]);
        assert_eq!(metrics.calibration().iter().map(|bin| bin.count).sum::<u64>(), 5);
    }

    #[test]
    fn without_labels_there_are_no_metrics() {
        let metrics = Metrics::default();
        assert!(Metric::all().all(|metric| metrics.overall().get(metric).is_none()));
        assert!(metrics.calibration().is_empty() && metrics.is_empty());
        // One position has no correlation.
        let mut metrics = Metrics::default();
        metrics.add(&prediction(5.0, 5.0, Outcome::Draw, 32));
        let get = |metric| metrics.overall().get(metric);
        assert_eq!((get(Metric::Correlation), get(Metric::Mae)), (None, Some(0.0)));
        assert_eq!((get(Metric::SignAccuracy), get(Metric::WdlAccuracy)), (None, Some(1.0)));
    }

    #[test]
    fn merging_parts_gives_the_metrics_of_the_whole() {
        let predictions: Vec<LabelledPrediction> = (0..200)
            .map(|n| {
                let result = [Outcome::Loss, Outcome::Draw, Outcome::Win][n % 3];
                prediction((n as f64 * 37.0) % 900.0 - 450.0, n as f64 * 5.0 - 500.0, result, 2 + n % 31)
            })
            .collect();
        let (mut whole, mut left, mut right) = (Metrics::default(), Metrics::default(), Metrics::default());
        predictions.iter().for_each(|prediction| whole.add(prediction));
        predictions[..77].iter().for_each(|prediction| left.add(prediction));
        predictions[77..].iter().for_each(|prediction| right.add(prediction));
        left.merge(&right);
        assert_eq!(left.overall().positions(), whole.overall().positions());
        for metric in
            [Metric::TargetLoss, Metric::Mae, Metric::SignAccuracy, Metric::WdlAccuracy, Metric::Correlation]
        {
            let [a, b] = [&left, &whole].map(|metrics| metrics.overall().get(metric).unwrap());
            assert!((a - b).abs() < 1e-12, "{metric:?}");
        }
        let bins = left.calibration();
        assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), 200);
        assert!(bins.windows(2).all(|pair| pair[0].predicted < pair[1].predicted));
    }

    #[test]
    fn the_likely_outcome_follows_the_score() {
        for (centipawns, outcome) in [
            (0.0, Outcome::Draw),
            (100.0, Outcome::Draw),
            (-100.0, Outcome::Draw),
            (130.0, Outcome::Win),
            (-130.0, Outcome::Loss),
            (1e9, Outcome::Win),
        ] {
            assert_eq!(likely_outcome(centipawns), outcome, "{centipawns}");
        }
    }

    /// Each metric is declared once, so lines, tags and tables agree.
    #[test]
    fn lines_and_tags_derive_from_the_registry() {
        let mut metrics = Metrics::default();
        metrics.add(&prediction(100.0, 150.0, Outcome::Win, 32));
        assert_eq!(
            metrics.summary(Some(0.25)),
            "validation loss 0.250000, MAE 50.0 cp, sign accuracy 100.00 %"
        );
        let scalars: Vec<(String, f64)> = metrics.scalars().collect();
        assert!(scalars.contains(&("mae".into(), 50.0)) && scalars.contains(&("opening/mae".into(), 50.0)));
        let tags: std::collections::HashSet<String> = Metric::all().map(Metric::tag).collect();
        assert_eq!(tags.len(), NUM_METRICS);
        assert!(Metric::all().enumerate().all(|(at, metric)| metric.index() == at));
    }
}
