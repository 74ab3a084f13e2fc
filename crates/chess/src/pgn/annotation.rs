//! Commands that programs embed in comments: evaluations `[%eval 0.35]` and clocks `[%clk 0:01:02]`.

use super::Ply;
use std::time::Duration;

/// An evaluation from a PGN comment, from White's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eval {
    /// Score of the position after the move.
    pub score: Score,
    /// Search depth in plies, if the comment states it.
    pub depth: Option<u32>,
}

/// Score of a position, from White's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// In hundredths of a pawn; positive if White is better.
    Centipawns(i32),
    /// Mate in this number of moves; negative if Black mates.
    Mate(i32),
}

/// Largest evaluation in pawns; larger ones are taken for errors, and could overflow in arithmetic.
const MOST_PAWNS: f64 = 10_000.0;

impl Ply {
    /// The evaluation in the comment: `[%eval 0.35]`, `[%eval #-3]`, or `[%eval 1.2,18]` with its depth.
    pub fn eval(&self) -> Option<Eval> {
        let text = self.annotation("eval")?;
        let (score, depth) = match text.split_once(',') {
            Some((score, depth)) => (score, Some(depth.trim().parse().ok()?)),
            None => (text, None),
        };
        let score = match score.trim().strip_prefix('#') {
            Some(moves) => Score::Mate(moves.parse().ok()?),
            None => {
                let pawns: f64 = score.trim().parse().ok()?;
                let usable = pawns.abs() <= MOST_PAWNS;
                Score::Centipawns(usable.then(|| (pawns * 100.0).round() as i32)?)
            }
        };
        Some(Eval { score, depth })
    }

    /// The time left on the clock of the side that moved, from a comment such as `[%clk 0:01:02.5]`.
    pub fn clock(&self) -> Option<Duration> {
        let mut seconds = 0.0;
        for part in self.annotation("clk")?.split(':') {
            let value: f64 = part.trim().parse().ok()?;
            if value.is_sign_negative() {
                return None;
            }
            seconds = seconds * 60.0 + value;
        }
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// Argument of a command `[%name text]` in the comment.
    fn annotation(&self, name: &str) -> Option<&str> {
        let commands = self.comment.as_deref()?.split("[%").skip(1);
        commands
            .filter_map(|command| command.split_once(']'))
            .find_map(|(command, _)| command.strip_prefix(name)?.strip_prefix(char::is_whitespace))
            .map(str::trim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ply(comment: &str) -> Ply {
        Ply { comment: Some(comment.to_owned()), ..Ply::new("e2e4".parse().unwrap()) }
    }

    #[test]
    fn evaluations() {
        for (text, score, depth) in [
            ("[%eval 0.35]", Score::Centipawns(35), None),
            ("[%eval -12.1]", Score::Centipawns(-1210), None),
            ("good [%clk 0:01:00] [%eval #-3]", Score::Mate(-3), None),
            ("[%eval #5,20] [%clk 0:01:00]", Score::Mate(5), Some(20)),
            ("[%eval 1.2,18]", Score::Centipawns(120), Some(18)),
        ] {
            assert_eq!(ply(text).eval(), Some(Eval { score, depth }), "{text}");
        }
        for text in
            ["", "[%eval ]", "[%eval x]", "[%eval nan]", "[%eval 1e300]", "[%eval 1,x]", "[%evaluation 1]"]
        {
            assert_eq!(ply(text).eval(), None, "{text}");
        }
    }

    #[test]
    fn clocks() {
        for (text, millis) in [
            ("[%clk 0:01:02.5]", 62_500),
            ("[%eval 1.0] [%clk 1:00:00]", 3_600_000),
            ("[%clk 2:03]", 123_000),
            ("[%clk 7]", 7_000),
        ] {
            assert_eq!(ply(text).clock(), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "[%clk -0:00:01]", "[%clk 1:x]", "[%clk inf]", "[%clk 1e300]", "[%clk 0:00:01"] {
            assert_eq!(ply(text).clock(), None, "{text}");
        }
    }
}
