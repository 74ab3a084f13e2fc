//! The declaration of a UCI option: what `uci` lists, what `setoption` accepts, and how a value is applied.

use std::error::Error;
use std::fmt;
use std::ops::RangeInclusive;
use thiserror::Error;

/// Declaration of a UCI option that is applied to a `T`.
#[derive(Debug)]
pub struct UciOption<T> {
    name: &'static str,
    effect: &'static str,
    kind: Kind<T>,
}

/// Result of applying a value. An error is a reason for the user, and nothing has changed then.
pub type Applied = Result<(), Box<dyn Error + Send + Sync>>;

/// Type, default and range, with the function that applies a value.
#[derive(Debug)]
enum Kind<T> {
    Check(bool, fn(&mut T, bool) -> Applied),
    Spin(i64, RangeInclusive<i64>, &'static str, fn(&mut T, i64) -> Applied),
    Combo(&'static [&'static str], fn(&mut T, &'static str) -> Applied),
    Text(&'static str, fn(&mut T, &str) -> Applied),
    Button(fn(&mut T) -> Applied),
}

/// The reason why an option was not set.
#[derive(Debug, Error)]
pub enum OptionError {
    /// The value is out of range or of another type.
    #[error("option {name} takes {expected}, not '{value}'")]
    Value {
        /// Name of the option.
        name: &'static str,
        /// Description of the values that the option accepts.
        expected: String,
        /// Value that was to be set, clipped to 40 characters.
        value: String,
    },
    /// The value is of the right type but cannot be used.
    #[error("{name}: {reason}; what was in use stays")]
    Unusable {
        /// Name of the option.
        name: &'static str,
        /// Reason for the user, for example that a file does not exist.
        reason: Box<dyn Error + Send + Sync>,
    },
}

impl<T> UciOption<T> {
    /// A switch, `true` or `false`. Here and below, `effect` describes the option in Markdown for the README,
    /// and `apply` gets only values within the range.
    pub const fn check(
        name: &'static str,
        default: bool,
        effect: &'static str,
        apply: fn(&mut T, bool) -> Applied,
    ) -> Self {
        Self { name, effect, kind: Kind::Check(default, apply) }
    }

    /// An integer within a range; the unit is for the README and may be empty.
    pub const fn spin(
        name: &'static str,
        default: i64,
        range: RangeInclusive<i64>,
        unit: &'static str,
        effect: &'static str,
        apply: fn(&mut T, i64) -> Applied,
    ) -> Self {
        Self { name, effect, kind: Kind::Spin(default, range, unit, apply) }
    }

    /// One of several words, compared without regard to case; the first is the default.
    pub const fn combo(
        name: &'static str,
        choices: &'static [&'static str],
        effect: &'static str,
        apply: fn(&mut T, &'static str) -> Applied,
    ) -> Self {
        Self { name, effect, kind: Kind::Combo(choices, apply) }
    }

    /// A text, which is empty by default; `what` is the kind of text, for example a file.
    pub const fn text(
        name: &'static str,
        what: &'static str,
        effect: &'static str,
        apply: fn(&mut T, &str) -> Applied,
    ) -> Self {
        Self { name, effect, kind: Kind::Text(what, apply) }
    }

    /// An action.
    pub const fn button(name: &'static str, effect: &'static str, apply: fn(&mut T) -> Applied) -> Self {
        Self { name, effect, kind: Kind::Button(apply) }
    }

    /// Name, which may contain spaces.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Sets the option to a value as it stands in `setoption`. `<empty>` is an empty text, because GUIs send
    /// back what the list of options has, and a button may have the value `true`.
    ///
    /// # Errors
    /// If the value is out of range, of another type, or cannot be used; then nothing has changed.
    pub fn set(&self, target: &mut T, value: &str) -> Result<(), OptionError> {
        let applied = match &self.kind {
            Kind::Check(_, apply) => value.to_ascii_lowercase().parse().ok().map(|on| apply(target, on)),
            Kind::Spin(_, range, _, apply) => {
                let number = value.parse().ok().filter(|number| range.contains(number));
                number.map(|number| apply(target, number))
            }
            Kind::Combo(choices, apply) => {
                let choice = choices.iter().find(|choice| choice.eq_ignore_ascii_case(value));
                choice.map(|choice| apply(target, choice))
            }
            Kind::Text(_, apply) => Some(apply(target, if value == "<empty>" { "" } else { value })),
            Kind::Button(apply) => matches!(value, "" | "true").then(|| apply(target)),
        };
        let Self { name, .. } = *self;
        match applied {
            Some(applied) => applied.map_err(|reason| OptionError::Unusable { name, reason }),
            None => {
                let value = value.chars().take(40).collect();
                Err(OptionError::Value { name, expected: self.expected(), value })
            }
        }
    }

    /// The accepted values, as a part of a sentence.
    fn expected(&self) -> String {
        match &self.kind {
            Kind::Check(..) => "true or false".into(),
            Kind::Spin(_, range, ..) => format!("a whole number from {} to {}", range.start(), range.end()),
            Kind::Combo([choices @ .., last], _) => format!("{} or {last}", choices.join(", ")),
            Kind::Text(what, _) => (*what).into(),
            Kind::Combo([], _) | Kind::Button(_) => "no value".into(),
        }
    }

    /// Row of a table in Markdown: name, default, range and effect.
    pub fn markdown_row(&self) -> String {
        let (default, range) = match &self.kind {
            Kind::Check(default, _) => (default.to_string(), "true, false".into()),
            Kind::Spin(default, range, unit, _) => {
                let range = format!("{} to {} {unit}", grouped(*range.start()), grouped(*range.end()));
                (grouped(*default), range.trim_end().into())
            }
            Kind::Combo(choices, _) => (choices[0].into(), choices.join(", ")),
            Kind::Text(what, _) => ("empty".into(), (*what).into()),
            Kind::Button(_) => ("-".into(), "button".into()),
        };
        format!("| `{}` | {default} | {range} | {} |", self.name, self.effect)
    }
}

/// The line of the option in the answer to `uci`.
impl<T> fmt::Display for UciOption<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "option name {} type ", self.name)?;
        match &self.kind {
            Kind::Check(default, _) => write!(f, "check default {default}"),
            Kind::Spin(default, range, ..) => {
                write!(f, "spin default {default} min {} max {}", range.start(), range.end())
            }
            Kind::Combo(choices, _) => {
                write!(f, "combo default {} var {}", choices[0], choices.join(" var "))
            }
            Kind::Text(..) => f.write_str("string default <empty>"),
            Kind::Button(_) => f.write_str("button"),
        }
    }
}

