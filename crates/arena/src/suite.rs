//! Test suites: positions with known best moves, points, mates or perft counts.

mod baseline;
mod read;

pub use baseline::{Comparison, compare};
pub use read::{SuiteError, read_suite};

use crate::panel::{Factory, consult};
use crate::{Analysis, Analyst, Clock, Fault, GameSoFar, Limits, Score, StartError, Unanswered};
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;
use tandem_chess::{Board, Move, Position, perft, san};

/// A position with its task.
#[derive(Clone, Debug)]
pub struct SuiteItem {
    /// Its name.
    pub id: String,
    /// The position.
    pub board: Board,
    /// What is asked.
    pub task: Task,
}

/// What a position asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Play one of the best moves, and none of those to avoid.
    Best {
        /// The best.
        best: Vec<Move>,
        /// To avoid.
        avoid: Vec<Move>,
    },
    /// Moves with points, as in the Strategic Test Suite.
    Points(Vec<(Move, u32)>),
    /// Find a mate in so many moves.
    Mate(u32),
    /// Count the tree of legal moves: depths and leaves.
    Perft(Vec<(u32, u64)>),
}

impl Task {
    /// The most points that the task can bring.
    pub fn most_points(&self) -> u32 {
        match self {
            Self::Points(points) => points.iter().map(|(_, points)| *points).max().unwrap_or(0),
            _ => 1,
        }
    }

    /// Points for a move, with the score that came with it.
    pub fn points(&self, mv: Move, score: Option<Score>) -> u32 {
        match self {
            Self::Best { best, avoid } => {
                u32::from((best.is_empty() || best.contains(&mv)) && !avoid.contains(&mv))
            }
            Self::Points(points) => {
                points.iter().find(|(known, _)| *known == mv).map_or(0, |(_, points)| *points)
            }
            Self::Mate(moves) => {
                let wanted = i32::try_from(*moves).unwrap_or(i32::MAX);
                u32::from(matches!(score, Some(Score::Mate(found)) if (1..=wanted).contains(&found)))
            }
            Self::Perft(_) => 0,
        }
    }
}

/// What came of one position.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ItemResult {
    /// Its name.
    pub id: String,
    /// All points were made.
    pub solved: bool,
    /// Points made.
    pub points: u32,
    /// Points to be made.
    pub most: u32,
    /// The move played, or the fault.
    pub played: String,
    /// Set if there is no move.
    #[serde(default)]
    pub unanswered: Option<Unanswered>,
    /// Seconds after which the solution was found and never left again.
    pub solved_in: Option<f64>,
    /// Depth of the last search.
    pub depth: Option<u32>,
    /// Nodes of the last search.
    pub nodes: Option<u64>,
    /// Seconds in all.
    pub seconds: f64,
}

/// What came of a suite.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SuiteReport {
    /// The suite.
    pub suite: String,
    /// The engine.
    pub engine: String,
    /// How long it thought.
    pub limits: String,
    /// The positions.
    pub items: Vec<ItemResult>,
}

impl SuiteReport {
    /// Positions that were solved.
    pub fn solved(&self) -> usize {
        self.items.iter().filter(|item| item.solved).count()
    }

    /// Points made and points to be made.
    pub fn points(&self) -> (u64, u64) {
        let add = |(points, most), item: &ItemResult| {
            (points + u64::from(item.points), most + u64::from(item.most))
        };
        self.items.iter().fold((0, 0), add)
    }

