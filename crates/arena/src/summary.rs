//! Results of a match as text for a terminal and as JSON for programs.

use crate::stats::{Estimate, Pentanomial, Ratings, Sprt, SprtState, Verdict, Wdl};
use crate::{MatchReport, Standings, Termination};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Two engines that play each other, by their indices in the list of engines; all results are those of the
/// first against the second.
pub type Meeting = (usize, usize);

/// Two lines on a meeting: the score, then Elo, normalised Elo, likelihood of superiority and draws.
pub fn meeting_lines(standings: &Standings, (a, b): Meeting) -> String {
    let (wdl, pairs) = (standings.wdl(a, b), standings.pairs(a, b));
    score_lines(&standings.names[a], &standings.names[b], Some(&wdl), &pairs)
}

/// Two lines like those of [`meeting_lines`], for results of any origin; `first` and `second` are the
/// engines' names. Without `wdl` the number of draws is omitted, because two points of a pair may be two
/// draws or a win each.
pub fn score_lines(first: &str, second: &str, wdl: Option<&Wdl>, pairs: &Pentanomial) -> String {
    let (points, games) = wdl.map_or((pairs.points(), 2 * pairs.pairs()), |wdl| (wdl.points(), wdl.games()));
    let counts = wdl.map_or(String::new(), |wdl| format!("{wdl}, "));
    let mut text = format!(
        "{first} vs {second}: {counts}{points} of {games} points ({:.2} %)\n",
        100.0 * points / games.max(1) as f64
    );
    if let Some(estimate) = estimate(wdl, pairs) {
        let draws = wdl.map_or(String::new(), |wdl| format!("  draws {:.1} %", 100.0 * wdl.draw_ratio()));
        let _ = writeln!(
            text,
            "Elo {}  nElo {}  LOS {:.1} %{draws}{}",
            interval(estimate.elo, estimate.elo_error()),
            interval(estimate.nelo, estimate.nelo_error),
            100.0 * estimate.los,
            pairs_text(pairs),
        );
        if !(estimate.elo.is_finite() && estimate.elo_error().is_finite()) {
            text += "inf: the 95 % interval reaches a score of 0 or 100 %, for which no Elo is large enough; more \
                     games make it finite\n";
        }
    }
    text
}

/// Estimate of the first engine's strength from its results, by [`Estimate::of`] or, without `wdl`, from
/// pairs alone; `None` without results.
pub fn estimate(wdl: Option<&Wdl>, pairs: &Pentanomial) -> Option<Estimate> {
    wdl.map_or_else(|| Estimate::of_pairs(pairs), |wdl| Estimate::of(pairs, wdl))
}

fn pairs_text(pairs: &Pentanomial) -> String {
    if pairs.pairs() == 0 {
        return String::new();
    }
    let ratio = pairs.pair_ratio().map_or(String::new(), |ratio| format!(" won/lost {ratio:.2}"));
    format!("  pairs with 0 to 2 points {pairs}{ratio}")
}

/// Formats a value with its error as `+12.3 +- 4.5`, infinite values as `inf`.
pub fn interval(value: f64, error: f64) -> String {
    let show = |x: f64| if x.is_finite() { format!("{x:.1}") } else { "inf".into() };
    let sign = if value >= 0.0 { "+" } else { "-" };
    format!("{sign}{} +- {}", show(value.abs()), show(error))
}

/// Table of ratings for the engines of a match; useful for more than two.
pub fn rating_lines(standings: &Standings, ratings: &Ratings) -> String {
    rating_table(&standings.names, ratings)
}

/// Table of ratings for players of any origin; `names` has the name of each [`crate::stats::Rating::engine`].
pub fn rating_table(names: &[String], ratings: &Ratings) -> String {
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(6);
    let mut text = format!("  # {:width$}     Elo   +- 95 %   games   score   draws\n", "engine");
    for (rank, rating) in ratings.list.iter().enumerate() {
        let percent = |part: f64| 100.0 * part / rating.games.max(1) as f64;
        let _ = writeln!(
            text,
            "{:3} {:width$} {:7.1} {:8.1} {:7} {:5.1} % {:5.1} %",
            rank + 1,
            names[rating.engine],
            rating.elo,
            rating.error,
            rating.games,
            percent(rating.points),
            percent(rating.draws as f64),
        );
    }
    let _ = writeln!(
        text,
        "White's advantage {:+.1} Elo, draws between equals {:.1} %",
        ratings.white_advantage,
        100.0 * ratings.draw_probability
    );
    text
}

/// State of a sequential test in one line: its log-likelihood ratio and bounds, and the decision if there is
/// one.
pub fn sprt_line(sprt: &Sprt, state: &SprtState) -> String {
    let verdict = match state.verdict {
        Verdict::Accepted => "H1 accepted",
        Verdict::Rejected => "H0 accepted",
        Verdict::Undecided => "undecided",
    };
    format!(
        "SPRT {}: LLR {:+.2} in [{:.2}, {:.2}], {verdict}\n",
        sprt.description(),
        state.llr,
        state.lower,
        state.upper
    )
}

