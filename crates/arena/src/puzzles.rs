//! Lichess puzzles: reading them, solving them with an engine, and the rating that the results correspond to.
//!
//! A puzzle is solved if every move of the solver is the one in the file, except that any move that mates
//! counts as well: the rule of "Grandmaster-Level Chess Without Search" (Ruoss et al., 2024). The first move
//! is the opponent's.

use crate::analyst_pool::{AnalystFactory, ask_all};
use crate::{Analyst, EngineLimits, Fault, GameSoFar, PlayerClock, StartError, Unanswered};
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use tandem_chess::{Board, Move, Position, fen, uci};
use tandem_util::input;
use thiserror::Error;

/// Error while reading a file of puzzles. Each message names the file, and the line where there is one.
#[derive(Debug, Error)]
pub enum PuzzleError {
    /// The file is missing or cannot be read or decompressed.
    #[error("puzzles {path}: {source}")]
    Io {
        /// Path of the file as it was given.
        path: String,
        /// Cause reported by the operating system or the decompressor.
        source: std::io::Error,
    },
    /// The file is not valid CSV, for example because a row has too few fields.
    #[error("puzzles {path}: {}", csv_problem(.source))]
    Csv {
        /// Path of the file as it was given.
        path: String,
        /// Position and kind of the fault, from the CSV parser.
        source: csv::Error,
    },
    /// One of the columns `PuzzleId`, `FEN`, `Moves` and `Rating` is missing.
    #[error("puzzles {path}: no column '{column}'; Lichess has PuzzleId,FEN,Moves,Rating,...")]
    Column {
        /// Path of the file as it was given.
        path: String,
        /// Name of the missing column.
        column: &'static str,
    },
    /// A puzzle has an illegal position or move, too few moves, or a rating out of range.
    #[error("puzzles {path}, line {line}: {what}")]
    Record {
        /// Path of the file as it was given.
        path: String,
        /// Line number, from 1, with the header as the first line.
        line: u64,
        /// Description of the fault.
        what: String,
    },
    /// The file has a header, but no puzzles.
    #[error("puzzles {0} holds no puzzles")]
    Empty(String),
}

/// The fault of a file that is not CSV, without the terms of the parser.
fn csv_problem(error: &csv::Error) -> String {
    let line = error.position().map_or(1, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::Utf8 { .. } => {
            format!("line {line} is not text: a CSV file is needed, as database.lichess.org publishes it")
        }
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("line {line} has {len} columns, the header has {expected_len}")
        }
        _ => error.to_string(),
    }
}

/// Upper bound of plausible ratings; a higher number comes from another column or a damaged file.
const MAX_RATING: u32 = 10_000;

/// A puzzle from Lichess whose moves are all legal.
#[derive(Clone, Debug)]
pub struct Puzzle {
    /// Identifier of the puzzle at Lichess.
    pub id: String,
    /// Position before the opponent's first move.
    pub start: Board,
    /// Moves of the opponent and the solver in turn, at least one of each.
    pub moves: Vec<Move>,
    /// Glicko-2 rating of the puzzle at Lichess.
    pub rating: u32,
}

/// Grade of an engine's moves in one puzzle. Reports in JSON list one for each puzzle.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PuzzleResult {
    /// Identifier of the puzzle at Lichess.
    pub id: String,
    /// Glicko-2 rating of the puzzle at Lichess.
    pub rating: u32,
    /// True if every move of the solver was correct.
    pub solved: bool,
    /// Number of correct moves before the first wrong one, and that move or the fault; `None` if solved.
    pub failure: Option<(usize, String)>,
    /// Category of the fault if the engine failed to answer; `None` if it answered.
    pub unanswered: Option<Unanswered>,
}

