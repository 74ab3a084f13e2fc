//! Parsing of the words after `go`.

use std::iter::Peekable;
use std::num::IntErrorKind;
use std::str::SplitAsciiWhitespace;
use std::time::Duration;
use tandem_chess::{Color, Move, Position, uci};
use tandem_search::{Clock, Limits};
use thiserror::Error;

/// The request of a `go` command.
#[derive(Debug)]
pub(crate) enum Go {
    /// Searches for the best move within these limits.
    Search(Limits),
    /// Counts the leaves of the tree of legal moves to this depth in plies.
    Perft(u32),
}

/// A word of `go` that cannot be understood.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum GoError {
    #[error("go: '{0}' is not a limit; 'help' lists them")]
    Unknown(String),
    #[error("go: {0} needs a number after it")]
    Number(&'static str),
    #[error("go: searchmoves: {0}")]
    SearchMove(#[from] uci::UciMoveError),
}

/// Every word that begins a limit.
const LIMITS: [&str; 13] = [
    "ponder",
    "infinite",
    "wtime",
    "btime",
    "winc",
    "binc",
    "movestogo",
    "depth",
    "nodes",
    "mate",
    "movetime",
    "perft",
    "searchmoves",
];

/// Parses the words after `go`. As UCI requires, words that make no sense are ignored, because the GUI waits
/// for a move; the first of them is returned as an error besides the request.
pub(crate) fn parse(arguments: &str, position: &Position) -> (Option<Go>, Option<GoError>) {
    let mut limits = Limits::default();
    let mut parser = LimitParser { words: arguments.split_ascii_whitespace().peekable(), error: None };
    let (mut time, mut increment) = ([None::<Duration>; 2], [Duration::ZERO; 2]);
    let mut moves_to_go = None;
    while let Some(word) = parser.words.next() {
        match word {
            "searchmoves" => limits.search_moves.extend(parser.moves(position)),
            "ponder" => limits.ponder = true,
            "infinite" => limits.infinite = true,
            "wtime" => time[Color::White as usize] = parser.millis("wtime"),
            "btime" => time[Color::Black as usize] = parser.millis("btime"),
            "winc" => increment[Color::White as usize] = parser.millis("winc").unwrap_or_default(),
            "binc" => increment[Color::Black as usize] = parser.millis("binc").unwrap_or_default(),
            "movestogo" => moves_to_go = parser.number("movestogo", 0, 1000),
            "depth" => limits.depth = parser.number("depth", 1, 1000).map(|depth| depth as u32),
            "nodes" => limits.nodes = parser.number("nodes", 1, i64::MAX),
            "mate" => limits.mate = parser.number("mate", 1, 1000).map(|moves| moves as u32),
            "movetime" => limits.move_time = parser.millis("movetime"),
            "perft" => {
                let depth = parser.number("perft", 0, 100);
                return (depth.map(|depth| Go::Perft(depth as u32)), parser.error);
            }
            other => parser.note_error(GoError::Unknown(other.chars().take(20).collect())),
        }
    }
    let us = position.side_to_move() as usize;
    if let Some(remaining) = time[us] {
        limits.clock = Some(Clock {
            remaining,
            increment: increment[us],
            moves_to_go: moves_to_go.filter(|&moves| moves > 0).map(|moves| moves as u32),
        });
    }
    // A bare `go`, or one with the opponent's clock only, is infinite; a search for a mate ends once one is
    // found.
    if !limits.is_bounded() && !limits.ponder && limits.mate.is_none() {
        limits.infinite = true;
    }
    (Some(Go::Search(limits)), parser.error)
}

/// The remaining words, and the first error among those read.
struct LimitParser<'a> {
    words: Peekable<SplitAsciiWhitespace<'a>>,
    error: Option<GoError>,
}

