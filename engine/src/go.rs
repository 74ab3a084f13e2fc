//! The words that follow `go`.

use std::str::SplitAsciiWhitespace;
use std::time::Duration;
use tandem_chess::{Color, Position, uci};
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

/// Why a `go` makes no sense.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum GoError {
    #[error("go: '{0}' is not a limit; 'help' lists them")]
    Unknown(String),
    #[error("go: {0} needs a number after it")]
    Number(&'static str),
    #[error("go: searchmoves: {0}")]
    SearchMove(#[from] uci::UciMoveError),
}

/// Reads the words after `go`.
pub(crate) fn parse(arguments: &str, position: &Position) -> Result<Go, GoError> {
    let mut limits = Limits::default();
    let mut words = arguments.split_ascii_whitespace().peekable();
    let (mut time, mut increment) = ([None::<Duration>; 2], [Duration::ZERO; 2]);
    let mut moves_to_go = None;
    while let Some(word) = words.next() {
        match word {
            "searchmoves" => {
                while let Some(text) = words.peek() {
                    match uci::parse(position.board(), text) {
                        Ok(mv) => limits.search_moves.push(mv),
                        // The list ends where the next limit begins.
                        Err(uci::UciMoveError::Syntax(_)) if is_limit(text) => break,
                        Err(error) => return Err(error.into()),
                    }
                    words.next();
                }
            }
            "ponder" => limits.ponder = true,
            "infinite" => limits.infinite = true,
            "wtime" => time[Color::White as usize] = Some(millis(&mut words, "wtime")?),
            "btime" => time[Color::Black as usize] = Some(millis(&mut words, "btime")?),
            "winc" => increment[Color::White as usize] = millis(&mut words, "winc")?,
            "binc" => increment[Color::Black as usize] = millis(&mut words, "binc")?,
            "movestogo" => moves_to_go = Some(number(&mut words, "movestogo")?.clamp(0, 1000) as u32),
            "depth" => limits.depth = Some(number(&mut words, "depth")?.clamp(1, 1000) as u32),
            "nodes" => limits.nodes = Some(number(&mut words, "nodes")?.max(1) as u64),
            "mate" => limits.mate = Some(number(&mut words, "mate")?.clamp(1, 1000) as u32),
            "movetime" => limits.move_time = Some(millis(&mut words, "movetime")?),
            "perft" => return Ok(Go::Perft(number(&mut words, "perft")?.clamp(0, 100) as u32)),
            other => return Err(GoError::Unknown(other.chars().take(20).collect())),
        }
    }
    let us = position.side_to_move() as usize;
    if let Some(remaining) = time[us] {
        limits.clock = Some(Clock {
            remaining,
            increment: increment[us],
            moves_to_go: moves_to_go.filter(|&moves| moves > 0),
        });
    }
    // A bare `go`, or one with the enemy's clock only, goes on until it is stopped; one for a mate until that is found.
    if !limits.is_bounded() && !limits.ponder && limits.mate.is_none() {
        limits.infinite = true;
    }
    Ok(Go::Search(limits))
}

fn is_limit(word: &str) -> bool {
    [
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
    ]
    .contains(&word)
}

type Words<'a> = std::iter::Peekable<SplitAsciiWhitespace<'a>>;

fn number(words: &mut Words<'_>, name: &'static str) -> Result<i64, GoError> {
    words.next().and_then(|word| word.parse().ok()).ok_or(GoError::Number(name))
}

/// Milliseconds; a GUI whose clock ran out may send less than nothing.
fn millis(words: &mut Words<'_>, name: &'static str) -> Result<Duration, GoError> {
    // A century is long enough, and short enough to add to.
    const CENTURY: i64 = 100 * 365 * 24 * 3600 * 1000;
    Ok(Duration::from_millis(number(words, name)?.clamp(0, CENTURY) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(text: &str) -> Limits {
        match parse(text, &Position::startpos()) {
            Ok(Go::Search(limits)) => limits,
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
        assert!(matches!(parse("perft 5", &Position::startpos()), Ok(Go::Perft(5))));
    }

    #[test]
    fn nonsense_is_named() {
        let error = |text: &str| parse(text, &Position::startpos()).unwrap_err();
        assert_eq!(error("depth"), GoError::Number("depth"));
        assert_eq!(error("depth x"), GoError::Number("depth"));
        assert_eq!(error("fast"), GoError::Unknown("fast".into()));
        assert!(matches!(error("searchmoves e2e5"), GoError::SearchMove(_)));
        assert!(matches!(error("searchmoves banana"), GoError::SearchMove(_)));
    }

    #[test]
    fn a_clock_that_ran_out_is_zero() {
        assert_eq!(limits("wtime -50 btime 100").clock.unwrap().remaining, Duration::ZERO);
    }
}
