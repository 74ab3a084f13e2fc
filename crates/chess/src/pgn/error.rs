//! Faults of a game, with their place in the file.

use crate::{fen::FenError, san::SanError};
use std::io;
use thiserror::Error;

/// A fault of a game, with its place in the file.
#[derive(Debug, Error)]
#[error("game {game}, line {line} (byte {offset}): {kind}")]
pub struct PgnError {
    /// Number of the game in the file, counted from 1.
    pub game: u64,
    /// Number of the line in the file, counted from 1.
    pub line: u64,
    /// Byte offset of the fault in the file, after decompression.
    pub offset: u64,
    /// Kind of the fault, with the text that caused it.
    #[source]
    pub kind: PgnErrorKind,
}

/// Kind of a fault in the text of a game.
#[derive(Debug, Error)]
pub enum PgnErrorKind {
    /// The file itself could not be read; no games follow.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A text too long to be a game, as a binary file would give.
    #[error("the game is longer than {0} bytes")]
    TooLong(usize),
    /// A tag that is not of the form `[Name "value"]`.
    #[error("'{0}' is not a tag; it should look like [Name \"value\"]")]
    Tag(String),
    /// The tag `FEN` does not hold a valid position.
    #[error("in the tag FEN: {0}")]
    Fen(#[from] FenError),
    /// A game of a variant other than chess and Chess960.
    #[error("the variant '{0}' is not chess or Chess960")]
    Variant(String),
    /// A word of the move text is not a legal move.
    #[error(transparent)]
    Move(#[from] SanError),
    /// A null move, by which a side would pass.
    #[error("'{0}' is a null move, which is not legal")]
    NullMove(String),
    /// A comment has no closing brace.
    #[error("the comment that begins with '{0}' is not closed by '}}'")]
    UnclosedComment(String),
    /// A variation has no closing parenthesis.
    #[error("a variation is not closed by ')'")]
    UnclosedVariation,
    /// The end of a variation that was not opened.
    #[error("')' closes a variation that was not opened")]
    UnopenedVariation,
    /// A variation before the first move, which has no move to replace.
    #[error("a variation begins before there is a move to replace")]
    VariationWithoutMove,
    /// Variations nested too deeply, which would exhaust the stack of a program that reads them.
    #[error("variations are nested more than {0} deep")]
    TooDeep(usize),
    /// An annotation glyph that is not a number from 0 to 255.
    #[error("'{0}' is not a numeric annotation glyph ($0 to $255)")]
    Nag(String),
    /// A character that has no meaning among moves.
    #[error("'{0}' has no meaning among the moves")]
    Unexpected(String),
}
