//! Small charts in SVG for HTML pages: one line with an optional band, or horizontal bars.

use std::fmt::Write as _;
use tandem_util::markup::escape;

/// Data of a line chart, optionally with a band around the line and horizontal guides.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineChart {
    pub(crate) points: Vec<(f64, f64)>,
    /// Lower and upper end for each point; empty for no band.
    pub(crate) band: Vec<(f64, f64)>,
    pub(crate) guides: Vec<f64>,
}

/// Data of a chart with horizontal bars, for counts of different kinds.
#[derive(Clone, Debug, Default)]
pub struct BarChart {
    /// Label and value of each bar, from top to bottom; values are at least 0.
    pub bars: Vec<(String, f64)>,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 52.0;
const BOTTOM: f64 = 24.0;
const TOP: f64 = 10.0;
/// Maximum number of points drawn; a screen could not show more and would bloat the page.
const MAX_POINTS: usize = 600;

/// Draws a line chart as an HTML figure; the result is empty if there are no points.
pub(crate) fn line_chart(caption: &str, line: &LineChart, unit: &str) -> String {
    let Some(&(last, _)) = line.points.last() else { return String::new() };
    let first = line.points[0].0;
    let step = line.points.len().div_ceil(MAX_POINTS);
    let shown: Vec<usize> =
        (0..line.points.len()).filter(|i| i % step == 0 || i + 1 == line.points.len()).collect();

    // The wide band of the first games would hide everything after it, so the scale follows the last three
    // quarters.
    let from = shown.len() / 4;
    let values = shown[from..].iter().flat_map(|&i| {
        let (low, high) = line.band.get(i).copied().unwrap_or((line.points[i].1, line.points[i].1));
        [low, high]
    });
    let (low, high) = values
        .chain(line.guides.iter().copied())
        .chain([0.0])
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let room = ((high - low) * 0.05).max(1e-6);
    let (low, high) = (low - room, high + room);
    let x = |value: f64| LEFT + (value - first) / (last - first).max(1.0) * (WIDTH - LEFT - 10.0);
    let y = |value: f64| TOP + (high - value.clamp(low, high)) / (high - low) * (HEIGHT - TOP - BOTTOM);

    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n", escape(caption));
    for tick in ticks(low, high) {
        let _ = writeln!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/>\
             <text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{tick}</text>",
            y(tick),
            LEFT - 6.0,
            y(tick) + 4.0
        );
    }
    for (value, anchor) in [(first, "start"), (last, "end")] {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{value}</text>",
            x(value),
            HEIGHT - 6.0
        );
    }
    if line.band.len() == line.points.len() {
        let upper = shown.iter().map(|&i| (line.points[i].0, line.band[i].1));
        let lower = shown.iter().rev().map(|&i| (line.points[i].0, line.band[i].0));
        let outline: Vec<String> =
            upper.chain(lower).map(|(at, value)| format!("{:.1},{:.1}", x(at), y(value))).collect();
        let _ = writeln!(svg, "<polygon class=\"band\" points=\"{}\"/>", outline.join(" "));
    }
    for &guide in &line.guides {
        let _ = writeln!(
            svg,
            "<line class=\"guide\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/>",
            y(guide)
        );
    }
    let path: Vec<String> =
        shown.iter().map(|&i| format!("{:.1},{:.1}", x(line.points[i].0), y(line.points[i].1))).collect();
    let _ = writeln!(svg, "<polyline class=\"line\" points=\"{}\"/>\n</svg>", path.join(" "));
    format!("<figure><figcaption>{} ({})</figcaption>\n{svg}</figure>\n", escape(caption), escape(unit))
}

/// Draws horizontal bars, scaled to the longest one, as an HTML figure.
pub fn bar_chart(caption: &str, chart: &BarChart) -> String {
    const ROW: f64 = 20.0;
    const NAME: f64 = 150.0;
    let most = chart.bars.iter().fold(0.0f64, |most, (_, value)| most.max(*value)).max(1e-9);
    let height = ROW * chart.bars.len() as f64 + 4.0;
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n", escape(caption));
    for (row, (name, value)) in chart.bars.iter().enumerate() {
        let top = ROW * row as f64 + 2.0;
        let length = value / most * (WIDTH - NAME - 70.0);
        let shown = if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.1}") };
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"bar\" x=\"{NAME}\" y=\"{top:.1}\" width=\"{length:.1}\" height=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{shown}</text>",
            NAME - 8.0,
            top + 13.0,
            escape(name),
            ROW - 4.0,
            NAME + length + 6.0,
            top + 13.0,
        );
    }
    format!("<figure><figcaption>{}</figcaption>\n{svg}</svg></figure>\n", escape(caption))
}

/// About five round numbers within a range, at multiples of 1, 2 or 5 times a power of ten, for the labels of
/// an axis.
pub fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|&step| step >= rough);
    let step = step.unwrap_or(power);
    let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    // Rounds away errors of the multiplication, such as 0.30000000000000004.
    (first..=last).take(20).map(|n| (n as f64 * step * 1e6).round() / 1e6).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(-12.0, 31.0), [-10.0, 0.0, 10.0, 20.0, 30.0]);
        assert_eq!(ticks(0.0, 1.2), [0.0, 0.5, 1.0]);
    }

    #[test]
    fn charts_of_anything_hold_only_numbers() {
        let line = LineChart {
            points: (0..5000).map(|n| (f64::from(n), f64::from(n % 7))).collect(),
            ..LineChart::default()
        };
        let svg = line_chart("x <y>", &line, "Elo");
        assert!(!svg.contains("NaN") && !svg.contains("inf") && svg.contains("x &lt;y&gt;"));
        let one = LineChart { points: vec![(1.0, 0.0)], band: vec![(0.0, 0.0)], guides: vec![] };
        assert!(!line_chart("one", &one, "Elo").contains("NaN"));
        assert_eq!(line_chart("none", &LineChart::default(), "Elo"), "");
        assert!(!bar_chart("none", &BarChart { bars: vec![("a".into(), 0.0)] }).contains("NaN"));
    }
}