impl LimitParser<'_> {
    fn note_error(&mut self, error: GoError) {
        self.error.get_or_insert(error);
    }

    /// A whole number, clamped to a range. Numbers too large for 64 bits become the largest allowed one.
    fn number(&mut self, name: &'static str, min: i64, max: i64) -> Option<u64> {
        // The next word may be the next limit.
        let word = self.words.next_if(|word| !LIMITS.contains(word)).unwrap_or_default();
        let number = match word.parse::<i64>() {
            Ok(number) => number,
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => max,
            Err(error) if *error.kind() == IntErrorKind::NegOverflow => min,
            Err(_) => {
                self.note_error(GoError::Number(name));
                return None;
            }
        };
        Some(number.clamp(min, max) as u64)
    }

    /// Milliseconds; negative values, which a GUI may send after its clock ran out, become zero.
    fn millis(&mut self, name: &'static str) -> Option<Duration> {
        // A century is long enough, and short enough for additions.
        const CENTURY: i64 = 100 * 365 * 24 * 3600 * 1000;
        self.number(name, 0, CENTURY).map(Duration::from_millis)
    }

    /// Moves up to the next limit; illegal ones are left out.
    fn moves(&mut self, position: &Position) -> Vec<Move> {
        let mut moves = Vec::new();
        while let Some(word) = self.words.next_if(|word| !LIMITS.contains(word)) {
            match uci::parse(position.board(), word) {
                Ok(mv) => moves.push(mv),
                Err(error) => self.note_error(error.into()),
            }
        }
        moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(text: &str) -> Limits {
        match parse(text, &Position::startpos()) {
            (Some(Go::Search(limits)), None) => limits,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_limit_is_understood() {
        let all = limits(
            "wtime 1000 btime 2000 winc 10 binc 20 movestogo 5 depth 7 nodes 100 mate 3 movetime 50 \
             searchmoves e2e4 d2d4",
        );
        let clock = all.clock.unwrap();
        assert_eq!(clock.remaining, Duration::from_millis(1000));
        assert_eq!(clock.increment, Duration::from_millis(10));
        assert_eq!(clock.moves_to_go, Some(5));
        assert_eq!((all.depth, all.nodes, all.mate), (Some(7), Some(100), Some(3)));
        assert_eq!(all.move_time, Some(Duration::from_millis(50)));
        assert_eq!(all.search_moves.len(), 2);
        assert!(limits("searchmoves e2e4 infinite").infinite);
        assert!(limits("").infinite);
        let mate = limits("mate 3");
        assert!(!mate.infinite && !mate.is_bounded() && limits("mate 3 depth 9").is_bounded());
        assert!(limits("ponder wtime 100 btime 100").ponder);
        assert!(matches!(parse("perft 5", &Position::startpos()), (Some(Go::Perft(5)), None)));
        assert_eq!(limits("nodes 99999999999999999999").nodes, Some(i64::MAX as u64));
        for word in LIMITS {
            let (_, error) = parse(word, &Position::startpos());
            assert!(!matches!(error, Some(GoError::Unknown(_))), "{word}");
        }
    }

    /// The GUI waits for a move all the same.
    #[test]
    fn invalid_words_are_reported_and_skipped() {
        let read = |text: &str| match parse(text, &Position::startpos()) {
            (Some(Go::Search(limits)), Some(error)) => (limits, error),
            other => panic!("{other:?}"),
        };
        assert_eq!(read("depth").1, GoError::Number("depth"));
        let (limits, error) = read("depth x nodes 7");
        assert_eq!((limits.depth, limits.nodes, error), (None, Some(7), GoError::Number("depth")));
        let (limits, error) = read("depth nodes 7");
        assert_eq!((limits.depth, limits.nodes, error), (None, Some(7), GoError::Number("depth")));
        let (limits, error) = read("wtime 60000 fast btime 60000");
        assert_eq!(error, GoError::Unknown("fast".into()));
        assert_eq!(limits.clock.unwrap().remaining, Duration::from_secs(60));
        for odd in ["e2e5", "banana"] {
            let (limits, error) = read(&format!("searchmoves {odd} d2d4 depth 3"));
            assert!(matches!(error, GoError::SearchMove(_)));
            assert_eq!((limits.search_moves.len(), limits.depth), (1, Some(3)));
        }
        assert!(matches!(parse("perft x", &Position::startpos()), (None, Some(GoError::Number("perft")))));
    }

    #[test]
    fn a_clock_that_ran_out_is_zero() {
        assert_eq!(limits("wtime -50 btime 100").clock.unwrap().remaining, Duration::ZERO);
    }
}
