//! Test suites: positions with known best moves, points, mates or perft counts, and the grades of an engine
//! on them.

mod baseline;
mod read;

pub use baseline::{Comparison, compare};
pub use read::{SuiteError, read_suite};

use crate::analyst_pool::{AnalystFactory, ask_all};
use crate::{
    Analysis, Analyst, EngineLimits, Fault, GameSoFar, PlayerClock, StartError, UciScore, Unanswered,
};
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;
use tandem_chess::{Board, Move, Position, perft, san};

/// One position of a test suite, with the task that it sets to an engine.
#[derive(Clone, Debug)]
pub struct SuiteItem {
    /// Identifier from the EPD operation `id`, or the number of the position.
    pub id: String,
    /// The position to analyse, without earlier moves.
    pub board: Board,
    /// Task that the engine has to solve, for example to find the best move.
    pub task: Task,
}

/// Task that a position of a suite sets, from the operations (coded fields) of its EPD line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Play one of the best moves (`bm`), or any move if none is given, but none of those to avoid (`am`).
    Best {
        /// Moves that solve the task; empty if every move that is not to be avoided does.
        best: Vec<Move>,
        /// Moves that fail the task; empty if there are none.
        avoid: Vec<Move>,
    },
    /// Moves with points, as in the Strategic Test Suite; all other moves get none.
    Points(Vec<(Move, u32)>),
    /// Find a mate in at most this number of moves (`dm`).
    Mate(u32),
    /// Perft: count the move sequences from the position. Each pair is a length in plies and the expected
    /// number of sequences.
    Perft(Vec<(u32, u64)>),
}

impl Task {
    /// Maximum number of points that the task can bring: the largest of [`Task::Points`], 1 for other tasks.
    pub fn max_points(&self) -> u32 {
        match self {
            Self::Points(points) => points.iter().map(|(_, points)| *points).max().unwrap_or(0),
            _ => 1,
        }
    }

    /// Points that a move brings. A mate task gives 1 if the engine's `score` is a mate in few enough moves,
    /// whatever the move; a perft task always gives 0, because no move solves it.
    pub fn points(&self, mv: Move, score: Option<UciScore>) -> u32 {
        match self {
            Self::Best { best, avoid } => {
                u32::from((best.is_empty() || best.contains(&mv)) && !avoid.contains(&mv))
            }
            Self::Points(points) => {
                points.iter().find(|(known, _)| *known == mv).map_or(0, |(_, points)| *points)
            }
            Self::Mate(moves) => {
                let wanted = i32::try_from(*moves).unwrap_or(i32::MAX);
                u32::from(matches!(score, Some(UciScore::Mate(found)) if (1..=wanted).contains(&found)))
            }
            Self::Perft(_) => 0,
        }
    }
}

/// Result of an engine in one position of a suite.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ItemResult {
    /// Identifier of the position within its suite.
    pub id: String,
    /// True if the maximum number of points was reached.
    pub solved: bool,
    /// Points that the engine's answer scored.
    pub points: u32,
    /// Maximum number of points that the task can bring.
    pub most: u32,
    /// Move that was played, in SAN, or a description of the fault.
    pub played: String,
    /// Category of the fault if the engine failed to answer; `None` if it answered.
    #[serde(default)]
    pub unanswered: Option<Unanswered>,
    /// Seconds of the search after which the engine's best move was the solution and stayed so until the end;
    /// `None` if unsolved.
    pub solved_in: Option<f64>,
    /// Depth of the last completed iteration in plies; `None` if the engine reported none.
    pub depth: Option<u32>,
    /// Number of nodes of the search; `None` if the engine reported none.
    pub nodes: Option<u64>,
    /// Wall-clock time of the whole search, in seconds.
    pub seconds: f64,
}

/// Results of a whole suite, stored as JSON and used as the baseline of later runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SuiteReport {
    /// Name of the suite, usually the path of its file.
    pub suite: String,
    /// Name of the engine that answered.
    pub engine: String,
    /// Limits of each search in words, for example of time or nodes.
    pub limits: String,
    /// Results of all positions, in the order of the file.
    pub items: Vec<ItemResult>,
}

impl SuiteReport {
    /// Number of positions for which the maximum of points was reached.
    pub fn solved(&self) -> usize {
        self.items.iter().filter(|item| item.solved).count()
    }

    /// Points scored, and the maximum that could be scored, summed over all positions.
    pub fn points(&self) -> (u64, u64) {
        let add = |(points, most), item: &ItemResult| {
            (points + u64::from(item.points), most + u64::from(item.most))
        };
        self.items.iter().fold((0, 0), add)
    }

