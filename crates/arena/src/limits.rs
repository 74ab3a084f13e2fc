//! Limits on an engine's thinking: time controls, depth, nodes, and the clock that enforces them during a
//! game.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, time::Duration};
use thiserror::Error;

/// Error for a time control that cannot be parsed. Its message quotes the text and lists the accepted forms.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("time control '{0}' should look like 5+0.05, 40/60, 40/60+0.1 or inf, in seconds")]
pub struct TimeControlError(String);

/// Time available to an engine, parsed from texts such as `5+0.05`, `40/60` or `inf` (in seconds).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeLimit {
    /// No limit of time; some other limit must end each search.
    #[default]
    Unlimited,
    /// A chess clock that runs through the whole game.
    Clock {
        /// Time for the whole game, or for each `moves` moves if that is set.
        base: Duration,
        /// Time added after each move (Fischer increment); zero for none.
        increment: Duration,
        /// Moves to the next time control, after which `base` is added again; `None` for a single control.
        moves: Option<u32>,
    },
    /// The same time for every move, as in `st=0.1`; unused time is lost.
    PerMove(Duration),
}

/// Limits on an engine's searches. The first one that is reached ends a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineLimits {
    /// Time control of the game or of each move.
    pub time: TimeLimit,
    /// Maximum depth in plies; `None` for no limit.
    pub depth: Option<u32>,
    /// Maximum number of nodes for each move; `None` for no limit.
    pub nodes: Option<u64>,
    /// Time by which a move may be late before the engine loses on time, because the operating system needs
    /// time to pass a line from one process to another. It does not extend the clock.
    pub margin: Duration,
}

impl EngineLimits {
    /// Tolerance for late moves ([`EngineLimits::margin`]) where none is given: 20 milliseconds.
    pub const DEFAULT_MARGIN: Duration = Duration::from_millis(20);

    /// True if at least one limit is set, so that every search ends by itself.
    pub fn is_bounded(&self) -> bool {
        self.time != TimeLimit::Unlimited || self.depth.is_some() || self.nodes.is_some()
    }
}

impl Default for EngineLimits {
    fn default() -> Self {
        Self { time: TimeLimit::Unlimited, depth: None, nodes: None, margin: Self::DEFAULT_MARGIN }
    }
}

impl FromStr for TimeLimit {
    type Err = TimeControlError;

    fn from_str(text: &str) -> Result<Self, TimeControlError> {
        let invalid = || TimeControlError(text.chars().take(40).collect());
        if text == "inf" {
            return Ok(Self::Unlimited);
        }
        let (moves, rest) = match text.split_once('/') {
            Some((moves, rest)) => {
                let moves = moves.parse().ok().filter(|&moves: &u32| moves > 0).ok_or_else(invalid)?;
                (Some(moves), rest)
            }
            None => (None, text),
        };
        let (base, increment) = rest.split_once('+').unwrap_or((rest, "0"));
        let base = seconds(base).ok_or_else(invalid)?;
        let increment = seconds(increment).ok_or_else(invalid)?;
        if base.is_zero() {
            return Err(invalid());
        }
        Ok(Self::Clock { base, increment, moves })
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match *self {
            Self::Unlimited => write!(f, "inf"),
            Self::Clock { base, increment, moves } => {
                if let Some(moves) = moves {
                    write!(f, "{moves}/")?;
                }
                write!(f, "{}", base.as_secs_f64())?;
                if !increment.is_zero() {
                    write!(f, "+{}", increment.as_secs_f64())?;
                }
                Ok(())
            }
            Self::PerMove(time) => write!(f, "{} s/move", time.as_secs_f64()),
        }
    }
}

/// Text for tables and the PGN, for example `5+0.05` or `10000 nodes`.
impl fmt::Display for EngineLimits {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut parts = Vec::new();
        if self.time != TimeLimit::Unlimited {
            parts.push(self.time.to_string());
        }
        parts.extend(self.depth.map(|depth| format!("depth {depth}")));
        parts.extend(self.nodes.map(|nodes| format!("{nodes} nodes")));
        if parts.is_empty() {
            parts.push("inf".into());
        }
        write!(f, "{}", parts.join(", "))
    }
}

/// Parses a time in seconds as a decimal number, optionally as `minutes:seconds`. Returns `None` for
/// negative, malformed or very large values (ten million seconds and above).
pub fn seconds(text: &str) -> Option<Duration> {
    let (minutes, seconds) = match text.split_once(':') {
        Some((minutes, seconds)) => (minutes.parse::<u32>().ok()?, seconds),
        None => (0, text),
    };
    let seconds = seconds.parse::<f64>().ok()? + 60.0 * f64::from(minutes);
    Duration::try_from_secs_f64(seconds).ok().filter(|time| time.as_secs() < 10_000_000)
}

/// Clock of one side during a game: it holds the time left for the next move and applies the limits.
#[derive(Clone, Copy, Debug)]
pub struct PlayerClock {
    limits: EngineLimits,
    /// Time left under [`TimeLimit::Clock`]; unused otherwise.
    left: Duration,
    /// Moves left to the next time control, if there is one.
    moves_to_go: Option<u32>,
}

/// Error for a move that came after its time; the value is the whole delay, from which the tolerance is not
/// subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun(pub Duration);

impl PlayerClock {
    /// Creates the clock of one side as it stands at the start of a game with these limits.
    pub fn new(limits: EngineLimits) -> Self {
        match limits.time {
            TimeLimit::Clock { base, moves, .. } => Self { limits, left: base, moves_to_go: moves },
            _ => Self { limits, left: Duration::ZERO, moves_to_go: None },
        }
    }

