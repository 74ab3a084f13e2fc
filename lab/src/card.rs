//! The card of a network: what someone wants to know who finds the file a year later.

use crate::table::Table;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What a card says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Card {
    /// The network's name.
    pub(crate) title: String,
    /// Facts by name, in their order.
    pub(crate) facts: Vec<(String, String)>,
    /// Tables with their headings.
    pub(crate) tables: Vec<(String, Table)>,
    /// The recipe that the network was trained by, word for word.
    pub(crate) recipe: Option<String>,
}

impl Card {
    /// One more fact.
    pub(crate) fn fact(&mut self, name: &str, value: impl Into<String>) {
        self.facts.push((name.into(), value.into()));
    }

    /// Where a network's card stands: beside it.
    pub(crate) fn path(network: &Path) -> PathBuf {
        let mut name = OsString::from(network);
        name.push(".md");
        name.into()
    }

    /// The card as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n", self.title);
        let mut facts = Table::new(&["", ""]);
        for (name, value) in &self.facts {
            facts.push(vec![name.clone(), value.replace('\n', " ")]);
        }
        if !facts.is_empty() {
            // Facts read from left to right, so their values are not figures.
            text.push_str(&facts.markdown().replace("---:|", "---|"));
        }
        for (heading, table) in &self.tables {
            let _ = write!(text, "\n## {heading}\n\n{}", table.markdown());
        }
        if let Some(recipe) = &self.recipe {
            // A fence longer than any in the recipe.
            let mut fence = "```".to_owned();
            while recipe.contains(&fence) {
                fence.push('`');
            }
            let _ = write!(text, "\n## Recipe\n\n{fence}toml\n{}\n{fence}\n", recipe.trim_end());
        }
        text
    }
}

/// The SHA-256 of some bytes, in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_holds_what_it_is_given() {
        let mut card = Card { title: "net.tnn".into(), ..Card::default() };
        card.fact("architecture", "768 -> 32x2 | crelu -> 1");
        let mut table = Table::new(&["layer", "clipped"]);
        table.push(vec!["first".into(), "0".into()]);
        card.tables.push(("Quantisation".into(), table));
        card.recipe = Some("name = \"x\"\n# ```\n".into());
        let text = card.markdown();
        assert!(text.starts_with("# net.tnn\n\n|  |  |\n|---|---|\n| architecture | 768 -> 32x2 \\| crelu"));
        assert!(text.contains("\n## Quantisation\n\n| layer | clipped |\n"));
        assert!(text.ends_with("\n````toml\nname = \"x\"\n# ```\n````\n"), "{text}");
        assert_eq!(Card::path(Path::new("a/net.tnn")), Path::new("a/net.tnn.md"));
    }

    #[test]
    fn hashes_are_those_of_the_standard() {
        assert!(sha256(b"abc").starts_with("ba7816bf8f01cfea414140de5dae2223"));
    }
}
