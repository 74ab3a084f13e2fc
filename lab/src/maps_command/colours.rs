//! The colour scale of attention maps: from pale over warm colours for positive values, over cold ones for
//! negative values.

use super::attention::Quantity;
use crate::svg::number;
use std::fmt::Write as _;

/// Number of colour steps on either side of zero.
const STEPS: usize = 24;
/// Exponent (gamma) between a value and its colour; below 1, so that small values can be distinguished too.
const GAMMA: f32 = 2.0 / 3.0;

/// The colour of zero.
const PALE: &str = "#f3efe6";
/// Colours from small to large positive values, as red, green and blue.
const WARM: [[f64; 3]; 4] =
    [[255.0, 246.0, 226.0], [252.0, 196.0, 118.0], [229.0, 88.0, 60.0], [112.0, 16.0, 70.0]];
/// Colours from small to large negative values, as red, green and blue.
const COLD: [[f64; 3]; 4] =
    [[226.0, 238.0, 250.0], [140.0, 190.0, 234.0], [58.0, 122.0, 192.0], [18.0, 44.0, 104.0]];

/// The mapping from values to colours that all boards of a picture share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    show: Quantity,
    /// The absolute value that has the last colour.
    top: f32,
}

impl Scale {
    /// A scale for these values: the largest finite absolute value gets the last colour.
    pub(super) fn of(show: Quantity, numbers: impl Iterator<Item = f32>) -> Self {
        let top = numbers.map(f32::abs).filter(|number| number.is_finite()).fold(0.0, f32::max);
        Self { show, top: if top > 0.0 { top } else { 1.0 } }
    }

    /// The colour step of a value, negative for negative values.
    pub(super) fn step(self, number: f32) -> i32 {
        let fraction = (number.abs() / self.top).min(1.0).powf(GAMMA);
        let step = (fraction * STEPS as f32).round() as i32;
        if number < 0.0 { -step } else { step }
    }

    /// True if white letters are more readable than black ones on the colour of this step.
    pub(super) fn is_dark(step: i32) -> bool {
        step.unsigned_abs() as usize * 3 > STEPS * 2
    }

    /// The colour of a step, as `#rrggbb`.
    pub(super) fn colour(step: i32) -> String {
        if step == 0 {
            return PALE.into();
        }
        let stops = if step < 0 { COLD } else { WARM };
        let way = (step.unsigned_abs() as usize).min(STEPS) as f64 / STEPS as f64 * (stops.len() - 1) as f64;
        let before = (way as usize).min(stops.len() - 2);
        let fraction = way - before as f64;
        let parts = stops[before].iter().zip(stops[before + 1]);
        parts.fold(String::from("#"), |mut text, (from, to)| {
            let _ = write!(text, "{:02x}", (from + (to - from) * fraction).round() as u8);
            text
        })
    }

    /// Formats a value: attention weights as percentages, logits with their sign.
    pub(super) fn format(self, number: f32) -> String {
        match self.show {
            Quantity::Attention => format!("{} %", significant(100.0 * number)),
            Quantity::Pairs => format!("{}{}", if number > 0.0 { "+" } else { "" }, significant(number)),
        }
    }

    /// A bar with all colours, and the values that they stand for.
    pub(super) fn legend(self, left: f64, top: f64, width: f64) -> String {
        let steps = STEPS as i32;
        let first = if self.show == Quantity::Pairs { -steps } else { 0 };
        let each = width / f64::from(steps - first + 1);
        let mut text = String::new();
        for step in first..=steps {
            let colour = Self::colour(step);
            let _ = write!(
                text,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"10\" fill=\"{colour}\"/>",
                number(left + each * f64::from(step - first)),
                number(top),
                number(each + 0.2)
            );
        }
        let stops = [-steps, -steps / 2, 0, steps / 2, steps];
        for step in stops.into_iter().filter(|&step| step >= first) {
            let way = step as f32 / steps as f32;
            let label = self.format(way.signum() * way.abs().powf(1.0 / GAMMA) * self.top);
            let _ = write!(
                text,
                "<text x=\"{}\" y=\"{}\" font-size=\"10\" fill=\"#555\" text-anchor=\"middle\">{label}</text>",
                number(left + each * (f64::from(step - first) + 0.5)),
                number(top + 22.0)
            );
        }
        text + "\n"
    }
}

/// Formats a number with two significant digits.
fn significant(number: f32) -> String {
    let size = number.abs();
    let places = if size >= 9.95 || size == 0.0 {
        0
    } else if size >= 0.995 {
        1
    } else {
        2
    };
    format!("{number:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go_from_zero_to_the_largest_value() {
        let scale = Scale::of(Quantity::Pairs, [0.5, -2.0, f32::NAN].into_iter());
        assert_eq!(
            [0.0, 0.5, -0.5, 2.0, -2.0, 9.0].map(|number| scale.step(number)),
            [0, 10, -10, 24, -24, 24]
        );
        assert_eq!((Scale::colour(24), Scale::colour(-24)), ("#701046".into(), "#122c68".into()));
        assert!(Scale::is_dark(-24) && !Scale::is_dark(12));
        assert_eq!(Scale::of(Quantity::Attention, [0.0].into_iter()).step(0.0), 0);
        assert_eq!((scale.format(1.26), scale.format(-0.125)), ("+1.3".into(), "-0.12".into()));
        assert_eq!(Scale::of(Quantity::Attention, std::iter::empty()).format(0.123), "12 %");
    }
}
