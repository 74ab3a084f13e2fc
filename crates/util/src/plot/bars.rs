//! Bars for counts. Both functions draw an element of an HTML page, which must include [`super::STYLE`].

use super::draw::{begin, text};
use crate::markup::escape;
use std::fmt::Write as _;

/// Draws horizontal bars with their labels and values, scaled to the longest. Values are at least 0.
pub fn bars(title: &str, bars: &[(String, f64)]) -> String {
    const WIDTH: f64 = 720.0;
    const ROW: f64 = 20.0;
    const NAME: f64 = 150.0;
    let most = bars.iter().fold(0.0f64, |most, (_, value)| most.max(*value)).max(1e-9);
    let mut svg = begin(title, WIDTH, ROW * bars.len() as f64 + 4.0, true);
    for (row, (name, value)) in bars.iter().enumerate() {
        let top = ROW * row as f64 + 2.0;
        let length = value / most * (WIDTH - NAME - 70.0);
        let shown = if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.1}") };
        text(&mut svg, (NAME - 8.0, top + 13.0), "end", name);
        let _ = writeln!(
            svg,
            "<rect class=\"bar c0\" x=\"{NAME}\" y=\"{top:.1}\" width=\"{length:.1}\" height=\"{}\"/>",
            ROW - 4.0
        );
        text(&mut svg, (NAME + length + 6.0, top + 13.0), "start", &shown);
    }
    svg + "</svg>\n"
}

/// Draws upright bars with labels below them, for many bins. A viewer shows the count of a bar when pointed at
/// it.
pub fn histogram(title: &str, bins: &[(String, u64)]) -> String {
    const BIN: f64 = 22.0;
    const HEIGHT: f64 = 165.0;
    let most = bins.iter().map(|bin| bin.1).max().unwrap_or(1).max(1) as f64;
    // Labels lean to the right and downwards by as much as the longest of them.
    let longest = bins.iter().map(|bin| bin.0.chars().count()).max().unwrap_or(0) as f64;
    let (across, down) = (3.0 * longest, 5.5 * longest);
    let width = BIN * bins.len() as f64 + 10.0 + across;
    let mut svg = begin(title, width.ceil(), (HEIGHT + 20.0 + down).ceil(), true);
    for (at, (label, count)) in bins.iter().enumerate() {
        let height = (HEIGHT - 5.0) * *count as f64 / most;
        let (x, label) = (5.0 + BIN * at as f64, escape(label));
        let _ = writeln!(
            svg,
            "<rect class=\"bar c0\" x=\"{x}\" y=\"{:.1}\" width=\"{}\" height=\"{height:.1}\"><title>{label}: {count}</title></rect>\
             <text transform=\"translate({} {}) rotate(60)\">{label}</text>",
            HEIGHT - height,
            BIN - 4.0,
            x + 4.0,
            HEIGHT + 11.0,
        );
    }
    svg + "</svg>\n"
}
