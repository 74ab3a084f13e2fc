//! The chart of a tuning: the course of every parameter over the games.

use tandem_selfplay::Tuning;
use tandem_util::plot::{Axis, Colour, Panel, Plot, Series, count, thin};

/// Maximum number of points that are drawn of each course.
const POINTS: usize = 160;

/// Name of a parameter, and its distance from the start by the number of games.
type Course<'a> = (&'a str, Vec<(f64, f64)>);

/// Renders a self-contained SVG file: games to the right; upwards the distance of each parameter from its
/// start, in steps of the parameter. The legend begins with those that rose most.
pub(super) fn courses(tuning: &Tuning) -> String {
    let parameters = &tuning.plan().parameters;
    let mut courses: Vec<Course<'_>> =
        parameters.iter().map(|parameter| (parameter.name.as_str(), Vec::new())).collect();
    for (games, values) in tuning.trajectory() {
        for ((parameter, &value), (_, course)) in parameters.iter().zip(values).zip(&mut courses) {
            course.push((games as f64, parameter.steps_from_start(value)));
        }
    }
    let last = |course: &[(f64, f64)]| course.last().map_or(0.0, |point| point.1);
    courses.sort_by(|(_, a), (_, b)| last(b).total_cmp(&last(a)));

    // The range is at least one step to either side, so that noise looks small.
    let values = courses.iter().flat_map(|(_, course)| course).map(|point| point.1);
    let up = Axis::over(values.chain([-1.0, 1.0])).label("steps from the start");
    let line = |(rank, (name, course)): (usize, &Course<'_>)| Series {
        line: 1.5,
        colour: Colour::Css(colour(rank)),
        ..Series::line(format!("{name} {:+.2}", last(course)), thin(course, POINTS))
    };
    let series = courses.iter().enumerate().map(line).collect();
    let x = Axis::new(0.0, tuning.results().games().max(1) as f64).label("games").format(count);
    let panel = Panel { series, ..Panel::new(up, 400.0) };
    Plot { width: 980.0, panels: vec![panel], ..Plot::new("Tuned parameters", x) }.to_svg()
}

/// Hues that are far apart for neighbouring places (golden angle), for any number of them.
fn colour(rank: usize) -> String {
    format!("hsl({:.0},70%,{}%)", rank as f64 * 137.5 % 360.0, [45, 32, 55][rank % 3])
}
