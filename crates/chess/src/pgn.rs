//! Games in Portable Game Notation (PGN).
//!
//! [`GameReader`] streams games from a file of any size and keeps one of them at a time; [`read_parallel`] does
//! the same on several threads; [`write()`] writes a game back. A game that was read can be replayed, because
//! every move was checked to be legal.
//!
//! ```
//! use tandem_chess::pgn::{self, GameReader, GameResult};
//!
//! let text = "[White \"Réti\"]\n\n1. Nf3 d5 {[%eval 0.12]} (1... Nf6 $5) 2. c4 *\n";
//! let game = GameReader::new(text.as_bytes()).next_game().unwrap()?;
//! assert_eq!(game.tag("White"), Some("Réti"));
//! assert_eq!(game.moves.len(), 3);
//! assert_eq!(game.moves[1].variations[0][0].nags, [5]);
//! assert_eq!(game.result, GameResult::Unknown);
//!
//! let mut out = Vec::new();
//! pgn::write(&mut out, &game)?;
//! assert!(out.ends_with(b"\n1. Nf3 d5 { [%eval 0.12] } ( 1... Nf6 $5 ) 2. c4 *\n\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod annotation;
mod error;
mod parallel;
mod parse;
mod reader;
mod split;
mod tokens;
mod writer;

pub use annotation::{Eval, Score};
pub use error::{PgnError, PgnErrorKind};
pub use parallel::read_parallel;
pub use reader::GameReader;
pub use writer::write;

use crate::{Board, Color, Move, fen};
use std::fmt;

/// Result of a game, as the tag `Result` and the end of the moves give it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GameResult {
    /// White won, `1-0`.
    WhiteWins,
    /// Black won, `0-1`.
    BlackWins,
    /// The game was drawn, `1/2-1/2`.
    Draw,
    /// `*`: the game is not finished, was abandoned, or its result is not known.
    #[default]
    Unknown,
}

impl GameResult {
    /// The result in PGN notation, for example `1/2-1/2`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WhiteWins => "1-0",
            Self::BlackWins => "0-1",
            Self::Draw => "1/2-1/2",
            Self::Unknown => "*",
        }
    }

    /// Result of a game that this side has won.
    pub fn won_by(winner: Color) -> Self {
        match winner {
            Color::White => Self::WhiteWins,
            Color::Black => Self::BlackWins,
        }
    }

    /// Parses a result in PGN notation; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_bytes(text.as_bytes())
    }

    fn from_bytes(text: &[u8]) -> Option<Self> {
        Some(match text {
            b"1-0" => Self::WhiteWins,
            b"0-1" => Self::BlackWins,
            b"1/2-1/2" | b"1/2" => Self::Draw,
            b"*" => Self::Unknown,
            _ => return None,
        })
    }
}

impl fmt::Display for GameResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A move of a game with its annotations. A bare move costs no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ply {
    /// Move that was played.
    pub mv: Move,
    /// Numeric annotation glyphs: 1 is `!`, 2 is `?`, and so on.
    pub nags: Vec<u8>,
    /// Comment after the move. Several comments are joined by spaces.
    pub comment: Option<String>,
    /// Alternatives to this move, each a line of its own.
    pub variations: Vec<Vec<Ply>>,
}

impl Ply {
    /// A move without comments or other annotations.
    pub fn new(mv: Move) -> Self {
        Self { mv, nags: Vec::new(), comment: None, variations: Vec::new() }
    }
}

/// A game with its tags, moves, comments and variations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Game {
    /// Tags in their order. [`write()`] makes `Result`, `FEN` and `SetUp` agree with the fields below.
    pub tags: Vec<(String, String)>,
    /// Position before the first move.
    pub start: Board,
    /// Moves of the main line.
    pub moves: Vec<Ply>,
    /// Result of the game.
    pub result: GameResult,
    /// Comment before the first move.
    pub comment: Option<String>,
}

/// The seven tags that every game should have, in the standard's order, with the values for "unknown".
const ROSTER: [(&str, &str); 7] = [
    ("Event", "?"),
    ("Site", "?"),
    ("Date", "????.??.??"),
    ("Round", "?"),
    ("White", "?"),
    ("Black", "?"),
    ("Result", "*"),
];

impl Game {
    /// A game without moves whose players, place and time are unknown.
    pub fn from_start(start: Board) -> Self {
        let mut game = Self {
            tags: ROSTER.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            start,
            moves: Vec::new(),
            result: GameResult::Unknown,
            comment: None,
        };
        for (name, value) in start_tags(&game.start) {
            game.set_tag(name, &value);
        }
        game
    }

    /// Value of a tag; `None` if the game does not have it.
    pub fn tag(&self, name: &str) -> Option<&str> {
        self.tags.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Sets a tag: in place if it exists, otherwise behind all others.
    pub fn set_tag(&mut self, name: &str, value: &str) {
        match self.tags.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => value.clone_into(old),
            None => self.tags.push((name.to_owned(), value.to_owned())),
        }
    }

    /// Appends a move without annotations. Its legality is checked only by [`write()`].
    pub fn push(&mut self, mv: Move) {
        self.moves.push(Ply::new(mv));
    }
}

/// Tags that describe a start position other than the standard one.
fn start_tags(start: &Board) -> Vec<(&'static str, String)> {
    let mut tags = Vec::new();
    if fen::is_chess960(start) {
        tags.push(("Variant", "Chess960".to_owned()));
    }
    if *start != Board::default() {
        tags.push(("SetUp", "1".to_owned()));
        tags.push(("FEN", fen::format(start)));
    }
    tags
}
