//! Checks on the output of one search: every `info` line, and the best move.

use super::info_line::{Bound, InfoLine};
use super::report::{Check, Report};
use crate::UciScore;
use crate::child::clip;
use std::time::Duration;
use tandem_chess::{Move, Position, uci};

/// Largest score in centipawns, either way.
const MAX_CENTIPAWNS: i32 = 100_000;
/// Largest distance to mate in moves, either way.
const MAX_MATE: i32 = 500;
/// Time by which the engine's clock may be ahead of ours. It is read before the line is printed and read here.
const CLOCK_TOLERANCE: Duration = Duration::from_millis(20);

/// A question to the engine, and the rules that follow from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) position: &'a Position,
    pub(super) chess960: bool,
    /// Number of lines asked for by the option `MultiPV`.
    pub(super) multipv: usize,
    /// Moves after `searchmoves`; empty for all.
    pub(super) search_moves: &'a [Move],
    /// True if an option weakens the engine or distorts its clock: its move need not be the first line's, and
    /// its time not the real one.
    pub(super) relaxed: bool,
    /// Commands that led here, for the description of a failure.
    pub(super) commands: &'a str,
}

/// A line of output with the time since `go`.
#[derive(Clone, Debug)]
pub(super) struct OutputLine {
    pub(super) since_go: Duration,
    pub(super) text: String,
}

/// Last line of play at each rank of MultiPV.
type Lines = Vec<Option<InfoLine>>;

/// Checks the `info` lines of a search and its `bestmove` line. Returns the best move, if it is legal.
pub(super) fn check_search(
    question: &Question,
    infos: &[OutputLine],
    best_line: &str,
    report: &mut Report,
) -> Option<Move> {
    report.searches += 1;
    report.infos += infos.len() as u64;
    let mut lines: Lines = Vec::new();
    // First move of the first line, as printed last without having failed low.
    let mut first_move = None;
    let mut counters = Counters { is_relaxed: question.relaxed, ..Counters::default() };
    for output in infos {
        let described =
            |what: String| format!("{what}: {} (after {})", clip_long(&output.text), question.commands);
        let info = match InfoLine::parse(output.text.strip_prefix("info").unwrap_or(&output.text)) {
            Ok(info) => info,
            Err(error) => {
                report.check(Check::InfoLine, false, || described(error.to_string()));
                continue;
            }
        };
        report.check(Check::InfoLine, true, String::new);
        counters.check(&info, output.since_go, report, &described);
        if let Some(score) = info.score {
            let in_range = match score {
                UciScore::Cp(value) => value.abs() <= MAX_CENTIPAWNS,
                // Zero says that the side to move is checkmated.
                UciScore::Mate(0) => !question.position.has_legal_move() && question.position.in_check(),
                UciScore::Mate(moves) => moves.abs() <= MAX_MATE,
            };
            report.check(Check::Score, in_range, || described("the score is out of range".into()));
        }
        if info.pv.is_empty() || info.score.is_none() {
            continue;
        }
        check_pv(question, &info, report, &described);
        let rank = info.multipv.unwrap_or(1) as usize;
        if rank == 0 || rank > question.multipv {
            report.check(Check::MultiPv, false, || described(format!("rank {rank} was not asked for")));
            continue;
        }
        if lines.len() < rank {
            lines.resize(rank, None);
        }
        let old = lines[rank - 1].as_ref();
        let fell = old.is_some_and(|old| info.depth < old.depth);
        report.check(Check::Depth, !fell, || described("the depth has fallen".into()));
        if rank == 1 && (info.bound != Some(Bound::Upper) || first_move.is_none()) {
            first_move = info.pv.first().cloned();
        }
        lines[rank - 1] = Some(info);
    }
    check_multipv(question, &lines, report);
    // After a line that failed low, engines play its move or that of the line before.
    let last = lines.first().and_then(Option::as_ref).and_then(|line| line.pv.first().cloned());
    check_best_move(question, [first_move, last], best_line, report)
}

