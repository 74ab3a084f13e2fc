//! How games begin.

use crate::error::SelfPlayError;
use std::fmt;
use std::path::Path;
use tandem_chess::random::{SplitMix, walk};
use tandem_chess::{Board, Position, epd, input};

/// Where games start from.
#[derive(Clone, Debug)]
pub struct Openings {
    /// Positions to start from; the usual one if there are none.
    pub book: Vec<Board>,
    /// Start from positions of double Chess960 instead.
    pub chess960: bool,
    /// Random moves after that.
    pub random_plies: usize,
    /// An opening is not played if the search sees more than this.
    pub max_score: i32,
}

impl Default for Openings {
    fn default() -> Self {
        Self { book: Vec::new(), chess960: false, random_plies: 8, max_score: 400 }
    }
}

/// What they are, in a few words that other openings would not have.
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

/// So many openings in a row that are not worth playing, and there is no hope.
pub(crate) const MAX_TRIES: usize = 1000;

impl Openings {
    /// Reads positions from a book of EPD or FEN lines, compressed or not. Blank lines and those that begin with `#` are
    /// passed over.
    pub fn read_book(&mut self, path: &Path) -> Result<(), SelfPlayError> {
        let refuse = |problem: String| SelfPlayError::File { path: path.into(), problem };
        let book = input::open(path).map_err(SelfPlayError::io(path))?;
        for (number, line) in epd::lines(book) {
            let line = line.map_err(SelfPlayError::io(path))?;
            let board = epd::board_of(&line);
            self.book.push(board.map_err(|error| refuse(format!("line {number}: {error}")))?);
        }
        if self.book.is_empty() { Err(refuse("no line of it is a position".into())) } else { Ok(()) }
    }

    /// A random position to begin with; one more random move for half of the games. None if the game ends on the way.
    pub(crate) fn draw(&self, random: &mut SplitMix) -> Option<Position> {
        let start = if !self.book.is_empty() {
            self.book[random.below(self.book.len() as u32) as usize].clone()
        } else if self.chess960 {
            Board::double_chess960_startpos(random.below(960), random.below(960))
        } else {
            Board::default()
        };
        let plies = if self.random_plies > 0 { self.random_plies + random.below(2) as usize } else { 0 };
        walk(start, plies, random)
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
        let told = read(b"4k3/8/8/8/8/8/8/4K2R w K -\n\n4k3/9 w - -\n").unwrap_err();
        assert!(told.contains(".epd: line 3: "), "{told}");
        assert!(read(b"# nothing\n").unwrap_err().contains("no line of it"));
        std::fs::remove_file(&path).unwrap();
    }
}
