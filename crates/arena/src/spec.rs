//! Descriptions of engines on the command line, such as `cmd=./tandem,name=new,option.Hash=16,tc=5+0.05`.

use crate::limits::{EngineLimits, TimeLimit, seconds};
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, time::Duration};
use thiserror::Error;

/// Error in the description of an engine. Each message quotes the item and says what is expected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// An item that is not of the form `key=value`.
    #[error("'{0}' in an engine's description should be key=value")]
    NoValue(String),
    /// A key that does not exist, for example `hash` instead of `option.Hash`.
    #[error(
        "'{0}' is not part of an engine's description; there are cmd, arg, dir, name, option.NAME, tc, st, depth, \
         nodes, margin, restart and ponder"
    )]
    UnknownKey(String),
    /// An item of an engine's description has a value that its key does not accept.
    #[error("{key}={value} in an engine's description: {expected}")]
    Value {
        /// Key of the item, for example `tc`.
        key: String,
        /// Value as it was given.
        value: String,
        /// Description of the values that the key accepts.
        expected: String,
    },
    /// The description has no `cmd`, neither itself nor in `--each`.
    #[error("an engine needs cmd=PATH")]
    NoCommand,
    /// No limit is set, so the engine named here would think forever.
    #[error("engine {0} needs a limit: tc=BASE+INC, st=SECONDS, depth=N or nodes=N")]
    NoLimit(String),
}

/// An engine: its program, its options and its limits. The state file of a match stores it as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineSpec {
    /// Program to run, or `@tandem` or `@searchless` for a player within this process.
    pub command: PathBuf,
    /// Command-line arguments of the program.
    pub args: Vec<String>,
    /// Working directory of the program; `None` for that of this process.
    pub dir: Option<PathBuf>,
    /// Name for tables and PGN; `None` for the name by which the engine identifies itself.
    pub name: Option<String>,
    /// Names and values of UCI options, in the order in which they are set.
    pub options: Vec<(String, String)>,
    /// Limits on its searches, of the whole game or of each move; a match requires at least one.
    pub limits: EngineLimits,
    /// True if the process is started anew for each game; by default it stays up for the whole match.
    pub restart: bool,
    /// True if the engine thinks in its opponent's time; off by default.
    pub ponder: bool,
}

impl EngineSpec {
    /// Parses a description. Items of `common` (the `--each` of the command line) apply where `text` does not
    /// set them. Items are separated by commas; a comma within a value is written `\,`. The first item may be the
    /// program alone, as a short form of `cmd=PATH`.
    ///
    /// # Errors
    ///
    /// Fails on another item without `=`, an unknown key, a value that does not fit, or a missing `cmd`.
    pub fn parse(text: &str, common: &str) -> Result<Self, SpecError> {
        let mut spec = Self::default();
        for item in split_items(common) {
            spec.apply(&item)?;
        }
        for (number, item) in split_items(text).into_iter().enumerate() {
            if number == 0 && !item.contains('=') {
                spec.command = item.trim().into();
            } else {
                spec.apply(&item)?;
            }
        }
        if spec.command.as_os_str().is_empty() {
            return Err(SpecError::NoCommand);
        }
        Ok(spec)
    }

    /// Checks that a time control, depth or number of nodes limits the engine's searches.
    ///
    /// # Errors
    ///
    /// Fails if no time control, depth or number of nodes is set.
    pub fn require_limit(&self) -> Result<(), SpecError> {
        if self.limits.is_bounded() { Ok(()) } else { Err(SpecError::NoLimit(self.label())) }
    }

