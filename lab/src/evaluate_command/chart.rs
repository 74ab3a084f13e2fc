//! The calibration plot of `evaluate --svg`: predicted win probability against the points that were scored.

use tandem_train::Bin;
use tandem_util::plot::{Axis, Dots, Panel, Plot, Series};

/// Renders a self-contained SVG file: predicted win probability to the right, points scored upwards, one
/// curve for each network. A calibrated network stays on the diagonal. The size of a dot shows the number of
/// positions that it stands for.
pub(super) fn calibration(curves: &[(&str, Vec<Bin>)]) -> String {
    let probability = |label: &str| Axis::new(0.0, 1.0).label(label);
    let panel = Panel {
        series: curves.iter().map(|(name, bins)| curve(name, bins)).collect(),
        diagonal: true,
        ..Panel::new(probability("points scored"), 420.0)
    };
    let x = probability("predicted win probability");
    Plot { width: 493.0, panels: vec![panel], ..Plot::new("Calibration", x) }.to_svg()
}

fn curve(name: &str, bins: &[Bin]) -> Series {
    let max_count = bins.iter().map(|bin| bin.count).max().unwrap_or(1).max(1) as f64;
    let dot =
        |bin: &Bin| (1.5 + 3.5 * (bin.count as f64 / max_count).sqrt(), format!("{} positions", bin.count));
    let points = bins.iter().map(|bin| (bin.predicted, bin.actual)).collect();
    Series { dots: Dots::Each(bins.iter().map(dot).collect()), ..Series::line(name, points) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_every_network_and_no_nan() {
        let bins = vec![
            Bin { count: 10, predicted: 0.2, actual: 0.1 },
            Bin { count: 30, predicted: 0.7, actual: 0.8 },
        ];
        let svg = calibration(&[("a <b>", bins), ("none", Vec::new())]);
        assert!(svg.contains("a &lt;b&gt;") && svg.contains(">none<"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert_eq!(svg.matches("<polyline").count(), 1, "no line through no points");
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains("<title>30 positions</title>"));
    }
}