/// Reads puzzles from a CSV file in the format of database.lichess.org, plain or compressed with zstd or
/// gzip.
///
/// # Errors
///
/// Fails if the file cannot be read, is not CSV, lacks a column, has no puzzles, or has an illegal one.
pub fn read_puzzles(path: &Path) -> Result<Vec<Puzzle>, PuzzleError> {
    let name = path.display().to_string();
    let reader = input::open(path).map_err(|source| PuzzleError::Io { path: name.clone(), source })?;
    let mut table = csv::Reader::from_reader(reader);
    let csv_error = |source| PuzzleError::Csv { path: name.clone(), source };
    let headers = table.headers().map_err(csv_error)?.clone();
    let column = |column: &'static str| {
        let found = headers.iter().position(|header| header.trim() == column);
        found.ok_or_else(|| PuzzleError::Column { path: name.clone(), column })
    };
    let [id, position, moves, rating] =
        [column("PuzzleId")?, column("FEN")?, column("Moves")?, column("Rating")?];
    let mut puzzles = Vec::new();
    for record in table.records() {
        let record = record.map_err(csv_error)?;
        let field = |index: usize| record.get(index).unwrap_or("");
        let puzzle = puzzle(field(id), field(position), field(moves), field(rating));
        puzzles.push(puzzle.map_err(|what| PuzzleError::Record {
            path: name.clone(),
            line: record.position().map_or(0, csv::Position::line),
            what,
        })?);
    }
    if puzzles.is_empty() { Err(PuzzleError::Empty(name)) } else { Ok(puzzles) }
}

fn puzzle(id: &str, position: &str, moves: &str, rating: &str) -> Result<Puzzle, String> {
    let start = fen::parse(position).map_err(|error| error.to_string())?;
    let mut board = Position::from(start.clone());
    let mut parsed = Vec::new();
    for text in moves.split_ascii_whitespace() {
        let mv = uci::parse(board.board(), text).map_err(|error| error.to_string())?;
        board.play(mv);
        parsed.push(mv);
    }
    if parsed.len() < 2 {
        return Err("a puzzle has at least two moves: the opponent's and the solver's".into());
    }
    let number = rating.trim().parse().ok().filter(|number| *number <= MAX_RATING);
    let rating = number.ok_or_else(|| format!("rating '{rating}' is not a number from 0 to {MAX_RATING}"))?;
    Ok(Puzzle { id: id.into(), start, moves: parsed, rating })
}

/// Gives puzzles to `concurrency` copies of an engine, or of a network without search, and returns their
/// results in order. `limits` apply to each move. `done` is called after each puzzle. Puzzles that were not
/// reached before `cancel` was set are missing from the result.
///
/// # Errors
///
/// Fails if the engine cannot be started.
pub fn run_puzzles(
    puzzles: &[Puzzle],
    limits: &EngineLimits,
    concurrency: usize,
    threads_each: usize,
    make: &AnalystFactory,
    cancel: &AtomicBool,
    mut done: impl FnMut(&PuzzleResult),
) -> Result<Vec<PuzzleResult>, StartError> {
    let ask = |analyst: &mut dyn Analyst, puzzle: &Puzzle| solve(analyst, puzzle, limits);
    let result = |index: usize, answer: &Result<PuzzleResult, Fault>| match answer {
        Ok(result) => result.clone(),
        Err(fault) => {
            let puzzle: &Puzzle = &puzzles[index];
            let (failure, unanswered) = (Some((0, fault.to_string())), fault.unanswered());
            PuzzleResult { id: puzzle.id.clone(), rating: puzzle.rating, solved: false, failure, unanswered }
        }
    };
    let answers = ask_all(puzzles, concurrency, threads_each, make, cancel, ask, |index, answer| {
        done(&result(index, answer));
    })?;
    let answered = answers.iter().enumerate();
    Ok(answered.filter_map(|(index, answer)| Some(result(index, answer.as_ref()?))).collect())
}