    /// Limits of time, depth and nodes that this clock enforces.
    pub fn limits(&self) -> &EngineLimits {
        &self.limits
    }

    /// Time left for the current move, without the tolerance; `None` if it is not limited.
    pub fn allowance(&self) -> Option<Duration> {
        match self.limits.time {
            TimeLimit::Unlimited => None,
            TimeLimit::Clock { .. } => Some(self.left),
            TimeLimit::PerMove(time) => Some(time),
        }
    }

    /// Time left on a game clock; `None` for other kinds of limits.
    pub fn left(&self) -> Option<Duration> {
        matches!(self.limits.time, TimeLimit::Clock { .. }).then_some(self.left)
    }

    /// Increment of a game clock; zero for other kinds of limits.
    pub fn increment(&self) -> Duration {
        match self.limits.time {
            TimeLimit::Clock { increment, .. } => increment,
            _ => Duration::ZERO,
        }
    }

    /// Moves left to the next time control; `None` if there is only one.
    pub fn moves_to_go(&self) -> Option<u32> {
        self.moves_to_go
    }

    /// Subtracts the time of a move, then adds the increment, and the base time if a control was reached.
    ///
    /// # Errors
    ///
    /// Fails if the move was late by more than the tolerance; the game is then lost on time.
    pub fn spend(&mut self, elapsed: Duration) -> Result<(), Overrun> {
        let Some(allowed) = self.allowance() else { return Ok(()) };
        if elapsed > allowed + self.limits.margin {
            return Err(Overrun(elapsed - allowed));
        }
        if let TimeLimit::Clock { base, increment, moves } = self.limits.time {
            self.left = self.left.saturating_sub(elapsed) + increment;
            if let Some(to_go) = &mut self.moves_to_go {
                *to_go -= 1;
                if *to_go == 0 {
                    self.left += base;
                    self.moves_to_go = moves;
                }
            }
        }
        Ok(())
    }

    /// Arguments of the UCI command `go` for the side with this clock, with a leading space.
    pub fn go_arguments(&self, opponent: &Self, white: bool) -> String {
        let mut text = String::new();
        match self.limits.time {
            TimeLimit::Unlimited => {}
            TimeLimit::PerMove(time) => text += &format!(" movetime {}", millis(time)),
            TimeLimit::Clock { .. } => {
                // An opponent without a clock is shown with a copy of ours, because engines expect both
                // values.
                let their = if opponent.left().is_some() { opponent } else { self };
                let (w, b) = if white { (self, their) } else { (their, self) };
                text += &format!(" wtime {} btime {}", millis(w.left), millis(b.left));
                text += &format!(" winc {} binc {}", w.increment().as_millis(), b.increment().as_millis());
                if let Some(moves) = self.moves_to_go {
                    text += &format!(" movestogo {moves}");
                }
            }
        }
        if let Some(depth) = self.limits.depth {
            text += &format!(" depth {depth}");
        }
        if let Some(nodes) = self.limits.nodes {
            text += &format!(" nodes {nodes}");
        }
        if text.is_empty() {
            text.push_str(" infinite");
        }
        text
    }
}

/// Whole milliseconds, at least 1, because some engines read 0 as "no limit".
fn millis(time: Duration) -> u128 {
    time.as_millis().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(text: &str) -> PlayerClock {
        PlayerClock::new(EngineLimits {
            time: text.parse().unwrap(),
            margin: Duration::ZERO,
            ..EngineLimits::default()
        })
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn time_controls_are_read_and_written() {
        for text in ["5+0.05", "60", "40/60", "40/60+0.1", "inf"] {
            assert_eq!(text.parse::<TimeLimit>().unwrap().to_string(), text);
        }
        assert_eq!("1:30+1".parse::<TimeLimit>().unwrap().to_string(), "90+1");
        for text in ["", "0", "x", "5+", "-1", "0/5", "1e99", "NaN", "5+0.1+1"] {
            assert!(text.parse::<TimeLimit>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_increment_is_added_after_the_move() {
        let mut clock = clock("1+0.1");
        clock.spend(400 * MS).unwrap();
        assert_eq!(clock.left(), Some(700 * MS));
        assert_eq!(clock.spend(701 * MS), Err(Overrun(MS)));
    }

    #[test]
    fn the_base_time_is_added_at_each_time_control() {
        let mut clock = clock("2/1");
        clock.spend(100 * MS).unwrap();
        assert_eq!(clock.moves_to_go(), Some(1));
        clock.spend(100 * MS).unwrap();
        assert_eq!((clock.left(), clock.moves_to_go()), (Some(1800 * MS), Some(2)));
    }

    #[test]
    fn the_margin_forgives_a_late_move_but_adds_no_time() {
        let mut clock = clock("1+0.1");
        clock.limits.margin = 10 * MS;
        clock.spend(1005 * MS).unwrap();
        assert_eq!(clock.left(), Some(100 * MS));
    }

    #[test]
    fn go_names_both_clocks() {
        let (white, black) = (clock("2+0.1"), clock("40/1"));
        assert_eq!(white.go_arguments(&black, true), " wtime 2000 btime 1000 winc 100 binc 0");
        assert_eq!(black.go_arguments(&white, false), " wtime 2000 btime 1000 winc 100 binc 0 movestogo 40");
        let nodes = PlayerClock::new(EngineLimits { nodes: Some(5000), ..EngineLimits::default() });
        assert_eq!(nodes.go_arguments(&white, true), " nodes 5000");
        assert_eq!(white.go_arguments(&nodes, true), " wtime 2000 btime 2000 winc 100 binc 100");
    }
}
