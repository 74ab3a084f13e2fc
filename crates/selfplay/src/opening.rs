//! Openings: start positions of self-play games, varied by random moves and checked for balance.

use crate::error::SelfPlayError;
use crate::game::draw_opening;
use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tandem_chess::random_walk;
use tandem_chess::{Board, Position, epd};
use tandem_search::{EvaluatorFactory, Limits, Searcher};
use tandem_util::input;
use tandem_util::random::SplitMix;

/// Source of the positions from which games start. The default is the standard position, followed by eight or
/// nine random plies (moves of one side).
#[derive(Clone, Debug)]
pub struct Openings {
    /// Start positions, of which each game chooses one at random; if empty, the standard position or, with
    /// [`Self::chess960`], one of double Chess960.
    pub book: Vec<Board>,
    /// Starts from a random position of double Chess960, in which the two sides' back ranks are shuffled
    /// independently; ignored if there is a book.
    pub chess960: bool,
    /// Random plies after the start position; one more in half of the games, so that both sides begin. 0
    /// plays none.
    pub random_plies: usize,
    /// Largest absolute score in centipawns, by a search of the position after the random plies; an opening
    /// beyond it is replaced by another.
    pub max_score: i32,
}

impl Default for Openings {
    fn default() -> Self {
        Self { book: Vec::new(), chess960: false, random_plies: 8, max_score: 400 }
    }
}

/// Writes all settings with a hash of the book, as text that other openings would not give.
impl fmt::Display for Openings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { book, chess960, random_plies, max_score } = self;
        let hash = book.iter().fold(0, |hash, board| SplitMix::new(hash ^ board.hash()).next_u64());
        write!(
            f,
            "{} book positions (hash {hash:x}), chess960 {chess960}, {random_plies} random plies, openings up to {max_score}",
            book.len()
        )
    }
}

/// Unbalanced openings in a row after which a run fails, because its settings admit none.
pub(crate) const MAX_TRIES: usize = 1000;

impl Openings {
    /// Appends the positions of a book of EPD or FEN lines, compressed or not. Blank lines and those that
    /// begin with `#` are skipped.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, a line is not a position, or it has no positions.
    pub fn read_book(&mut self, path: &Path) -> Result<(), SelfPlayError> {
        let refuse = |problem: String| SelfPlayError::File { path: path.into(), problem };
        let book = input::open(path).map_err(SelfPlayError::io(path))?;
        for (number, line) in epd::lines(book) {
            let line = line.map_err(SelfPlayError::io(path))?;
            let board = epd::parse_board(&line);
            self.book.push(board.map_err(|error| refuse(format!("line {number}: {error}")))?);
        }
        if self.book.is_empty() { Err(refuse("no line of it is a position".into())) } else { Ok(()) }
    }

    /// A random start position; `None` if the game ends during the random moves.
    pub(crate) fn draw(&self, random: &mut SplitMix) -> Option<Position> {
        let start = if !self.book.is_empty() {
            self.book[random.below(self.book.len() as u32) as usize].clone()
        } else if self.chess960 {
            Board::double_chess960_startpos(random.below(960), random.below(960))
        } else {
            Board::default()
        };
        let plies = if self.random_plies > 0 { self.random_plies + random.below(2) as usize } else { 0 };
        random_walk(start, plies, random)
    }
}

/// Draws different openings whose balance a search of `nodes` nodes has confirmed, as FEN. The same arguments give
/// the same openings. `watch` receives their number so far.
///
/// # Errors
///
/// Fails if memory is short, if the settings admit no balanced opening, or if they do not admit `count` different
/// ones. A run that is cancelled returns those that were found.
pub fn draw_book(
    openings: &Openings,
    factory: &Arc<EvaluatorFactory>,
    count: usize,
    nodes: u64,
    seed: u64,
    cancel: &AtomicBool,
    watch: &mut dyn FnMut(usize),
) -> Result<Vec<String>, SelfPlayError> {
    /// Size of the hash table in MiB, enough for short searches.
    const HASH: usize = 4;
    let mut searcher = Searcher::new(Arc::clone(factory), HASH)?;
    let mut random = SplitMix::new(seed);
    let (mut book, mut seen) = (Vec::new(), HashSet::new());
    let mut repeated = 0;
    while book.len() < count {
        let opened = draw_opening(openings, &mut random, cancel, |position| {
            searcher.signals().arm(false);
            let limits = Limits { nodes: Some(nodes), ..Limits::default() };
            searcher.clear(&AtomicBool::new(false));
            searcher.search(position, &limits, &mut |_| ()).score
        });
        let Some(position) = opened? else { break };
        if !seen.insert(position.board().hash()) {
            repeated += 1;
            if repeated > MAX_TRIES {
                return Err(SelfPlayError::NoOpening(MAX_TRIES));
            }
            continue;
        }
        repeated = 0;
        book.push(position.fen());
        watch(book.len());
    }
    Ok(book)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_openings_are_balanced_different_and_the_same_for_a_seed() {
        let factory: Arc<EvaluatorFactory> =
            Arc::new(|| Box::new(tandem_search::Bootstrap::default()) as Box<dyn tandem_search::Evaluator>);
        let draw = |count, seed| {
            let openings = Openings { random_plies: 4, max_score: 100, ..Openings::default() };
            draw_book(&openings, &factory, count, 200, seed, &AtomicBool::new(false), &mut |_| ())
        };
        let book = draw(20, 1).unwrap();
        assert_eq!(book.iter().collect::<HashSet<_>>().len(), 20);
        assert_eq!(book, draw(20, 1).unwrap());
        assert_ne!(book, draw(20, 2).unwrap());
        let openings = Openings { random_plies: 0, ..Openings::default() };
        let none = draw_book(&openings, &factory, 2, 200, 1, &AtomicBool::new(false), &mut |_| ());
        assert!(none.is_err(), "there is only one position without random moves");
    }

    #[test]
    fn a_book_is_read_to_its_end_or_refused() {
        let path = std::env::temp_dir().join(format!("tandem-openings-{}.epd", std::process::id()));
        let read = |book: &[u8]| {
            std::fs::write(&path, book).unwrap();
            let mut openings = Openings::default();
            openings.read_book(&path).map(|()| openings.book.len()).map_err(|error| error.to_string())
        };
        let book = b"\xEF\xBB\xBF# R\xE9ti\n\n4k3/8/8/8/8/8/8/4K2R w K - 0 7\n\
            4k3/8/8/8/8/8/8/4K2R b K - id \"\xE9\";\n";
        assert_eq!(read(book), Ok(2));
        let error = read(b"4k3/8/8/8/8/8/8/4K2R w K -\n\n4k3/9 w - -\n").unwrap_err();
        assert!(error.contains(".epd: line 3: "), "{error}");
        assert!(read(b"# nothing\n").unwrap_err().contains("no line of it"));
        std::fs::remove_file(&path).unwrap();
    }
}