/// Values that only rise within a search.
#[derive(Default)]
struct Counters {
    nodes: u64,
    millis: u64,
    is_relaxed: bool,
}

impl Counters {
    fn check(
        &mut self,
        info: &InfoLine,
        since_go: Duration,
        report: &mut Report,
        described: &impl Fn(String) -> String,
    ) {
        if info.nodes.is_none() && info.millis.is_none() {
            return;
        }
        let (nodes, millis) = (info.nodes.unwrap_or(self.nodes), info.millis.unwrap_or(self.millis));
        let problem = if nodes < self.nodes {
            Some(format!("nodes fell from {}", self.nodes))
        } else if millis < self.millis {
            Some(format!("time fell from {} ms", self.millis))
        } else if !self.is_relaxed && Duration::from_millis(millis) > since_go + CLOCK_TOLERANCE {
            Some(format!("only {} ms had passed", since_go.as_millis()))
        } else {
            None
        };
        report.check(Check::Counters, problem.is_none(), || described(problem.clone().unwrap_or_default()));
        (self.nodes, self.millis) = (nodes, millis);
    }
}

/// Plays a line move by move; then checks a mate that it announces.
fn check_pv(
    question: &Question,
    info: &InfoLine,
    report: &mut Report,
    described: &impl Fn(String) -> String,
) {
    let mut position = question.position.clone();
    // The root itself may be drawn: the engine was asked to go on.
    let is_drawn = |position: &Position| {
        position.repetitions() >= 2 || position.is_fifty_moves() || position.is_insufficient_material()
    };
    let (was_drawn, mut is_past_draw) = (is_drawn(question.position), false);
    for (ply, text) in info.pv.iter().enumerate() {
        let mv = match uci::parse(position.board(), text) {
            Ok(mv) if uci::format(position.board(), mv, question.chess960) == *text => mv,
            Ok(_) => {
                report.check(Check::Pv, false, || described(format!("castling is written {}", clip(text))));
                return;
            }
            Err(_) => {
                report.check(Check::Pv, false, || {
                    described(format!("move {} of the line, {}, is illegal", ply + 1, clip(text)))
                });
                return;
            }
        };
        is_past_draw |= !was_drawn && is_drawn(&position);
        position.play(mv);
    }
    report.check(Check::Pv, true, String::new);
    report.check(Check::PvPastDraw, !is_past_draw, || described("the line goes on after a draw".into()));
    if let (Some(UciScore::Mate(moves)), None) = (info.score, info.bound) {
        let plies = if moves > 0 { 2 * moves - 1 } else { -2 * moves } as usize;
        let is_mate = !position.has_legal_move() && position.in_check();
        // A line may be cut short by the hash table. As long as it does not contradict the score, it may.
        let holds = match info.pv.len() {
            len if len > plies => false,
            len if len == plies => is_mate,
            _ => position.has_legal_move(),
        };
        report.check(Check::Mate, holds, || described(format!("no mate in {moves} at the end of the line")));
    }
}

/// Checks the lines as they stand at the end of a search.
fn check_multipv(question: &Question, lines: &Lines, report: &mut Report) {
    if question.multipv == 1 || lines.is_empty() {
        return;
    }
    let legal = question.position.legal_moves().len();
    let choices = if question.search_moves.is_empty() { legal } else { question.search_moves.len() };
    let expected = question.multipv.min(choices);
    let known: Vec<&InfoLine> = lines.iter().flatten().collect();
    // A search that is stopped within its first iteration has not looked at all moves.
    let is_short = known.len() < expected && known.iter().any(|line| line.depth > Some(1));
    let mut problem = is_short.then(|| format!("{} lines instead of {expected}", known.len()));
    for (n, pair) in known.windows(2).enumerate() {
        let in_order = || {
            let comparable = pair.iter().all(|line| line.bound.is_none()) && pair[0].depth == pair[1].depth;
            let value = |line: &InfoLine| line.score.map(UciScore::centipawns);
            !comparable || value(pair[0]) >= value(pair[1])
        };
        if known[..=n].iter().any(|line| line.pv.first() == pair[1].pv.first()) {
            problem.get_or_insert(format!("line {} begins with a move of another line", n + 2));
        } else if !in_order() {
            problem.get_or_insert(format!("line {} has a higher score than the line before", n + 2));
        }
    }
    report.check(Check::MultiPv, problem.is_none(), || {
        format!("{} (after {})", problem.clone().unwrap_or_default(), question.commands)
    });
}

