//! Network inputs as plain arrays, independent of who encoded them, and their validation.

use crate::architecture::{SQUARES, TEXT_TOKENS, VOCABULARY};
use crate::{Architecture, Input};
use thiserror::Error;

/// Encoded positions for a forward pass; [`crate::PositionBatch`] makes them.
#[derive(Clone, Copy, Debug)]
pub enum Inputs<'a> {
    /// Input of networks that read tokens of text ([`Input::Text`]).
    Text {
        /// 78 for each position: a zero and the 77 tokens of its FEN.
        tokens: &'a [u16],
        /// For a network with an action-value head, the move tokens of each position; empty otherwise.
        actions: &'a [&'a [u16]],
    },
    /// For networks with a token for each square: for each position 64 rows of [`Input::channels`] values, a1
    /// first, as the side to move sees the board. The first 12 values of a row encode the piece.
    Squares(&'a [f32]),
    /// Rows of squares as in [`Inputs::Squares`], with an external code of each board:
    /// [`Architecture::board_code`] values, those of a1 first, which are added to the outputs of the
    /// network's own dense-board layer.
    Coded {
        /// Input channels of all squares, as in [`Self::Squares`].
        squares: &'a [f32],
        /// Board codes, the outputs of a bridge, of all positions one after the other.
        codes: &'a [f32],
    },
    /// External board codes only ([`Architecture::board_code`] values each): the input channels are zero, and
    /// the network's own dense-board layer is skipped.
    Codes(&'a [f32]),
}

/// Error for inputs that do not fit the network's architecture. It is found before anything is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InputError {
    /// Text for a network that reads squares, or squares for one that reads text.
    #[error("the network reads {}", if *.0 == Input::Text { "text" } else { "squares" })]
    Kind(Input),
    /// The number of values is not a multiple of the number that each position has.
    #[error("{len} values are not whole positions of {each}")]
    Length {
        /// Number of input values that were given for all positions together.
        len: usize,
        /// Number of input values that each position needs.
        each: usize,
    },
    /// A board code for a network without a dense-board embedding, which is the only layer that can take one.
    #[error("the network has no code of the whole board that another could be added to")]
    NoCode,
    /// The number of codes is not the number of positions.
    #[error("{codes} codes for {positions} positions; each needs one")]
    Codes {
        /// Number of board codes that were given.
        codes: usize,
        /// Number of positions, by the length of the squares.
        positions: usize,
    },
    /// A token or move token that is not in the vocabulary, 0 to 1967.
    #[error("token {0} is not below 1968")]
    Token(u16),
    /// The number of move lists does not fit the number of positions.
    #[error(
        "{lists} lists of moves for {positions} positions; networks of action values need one for each, others none"
    )]
    Moves {
        /// Number of move lists that were given.
        lists: usize,
        /// Number of positions, by the length of the tokens.
        positions: usize,
    },
}

impl Inputs<'_> {
    /// Validates the inputs for an architecture and returns the number of positions.
    pub(super) fn check(&self, architecture: &Architecture) -> Result<usize, InputError> {
        let whole = |len: usize, each: usize| {
            if len.is_multiple_of(each) { Ok(len / each) } else { Err(InputError::Length { len, each }) }
        };
        let code = || architecture.board_code().ok_or(InputError::NoCode);
        match (self, architecture.input.channels()) {
            (Self::Squares(values), Some(channels)) => whole(values.len(), SQUARES * channels),
            (Self::Coded { squares, codes }, Some(channels)) => {
                let positions = whole(squares.len(), SQUARES * channels)?;
                match whole(codes.len(), code()?)? {
                    codes if codes == positions => Ok(positions),
                    codes => Err(InputError::Codes { codes, positions }),
                }
            }
            (Self::Codes(codes), Some(_)) => whole(codes.len(), code()?),
            (Self::Text { tokens, actions }, None) => {
                let positions = whole(tokens.len(), TEXT_TOKENS)?;
                let expected = if architecture.heads.action_value.is_some() { positions } else { 0 };
                if actions.len() != expected {
                    return Err(InputError::Moves { lists: actions.len(), positions });
                }
                let mut all = tokens.iter().chain(actions.iter().copied().flatten());
                match all.find(|&&token| usize::from(token) >= VOCABULARY) {
                    Some(&token) => Err(InputError::Token(token)),
                    None => Ok(positions),
                }
            }
            _ => Err(InputError::Kind(architecture.input)),
        }
    }
}
