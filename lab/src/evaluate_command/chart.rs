//! A drawing of how often chances came true.

use crate::svg;
use std::fmt::Write as _;
use tandem_arena::report::escape;
use tandem_train::Bin;

const SIDE: f64 = 420.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 20.0;
const WIDTH: f64 = LEFT + SIDE + 20.0;
const ROW: f64 = 18.0;
/// Apart for most eyes, on light and on dark paper.
const COLOURS: [&str; 8] =
    ["#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#65a30d"];

/// A file that needs no other: the chance that was given to the right, the points that were made upwards, a curve for each
/// network. Who is right stays on the diagonal. A dot's size shows how many positions it stands for.
pub(super) fn calibration(curves: &[(&str, Vec<Bin>)]) -> String {
    let x = |share: f64| LEFT + share * SIDE;
    let y = |share: f64| TOP + (1.0 - share) * SIDE;
    let height = TOP + SIDE + 62.0 + ROW * curves.len() as f64;
    let mut svg = svg::begin(WIDTH, height, 12, "calibration");
    for step in 0..=5 {
        let share = f64::from(step) / 5.0;
        let (across, up) = (x(share), y(share));
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {up:.1}H{:.1}M{across:.1} {TOP}V{:.1}\" stroke=\"#ddd\" fill=\"none\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{share:.1}</text>\
             <text x=\"{across:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{share:.1}</text>",
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
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">chance to win that was given</text>\
         <text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">points that were made</text>",
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
        let most = bins.iter().map(|bin| bin.count).max().unwrap_or(1).max(1) as f64;
        for bin in bins {
            let radius = 1.5 + 3.5 * (bin.count as f64 / most).sqrt();
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
    fn a_drawing_holds_every_network_and_only_numbers() {
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
