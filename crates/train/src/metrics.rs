//! What a network's judgements are worth against data.

use tandem_chess::Piece;
use tandem_data::{Outcome, Packed};
use tandem_transformer::encoding::outcomes::chances_of_outcomes;

/// Labels further from zero than this, in centipawns, are left out of the mean error and of the correlation: mates and won
/// games would outweigh everything that a search has to decide.
pub const CLEAR_LABEL: f64 = 2000.0;

/// How much of the game is left, by pieces that are no pawns, kings among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// 13 and more.
    Opening,
    /// 7 to 12.
    Middlegame,
    /// At most 6.
    Endgame,
}

impl Phase {
    /// All of them, in their order.
    pub const ALL: [Self; 3] = [Self::Opening, Self::Middlegame, Self::Endgame];

    /// That of a position.
    pub fn of(position: &Packed) -> Self {
        Self::of_pieces(position.pieces().filter(|(_, _, piece)| *piece != Piece::Pawn).count())
    }

    /// That of so many pieces that are no pawns.
    pub fn of_pieces(pieces: usize) -> Self {
        match pieces {
            0..=6 => Self::Endgame,
            7..=12 => Self::Middlegame,
            _ => Self::Opening,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Middlegame => "middlegame",
            Self::Endgame => "endgame",
        }
    }
}

/// The groups that positions are put in by the number of their pieces.
pub const PIECE_GROUPS: [&str; 4] = ["2 to 8", "9 to 16", "17 to 24", "25 to 32"];

/// What a network says of a position, and what is known of it. Everything is seen by the side to move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// The network's score.
    pub centipawns: f64,
    /// The network's chance to win, on the target's scale.
    pub chance: f64,
    /// The label's score in centipawns; a mate is whatever the caller takes it for.
    pub score: Option<f64>,
    /// The loss for it.
    pub loss: Option<f64>,
    /// How the game ended.
    pub result: Option<Outcome>,
    /// Pieces on the board.
    pub pieces: usize,
    /// How much of the game is left.
    pub phase: Phase,
}

/// The most likely end of a game at a score in centipawns, by [`chances_of_outcomes`].
pub fn likely_outcome(centipawns: f64) -> Outcome {
    let [win, draw, loss] = chances_of_outcomes(centipawns);
    if draw >= win && draw >= loss {
        Outcome::Draw
    } else if win > loss {
        Outcome::Win
    } else {
        Outcome::Loss
    }
}

/// A sum, and of how many.
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

/// What a correlation is made of: the sums of both numbers, of their squares and of their product.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Pairs {
    count: u64,
    sums: [f64; 5],
}

impl Pairs {
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

/// The figures of some positions. Each is of those positions that have what it needs, and missing if none has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    count: u64,
    loss: Mean,
    error: Mean,
    sign: Mean,
    wdl: Mean,
    pairs: Pairs,
}

impl Figures {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.loss.merge(&other.loss);
        self.error.merge(&other.error);
        self.sign.merge(&other.sign);
        self.wdl.merge(&other.wdl);
        self.pairs.merge(&other.pairs);
    }

    /// Positions that were judged.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean loss.
    pub fn loss(&self) -> Option<f64> {
        self.loss.value()
    }

    /// How far the network's score is from the label's on average, in centipawns. Labels beyond [`CLEAR_LABEL`] are left out.
    pub fn mae(&self) -> Option<f64> {
        self.error.value()
    }

    /// In games that somebody won: how often the score's sign is on the winner's side. A score of exactly zero counts half.
    pub fn sign_accuracy(&self) -> Option<f64> {
        self.sign.value()
    }

    /// How often the game ended as [`likely_outcome`] says for the network's score.
    pub fn wdl_accuracy(&self) -> Option<f64> {
        self.wdl.value()
    }

    /// The correlation of the network's scores with the labels', both in centipawns. Labels beyond [`CLEAR_LABEL`] are left
    /// out.
    pub fn correlation(&self) -> Option<f64> {
        self.pairs.correlation()
    }
}

/// Bins of the calibration.
pub const BINS: usize = 20;

/// Positions for which the network gave about the same chance to win.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Of games whose end is known.
    pub count: u64,
    /// The mean of the chances that the network gave.
    pub predicted: f64,
    /// The mean of the points that were made.
    pub actual: f64,
}

/// What a network's judgements are worth, over all positions and in groups of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    whole: Figures,
    phases: [Figures; 3],
    pieces: [Figures; 4],
    /// Chances given, and points made.
    bins: [(Mean, Mean); BINS],
}

impl Metrics {
    /// Counts a judgement.
    pub fn add(&mut self, judgement: &Judgement) {
        let &Judgement { centipawns, chance, score, loss, result, pieces, phase, .. } = judgement;
        let mut one = Figures { count: 1, ..Figures::default() };
        if let Some(loss) = loss {
            one.loss.add(loss);
        }
        if let Some(score) = score.filter(|score| score.abs() <= CLEAR_LABEL) {
            one.error.add((centipawns - score).abs());
            one.pairs.add(centipawns, score);
        }
        if let Some(result) = result {
            if result != Outcome::Draw {
                let side = centipawns * f64::from(result.sign());
                one.sign.add(if side == 0.0 { 0.5 } else { f64::from(u8::from(side > 0.0)) });
            }
            one.wdl.add(f64::from(u8::from(likely_outcome(centipawns) == result)));
            // A chance that is no number goes to the first bin, where it shows.
            let (predicted, actual) = &mut self.bins[((chance * BINS as f64) as usize).min(BINS - 1)];
            predicted.add(chance);
            actual.add(f64::from(result.points()));
        }
        self.whole.merge(&one);
        self.phases[phase as usize].merge(&one);
        self.pieces[(pieces.saturating_sub(1) / 8).min(3)].merge(&one);
    }

