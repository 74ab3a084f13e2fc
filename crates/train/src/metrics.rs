//! Metrics of a network against labelled data: loss, error, accuracy, correlation and calibration, for all
//! positions and for groups of them.

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

/// A running mean: the sum and the number of its values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Mean {
    pub(crate) sum: f64,
    pub(crate) count: u64,
}

impl Mean {
    pub(crate) fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.count += other.count;
    }

    pub(crate) fn value(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// Sums for a correlation: of both values, of their squares and of their product.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CorrelationSums {
    count: u64,
    sums: [f64; 5],
}

impl CorrelationSums {
    fn add(&mut self, x: f64, y: f64) {
        self.count += 1;
        for (sum, value) in self.sums.iter_mut().zip([x, y, x * x, y * y, x * y]) {
            *sum += value;
        }
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sums.iter_mut().zip(other.sums).for_each(|(sum, more)| *sum += more);
    }

    fn correlation(&self) -> Option<f64> {
        let count = self.count as f64;
        let [x, y, xx, yy, xy] = self.sums;
        let spread = ((count * xx - x * x) * (count * yy - y * y)).max(0.0).sqrt();
        let correlation = (count * xy - x * y) / spread;
        correlation.is_finite().then_some(correlation)
    }
}

/// Metrics of a group of positions. Each covers the positions that have the labels it needs, and is `None` if
/// there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GroupMetrics {
    count: u64,
    loss: Mean,
    error: Mean,
    sign: Mean,
    wdl: Mean,
    pairs: CorrelationSums,
}

impl GroupMetrics {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.loss.merge(&other.loss);
        self.error.merge(&other.error);
        self.sign.merge(&other.sign);
        self.wdl.merge(&other.wdl);
        self.pairs.merge(&other.pairs);
    }

    /// Number of positions in the group, with and without labels.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean training loss of the positions that have a target; the checkpoint with the lowest validation loss
    /// is the best.
    pub fn loss(&self) -> Option<f64> {
        self.loss.value()
    }

    /// Mean absolute error of the network's scores against the labels' scores, in centipawns. Labels beyond
    /// [`MAX_LABEL_CENTIPAWNS`] are left out.
    pub fn mae(&self) -> Option<f64> {
        self.error.value()
    }

    /// Fraction of decisive games in which the sign of the score favours the winner; a score of exactly zero
    /// counts half.
    pub fn sign_accuracy(&self) -> Option<f64> {
        self.sign.value()
    }

    /// Fraction of games that ended as [`likely_outcome`] predicts from the network's score.
    pub fn wdl_accuracy(&self) -> Option<f64> {
        self.wdl.value()
    }

    /// Pearson correlation of the network's scores with the labels', both in centipawns. Labels beyond
    /// [`MAX_LABEL_CENTIPAWNS`] are left out.
    pub fn correlation(&self) -> Option<f64> {
        self.pairs.correlation()
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

/// Metrics over all positions, by phase and by number of pieces, with the calibration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    whole: GroupMetrics,
    phases: [GroupMetrics; 3],
    pieces: [GroupMetrics; 4],
    /// Predicted win probabilities and points scored, for each bin of the calibration.
    bins: [(Mean, Mean); BINS],
}

impl Metrics {
    /// Adds one prediction to all groups that it belongs to.
    pub fn add(&mut self, prediction: &LabelledPrediction) {
        let &LabelledPrediction { centipawns, win_probability, score, loss, result, pieces, phase, .. } =
            prediction;
        let mut one = GroupMetrics { count: 1, ..GroupMetrics::default() };
        if let Some(loss) = loss {
            one.loss.add(loss);
        }
        if let Some(score) = score.filter(|score| score.abs() <= MAX_LABEL_CENTIPAWNS) {
            one.error.add((centipawns - score).abs());
            one.pairs.add(centipawns, score);
        }
        if let Some(result) = result {
            if result != Outcome::Draw {
                let side = centipawns * f64::from(result.sign());
                one.sign.add(if side == 0.0 { 0.5 } else { f64::from(u8::from(side > 0.0)) });
            }
            one.wdl.add(f64::from(u8::from(likely_outcome(centipawns) == result)));
            // NaN goes to the first bin, where it shows.
            let (predicted, actual) =
                &mut self.bins[((win_probability * BINS as f64) as usize).min(BINS - 1)];
            predicted.add(win_probability);
            actual.add(f64::from(result.points()));
        }
        self.whole.merge(&one);
        self.phases[phase as usize].merge(&one);
        self.pieces[(pieces.saturating_sub(1) / 8).min(3)].merge(&one);
    }

    /// Adds everything that another instance has counted. Floating-point sums depend on the order of merging,
    /// so merge in a fixed order to get the same metrics whatever the number of threads.
    pub fn merge(&mut self, other: &Self) {
        self.whole.merge(&other.whole);
        self.phases.iter_mut().zip(&other.phases).for_each(|(own, more)| own.merge(more));
        self.pieces.iter_mut().zip(&other.pieces).for_each(|(own, more)| own.merge(more));
        for ((predicted, actual), more) in self.bins.iter_mut().zip(&other.bins) {
            predicted.merge(&more.0);
            actual.merge(&more.1);
        }
    }

