//! Lichess puzzles.
//!
//! A puzzle is solved when every move of the solver is the one in the file, except that any move that mates counts:
//! the rule of "Grandmaster-Level Chess Without Search" (Ruoss et al., 2024). The first move is the opponent's.

use crate::panel::{Factory, consult};
use crate::{Analyst, Clock, Fault, GameSoFar, Limits, StartError, Unanswered};
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use tandem_chess::{Board, Move, Position, fen, input, uci};
use thiserror::Error;

/// What is wrong with a file of puzzles.
#[derive(Debug, Error)]
pub enum PuzzleError {
    /// It cannot be read.
    #[error("puzzles {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is no CSV.
    #[error("puzzles {path}: {source}")]
    Csv {
        /// The file.
        path: String,
        /// Where and why.
        source: csv::Error,
    },
    /// A column is missing.
    #[error("puzzles {path}: no column '{column}'; Lichess has PuzzleId,FEN,Moves,Rating,...")]
    Column {
        /// The file.
        path: String,
        /// The column.
        column: &'static str,
    },
    /// A puzzle that cannot be.
    #[error("puzzles {path}, line {line}: {what}")]
    Record {
        /// The file.
        path: String,
        /// The line.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// Nothing in it.
    #[error("puzzles {0} holds no puzzles")]
    Empty(String),
}

/// No puzzle comes near this rating; what claims more is another column, or broken.
const MAX_RATING: u32 = 10_000;

/// A puzzle: every move of it is legal.
#[derive(Clone, Debug)]
pub struct Puzzle {
    /// Its name.
    pub id: String,
    /// The position before the opponent's first move.
    pub start: Board,
    /// The opponent's and the solver's moves in turn.
    pub moves: Vec<Move>,
    /// Its Glicko rating.
    pub rating: u32,
}

/// What came of a puzzle.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PuzzleResult {
    /// Its name.
    pub id: String,
    /// Its rating.
    pub rating: u32,
    /// Whether every move was right.
    pub solved: bool,
    /// The first wrong move, or the fault, with how many moves were right before it.
    pub failure: Option<(usize, String)>,
    /// Set if that was a fault.
    pub unanswered: Option<Unanswered>,
}

/// Reads puzzles, plain or compressed.
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
    let rating = number.ok_or_else(|| format!("rating '{rating}' is no number from 0 to {MAX_RATING}"))?;
    Ok(Puzzle { id: id.into(), start, moves: parsed, rating })
}

/// Puts puzzles to an engine, or to a network without search.
pub fn run_puzzles(
    puzzles: &[Puzzle],
    limits: &Limits,
    concurrency: usize,
    threads_each: usize,
    make: &Factory,
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
    let answers = consult(puzzles, concurrency, threads_each, make, cancel, ask, |index, answer| {
        done(&result(index, answer));
    })?;
    let answered = answers.iter().enumerate();
    Ok(answered.filter_map(|(index, answer)| Some(result(index, answer.as_ref()?))).collect())
}

fn solve(analyst: &mut dyn Analyst, puzzle: &Puzzle, limits: &Limits) -> Result<PuzzleResult, Fault> {
    let chess960 = fen::is_chess960(&puzzle.start);
    analyst.forget(chess960)?;
    let mut position = Position::from(puzzle.start.clone());
    let mut text = String::new();
    let (mut failure, mut unanswered) = (None, None);
    for (ply, &expected) in puzzle.moves.iter().enumerate() {
        if ply % 2 == 1 {
            let game = GameSoFar { start: &puzzle.start, moves: &text, position: &position, chess960 };
            let played = match analyst.analyse(&game, &Clock::new(*limits)) {
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

/// Puzzles of similar rating.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Band {
    /// The lowest rating in it.
    pub from: u32,
    /// The first rating beyond it.
    pub to: u32,
    /// Puzzles in it.
    pub puzzles: u64,
    /// Those that were solved.
    pub solved: u64,
    /// Wilson's 95 % interval of the share that is solved.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Band {
    /// The share that was solved.
    pub fn accuracy(&self) -> f64 {
        self.solved as f64 / self.puzzles.max(1) as f64
    }
}

/// Results by rating, in bands of a width.
pub fn bands(results: &[PuzzleResult], width: u32) -> Vec<Band> {
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
        Band { from, to: from.saturating_add(width), puzzles, solved, low, high }
    };
    counts.into_iter().map(band).collect()
}

/// Wilson's 95 % interval of a share.
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

/// The rating at which these results would be expected, each puzzle taken as an opponent; none without both a success
/// and a failure.
pub fn performance(results: &[PuzzleResult]) -> Option<f64> {
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

    /// Plays moves from a list.
    struct Scripted(Vec<&'static str>);

    impl Analyst for Scripted {
        fn name(&self) -> &str {
            "scripted"
        }
        fn analyse(&mut self, game: &GameSoFar, _: &Clock) -> Result<Analysis, Fault> {
            let best = uci::parse(game.position.board(), self.0.remove(0)).unwrap();
            Ok(Analysis { best, elapsed: Duration::ZERO, infos: Vec::new() })
        }
        fn forget(&mut self, _: bool) -> Result<(), Fault> {
            Ok(())
        }
        fn is_well(&self) -> bool {
            true
        }
    }

    // Black to move gives way; then 1. Ra8 and 1. Rb8 both mate.
    const TWO_MATES: &str = "6k1/5ppp/8/8/8/7r/1R6/R5K1 b - - 0 1";

    #[test]
    fn any_mate_counts_and_any_other_move_does_not() {
        let puzzle = puzzle("x", TWO_MATES, "h3h4 a1a8", "1500").unwrap();
        let solved = |moves| solve(&mut Scripted(moves), &puzzle, &Limits::default()).unwrap();
        assert!(solved(vec!["a1a8"]).solved);
        assert!(solved(vec!["b2b8"]).solved);
        assert!(!solved(vec!["a1a7"]).solved);
        assert_eq!(solved(vec!["a1a7"]).failure, Some((0, "Ra7".into())));
    }

    #[test]
    fn every_move_must_be_right() {
        let start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
        let puzzle = puzzle("x", start, "e2e4 e7e5 g1f3 b8c6", "900").unwrap();
        let solved = |moves| solve(&mut Scripted(moves), &puzzle, &Limits::default()).unwrap();
        assert!(solved(vec!["e7e5", "b8c6"]).solved);
        assert_eq!(solved(vec!["e7e5", "g8f6"]).failure, Some((1, "Nf6".into())));
    }

    #[test]
    fn puzzles_that_cannot_be_are_refused() {
        assert!(puzzle("x", "rubbish", "e2e4 e7e5", "1").is_err());
        assert!(puzzle("x", TWO_MATES, "h3h4", "1").unwrap_err().contains("two moves"));
        assert!(puzzle("x", TWO_MATES, "h3h4 a1a9", "1").is_err());
        for rating in ["x", "-1", "10001", "4294967295", "99999999999"] {
            assert!(puzzle("x", TWO_MATES, "h3h4 a1a8", rating).unwrap_err().contains("rating"), "{rating}");
        }
    }

    #[test]
    fn bands_and_performance() {
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
        assert!((performance(&results).unwrap() - 1400.0).abs() < 1.0);
        let (low, high) = wilson(9, 10);
        assert!((low - 0.5958).abs() < 1e-3 && (high - 0.9821).abs() < 1e-3);
        assert_eq!(performance(&results[..50]), None);
    }
}
