//! Loss curves in SVG: training loss, validation loss and learning rate over the positions of a run.

use super::json_lines::Entry;
use std::fmt::Write as _;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 840.0;
/// Upper and lower edge of the panel of the losses.
const LOSSES: (f64, f64) = (44.0, 346.0);
/// Upper and lower edge of the panel of the learning rate.
const LEARNING_RATE: (f64, f64) = (376.0, 434.0);
/// Maximum number of points of a curve, about as many as a screen shows.
const MAX_POINTS: usize = 600;
/// Ratio of greatest to least loss from which the scale is logarithmic, because on a linear one the end of
/// the curve would look flat.
const LOG_FROM: f64 = 4.0;

/// Values beyond this, or nearer to zero than its reciprocal, are drawn at the edge.
const MAX_DRAWN: f64 = 1e30;

/// Plain rules without variables, because some SVG viewers do not support those.
const STYLE: &str = "
text { font: 12px system-ui, sans-serif; fill: #333 }
.title { font-weight: 600 }
.paper { fill: #fff }
.grid { stroke: #000; stroke-width: 1; stroke-opacity: 0.12 }
.raw, .train, .validation, .rate { fill: none; stroke-width: 2; stroke-linejoin: round }
.raw, .train { stroke: #2563eb }
.raw { stroke-width: 1; stroke-opacity: 0.25 }
.validation { stroke: #c2410c }
.point { fill: #c2410c }
.rate { stroke: #666; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd }
  .paper { fill: #16181d }
  .grid { stroke: #fff }
  .raw, .train { stroke: #7aa2ff }
  .validation { stroke: #fb923c }
  .point { fill: #fb923c }
  .rate { stroke: #aaa }
}
";

/// Points of a curve: positions trained on, and the value after them.
type Points = Vec<(f64, f64)>;

/// The vertical scale of a panel, linear or logarithmic.
#[derive(Clone, Copy, Debug)]
struct Scale {
    low: f64,
    high: f64,
    log: bool,
    panel: (f64, f64),
}

impl Scale {
    /// A scale that shows all of these values with some margin.
    fn over(values: impl Iterator<Item = f64>, panel: (f64, f64)) -> Self {
        let (low, high) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        // No loss is beyond these bounds, unless the run diverged; such values leave the picture.
        let (low, high) = if low <= high {
            (low.clamp(-MAX_DRAWN, MAX_DRAWN), high.clamp(-MAX_DRAWN, MAX_DRAWN))
        } else {
            (0.0, 1.0)
        };
        let low = if low > 0.0 { low.max(1.0 / MAX_DRAWN) } else { low };
        let high = high.max(low);
        let log = low > 0.0 && high / low > LOG_FROM;
        if log {
            let margin = (high / low).powf(0.04);
            return Self { low: low / margin, high: high * margin, log, panel };
        }
        // A constant curve is drawn in the middle.
        let margin = if high > low { (high - low) * 0.05 } else { (high.abs() * 0.1).max(1e-9) };
        Self { low: low - margin, high: high + margin, log, panel }
    }

    fn y(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let height = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.panel.1 - height * (self.panel.1 - self.panel.0)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log { log_ticks(self.low, self.high) } else { ticks(self.low, self.high, 5.0) }
    }
}

/// Draws a history as SVG: the training loss, raw and smoothed, the validation loss, and below them the
/// learning rate.
pub fn draw(history: &[Entry]) -> String {
    let points = |name: &str| -> Points {
        let at = |entry: &Entry| entry.scalar(name).map(|value| (entry.positions as f64, value));
        history.iter().filter_map(at).collect()
    };
    let (train, validation, rate) = (points("train/loss"), points("validation/loss"), points("train/lr"));
    let smoothed = smooth(&train);
    let end = history.iter().map(|entry| entry.positions).max().unwrap_or(0).max(1) as f64;
    let x = |positions: f64| LEFT + positions / end * (RIGHT - LEFT);

    // Outliers of the raw loss may leave the picture, because they would flatten everything else.
    let losses = || smoothed.iter().chain(&validation).map(|point| point.1);
    let scale = Scale::over(losses().chain(without_outliers(&train)), LOSSES);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Loss by positions\">\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n"
    );
    let scale_label = if scale.log { "loss, logarithmic" } else { "loss" };
    text(&mut svg, (LEFT, 24.0), "start", "title", scale_label);
    grid(&mut svg, &scale, &scale.ticks());
    for tick in ticks(0.0, end, 6.0) {
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1}\" y2=\"{2}\"/>",
            x(tick),
            LOSSES.0,
            LEARNING_RATE.1
        );
        text(&mut svg, (x(tick), LEARNING_RATE.1 + 18.0), "middle", "", &count(tick));
    }
    text(&mut svg, ((LEFT + RIGHT) / 2.0, HEIGHT - 10.0), "middle", "", "positions");

    line(&mut svg, "raw", &min_max_thinned(&train), x, &scale);
    line(&mut svg, "train", &smoothed, x, &scale);
    line(&mut svg, "validation", &thin(&validation), x, &scale);
    for (positions, value) in thin(&validation) {
        let _ = writeln!(
            svg,
            "<circle class=\"point\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"/>",
            x(positions),
            scale.y(value)
        );
    }
    legend(&mut svg, &smoothed, &validation);
    let missing = history.iter().filter(|entry| entry.scalars.get("train/loss") == Some(&None)).count();
    if missing > 0 {
        let label = format!("{missing} losses were not numbers");
        text(&mut svg, (RIGHT, LOSSES.0 + 16.0), "end", "", &label);
    }

    if let Some(most) = rate.iter().map(|point| point.1).reduce(f64::max) {
        let scale =
            Scale { low: 0.0, high: if most > 0.0 { most } else { 1.0 }, log: false, panel: LEARNING_RATE };
        grid(&mut svg, &scale, &[0.0, scale.high]);
        text(&mut svg, (LEFT + 6.0, LEARNING_RATE.1 - 6.0), "start", "", "learning rate");
        line(&mut svg, "rate", &thin(&rate), x, &scale);
    }
    svg.push_str("</svg>\n");
    svg
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, class: &str, label: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let _ = writeln!(svg, "<text{class} x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{label}</text>");
}

/// Draws horizontal grid lines with their values at the left.
fn grid(svg: &mut String, scale: &Scale, ticks: &[f64]) {
    for &tick in ticks {
        let y = scale.y(tick);
        let _ =
            writeln!(svg, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
        text(svg, (LEFT - 8.0, y + 4.0), "end", "", &number(tick));
    }
}

fn line(svg: &mut String, class: &str, points: &[(f64, f64)], x: impl Fn(f64) -> f64, scale: &Scale) {
    if points.len() > 1 {
        let points: Vec<String> =
            points.iter().map(|&(at, value)| format!("{:.1},{:.1}", x(at), scale.y(value))).collect();
        let _ = writeln!(svg, "<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }
}

/// Names of the curves, with the last training loss and the least validation loss.
fn legend(svg: &mut String, smoothed: &[(f64, f64)], validation: &[(f64, f64)]) {
    let mut label = Vec::new();
    if let Some(&(_, last)) = smoothed.last() {
        label.push(("train", format!("training {}", number(last))));
    }
    if let Some(&(at, least)) = validation.iter().min_by(|a, b| a.1.total_cmp(&b.1)) {
        label.push(("validation", format!("validation, least {} after {}", number(least), count(at))));
    }
    let mut x = 240.0;
    for (class, label) in label {
        let _ = writeln!(svg, "<line class=\"{class}\" x1=\"{x}\" x2=\"{}\" y1=\"20\" y2=\"20\"/>", x + 24.0);
        text(svg, (x + 32.0, 24.0), "start", "", &label);
        x += 200.0;
    }
}

/// Centred moving average over a hundredth of the curve to either side, thinned out. The window shrinks
/// towards both ends, so that the curve does not lag behind; but at its end it becomes the mean of the values
/// before.
fn smooth(points: &[(f64, f64)]) -> Points {
    let mean = |index: usize| {
        let (at, value) = points[index];
        let before = (points.len() / 100).min(index);
        let after = before.min(points.len() - 1 - index);
        let around = &points[index - before..=index + after];
        let sum: f64 = around.iter().map(|point| point.1).sum();
        // Values too large to be added have no mean.
        (at, if sum.is_finite() { sum / around.len() as f64 } else { value })
    };
    drawn_indices(points.len()).map(mean).collect()
}

/// The values without the highest and the lowest hundredth, which set the scale.
fn without_outliers(points: &[(f64, f64)]) -> Vec<f64> {
    let mut values: Vec<f64> = points.iter().map(|point| point.1).collect();
    values.sort_unstable_by(f64::total_cmp);
    let out = values.len() / 100;
    values[out..values.len() - out].to_vec()
}

/// Indices of the points to draw: at regular intervals, and the last.
fn drawn_indices(count: usize) -> impl Iterator<Item = usize> {
    let step = count.div_ceil(MAX_POINTS).max(1);
    (0..count).filter(move |index| index % step == 0 || index + 1 == count)
}

fn thin(points: &[(f64, f64)]) -> Points {
    drawn_indices(points.len()).map(|index| points[index]).collect()
}

/// Minimum and maximum of each group of points: thinned out without losing the range of the values.
fn min_max_thinned(points: &[(f64, f64)]) -> Points {
    if points.len() <= 2 * MAX_POINTS {
        return points.to_vec();
    }
    let ends = |group: &[(f64, f64)]| {
        let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let ends = [group.iter().min_by(by_value), group.iter().max_by(by_value)];
        let mut ends: Points = ends.into_iter().flatten().copied().collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends
    };
    points.chunks(points.len().div_ceil(MAX_POINTS)).flat_map(ends).collect()
}

/// Round values within a range, about `target` of them: multiples of 1, 2 or 5 times a power of ten.
fn ticks(low: f64, high: f64, target: f64) -> Vec<f64> {
    let min_step = (high - low) / target;
    let power = 10f64.powf(min_step.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().map(|factor| factor * power).find(|&step| step >= min_step);
    let step = step.unwrap_or(10.0 * power);
    let (first, last) = ((low / step).ceil(), (high / step).floor());
    let count = (last - first).clamp(0.0, 20.0) as u32;
    // Rounding must not place a tick outside a range that is narrow compared with its values.
    (0..=count).map(|n| (first + f64::from(n)) * step).filter(|tick| (low..=high).contains(tick)).collect()
}

/// Ones, twos and fives within a range, or powers of ten alone if it is wide.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let decades = last - first;
    let factors: &[f64] = if decades > 3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let every = (decades / 8 + 1) as usize;
    (first..=last)
        .step_by(every)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
        .filter(|tick| (low..=high).contains(tick))
        .collect()
}

/// Formats a value with four significant digits, or as a power of ten.
fn number(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e5).contains(&size) {
        let label = format!("{value:.2e}");
        // 1.00e-4 becomes 1e-4.
        return match label.split_once('e') {
            Some((digits, power)) => format!("{}e{power}", shorten(digits)),
            None => label,
        };
    }
    let digits = if size == 0.0 { 0 } else { (3 - size.log10().floor() as i32).max(0) as usize };
    shorten(&format!("{value:.digits$}")).into()
}

/// Formats a number of positions, for example as `20 M`.
fn count(positions: f64) -> String {
    let (unit, name) = match positions {
        p if p >= 1e9 => (1e9, " G"),
        p if p >= 1e6 => (1e6, " M"),
        p if p >= 1e3 => (1e3, " k"),
        _ => (1.0, ""),
    };
    format!("{}{name}", shorten(&format!("{:.2}", positions / unit)))
}

/// Removes trailing zeros after the decimal point, and the point itself if nothing follows.
fn shorten(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(steps: u64, loss: impl Fn(u64) -> f64) -> Vec<Entry> {
        let entry = |step: u64| {
            let mut scalars =
                vec![("train/loss", loss(step)), ("train/lr", 1e-3 * (1.0 - step as f64 / steps as f64))];
            if step.is_multiple_of(500) {
                scalars.push(("validation/loss", loss(step) * 1.02));
            }
            Entry::new(step, step * 16_384, step as f64, &scalars)
        };
        (1..=steps).map(entry).collect()
    }

    /// Checks that the coordinates of every polyline lie within the picture.
    fn coordinates_are_within(svg: &str) {
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        for points in svg.split("points=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            for point in points.split(' ') {
                let (x, y) = point.split_once(',').unwrap();
                let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                assert!((LEFT..=RIGHT).contains(&x) && (LOSSES.0..=LEARNING_RATE.1).contains(&y), "{point}");
            }
        }
    }

    #[test]
    fn all_curves_are_drawn() {
        let svg =
            draw(&history(6000, |step| 0.03 + 0.3 / (step as f64).sqrt() + (step * 7919 % 13) as f64 * 1e-3));
        coordinates_are_within(&svg);
        for class in ["raw", "train", "validation", "rate"] {
            assert_eq!(svg.matches(&format!("<polyline class=\"{class}\"")).count(), 1, "{class}");
        }
        assert_eq!(svg.matches("<circle").count(), 12);
        assert!(svg.contains(">loss, logarithmic<") && svg.contains(">20 M<") && svg.contains(">positions<"));
        assert!(svg.contains("prefers-color-scheme: dark") && svg.len() < 60_000, "{}", svg.len());
    }

    #[test]
    fn curves_have_finite_coordinates_whatever_the_values() {
        coordinates_are_within(&draw(&[]));
        for steps in [1, 2, 300] {
            for loss in [0.0, 1.0, -1.0, 1e300, f64::MAX, 1e-300, f64::NAN] {
                coordinates_are_within(&draw(&history(steps, |_| loss)));
                coordinates_are_within(&draw(&history(steps, |step| if step % 9 == 1 { loss } else { 0.5 })));
            }
        }
        let diverged = draw(&history(100, |step| if step > 60 { f64::NAN } else { 0.1 }));
        assert!(diverged.contains("40 losses were not numbers"));
        let silent =
            [Entry::new(0, 0, 0.0, &[("speed", 3.0)]), Entry::new(0, u64::MAX, 0.0, &[("train/lr", -1.0)])];
        coordinates_are_within(&draw(&silent));
    }

    #[test]
    fn a_smoothed_curve_does_not_lag_and_is_smooth_to_its_end() {
        let straight: Points = (0..1000).map(|n| (f64::from(n), f64::from(n))).collect();
        let lag = |&(at, value): &(f64, f64)| at - value;
        assert!(smooth(&straight).iter().take_while(|(at, _)| *at < 990.0).all(|point| lag(point) == 0.0));
        assert_eq!(smooth(&straight).last().map(lag), Some(5.0));
        let wild: Points = (0..1000).map(|n| (f64::from(n), f64::from(n % 2))).collect();
        assert!(smooth(&wild)[10..].iter().all(|(_, value)| (value - 0.5).abs() < 0.05));
    }

    #[test]
    fn the_scale_is_logarithmic_where_losses_fall_far() {
        assert!(Scale::over([0.1, 0.01].into_iter(), LOSSES).log);
        assert!(!Scale::over([0.1, 0.05].into_iter(), LOSSES).log);
        assert!(!Scale::over([0.1, 0.0].into_iter(), LOSSES).log);
        let ticks: Vec<String> = log_ticks(0.009, 0.11).into_iter().map(number).collect();
        assert_eq!(ticks, ["0.01", "0.02", "0.05", "0.1"]);
        assert!(log_ticks(1e-300, 1e300).len() < 12);
    }

    #[test]
    fn values_are_formatted_in_few_digits() {
        let label = [0.0, 0.02, 0.031_249, 1.5, 123.0, 1e-4, 2.4e-6, -0.5, 4e6].map(number);
        assert_eq!(label, ["0", "0.02", "0.03125", "1.5", "123", "1e-4", "2.4e-6", "-0.5", "4e6"]);
        let label = [0.0, 500.0, 1e4, 2e7, 2.5e9].map(count);
        assert_eq!(label, ["0", "500", "10 k", "20 M", "2.5 G"]);
        assert_eq!(ticks(0.0, 98.0, 6.0), [0.0, 20.0, 40.0, 60.0, 80.0]);
    }
}
