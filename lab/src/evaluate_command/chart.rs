//! The calibration plot of `evaluate --svg`: predicted win probability against the points that were scored.

use crate::svg;
use std::fmt::Write as _;
use tandem_train::Bin;
use tandem_util::markup::escape;

const SIDE: f64 = 420.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 20.0;
const WIDTH: f64 = LEFT + SIDE + 20.0;
const ROW: f64 = 18.0;
/// Colours that most eyes can tell apart, on light and on dark backgrounds.
const COLOURS: [&str; 8] =
    ["#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#65a30d"];

/// Renders a self-contained SVG file: predicted win probability to the right, points scored upwards, one
/// curve for each network. A calibrated network stays on the diagonal. The size of a dot shows the number of
/// positions that it stands for.
pub(super) fn calibration(curves: &[(&str, Vec<Bin>)]) -> String {
    let x = |fraction: f64| LEFT + fraction * SIDE;
    let y = |fraction: f64| TOP + (1.0 - fraction) * SIDE;
    let height = TOP + SIDE + 62.0 + ROW * curves.len() as f64;
    let mut svg = svg::begin(WIDTH, height, 12, "calibration");
    for step in 0..=5 {
        let fraction = f64::from(step) / 5.0;
        let (across, up) = (x(fraction), y(fraction));
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {up:.1}H{:.1}M{across:.1} {TOP}V{:.1}\" stroke=\"#ddd\" fill=\"none\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{fraction:.1}</text>\
             <text x=\"{across:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{fraction:.1}</text>",
            x(1.0),
            y(0.0),
            LEFT - 6.0,
            up + 4.0,
            y(0.0) + 16.0,
        );
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{} {}L{} {}\" stroke=\"#888\" stroke-dasharray=\"4 4\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">predicted win probability</text>\
         <text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">points scored</text>",
        x(0.0),
        y(0.0),
        x(1.0),
        y(1.0),
        x(0.5),
        y(0.0) + 34.0,
        y(0.5),
    );
    for (number, (name, bins)) in curves.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let points: Vec<String> =
            bins.iter().map(|bin| format!("{:.1},{:.1}", x(bin.predicted), y(bin.actual))).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.join(" ")
        );
        let max_count = bins.iter().map(|bin| bin.count).max().unwrap_or(1).max(1) as f64;
        for bin in bins {
            let radius = 1.5 + 3.5 * (bin.count as f64 / max_count).sqrt();
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius:.1}\" fill=\"{colour}\"><title>{} positions</title></circle>",
                x(bin.predicted),
                y(bin.actual),
                bin.count
            );
        }
        let row = y(0.0) + 56.0 + ROW * number as f64;
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {:.1}h24\" stroke=\"{colour}\" stroke-width=\"3\"/><text x=\"{}\" y=\"{row:.1}\">{}</text>",
            row - 4.0,
            LEFT + 32.0,
            escape(name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_every_network_and_no_nan() {
        let bins = vec![
            Bin { count: 10, predicted: 0.2, actual: 0.1 },
            Bin { count: 30, predicted: 0.7, actual: 0.8 },
        ];
        let svg = calibration(&[("a <b>", bins), ("none", Vec::new())]);
        assert!(svg.contains("a &lt;b&gt;") && svg.contains(">none<"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 2);
    }
}
