//! The words that follow `go`.

use std::iter::Peekable;
use std::num::IntErrorKind;
use std::str::SplitAsciiWhitespace;
use std::time::Duration;
use tandem_chess::{Color, Move, Position, uci};
use tandem_search::{Clock, Limits};
use thiserror::Error;

/// What `go` asks for.
#[derive(Debug)]
pub(crate) enum Go {
    /// A search.
    Search(Limits),
    /// A count of the leaves of the tree of legal moves.
    Perft(u32),
}

/// What makes no sense in a `go`.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum GoError {
    #[error("go: '{0}' is not a limit; 'help' lists them")]
    Unknown(String),
    #[error("go: {0} needs a number after it")]
    Number(&'static str),
    #[error("go: searchmoves: {0}")]
    SearchMove(#[from] uci::UciMoveError),
}

/// Every word that begins something.
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

/// Reads the words after `go`. What makes no sense is passed over, as UCI has it, for whoever sent it waits for a move; the
/// first such thing comes back with what is asked for.
pub(crate) fn parse(arguments: &str, position: &Position) -> (Option<Go>, Option<GoError>) {
    let mut limits = Limits::default();
    let mut reader = Reader { words: arguments.split_ascii_whitespace().peekable(), fault: None };
    let (mut time, mut increment) = ([None::<Duration>; 2], [Duration::ZERO; 2]);
    let mut moves_to_go = None;
    while let Some(word) = reader.words.next() {
        match word {
            "searchmoves" => limits.search_moves.extend(reader.moves(position)),
            "ponder" => limits.ponder = true,
            "infinite" => limits.infinite = true,
            "wtime" => time[Color::White as usize] = reader.millis("wtime"),
            "btime" => time[Color::Black as usize] = reader.millis("btime"),
            "winc" => increment[Color::White as usize] = reader.millis("winc").unwrap_or_default(),
            "binc" => increment[Color::Black as usize] = reader.millis("binc").unwrap_or_default(),
            "movestogo" => moves_to_go = reader.number("movestogo", 0, 1000),
            "depth" => limits.depth = reader.number("depth", 1, 1000).map(|depth| depth as u32),
            "nodes" => limits.nodes = reader.number("nodes", 1, i64::MAX),
            "mate" => limits.mate = reader.number("mate", 1, 1000).map(|moves| moves as u32),
            "movetime" => limits.move_time = reader.millis("movetime"),
            "perft" => {
                let depth = reader.number("perft", 0, 100);
                return (depth.map(|depth| Go::Perft(depth as u32)), reader.fault);
            }
            other => reader.complain(GoError::Unknown(other.chars().take(20).collect())),
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
    // A bare `go`, or one with the enemy's clock only, goes on until it is stopped; one for a mate until that is found.
    if !limits.is_bounded() && !limits.ponder && limits.mate.is_none() {
        limits.infinite = true;
    }
    (Some(Go::Search(limits)), reader.fault)
}

/// Words, and the first of them that made no sense.
struct Reader<'a> {
    words: Peekable<SplitAsciiWhitespace<'a>>,
    fault: Option<GoError>,
}

impl Reader<'_> {
    fn complain(&mut self, fault: GoError) {
        self.fault.get_or_insert(fault);
    }

    /// A whole number, brought into a range; one that nobody could count to is as large as can be.
    fn number(&mut self, name: &'static str, min: i64, max: i64) -> Option<u64> {
        // What follows may be the next limit.
        let word = self.words.next_if(|word| !LIMITS.contains(word)).unwrap_or_default();
        let number = match word.parse::<i64>() {
            Ok(number) => number,
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => max,
            Err(error) if *error.kind() == IntErrorKind::NegOverflow => min,
            Err(_) => {
                self.complain(GoError::Number(name));
                return None;
            }
        };
        Some(number.clamp(min, max) as u64)
    }

    /// Milliseconds; a GUI whose clock ran out may send less than nothing.
    fn millis(&mut self, name: &'static str) -> Option<Duration> {
        // A century is long enough, and short enough to add to.
        const CENTURY: i64 = 100 * 365 * 24 * 3600 * 1000;
        self.number(name, 0, CENTURY).map(Duration::from_millis)
    }

    /// Moves, up to the next limit; those that cannot be played are left out.
    fn moves(&mut self, position: &Position) -> Vec<Move> {
        let mut moves = Vec::new();
        while let Some(word) = self.words.next_if(|word| !LIMITS.contains(word)) {
            match uci::parse(position.board(), word) {
                Ok(mv) => moves.push(mv),
                Err(error) => self.complain(error.into()),
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
            let (_, fault) = parse(word, &Position::startpos());
            assert!(!matches!(fault, Some(GoError::Unknown(_))), "{word}");
        }
    }

    /// Whoever sends it waits for a move all the same.
    #[test]
    fn nonsense_is_named_and_passed_over() {
        let read = |text: &str| match parse(text, &Position::startpos()) {
            (Some(Go::Search(limits)), Some(fault)) => (limits, fault),
            other => panic!("{other:?}"),
        };
        assert_eq!(read("depth").1, GoError::Number("depth"));
        let (limits, fault) = read("depth x nodes 7");
        assert_eq!((limits.depth, limits.nodes, fault), (None, Some(7), GoError::Number("depth")));
        let (limits, fault) = read("depth nodes 7");
        assert_eq!((limits.depth, limits.nodes, fault), (None, Some(7), GoError::Number("depth")));
        let (limits, fault) = read("wtime 60000 fast btime 60000");
        assert_eq!(fault, GoError::Unknown("fast".into()));
        assert_eq!(limits.clock.unwrap().remaining, Duration::from_secs(60));
        for odd in ["e2e5", "banana"] {
            let (limits, fault) = read(&format!("searchmoves {odd} d2d4 depth 3"));
            assert!(matches!(fault, GoError::SearchMove(_)));
            assert_eq!((limits.search_moves.len(), limits.depth), (1, Some(3)));
        }
        assert!(matches!(parse("perft x", &Position::startpos()), (None, Some(GoError::Number("perft")))));
    }

    #[test]
    fn a_clock_that_ran_out_is_zero() {
        assert_eq!(limits("wtime -50 btime 100").clock.unwrap().remaining, Duration::ZERO);
    }
}
