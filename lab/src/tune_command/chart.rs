//! A drawing of how tuned numbers went.

use crate::svg;
use std::fmt::Write as _;
use tandem_arena::report::{escape, ticks};
use tandem_selfplay::Tuning;

const WIDTH: f64 = 980.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = 960.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 440.0;
/// A row of the legend.
const ROW: f64 = 16.0;
const COLUMNS: usize = 5;
/// The most points of a course that are drawn.
const POINTS: usize = 160;

/// A file that needs no other: games to the right, upwards how far each number is from its start, in its steps. The legend
/// begins with those that went up most.
pub(super) fn courses(tuning: &Tuning) -> String {
    let numbers = &tuning.plan().numbers;
    let course: Vec<(f64, Vec<f64>)> = tuning
        .course()
        .map(|(games, values)| {
            let steps = numbers.iter().zip(values).map(|(number, &value)| number.steps(value));
            (games as f64, steps.collect())
        })
        .collect();
    let all = || course.iter().flat_map(|(_, steps)| steps.iter().copied());
    // A step to either side at least, so that noise looks small.
    let (low, high) = (all().fold(-1.0, f64::min), all().fold(1.0, f64::max));
    let end = tuning.points().games().max(1) as f64;
    let x = |games: f64| LEFT + games / end * (RIGHT - LEFT);
    let y = |steps: f64| BOTTOM - (steps - low) / (high - low) * (BOTTOM - TOP);

    let height = BOTTOM + 50.0 + ROW * numbers.len().div_ceil(COLUMNS) as f64;
    let mut svg = svg::begin(WIDTH, height, 11, "courses of tuned numbers");
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

    // As many points as the eye can tell apart, the last one among them.
    let every = course.len().div_ceil(POINTS).max(1);
    let mut shown: Vec<&(f64, Vec<f64>)> = course.iter().rev().step_by(every).collect();
    shown.reverse();
    let last = |number: usize| course.last().map_or(0.0, |(_, steps)| steps[number]);
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&a, &b| last(b).total_cmp(&last(a)));
    let rows = numbers.len().div_ceil(COLUMNS).max(1);
    for (place, &number) in order.iter().enumerate() {
        let colour = colour(place);
        let told = format!("{} {:+.2}", escape(&numbers[number].name), last(number));
        let points: Vec<String> =
            shown.iter().map(|(games, steps)| format!("{:.1},{:.1}", x(*games), y(steps[number]))).collect();
        let column = LEFT + (place / rows) as f64 * (RIGHT - LEFT) / COLUMNS as f64;
        let row = BOTTOM + 44.0 + ROW * (place % rows) as f64;
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"><title>{told}</title></polyline>\
             <path d=\"M{column:.1} {:.1}h14\" stroke=\"{colour}\" stroke-width=\"3\"/>\
             <text x=\"{:.1}\" y=\"{row:.1}\">{told}</text>",
            points.join(" "),
            row - 4.0,
            column + 18.0
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Neighbours far apart on the wheel of colours, however many there are.
fn colour(place: usize) -> String {
    format!("hsl({:.0},70%,{}%)", place as f64 * 137.5 % 360.0, [45, 32, 55][place % 3])
}
