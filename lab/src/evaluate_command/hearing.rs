//! What a contender says of the positions of a unit.

use super::contender::{Contender, Seat};
use super::draws::Part;
use super::units::Unit;
use crate::error::LabError;
use crate::said::{chance_after_move, chance_of, row_of};
use tandem_chess::{Board, Move, Position};
use tandem_data::Record;
use tandem_hybrid::{Bridge, Onlooker};
use tandem_train::Phase;
use tandem_train::transformer::*;
use tandem_transformer::legal::{Temperature, probabilities};
use tandem_transformer::{Network, Scratch};

/// Figures that are shown, as tables call them and in their order; and whether they are shares.
pub(super) const SHOWN: [(Figure, &str, bool); 17] = [
    (Figure::PolicyTop1, "top 1", true),
    (Figure::PolicyTop3, "top 3", true),
    (Figure::PolicyTop5, "top 5", true),
    (Figure::Loss(Head::Policy), "policy loss", false),
    (Figure::ValueError, "value MSE", false),
    (Figure::Loss(Head::ActionValue), "bucket loss", false),
    (Figure::BucketTop1, "bucket 1", true),
    (Figure::BucketTop5, "bucket 5", true),
    (Figure::ActionAccuracy, "best action", true),
    (Figure::KendallTau, "tau", false),
    (Figure::PolicyAbove1, "above 1 %", true),
    (Figure::PolicyAbove2, "2 %", true),
    (Figure::PolicyAbove5, "5 %", true),
    (Figure::PolicyAbove10, "10 %", true),
    (Figure::ReduciblePolicyLoss, "avoidable loss", false),
    (Figure::SearchPolicyLoss, "search loss", false),
    (Figure::ValueAccuracy, "likeliest end", true),
];
/// From here on they have a table of their own.
pub(super) const FURTHER: usize = 10;
/// Where the value's error stands, which is reckoned alike for all contenders.
pub(super) const VALUE: usize = 4;
/// How many of the first moves count, for each of the first figures.
const FIRST_MOVES: [usize; 3] = [1, 3, 5];

/// The figures of some positions: of all, and of each phase.
pub(super) type Groups = [[Part; SHOWN.len()]; 1 + Phase::ALL.len()];

/// Adds a number to a figure, of all positions and of those of a phase.
pub(super) fn count(groups: &mut Groups, phase: Phase, figure: usize, value: f64) {
    for group in [0, 1 + phase as usize] {
        groups[group][figure].add(value);
    }
}

/// What is thought of a position.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Opinion {
    /// From -1 for a lost position to 1 for a won one, or the centipawns of those who score.
    pub(super) value: Option<f64>,
    /// The move that is liked best.
    pub(super) best: Option<Move>,
}

/// What a contender says of a unit.
#[derive(Debug)]
pub(super) struct Heard {
    /// Everything but the value's error.
    pub(super) figures: Groups,
    /// One for each position that is judged.
    pub(super) opinions: Vec<Opinion>,
}

/// A contender at work on one thread.
pub(super) enum Speaker<'a> {
    Scores(Seat<'a>),
    Weighs(Weigher<'a>),
}

/// A transformer at work, with what it is joined to.
pub(super) struct Weigher<'a> {
    network: &'a Network,
    bridge: Option<(&'a Bridge, Onlooker)>,
    scratch: Box<Scratch>,
}

impl Weigher<'_> {
    /// The arrays that it reads.
    fn shape(&self) -> SampleShape {
        let seen = self.bridge.as_ref().map_or(0, |(bridge, _)| bridge.inputs());
        SampleShape { seen, ..SampleShape::of(self.network.architecture()) }
    }

    /// Adds a record as it reads it; whether it can.
    fn push(&mut self, samples: &mut Samples, place: (&[Record], usize), aim: &Aim) -> bool {
        let pushed = samples.push(&self.shape(), place, false, View::default(), aim);
        if let (Ok(board), Some((_, onlooker))) = (&pushed, &mut self.bridge) {
            onlooker.add_bytes(board, &mut samples.seen);
        }
        pushed.is_ok()
    }

    fn judge(&mut self, samples: &Samples) -> Result<Judged, LabError> {
        let bridge = self.bridge.as_ref().map(|&(bridge, _)| bridge);
        Ok(judge_joined(self.network, bridge, samples, &mut self.scratch)?)
    }
}

impl<'a> Speaker<'a> {
    pub(super) fn new(contender: &'a Contender) -> Option<Self> {
        let weighs = contender.transformer().map(|network| {
            Self::Weighs(Weigher { network, bridge: contender.bridge(), scratch: Box::default() })
        });
        weighs.or_else(|| contender.seat().map(Self::Scores))
    }

