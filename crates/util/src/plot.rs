//! Charts as SVG: curves, points, bands and bars with axes, ticks and a legend.
//!
//! A [`Plot`] consists of one or more [`Panel`]s above each other with a common horizontal axis.
//! [`bars`] and [`histogram`] draw counts. All of them have the same look, which follows the viewer's light or
//! dark mode, and equal data give equal files.
//!
//! ```
//! use tandem_util::plot::{Axis, Panel, Plot, Series};
//!
//! let points: Vec<(f64, f64)> = (1..=100).map(|step| (f64::from(step), 1.0 / f64::from(step))).collect();
//! let up = Axis::over(points.iter().map(|point| point.1)).log_beyond(4.0).margin(0.05).label("loss");
//! let panel = Panel { series: vec![Series::line("training", points)], ..Panel::new(up, 300.0) };
//! let plot = Plot { panels: vec![panel], ..Plot::new("Training", Axis::new(0.0, 100.0).label("steps")) };
//! assert!(plot.to_svg().starts_with("<svg"));
//! ```

mod axis;
mod bars;
mod draw;

pub use axis::{Axis, count, number};
pub use bars::{bars, histogram};
pub use draw::STYLE;

/// A chart with one horizontal axis; [`Self::to_svg`] draws it.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Text above the chart, and its accessible name.
    pub title: String,
    /// Width of the picture in pixels; the height follows from the panels and the legend.
    pub width: f64,
    /// Horizontal axis of all panels.
    pub x: Axis,
    /// Panels from top to bottom.
    pub panels: Vec<Panel>,
    /// Remark in the upper right corner; empty for none.
    pub note: String,
}

impl Plot {
    /// A plot of 860 pixels' width without panels.
    pub fn new(title: impl Into<String>, x: Axis) -> Self {
        Self { title: title.into(), width: 860.0, x, panels: Vec::new(), note: String::new() }
    }
}

/// Area of a chart with a vertical axis of its own.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Vertical axis.
    pub y: Axis,
    /// Height of the area in pixels.
    pub height: f64,
    /// Sets of points, drawn in this order.
    pub series: Vec<Series>,
    /// Values at which a dashed horizontal line is drawn.
    pub guides: Vec<f64>,
    /// True to draw the dashed line y = x, for plots of predictions against true values.
    pub diagonal: bool,
}

impl Panel {
    /// A panel without contents.
    pub fn new(y: Axis, height: f64) -> Self {
        Self { y, height, series: Vec::new(), guides: Vec::new(), diagonal: false }
    }
}

/// One set of points with a colour and a legend entry of its own.
///
/// Points outside the range of an axis are drawn at its edge; points with a coordinate that is not a number are
/// left out.
#[derive(Clone, Debug)]
pub struct Series {
    /// Text of the legend entry; empty for none.
    pub name: String,
    /// Coordinates of the points: horizontal, then vertical.
    pub points: Vec<(f64, f64)>,
    /// Lower and upper end of a band around the line at each point; empty for no band.
    pub band: Vec<(f64, f64)>,
    /// Width of the line through the points in pixels; 0 for no line.
    pub line: f64,
    /// Marks at the points.
    pub dots: Dots,
    /// Opacity of line and dots, from 0 to 1.
    pub opacity: f64,
    /// Colour of line, dots and band.
    pub colour: Colour,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            name: String::new(),
            points: Vec::new(),
            band: Vec::new(),
            line: 0.0,
            dots: Dots::None,
            opacity: 1.0,
            colour: Colour::Next,
        }
    }
}

impl Series {
    /// A line through points.
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, line: 2.0, ..Self::default() }
    }

    /// A line through a few points, each of which is marked.
    pub fn marked(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { dots: Dots::All(3.0), ..Self::line(name, points) }
    }

    /// A cloud of many points.
    pub fn scatter(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, dots: Dots::All(1.6), opacity: 0.45, ..Self::default() }
    }
}

/// Marks at the points of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum Dots {
    /// No marks.
    None,
    /// Discs of this radius in pixels.
    All(f64),
    /// For each point the radius of its disc in pixels, and a text that a viewer shows when pointed at it.
    Each(Vec<(f64, String)>),
}

/// Colour of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum Colour {
    /// The colour of the palette that follows from the number of the series in its panel.
    Next,
    /// A colour of the palette by its number; after the last one they repeat.
    Palette(usize),
    /// Grey, for what serves as background.
    Grey,
    /// A colour in the syntax of CSS.
    Css(String),
}

/// At most about `count` of the points, at regular intervals, and always the last. A screen cannot show
/// more, and a file with all of them would be large.
pub fn thin<T: Clone>(points: &[T], count: usize) -> Vec<T> {
    let step = points.len().div_ceil(count.max(1)).max(1);
    let is_drawn = |index: usize| index.is_multiple_of(step) || index + 1 == points.len();
    (0..points.len()).filter(|&index| is_drawn(index)).map(|index| points[index].clone()).collect()
}

#[cfg(test)]
mod tests;