fn solve(analyst: &mut dyn Analyst, puzzle: &Puzzle, limits: &EngineLimits) -> Result<PuzzleResult, Fault> {
    let chess960 = fen::is_chess960(&puzzle.start);
    analyst.reset(chess960)?;
    let mut position = Position::from(puzzle.start.clone());
    let mut text = String::new();
    let (mut failure, mut unanswered) = (None, None);
    for (ply, &expected) in puzzle.moves.iter().enumerate() {
        if ply % 2 == 1 {
            let game = GameSoFar { start: &puzzle.start, moves: &text, position: &position, chess960 };
            let played = match analyst.analyse(&game, &PlayerClock::new(*limits)) {
                Ok(analysis) => analysis.best,
                Err(Fault::Cancelled) => return Err(Fault::Cancelled),
                Err(fault) => {
                    (failure, unanswered) = (Some((ply / 2, fault.to_string())), fault.unanswered());
                    break;
                }
            };
            if played != expected && !mates(&position, played) {
                failure = Some((ply / 2, tandem_chess::san::format(position.board(), played)));
                break;
            }
            if played != expected {
                break;
            }
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text += &uci::format(position.board(), expected, chess960);
        position.play(expected);
    }
    let (id, solved) = (puzzle.id.clone(), failure.is_none());
    Ok(PuzzleResult { id, rating: puzzle.rating, solved, failure, unanswered })
}

fn mates(position: &Position, mv: Move) -> bool {
    let mut after = Position::from(position.board().clone());
    after.play(mv);
    after.in_check() && !after.has_legal_move()
}

/// Results of all puzzles whose ratings lie in one interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RatingBand {
    /// Lowest rating in the band.
    pub from: u32,
    /// Upper end of the band, which is not part of it: the next band begins here.
    pub to: u32,
    /// Number of puzzles with a rating in the band.
    pub puzzles: u64,
    /// Number of the band's puzzles that were solved.
    pub solved: u64,
    /// Lower end of Wilson's 95 % interval for the fraction solved, from 0 to 1.
    pub low: f64,
    /// Upper end of Wilson's 95 % interval for the fraction solved, from 0 to 1.
    pub high: f64,
}

impl RatingBand {
    /// Fraction of the puzzles that were solved, from 0 to 1.
    pub fn accuracy(&self) -> f64 {
        self.solved as f64 / self.puzzles.max(1) as f64
    }
}

/// Groups results by rating into intervals of `width` points, for example 200; empty intervals are left out.
pub fn bands(results: &[PuzzleResult], width: u32) -> Vec<RatingBand> {
    let width = width.max(1);
    let mut counts = std::collections::BTreeMap::<u32, (u64, u64)>::new();
    for result in results {
        let (puzzles, solved) = counts.entry(result.rating / width).or_default();
        *puzzles += 1;
        *solved += u64::from(result.solved);
    }
    let band = |(index, (puzzles, solved))| {
        let (low, high) = wilson(solved, puzzles);
        let from = index * width;
        RatingBand { from, to: from.saturating_add(width), puzzles, solved, low, high }
    };
    counts.into_iter().map(band).collect()
}

/// Wilson's 95 % interval for a probability, after `hits` successes in `tries` tries: its lower and upper
/// end, from 0 to 1. It stays within that range even for few tries, unlike the normal approximation; without
/// any try it is 0 to 1.
pub fn wilson(hits: u64, tries: u64) -> (f64, f64) {
    if tries == 0 {
        return (0.0, 1.0);
    }
    let (n, z) = (tries as f64, crate::stats::Z95);
    let p = hits as f64 / n;
    let centre = p + z * z / (2.0 * n);
    let spread = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    let whole = 1.0 + z * z / n;
    (((centre - spread) / whole).max(0.0), ((centre + spread) / whole).min(1.0))
}

