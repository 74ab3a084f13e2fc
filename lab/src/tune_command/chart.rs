//! The chart of a tuning: the course of every parameter over the games.

use crate::svg;
use std::fmt::Write as _;
use tandem_arena::report::ticks;
use tandem_selfplay::Tuning;
use tandem_util::markup::escape;

const WIDTH: f64 = 980.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = 960.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 440.0;
/// Height of a row of the legend.
const ROW: f64 = 16.0;
const COLUMNS: usize = 5;
/// Maximum number of points that are drawn of each course.
const POINTS: usize = 160;

/// Renders a self-contained SVG file: games to the right; upwards the distance of each parameter from its
/// start, in steps of the parameter. The legend begins with those that rose most.
pub(super) fn courses(tuning: &Tuning) -> String {
    let parameters = &tuning.plan().parameters;
    let course: Vec<(f64, Vec<f64>)> = tuning
        .trajectory()
        .map(|(games, values)| {
            let steps =
                parameters.iter().zip(values).map(|(parameter, &value)| parameter.steps_from_start(value));
            (games as f64, steps.collect())
        })
        .collect();
    let all = || course.iter().flat_map(|(_, steps)| steps.iter().copied());
    // The range is at least one step to either side, so that noise looks small.
    let (low, high) = (all().fold(-1.0, f64::min), all().fold(1.0, f64::max));
    let end = tuning.results().games().max(1) as f64;
    let x = |games: f64| LEFT + games / end * (RIGHT - LEFT);
    let y = |steps: f64| BOTTOM - (steps - low) / (high - low) * (BOTTOM - TOP);

    let height = BOTTOM + 50.0 + ROW * parameters.len().div_ceil(COLUMNS) as f64;
    let mut svg = svg::begin(WIDTH, height, 11, "courses of tuned parameters");
    let _ =
        writeln!(svg, "<text x=\"{LEFT}\" y=\"22\" font-size=\"13\">steps from the start, by games</text>");
    for tick in ticks(low, high) {
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {0:.1}H{RIGHT}\" stroke=\"#ddd\"/>\
             <text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{tick}</text>",
            y(tick),
            LEFT - 6.0,
            y(tick) + 4.0
        );
    }
    for tick in ticks(0.0, end) {
        let (across, below) = (x(tick), BOTTOM + 16.0);
        let _ = writeln!(svg, "<text x=\"{across:.1}\" y=\"{below}\" text-anchor=\"middle\">{tick}</text>");
    }

    // As many points as the eye can distinguish, including the last one.
    let every = course.len().div_ceil(POINTS).max(1);
    let mut shown: Vec<&(f64, Vec<f64>)> = course.iter().rev().step_by(every).collect();
    shown.reverse();
    let last = |index: usize| course.last().map_or(0.0, |(_, steps)| steps[index]);
    let mut order: Vec<usize> = (0..parameters.len()).collect();
    order.sort_by(|&a, &b| last(b).total_cmp(&last(a)));
    let rows = parameters.len().div_ceil(COLUMNS).max(1);
    for (rank, &index) in order.iter().enumerate() {
        let colour = colour(rank);
        let label = format!("{} {:+.2}", escape(&parameters[index].name), last(index));
        let points: Vec<String> =
            shown.iter().map(|(games, steps)| format!("{:.1},{:.1}", x(*games), y(steps[index]))).collect();
        let column = LEFT + (rank / rows) as f64 * (RIGHT - LEFT) / COLUMNS as f64;
        let row = BOTTOM + 44.0 + ROW * (rank % rows) as f64;
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"><title>{label}</title></polyline>\
             <path d=\"M{column:.1} {:.1}h14\" stroke=\"{colour}\" stroke-width=\"3\"/>\
             <text x=\"{:.1}\" y=\"{row:.1}\">{label}</text>",
            points.join(" "),
            row - 4.0,
            column + 18.0
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Hues that are far apart for neighbouring places (golden angle), for any number of them.
fn colour(rank: usize) -> String {
    format!("hsl({:.0},70%,{}%)", rank as f64 * 137.5 % 360.0, [45, 32, 55][rank % 3])
}
