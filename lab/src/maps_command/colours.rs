//! Numbers as colours.

use super::looks::Show;
use crate::svg::number;
use std::fmt::Write as _;

/// Steps that colours have on either side of nothing.
const STEPS: usize = 24;
/// The power of a number that its colour goes by: small ones are to be told apart too.
const BEND: f32 = 2.0 / 3.0;

/// Nothing.
const PALE: &str = "#f3efe6";
/// From little to much, as red, green and blue.
const WARM: [[f64; 3]; 4] =
    [[255.0, 246.0, 226.0], [252.0, 196.0, 118.0], [229.0, 88.0, 60.0], [112.0, 16.0, 70.0]];
/// The same for what is less than nothing.
const COLD: [[f64; 3]; 4] =
    [[226.0, 238.0, 250.0], [140.0, 190.0, 234.0], [58.0, 122.0, 192.0], [18.0, 44.0, 104.0]];

/// What colours mean on one picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    show: Show,
    /// The number that has the last colour.
    top: f32,
}

impl Scale {
    /// One for these numbers.
    pub(super) fn of(show: Show, numbers: impl Iterator<Item = f32>) -> Self {
        let top = numbers.map(f32::abs).filter(|number| number.is_finite()).fold(0.0, f32::max);
        Self { show, top: if top > 0.0 { top } else { 1.0 } }
    }

    /// The step of a number.
    pub(super) fn step(self, number: f32) -> i32 {
        let share = (number.abs() / self.top).min(1.0).powf(BEND);
        let step = (share * STEPS as f32).round() as i32;
        if number < 0.0 { -step } else { step }
    }

    /// Whether white letters are read better than black ones on a step's colour.
    pub(super) fn is_dark(step: i32) -> bool {
        step.unsigned_abs() as usize * 3 > STEPS * 2
    }

    /// The colour of a step.
    pub(super) fn colour(step: i32) -> String {
        if step == 0 {
            return PALE.into();
        }
        let stops = if step < 0 { COLD } else { WARM };
        let way = (step.unsigned_abs() as usize).min(STEPS) as f64 / STEPS as f64 * (stops.len() - 1) as f64;
        let before = (way as usize).min(stops.len() - 2);
        let share = way - before as f64;
        let parts = stops[before].iter().zip(stops[before + 1]);
        parts.fold(String::from("#"), |mut text, (from, to)| {
            let _ = write!(text, "{:02x}", (from + (to - from) * share).round() as u8);
            text
        })
    }

    /// A number in words.
    pub(super) fn told(self, number: f32) -> String {
        match self.show {
            Show::Attention => format!("{} %", significant(100.0 * number)),
            Show::Pairs => format!("{}{}", if number > 0.0 { "+" } else { "" }, significant(number)),
        }
    }

    /// A bar with all colours and what they mean.
    pub(super) fn legend(self, left: f64, top: f64, width: f64) -> String {
        let steps = STEPS as i32;
        let first = if self.show == Show::Pairs { -steps } else { 0 };
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
            let told = self.told(way.signum() * way.abs().powf(1.0 / BEND) * self.top);
            let _ = write!(
                text,
                "<text x=\"{}\" y=\"{}\" font-size=\"10\" fill=\"#555\" text-anchor=\"middle\">{told}</text>",
                number(left + each * (f64::from(step - first) + 0.5)),
                number(top + 22.0)
            );
        }
        text + "\n"
    }
}

/// A number with two digits that count.
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
    fn colours_go_from_nothing_to_the_largest_number() {
        let scale = Scale::of(Show::Pairs, [0.5, -2.0, f32::NAN].into_iter());
        assert_eq!(
            [0.0, 0.5, -0.5, 2.0, -2.0, 9.0].map(|number| scale.step(number)),
            [0, 10, -10, 24, -24, 24]
        );
        assert_eq!((Scale::colour(24), Scale::colour(-24)), ("#701046".into(), "#122c68".into()));
        assert!(Scale::is_dark(-24) && !Scale::is_dark(12));
        assert_eq!(Scale::of(Show::Attention, [0.0].into_iter()).step(0.0), 0);
        assert_eq!((scale.told(1.26), scale.told(-0.125)), ("+1.3".into(), "-0.12".into()));
        assert_eq!(Scale::of(Show::Attention, std::iter::empty()).told(0.123), "12 %");
    }
}