    /// Mean seconds to the solution, over solved positions.
    pub fn mean_seconds(&self) -> Option<f64> {
        let times: Vec<f64> = self.items.iter().filter_map(|item| item.solved_in).collect();
        (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
    }
}

/// Puts a suite to an engine.
pub fn run_suite(
    items: &[SuiteItem],
    limits: &Limits,
    concurrency: usize,
    threads_each: usize,
    make: &Factory,
    cancel: &AtomicBool,
    mut done: impl FnMut(&ItemResult),
) -> Result<Vec<ItemResult>, StartError> {
    let ask = |analyst: &mut dyn Analyst, item: &SuiteItem| ask(analyst, item, limits);
    let result = |index: usize, answer: &Result<ItemResult, Fault>| match answer {
        Ok(result) => result.clone(),
        Err(fault) => ItemResult {
            id: items[index].id.clone(),
            most: items[index].task.most_points(),
            played: fault.to_string(),
            unanswered: fault.unanswered(),
            ..ItemResult::default()
        },
    };
    let answers = consult(items, concurrency, threads_each, make, cancel, ask, |index, answer| {
        done(&result(index, answer));
    })?;
    let answered = answers.iter().enumerate();
    Ok(answered.filter_map(|(index, answer)| Some(result(index, answer.as_ref()?))).collect())
}

fn ask(analyst: &mut dyn Analyst, item: &SuiteItem, limits: &Limits) -> Result<ItemResult, Fault> {
    if let Task::Perft(counts) = &item.task {
        return Ok(count(item, counts));
    }
    let position = Position::from(item.board.clone());
    let chess960 = tandem_chess::fen::is_chess960(&item.board);
    analyst.forget(chess960)?;
    let game = GameSoFar { start: &item.board, moves: "", position: &position, chess960 };
    let analysis = analyst.analyse(&game, &Clock::new(*limits))?;
    Ok(judge(item, &analysis))
}

fn judge(item: &SuiteItem, analysis: &Analysis) -> ItemResult {
    let most = item.task.most_points();
    let points = item.task.points(analysis.best, analysis.score());
    let solved = points == most && most > 0;
    let last = analysis.infos.last().map(|(_, info)| info);
    ItemResult {
        id: item.id.clone(),
        solved,
        points,
        most,
        played: san::format(&item.board, analysis.best),
        unanswered: None,
        solved_in: solved.then(|| solved_in(item, analysis)),
        depth: last.and_then(|info| info.depth),
        nodes: last.and_then(|info| info.nodes),
        seconds: analysis.elapsed.as_secs_f64(),
    }
}

/// The time from which every variation that was reported began with the solution. An engine that reports none found
/// it when it answered.
fn solved_in(item: &SuiteItem, analysis: &Analysis) -> f64 {
    let mut since = analysis.elapsed;
    for (at, info) in analysis.infos.iter().rev() {
        let Some(first) = info.pv.first() else { continue };
        let Ok(mv) = tandem_chess::uci::parse(&item.board, first) else { break };
        if item.task.points(mv, info.score) < item.task.most_points() {
            break;
        }
        since = *at;
    }
    since.as_secs_f64()
}

/// Perft needs no engine: it is a test of our own rules.
fn count(item: &SuiteItem, counts: &[(u32, u64)]) -> ItemResult {
    let start = std::time::Instant::now();
    let mut position = Position::from(item.board.clone());
    let wrong = counts.iter().find_map(|&(depth, expected)| {
        let found = perft(&mut position, depth);
        (found != expected).then(|| format!("D{depth} is {found}, not {expected}"))
    });
    let nodes = counts.iter().map(|(_, leaves)| leaves).sum();
    let seconds = start.elapsed().as_secs_f64();
    ItemResult {
        id: item.id.clone(),
        solved: wrong.is_none(),
        points: u32::from(wrong.is_none()),
        most: 1,
        played: wrong.unwrap_or_else(|| "perft".into()),
        unanswered: None,
        solved_in: None,
        depth: counts.iter().map(|(depth, _)| *depth).max(),
        nodes: Some(nodes),
        seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Info;
    use std::time::Duration;

    fn item(task: Task) -> SuiteItem {
        SuiteItem { id: "x".into(), board: Board::default(), task }
    }

    fn analysis(lines: &[(u64, &str)], best: &str) -> Analysis {
        let infos = lines.iter().map(|(ms, line)| (Duration::from_millis(*ms), Info::parse(line)));
        let best = best.parse().unwrap();
        Analysis { best, elapsed: Duration::from_millis(100), infos: infos.collect() }
    }

    #[test]
    fn the_time_of_a_solution_is_when_it_came_to_stay() {
        let e4 = "e2e4".parse().unwrap();
        let task = item(Task::Best { best: vec![e4], avoid: vec![] });
        let lines = [
            (10, "info score cp 1 pv e2e4"),
            (20, "info score cp 1 pv d2d4"),
            (30, "info score cp 1 pv e2e4 e7e5"),
            (40, "info depth 5 score cp 2 pv e2e4"),
        ];
        let result = judge(&task, &analysis(&lines, "e2e4"));
        assert_eq!((result.solved, result.solved_in, result.depth), (true, Some(0.03), Some(5)));
        let silent = judge(&task, &analysis(&[], "e2e4"));
        assert_eq!(silent.solved_in, Some(0.1));
        let wrong = judge(&task, &analysis(&lines, "d2d4"));
        assert_eq!((wrong.solved, wrong.solved_in, wrong.points), (false, None, 0));
    }

    #[test]
    fn tasks_are_judged() {
        let [e4, d4, a3] = ["e2e4", "d2d4", "a2a3"].map(|text| text.parse().unwrap());
        let avoid = Task::Best { best: vec![], avoid: vec![a3] };
        assert_eq!((avoid.points(e4, None), avoid.points(a3, None)), (1, 0));
        let points = Task::Points(vec![(e4, 10), (d4, 6)]);
        assert_eq!((points.points(d4, None), points.points(a3, None), points.most_points()), (6, 0, 10));
        let mate = Task::Mate(3);
        assert_eq!(mate.points(a3, Some(Score::Mate(3))), 1);
        assert_eq!(mate.points(a3, Some(Score::Mate(4))), 0);
        assert_eq!(mate.points(a3, Some(Score::Mate(-2))), 0);
        assert_eq!(mate.points(a3, Some(Score::Cp(9999))), 0);
    }

    #[test]
    fn perft_is_counted_without_an_engine() {
        let good = count(&item(Task::Perft(vec![])), &[(1, 20), (3, 8902)]);
        assert!(good.solved);
        let bad = count(&item(Task::Perft(vec![])), &[(2, 401)]);
        assert_eq!((bad.solved, bad.played.as_str()), (false, "D2 is 400, not 401"));
    }
}
