//! Predictions of a network for the positions of a unit, and the metrics that follow from them.

use super::bootstrap_ci::UnitSum;
use super::model::{Model, PositionScorer};
use super::units::Unit;
use crate::error::LabError;
use crate::model_output::{sample_values, win_probability, win_probability_after_move};
use tandem_chess::{Board, Move, Position};
use tandem_data::Record;
use tandem_hybrid::{AccumulatorReader, Bridge};
use tandem_train::Phase;
use tandem_train::transformer::*;
use tandem_transformer::legal::{Temperature, probabilities};
use tandem_transformer::{Network, Scratch};

/// The metrics of the tables in their order.
pub(super) const METRICS: [Metric; 17] = [
    Metric::PolicyTop1,
    Metric::PolicyTop3,
    Metric::PolicyTop5,
    Metric::Loss(Head::Policy),
    Metric::ValueError,
    Metric::Loss(Head::ActionValue),
    Metric::BucketTop1,
    Metric::BucketTop5,
    Metric::ActionAccuracy,
    Metric::KendallTau,
    Metric::PolicyAbove1,
    Metric::PolicyAbove2,
    Metric::PolicyAbove5,
    Metric::PolicyAbove10,
    Metric::ReduciblePolicyLoss,
    Metric::SearchPolicyLoss,
    Metric::ValueAccuracy,
];
/// The metrics from this index on have a table of their own.
pub(super) const FIRST_FURTHER: usize = 10;
/// Index of the value's error, which is computed in the same way for all networks.
pub(super) const VALUE_ERROR: usize = 4;
/// For each of the first metrics, the number of top moves among which the move played must be.
const TOP_MOVES: [usize; 3] = [1, 3, 5];

/// Sums of all metrics, first over all positions, then over those of each game phase.
pub(super) type MetricGroups = [[UnitSum; METRICS.len()]; 1 + Phase::ALL.len()];

/// Adds a value to a metric, both over all positions and in its game phase.
pub(super) fn add_value(groups: &mut MetricGroups, phase: Phase, metric: usize, value: f64) {
    for group in [0, 1 + phase as usize] {
        groups[group][metric].add(value);
    }
}

/// The prediction of a network for a position.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Prediction {
    /// From -1 for a lost position to 1 for a won one; in centipawns for networks that score positions, until
    /// they are scaled.
    pub(super) value: Option<f64>,
    /// The move with the highest probability or value.
    pub(super) best: Option<Move>,
}

/// The predictions of a network for a unit.
#[derive(Debug)]
pub(super) struct Predictions {
    /// Sums of all metrics except the value's error.
    pub(super) metrics: MetricGroups,
    /// One prediction for each position that the filter keeps.
    pub(super) positions: Vec<Prediction>,
}

/// A network with the state that one thread needs to evaluate it.
pub(super) enum Scorer<'a> {
    Positions(PositionScorer<'a>),
    Transformer(TransformerScorer<'a>),
}

/// A transformer with its bridge, if it has one, and its buffers.
pub(super) struct TransformerScorer<'a> {
    network: &'a Network,
    bridge: Option<(&'a Bridge, AccumulatorReader)>,
    scratch: Box<Scratch>,
}

impl TransformerScorer<'_> {
    /// The layout of the samples that the network reads.
    fn shape(&self) -> SampleShape {
        let bridge_inputs = self.bridge.as_ref().map_or(0, |(bridge, _)| bridge.inputs());
        SampleShape { bridge_inputs, ..SampleShape::of(self.network.architecture()) }
    }

    /// Appends a record as a sample; `false` if the network cannot read it, for example without a move.
    fn push(&mut self, samples: &mut Samples, place: (&[Record], usize), labels: &LabelConfig) -> bool {
        let pushed = samples.push(&self.shape(), place, false, Augmentation::default(), labels);
        if let (Ok(board), Some((_, reader))) = (&pushed, &mut self.bridge) {
            reader.append_bytes(board, &mut samples.bridge_inputs);
        }
        pushed.is_ok()
    }

    fn forward(&mut self, samples: &Samples) -> Result<OutputsByHead, LabError> {
        let bridge = self.bridge.as_ref().map(|&(bridge, _)| bridge);
        Ok(predict_samples_with_bridge(self.network, bridge, samples, &mut self.scratch)?)
    }
}

impl<'a> Scorer<'a> {
    pub(super) fn new(model: &'a Model) -> Option<Self> {
        let transformer = model.transformer().map(|network| {
            Self::Transformer(TransformerScorer { network, bridge: model.bridge(), scratch: Box::default() })
        });
        transformer.or_else(|| model.position_scorer().map(Self::Positions))
    }

    /// Predicts all positions of a unit.
    ///
    /// # Errors
    ///
    /// When the network does not accept the input.
    pub(super) fn predict(&mut self, unit: &Unit, labels: &LabelConfig) -> Result<Predictions, LabError> {
        match self {
            Self::Positions(scorer) => Ok(score_positions(scorer, unit)),
            Self::Transformer(scorer) => {
                let mut predictions = predict_unit(scorer, unit, labels)?;
                if scorer.network.architecture().heads.action_value.is_some() && !unit.has_all_moves() {
                    predict_all_moves(scorer, unit, labels, &mut predictions)?;
                }
                Ok(predictions)
            }
        }
    }
}

