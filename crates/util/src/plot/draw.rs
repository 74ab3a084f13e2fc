//! Drawing of plots.

use super::{Axis, Colour, Dots, Panel, Plot, Series};
use crate::markup::escape;
use std::fmt::Write as _;

/// Style sheet of all charts. A page that contains charts includes it once; charts in files of their own contain
/// it. These are plain rules without variables, because some SVG viewers do not support those. The colours are
/// those of Okabe and Ito with two more, which people with colour blindness can distinguish.
pub const STYLE: &str = "
.plot text { font: 12px system-ui, sans-serif; fill: #333 }
.plot .title { font-size: 14px; font-weight: 600 }
.plot .paper { fill: #fff }
.plot .grid { stroke: #000; stroke-opacity: 0.12 }
.plot .guide { stroke: #888; stroke-dasharray: 4 4 }
.plot polyline { fill: none; stroke-linejoin: round }
.plot .band { stroke: none; fill-opacity: 0.2 }
.plot circle, .plot .bar { stroke: none }
.plot .c0 { stroke: #0072b2; fill: #0072b2 } .plot .c1 { stroke: #d55e00; fill: #d55e00 }
.plot .c2 { stroke: #009e73; fill: #009e73 } .plot .c3 { stroke: #cc79a7; fill: #cc79a7 }
.plot .c4 { stroke: #e69f00; fill: #e69f00 } .plot .c5 { stroke: #56b4e9; fill: #56b4e9 }
.plot .c6 { stroke: #7c3aed; fill: #7c3aed } .plot .c7 { stroke: #65a30d; fill: #65a30d }
.plot .grey { stroke: #888; fill: #888 }
@media (prefers-color-scheme: dark) {
  .plot text { fill: #ddd }
  .plot .paper { fill: #16181d }
  .plot .grid { stroke: #fff }
  .plot .c0 { stroke: #4ea8e6; fill: #4ea8e6 } .plot .c6 { stroke: #a78bfa; fill: #a78bfa }
}
";
/// Number of colours in the style sheet.
const COLOURS: usize = 8;

const RIGHT: f64 = 20.0;
/// Space between two panels.
const GAP: f64 = 24.0;
/// Height of a row of the legend.
const ROW: f64 = 18.0;
/// Width of a character on average.
const CHARACTER: f64 = 6.4;

/// The opening of a chart; the caller ends it with `</svg>`. A chart within a page has no background and needs
/// the style sheet there.
pub(super) fn begin(title: &str, width: f64, height: f64, within_page: bool) -> String {
    let title = escape(title);
    if within_page {
        return format!(
            "<svg class=\"plot\" width=\"{width}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">\n"
        );
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"{title}\">\n<style>{STYLE}</style>\n<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n"
    )
}

/// Appends a text; `anchor` is the end that stands at the coordinates: `start`, `middle` or `end`.
pub(super) fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, label: &str) {
    let _ =
        writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escape(label));
}

/// Coordinates of a panel within the picture.
struct Frame<'a> {
    x: &'a Axis,
    y: &'a Axis,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Frame<'_> {
    fn at(&self, (across, up): (f64, f64)) -> (f64, f64) {
        (
            self.left + self.x.position(across) * (self.right - self.left),
            self.bottom - self.y.position(up) * (self.bottom - self.top),
        )
    }

    fn line(&self, svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (self.at(from), self.at(to));
        let _ = writeln!(
            svg,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    fn joined(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        let drawn = points.filter(|point| !point.0.is_nan() && !point.1.is_nan()).map(|point| self.at(point));
        drawn.map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
    }

    fn series(&self, svg: &mut String, number: usize, series: &Series) {
        let opacity = match series.opacity {
            1.0.. => String::new(),
            // Not the opacity of the group, so that points above each other look darker.
            part => format!(" stroke-opacity=\"{part}\" fill-opacity=\"{part}\""),
        };
        let _ = writeln!(svg, "<g {}{opacity}>", series.colour.attributes(number));
        if !series.name.is_empty() {
            let _ = writeln!(svg, "<title>{}</title>", escape(&series.name));
        }
        let points = &series.points;
        if !series.band.is_empty() {
            let band = || points.iter().zip(&series.band);
            let upper = band().map(|(point, ends)| (point.0, ends.1));
            let lower = band().rev().map(|(point, ends)| (point.0, ends.0));
            let outline = self.joined(upper.chain(lower));
            let _ = writeln!(svg, "<polygon class=\"band\" points=\"{outline}\"/>");
        }
        if series.line > 0.0 && points.len() > 1 {
            let path = self.joined(points.iter().copied());
            let _ = writeln!(svg, "<polyline stroke-width=\"{}\" points=\"{path}\"/>", series.line);
        }
        for (index, &point) in points.iter().enumerate() {
            let (radius, title) = match &series.dots {
                Dots::All(radius) => (*radius, ""),
                Dots::Each(dots) => dots.get(index).map_or((1.0, ""), |(radius, title)| (*radius, title)),
                Dots::None => break,
            };
            let (x, y) = self.at(point);
            if x.is_nan() || y.is_nan() {
                continue;
            }
            let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\"");
            let _ = match title {
                "" => writeln!(svg, "/>"),
                title => writeln!(svg, "><title>{}</title></circle>", escape(title)),
            };
        }
        svg.push_str("</g>\n");
    }

    fn panel(&self, svg: &mut String, panel: &Panel, first_colour: usize) {
        let ((left, right), (low, high)) = (self.x.ends(), self.y.ends());
        for (tick, _) in self.x.ticks() {
            self.line(svg, "grid", (tick, low), (tick, high));
        }
        for (tick, label) in self.y.ticks() {
            self.line(svg, "grid", (left, tick), (right, tick));
            text(svg, (self.left - 6.0, self.at((left, tick)).1 + 4.0), "end", &label);
        }
        for &guide in panel.guides.iter().filter(|guide| (low..=high).contains(*guide)) {
            self.line(svg, "guide", (left, guide), (right, guide));
        }
        if panel.diagonal {
            let (from, to) = (left.max(low), right.min(high));
            self.line(svg, "guide", (from, from), (to, to));
        }
        if !self.y.label.is_empty() {
            let middle = (self.top + self.bottom) / 2.0;
            let _ = writeln!(
                svg,
                "<text transform=\"translate(16 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
                escape(&self.y.label)
            );
        }
        for (number, series) in panel.series.iter().enumerate() {
            self.series(svg, first_colour + number, series);
        }
    }
}

impl Colour {
    /// Attributes of an element of this colour, for the series of this number.
    fn attributes(&self, number: usize) -> String {
        match self {
            Self::Next => format!("class=\"c{}\"", number % COLOURS),
            Self::Palette(number) => format!("class=\"c{}\"", number % COLOURS),
            Self::Grey => "class=\"grey\"".into(),
            Self::Css(colour) => format!("stroke=\"{0}\" fill=\"{0}\"", escape(colour)),
        }
    }
}

impl Plot {
    /// Draws the plot as a file of its own.
    pub fn to_svg(&self) -> String {
        self.draw(false)
    }

    /// Draws the plot as an element of an HTML page, which must include [`STYLE`].
    pub fn to_inline_svg(&self) -> String {
        self.draw(true)
    }

    fn draw(&self, within_page: bool) -> String {
        let longest =
            self.panels.iter().flat_map(|panel| panel.y.ticks()).map(|tick| tick.1.chars().count()).max();
        let labelled = self.panels.iter().any(|panel| !panel.y.label.is_empty());
        let left = 14.0 + CHARACTER * longest.unwrap_or(0) as f64 + if labelled { 20.0 } else { 0.0 };
        let (mut top, right) = (if self.title.is_empty() { 12.0 } else { 38.0 }, self.width - RIGHT);

        let mut body = String::new();
        if !self.title.is_empty() {
            let _ = writeln!(
                body,
                "<text class=\"title\" x=\"{left:.1}\" y=\"22\">{}</text>",
                escape(&self.title)
            );
        }
        text(&mut body, (right, 22.0), "end", &self.note);
        let mut number = 0;
        for (index, panel) in self.panels.iter().enumerate() {
            top += if index > 0 { GAP } else { 0.0 };
            let bottom = top + panel.height;
            Frame { x: &self.x, y: &panel.y, left, right, top, bottom }.panel(&mut body, panel, number);
            number += panel.series.len();
            top = bottom;
        }
        for (tick, label) in self.x.ticks() {
            let x = left + self.x.position(tick) * (right - left);
            text(&mut body, (x, top + 16.0), "middle", &label);
        }
        top += 18.0;
        if !self.x.label.is_empty() {
            text(&mut body, ((left + right) / 2.0, top + 16.0), "middle", &self.x.label);
            top += 20.0;
        }
        top = self.legend(&mut body, (left, top), right) + 10.0;
        begin(&self.title, self.width, top.ceil(), within_page) + &body + "</svg>\n"
    }

    /// Draws the names of all series in columns, and returns the lower edge.
    fn legend(&self, svg: &mut String, (left, top): (f64, f64), right: f64) -> f64 {
        let series = self.panels.iter().flat_map(|panel| &panel.series).enumerate();
        let named: Vec<(usize, &Series)> = series.filter(|(_, series)| !series.name.is_empty()).collect();
        let Some(longest) = named.iter().map(|(_, series)| series.name.chars().count()).max() else {
            return top;
        };
        let width = 40.0 + CHARACTER * longest as f64;
        let columns = (((right - left) / width) as usize).clamp(1, named.len());
        let rows = named.len().div_ceil(columns);
        for (place, (number, series)) in named.iter().enumerate() {
            let x = left + (place / rows) as f64 * (right - left) / columns as f64;
            let y = top + ROW * ((place % rows) as f64 + 1.0);
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.1} {:.1}h20\" stroke-width=\"3\" {}/>",
                y - 4.0,
                series.colour.attributes(*number)
            );
            text(svg, (x + 26.0, y), "start", &series.name);
        }
        top + ROW * rows as f64
    }
}