fn check_best_move(
    question: &Question,
    first_moves: [Option<String>; 2],
    best_line: &str,
    report: &mut Report,
) -> Option<Move> {
    let described = |what: &str| format!("{what}: {} (after {})", clip(best_line), question.commands);
    let words: Vec<&str> = best_line.split_ascii_whitespace().collect();
    let (best_text, ponder_text) = match *words.as_slice() {
        ["bestmove", best] => (best, None),
        ["bestmove", best, "ponder", ponder] => (best, Some(ponder)),
        _ => {
            report.check(Check::BestMove, false, || described("the line is malformed"));
            return None;
        }
    };
    if !question.position.has_legal_move() {
        let is_none = matches!(best_text, "(none)" | "0000");
        report.check(Check::GameOver, is_none, || described("there is no legal move"));
        return None;
    }
    let parse = |position: &Position, text: &str| {
        let mv = uci::parse(position.board(), text).ok()?;
        (uci::format(position.board(), mv, question.chess960) == text).then_some(mv)
    };
    let best = parse(question.position, best_text);
    report
        .check(Check::BestMove, best.is_some(), || described("the move is illegal or in the wrong notation"));
    let best = best?;
    if !question.search_moves.is_empty() {
        let obeyed = question.search_moves.contains(&best);
        report.check(Check::SearchMoves, obeyed, || described("the move was not among those to search"));
    }
    if let Some(text) = ponder_text {
        let mut after = question.position.clone();
        after.play(best);
        report.check(Check::PonderMove, parse(&after, text).is_some(), || {
            described("the ponder move is illegal")
        });
    }
    if let Some(first) = &first_moves[0]
        && !question.relaxed
    {
        let agrees = first_moves.iter().flatten().any(|mv| mv == best_text);
        let first = clip(first);
        report.check(Check::FirstLine, agrees, || described(&format!("the first line begins with {first}")));
    }
    Some(best)
}

