//! A match as one self-contained HTML page: charts are SVG within it, and nothing is loaded from elsewhere.

mod chart;

use crate::standings::is_between;
use crate::stats::{Estimate, Pentanomial, Sprt, Wdl};
use crate::summary::{self, Meeting};
use crate::{MatchReport, Standings};
use chart::LineChart;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tandem_util::markup::escape;
use tandem_util::plot;

/// Builds the report of a match: ratings, one section for each meeting with charts, reasons for the ends of
/// games, and the cost of the runner. The chart of the test appears only if there is a single meeting.
pub fn to_html(title: &str, report: &MatchReport, meetings: &[Meeting], sprt: Option<&Sprt>) -> String {
    let standings = &report.standings;
    let mut body = format!("<h1>{}</h1>\n", escape(title));
    let _ = writeln!(body, "<p>{} of {} games.</p>", standings.games(), report.total);
    if standings.names.len() > 2 {
        body += &section("Ratings", &pre(&summary::rating_lines(standings, &standings.ratings())));
    }
    for &meeting in meetings {
        body += &meeting_section(standings, meeting, sprt.filter(|_| meetings.len() == 1));
    }
    body += &section("How the games ended", &terminations(standings));
    body += &section("The runner", &pre(&summary::cost_line(report)));
    page(title, &body)
}

fn meeting_section(standings: &Standings, meeting: Meeting, sprt: Option<&Sprt>) -> String {
    let (a, b) = meeting;
    let names = format!("{} against {}", standings.names[a], standings.names[b]);
    let mut lines = summary::meeting_lines(standings, meeting);
    if let Some(sprt) = sprt {
        lines += &summary::sprt_line(sprt, &standings.sprt_state(sprt, a, b));
    }
    let mut content = pre(&lines);
    content += &chart::line_chart("Elo by game", &elo_over_time(standings, meeting), "Elo");
    if let Some(sprt) = sprt {
        let (lower, upper) = sprt.bounds();
        content += &chart::line_chart(
            "Log-likelihood ratio by game",
            &LineChart { guides: vec![lower, upper], ..llr_over_time(standings, meeting, sprt) },
            "LLR",
        );
    }
    let pairs = standings.pairs(a, b);
    let kinds = ["0", "½", "1", "1½", "2"].iter().zip(pairs.0);
    let bars: Vec<(String, f64)> =
        kinds.map(|(kind, count)| (format!("{kind} points"), count as f64)).collect();
    content += &chart::bar_chart("Pairs of games by points", &bars);
    content += &openings(standings, meeting);
    section(&names, &content)
}

/// Estimate after each pair of games, with its 95 % interval; infinite values are left out.
fn elo_over_time(standings: &Standings, (a, b): Meeting) -> LineChart {
    let mut line = LineChart::default();
    for (games, pairs) in standings.pairs_in_order(a, b) {
        if let Some(estimate) = Estimate::of_pairs(&pairs)
            && [estimate.elo, estimate.elo_low, estimate.elo_high].iter().all(|elo| elo.is_finite())
        {
            line.points.push((games as f64, estimate.elo));
            line.band.push((estimate.elo_low, estimate.elo_high));
        }
    }
    line
}

fn llr_over_time(standings: &Standings, (a, b): Meeting, sprt: &Sprt) -> LineChart {
    let point = |(games, pairs): (usize, Pentanomial)| (games as f64, sprt.llr(&pairs));
    LineChart { points: standings.pairs_in_order(a, b).map(point).collect(), ..LineChart::default() }
}

/// Table of the openings in which one engine scored more than the other over both colours, the largest
/// differences first, because there the engines differ most.
fn openings(standings: &Standings, (a, b): Meeting) -> String {
    let mut by_opening: BTreeMap<usize, Wdl> = BTreeMap::new();
    for game in standings.results().filter(|game| is_between(game, a, b)) {
        by_opening.entry(game.opening).or_default().add(game.half_points(a));
    }
    let mut decided: Vec<(usize, Wdl)> =
        by_opening.into_iter().filter(|(_, wdl)| wdl.games() >= 2 && wdl.score() != 0.5).collect();
    decided.sort_by(|(_, x), (_, y)| {
        let weight = |wdl: &Wdl| (wdl.points() - wdl.games() as f64 / 2.0).abs();
        weight(y).total_cmp(&weight(x))
    });
    if decided.is_empty() {
        return String::new();
    }
    let mut rows = String::new();
    for (opening, wdl) in decided.iter().take(40) {
        let _ = writeln!(
            rows,
            "<tr><td>{}</td><td>{wdl}</td><td>{:.1} of {}</td></tr>",
            opening + 1,
            wdl.points(),
            wdl.games()
        );
    }
    format!(
        "<details><summary>Openings in which one side scored more ({})</summary>\n<table><tr><th>opening</th><th>{}</th>\
         <th>points</th></tr>\n{rows}</table></details>\n",
        decided.len(),
        escape(&standings.names[a])
    )
}

fn terminations(standings: &Standings) -> String {
    let counts = standings.terminations();
    let bars: Vec<(String, f64)> =
        counts.iter().map(|(kind, &count)| (kind.to_string(), count as f64)).collect();
    let mut content = chart::bar_chart("Games by reason for their end", &bars);
    let forfeits: Vec<String> = standings
        .results()
        .filter(|game| game.termination.is_forfeit())
        .take(100)
        .map(|game| {
            let culprit = game.culprit.map_or("", |engine| standings.names[engine].as_str());
            format!(
                "<li>game {}: {} by {}: {}</li>",
                game.index + 1,
                escape(culprit),
                game.termination,
                escape(game.details.as_deref().unwrap_or(""))
            )
        })
        .collect();
    if !forfeits.is_empty() {
        let _ = writeln!(content, "<ul>{}</ul>", forfeits.join("\n"));
    }
    content
}

fn section(title: &str, content: &str) -> String {
    format!("<section>\n<h2>{}</h2>\n{content}</section>\n", escape(title))
}

fn pre(text: &str) -> String {
    format!("<pre>{}</pre>\n", escape(text.trim_end()))
}

/// Builds a page in the style of the reports from a title and content, which must already be HTML.
pub fn simple_page(title: &str, content: &str) -> String {
    page(title, &format!("<h1>{}</h1>\n{content}", escape(title)))
}

fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n<style>{STYLE}{}</style></head>\n\
         <body>\n{body}</body></html>\n",
        escape(title),
        plot::STYLE
    )
}

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --faint: #8884 }
@media (prefers-color-scheme: dark) { :root { --ink: #ddd; --paper: #16181d } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 56rem;
       margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem; border-bottom: 1px solid var(--faint) }
pre { overflow-x: auto; font-size: 13px } figure { margin: 1rem 0 } figcaption { font-weight: 600 }
table { border-collapse: collapse } td, th { padding: .1rem .8rem .1rem 0; text-align: left }
svg { width: 100%; height: auto }
";

pub use chart::bar_chart;