/// Performance rating: the rating at which the expected score against all puzzles, each taken as an opponent,
/// equals the number solved. `None` unless there is at least one success and one failure.
pub fn performance_rating(results: &[PuzzleResult]) -> Option<f64> {
    let solved = results.iter().filter(|result| result.solved).count();
    if solved == 0 || solved == results.len() {
        return None;
    }
    let (mut low, mut high) = (-2000.0, f64::from(MAX_RATING) + 2000.0);
    for _ in 0..60 {
        let rating = 0.5 * (low + high);
        let expected: f64 =
            results.iter().map(|result| crate::stats::score_of_elo(rating - f64::from(result.rating))).sum();
        if expected < solved as f64 {
            low = rating;
        } else {
            high = rating;
        }
    }
    Some(0.5 * (low + high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Analysis;
    use std::time::Duration;

    /// An analyst that plays moves from a list.
    struct Scripted(Vec<&'static str>);

    impl Analyst for Scripted {
        fn name(&self) -> &str {
            "scripted"
        }
        fn analyse(&mut self, game: &GameSoFar, _: &PlayerClock) -> Result<Analysis, Fault> {
            let best = uci::parse(game.position.board(), self.0.remove(0)).unwrap();
            Ok(Analysis { best, elapsed: Duration::ZERO, infos: Vec::new() })
        }
        fn reset(&mut self, _: bool) -> Result<(), Fault> {
            Ok(())
        }
        fn is_usable(&self) -> bool {
            true
        }
    }

    // After any move of Black, 1. Ra8 and 1. Rb8 both mate.
    const TWO_MATES: &str = "6k1/5ppp/8/8/8/7r/1R6/R5K1 b - - 0 1";

    #[test]
    fn any_mate_counts_and_any_other_move_does_not() {
        let puzzle = puzzle("x", TWO_MATES, "h3h4 a1a8", "1500").unwrap();
        let solved = |moves| solve(&mut Scripted(moves), &puzzle, &EngineLimits::default()).unwrap();
        assert!(solved(vec!["a1a8"]).solved);
        assert!(solved(vec!["b2b8"]).solved);
        assert!(!solved(vec!["a1a7"]).solved);
        assert_eq!(solved(vec!["a1a7"]).failure, Some((0, "Ra7".into())));
    }

    #[test]
    fn every_move_must_be_right() {
        let start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
        let puzzle = puzzle("x", start, "e2e4 e7e5 g1f3 b8c6", "900").unwrap();
        let solved = |moves| solve(&mut Scripted(moves), &puzzle, &EngineLimits::default()).unwrap();
        assert!(solved(vec!["e7e5", "b8c6"]).solved);
        assert_eq!(solved(vec!["e7e5", "g8f6"]).failure, Some((1, "Nf6".into())));
    }

    #[test]
    fn invalid_puzzles_are_refused() {
        assert!(puzzle("x", "rubbish", "e2e4 e7e5", "1").is_err());
        assert!(puzzle("x", TWO_MATES, "h3h4", "1").unwrap_err().contains("two moves"));
        assert!(puzzle("x", TWO_MATES, "h3h4 a1a9", "1").is_err());
        for rating in ["x", "-1", "10001", "4294967295", "99999999999"] {
            assert!(puzzle("x", TWO_MATES, "h3h4 a1a8", rating).unwrap_err().contains("rating"), "{rating}");
        }
    }

    #[test]
    fn bands_and_performance_rating_summarise_results() {
        let result = |rating, solved| PuzzleResult {
            id: String::new(),
            rating,
            solved,
            failure: None,
            unanswered: None,
        };
        let mut results: Vec<_> = (0..100).map(|n| result(1000, n < 91)).collect();
        results.extend((0..100).map(|n| result(1800, n < 9)));
        let bands = bands(&results, 400);
        assert_eq!(
            bands.iter().map(|band| (band.from, band.solved)).collect::<Vec<_>>(),
            [(800, 91), (1600, 9)]
        );
        assert_eq!(super::bands(&results, u32::MAX).len(), 1);
        assert!((performance_rating(&results).unwrap() - 1400.0).abs() < 1.0);
        let (low, high) = wilson(9, 10);
        assert!((low - 0.5958).abs() < 1e-3 && (high - 0.9821).abs() < 1e-3);
        assert_eq!(performance_rating(&results[..50]), None);
    }
}