    /// Name to use before the engine has identified itself: the given one, or the file name of the program.
    pub fn label(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => self.command.file_name().map_or_else(
                || self.command.display().to_string(),
                |name| name.to_string_lossy().into_owned(),
            ),
        }
    }

    /// True if the engine runs within this process, that is if `cmd` begins with `@`.
    pub fn is_in_process(&self) -> bool {
        self.command.to_str().is_some_and(|command| command.starts_with('@'))
    }

    /// Number of search threads by the option `Threads`; 1 if it is not set.
    pub fn threads(&self) -> usize {
        let set = self.options.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case("threads"));
        set.and_then(|(_, value)| value.parse().ok()).unwrap_or(1).max(1)
    }

    fn apply(&mut self, item: &str) -> Result<(), SpecError> {
        let (key, value) = item.split_once('=').ok_or_else(|| SpecError::NoValue(item.into()))?;
        let (key, value) = (key.trim(), value.trim());
        let invalid = |expected: &str| SpecError::Value {
            key: key.into(),
            value: value.into(),
            expected: expected.into(),
        };
        let flag = || match value {
            "on" | "true" | "yes" => Ok(true),
            "off" | "false" | "no" => Ok(false),
            _ => Err(invalid("should be on or off")),
        };
        match key {
            "cmd" => self.command = value.into(),
            "arg" => self.args.push(value.into()),
            "dir" => self.dir = Some(value.into()),
            "name" => self.name = Some(value.into()),
            "tc" => self.limits.time = value.parse().map_err(|error| invalid(&format!("{error}")))?,
            "st" => {
                let time = seconds(value).filter(|time| !time.is_zero());
                self.limits.time =
                    TimeLimit::PerMove(time.ok_or_else(|| invalid("should be seconds per move"))?);
            }
            "depth" => {
                let depth = value.parse().ok().filter(|&depth| depth > 0);
                self.limits.depth = Some(depth.ok_or_else(|| invalid("should be a number of plies"))?);
            }
            "nodes" => {
                let nodes = value.parse().ok().filter(|&nodes| nodes > 0);
                self.limits.nodes = Some(nodes.ok_or_else(|| invalid("should be a number of nodes"))?);
            }
            "margin" => {
                let millis = value.parse().map_err(|_| invalid("should be milliseconds"))?;
                self.limits.margin = Duration::from_millis(millis);
            }
            "restart" => self.restart = flag()?,
            "ponder" => self.ponder = flag()?,
            _ => match key.strip_prefix("option.") {
                Some(option) => {
                    // A later setting replaces an earlier one, so that one engine can override `--each`.
                    self.options.retain(|(name, _)| !name.eq_ignore_ascii_case(option));
                    self.options.push((option.into(), value.into()));
                }
                None => return Err(SpecError::UnknownKey(key.into())),
            },
        }
        Ok(())
    }
}

/// Splits at commas that are not preceded by a backslash.
fn split_items(text: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let last = items.len() - 1;
        match c {
            '\\' if chars.peek() == Some(&',') => items[last].extend(chars.next()),
            ',' => items.push(String::new()),
            _ => items[last].push(c),
        }
    }
    items.retain(|item| !item.trim().is_empty());
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_parsed() {
        let text = r"cmd=/bin/x,name=a\,b,arg=--uci,option.Hash=16,option.Skill Level=3,tc=1+0.01,nodes=500";
        let spec = EngineSpec::parse(text, "option.hash=8,st=1,option.Threads=2").unwrap();
        assert_eq!(spec.command, PathBuf::from("/bin/x"));
        assert_eq!(spec.name.as_deref(), Some("a,b"));
        assert_eq!(spec.args, ["--uci"]);
        let pairs: Vec<_> = spec.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(pairs, ["Threads=2", "Hash=16", "Skill Level=3"]);
        assert_eq!(spec.limits.to_string(), "1+0.01, 500 nodes");
        assert_eq!(spec.threads(), 2);
    }

    #[test]
    fn mistakes_are_reported() {
        let error = |text| EngineSpec::parse(text, "").unwrap_err().to_string();
        assert!(error("name=x").contains("cmd=PATH"));
        assert!(error("cmd=x,hash=3").contains("'hash'"));
        assert!(error("cmd=x,tc=fast").contains("5+0.05"));
        assert!(error("cmd=x,depth=0").contains("plies"));
        assert!(error("cmd=x,fast").contains("key=value"));
        assert!(EngineSpec::parse("cmd=x", "").unwrap().require_limit().is_err());
    }
}
