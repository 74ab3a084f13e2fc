//! Axes: range, scale, ticks and their labels.

/// Values beyond this, or nearer to zero than its reciprocal, are drawn at the edge.
const MAX_DRAWN: f64 = 1e30;

/// One axis of a chart: its range, linear or logarithmic, its label, and the form of its numbers.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(super) label: String,
    low: f64,
    high: f64,
    log: bool,
    format: fn(f64) -> String,
    only_ends: bool,
}

impl Axis {
    /// A linear axis with these ends. Equal ends, or ends that are not numbers, are moved apart.
    pub fn new(low: f64, high: f64) -> Self {
        let (low, high) = if low <= high { (clamped(low), clamped(high)) } else { (0.0, 1.0) };
        // A constant is drawn in the middle.
        let room = if low == high { (high.abs() * 0.1).max(1e-9) } else { 0.0 };
        Self {
            label: String::new(),
            low: low - room,
            high: high + room,
            log: false,
            format: number,
            only_ends: false,
        }
    }

    /// A linear axis from the least to the greatest finite value.
    pub fn over(values: impl IntoIterator<Item = f64>) -> Self {
        let finite = values.into_iter().filter(|value| value.is_finite());
        let (low, high) = finite
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        Self::new(low, high)
    }

    /// A logarithmic axis over whole decades that contain all positive finite values.
    pub fn log_over(values: impl IntoIterator<Item = f64>) -> Self {
        let positive: Vec<f64> =
            values.into_iter().filter(|value| value.is_finite() && *value > 0.0).collect();
        if positive.is_empty() {
            return Self { log: true, ..Self::new(1.0, 10.0) };
        }
        let least = positive.iter().copied().fold(MAX_DRAWN, f64::min).max(1.0 / MAX_DRAWN);
        let most = positive.iter().copied().fold(least, f64::max).min(MAX_DRAWN);
        let (first, last) = (least.log10().floor(), most.log10().ceil());
        let last = if last > first { last } else { first + 1.0 };
        Self { log: true, ..Self::new(10f64.powf(first), 10f64.powf(last)) }
    }

    /// Makes the axis logarithmic if its values are positive and the greatest exceeds `ratio` times the least,
    /// because on a linear scale the small ones would look equal.
    #[must_use]
    pub fn log_beyond(self, ratio: f64) -> Self {
        let low = if self.low > 0.0 { self.low.max(1.0 / MAX_DRAWN) } else { self.low };
        Self { low, log: low > 0.0 && self.high / low > ratio, ..self }
    }

    /// Extends the axis to either side by a fraction of its length.
    #[must_use]
    pub fn margin(self, fraction: f64) -> Self {
        if self.log {
            let factor = (self.high / self.low).powf(fraction);
            return Self { low: self.low / factor, high: self.high * factor, ..self };
        }
        let room = (self.high - self.low) * fraction;
        Self { low: self.low - room, high: self.high + room, ..self }
    }

    /// Sets the label, which should name the unit, for example `nanoseconds`.
    #[must_use]
    pub fn label(self, label: impl Into<String>) -> Self {
        Self { label: label.into(), ..self }
    }

    /// Sets the form of the numbers at the ticks; the default is [`number`].
    #[must_use]
    pub fn format(self, format: fn(f64) -> String) -> Self {
        Self { format, ..self }
    }

    /// Draws ticks only at the two ends, for an axis that is short.
    #[must_use]
    pub fn only_ends(self) -> Self {
        Self { only_ends: true, ..self }
    }

    /// The two ends.
    pub fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// True for a logarithmic axis.
    pub fn is_log(&self) -> bool {
        self.log
    }

    /// Position of a value on the axis, from 0 to 1. Values outside the range are at its edge.
    pub(super) fn position(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// Values of the ticks, and their labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let values = match self {
            Self { only_ends: true, .. } => vec![self.low, self.high],
            Self { log: true, .. } => log_ticks(self.low, self.high),
            _ => ticks(self.low, self.high),
        };
        values.into_iter().map(|value| (value, (self.format)(value))).collect()
    }
}

fn clamped(value: f64) -> f64 {
    value.clamp(-MAX_DRAWN, MAX_DRAWN)
}

/// About five round values within a range: multiples of 1, 2 or 5 times a power of ten.
pub(super) fn ticks(low: f64, high: f64) -> Vec<f64> {
    let min_step = (high - low) / 5.5;
    let power = 10f64.powf(min_step.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().map(|factor| factor * power).find(|&step| step >= min_step);
    let step = step.unwrap_or(10.0 * power);
    let (first, last) = ((low / step).ceil(), (high / step).floor());
    let count = (last - first).clamp(0.0, 20.0) as u32;
    // Rounding must not place a tick outside a range that is narrow compared with its values.
    (0..=count).map(|n| (first + f64::from(n)) * step).filter(|tick| (low..=high).contains(tick)).collect()
}

/// Ones, twos and fives within a range, or powers of ten alone if it is wide.
pub(super) fn log_ticks(low: f64, high: f64) -> Vec<f64> {
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
pub fn number(value: f64) -> String {
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

/// Formats a large number with its unit, for example positions as `20 M`.
pub fn count(value: f64) -> String {
    let (unit, name) = match value {
        p if p >= 1e9 => (1e9, " G"),
        p if p >= 1e6 => (1e6, " M"),
        p if p >= 1e3 => (1e3, " k"),
        _ => (1.0, ""),
    };
    format!("{}{name}", shorten(&format!("{:.2}", value / unit)))
}

/// Removes trailing zeros after the decimal point, and the point itself if nothing follows.
fn shorten(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}
