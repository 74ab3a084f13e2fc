//! What a network is given: plain numbers, whoever made them.

use crate::architecture::{SQUARES, TEXT_TOKENS, VOCABULARY};
use crate::{Architecture, Input};
use thiserror::Error;

/// Positions to be judged.
#[derive(Clone, Copy, Debug)]
pub enum Inputs<'a> {
    /// For networks that read text.
    Text {
        /// 78 for each position: a zero and the 77 of its FEN.
        tokens: &'a [u16],
        /// For a network of action values, the numbers of each position's moves; none otherwise.
        actions: &'a [&'a [u16]],
    },
    /// For networks with a token for each square: for each position 64 rows of as many numbers as the architecture's
    /// input has, a1 first, as the side to move sees the board. The first 12 are the pieces.
    Squares(&'a [f32]),
    /// The same, with a code of each board that somebody else has made: [`Architecture::board_code`] numbers, a1's first,
    /// which are added to what the network's own layer over the whole board makes.
    Coded {
        /// The squares.
        squares: &'a [f32],
        /// The codes.
        codes: &'a [f32],
    },
    /// Such a code and nothing else: the squares are empty, and the network's own layer over the board is silent.
    Codes(&'a [f32]),
}

/// Why numbers are no input of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InputError {
    /// Text for squares, or squares for text.
    #[error("the network reads {}", if *.0 == Input::Text { "text" } else { "squares" })]
    Kind(Input),
    /// Not a whole number of positions.
    #[error("{len} numbers are no whole positions of {each}")]
    Length {
        /// How many there are.
        len: usize,
        /// How many a position has.
        each: usize,
    },
    /// A code for a network that has no place for it.
    #[error("the network has no code of the whole board that another could be added to")]
    NoCode,
    /// Not a code for each position.
    #[error("{codes} codes for {positions} positions; each needs one")]
    Codes {
        /// How many codes.
        codes: usize,
        /// How many positions.
        positions: usize,
    },
    /// A token or a move that is none.
    #[error("token {0} is not below 1968")]
    Token(u16),
    /// Not a list of moves for each position.
    #[error(
        "{lists} lists of moves for {positions} positions; networks of action values need one for each, others none"
    )]
    Moves {
        /// How many lists.
        lists: usize,
        /// How many positions.
        positions: usize,
    },
}

impl Inputs<'_> {
    /// How many positions there are, if a network can read them.
    pub(super) fn check(&self, architecture: &Architecture) -> Result<usize, InputError> {
        let whole = |len: usize, each: usize| {
            if len.is_multiple_of(each) { Ok(len / each) } else { Err(InputError::Length { len, each }) }
        };
        let code = || architecture.board_code().ok_or(InputError::NoCode);
        match (self, architecture.input.channels()) {
            (Self::Squares(numbers), Some(channels)) => whole(numbers.len(), SQUARES * channels),
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
