//! Model cards: a Markdown file beside each network that says what it is, how it was made and how well it
//! does.
//!
//! The words are Hugging Face's. `train` and `export` write `NETWORK.md`; it answers the questions of someone
//! who finds the file a year later.

use crate::table::Table;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The contents of a model card, in the order in which they are written.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelCard {
    /// The name of the network, which becomes the heading of the page.
    pub(crate) title: String,
    /// Properties of the network as pairs of name and value, for example its architecture and its SHA-256, in
    /// their order.
    pub(crate) properties: Vec<(String, String)>,
    /// Tables of measurements, each with its heading, for example the errors of quantisation.
    pub(crate) tables: Vec<(String, Table)>,
    /// The recipe that the network was trained with, verbatim, if it is known.
    pub(crate) recipe: Option<String>,
}

impl ModelCard {
    /// Appends a property; a name may occur more than once.
    pub(crate) fn property(&mut self, name: &str, value: impl Into<String>) {
        self.properties.push((name.into(), value.into()));
    }

    /// The path of the model card of a network: the network's own path with `.md` appended.
    pub(crate) fn path(network: &Path) -> PathBuf {
        let mut name = OsString::from(network);
        name.push(".md");
        name.into()
    }

    /// Renders the model card as Markdown: a table of properties, the other tables, and the recipe in a
    /// fenced block.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n", self.title);
        let mut properties = Table::new(&["property", "value"]);
        for (name, value) in &self.properties {
            properties.push(vec![name.clone(), value.replace('\n', " ")]);
        }
        if !properties.is_empty() {
            // Values of properties are text, so they are aligned to the left.
            text.push_str(&properties.markdown().replace("---:|", "---|"));
        }
        for (heading, table) in &self.tables {
            let _ = write!(text, "\n## {heading}\n\n{}", table.markdown());
        }
        if let Some(recipe) = &self.recipe {
            // The fence must be longer than any fence within the recipe.
            let mut fence = "```".to_owned();
            while recipe.contains(&fence) {
                fence.push('`');
            }
            let _ = write!(text, "\n## Recipe\n\n{fence}toml\n{}\n{fence}\n", recipe.trim_end());
        }
        text
    }
}

/// The SHA-256 of `bytes` as 64 hexadecimal digits.
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
    fn a_model_card_contains_what_it_is_given() {
        let mut model_card = ModelCard { title: "net.tnn".into(), ..ModelCard::default() };
        model_card.property("architecture", "768 -> 32x2 | crelu -> 1");
        let mut table = Table::new(&["layer", "clipped"]);
        table.push(vec!["first".into(), "0".into()]);
        model_card.tables.push(("Quantisation".into(), table));
        model_card.recipe = Some("name = \"x\"\n# ```\n".into());
        let text = model_card.markdown();
        assert!(text.starts_with(
            "# net.tnn\n\n| property | value |\n|---|---|\n| architecture | 768 -> 32x2 \\| crelu"
        ));
        assert!(text.contains("\n## Quantisation\n\n| layer | clipped |\n"));
        assert!(text.ends_with("\n````toml\nname = \"x\"\n# ```\n````\n"), "{text}");
        assert_eq!(ModelCard::path(Path::new("a/net.tnn")), Path::new("a/net.tnn.md"));
    }

    #[test]
    fn hashes_are_those_of_the_standard() {
        assert!(sha256(b"abc").starts_with("ba7816bf8f01cfea414140de5dae2223"));
    }
}
