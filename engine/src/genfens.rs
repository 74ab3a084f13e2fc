//! `genfens`: random openings for data generation, in the form that OpenBench asks for.

use crate::output::{info_string, send};
use tandem_chess::random_walk;
use tandem_chess::{Board, epd};
use tandem_search::{Limits, Score, Searcher};
use tandem_util::random::SplitMix;
use thiserror::Error;

/// Arguments of `genfens N seed S book <None|path> [dfrc]`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    count: usize,
    seed: u64,
    book: Option<String>,
    chess960: bool,
}

/// The reason why openings cannot be made.
#[derive(Debug, Error)]
pub(crate) enum GenfensError {
    #[error("usage: genfens N seed S book <None|path> [dfrc]")]
    Usage,
    #[error("genfens: {path}: {error}")]
    Book { path: String, error: std::io::Error },
    #[error("genfens: {0} holds no position")]
    EmptyBook(String),
    #[error("genfens: none of the last {0} openings tried was balanced enough")]
    NoneEven(usize),
    #[error("genfens: {0}")]
    Memory(#[from] tandem_search::OutOfMemory),
}

/// Largest absolute evaluation of an opening, in centipawns; others are not balanced enough to be played.
const MAX_SCORE: i32 = 500;
const CHECK_NODES: u64 = 20_000;
/// Number of unbalanced openings in a row after which the book is given up.
const MAX_TRIES: usize = 1000;

impl Request {
    /// Parses the words after `genfens`.
    ///
    /// # Errors
    /// If the number of openings or the seed is missing.
    pub(crate) fn parse(arguments: &str) -> Result<Self, GenfensError> {
        let words: Vec<&str> = arguments.split_ascii_whitespace().collect();
        let after = |name: &str| {
            let index = words.iter().position(|&word| word == name)?;
            words.get(index + 1).copied()
        };
        let count = words.first().and_then(|word| word.parse().ok()).ok_or(GenfensError::Usage)?;
        let seed = after("seed").and_then(|word| word.parse().ok()).ok_or(GenfensError::Usage)?;
        let book = after("book").filter(|book| !book.eq_ignore_ascii_case("none")).map(str::to_owned);
        let chess960 = words.contains(&"dfrc");
        Ok(Self { count, seed, book, chess960 })
    }

    /// Makes the openings and prints all but the last, which is returned. Equal requests always make the same ones.
    ///
    /// # Errors
    /// If the book cannot be read or has no balanced positions, or memory is short.
    pub(crate) fn run(&self, parent: &Searcher) -> Result<String, GenfensError> {
        let book = self.read_book()?;
        let mut random = SplitMix::new(self.seed);
        let mut searcher = parent.sibling(1)?;
        let signals = searcher.signals();
        let (mut made, mut tries) = (0, 0);
        let mut last = String::new();
        while made < self.count && !parent.signals().is_stopped() {
            tries += 1;
            if tries > MAX_TRIES {
                return Err(GenfensError::NoneEven(MAX_TRIES));
            }
            let start = self.start(&book, &mut random);
            let plies =
                if book.is_empty() { 8 + random.below(2) as usize } else { 2 + random.below(2) as usize };
            let Some(position) = random_walk(start, plies, &mut random) else { continue };
            signals.arm(false);
            let limits = Limits { nodes: Some(CHECK_NODES), ..Limits::default() };
            let result = searcher.search(&position, &limits, &mut |_| ());
            let even = matches!(result.score, Score::Centipawns(score) if score.0.abs() <= MAX_SCORE);
            if even {
                if made > 0 {
                    send(&last);
                }
                last = format!("info string genfens {}", position.fen());
                made += 1;
                tries = 0;
            }
        }
        Ok(last)
    }

    fn start(&self, book: &[Board], random: &mut SplitMix) -> Board {
        if !book.is_empty() {
            book[random.below(book.len() as u32) as usize].clone()
        } else if self.chess960 {
            Board::double_chess960_startpos(random.below(960), random.below(960))
        } else {
            Board::default()
        }
    }

    /// Positions of an EPD or FEN book; lines that are not positions are skipped and counted in a message.
    fn read_book(&self) -> Result<Vec<Board>, GenfensError> {
        let Some(path) = &self.book else { return Ok(Vec::new()) };
        let problem = |error| GenfensError::Book { path: path.clone(), error };
        // A device or a pipe may have no end.
        if !std::fs::metadata(path).map_err(problem)?.is_file() {
            return Err(problem(std::io::Error::other("this is not a file")));
        }
        let file = std::fs::File::open(path).map_err(problem)?;
        let mut boards = Vec::new();
        let mut skipped = 0;
        for (_, line) in epd::lines(std::io::BufReader::new(file)) {
            let line = line.map_err(problem)?;
            match epd::parse_board(&line) {
                Ok(board) => boards.push(board),
                Err(_) => skipped += 1,
            }
        }
        if skipped > 0 {
            info_string(format_args!("genfens: {skipped} lines of {path} are not positions"));
        }
        if boards.is_empty() { Err(GenfensError::EmptyBook(path.clone())) } else { Ok(boards) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_read_as_openbench_writes_it() {
        let request = Request::parse("8 seed 123 book None").unwrap();
        assert_eq!(request, Request { count: 8, seed: 123, book: None, chess960: false });
        let request = Request::parse("3 seed 9 book books/x.epd dfrc").unwrap();
        assert_eq!((request.book.as_deref(), request.chess960), (Some("books/x.epd"), true));
        assert!(Request::parse("many seed 1 book None").is_err());
        assert!(Request::parse("5").is_err());
    }

    #[test]
    fn a_seed_always_leads_to_the_same_positions() {
        let fens = |seed| {
            let mut random = SplitMix::new(seed);
            (0..20)
                .filter_map(|_| Some(random_walk(Board::default(), 8, &mut random)?.fen()))
                .collect::<Vec<_>>()
        };
        assert_eq!(fens(1), fens(1));
        assert_ne!(fens(1), fens(2));
    }
}
