//! Options that a UCI engine announces, and the check that a setting fits them before it is sent.

use crate::child::clip;
use thiserror::Error;

/// Error for a setting that an engine does not accept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OptionError {
    /// The engine has not announced an option of this name.
    #[error("it has no option '{name}'; it has {known}")]
    Unknown {
        /// Name that was to be set.
        name: String,
        /// Names of the options that the engine has, separated by commas.
        known: String,
    },
    /// The value is out of range or of another type.
    #[error("option {name} is '{value}', but it takes {expected}")]
    Value {
        /// Name of the option as the engine spells it.
        name: String,
        /// Value that was to be set.
        value: String,
        /// Description of the values that the option accepts.
        expected: String,
    },
}

/// Type of a UCI option, which decides about the values that it accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// A switch of UCI type `check`, which is `true` or `false`.
    Check,
    /// An integer within an inclusive range, for example the size of the hash table.
    Spin {
        /// Smallest value that the engine allows.
        min: i64,
        /// Largest value that the engine allows.
        max: i64,
    },
    /// One of these words, compared without regard to case.
    Combo(Vec<String>),
    /// An action without a value, such as `Clear Hash`.
    Button,
    /// Any text on one line, such as a path.
    Text,
}

/// An option as the engine announced it in answer to `uci`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UciOption {
    /// Name of the option, which may contain spaces.
    pub name: String,
    /// Type of the option and its accepted values.
    pub kind: OptionKind,
    /// Value that the engine starts with, if it announces one.
    pub default: Option<String>,
}

impl UciOption {
    /// Parses a line `option name .. type ..`; returns `None` for any other line. An unknown type is treated
    /// as text.
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
        let default = rest.split_once("default").map(|(_, rest)| {
            let end = [" min ", " max ", " var "].iter().filter_map(|key| rest.find(key)).min();
            rest[..end.unwrap_or(rest.len())].trim().to_owned()
        });
        Some(Self { name: name.trim().to_owned(), kind, default })
    }

    /// Describes a faulty announcement: an option without a name, a range without values, or a default that the
    /// option does not accept. `None` if there is no fault.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if self.name.is_empty() {
            return Some("the option has no name");
        }
        let default = self.default.as_deref();
        match &self.kind {
            OptionKind::Spin { min, max } => {
                let value = default.and_then(|value| value.parse::<i64>().ok());
                match value {
                    _ if min > max => Some("the smallest value exceeds the largest"),
                    Some(value) if (min..=max).contains(&&value) => None,
                    _ => Some("the default is not in the range"),
                }
            }
            OptionKind::Combo(choices) if !choices.iter().any(|choice| Some(choice.as_str()) == default) => {
                Some("the default is not among the choices")
            }
            OptionKind::Check if !matches!(default, Some("true" | "false")) => {
                Some("the default is neither true nor false")
            }
            _ => None,
        }
    }

    /// Returns the `setoption` command for a setting. Names are compared without regard to case, as UCI
    /// requires.
    ///
    /// # Errors
    ///
    /// Fails if the engine has no such option, or if the option does not accept the value.
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
    fn valid_settings_become_commands() {
        let set = |name, value| UciOption::command(&options(), name, value);
        assert_eq!(set("hash", "64").unwrap(), "setoption name Hash value 64\n");
        assert_eq!(set("Skill Level", "3").unwrap(), "setoption name Skill Level value 3\n");
        assert_eq!(set("Style", "Very Risky").unwrap(), "setoption name Style value Very Risky\n");
        assert_eq!(set("Clear Hash", "").unwrap(), "setoption name Clear Hash\n");
        assert_eq!(set("EvalFile", "/a b").unwrap(), "setoption name EvalFile value /a b\n");
    }

    #[test]
    fn announcements_are_checked() {
        let problem = |line: &str| UciOption::parse(line).unwrap().problem();
        assert!(options().iter().all(|option| option.problem().is_none()));
        assert_eq!(options()[2].default.as_deref(), Some("Normal"));
        assert_eq!(options()[5].default.as_deref(), Some("nn.nnue"));
        for line in [
            "option name Hash type spin default 0 min 1 max 1024",
            "option name Hash type spin default 16 min 1024 max 1",
            "option name Hash type spin min 1 max 1024",
            "option name Style type combo default Wild var Solid var Normal",
            "option name Ponder type check default no",
            "option name  type check default true",
        ] {
            assert!(problem(line).is_some(), "{line}");
        }
    }

    #[test]
    fn invalid_settings_are_explained() {
        let error = |name, value| UciOption::command(&options(), name, value).unwrap_err().to_string();
        assert!(error("Hsah", "1").contains("no option 'Hsah'; it has Hash, Skill Level"));
        assert!(error("Hash", "0").contains("from 1 to 1024"));
        assert!(error("Hash", "big").contains("from 1 to 1024"));
        assert!(error("Style", "Wild").contains("Solid, Normal, Very Risky"));
        assert!(error("Ponder", "on").contains("true or false"));
        assert!(error("EvalFile", "a\nquit").contains("one line"));
    }
}