/// Lines on the ends of the games. The first one lists the forfeits that should be zero, and is always
/// present, so that scripts can check it.
pub fn termination_lines(standings: &Standings) -> String {
    let counts = standings.terminations();
    let count = |kind: Termination| counts.get(&kind).copied().unwrap_or(0);
    let mut text = format!(
        "forfeits: {} on time, {} illegal moves, {} crashes, {} hangs\n",
        count(Termination::TimeLoss),
        count(Termination::IllegalMove),
        count(Termination::Crash),
        count(Termination::Hang)
    );
    let ended: Vec<String> = counts
        .iter()
        .filter(|&(kind, &count)| count > 0 && !kind.is_forfeit())
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    if !ended.is_empty() {
        let _ = writeln!(text, "ended by: {}", ended.join(", "));
    }
    for (engine, name) in standings.names.iter().enumerate() {
        let forfeits: Vec<String> = standings
            .forfeits(engine)
            .iter()
            .filter(|&(_, &count)| count > 0)
            .map(|(kind, count)| format!("{count} by {kind}"))
            .collect();
        if !forfeits.is_empty() {
            let _ = writeln!(text, "{name} forfeited {}", forfeits.join(", "));
        }
    }
    text
}

/// One line on the cost of the arena itself: mean overhead for each move, processor time, and the use of the
/// slots (games at the same time).
pub fn cost_line(report: &MatchReport) -> String {
    let moves = f64::from(report.overhead.moves.max(1));
    let wall = report.wall.as_secs_f64().max(1e-9);
    format!(
        "runner: {:.3} ms a move (worst {:.2} ms), {:.2} % of a core{}, {:.1} s; clocks ran {:.1} % of the time; {}\n",
        1000.0 * report.overhead.total.as_secs_f64() / moves,
        1000.0 * report.overhead.worst.as_secs_f64(),
        100.0 * report.cpu.as_secs_f64() / wall,
        if report.in_process { " with the engine inside" } else { "" },
        report.wall.as_secs_f64(),
        100.0 * thinking_fraction(report),
        if report.bound {
            "games bound to processors"
        } else {
            "games not bound to processors (too few are free, or --no-affinity)"
        }
    )
}

/// Fraction of the time of all slots during which an engine was thinking, from 0 to 1.
fn thinking_fraction(report: &MatchReport) -> f64 {
    report.overhead.thinking.as_secs_f64() / (report.wall.as_secs_f64() * report.slots as f64).max(1e-9)
}

/// The whole match as JSON: engines, meetings, test, ratings, runner and every result.
pub fn to_json(report: &MatchReport, meetings: &[Meeting], sprt: Option<&Sprt>) -> Value {
    let standings = &report.standings;
    let meeting = |&(a, b): &Meeting| {
        let (wdl, pairs) = (standings.wdl(a, b), standings.pairs(a, b));
        meeting_json(&standings.names[a], &standings.names[b], Some(&wdl), &pairs)
    };
    let engine = |(index, name): (usize, &String)| json!({ "name": name, "total": standings.total(index), "forfeits": standings.forfeits(index) });
    let sprt = sprt
        .zip(meetings.first())
        .map(|(sprt, &(a, b))| json!({ "test": sprt, "state": standings.sprt_state(sprt, a, b) }));
    let ratings = (standings.names.len() > 2).then(|| standings.ratings());
    json!({
        "sprt": sprt,
        "ratings": ratings,
        "engines": standings.names.iter().enumerate().map(engine).collect::<Vec<_>>(),
        "games": standings.games(),
        "planned": report.total,
        "meetings": meetings.iter().map(meeting).collect::<Vec<_>>(),
        "terminations": standings.terminations(),
        "runner": {
            "moves": report.overhead.moves,
            "milliseconds_per_move":
                1000.0 * report.overhead.total.as_secs_f64() / f64::from(report.overhead.moves.max(1)),
            "worst_milliseconds": 1000.0 * report.overhead.worst.as_secs_f64(),
            "cpu_seconds": report.cpu.as_secs_f64(),
            "wall_seconds": report.wall.as_secs_f64(),
            "thinking_share": thinking_fraction(report),
            "bound_to_processors": report.bound,
        },
        "results": standings.results().collect::<Vec<_>>(),
    })
}

/// One meeting as JSON. Fields that pairs of games alone do not determine are null.
pub fn meeting_json(first: &str, second: &str, wdl: Option<&Wdl>, pairs: &Pentanomial) -> Value {
    json!({
        "first": first,
        "second": second,
        "wdl": wdl,
        "draw_ratio": wdl.map(Wdl::draw_ratio),
        "pairs": pairs,
        "estimate": estimate(wdl, pairs),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_alone_do_not_determine_draws() {
        let pairs = Pentanomial([1, 10, 30, 12, 2]);
        let text = score_lines("a", "b", None, &pairs);
        assert!(text.starts_with("a vs b: 57 of 110 points (51.82 %)\nElo +"), "{text}");
        assert!(!text.contains("draws"), "{text}");
        let json = meeting_json("a", "b", None, &pairs);
        assert!(
            json["wdl"].is_null() && json["draw_ratio"].is_null() && json["estimate"].is_object(),
            "{json}"
        );
        let wdl = Wdl { wins: 24, draws: 66, losses: 20 };
        assert!(score_lines("a", "b", Some(&wdl), &pairs).contains("  draws 60.0 %  pairs "));
    }
}
