//! Plots of points and lines as SVG files, with axes, a legend and an optional logarithmic scale.

use std::fmt::Write;
use tandem_util::markup::escape;

/// One set of points with a colour and a legend entry of its own.
#[derive(Clone, Debug)]
pub struct Series {
    /// Text of the legend entry, for example `network`.
    pub name: String,
    /// Coordinates of the points: horizontal, then vertical. Infinite ones do not affect the range of the
    /// axes.
    pub points: Vec<(f64, f64)>,
    /// True to connect the points by a line and draw them larger.
    pub connected: bool,
}

/// Contents of one plot; [`Plot::to_svg`] draws it with axes that fit the points.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Text above the plot, centred.
    pub title: String,
    /// Label of the horizontal axis, with its unit, for example `residues`.
    pub x_label: String,
    /// Label of the vertical axis, with its unit, for example `nanoseconds`.
    pub y_label: String,
    /// True for a logarithmic vertical axis with a tick for each power of ten.
    pub log_y: bool,
    /// True to draw the line y = x and use the same range for both axes, for plots of predictions against
    /// true values.
    pub diagonal: bool,
    /// Sets of points, drawn in this order; colours repeat after six.
    pub series: Vec<Series>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 55.0;
/// Colours that people with colour blindness can distinguish (Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// Range of the values and scale of one axis.
struct Axis {
    min: f64,
    max: f64,
    logarithmic: bool,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>, logarithmic: bool) -> Self {
        let usable = values.filter(|value| value.is_finite() && (!logarithmic || *value > 0.0));
        let (mut min, mut max) = usable
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), value| (min.min(value), max.max(value)));
        if min > max {
            (min, max) = (1.0, 10.0);
        }
        if logarithmic {
            (min, max) = (10f64.powf(min.log10().floor()), 10f64.powf(max.log10().ceil()));
        }
        if min == max {
            (min, max) = if logarithmic { (min / 10.0, max * 10.0) } else { (min - 1.0, max + 1.0) };
        }
        Self { min, max, logarithmic }
    }

    /// Position of a value on the axis, from 0 to 1.
    fn position(&self, value: f64) -> f64 {
        if self.logarithmic {
            (value.max(self.min) / self.min).log10() / (self.max / self.min).log10()
        } else {
            (value - self.min) / (self.max - self.min)
        }
    }

    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.max / self.min).log10().round() as i32;
            return (0..=decades).map(|decade| self.min * 10f64.powi(decade)).collect();
        }
        let rough = (self.max - self.min) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.min / step).ceil() as i64;
        (first..).map(|number| number as f64 * step).take_while(|tick| *tick <= self.max + 1e-9).collect()
    }
}

impl Plot {
    /// Draws the plot. The output depends on the contents alone, so equal data give equal files.
    pub fn to_svg(&self) -> String {
        let all = || self.series.iter().flat_map(|series| &series.points);
        let (mut across, mut up) =
            (Axis::of(all().map(|point| point.0), false), Axis::of(all().map(|point| point.1), self.log_y));
        if self.diagonal {
            let (min, max) = (across.min.min(up.min), across.max.max(up.max));
            (across.min, across.max, up.min, up.max) = (min, max, min, max);
        }
        let x = |value: f64| LEFT + across.position(value) * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - up.position(value) * (HEIGHT - TOP - BOTTOM);
        let mut svg = String::new();
        let mut line = |text: String| {
            svg.push_str(&text);
            svg.push('\n');
        };
        line(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">"
        ));
        line(format!("<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>"));
        let label = |x: f64, y: f64, anchor: &str, more: &str, text: &str| {
            format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{more}>{}</text>", escape(text))
        };
        line(label(WIDTH / 2.0, 22.0, "middle", " font-size=\"15\"", &self.title));
        line(label(WIDTH / 2.0, HEIGHT - 12.0, "middle", "", &self.x_label));
        let rotated = format!(" transform=\"rotate(-90 16 {:.1})\"", HEIGHT / 2.0);
        line(label(16.0, HEIGHT / 2.0, "middle", &rotated, &self.y_label));
        for tick in across.ticks() {
            line(rule((x(tick), TOP), (x(tick), HEIGHT - BOTTOM), "#e5e5e5"));
            line(label(x(tick), HEIGHT - BOTTOM + 16.0, "middle", "", &short(tick)));
        }
        for tick in up.ticks() {
            line(rule((LEFT, y(tick)), (WIDTH - RIGHT, y(tick)), "#e5e5e5"));
            line(label(LEFT - 6.0, y(tick) + 4.0, "end", "", &short(tick)));
        }
        if self.diagonal {
            line(rule((x(across.min), y(across.min)), (x(across.max), y(across.max)), "#888888"));
        }
        for (number, series) in self.series.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            if series.connected {
                let mut path = String::new();
                for (across, up) in &series.points {
                    let _ = write!(path, "{:.1},{:.1} ", x(*across), y(*up));
                }
                line(format!(
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                    path.trim_end()
                ));
            }
            let (radius, opacity) = if series.connected { (3.5, 1.0) } else { (1.6, 0.45) };
            line(format!("<g fill=\"{colour}\" fill-opacity=\"{opacity}\">"));
            for (across, up) in &series.points {
                let (x, y) = (x(*across), y(*up));
                line(format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>"));
            }
            line("</g>".into());
            let height = TOP + 16.0 + 16.0 * number as f64;
            line(format!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>",
                LEFT + 10.0,
                height - 9.0
            ));
            line(label(LEFT + 25.0, height, "start", "", &series.name));
        }
        line("</svg>".into());
        svg
    }
}

fn rule(from: (f64, f64), to: (f64, f64), colour: &str) -> String {
    format!(
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>",
        from.0, from.1, to.0, to.1
    )
}

/// Formats a number with as few digits as needed, at most three decimals.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_contains_its_points_and_names() {
        let series =
            Series { name: "a < b".into(), points: vec![(1.0, 10.0), (2.0, 1000.0)], connected: true };
        let plot = Plot {
            title: "T".into(),
            x_label: "x".into(),
            y_label: "y".into(),
            log_y: true,
            diagonal: false,
            series: vec![series],
        };
        let svg = plot.to_svg();
        assert_eq!(svg, plot.to_svg());
        assert!(svg.contains("a &lt; b") && svg.matches("<circle").count() == 2);
        // The greatest value is at the top, the least at the bottom.
        assert!(svg.contains(&format!("{TOP:.1}\" r=")), "{svg}");
        assert!(svg.contains(">100</text>"));
    }

    #[test]
    fn a_single_point_is_drawn_without_nan() {
        for logarithmic in [false, true] {
            let text = String::new();
            let plot = Plot {
                title: text.clone(),
                x_label: text.clone(),
                y_label: text,
                log_y: logarithmic,
                diagonal: false,
                series: vec![Series { name: "n".into(), points: vec![(0.0, 0.0)], connected: false }],
            };
            assert!(!plot.to_svg().contains("NaN"));
        }
    }
}
