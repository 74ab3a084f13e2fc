//! Methods of choosing a move without search, by the head that scores it.

use crate::Heads;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Method by which a network without search scores moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// By policy probability: one forward pass for each position.
    Policy,
    /// By the value of the position after the move, for the opponent. Mates, stalemates and draws by rule are
    /// scored without the network.
    Value,
    /// By the win probability of each move: from its buckets if the network reads a move with the position
    /// ([`Heads::action_value`]), else from [`Heads::move_value`].
    ActionValue,
}

/// A text that is not the name of a method.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown method '{0}'; there are policy, value and action-value")]
pub struct UnknownMethod(pub String);

/// A method for which a network has no head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedMethod {
    /// The method that was asked for, which needs a head that is missing.
    pub method: Method,
    /// Names of the heads that the network has.
    pub heads: Vec<&'static str>,
    /// Methods that it supports instead; may be empty.
    pub alternatives: Vec<Method>,
}

impl Method {
    /// All methods, in the order in which messages list them.
    pub const ALL: [Self; 3] = [Self::Policy, Self::Value, Self::ActionValue];

    /// Name in options and messages: `policy`, `value` or `action-value`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Value => "value",
            Self::ActionValue => "action-value",
        }
    }

    /// True if a network with these heads can score moves by this method.
    pub fn is_supported_by(self, heads: &Heads) -> bool {
        match self {
            Self::Policy => heads.policy.is_some(),
            Self::Value => {
                heads.state_value.is_some() || heads.values().iter().any(|(_, head)| head.is_some())
            }
            Self::ActionValue => heads.action_value.is_some() || heads.move_value.is_some(),
        }
    }

    /// The same as a result, whose error lists the alternatives.
    pub(super) fn check(self, heads: &Heads) -> Result<(), UnsupportedMethod> {
        if self.is_supported_by(heads) {
            return Ok(());
        }
        let alternatives = Self::ALL.into_iter().filter(|other| other.is_supported_by(heads)).collect();
        Err(UnsupportedMethod { method: self, heads: names(heads), alternatives })
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

impl fmt::Display for UnsupportedMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, heads, alternatives } = self;
        write!(f, "this network has no head for {method}; it has {}", heads.join(", "))?;
        match &alternatives[..] {
            [] => f.write_str(", from which no move can be chosen"),
            alternatives => {
                let names: Vec<&str> = alternatives.iter().map(|method| method.name()).collect();
                write!(f, ": use {}", names.join(" or "))
            }
        }
    }
}

impl std::error::Error for UnsupportedMethod {}

/// Names of all heads that are present, as the architecture's keys spell them.
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

    fn error(method: Method, architecture: &Architecture) -> String {
        method.check(&architecture.heads).unwrap_err().to_string()
    }

    #[test]
    fn names_are_parsed_back() {
        for method in Method::ALL {
            assert_eq!(method.name().parse(), Ok(method));
        }
        let error = "alphabeta".parse::<Method>().unwrap_err().to_string();
        assert_eq!(error, "unknown method 'alphabeta'; there are policy, value and action-value");
    }

    #[test]
    fn errors_list_the_heads_and_the_alternatives() {
        let byte = Preset::Byte.architecture();
        assert_eq!(
            error(Method::Policy, &byte),
            "this network has no head for policy; it has action_value: use action-value"
        );
        let small = Preset::BtSmall.architecture();
        assert_eq!(
            error(Method::ActionValue, &small),
            "this network has no head for action-value; it has policy, moves_left, value: use policy or value"
        );
        let moves_left = Some(MovesLeftHead { channels: 1, hidden: 1 });
        let nothing = Architecture { heads: Heads { moves_left, ..Heads::default() }, ..small };
        assert!(error(Method::Value, &nothing).ends_with("moves_left, from which no move can be chosen"));
    }
}
