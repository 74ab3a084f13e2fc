//! Opening books: the positions from which games start, read from EPD, FEN or PGN files. All entries are
//! checked when the book is opened, and the order of play is fixed by a seed.

use crate::outcome::result_by_rules;
use std::io::{self, BufRead};
use std::path::Path;
use tandem_chess::{Board, Move, Position, epd, pgn};
use tandem_util::fnv::Fnv1a;
use tandem_util::input;
use tandem_util::random::SplitMix;
use thiserror::Error;

/// Error while opening a book. Every variant names the file, and the entry where there is one.
#[derive(Debug, Error)]
pub enum BookError {
    /// The file is missing or cannot be read or decompressed.
    #[error("opening book {path}: {source}")]
    Io {
        /// Path of the book as it was given.
        path: String,
        /// Cause reported by the operating system or the decompressor.
        source: io::Error,
    },
    /// An entry is not a legal position, holds an illegal move, or leads to a game that is already over.
    #[error("opening book {path}, {location}: {what}")]
    Entry {
        /// Path of the book as it was given.
        path: String,
        /// Line or game number within the file, from 1, for example `line 12`.
        location: String,
        /// Description of the fault.
        what: String,
    },
    /// The file holds no entry at all, only comments or empty lines.
    #[error("opening book {0} holds no openings")]
    Empty(String),
    /// The file name has none of the supported extensions, so the format is unknown.
    #[error("opening book {0} should be .epd, .fen or .pgn, plain or with .zst or .gz")]
    UnknownFormat(String),
}

/// One opening: a start position and the moves played from it before the engines take over.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Position before the first move, the standard one for most PGN books.
    pub start: Board,
    /// Legal moves played before the players think; empty for an EPD or FEN entry.
    pub moves: Vec<Move>,
}

impl Opening {
    /// The standard start position without any moves.
    pub fn standard() -> Self {
        Self { start: Board::default(), moves: Vec::new() }
    }
}

/// Order in which a match uses the openings of its book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BookOrder {
    /// The order of the file.
    Sequential,
    /// A random permutation that depends on this seed alone, so that a resumed match continues with the same
    /// openings.
    Random(u64),
}

/// An opening book whose entries have all been checked.
#[derive(Clone, Debug)]
pub struct Book {
    openings: Vec<Opening>,
    order: Vec<u32>,
}

impl Book {
    /// A book with one entry, the standard start position.
    pub fn standard() -> Self {
        Self { openings: vec![Opening::standard()], order: vec![0] }
    }

    /// Opens a book in EPD, FEN or PGN format, plain or compressed with zstd or gzip. Lines of PGN are cut
    /// after `max_plies` plies. All entries are checked now, because a bad one should stop a match before it
    /// starts and not in the middle of the night.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, has an unknown extension or no entries, or if an entry is illegal or
    /// already decided.
    pub fn open(path: &Path, order: BookOrder, max_plies: Option<usize>) -> Result<Self, BookError> {
        let name = path.display().to_string();
        let io_error = |source| BookError::Io { path: name.clone(), source };
        let reader = input::open(path).map_err(io_error)?;
        let plain = name.trim_end_matches(".zst").trim_end_matches(".gz").to_ascii_lowercase();
        let openings = if plain.ends_with(".pgn") {
            read_pgn(reader, &name, max_plies.unwrap_or(usize::MAX))?
        } else if plain.ends_with(".epd") || plain.ends_with(".fen") || plain.ends_with(".txt") {
            read_epd(reader, &name)?
        } else {
            return Err(BookError::UnknownFormat(name));
        };
        if openings.is_empty() {
            return Err(BookError::Empty(name));
        }
        let mut indices: Vec<u32> = (0..openings.len() as u32).collect();
        if let BookOrder::Random(seed) = order {
            SplitMix::new(seed).shuffle(&mut indices);
        }
        Ok(Self { openings, order: indices })
    }

    /// Number of openings in the book, at least 1.
    pub fn len(&self) -> usize {
        self.openings.len()
    }

    /// True if the book has no openings, which [`Book::open`] rules out.
    pub fn is_empty(&self) -> bool {
        self.openings.is_empty()
    }

    /// The opening of the `n`-th pair of games, from 0, and its index in the file. After the last opening the
    /// first one follows again.
    pub fn opening(&self, n: usize) -> (usize, &Opening) {
        let index = self.order[n % self.order.len()] as usize;
        (index, &self.openings[index])
    }

    /// Hash over all openings in their order of play, so that a resumed match notices a different book.
    pub(crate) fn fingerprint(&self) -> String {
        let mut fingerprint = Fnv1a::new();
        for &index in &self.order {
            let opening = &self.openings[index as usize];
            fingerprint.add(tandem_chess::fen::format(&opening.start).as_bytes());
            for mv in &opening.moves {
                fingerprint.add(mv.to_string().as_bytes());
            }
            fingerprint.add(b"\n");
        }
        fingerprint.to_hex()
    }

    /// True if an opening has castling rights that only Chess960 can express, for example with the king on
    /// the d-file.
    pub fn needs_chess960(&self) -> bool {
        self.openings.iter().any(|opening| tandem_chess::fen::is_chess960(&opening.start))
    }
}