    /// Counts what another has counted. Sums depend on the order in which parts come together: who merges the same parts in
    /// the same order has the same figures, whatever the threads did.
    pub fn merge(&mut self, other: &Self) {
        self.whole.merge(&other.whole);
        self.phases.iter_mut().zip(&other.phases).for_each(|(own, more)| own.merge(more));
        self.pieces.iter_mut().zip(&other.pieces).for_each(|(own, more)| own.merge(more));
        for ((predicted, actual), more) in self.bins.iter_mut().zip(&other.bins) {
            predicted.merge(&more.0);
            actual.merge(&more.1);
        }
    }

    /// The figures of all positions.
    pub fn whole(&self) -> &Figures {
        &self.whole
    }

    /// Those of each phase, in the order of [`Phase::ALL`].
    pub fn phases(&self) -> &[Figures; 3] {
        &self.phases
    }

    /// Those of positions with so many pieces, in the order of [`PIECE_GROUPS`].
    pub fn pieces(&self) -> &[Figures; 4] {
        &self.pieces
    }

    /// Positions that were judged.
    pub fn count(&self) -> u64 {
        self.whole.count()
    }

    /// See [`Figures::loss`].
    pub fn loss(&self) -> Option<f64> {
        self.whole.loss()
    }

    /// See [`Figures::mae`].
    pub fn mae(&self) -> Option<f64> {
        self.whole.mae()
    }

    /// See [`Figures::sign_accuracy`].
    pub fn sign_accuracy(&self) -> Option<f64> {
        self.whole.sign_accuracy()
    }

    /// See [`Figures::wdl_accuracy`].
    pub fn wdl_accuracy(&self) -> Option<f64> {
        self.whole.wdl_accuracy()
    }

    /// See [`Figures::correlation`].
    pub fn correlation(&self) -> Option<f64> {
        self.whole.correlation()
    }

    /// What came of the chances that the network gave: [`BINS`] equal steps from 0 to 1, those without positions left out.
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

    fn judgement(centipawns: f64, score: f64, result: Outcome, pieces: usize) -> Judgement {
        let chance = sigmoid(centipawns / 400.0);
        let target = sigmoid(score / 400.0);
        Judgement {
            centipawns,
            chance,
            score: Some(score),
            loss: Some((chance - target).powi(2)),
            result: Some(result),
            pieces,
            phase: Phase::of_pieces(pieces / 2),
        }
    }

    #[test]
    fn figures_are_those_of_a_calculation_by_hand() {
        let mut metrics = Metrics::default();
        for judgement in [
            judgement(100.0, 150.0, Outcome::Win, 32),
            judgement(-50.0, -20.0, Outcome::Win, 20),
            judgement(0.0, 10.0, Outcome::Loss, 10),
            judgement(10.0, 0.0, Outcome::Draw, 4),
            // Too clear a label for the mean error, but a result like any other.
            judgement(1500.0, 31_990.0, Outcome::Win, 4),
        ] {
            metrics.add(&judgement);
        }
        assert_eq!((metrics.count(), metrics.mae()), (5, Some((50.0 + 30.0 + 10.0 + 10.0) / 4.0)));
        assert_eq!(metrics.sign_accuracy(), Some(2.5 / 4.0));
        // A small advantage is most likely a draw: right once, and for the won game.
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
    fn nothing_known_gives_no_figures() {
        let metrics = Metrics::default();
        assert_eq!((metrics.loss(), metrics.mae(), metrics.correlation()), (None, None, None));
        assert_eq!((metrics.sign_accuracy(), metrics.wdl_accuracy()), (None, None));
        assert!(metrics.calibration().is_empty());
        // One position has no correlation.
        let mut metrics = Metrics::default();
        metrics.add(&judgement(5.0, 5.0, Outcome::Draw, 32));
        assert_eq!((metrics.correlation(), metrics.mae()), (None, Some(0.0)));
        assert_eq!((metrics.sign_accuracy(), metrics.wdl_accuracy()), (None, Some(1.0)));
    }

    #[test]
    fn parts_come_together() {
        let judgements: Vec<Judgement> = (0..200)
            .map(|n| {
                let result = [Outcome::Loss, Outcome::Draw, Outcome::Win][n % 3];
                judgement((n as f64 * 37.0) % 900.0 - 450.0, n as f64 * 5.0 - 500.0, result, 2 + n % 31)
            })
            .collect();
        let (mut whole, mut left, mut right) = (Metrics::default(), Metrics::default(), Metrics::default());
        judgements.iter().for_each(|judgement| whole.add(judgement));
        judgements[..77].iter().for_each(|judgement| left.add(judgement));
        judgements[77..].iter().for_each(|judgement| right.add(judgement));
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
    fn the_likely_end_follows_the_score() {
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
