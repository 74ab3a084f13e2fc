//! Schedules: values that change over a run, such as the learning rate and the weight of the game result.
//!
//! A schedule is written in a recipe as a plain number, or as a table with its kind: `{ kind = "cosine",
//! start = 1e-3, end = 1e-5 }`.

use crate::kinds::{Field, check_empty, kinds, take};
use toml::Value;

kinds! {
    /// A value as a function of the step, from the first step of a run to the last.
    #[derive(Clone, Debug, PartialEq)]
    pub enum Schedule {
        /// The same value at every step; a plain number in a recipe means this.
        Constant = "constant" {
            /// The value, for example a learning rate of 1e-3.
            value: f64,
        },
        /// Linear interpolation from start to end, with equal changes from step to step.
        Linear = "linear" {
            /// Value at the first step of the run.
            start: f64,
            /// Value at the last step, which is reached exactly.
            end: f64,
        },
        /// Exponential decay or growth: each step multiplies the value by the same factor.
        Exponential = "exponential" {
            /// Value at the first step, above zero since it is divided by.
            start: f64,
            /// Value at the last step, above zero since no factor leads to zero.
            end: f64,
        },
        /// Half a cosine wave from start to end (cosine annealing), flat at both ends.
        Cosine = "cosine" {
            /// Value at the first step, usually the greatest.
            start: f64,
            /// Value at the last step, usually near zero.
            end: f64,
        },
        /// Step decay: multiplied by a factor at regular intervals, as PyTorch's `StepLR`.
        Step = "step" {
            /// Value at the first step, until the first decay.
            start: f64,
            /// Factor of each decay, from 0 to 1, for example 0.8.
            gamma: f64,
            /// Steps between two decays, above zero; counted in optimiser steps and not in epochs.
            every: u64,
        },
        /// One cycle (Smith, 2018), as PyTorch's `OneCycleLR`: up to a peak along half a cosine, and down to
        /// almost zero.
        OneCycle = "one-cycle" {
            /// Greatest value, reached at the end of the rise, for example the greatest learning rate at which
            /// training is stable.
            peak: f64,
            /// Fraction of the run that rises, from 0 to 1; default 0.25.
            rise: f64 = 0.25,
            /// Peak divided by the first value, which is where the rise begins; default 25.
            start_divisor: f64 = 25.0,
            /// Peak divided by the last value, where the fall ends; default 10,000.
            end_divisor: f64 = 10_000.0,
        },
        /// Linear warm-up from almost zero to the first value of another schedule, which takes the remaining
        /// steps.
        WarmUp = "warm-up" {
            /// Number of warm-up steps; the rest of the run belongs to `then`.
            steps: u64,
            /// Schedule after the warm-up, which begins at its own first value.
            then: Box<Schedule>,
        },
        /// Warm-up, stable, decay (WSD): a linear rise, a constant peak for most of the run, and a linear fall.
        Wsd = "wsd" {
            /// Value during the stable part, between the rise and the fall.
            peak: f64,
            /// Warm-up steps; default 0, which begins at the peak.
            warm_up: u64 = 0,
            /// Fraction of the run that falls, at its end; default 0.2.
            decay: f64 = 0.2,
            /// Value at the last step; default 0, so that the last steps change almost nothing.
            end: f64 = 0.0,
        },
        /// Several schedules one after the other, each over its part of the run.
        Sequence = "sequence" {
            /// Parts in order; their fractions of the run add up to 1.
            parts: Vec<SchedulePart>,
        },
    }
}

/// One part of a [`Schedule::Sequence`], with a schedule of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulePart {
    /// Fraction of the run that this part takes, from 0 to 1. Earlier versions called it `share`.
    pub fraction: f64,
    /// Schedule within the part, from its first step to its last.
    pub schedule: Schedule,
}

impl Field for Schedule {
    fn from_value(value: Value) -> Result<Self, String> {
        match value {
            Value::Table(table) => Self::from_table(table),
            Value::Float(_) | Value::Integer(_) => Ok(Self::Constant { value: f64::from_value(value)? }),
            other => Err(format!(
                "a number, or a schedule such as {{ kind = \"cosine\", start = 1e-3, end = 1e-5 }} is expected, not {other}"
            )),
        }
    }

    fn to_value(&self) -> Value {
        self.table().into()
    }
}

impl Field for Box<Schedule> {
    fn from_value(value: Value) -> Result<Self, String> {
        Schedule::from_value(value).map(Self::new)
    }

    fn to_value(&self) -> Value {
        (**self).to_value()
    }
}

impl Field for Vec<SchedulePart> {
    fn from_value(value: Value) -> Result<Self, String> {
        let Value::Array(parts) = value else {
            return Err(format!("an array of parts is expected, not {value}"));
        };
        parts.into_iter().map(SchedulePart::from_value).collect()
    }

    fn to_value(&self) -> Value {
        self.iter().map(SchedulePart::to_value).collect::<Vec<_>>().into()
    }
}

