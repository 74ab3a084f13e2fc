//! Results of a run of the checks: how often each was made, how often it failed, and examples of its failures.

use serde::Serialize;
use std::collections::BTreeMap;

/// Failures of each check whose description is kept.
const MAX_EXAMPLES: usize = 5;

/// A rule of UCI, or a promise that users rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// `uci` is answered by name, author, well-formed options and `uciok`.
    Handshake,
    /// `isready` is answered soon, also during a search.
    Ready,
    /// Each `go` is answered by exactly one legal move, and nothing else is.
    BestMove,
    /// The move to ponder on is legal after the best move.
    PonderMove,
    /// An infinite search ends by `stop` alone, and soon.
    Stop,
    /// A search while pondering ends by `ponderhit` or `stop` alone.
    Ponder,
    /// `info` lines have known fields with values of the right form.
    InfoLine,
    /// Every move of every line is legal and in the right notation.
    Pv,
    /// No line goes on after a draw by repetition, the fifty-move rule or insufficient material.
    PvPastDraw,
    /// The depth of a line never falls within a search.
    Depth,
    /// Nodes and time never fall within a search, and the time agrees with a real clock.
    Counters,
    /// Scores are within range.
    Score,
    /// The moves of a line that announces a mate lead to it, in the number of moves announced.
    Mate,
    /// The lines of MultiPV are as many as asked for, begin with different moves, and are in order of score.
    MultiPv,
    /// The best move is the first move of the first line.
    FirstLine,
    /// `searchmoves` restricts the best move.
    SearchMoves,
    /// A position without a legal move is answered by `(none)` or `0000`.
    GameOver,
    /// The answer to a search with a time limit comes in time.
    Clock,
    /// Options take their smallest, largest and random values, and the engine goes on.
    Options,
    /// Unknown commands and odd white space are ignored.
    Unknown,
    /// The memory of the process does not grow from search to search.
    Memory,
    /// `quit` and the end of input end the process.
    End,
    /// The process runs until it is asked to end.
    Alive,
}

impl Check {
    /// All checks, in the order of tables.
    pub const ALL: [Self; 23] = [
        Self::Handshake,
        Self::Ready,
        Self::BestMove,
        Self::PonderMove,
        Self::Stop,
        Self::Ponder,
        Self::InfoLine,
        Self::Pv,
        Self::PvPastDraw,
        Self::Depth,
        Self::Counters,
        Self::Score,
        Self::Mate,
        Self::MultiPv,
        Self::FirstLine,
        Self::SearchMoves,
        Self::GameOver,
        Self::Clock,
        Self::Options,
        Self::Unknown,
        Self::Memory,
        Self::End,
        Self::Alive,
    ];

    /// The rule in a few words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Handshake => "handshake: name, author, options",
            Self::Ready => "readyok in time, also during a search",
            Self::BestMove => "one legal bestmove for each go",
            Self::PonderMove => "legal move to ponder on",
            Self::Stop => "stop ends a search, nothing else an infinite one",
            Self::Ponder => "ponderhit or stop ends pondering, nothing else",
            Self::InfoLine => "well-formed info lines",
            Self::Pv => "legal moves in every line",
            Self::PvPastDraw => "no line past a draw",
            Self::Depth => "depth never falls",
            Self::Counters => "nodes and time never fall, time is real",
            Self::Score => "scores in range",
            Self::Mate => "announced mates are mates",
            Self::MultiPv => "MultiPV complete, distinct, in order",
            Self::FirstLine => "bestmove begins the first line",
            Self::SearchMoves => "searchmoves obeyed",
            Self::GameOver => "no move where there is none",
            Self::Clock => "answers within the time",
            Self::Options => "options at their bounds",
            Self::Unknown => "unknown commands ignored",
            Self::Memory => "memory does not grow",
            Self::End => "quit and end of input end it",
            Self::Alive => "no crash, no hang",
        }
    }

    /// True if a failure breaks no rule: it makes output less useful, and good engines differ in it.
    pub fn is_advice(self) -> bool {
        matches!(self, Self::PvPastDraw)
    }

    /// Unit of the figure that the check records, if it records one, and what it is.
    pub fn unit(self) -> Option<&'static str> {
        match self {
            Self::Ready => Some("ms until readyok at most"),
            Self::Stop => Some("ms from stop to bestmove at most"),
            Self::Clock => Some("ms late at most"),
            Self::Memory => Some("MiB at most"),
            _ => None,
        }
    }
}

/// Number of times that a check was made, and its failures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tally {
    /// Number of times that the check was made.
    pub made: u64,
    /// Number of failures.
    pub failed: u64,
    /// Largest value of the figure that the check records, in [`Check::unit`].
    pub largest: Option<f64>,
    /// Descriptions of the first failures, with the commands that led to them.
    pub examples: Vec<String>,
}

/// Results of all checks on one engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Name by which the engine identifies itself.
    pub engine: String,
    /// Number of searches.
    pub searches: u64,
    /// Number of `info` lines.
    pub infos: u64,
    /// Number of complete games.
    pub games: u64,
    /// Results of each check that was made.
    pub checks: BTreeMap<Check, Tally>,
}

impl Report {
    /// Counts a check; `failure` describes what is wrong and is called only then.
    pub(super) fn check(&mut self, check: Check, holds: bool, failure: impl FnOnce() -> String) {
        let tally = self.checks.entry(check).or_default();
        tally.made += 1;
        if !holds {
            tally.failed += 1;
            if tally.examples.len() < MAX_EXAMPLES {
                tally.examples.push(failure());
            }
        }
    }

    /// Records a figure of a check.
    pub(super) fn record(&mut self, check: Check, value: f64) {
        let largest = &mut self.checks.entry(check).or_default().largest;
        *largest = Some(largest.map_or(value, |old| old.max(value)));
    }

    /// Adds the results of another process of the same engine.
    pub(super) fn merge(&mut self, other: Self) {
        self.searches += other.searches;
        self.infos += other.infos;
        self.games += other.games;
        if self.engine.is_empty() {
            self.engine = other.engine;
        }
        for (check, tally) in other.checks {
            let mine = self.checks.entry(check).or_default();
            mine.made += tally.made;
            mine.failed += tally.failed;
            mine.largest = mine.largest.into_iter().chain(tally.largest).reduce(f64::max);
            let space = MAX_EXAMPLES.saturating_sub(mine.examples.len());
            mine.examples.extend(tally.examples.into_iter().take(space));
        }
    }

    /// Number of failures, without those of checks that are only advice.
    pub fn failures(&self) -> u64 {
        self.checks.iter().filter(|(check, _)| !check.is_advice()).map(|(_, tally)| tally.failed).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_and_some_are_described() {
        let mut report = Report::default();
        for n in 0..10 {
            report.check(Check::Pv, n % 2 == 0, || format!("line {n}"));
        }
        report.check(Check::PvPastDraw, false, || "a draw".into());
        report.record(Check::Clock, 3.0);
        let mut sum = report.clone();
        sum.merge(report);
        let pv = &sum.checks[&Check::Pv];
        assert_eq!((pv.made, pv.failed, pv.examples.len()), (20, 10, MAX_EXAMPLES));
        assert_eq!((sum.failures(), sum.checks[&Check::Clock].largest), (10, Some(3.0)));
    }

    #[test]
    fn every_check_is_listed() {
        assert!(Check::ALL.is_sorted() && Check::ALL.last() == Some(&Check::Alive));
    }
}
