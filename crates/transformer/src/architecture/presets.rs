//! Networks that are known by a name.

use super::Architecture;

/// A network that is known by a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// A small network of action values with a mixture of experts.
    Byte,
    /// The smallest of the published searchless networks.
    Searchless9M,
    /// A small network of lc0's kind.
    BtSmall,
    /// lc0's BT3.
    Bt3,
    /// lc0's BT4.
    Bt4,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Byte, Self::Searchless9M, Self::BtSmall, Self::Bt3, Self::Bt4];

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Byte => "byte",
            Self::Searchless9M => "searchless-9m",
            Self::BtSmall => "bt-small",
            Self::Bt3 => "bt3",
            Self::Bt4 => "bt4",
        }
    }

    /// Its description, with comments.
    pub fn toml(self) -> &'static str {
        match self {
            Self::Byte => include_str!("../../presets/byte.toml"),
            Self::Searchless9M => include_str!("../../presets/searchless-9m.toml"),
            Self::BtSmall => include_str!("../../presets/bt-small.toml"),
            Self::Bt3 => include_str!("../../presets/bt3.toml"),
            Self::Bt4 => include_str!("../../presets/bt4.toml"),
        }
    }

    /// What it is made of.
    ///
    /// # Panics
    ///
    /// If a description in this crate is broken, which a test rules out.
    pub fn architecture(self) -> Architecture {
        Architecture::from_toml(self.toml()).expect("the descriptions in this crate are tested")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_can_be_had_by_its_name() {
        for preset in Preset::ALL {
            assert_eq!(Preset::named(preset.name()), Some(preset));
            assert!(preset.architecture().parameters() > 0);
        }
        assert_eq!(Preset::named("bt5"), None);
    }
}