impl Field for SchedulePart {
    fn from_value(value: Value) -> Result<Self, String> {
        let Value::Table(mut table) = value else {
            return Err(format!("a table with `fraction` and `schedule` is expected, not {value}"));
        };
        if let Some(old) = table.remove("share") {
            table.insert("fraction".into(), old);
        }
        let part = Self {
            fraction: take(&mut table, "fraction", None)?,
            schedule: take(&mut table, "schedule", None)?,
        };
        check_empty(&table, "parts", &["fraction", "schedule"])?;
        Ok(part)
    }

    fn to_value(&self) -> Value {
        let fields = [("fraction", self.fraction.to_value()), ("schedule", self.schedule.to_value())];
        toml::Table::from_iter(fields.map(|(key, value)| (key.to_owned(), value))).into()
    }
}

fn half_cosine(start: f64, end: f64, progress: f64) -> f64 {
    end + (start - end) * (1.0 + (std::f64::consts::PI * progress).cos()) / 2.0
}

impl Schedule {
    /// Value at a step, counted from zero, in a run of `steps` steps; later steps give the last value.
    pub fn at(&self, step: u64, steps: u64) -> f64 {
        let progress = if steps <= 1 { 0.0 } else { step.min(steps - 1) as f64 / (steps - 1) as f64 };
        match *self {
            Self::Constant { value } => value,
            Self::Linear { start, end } => start + (end - start) * progress,
            Self::Exponential { start, end } => start * (end / start).powf(progress),
            Self::Cosine { start, end } => half_cosine(start, end, progress),
            Self::Step { start, gamma, every } => start * gamma.powf((step / every.max(1)) as f64),
            Self::OneCycle { peak, rise, start_divisor, end_divisor } => {
                if progress < rise {
                    half_cosine(peak / start_divisor, peak, progress / rise)
                } else {
                    half_cosine(peak, peak / end_divisor, (progress - rise) / (1.0 - rise).max(1e-9))
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
                // In a run too short for both, the lower of the rise and the fall counts.
                (peak * risen.min(1.0)).min(peak + (end - peak) * fallen.clamp(0.0, 1.0))
            }
            Self::Sequence { ref parts } => {
                let mut from = 0;
                let mut fractions = 0.0;
                for (number, part) in parts.iter().enumerate() {
                    fractions += part.fraction;
                    let last = number + 1 == parts.len();
                    let to = if last { steps } else { (fractions * steps as f64).round() as u64 };
                    if step < to || last {
                        return part.schedule.at(step.saturating_sub(from), to.saturating_sub(from));
                    }
                    from = to;
                }
                0.0
            }
        }
    }

    /// True if the value is this one at every step of any run.
    pub fn is_always(&self, number: f64) -> bool {
        match self {
            Self::Constant { value } => *value == number,
            Self::Linear { start, end } | Self::Exponential { start, end } | Self::Cosine { start, end } => {
                *start == number && *end == number
            }
            Self::Sequence { parts } => parts.iter().all(|part| part.schedule.is_always(number)),
            // These kinds exist to change a value: a constant one is not recognised as such.
            Self::Step { .. } | Self::OneCycle { .. } | Self::WarmUp { .. } | Self::Wsd { .. } => false,
        }
    }

    /// Values that bound the schedule: its start, its end and its peak, for checks of ranges.
    pub fn values(&self) -> Vec<f64> {
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
            Self::WarmUp { then, .. } => then.values(),
            Self::Sequence { parts } => parts.iter().flat_map(|part| part.schedule.values()).collect(),
        }
    }