    /// Mean time to the solution in seconds, over the solved positions; `None` if there are none.
    pub fn mean_seconds(&self) -> Option<f64> {
        let times: Vec<f64> = self.items.iter().filter_map(|item| item.solved_in).collect();
        (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
    }
}

/// Gives a suite to `concurrency` copies of an engine and returns the results in order. `limits` apply to
/// each position. `done` is called after each of them. Positions that were not reached before `cancel` was
/// set are missing from the result.
///
/// # Errors
///
/// Fails if the engine cannot be started.
pub fn run_suite(
    items: &[SuiteItem],
    limits: &EngineLimits,
    concurrency: usize,
    threads_each: usize,
    make: &AnalystFactory,
    cancel: &AtomicBool,
    mut done: impl FnMut(&ItemResult),
) -> Result<Vec<ItemResult>, StartError> {
    let ask = |analyst: &mut dyn Analyst, item: &SuiteItem| solve(analyst, item, limits);
    let result = |index: usize, answer: &Result<ItemResult, Fault>| match answer {
        Ok(result) => result.clone(),
        Err(fault) => ItemResult {
            id: items[index].id.clone(),
            most: items[index].task.max_points(),
            played: fault.to_string(),
            unanswered: fault.unanswered(),
            ..ItemResult::default()
        },
    };
    let answers = ask_all(items, concurrency, threads_each, make, cancel, ask, |index, answer| {
        done(&result(index, answer));
    })?;
    let answered = answers.iter().enumerate();
    Ok(answered.filter_map(|(index, answer)| Some(result(index, answer.as_ref()?))).collect())
}

fn solve(analyst: &mut dyn Analyst, item: &SuiteItem, limits: &EngineLimits) -> Result<ItemResult, Fault> {
    if let Task::Perft(counts) = &item.task {
        return Ok(count(item, counts));
    }
    let position = Position::from(item.board.clone());
    let chess960 = tandem_chess::fen::is_chess960(&item.board);
    analyst.reset(chess960)?;
    let game = GameSoFar { start: &item.board, moves: "", position: &position, chess960 };
    let analysis = analyst.analyse(&game, &PlayerClock::new(*limits))?;
    Ok(grade(item, &analysis))
}

fn grade(item: &SuiteItem, analysis: &Analysis) -> ItemResult {
    let most = item.task.max_points();
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

/// Time in seconds since which every reported variation began with the solution. An engine that reports no
/// variations found it when it answered.
fn solved_in(item: &SuiteItem, analysis: &Analysis) -> f64 {
    let mut since = analysis.elapsed;
    for (at, info) in analysis.infos.iter().rev() {
        let Some(first) = info.pv.first() else { continue };
        let Ok(mv) = tandem_chess::uci::parse(&item.board, first) else { break };
        if item.task.points(mv, info.score) < item.task.max_points() {
            break;
        }
        since = *at;
    }
    since.as_secs_f64()
}

/// Counts a perft task. It needs no engine, because it tests our own move generator.
fn count(item: &SuiteItem, counts: &[(u32, u64)]) -> ItemResult {
    let start = std::time::Instant::now();
    let mut position = Position::from(item.board.clone());
    let mismatch = counts.iter().find_map(|&(depth, expected)| {
        let found = perft(&mut position, depth);
        (found != expected).then(|| format!("D{depth} is {found}, not {expected}"))
    });
    let nodes = counts.iter().map(|(_, leaves)| leaves).sum();
    let seconds = start.elapsed().as_secs_f64();
    ItemResult {
        id: item.id.clone(),
        solved: mismatch.is_none(),
        points: u32::from(mismatch.is_none()),
        most: 1,
        played: mismatch.unwrap_or_else(|| "perft".into()),
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
    use crate::UciInfo;
    use std::time::Duration;

    fn item(task: Task) -> SuiteItem {
        SuiteItem { id: "x".into(), board: Board::default(), task }
    }

    fn analysis(lines: &[(u64, &str)], best: &str) -> Analysis {
        let infos = lines.iter().map(|(ms, line)| (Duration::from_millis(*ms), UciInfo::parse(line)));
        let best = best.parse().unwrap();
        Analysis { best, elapsed: Duration::from_millis(100), infos: infos.collect() }
    }

    #[test]
    fn the_time_of_a_solution_is_its_last_arrival() {
        let e4 = "e2e4".parse().unwrap();
        let task = item(Task::Best { best: vec![e4], avoid: vec![] });
        let lines = [
            (10, "info score cp 1 pv e2e4"),
            (20, "info score cp 1 pv d2d4"),
            (30, "info score cp 1 pv e2e4 e7e5"),
            (40, "info depth 5 score cp 2 pv e2e4"),
        ];
        let result = grade(&task, &analysis(&lines, "e2e4"));
        assert_eq!((result.solved, result.solved_in, result.depth), (true, Some(0.03), Some(5)));
        let silent = grade(&task, &analysis(&[], "e2e4"));
        assert_eq!(silent.solved_in, Some(0.1));
        let incorrect = grade(&task, &analysis(&lines, "d2d4"));
        assert_eq!((incorrect.solved, incorrect.solved_in, incorrect.points), (false, None, 0));
    }

    #[test]
    fn answers_are_graded() {
        let [e4, d4, a3] = ["e2e4", "d2d4", "a2a3"].map(|text| text.parse().unwrap());
        let avoid = Task::Best { best: vec![], avoid: vec![a3] };
        assert_eq!((avoid.points(e4, None), avoid.points(a3, None)), (1, 0));
        let points = Task::Points(vec![(e4, 10), (d4, 6)]);
        assert_eq!((points.points(d4, None), points.points(a3, None), points.max_points()), (6, 0, 10));
        let mate = Task::Mate(3);
        assert_eq!(mate.points(a3, Some(UciScore::Mate(3))), 1);
        assert_eq!(mate.points(a3, Some(UciScore::Mate(4))), 0);
        assert_eq!(mate.points(a3, Some(UciScore::Mate(-2))), 0);
        assert_eq!(mate.points(a3, Some(UciScore::Cp(9999))), 0);
    }

    #[test]
    fn perft_is_counted_without_an_engine() {
        let good = count(&item(Task::Perft(vec![])), &[(1, 20), (3, 8902)]);
        assert!(good.solved);
        let bad = count(&item(Task::Perft(vec![])), &[(2, 401)]);
        assert_eq!((bad.solved, bad.played.as_str()), (false, "D2 is 400, not 401"));
    }
}
