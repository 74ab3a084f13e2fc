//! What can be wrong with a game, and where.

use crate::{fen::FenError, san::SanError};
use std::io;
use thiserror::Error;

/// What is wrong with a game, and where.
#[derive(Debug, Error)]
#[error("game {game}, line {line} (byte {offset}): {kind}")]
pub struct PgnError {
    /// Which game of the file, from one.
    pub game: u64,
    /// Which line of the file, from one.
    pub line: u64,
    /// How many bytes of the file come before the place.
    pub offset: u64,
    /// What is wrong.
    #[source]
    pub kind: PgnErrorKind,
}

/// What is wrong with a game.
#[derive(Debug, Error)]
pub enum PgnErrorKind {
    /// The file itself could not be read; nothing comes after this.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A game that is too long to be one.
    #[error("the game is longer than {0} bytes")]
    TooLong(usize),
    /// A tag that is not of the form `[Name "value"]`.
    #[error("'{0}' is not a tag; it should look like [Name \"value\"]")]
    Tag(String),
    /// A tag `FEN` that is no position.
    #[error("in the tag FEN: {0}")]
    Fen(#[from] FenError),
    /// A game by other rules.
    #[error("the variant '{0}' is not chess or Chess960")]
    Variant(String),
    /// A word that is no legal move.
    #[error(transparent)]
    Move(#[from] SanError),
    /// A side passes, which is no move of chess.
    #[error("'{0}' is a null move, which is not legal")]
    NullMove(String),
    /// A comment without an end.
    #[error("the comment that begins with '{0}' is not closed by '}}'")]
    UnclosedComment(String),
    /// A variation without an end.
    #[error("a variation is not closed by ')'")]
    UnclosedVariation,
    /// The end of a variation that has not begun.
    #[error("')' closes a variation that was not opened")]
    UnopenedVariation,
    /// A variation with no move for it to replace.
    #[error("a variation begins before there is a move to replace")]
    VariationWithoutMove,
    /// Variations within variations without end.
    #[error("variations are nested more than {0} deep")]
    TooDeep(usize),
    /// A glyph that is no number of 0 to 255.
    #[error("'{0}' is not a numeric annotation glyph ($0 to $255)")]
    Nag(String),
    /// Something that has no place among moves.
    #[error("'{0}' has no meaning among the moves")]
    Unexpected(String),
}
