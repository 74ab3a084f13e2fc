//! Named facts about a file, printed as lines or as JSON.

use serde_json::{Map, Value};

/// Name of the fact that every file has.
pub(super) const FORMAT: &str = "format";

/// Facts in the order in which they are printed.
#[derive(Debug, Default)]
pub(super) struct Facts(Vec<(&'static str, Value)>);

impl Facts {
    pub(super) fn push(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.push((name, value.into()));
    }

    /// The format, which stands beside the file's name.
    pub(super) fn format(&self) -> &str {
        let format = self.0.iter().find(|(name, _)| *name == FORMAT);
        format.and_then(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// One indented line for each other fact; lists and tables are left to the caller.
    pub(super) fn lines(&self) -> String {
        let line = |(name, value): &(&str, Value)| match value {
            Value::String(text) => format!("  {name}  {text}\n"),
            Value::Object(_) | Value::Array(_) => String::new(),
            size if *name == "size" => format!("  size  {size} bytes\n"),
            other => format!("  {name}  {other}\n"),
        };
        self.0.iter().filter(|(name, _)| *name != FORMAT).map(line).collect()
    }

    /// An object with the facts, whose keys have underscores in place of spaces.
    pub(super) fn json(&self) -> Value {
        let entries = self.0.iter().map(|(name, value)| (name.replace([' ', '-'], "_"), value.clone()));
        Value::Object(entries.collect::<Map<_, _>>())
    }
}