fn score_positions(scorer: &mut PositionScorer<'_>, unit: &Unit) -> Predictions {
    let prediction = |&at: &usize| {
        let board = unit.records[at].position.board().ok();
        Prediction { value: board.map(|board| scorer.centipawns(&board)), best: None }
    };
    Predictions { metrics: MetricGroups::default(), positions: unit.kept.iter().map(prediction).collect() }
}

/// The predictions of a transformer for the positions as they are in the data, each with its move if the
/// network reads one.
fn predict_unit(
    scorer: &mut TransformerScorer<'_>,
    unit: &Unit,
    labels: &LabelConfig,
) -> Result<Predictions, LabError> {
    let (network, shape) = (scorer.network, scorer.shape());
    let mut samples = Samples::default();
    // Records without a move, or with one that has no action index, are skipped by networks that read moves.
    let mut push = |samples: &mut Samples, at: usize| scorer.push(samples, (&unit.records, at), labels);
    let kept = unit.kept.iter().enumerate();
    let read: Vec<(usize, usize)> =
        kept.filter(|&(_, &at)| push(&mut samples, at)).map(|(place, &at)| (place, at)).collect();
    let outputs = scorer.forward(&samples)?;
    let heads = head_outputs(&outputs);
    let mut measured = Metrics::default();
    measured.add_samples(&samples, &shape, &Targets::default(), &heads);
    let groups = [measured.overall()].into_iter().chain(measured.phases());
    let mut metrics = MetricGroups::default();
    for (parts, group) in metrics.iter_mut().zip(groups) {
        for (place, (part, metric)) in parts.iter_mut().zip(METRICS).enumerate() {
            if place != VALUE_ERROR {
                *part = UnitSum::of_mean(group.get(metric), group.count(metric));
            }
        }
    }
    let mut positions = vec![Prediction::default(); unit.kept.len()];
    for (row, &(place, at)) in read.iter().enumerate() {
        let board = unit.records[at].position.board().ok();
        positions[place] = Prediction {
            value: win_probability(&heads, samples.len(), row).map(|probability| 2.0 * probability - 1.0),
            best: board.and_then(|board| best_move(network, &board, &heads, samples.len(), row)),
        };
    }
    Ok(Predictions { metrics, positions })
}

fn best_move(
    network: &Network,
    board: &Board,
    heads: &HeadOutputs<'_>,
    samples: usize,
    row: usize,
) -> Option<Move> {
    let head = network.architecture().heads.policy.as_ref()?;
    let moves = probabilities(board, head.kind, sample_values(heads.policy, samples, row), Temperature::ONE);
    highest(&moves)
}

fn highest(moves: &[(Move, f32)]) -> Option<Move> {
    let best = moves.iter().reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map(|&(mv, _)| mv)
}

/// Evaluates every legal move with a network of action values. The best value is that of the position, and
/// the move played gets its rank among all moves.
fn predict_all_moves(
    scorer: &mut TransformerScorer<'_>,
    unit: &Unit,
    labels: &LabelConfig,
    predictions: &mut Predictions,
) -> Result<(), LabError> {
    for (&at, prediction) in unit.kept.iter().zip(&mut predictions.positions) {
        let record = &unit.records[at];
        let Ok(board) = record.position.board() else { continue };
        let mut samples = Samples::default();
        let mut moves = Vec::new();
        for mv in Position::from(board).legal_moves() {
            let with_move = Record { mv: Some(mv), ..*record };
            // Castling in Chess960 has no action index.
            if scorer.push(&mut samples, (&[with_move], 0), labels) {
                moves.push((mv, 0.0));
            }
        }
        let outputs = scorer.forward(&samples)?;
        let heads = head_outputs(&outputs);
        for (row, (_, probability)) in moves.iter_mut().enumerate() {
            *probability = win_probability_after_move(&heads, samples.len(), row).unwrap_or(0.5) as f32;
        }
        prediction.best = highest(&moves);
        let probability = moves.iter().map(|&(_, probability)| f64::from(probability)).reduce(f64::max);
        prediction.value = probability.map(|probability| 2.0 * probability - 1.0);
        let played = moves.iter().position(|&(mv, _)| record.mv == Some(mv));
        let Some(played) = played else { continue };
        let is_before = |&(place, &(_, probability)): &(usize, &(Move, f32))| match probability
            .total_cmp(&moves[played].1)
        {
            std::cmp::Ordering::Greater => true,
            std::cmp::Ordering::Equal => place < played,
            std::cmp::Ordering::Less => false,
        };
        let rank = moves.iter().enumerate().filter(is_before).count();
        for (metric, top) in TOP_MOVES.into_iter().enumerate() {
            let is_among = f64::from(u8::from(rank < top));
            add_value(&mut predictions.metrics, Phase::of(&record.position), metric, is_among);
        }
    }
    Ok(())
}
