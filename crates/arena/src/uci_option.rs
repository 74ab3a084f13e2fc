//! The options that an engine offers, and whether a setting fits them.

use crate::process::clip;
use thiserror::Error;

/// A setting that an engine cannot take.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OptionError {
    /// No such option.
    #[error("it has no option '{name}'; it has {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What it has.
        known: String,
    },
    /// A value out of range or of another type.
    #[error("option {name} is '{value}', but it takes {expected}")]
    Value {
        /// The option.
        name: String,
        /// The value.
        value: String,
        /// What would fit.
        expected: String,
    },
}

/// What an option takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// `true` or `false`.
    Check,
    /// A whole number within a range.
    Spin {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// One of several words.
    Combo(Vec<String>),
    /// Nothing: setting it does something.
    Button,
    /// Any text.
    Text,
}

/// An option as the engine announced it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UciOption {
    /// Its name.
    pub name: String,
    /// What it takes.
    pub kind: OptionKind,
}

impl UciOption {
    /// Reads a line `option name .. type ..`; none if it is no such line.
    pub fn parse(line: &str) -> Option<Self> {
        let rest = line.strip_prefix("option ")?.trim_start().strip_prefix("name ")?;
        let (name, rest) = rest.split_once(" type ")?;
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let after = |key: &str| words.iter().position(|&word| word == key).and_then(|at| words.get(at + 1));
        let kind = match *words.first()? {
            "check" => OptionKind::Check,
            "spin" => OptionKind::Spin {
                min: after("min").and_then(|word| word.parse().ok()).unwrap_or(i64::MIN),
                max: after("max").and_then(|word| word.parse().ok()).unwrap_or(i64::MAX),
            },
            "combo" => {
                let choices = rest.split(" var ").skip(1);
                OptionKind::Combo(choices.map(|choice| choice.trim().to_owned()).collect())
            }
            "button" => OptionKind::Button,
            _ => OptionKind::Text,
        };
        Some(Self { name: name.trim().to_owned(), kind })
    }

    /// The command that sets an option, if the engine has it and the value fits. Names ignore case, as UCI says.
    pub fn command(options: &[Self], name: &str, value: &str) -> Result<String, OptionError> {
        let Some(option) = options.iter().find(|option| option.name.eq_ignore_ascii_case(name)) else {
            let known: Vec<&str> = options.iter().map(|option| option.name.as_str()).collect();
            let known = if known.is_empty() { "none".into() } else { known.join(", ") };
            return Err(OptionError::Unknown { name: clip(name), known });
        };
        let expected = match &option.kind {
            OptionKind::Check if !matches!(value, "true" | "false") => "true or false".into(),
            OptionKind::Spin { min, max }
                if !value.parse::<i64>().is_ok_and(|value| (*min..=*max).contains(&value)) =>
            {
                format!("a number from {min} to {max}")
            }
            OptionKind::Combo(choices)
                if !choices.is_empty()
                    && !choices.iter().any(|choice| choice.eq_ignore_ascii_case(value)) =>
            {
                format!("one of {}", choices.join(", "))
            }
            OptionKind::Text if value.contains(['\n', '\r']) => "text on one line".into(),
            OptionKind::Button => return Ok(format!("setoption name {}\n", option.name)),
            _ => return Ok(format!("setoption name {} value {value}\n", option.name)),
        };
        Err(OptionError::Value { name: option.name.clone(), value: clip(value), expected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Vec<UciOption> {
        [
            "option name Hash type spin default 16 min 1 max 1024",
            "option name Skill Level type spin default 20 min 0 max 20",
            "option name Style type combo default Normal var Solid var Normal var Very Risky",
            "option name Clear Hash type button",
            "option name Ponder type check default false",
            "option name EvalFile type string default nn.nnue",
        ]
        .map(|line| UciOption::parse(line).unwrap())
        .into()
    }

    #[test]
    fn what_fits_is_set() {
        let set = |name, value| UciOption::command(&options(), name, value);
        assert_eq!(set("hash", "64").unwrap(), "setoption name Hash value 64\n");
        assert_eq!(set("Skill Level", "3").unwrap(), "setoption name Skill Level value 3\n");
        assert_eq!(set("Style", "Very Risky").unwrap(), "setoption name Style value Very Risky\n");
        assert_eq!(set("Clear Hash", "").unwrap(), "setoption name Clear Hash\n");
        assert_eq!(set("EvalFile", "/a b").unwrap(), "setoption name EvalFile value /a b\n");
    }

    #[test]
    fn what_does_not_fit_is_explained() {
        let error = |name, value| UciOption::command(&options(), name, value).unwrap_err().to_string();
        assert!(error("Hsah", "1").contains("no option 'Hsah'; it has Hash, Skill Level"));
        assert!(error("Hash", "0").contains("from 1 to 1024"));
        assert!(error("Hash", "big").contains("from 1 to 1024"));
        assert!(error("Style", "Wild").contains("Solid, Normal, Very Risky"));
        assert!(error("Ponder", "on").contains("true or false"));
        assert!(error("EvalFile", "a\nquit").contains("one line"));
    }
}
