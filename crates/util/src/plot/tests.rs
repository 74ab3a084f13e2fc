use super::axis::{log_ticks, ticks};
use super::*;

/// Checks that all coordinates of a drawing are numbers within the picture.
fn coordinates_are_within(svg: &str) {
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    let size = svg.split("viewBox=\"0 0 ").nth(1).unwrap().split('"').next().unwrap();
    let (width, height) = size.split_once(' ').unwrap();
    let (width, height): (f64, f64) = (width.parse().unwrap(), height.parse().unwrap());
    for points in svg.split(" points=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        for point in points.split(' ').filter(|point| !point.is_empty()) {
            let (x, y) = point.split_once(',').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!((0.0..=width).contains(&x) && (0.0..=height).contains(&y), "{point}");
        }
    }
}

fn plot(x: Axis, y: Axis, series: Vec<Series>) -> Plot {
    let panel = Panel { series, guides: vec![1.0], diagonal: true, ..Panel::new(y.label("up"), 300.0) };
    Plot { panels: vec![panel], ..Plot::new("a & b", x.label("across")) }
}

#[test]
fn a_plot_contains_its_points_and_names() {
    let points = vec![(1.0, 10.0), (2.0, 1000.0)];
    let series = Series { dots: Dots::All(3.5), ..Series::line("a < b", points.clone()) };
    let up = Axis::log_over(points.iter().map(|point| point.1));
    let plot = plot(Axis::over([1.0, 2.0]), up, vec![series]);
    let svg = plot.to_svg();
    assert_eq!(svg, plot.to_svg());
    assert!(svg.contains(">a &lt; b</text>") && svg.contains(">a &amp; b</text>") && svg.contains(">up<"));
    assert!(svg.matches("<circle").count() == 2 && svg.contains(">100</text>") && svg.contains("<style>"));
    // The least value is at the lower left, the greatest at the upper right.
    assert!(svg.contains("338.0 840.0,38.0\"/>"), "{svg}");
    // Within a page there is neither a background nor a style sheet.
    assert!(!plot.to_inline_svg().contains("<style") && !plot.to_inline_svg().contains("paper"));
}

#[test]
fn drawings_have_finite_coordinates_whatever_the_values() {
    let values = [0.0, 1.0, -1.0, 1e300, f64::MAX, 1e-300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    for first in values {
        for second in values {
            let points = vec![(0.0, first), (1.0, second), (second, first)];
            let xs = || points.iter().map(|point| point.0);
            let ys = || points.iter().map(|point| point.1);
            for y in [
                Axis::over(ys()).log_beyond(4.0).margin(0.05),
                Axis::log_over(ys()),
                Axis::new(first, second).only_ends(),
            ] {
                let band = points.iter().map(|point| (point.1, point.1)).collect();
                let dots = Dots::Each(vec![(1.0, "<".into())]);
                let series = Series { band, dots, ..Series::line("n", points.clone()) };
                coordinates_are_within(&plot(Axis::over(xs()), y, vec![series]).to_svg());
            }
        }
        coordinates_are_within(&bars("none", &[("a".into(), 0.0)]));
        coordinates_are_within(&histogram("none", &[("a".into(), 0)]));
    }
    coordinates_are_within(&plot(Axis::over([]), Axis::over([]), vec![]).to_svg());
    coordinates_are_within(&bars("none", &[]));
    coordinates_are_within(&histogram("none", &[]));
}

#[test]
fn the_scale_is_logarithmic_where_values_fall_far() {
    let is_log = |values: [f64; 2]| Axis::over(values).log_beyond(4.0).is_log();
    assert!(is_log([0.1, 0.01]) && !is_log([0.1, 0.05]) && !is_log([0.1, 0.0]) && !is_log([-1.0, 8.0]));
    let labels: Vec<String> = log_ticks(0.009, 0.11).into_iter().map(number).collect();
    assert_eq!(labels, ["0.01", "0.02", "0.05", "0.1"]);
    assert!(log_ticks(1e-300, 1e300).len() < 12);
}

#[test]
fn ticks_are_round() {
    assert_eq!(ticks(-12.0, 31.0), [-10.0, 0.0, 10.0, 20.0, 30.0]);
    assert_eq!(ticks(0.0, 98.0), [0.0, 20.0, 40.0, 60.0, 80.0]);
    assert_eq!(ticks(0.0, 1.2), [0.0, 0.5, 1.0]);
}

#[test]
fn values_are_formatted_in_few_digits() {
    let label = [0.0, 0.02, 0.031_249, 1.5, 123.0, 1e-4, 2.4e-6, -0.5, 4e6].map(number);
    assert_eq!(label, ["0", "0.02", "0.03125", "1.5", "123", "1e-4", "2.4e-6", "-0.5", "4e6"]);
    let label = [0.0, 500.0, 1e4, 2e7, 2.5e9].map(count);
    assert_eq!(label, ["0", "500", "10 k", "20 M", "2.5 G"]);
}

#[test]
fn thinned_points_are_regular_and_hold_the_last() {
    let points: Vec<u32> = (0..1000).collect();
    assert_eq!(thin(&points, 3), [0, 334, 668, 999]);
    assert_eq!(thin(&points, 5000), points);
    assert!(thin::<u32>(&[], 5).is_empty());
}
