//! An engine as the command line describes it: `cmd=./tandem,name=new,option.Hash=16,tc=5+0.05`.

use crate::limits::{Limits, TimeLimit, seconds};
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, time::Duration};
use thiserror::Error;

/// What is wrong with the description of an engine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// An item that is not `key=value`.
    #[error("'{0}' in an engine's description should be key=value")]
    NoValue(String),
    /// A key that does not exist.
    #[error(
        "'{0}' is not part of an engine's description; there are cmd, arg, dir, name, option.NAME, tc, st, depth, \
         nodes, margin, restart and ponder"
    )]
    UnknownKey(String),
    /// A value of the wrong form.
    #[error("{key}={value} in an engine's description: {expected}")]
    Value {
        /// The key.
        key: String,
        /// What stands there.
        value: String,
        /// What should.
        expected: String,
    },
    /// No `cmd`.
    #[error("an engine needs cmd=PATH")]
    NoCommand,
    /// Nothing ends its thinking.
    #[error("engine {0} needs a limit: tc=BASE+INC, st=SECONDS, depth=N or nodes=N")]
    NoLimit(String),
}

/// An engine: its program, its options and its limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineSpec {
    /// The program.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// The directory it runs in; ours if none.
    pub dir: Option<PathBuf>,
    /// How it is called in tables and PGN; the name it gives itself if none.
    pub name: Option<String>,
    /// UCI options, in the order they are set.
    pub options: Vec<(String, String)>,
    /// How long it thinks.
    pub limits: Limits,
    /// Whether it is started afresh for each game.
    pub restart: bool,
    /// Whether it thinks in its opponent's time.
    pub ponder: bool,
}

impl EngineSpec {
    /// Reads a description. What `common` says (the `--each` of the command line) holds where `text` says nothing.
    /// Items are separated by commas; a comma within a value is written `\,`.
    pub fn parse(text: &str, common: &str) -> Result<Self, SpecError> {
        let mut spec = Self::default();
        for item in split_items(common).into_iter().chain(split_items(text)) {
            spec.apply(&item)?;
        }
        if spec.command.as_os_str().is_empty() {
            return Err(SpecError::NoCommand);
        }
        Ok(spec)
    }

    /// Refuses an engine that would think for ever.
    pub fn require_limit(&self) -> Result<(), SpecError> {
        if self.limits.is_bounded() { Ok(()) } else { Err(SpecError::NoLimit(self.label())) }
    }

    /// A name before the engine has told its own.
    pub fn label(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => self.command.file_name().map_or_else(
                || self.command.display().to_string(),
                |name| name.to_string_lossy().into_owned(),
            ),
        }
    }

    /// Whether it runs within this program.
    pub fn is_inside(&self) -> bool {
        self.command.to_str().is_some_and(|command| command.starts_with('@'))
    }

    /// The threads it will search with, as far as its options tell.
    pub fn threads(&self) -> usize {
        let set = self.options.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case("threads"));
        set.and_then(|(_, value)| value.parse().ok()).unwrap_or(1).max(1)
    }

    fn apply(&mut self, item: &str) -> Result<(), SpecError> {
        let (key, value) = item.split_once('=').ok_or_else(|| SpecError::NoValue(item.into()))?;
        let (key, value) = (key.trim(), value.trim());
        let wrong = |expected: &str| SpecError::Value {
            key: key.into(),
            value: value.into(),
            expected: expected.into(),
        };
        let flag = || match value {
            "on" | "true" | "yes" => Ok(true),
            "off" | "false" | "no" => Ok(false),
            _ => Err(wrong("should be on or off")),
        };
        match key {
            "cmd" => self.command = value.into(),
            "arg" => self.args.push(value.into()),
            "dir" => self.dir = Some(value.into()),
            "name" => self.name = Some(value.into()),
            "tc" => self.limits.time = value.parse().map_err(|error| wrong(&format!("{error}")))?,
            "st" => {
                let time = seconds(value).filter(|time| !time.is_zero());
                self.limits.time =
                    TimeLimit::PerMove(time.ok_or_else(|| wrong("should be seconds per move"))?);
            }
            "depth" => {
                let depth = value.parse().ok().filter(|&depth| depth > 0);
                self.limits.depth = Some(depth.ok_or_else(|| wrong("should be a number of plies"))?);
            }
            "nodes" => {
                let nodes = value.parse().ok().filter(|&nodes| nodes > 0);
                self.limits.nodes = Some(nodes.ok_or_else(|| wrong("should be a number of nodes"))?);
            }
            "margin" => {
                let millis = value.parse().map_err(|_| wrong("should be milliseconds"))?;
                self.limits.margin = Duration::from_millis(millis);
            }
            "restart" => self.restart = flag()?,
            "ponder" => self.ponder = flag()?,
            _ => match key.strip_prefix("option.") {
                Some(option) => {
                    // A later setting replaces an earlier one, so that an engine can differ from `--each`.
                    self.options.retain(|(name, _)| !name.eq_ignore_ascii_case(option));
                    self.options.push((option.into(), value.into()));
                }
                None => return Err(SpecError::UnknownKey(key.into())),
            },
        }
        Ok(())
    }
}

/// Splits at commas that no backslash precedes.
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
    fn an_engine_is_read() {
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
    fn mistakes_are_named() {
        let error = |text| EngineSpec::parse(text, "").unwrap_err().to_string();
        assert!(error("name=x").contains("cmd=PATH"));
        assert!(error("cmd=x,hash=3").contains("'hash'"));
        assert!(error("cmd=x,tc=fast").contains("5+0.05"));
        assert!(error("cmd=x,depth=0").contains("plies"));
        assert!(error("cmd=x,fast").contains("key=value"));
        assert!(EngineSpec::parse("cmd=x", "").unwrap().require_limit().is_err());
    }
}