    /// Metrics over all positions, without grouping by phase or number of pieces.
    pub fn overall(&self) -> &GroupMetrics {
        &self.whole
    }

    /// Metrics of each phase, in the order of [`Phase::ALL`].
    pub fn phases(&self) -> &[GroupMetrics; 3] {
        &self.phases
    }

    /// Metrics by number of pieces, in the order of [`PIECE_GROUPS`].
    pub fn pieces(&self) -> &[GroupMetrics; 4] {
        &self.pieces
    }

    /// Number of positions counted so far, over all groups.
    pub fn count(&self) -> u64 {
        self.whole.count()
    }

    /// Mean training loss of all positions that have a target; `None` if there are none.
    pub fn loss(&self) -> Option<f64> {
        self.whole.loss()
    }

    /// Mean absolute difference between the network's scores and the labels' scores, in centipawns, over all
    /// positions. Labels beyond [`MAX_LABEL_CENTIPAWNS`] are left out; `None` if no label remains.
    pub fn mae(&self) -> Option<f64> {
        self.whole.mae()
    }

    /// Fraction of all positions from decisive games in which the sign of the network's score favours the
    /// winner (a score of exactly zero counts half); `None` if there are none.
    pub fn sign_accuracy(&self) -> Option<f64> {
        self.whole.sign_accuracy()
    }

    /// Fraction of all positions with a known result whose game ended with the win, draw or loss that
    /// [`likely_outcome`] predicts from the network's score; `None` if there are none.
    pub fn wdl_accuracy(&self) -> Option<f64> {
        self.whole.wdl_accuracy()
    }

    /// Pearson correlation of the network's scores with the labels' scores over all positions, from -1 to 1.
    /// Labels beyond [`MAX_LABEL_CENTIPAWNS`] are left out; `None` if it is undefined.
    pub fn correlation(&self) -> Option<f64> {
        self.whole.correlation()
    }

    /// Calibration of the predicted win probabilities: [`BINS`] equal steps from 0 to 1, without the empty
    /// ones.
    pub fn calibration(&self) -> Vec<Bin> {
        let bin = |(predicted, actual): &(Mean, Mean)| {
            let (predicted, actual) = (predicted.value()?, actual.value()?);
            Some((predicted, actual))
        };
        let bins = self.bins.iter().filter_map(|means| Some((means.0.count, bin(means)?)));
        bins.map(|(count, (predicted, actual))| Bin { count, predicted, actual }).collect()
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
        assert_eq!((metrics.count(), metrics.mae()), (5, Some((50.0 + 30.0 + 10.0 + 10.0) / 4.0)));
        assert_eq!(metrics.sign_accuracy(), Some(2.5 / 4.0));
        // A small advantage is most likely a draw: correct once, and for the won game.
        assert_eq!(metrics.wdl_accuracy(), Some(2.0 / 5.0));
        let (x, y) = ([100.0, -50.0, 0.0, 10.0], [150.0, -20.0, 10.0, 0.0]);
        let mean = |values: [f64; 4]| values.iter().sum::<f64>() / 4.0;
        let (mx, my) = (mean(x), mean(y));
        let product = |a: [f64; 4], ma: f64, b: [f64; 4], mb: f64| -> f64 {
            a.iter().zip(b).map(|(a, b)| (a - ma) * (b - mb)).sum()
        };
        let expected = product(x, mx, y, my) / (product(x, mx, x, mx) * product(y, my, y, my)).sqrt();
        assert!((metrics.correlation().unwrap() - expected).abs() < 1e-12);
        assert_eq!(metrics.pieces().map(|group| group.count()), [2, 1, 1, 1]);
        assert_eq!(metrics.phases().map(|group| group.count()), [1, 1, 3]);
        assert_eq!(metrics.calibration().iter().map(|bin| bin.count).sum::<u64>(), 5);
    }

    #[test]
    fn without_labels_there_are_no_metrics() {
        let metrics = Metrics::default();
        assert_eq!((metrics.loss(), metrics.mae(), metrics.correlation()), (None, None, None));
        assert_eq!((metrics.sign_accuracy(), metrics.wdl_accuracy()), (None, None));
        assert!(metrics.calibration().is_empty());
        // One position has no correlation.
        let mut metrics = Metrics::default();
        metrics.add(&prediction(5.0, 5.0, Outcome::Draw, 32));
        assert_eq!((metrics.correlation(), metrics.mae()), (None, Some(0.0)));
        assert_eq!((metrics.sign_accuracy(), metrics.wdl_accuracy()), (None, Some(1.0)));
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
        assert_eq!(left.count(), whole.count());
        for (a, b) in [
            (left.loss(), whole.loss()),
            (left.mae(), whole.mae()),
            (left.sign_accuracy(), whole.sign_accuracy()),
            (left.wdl_accuracy(), whole.wdl_accuracy()),
            (left.correlation(), whole.correlation()),
        ] {
            assert!((a.unwrap() - b.unwrap()).abs() < 1e-12);
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
}