    /// Lets it judge a unit.
    pub(super) fn hear(&mut self, unit: &Unit, aim: &Aim) -> Result<Heard, LabError> {
        match self {
            Self::Scores(seat) => Ok(scores(seat, unit)),
            Self::Weighs(weigher) => {
                let mut heard = of_samples(weigher, unit, aim)?;
                if weigher.network.architecture().heads.action_value.is_some() && !unit.has_all_moves() {
                    weigh_all_moves(weigher, unit, aim, &mut heard)?;
                }
                Ok(heard)
            }
        }
    }
}

fn scores(seat: &mut Seat<'_>, unit: &Unit) -> Heard {
    let opinion = |&at: &usize| {
        let board = unit.records[at].position.board().ok();
        Opinion { value: board.map(|board| seat.centipawns(&board)), best: None }
    };
    Heard { figures: Groups::default(), opinions: unit.kept.iter().map(opinion).collect() }
}

/// What a transformer says of the positions, each with its move where it reads one.
fn of_samples(weigher: &mut Weigher<'_>, unit: &Unit, aim: &Aim) -> Result<Heard, LabError> {
    let (network, shape) = (weigher.network, weigher.shape());
    let mut samples = Samples::default();
    // What has no move, or one without a number, says nothing to those who read moves.
    let mut is_read = |samples: &mut Samples, at: usize| weigher.push(samples, (&unit.records, at), aim);
    let kept = unit.kept.iter().enumerate();
    let read: Vec<(usize, usize)> =
        kept.filter(|&(_, &at)| is_read(&mut samples, at)).map(|(place, &at)| (place, at)).collect();
    let judged = weigher.judge(&samples)?;
    let answers = answers_of(&judged);
    let mut metrics = TransformerMetrics::default();
    metrics.add(&samples, &shape, &Targets::default(), &answers);
    let groups = [metrics.whole()].into_iter().chain(metrics.phases());
    let mut figures = Groups::default();
    for (parts, group) in figures.iter_mut().zip(groups) {
        for (place, (part, (figure, ..))) in parts.iter_mut().zip(SHOWN).enumerate() {
            if place != VALUE {
                *part = Part::of_mean(group.get(figure), group.count(figure));
            }
        }
    }
    let mut opinions = vec![Opinion::default(); unit.kept.len()];
    for (row, &(place, at)) in read.iter().enumerate() {
        let board = unit.records[at].position.board().ok();
        opinions[place] = Opinion {
            value: chance_of(&answers, samples.len(), row).map(|chance| 2.0 * chance - 1.0),
            best: board.and_then(|board| best_move(network, &board, &answers, samples.len(), row)),
        };
    }
    Ok(Heard { figures, opinions })
}

fn best_move(
    network: &Network,
    board: &Board,
    answers: &Answers<'_>,
    samples: usize,
    row: usize,
) -> Option<Move> {
    let head = network.architecture().heads.policy.as_ref()?;
    let moves = probabilities(board, head.kind, row_of(answers.policy, samples, row), Temperature::ONE);
    liked_best(&moves)
}

fn liked_best(moves: &[(Move, f32)]) -> Option<Move> {
    let best = moves.iter().reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map(|&(mv, _)| mv)
}

/// What a network that reads moves thinks of positions: it is asked about every move. The best one says what the position is
/// worth, and the move that was played has its place among all.
fn weigh_all_moves(
    weigher: &mut Weigher<'_>,
    unit: &Unit,
    aim: &Aim,
    heard: &mut Heard,
) -> Result<(), LabError> {
    for (&at, opinion) in unit.kept.iter().zip(&mut heard.opinions) {
        let record = &unit.records[at];
        let Ok(board) = record.position.board() else { continue };
        let mut samples = Samples::default();
        let mut moves = Vec::new();
        for mv in Position::from(board).legal_moves() {
            let asked = Record { mv: Some(mv), ..*record };
            // Castling in Chess960 has no number.
            if weigher.push(&mut samples, (&[asked], 0), aim) {
                moves.push((mv, 0.0));
            }
        }
        let judged = weigher.judge(&samples)?;
        let answers = answers_of(&judged);
        for (row, (_, chance)) in moves.iter_mut().enumerate() {
            *chance = chance_after_move(&answers, samples.len(), row).unwrap_or(0.5) as f32;
        }
        opinion.best = liked_best(&moves);
        let chance = moves.iter().map(|&(_, chance)| f64::from(chance)).reduce(f64::max);
        opinion.value = chance.map(|chance| 2.0 * chance - 1.0);
        let played = moves.iter().position(|&(mv, _)| record.mv == Some(mv));
        let Some(played) = played else { continue };
        let is_before =
            |&(place, &(_, chance)): &(usize, &(Move, f32))| match chance.total_cmp(&moves[played].1) {
                std::cmp::Ordering::Greater => true,
                std::cmp::Ordering::Equal => place < played,
                std::cmp::Ordering::Less => false,
            };
        let rank = moves.iter().enumerate().filter(is_before).count();
        for (figure, most) in FIRST_MOVES.into_iter().enumerate() {
            let is_so = f64::from(u8::from(rank < most));
            count(&mut heard.figures, Phase::of(&record.position), figure, is_so);
        }
    }
    Ok(())
}