/// The option of this name, in upper or lower case.
pub fn find<'a, T>(table: &'a [UciOption<T>], name: &str) -> Option<&'a UciOption<T>> {
    table.iter().find(|option| option.name.eq_ignore_ascii_case(name))
}

/// A number with commas between groups of three digits.
fn grouped(number: i64) -> String {
    let mut text = number.to_string();
    let digits = usize::from(number < 0)..text.len();
    for at in digits.rev().skip(2).step_by(3).filter(|&at| at > usize::from(number < 0)) {
        text.insert(at, ',');
    }
    text
}

#[cfg(test)]
impl<T> UciOption<T> {
    /// The default and another value of an option with numbers.
    pub(crate) fn examples(&self) -> [String; 2] {
        match &self.kind {
            Kind::Check(default, _) => [default.to_string(), (!default).to_string()],
            Kind::Spin(default, range, ..) => {
                assert!(range.contains(default), "{self}");
                let other = if default == range.start() { default + 1 } else { *range.start() };
                [default.to_string(), other.to_string()]
            }
            _ => panic!("{self} has a type that the test does not know"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_another_type_or_out_of_range_are_refused_and_named() {
        const OPTIONS: [UciOption<String>; 5] = [
            UciOption::check("A", true, "", |state, on| {
                *state = on.to_string();
                Ok(())
            }),
            UciOption::spin("B", 0, -1500..=20, "", "", |state, number| {
                *state = number.to_string();
                Ok(())
            }),
            UciOption::combo("C", &["one", "two", "Three"], "", |state, choice| {
                *state = choice.into();
                Ok(())
            }),
            UciOption::text("D", "a word", "", |state, text| match text {
                "bad" => Err("a bad word".into()),
                text => {
                    *state = format!("[{text}]");
                    Ok(())
                }
            }),
            UciOption::button("E", "", |state| {
                *state = "pressed".into();
                Ok(())
            }),
        ];
        for (name, value, expected) in [
            ("a", "FALSE", "false"),
            ("a", "perhaps", "option A takes true or false, not 'perhaps'"),
            ("b", "-1500", "-1500"),
            ("b", "21", "option B takes a whole number from -1500 to 20, not '21'"),
            (
                "b",
                "99999999999999999999",
                "option B takes a whole number from -1500 to 20, not '99999999999999999999'",
            ),
            ("b", "2.0", "option B takes a whole number from -1500 to 20, not '2.0'"),
            ("b", "", "option B takes a whole number from -1500 to 20, not ''"),
            ("c", "THREE", "Three"),
            ("c", "four", "option C takes one, two or Three, not 'four'"),
            ("d", "a b", "[a b]"),
            ("d", "<empty>", "[]"),
            ("d", "bad", "D: a bad word; what was in use stays"),
            ("e", "", "pressed"),
            ("e", "3", "option E takes no value, not '3'"),
        ] {
            let mut state = String::new();
            let result = find(&OPTIONS, name).unwrap().set(&mut state, value);
            assert_eq!(result.map_or_else(|error| error.to_string(), |()| state), expected, "{name} {value}");
        }
        assert!(find(&OPTIONS, "f").is_none());
    }

    #[test]
    fn numbers_have_commas_between_thousands() {
        let texts = [0, -1, 999, -999, 1000, -1500, 65_536, 1 << 20].map(grouped);
        assert_eq!(texts, ["0", "-1", "999", "-999", "1,000", "-1,500", "65,536", "1,048,576"]);
    }
}
