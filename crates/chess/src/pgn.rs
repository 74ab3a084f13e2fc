//! Games as text: PGN.
//!
//! [`Reader`] streams games from a file of any size and keeps one of them at a time; [`read_parallel`] does the same
//! on several threads; [`write()`] writes a game back. What a reader returns can be replayed: every move has been
//! found legal.
//!
//! ```
//! use tandem_chess::pgn::{self, GameResult, Reader};
//!
//! let text = "[White \"Réti\"]\n\n1. Nf3 d5 {[%eval 0.12]} (1... Nf6 $5) 2. c4 *\n";
//! let game = Reader::new(text.as_bytes()).next_game().unwrap()?;
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
pub use reader::Reader;
pub use writer::write;

use crate::{Board, Color, Move, fen};
use std::fmt;

/// How a game ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GameResult {
    /// 1-0
    WhiteWins,
    /// 0-1
    BlackWins,
    /// 1/2-1/2
    Draw,
    /// `*`: the game goes on, was broken off, or nobody knows.
    #[default]
    Unknown,
}

impl GameResult {
    /// The result as PGN writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WhiteWins => "1-0",
            Self::BlackWins => "0-1",
            Self::Draw => "1/2-1/2",
            Self::Unknown => "*",
        }
    }

    /// The result of a game that one side has won.
    pub fn won_by(winner: Color) -> Self {
        match winner {
            Color::White => Self::WhiteWins,
            Color::Black => Self::BlackWins,
        }
    }

    /// A result as PGN writes it.
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

/// A move of a game with what is said about it. A bare move costs no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ply {
    /// The move.
    pub mv: Move,
    /// Judgements, as numeric annotation glyphs: 1 is `!`, 2 is `?`, and so on.
    pub nags: Vec<u8>,
    /// What is said after the move. Several comments are joined by spaces.
    pub comment: Option<String>,
    /// What could have been played instead of this move.
    pub variations: Vec<Vec<Ply>>,
}

impl Ply {
    /// A move of which nothing is said.
    pub fn new(mv: Move) -> Self {
        Self { mv, nags: Vec::new(), comment: None, variations: Vec::new() }
    }
}

/// A game.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Game {
    /// The tags, in their order. [`write()`] keeps `Result`, `FEN` and `SetUp` true to the fields below.
    pub tags: Vec<(String, String)>,
    /// The position that the game starts from.
    pub start: Board,
    /// The moves.
    pub moves: Vec<Ply>,
    /// How the game ended.
    pub result: GameResult,
    /// What is said before the first move.
    pub comment: Option<String>,
}

/// The tags that every game should have, in their order, with the values that stand for "unknown".
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

    /// The value of a tag.
    pub fn tag(&self, name: &str) -> Option<&str> {
        self.tags.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Sets a tag, in its place where there is one, else after all others.
    pub fn set_tag(&mut self, name: &str, value: &str) {
        match self.tags.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => value.clone_into(old),
            None => self.tags.push((name.to_owned(), value.to_owned())),
        }
    }

    /// Adds a move of which nothing is said. That it is legal is not checked before the game is written.
    pub fn push(&mut self, mv: Move) {
        self.moves.push(Ply::new(mv));
    }
}

/// The tags that tell readers of a start position other than the usual one.
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