    /// Describes the first invalid parameter, for example a fraction above 1; `None` if the schedule is
    /// valid.
    pub fn problem(&self) -> Option<String> {
        let invalid = |text: &str| Some(text.to_owned());
        match self {
            Self::Exponential { start, end } if *start <= 0.0 || *end <= 0.0 => {
                invalid("an exponential schedule needs a start and an end above zero")
            }
            Self::Step { every: 0, .. } => invalid("a step schedule needs `every` above zero"),
            Self::Step { gamma, .. } if !(0.0..=1.0).contains(gamma) => {
                invalid("a step schedule needs `gamma` from 0 to 1")
            }
            Self::OneCycle { rise, start_divisor, end_divisor, .. } => {
                let valid = (0.0..=1.0).contains(rise) && *start_divisor > 0.0 && *end_divisor > 0.0;
                if valid {
                    None
                } else {
                    invalid("a one-cycle needs `rise` from 0 to 1 and divisors above zero")
                }
            }
            Self::Wsd { decay, .. } if !(0.0..=1.0).contains(decay) => {
                invalid("`decay`, the fraction of the run that falls, must be from 0 to 1")
            }
            Self::WarmUp { then, .. } => then.problem(),
            Self::Sequence { parts } => {
                let sum: f64 = parts.iter().map(|part| part.fraction).sum();
                let adds_up = (sum - 1.0).abs() <= 1e-6;
                if parts.is_empty() || !adds_up || parts.iter().any(|part| part.fraction < 0.0) {
                    return Some(format!(
                        "the values of `fraction` in a sequence must add up to 1; they add up to {sum}"
                    ));
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
    fn a_schedule_is_constant_if_all_its_parts_are() {
        let line = |start, end| Schedule::Linear { start, end };
        let parts = |last| {
            let part = |schedule| SchedulePart { fraction: 0.5, schedule };
            Schedule::Sequence { parts: vec![part(Schedule::Constant { value: 1.0 }), part(last)] }
        };
        assert!(line(1.0, 1.0).is_always(1.0) && parts(line(1.0, 1.0)).is_always(1.0));
        assert!(!line(1.0, 0.5).is_always(1.0) && !line(0.5, 1.0).is_always(1.0));
        assert!(!parts(line(1.0, 0.0)).is_always(1.0) && !line(1.0, 1.0).is_always(0.0));
    }

    #[test]
    fn schedules_begin_and_end_at_their_bounds() {
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
    fn schedules_can_be_combined() {
        let warm = Schedule::WarmUp { steps: 9, then: Box::new(Schedule::Linear { start: 1.0, end: 0.0 }) };
        near(warm.at(0, 20), 0.1);
        near(warm.at(8, 20), 0.9);
        near(warm.at(9, 20), 1.0);
        near(warm.at(19, 20), 0.0);
        let held = Schedule::Wsd { peak: 1.0, warm_up: 9, decay: 0.2, end: 0.0 };
        for (step, value) in [(0, 0.1), (8, 0.9), (9, 1.0), (79, 1.0), (89, 0.5), (99, 0.0), (500, 0.0)] {
            near(held.at(step, 100), value);
        }
        let part = |fraction, value| SchedulePart { fraction, schedule: Schedule::Constant { value } };
        let sequence = Schedule::Sequence { parts: vec![part(0.3, 1.0), part(0.7, 2.0)] };
        near(sequence.at(29, 100), 1.0);
        near(sequence.at(30, 100), 2.0);
        near(sequence.at(1000, 100), 2.0);
    }

    #[test]
    fn every_key_of_every_kind_changes_the_schedule() {
        let line = Schedule::Linear { start: 1.0, end: 0.25 };
        let part = |fraction| SchedulePart { fraction, schedule: line.clone() };
        let all = [
            Schedule::Constant { value: 1.0 },
            line.clone(),
            Schedule::Exponential { start: 1.0, end: 0.25 },
            Schedule::Cosine { start: 1.0, end: 0.25 },
            Schedule::Step { start: 1.0, gamma: 0.5, every: 10 },
            Schedule::OneCycle { peak: 1.0, rise: 0.25, start_divisor: 4.0, end_divisor: 8.0 },
            Schedule::WarmUp { steps: 10, then: Box::new(line.clone()) },
            Schedule::Wsd { peak: 1.0, warm_up: 10, decay: 0.25, end: 0.125 },
            Schedule::Sequence { parts: vec![part(0.5), part(0.5)] },
        ];
        assert_eq!(all.each_ref().map(Schedule::kind), Schedule::KINDS);
        for schedule in all {
            let table = schedule.table();
            assert_eq!(Schedule::from_table(table.clone()).unwrap(), schedule);
            for (key, value) in &table {
                let changed: Value = match value {
                    Value::Float(number) => (number / 2.0).into(),
                    Value::Integer(number) => (number / 2).into(),
                    Value::Table(_) => 0.5.into(),
                    Value::Array(parts) => vec![part(1.0).to_value(); parts.len() / 2].into(),
                    _ => continue,
                };
                let mut other = table.clone();
                other.insert(key.clone(), changed);
                let other = Schedule::from_table(other).unwrap();
                let differs = (0..100).any(|step| schedule.at(step, 100) != other.at(step, 100));
                assert!(differs, "{key} of {table}");
            }
        }
    }

    #[test]
    fn parts_of_a_sequence_are_read_by_their_old_key_too() {
        let text = |key: &str| {
            let part = |fraction, value| {
                format!("{{ {key} = {fraction}, schedule = {{ kind = \"constant\", value = {value} }} }}")
            };
            format!("kind = \"sequence\"\nparts = [{}, {}]", part(0.25, 1.0), part(0.75, 2.0))
        };
        let [new, old] = ["fraction", "share"].map(|key| toml::from_str::<Schedule>(&text(key)).unwrap());
        assert_eq!(new, old);
        near(new.at(30, 100), 2.0);
    }

    #[test]
    fn invalid_schedules_are_reported() {
        assert!(Schedule::Exponential { start: 1.0, end: 0.0 }.problem().is_some());
        assert!(Schedule::Step { start: 1.0, gamma: 0.5, every: 0 }.problem().is_some());
        assert!(Schedule::Wsd { peak: 1.0, warm_up: 0, decay: 2.0, end: 0.0 }.problem().is_some());
        let sequence = |fraction| Schedule::Sequence {
            parts: vec![SchedulePart { fraction, schedule: Schedule::Constant { value: 1.0 } }],
        };
        assert!(sequence(f64::NAN).problem().is_some());
        let half = sequence(0.5);
        assert!(half.problem().unwrap().contains("0.5"));
        for (step, steps) in [(0, 0), (5, 0), (0, 1), (9, 1)] {
            assert!(half.at(step, steps).is_finite());
        }
    }
}
