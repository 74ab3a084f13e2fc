//! Preset architectures that are selected by name, for example in a training recipe.

use super::Architecture;

/// A preset architecture. Its description is a TOML file in this crate's `presets` folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// A small network that reads a position and a move as text and gives the win probability after the move,
    /// with a mixture of experts.
    Byte,
    /// The smallest of the searchless chess networks with published weights (8.95 M parameters).
    Searchless9M,
    /// A small network of lc0's BT kind, for CPUs.
    BtSmall,
    /// lc0's BT3, with 105 M parameters; its head sizes were not published.
    Bt3,
    /// lc0's BT4, with 191 M parameters; its head sizes were not published.
    Bt4,
}

impl Preset {
    /// All presets: the two that read text first, then those of lc0's kind by size.
    pub const ALL: [Self; 5] = [Self::Byte, Self::Searchless9M, Self::BtSmall, Self::Bt3, Self::Bt4];

    /// Finds a preset by the name that [`Self::name`] returns.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// Name of the preset in recipes and on the command line, for example `bt-small`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Byte => "byte",
            Self::Searchless9M => "searchless-9m",
            Self::BtSmall => "bt-small",
            Self::Bt3 => "bt3",
            Self::Bt4 => "bt4",
        }
    }

    /// The description in TOML as the file has it, with comments.
    pub fn toml(self) -> &'static str {
        match self {
            Self::Byte => include_str!("../../presets/byte.toml"),
            Self::Searchless9M => include_str!("../../presets/searchless-9m.toml"),
            Self::BtSmall => include_str!("../../presets/bt-small.toml"),
            Self::Bt3 => include_str!("../../presets/bt3.toml"),
            Self::Bt4 => include_str!("../../presets/bt4.toml"),
        }
    }

    /// Architecture of the preset, parsed from its TOML description.
    ///
    /// # Panics
    /// If a description in this crate is invalid, which a test rules out.
    pub fn architecture(self) -> Architecture {
        Architecture::from_toml(self.toml()).expect("the descriptions in this crate are tested")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_found_by_its_name() {
        for preset in Preset::ALL {
            assert_eq!(Preset::named(preset.name()), Some(preset));
            assert!(preset.architecture().parameters() > 0);
        }
        assert_eq!(Preset::named("bt5"), None);
    }
}
