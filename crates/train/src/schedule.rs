//! Numbers that change in the course of a run: learning rates, shares of the result.

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// How a number changes from the first step to the last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Schedule {
    /// Always the same.
    Constant {
        /// The number.
        value: f64,
    },
    /// Along a line.
    Linear {
        /// At first.
        start: f64,
        /// At last.
        end: f64,
    },
    /// By the same factor with every step.
    Exponential {
        /// At first.
        start: f64,
        /// At last.
        end: f64,
    },
    /// Along half a wave: slow, fast, slow.
    Cosine {
        /// At first.
        start: f64,
        /// At last.
        end: f64,
    },
    /// Times a factor after every so many steps.
    Step {
        /// At first.
        start: f64,
        /// The factor.
        gamma: f64,
        /// The steps.
        every: u64,
    },
    /// Up to a peak along half a wave, and down again to almost nothing.
    OneCycle {
        /// The peak.
        peak: f64,
        /// The share of the run that goes up.
        #[serde(default = "quarter")]
        rise: f64,
        /// The peak is so many times the start.
        #[serde(default = "twenty_five")]
        start_divisor: f64,
        /// And so many times the end.
        #[serde(default = "ten_thousand")]
        end_divisor: f64,
    },
    /// From nothing up to where another schedule begins, along a line, for so many steps.
    WarmUp {
        /// The steps.
        steps: u64,
        /// What follows.
        then: Box<Schedule>,
    },
    /// Up along a line, held for most of the run, and down along a line at its end (warm-up, stable, decay).
    Wsd {
        /// Where it is held.
        peak: f64,
        /// Steps up to there.
        #[serde(default)]
        warm_up: u64,
        /// The share of the run that goes down.
        #[serde(default = "fifth")]
        decay: f64,
        /// At last.
        #[serde(default)]
        end: f64,
    },
    /// One after the other.
    Sequence {
        /// Each with its share of the run; the shares add up to 1.
        parts: Vec<Part>,
    },
}

/// A part of a sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its share of the run.
    pub share: f64,
    /// How the number changes in it.
    pub schedule: Schedule,
}

fn quarter() -> f64 {
    0.25
}

fn fifth() -> f64 {
    0.2
}

fn twenty_five() -> f64 {
    25.0
}

fn ten_thousand() -> f64 {
    10_000.0
}

