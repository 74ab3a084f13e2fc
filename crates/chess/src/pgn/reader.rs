//! Reading games from a stream, one after another.

use super::Game;
use super::error::{PgnError, PgnErrorKind};
use super::parse;
use super::split::{Splitter, StreamPosition};
use super::tokens::Failure;
use crate::Board;
use std::io::BufRead;

/// Reads games from a stream of any length, one at a time. After an error it continues with the next game.
///
/// ```
/// use tandem_chess::pgn::GameReader;
///
/// let text = "1. e4 e5 2. Ke3 1-0\n\n1. d4 d5 0-1\n";
/// let games: Vec<_> = GameReader::new(text.as_bytes()).collect();
/// let error = games[0].as_ref().unwrap_err();
/// assert_eq!(error.to_string(), "game 1, line 1 (byte 12): 'Ke3' is not a legal move here");
/// assert_eq!(games[1].as_ref().unwrap().moves.len(), 2);
/// ```
pub struct GameReader<R> {
    splitter: Splitter<R>,
    parser: GameParser,
    /// Position of the next game: a byte of the current text, and the same place in the stream.
    at: usize,
    place: StreamPosition,
}

impl<R: BufRead> GameReader<R> {
    /// A reader of a stream, for example that of [`tandem_util::input::open`].
    pub fn new(input: R) -> Self {
        let splitter = Splitter::new(input);
        let place = splitter.text().1;
        Self { splitter, parser: GameParser::new(), at: 0, place }
    }

    /// The next game, or its fault; `None` at the end of the stream.
    pub fn next_game(&mut self) -> Option<Result<Game, PgnError>> {
        loop {
            let (text, _) = self.splitter.text();
            if let Some(outcome) = self.parser.next_game(text, &mut self.at, &mut self.place) {
                return Some(outcome);
            }
            let advanced = self.splitter.advance();
            (self.at, self.place) = (0, self.splitter.text().1);
            match advanced {
                Ok(true) => {}
                Ok(false) => return None,
                Err(kind) => return Some(Err(self.parser.count_failure(kind, self.place))),
            }
        }
    }
}

impl<R: BufRead> Iterator for GameReader<R> {
    type Item = Result<Game, PgnError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_game()
    }
}

/// Parses texts into games, and counts them.
pub(super) struct GameParser {
    games: u64,
    /// Building a board from scratch costs as much as a whole opening, and most games start from this one.
    usual_start: Board,
}

impl GameParser {
    pub(super) fn new() -> Self {
        Self { games: 0, usual_start: Board::default() }
    }

    /// The next game of a text; `None` at its end. The game begins at byte `at`, which is at `place` in the
    /// stream; both are moved behind it.
    pub(super) fn next_game(
        &mut self,
        text: &[u8],
        at: &mut usize,
        place: &mut StreamPosition,
    ) -> Option<Result<Game, PgnError>> {
        if *at >= text.len() {
            return None;
        }
        let start = *at;
        let outcome = parse::next_game(text, at, &self.usual_start);
        let (beginning, whole) = (*place, &text[start..*at]);
        *place = beginning.after(whole);
        Some(match outcome? {
            Ok(game) => {
                self.games += 1;
                Ok(game)
            }
            Err(Failure { at, kind }) => Err(self.count_failure(kind, beginning.after(&text[start..at]))),
        })
    }

    pub(super) fn count_failure(
        &mut self,
        kind: PgnErrorKind,
        StreamPosition { line, offset }: StreamPosition,
    ) -> PgnError {
        self.games += 1;
        PgnError { game: self.games, line, offset, kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, BufReader, Read};

    #[test]
    fn errors_name_their_place_and_reading_continues() {
        let text = concat!(
            "[Event \"one\"]\r\n\r\n1. e4\r\ne5 2. Ke3 1-0\r\n\r\n",
            "[Event \"two\"]\n\n1. e4 *\n\n",
            "[Event \"three\"]\n\n1. e4 { what *\n\n",
            "[Event \"four\"]\n\n1. e4 e5"
        );
        let games: Vec<_> = GameReader::new(text.as_bytes()).collect();
        assert_eq!(games.len(), 4);
        let first = games[0].as_ref().unwrap_err();
        assert_eq!((first.game, first.line, first.offset), (1, 4, text.find("Ke3").unwrap() as u64));
        assert_eq!(games[1].as_ref().unwrap().tag("Event"), Some("two"));
        let third = games[2].as_ref().unwrap_err();
        assert_eq!((third.game, third.line, third.offset), (3, 12, text.find("{ what").unwrap() as u64));
        assert_eq!(games[3].as_ref().unwrap().moves.len(), 2);
    }

    #[test]
    fn a_stream_that_fails_ends() {
        struct Failing;
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("broken disk"))
            }
        }
        let text = "1. e4 *\n1. d4".as_bytes();
        let games: Vec<_> = GameReader::new(BufReader::new(text.chain(Failing))).collect();
        assert_eq!(games.len(), 2);
        assert!(games[0].is_ok());
        assert_eq!(games[1].as_ref().unwrap_err().to_string(), "game 2, line 2 (byte 8): broken disk");
    }
}
