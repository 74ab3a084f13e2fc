//! Loss curves in SVG: training loss, validation loss and learning rate over the positions of a run.

use super::json_lines::Entry;
use tandem_util::plot::{Axis, Colour, Panel, Plot, Series, count, number, thin};

/// Maximum number of points of a curve, about as many as a screen shows.
const MAX_POINTS: usize = 600;
/// Ratio of greatest to least loss from which the scale is logarithmic, because on a linear one the end of
/// the curve would look flat.
const LOG_FROM: f64 = 4.0;

/// Points of a curve: positions trained on, and the value after them.
type Points = Vec<(f64, f64)>;

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

    // Outliers of the raw loss may leave the picture, because they would flatten everything else.
    let values = smoothed.iter().chain(&validation).map(|point| point.1).chain(without_outliers(&train));
    let losses = Axis::over(values).log_beyond(LOG_FROM).margin(0.05);
    let label = if losses.is_log() { "loss, logarithmic" } else { "loss" };
    let series = loss_series(&train, smoothed, &validation);
    let mut panels = vec![Panel { series, ..Panel::new(losses.label(label), 300.0) }];
    if let Some(most) = rate.iter().map(|point| point.1).reduce(f64::max) {
        let axis = Axis::new(0.0, if most > 0.0 { most } else { 1.0 }).only_ends().label("learning rate");
        let line = Series { colour: Colour::Grey, line: 1.5, ..Series::line("", thin(&rate, MAX_POINTS)) };
        panels.push(Panel { series: vec![line], ..Panel::new(axis, 80.0) });
    }
    let missing = history.iter().filter(|entry| entry.scalars.get("train/loss") == Some(&None)).count();
    let note = if missing > 0 { format!("{missing} losses were not numbers") } else { String::new() };
    let x = Axis::new(0.0, end).label("positions").format(count);
    Plot { panels, note, ..Plot::new("Loss by positions", x) }.to_svg()
}

/// The curves of the losses. Their names have the last training loss and the least validation loss.
fn loss_series(train: &[(f64, f64)], smoothed: Points, validation: &[(f64, f64)]) -> Vec<Series> {
    let raw = Series {
        colour: Colour::Palette(0),
        line: 1.0,
        opacity: 0.25,
        ..Series::line("", min_max_thinned(train))
    };
    let mut series = vec![raw];
    if let Some(&(_, last)) = smoothed.last() {
        let name = format!("training {}", number(last));
        series.push(Series { colour: Colour::Palette(0), ..Series::line(name, smoothed) });
    }
    if let Some(&(at, least)) = validation.iter().min_by(|a, b| a.1.total_cmp(&b.1)) {
        let name = format!("validation, least {} after {}", number(least), count(at));
        let marked = Series::marked(name, thin(validation, MAX_POINTS));
        series.push(Series { colour: Colour::Palette(1), ..marked });
    }
    series
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
    let indices: Vec<usize> = (0..points.len()).collect();
    thin(&indices, MAX_POINTS).into_iter().map(mean).collect()
}

/// The values without the highest and the lowest hundredth, which set the scale.
fn without_outliers(points: &[(f64, f64)]) -> Vec<f64> {
    let mut values: Vec<f64> = points.iter().map(|point| point.1).collect();
    values.sort_unstable_by(f64::total_cmp);
    let out = values.len() / 100;
    values[out..values.len() - out].to_vec()
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

    #[test]
    fn all_curves_are_drawn() {
        let svg =
            draw(&history(6000, |step| 0.03 + 0.3 / (step as f64).sqrt() + (step * 7919 % 13) as f64 * 1e-3));
        // Raw and smoothed training loss, validation loss, learning rate.
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert_eq!(svg.matches("<circle").count(), 12);
        assert!(svg.contains(">loss, logarithmic<") && svg.contains(">20 M<") && svg.contains(">positions<"));
        assert!(svg.contains(">training 0.0") && svg.contains(">validation, least 0.0"));
        assert!(svg.contains("prefers-color-scheme: dark") && svg.len() < 60_000, "{}", svg.len());
    }

    #[test]
    fn curves_have_finite_coordinates_whatever_the_values() {
        let check = |history: &[Entry]| {
            let svg = draw(history);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        };
        check(&[]);
        for steps in [1, 2, 300] {
            for loss in [0.0, 1.0, -1.0, 1e300, f64::MAX, 1e-300, f64::NAN] {
                check(&history(steps, |_| loss));
                check(&history(steps, |step| if step % 9 == 1 { loss } else { 0.5 }));
            }
        }
        let diverged = draw(&history(100, |step| if step > 60 { f64::NAN } else { 0.1 }));
        assert!(diverged.contains("40 losses were not numbers"));
        check(&[
            Entry::new(0, 0, 0.0, &[("speed", 3.0)]),
            Entry::new(0, u64::MAX, 0.0, &[("train/lr", -1.0)]),
        ]);
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
}