/// Reads a schedule, or a number that is always the same.
pub(crate) fn number_or_schedule<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Schedule, D::Error> {
    struct Either;

    impl<'de> Visitor<'de> for Either {
        type Value = Schedule;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number, or a schedule such as { kind = \"cosine\", start = 1e-3, end = 1e-5 }")
        }

        fn visit_f64<E>(self, value: f64) -> Result<Schedule, E> {
            Ok(Schedule::Constant { value })
        }

        fn visit_i64<E>(self, value: i64) -> Result<Schedule, E> {
            Ok(Schedule::Constant { value: value as f64 })
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Schedule, A::Error> {
            Schedule::deserialize(MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_any(Either)
}

/// The same, where there may be none.
pub(crate) fn some_schedule<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Schedule>, D::Error> {
    number_or_schedule(deserializer).map(Some)
}

fn half_wave(start: f64, end: f64, share: f64) -> f64 {
    end + (start - end) * (1.0 + (std::f64::consts::PI * share).cos()) / 2.0
}

impl Schedule {
    /// The number at a step, counted from zero, of so many.
    pub fn at(&self, step: u64, steps: u64) -> f64 {
        let share = if steps <= 1 { 0.0 } else { step.min(steps - 1) as f64 / (steps - 1) as f64 };
        match *self {
            Self::Constant { value } => value,
            Self::Linear { start, end } => start + (end - start) * share,
            Self::Exponential { start, end } => start * (end / start).powf(share),
            Self::Cosine { start, end } => half_wave(start, end, share),
            Self::Step { start, gamma, every } => start * gamma.powf((step / every.max(1)) as f64),
            Self::OneCycle { peak, rise, start_divisor, end_divisor } => {
                if share < rise {
                    half_wave(peak / start_divisor, peak, share / rise)
                } else {
                    half_wave(peak, peak / end_divisor, (share - rise) / (1.0 - rise).max(1e-9))
                }
            }
            Self::WarmUp { steps: warm, ref then } => {
                let warm = warm.min(steps);
                if step < warm {
                    then.at(0, steps - warm) * (step + 1) as f64 / (warm + 1) as f64
                } else {
                    then.at(step - warm, steps - warm)
                }
            }
            Self::Wsd { peak, warm_up, decay, end } => {
                let (left, falling) = (steps.saturating_sub(step), (decay * steps as f64).round());
                let risen = (step + 1) as f64 / (warm_up + 1) as f64;
                let fallen = if falling > 0.0 { 1.0 - (left as f64 - 1.0).max(0.0) / falling } else { 0.0 };
                // In a run that is too short for both, whichever is lower.
                (peak * risen.min(1.0)).min(peak + (end - peak) * fallen.clamp(0.0, 1.0))
            }
            Self::Sequence { ref parts } => {
                let mut from = 0;
                let mut shares = 0.0;
                for (number, part) in parts.iter().enumerate() {
                    shares += part.share;
                    let last = number + 1 == parts.len();
                    let to = if last { steps } else { (shares * steps as f64).round() as u64 };
                    if step < to || last {
                        return part.schedule.at(step.saturating_sub(from), to.saturating_sub(from));
                    }
                    from = to;
                }
                0.0
            }
        }
    }

    /// Whether it is this number from the first step to the last.
    pub fn is_always(&self, number: f64) -> bool {
        match self {
            Self::Constant { value } => *value == number,
            Self::Linear { start, end } | Self::Exponential { start, end } | Self::Cosine { start, end } => {
                *start == number && *end == number
            }
            Self::Sequence { parts } => parts.iter().all(|part| part.schedule.is_always(number)),
            // Nobody writes a number that never changes in these ways.
            Self::Step { .. } | Self::OneCycle { .. } | Self::WarmUp { .. } | Self::Wsd { .. } => false,
        }
    }

    /// Every number that it is made of.
    pub fn numbers(&self) -> Vec<f64> {
        match self {
            Self::Constant { value } => vec![*value],
            Self::Linear { start, end } | Self::Exponential { start, end } | Self::Cosine { start, end } => {
                vec![*start, *end]
            }
            Self::Step { start, gamma, .. } => vec![*start, start * gamma],
            Self::OneCycle { peak, start_divisor, end_divisor, .. } => {
                vec![*peak, peak / start_divisor, peak / end_divisor]
            }
            Self::Wsd { peak, end, .. } => vec![*peak, *end],
            Self::WarmUp { then, .. } => then.numbers(),
            Self::Sequence { parts } => parts.iter().flat_map(|part| part.schedule.numbers()).collect(),
        }
    }

    /// What is wrong with it, if anything is.
    pub fn problem(&self) -> Option<String> {
        let wrong = |text: &str| Some(text.to_owned());
        match self {
            Self::Exponential { start, end } if *start <= 0.0 || *end <= 0.0 => {
                wrong("an exponential schedule needs a start and an end above zero")
            }
            Self::Step { every: 0, .. } => wrong("a step schedule needs `every` above zero"),
            Self::Step { gamma, .. } if !(0.0..=1.0).contains(gamma) => {
                wrong("a step schedule needs `gamma` from 0 to 1")
            }
            Self::OneCycle { rise, start_divisor, end_divisor, .. } => {
                let fair = (0.0..=1.0).contains(rise) && *start_divisor > 0.0 && *end_divisor > 0.0;
                if fair {
                    None
                } else {
                    wrong("a one-cycle needs `rise` from 0 to 1 and divisors above zero")
                }
            }
            Self::Wsd { decay, .. } if !(0.0..=1.0).contains(decay) => {
                wrong("the share of the run that goes down, `decay`, is from 0 to 1")
            }
            Self::WarmUp { then, .. } => then.problem(),
            Self::Sequence { parts } => {
                let sum: f64 = parts.iter().map(|part| part.share).sum();
                let adds_up = (sum - 1.0).abs() <= 1e-6;
                if parts.is_empty() || !adds_up || parts.iter().any(|part| part.share < 0.0) {
                    return Some(format!("the shares of a sequence must add up to 1; they add up to {sum}"));
                }
                parts.iter().find_map(|part| part.schedule.problem())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(left: f64, right: f64) {
        assert!((left - right).abs() <= 1e-9 * right.abs().max(1.0), "{left} {right}");
    }

    #[test]
    fn what_never_changes_is_always_the_same() {
        let line = |start, end| Schedule::Linear { start, end };
        let parts = |last| {
            let part = |schedule| Part { share: 0.5, schedule };
            Schedule::Sequence { parts: vec![part(Schedule::Constant { value: 1.0 }), part(last)] }
        };
        assert!(line(1.0, 1.0).is_always(1.0) && parts(line(1.0, 1.0)).is_always(1.0));
        assert!(!line(1.0, 0.5).is_always(1.0) && !line(0.5, 1.0).is_always(1.0));
        assert!(!parts(line(1.0, 0.0)).is_always(1.0) && !line(1.0, 1.0).is_always(0.0));
    }

    #[test]
    fn schedules_begin_and_end_where_they_should() {
        for (schedule, first, middle, last) in [
            (Schedule::Constant { value: 3.0 }, 3.0, 3.0, 3.0),
            (Schedule::Linear { start: 1.0, end: 0.0 }, 1.0, 0.5, 0.0),
            (Schedule::Exponential { start: 1.0, end: 0.01 }, 1.0, 0.1, 0.01),
            (Schedule::Cosine { start: 1.0, end: 0.0 }, 1.0, 0.5, 0.0),
            (Schedule::Step { start: 1.0, gamma: 0.5, every: 50 }, 1.0, 0.5, 0.25),
        ] {
            near(schedule.at(0, 101), first);
            near(schedule.at(50, 101), middle);
            near(schedule.at(100, 101), last);
            assert_eq!(schedule.problem(), None);
        }
        let cycle = Schedule::OneCycle { peak: 1.0, rise: 0.25, start_divisor: 25.0, end_divisor: 10_000.0 };
        near(cycle.at(0, 101), 0.04);
        near(cycle.at(25, 101), 1.0);
        near(cycle.at(100, 101), 0.0001);
    }

    #[test]
    fn schedules_are_put_together() {
        let warm = Schedule::WarmUp { steps: 9, then: Box::new(Schedule::Linear { start: 1.0, end: 0.0 }) };
        near(warm.at(0, 20), 0.1);
        near(warm.at(8, 20), 0.9);
        near(warm.at(9, 20), 1.0);
        near(warm.at(19, 20), 0.0);
        let held = Schedule::Wsd { peak: 1.0, warm_up: 9, decay: 0.2, end: 0.0 };
        for (step, value) in [(0, 0.1), (8, 0.9), (9, 1.0), (79, 1.0), (89, 0.5), (99, 0.0), (500, 0.0)] {
            near(held.at(step, 100), value);
        }
        let part = |share, value| Part { share, schedule: Schedule::Constant { value } };
        let row = Schedule::Sequence { parts: vec![part(0.3, 1.0), part(0.7, 2.0)] };
        near(row.at(29, 100), 1.0);
        near(row.at(30, 100), 2.0);
        near(row.at(1000, 100), 2.0);
    }

    #[test]
    fn nonsense_is_told() {
        assert!(Schedule::Exponential { start: 1.0, end: 0.0 }.problem().is_some());
        assert!(Schedule::Step { start: 1.0, gamma: 0.5, every: 0 }.problem().is_some());
        assert!(Schedule::Wsd { peak: 1.0, warm_up: 0, decay: 2.0, end: 0.0 }.problem().is_some());
        let sequence = |share| Schedule::Sequence {
            parts: vec![Part { share, schedule: Schedule::Constant { value: 1.0 } }],
        };
        assert!(sequence(f64::NAN).problem().is_some());
        let half = sequence(0.5);
        assert!(half.problem().unwrap().contains("0.5"));
        for (step, steps) in [(0, 0), (5, 0), (0, 1), (9, 1)] {
            assert!(half.at(step, steps).is_finite());
        }
    }
}
