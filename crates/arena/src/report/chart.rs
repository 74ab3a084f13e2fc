//! Charts of the report as HTML figures: one line with an optional band, or bars.

use tandem_util::markup::escape;
use tandem_util::plot::{self, Axis, Panel, Plot, Series, count, thin};

/// Data of a line chart, optionally with a band around the line and horizontal guides.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineChart {
    pub(crate) points: Vec<(f64, f64)>,
    /// Lower and upper end for each point; empty for no band.
    pub(crate) band: Vec<(f64, f64)>,
    pub(crate) guides: Vec<f64>,
}

/// Maximum number of points drawn; a screen could not show more and would bloat the page.
const MAX_POINTS: usize = 600;

/// Draws a line chart as an HTML figure; the result is empty if there are no points.
pub(crate) fn line_chart(caption: &str, line: &LineChart, unit: &str) -> String {
    let (Some(first), Some(last)) = (line.points.first(), line.points.last()) else { return String::new() };
    let (points, band) = (thin(&line.points, MAX_POINTS), thin(&line.band, MAX_POINTS));
    // The wide band of the first games would hide everything after it, so the scale follows the last three
    // quarters.
    let from = points.len() / 4;
    let values = points[from..].iter().map(|point| point.1);
    let ends = band.iter().skip(from).flat_map(|&(low, high)| [low, high]);
    let up = Axis::over(values.chain(ends).chain(line.guides.iter().copied()).chain([0.0])).margin(0.05);
    let panel = Panel {
        series: vec![Series { band, line: 1.5, ..Series::line("", points) }],
        guides: line.guides.clone(),
        ..Panel::new(up, 226.0)
    };
    let x = Axis::new(first.0, last.0).format(count);
    let svg = Plot { width: 720.0, panels: vec![panel], ..Plot::new("", x) }.to_inline_svg();
    format!("<figure><figcaption>{} ({})</figcaption>\n{svg}</figure>\n", escape(caption), escape(unit))
}

/// Draws horizontal bars, scaled to the longest one, as an HTML figure. Values are at least 0.
pub fn bar_chart(caption: &str, bars: &[(String, f64)]) -> String {
    let svg = plot::bars(caption, bars);
    format!("<figure><figcaption>{}</figcaption>\n{svg}</figure>\n", escape(caption))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(!bar_chart("none", &[("a".into(), 0.0)]).contains("NaN"));
    }
}
