//! The plots of the studies as SVG files.

use tandem_util::plot::{Axis, Panel, Plot, Series};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 325.0;

/// Texts of a plot.
#[derive(Clone, Copy, Debug)]
pub struct PlotLabels<'a> {
    /// Text above the plot.
    pub title: &'a str,
    /// Label of the horizontal axis, with its unit, for example `residues`.
    pub x: &'a str,
    /// Label of the vertical axis, with its unit, for example `nanoseconds`.
    pub y: &'a str,
}

/// Draws curves with a logarithmic vertical axis, for times that differ by orders of magnitude.
pub fn log_plot(labels: PlotLabels<'_>, series: Vec<Series>) -> String {
    let (x, y) = (Axis::over(xs(&series)), Axis::log_over(ys(&series)));
    draw(labels, x, y, series, false)
}

/// Draws clouds of points, for errors by true values.
pub fn scatter_plot(labels: PlotLabels<'_>, series: Vec<Series>) -> String {
    let (x, y) = (Axis::over(xs(&series)), Axis::over(ys(&series)));
    draw(labels, x, y, series, false)
}

/// Draws predictions against true values: both axes have the same range, and a line shows where they are equal.
pub fn prediction_plot(labels: PlotLabels<'_>, series: Vec<Series>) -> String {
    let both = Axis::over(xs(&series).chain(ys(&series)));
    draw(labels, both.clone(), both, series, true)
}

fn xs(series: &[Series]) -> impl Iterator<Item = f64> {
    series.iter().flat_map(|series| &series.points).map(|point| point.0)
}

fn ys(series: &[Series]) -> impl Iterator<Item = f64> {
    series.iter().flat_map(|series| &series.points).map(|point| point.1)
}

fn draw(labels: PlotLabels<'_>, x: Axis, y: Axis, series: Vec<Series>, diagonal: bool) -> String {
    let panel = Panel { series, diagonal, ..Panel::new(y.label(labels.y), HEIGHT) };
    Plot { width: WIDTH, panels: vec![panel], ..Plot::new(labels.title, x.label(labels.x)) }.to_svg()
}
