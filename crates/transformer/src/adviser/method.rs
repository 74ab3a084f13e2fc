//! The ways in which a network can be asked for a move.

use crate::Heads;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// How a network without search chooses a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// The move that the policy likes best.
    Policy,
    /// The move to the position that is worst for the opponent. What the rules know is not asked: mates, and draws.
    Value,
    /// The move with the best chance to win, of the chances that the network tells for each: by buckets where it reads a
    /// move with the position ([`Heads::action_value`]), else by [`Heads::move_value`].
    ActionValue,
}

/// A name that is no method.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no choosing by '{0}'; there are policy, value and action-value")]
pub struct UnknownMethod(pub String);

/// A network that cannot be asked so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfitMethod {
    /// How it was to be asked.
    pub method: Method,
    /// The heads that it has.
    pub heads: Vec<&'static str>,
    /// How it can be asked.
    pub others: Vec<Method>,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Policy, Self::Value, Self::ActionValue];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Value => "value",
            Self::ActionValue => "action-value",
        }
    }

    /// Whether a network with these heads can be asked so.
    pub fn fits(self, heads: &Heads) -> bool {
        match self {
            Self::Policy => heads.policy.is_some(),
            Self::Value => {
                heads.state_value.is_some() || heads.values().iter().any(|(_, head)| head.is_some())
            }
            Self::ActionValue => heads.action_value.is_some() || heads.move_value.is_some(),
        }
    }

    /// The same, with what can be done instead.
    pub(super) fn check(self, heads: &Heads) -> Result<(), UnfitMethod> {
        if self.fits(heads) {
            return Ok(());
        }
        let others = Self::ALL.into_iter().filter(|other| other.fits(heads)).collect();
        Err(UnfitMethod { method: self, heads: names(heads), others })
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(text: &str) -> Result<Self, UnknownMethod> {
        let found = Self::ALL.into_iter().find(|method| method.name() == text);
        found.ok_or_else(|| UnknownMethod(text.chars().take(40).collect()))
    }
}

impl fmt::Display for UnfitMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, heads, others } = self;
        write!(f, "this network cannot be asked by {method}; it has {}", heads.join(", "))?;
        match &others[..] {
            [] => f.write_str(", from which no move can be chosen"),
            others => {
                let others: Vec<&str> = others.iter().map(|other| other.name()).collect();
                write!(f, ": ask it by {}", others.join(" or "))
            }
        }
    }
}

impl std::error::Error for UnfitMethod {}

/// The heads that there are, as an architecture calls them.
fn names(heads: &Heads) -> Vec<&'static str> {
    let values = heads.values().map(|(name, head)| (name, head.is_some()));
    let others = [
        ("action_value", heads.action_value.is_some()),
        ("state_value", heads.state_value.is_some()),
        ("policy", heads.policy.is_some()),
        ("moves_left", heads.moves_left.is_some()),
        ("move_value", heads.move_value.is_some()),
    ];
    others.into_iter().chain(values).filter(|(_, there)| *there).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Architecture, MovesLeftHead, Preset};

    fn told(method: Method, architecture: &Architecture) -> String {
        method.check(&architecture.heads).unwrap_err().to_string()
    }

    #[test]
    fn a_name_is_read_back() {
        for method in Method::ALL {
            assert_eq!(method.name().parse(), Ok(method));
        }
        let error = "alphabeta".parse::<Method>().unwrap_err().to_string();
        assert_eq!(error, "there is no choosing by 'alphabeta'; there are policy, value and action-value");
    }

    #[test]
    fn a_network_without_the_head_says_what_it_has() {
        let byte = Preset::Byte.architecture();
        assert_eq!(
            told(Method::Policy, &byte),
            "this network cannot be asked by policy; it has action_value: ask it by action-value"
        );
        let small = Preset::BtSmall.architecture();
        assert_eq!(
            told(Method::ActionValue, &small),
            "this network cannot be asked by action-value; it has policy, moves_left, value: ask it by policy or value"
        );
        let moves_left = Some(MovesLeftHead { channels: 1, hidden: 1 });
        let nothing = Architecture { heads: Heads { moves_left, ..Heads::default() }, ..small };
        assert!(told(Method::Value, &nothing).ends_with("moves_left, from which no move can be chosen"));
    }
}