/// Shortens a line of output to 300 characters.
fn clip_long(text: &str) -> String {
    let mut short: String = text.chars().take(300).collect();
    if short.len() < text.len() {
        short.push_str(" ...");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failures of each check on the answer to a question about a position.
    fn failures(fen: &str, multipv: usize, infos: &[&str], best: &str) -> Vec<Check> {
        let position = Position::from_fen(fen).unwrap();
        let question = Question {
            position: &position,
            chess960: false,
            multipv,
            search_moves: &[],
            relaxed: false,
            commands: "go",
        };
        let since_go = Duration::from_millis(100);
        let infos: Vec<OutputLine> =
            infos.iter().map(|text| OutputLine { since_go, text: format!("info {text}") }).collect();
        let mut report = Report::default();
        check_search(&question, &infos, best, &mut report);
        let failed = report.checks.iter().filter(|(_, tally)| tally.failed > 0);
        failed.map(|(&check, _)| check).collect()
    }

    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
    const MATE_IN_ONE: &str = "6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1";

    #[test]
    fn a_faultless_search_passes() {
        let infos = [
            "depth 1 score cp 20 nodes 20 time 1 pv e2e4",
            "depth 2 score cp 15 nodes 60 time 2 pv e2e4 e7e5",
        ];
        assert_eq!(failures(START, 1, &infos, "bestmove e2e4 ponder e7e5"), []);
        assert_eq!(failures(MATE_IN_ONE, 1, &["depth 2 score mate 1 pv a1a8"], "bestmove a1a8"), []);
    }

    #[test]
    fn each_fault_is_found() {
        let good = "depth 5 score cp 1 nodes 100 time 10 pv e2e4 e7e5";
        for (infos, best, expected) in [
            (vec![good], "bestmove e2e5", Check::BestMove),
            (vec![good], "bestmove e2e4 ponder e2e4", Check::PonderMove),
            (vec![good], "bestmove d2d4", Check::FirstLine),
            (vec![good], "bestmove", Check::BestMove),
            (vec!["depth 5 score cp 1 pv e2e4 e7e4"], "bestmove e2e4", Check::Pv),
            (vec![good, "depth 4 score cp 1 pv e2e4"], "bestmove e2e4", Check::Depth),
            (vec![good, "depth 6 nodes 99"], "bestmove e2e4", Check::Counters),
            (vec![good, "depth 6 time 9"], "bestmove e2e4", Check::Counters),
            (vec!["depth 6 time 500"], "bestmove e2e4", Check::Counters),
            (vec!["depth 6 score cp 200000"], "bestmove e2e4", Check::Score),
            (vec!["depth 6 score mate 0"], "bestmove e2e4", Check::Score),
            (vec!["depth 6 scor cp 1"], "bestmove e2e4", Check::InfoLine),
            (vec!["depth 2 multipv 2 score cp 1 pv e2e4"], "bestmove e2e4", Check::MultiPv),
        ] {
            assert_eq!(failures(START, 1, &infos, best), [expected], "{infos:?} {best}");
        }
        // After a line that failed low, both its move and the one before may be played.
        let infos = [good, "depth 6 score cp -9 upperbound pv d2d4"];
        for best in ["bestmove e2e4", "bestmove d2d4"] {
            assert_eq!(failures(START, 1, &infos, best), []);
        }
    }

    #[test]
    fn false_mates_are_found() {
        for line in [
            "depth 2 score mate 1 pv a1a7",
            "depth 2 score mate 2 pv a1a8",
            "depth 2 score mate 1 pv a1a2 h7h6 a2a8",
        ] {
            assert_eq!(
                failures(MATE_IN_ONE, 1, &[line], "bestmove a1a8").first(),
                Some(&Check::Mate),
                "{line}"
            );
        }
        // A line that the hash table cut short does not contradict its score.
        assert_eq!(failures(MATE_IN_ONE, 1, &["depth 2 score mate 3 pv a1a2"], "bestmove a1a2"), []);
    }

    #[test]
    fn lines_past_a_draw_are_found() {
        let shuffle = "depth 9 score cp 0 pv g1f3 g8f6 f3g1 f6g8 g1f3 g8f6 f3g1 f6g8 e2e4";
        assert_eq!(failures(START, 1, &[shuffle], "bestmove g1f3"), [Check::PvPastDraw]);
    }

    #[test]
    fn the_lines_of_multipv_are_compared_as_they_stand_at_the_end() {
        let first = "depth 3 multipv 1 score cp 30 pv e2e4";
        let second = "depth 3 multipv 2 score cp 20 pv d2d4";
        assert_eq!(failures(START, 2, &[first, second], "bestmove e2e4"), []);
        for other in ["depth 3 multipv 2 score cp 20 pv e2e4", "depth 3 multipv 2 score cp 31 pv d2d4"] {
            assert_eq!(failures(START, 2, &[first, other], "bestmove e2e4"), [Check::MultiPv], "{other}");
        }
        assert_eq!(failures(START, 2, &[first], "bestmove e2e4"), [Check::MultiPv]);
    }

    #[test]
    fn a_finished_game_has_no_best_move() {
        let mated = "7k/5KQ1/8/8/8/8/8/8 b - - 0 1";
        assert_eq!(failures(mated, 1, &["depth 0 score mate 0"], "bestmove (none)"), []);
        assert_eq!(failures(mated, 1, &[], "bestmove 0000"), []);
        assert_eq!(failures(mated, 1, &[], "bestmove h8g8"), [Check::GameOver]);
    }
}
