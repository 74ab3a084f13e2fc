//! Openings: start positions of self-play games, varied by random moves and checked for balance.

use crate::error::SelfPlayError;
use std::fmt;
use std::path::Path;
use tandem_chess::random_walk;
use tandem_chess::{Board, Position, epd};
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

#[cfg(test)]
mod tests {
    use super::*;

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