fn read_epd(reader: impl BufRead, path: &str) -> Result<Vec<Opening>, BookError> {
    let mut openings = Vec::new();
    for (number, text) in epd::lines(reader) {
        let text = text.map_err(|source| BookError::Io { path: path.into(), source })?;
        let entry =
            |what: String| BookError::Entry { path: path.into(), location: format!("line {number}"), what };
        // A FEN is an EPD with two move counters; a book may hold either.
        let board = match tandem_chess::fen::parse(&text) {
            Ok(board) => board,
            Err(fen_error) => {
                epd::parse(&text).map(|epd| epd.board).map_err(|_| entry(fen_error.to_string()))?
            }
        };
        if result_by_rules(&Position::from(board.clone())).is_some() {
            return Err(entry("the game is already over in this position".into()));
        }
        openings.push(Opening { start: board, moves: Vec::new() });
    }
    Ok(openings)
}

fn read_pgn(reader: impl BufRead, path: &str, max_plies: usize) -> Result<Vec<Opening>, BookError> {
    let mut openings = Vec::new();
    let mut reader = pgn::GameReader::new(reader);
    loop {
        let entry = |what: String| BookError::Entry {
            path: path.into(),
            location: format!("game {}", openings.len() + 1),
            what,
        };
        let Some(game) = reader.next_game() else { return Ok(openings) };
        let game = game.map_err(|error| entry(error.to_string()))?;
        let moves: Vec<Move> = game.moves.iter().take(max_plies).map(|ply| ply.mv).collect();
        let mut position = Position::from(game.start.clone());
        for &mv in &moves {
            position.try_play(mv).map_err(|error| entry(error.to_string()))?;
        }
        if result_by_rules(&position).is_some() {
            return Err(entry("the game is already over after its moves".into()));
        }
        openings.push(Opening { start: game.start, moves });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn file(name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = std::env::temp_dir().join(format!("tandem-book-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path
    }

    fn open(name: &str, text: impl AsRef<[u8]>) -> Result<Book, String> {
        let path = file(name, text);
        let book = Book::open(&path, BookOrder::Sequential, Some(4)).map_err(|error| error.to_string());
        std::fs::remove_file(path).unwrap();
        book
    }

    const FEN: &str = "rnbqkbnr/pp1ppppp/8/2p5/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2";

    #[test]
    fn fen_epd_and_pgn_are_read() {
        let epd = format!(
            "# a comment\n\n{FEN}\nrnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - bm e4; id \"x\";\n"
        );
        assert_eq!(open("a.epd", &epd).unwrap().len(), 2);
        let latin = [&b"\xEF\xBB\xBF"[..], FEN.as_bytes(), b" id \"R\xE9ti\";\n"].concat();
        assert_eq!(open("i.epd", latin).unwrap().len(), 1);
        let missing = Path::new("no/such/book.epd");
        let message = Book::open(missing, BookOrder::Sequential, None).unwrap_err().to_string();
        assert_eq!(message.matches("book.epd").count(), 1, "{message}");
        let book = open("a.pgn", "[Event \"?\"]\n\n1. e4 e5 2. Nf3 Nc6 3. Bb5 *\n\n1. d4 *\n").unwrap();
        let lengths: Vec<usize> = (0..3).map(|n| book.opening(n).1.moves.len()).collect();
        assert_eq!(lengths, [4, 1, 4], "cut after four plies; the first opening follows the last");
    }

    #[test]
    fn bad_entries_are_reported_with_their_location() {
        let error = |name, text: &str| open(name, text).unwrap_err();
        assert!(error("b.epd", &format!("{FEN}\nrnbqkbnr/9/8 w - -\n")).contains("b.epd, line 2: "));
        assert!(
            error("c.epd", "4k3/8/8/8/8/8/8/3QK3 b - - 0 1\n8/8/8/8/8/k7/8/K7 w - - 0 1")
                .contains("line 2: the game is already over")
        );
        assert!(error("d.pgn", "1. e4 e5 *\n\n1. e4 Ke5 *\n").contains("d.pgn, game 2: "));
        assert!(error("e.pgn", "1. f3 e5 2. g4 Qh4# 0-1").contains("already over"));
        let path = file("f.pgn", "1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8 *");
        let drawn = Book::open(&path, BookOrder::Sequential, None).unwrap_err().to_string();
        std::fs::remove_file(path).unwrap();
        assert!(drawn.contains("already over"), "threefold repetition: {drawn}");
        assert!(error("f.epd", "\n").contains("holds no openings"));
        assert!(error("g.abk", "x").contains("should be .epd"));
        assert!(Book::open(Path::new("/no/such.epd"), BookOrder::Sequential, None).is_err());
    }

    #[test]
    fn the_seed_determines_the_order() {
        let path = file("h.epd", format!("{FEN}\n").repeat(50));
        let order = |seed| {
            let book = Book::open(&path, BookOrder::Random(seed), None).unwrap();
            (0..50).map(|n| book.opening(n).0).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        std::fs::remove_file(&path).unwrap();
    }
}
