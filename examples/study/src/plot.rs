//! Drawings of points and lines, as SVG.

use std::fmt::Write;

/// A row of points.
#[derive(Clone, Debug)]
pub struct Series {
    /// What it is called.
    pub name: String,
    /// Across and up.
    pub points: Vec<(f64, f64)>,
    /// Whether a line joins them.
    pub joined: bool,
}

/// A drawing.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Above it.
    pub title: String,
    /// Below it.
    pub across: String,
    /// Beside it.
    pub up: String,
    /// Whether each line upwards is ten times the one below.
    pub logarithmic: bool,
    /// Whether a line says where both are equal.
    pub diagonal: bool,
    /// What is drawn.
    pub series: Vec<Series>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 55.0;
/// Colours that the colour-blind tell apart.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// One direction of a drawing.
struct Axis {
    least: f64,
    most: f64,
    logarithmic: bool,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>, logarithmic: bool) -> Self {
        let usable = values.filter(|value| value.is_finite() && (!logarithmic || *value > 0.0));
        let (mut least, mut most) = usable
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
                (least.min(value), most.max(value))
            });
        if least > most {
            (least, most) = (1.0, 10.0);
        }
        if logarithmic {
            (least, most) = (10f64.powf(least.log10().floor()), 10f64.powf(most.log10().ceil()));
        }
        if least == most {
            (least, most) = if logarithmic { (least / 10.0, most * 10.0) } else { (least - 1.0, most + 1.0) };
        }
        Self { least, most, logarithmic }
    }

    /// From 0 to 1.
    fn place(&self, value: f64) -> f64 {
        if self.logarithmic {
            (value.max(self.least) / self.least).log10() / (self.most / self.least).log10()
        } else {
            (value - self.least) / (self.most - self.least)
        }
    }

    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.most / self.least).log10().round() as i32;
            return (0..=decades).map(|decade| self.least * 10f64.powi(decade)).collect();
        }
        let rough = (self.most - self.least) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.least / step).ceil() as i64;
        (first..).map(|number| number as f64 * step).take_while(|tick| *tick <= self.most + 1e-9).collect()
    }
}

impl Plot {
    /// The drawing. The same figures give the same file.
    pub fn to_svg(&self) -> String {
        let all = || self.series.iter().flat_map(|series| &series.points);
        let (mut across, mut up) = (
            Axis::of(all().map(|point| point.0), false),
            Axis::of(all().map(|point| point.1), self.logarithmic),
        );
        if self.diagonal {
            let (least, most) = (across.least.min(up.least), across.most.max(up.most));
            (across.least, across.most, up.least, up.most) = (least, most, least, most);
        }
        let x = |value: f64| LEFT + across.place(value) * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - up.place(value) * (HEIGHT - TOP - BOTTOM);
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
            format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{more}>{}</text>", escaped(text))
        };
        line(label(WIDTH / 2.0, 22.0, "middle", " font-size=\"15\"", &self.title));
        line(label(WIDTH / 2.0, HEIGHT - 12.0, "middle", "", &self.across));
        let turned = format!(" transform=\"rotate(-90 16 {:.1})\"", HEIGHT / 2.0);
        line(label(16.0, HEIGHT / 2.0, "middle", &turned, &self.up));
        for tick in across.ticks() {
            line(rule((x(tick), TOP), (x(tick), HEIGHT - BOTTOM), "#e5e5e5"));
            line(label(x(tick), HEIGHT - BOTTOM + 16.0, "middle", "", &short(tick)));
        }
        for tick in up.ticks() {
            line(rule((LEFT, y(tick)), (WIDTH - RIGHT, y(tick)), "#e5e5e5"));
            line(label(LEFT - 6.0, y(tick) + 4.0, "end", "", &short(tick)));
        }
        if self.diagonal {
            line(rule((x(across.least), y(across.least)), (x(across.most), y(across.most)), "#888888"));
        }
        for (number, series) in self.series.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            if series.joined {
                let mut path = String::new();
                for (across, up) in &series.points {
                    let _ = write!(path, "{:.1},{:.1} ", x(*across), y(*up));
                }
                line(format!(
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                    path.trim_end()
                ));
            }
            let (radius, opacity) = if series.joined { (3.5, 1.0) } else { (1.6, 0.45) };
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

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// As few digits as tell it.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_holds_its_points_and_names() {
        let series = Series { name: "a < b".into(), points: vec![(1.0, 10.0), (2.0, 1000.0)], joined: true };
        let plot = Plot {
            title: "T".into(),
            across: "x".into(),
            up: "y".into(),
            logarithmic: true,
            diagonal: false,
            series: vec![series],
        };
        let svg = plot.to_svg();
        assert_eq!(svg, plot.to_svg());
        assert!(svg.contains("a &lt; b") && svg.matches("<circle").count() == 2);
        // The greatest stands at the top, the least at the bottom.
        assert!(svg.contains(&format!("{TOP:.1}\" r=")), "{svg}");
        assert!(svg.contains(">100</text>"));
    }

    #[test]
    fn a_drawing_of_nothing_is_one() {
        for logarithmic in [false, true] {
            let text = String::new();
            let plot = Plot {
                title: text.clone(),
                across: text.clone(),
                up: text,
                logarithmic,
                diagonal: false,
                series: vec![Series { name: "n".into(), points: vec![(0.0, 0.0)], joined: false }],
            };
            assert!(!plot.to_svg().contains("NaN"));
        }
    }
}
