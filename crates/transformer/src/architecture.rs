//! What a network is made of, as data.
//!
//! One set of blocks makes both families: networks that read a position as text and a move, and answer with the chance
//! to win (`searchless-9m`), and networks with a token for each square, smolgen and a policy (`bt3`, `bt4`).

mod check;
mod presets;
mod tensors;

pub use presets::Preset;
pub use tensors::TensorSpec;

use crate::encoding::{planes, squares};
use serde::{Deserialize, Serialize};
use tandem_chess::move_map::searchless;
use thiserror::Error;

/// Squares of a board.
pub(crate) const SQUARES: usize = 64;
/// Channels of a square that say which piece stands on it, which the layer over the whole board sees.
pub const PIECE_CHANNELS: usize = 12;
/// What smolgen's norms add to the variance.
pub const SMOLGEN_EPSILON: f32 = 1e-3;
/// Tokens of a position as text, with the zero before them.
pub(crate) const TEXT_TOKENS: usize = 78;
/// Entries of the table that text tokens, actions and buckets share.
pub(crate) const VOCABULARY: usize = searchless::COUNT;

/// What a network is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// What it reads.
    pub input: Input,
    /// How that becomes rows of numbers.
    pub embedding: Embedding,
    /// What they pass through.
    pub body: Body,
    /// What is read off at the end.
    pub heads: Heads,
}

/// What a network reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// A FEN as 77 tokens, and a move for a network of action values.
    Text,
    /// A token for each square of the board as the side to move sees it: pieces, castling, en passant, clock.
    Squares,
    /// A token for each square with lc0's 112 planes: eight positions of the game, castling, clock.
    Planes,
    /// The same planes of the position alone: those of the game before it are empty.
    LonePlanes,
}

impl Input {
    /// Numbers that a square has, for networks with a token for each square.
    pub fn channels(self) -> Option<usize> {
        match self {
            Self::Text => None,
            Self::Squares => Some(squares::CHANNELS),
            Self::Planes | Self::LonePlanes => Some(planes::CHANNELS),
        }
    }
}

/// How the input becomes rows of numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Embedding {
    /// A row for each token, times the root of the width, or a layer on each square; and a learned row for each place.
    Positions,
    /// BT3's: the whole board is seen by one layer, whose outputs are joined to each square; then gates and a
    /// feed-forward layer.
    DenseBoard(DenseBoard),
}

/// The sizes of BT3's embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenseBoard {
    /// Numbers that the layer over the whole board makes for each square.
    pub channels: usize,
    /// Width of the feed-forward layer.
    pub feed_forward: usize,
}

/// What the rows pass through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Body {
    /// Numbers in a row.
    pub width: usize,
    /// Blocks of attention and feed-forward.
    pub layers: usize,
    /// Attention heads; they share the width.
    pub heads: usize,
    /// Which tokens see which.
    #[serde(default)]
    pub mask: Mask,
    /// What bends the feed-forward layers, the embedding and the heads.
    pub activation: Activation,
    /// What keeps rows in bounds, and where.
    pub norm: Norm,
    /// How tokens see each other.
    pub attention: Attention,
    /// What happens to each token alone.
    pub feed_forward: FeedForward,
}

/// Which tokens see which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mask {
    /// All see all.
    #[default]
    Full,
    /// The position does not see the move, so it is computed once for all moves.
    Prefix,
}

/// A curve between layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// x times the logistic curve of x; also called swish.
    Silu,
    /// x times tanh of log(1 + e^x).
    Mish,
    /// x times the normal distribution's curve.
    Gelu,
    /// The square of the positive part.
    SquaredRelu,
    /// The positive part.
    Relu,
}

/// What keeps rows in bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Norm {
    /// Which.
    pub kind: NormKind,
    /// Where.
    pub place: NormPlace,
    /// What is added to the variance.
    #[serde(default = "default_epsilon")]
    pub epsilon: f32,
    /// With `post`: each branch is weighted by (2 layers)^-1/4 before it joins the row.
    #[serde(default)]
    pub deepnorm: bool,
    /// Another one after the last block.
    #[serde(default)]
    pub last: bool,
}

fn default_epsilon() -> f32 {
    1e-5
}

/// A kind of norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormKind {
    /// Less the mean, over the deviation, times a scale, plus an offset.
    Layer,
    /// Over the root of the mean square, times a scale.
    Rms,
}

/// Where norms stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormPlace {
    /// Before a branch.
    Pre,
    /// After the branch has joined the row.
    Post,
}

/// How tokens see each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Attention {
    /// By keys and queries alone.
    Plain {
        /// Whether the four layers have biases.
        biases: bool,
    },
    /// With learned logits for each pair of squares and each head.
    Bias {
        /// Whether the four layers have biases.
        biases: bool,
    },
    /// With logits for each pair of squares that the position itself makes.
    Smolgen(Smolgen),
}

/// The sizes of smolgen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Smolgen {
    /// Whether the four layers of attention have biases.
    pub biases: bool,
    /// Numbers that each square is pressed into.
    pub compressed: usize,
    /// Numbers that the board is pressed into.
    pub hidden: usize,
    /// Numbers from which a head's logits are made, by one layer that all blocks share.
    pub generated: usize,
    /// What bends its layers.
    #[serde(default = "default_smolgen_activation")]
    pub activation: Activation,
}

fn default_smolgen_activation() -> Activation {
    Activation::Silu
}

impl Attention {
    /// Whether queries, keys, values and outputs have biases.
    pub fn biases(&self) -> bool {
        match self {
            Self::Plain { biases } | Self::Bias { biases } => *biases,
            Self::Smolgen(smolgen) => smolgen.biases,
        }
    }
}

/// What happens to each token alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum FeedForward {
    /// Two layers.
    Dense {
        /// Numbers between them.
        width: usize,
        /// Whether they have biases.
        biases: bool,
    },
    /// Two layers side by side, the bent one times the other, and a third.
    Gated {
        /// Numbers between them.
        width: usize,
        /// Whether they have biases.
        biases: bool,
    },
    /// Several of one kind, of which a router chooses a few for each token.
    Experts(Experts),
}

/// Feed-forward layers to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experts {
    /// How many there are.
    pub count: usize,
    /// How many a token passes through.
    pub chosen: usize,
    /// Numbers between the layers of one.
    pub width: usize,
    /// Whether each is gated.
    #[serde(default)]
    pub gated: bool,
    /// Whether the layers have biases.
    #[serde(default)]
    pub biases: bool,
}

/// What is read off at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heads {
    /// The chance to win after a move, in buckets. For text alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_value: Option<BucketHead>,
    /// The chance to win, in buckets. For text alone; [`ValueHead::buckets`] is its like for squares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_value: Option<BucketHead>,
    /// Moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyHead>,
    /// How the game ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<ValueHead>,
    /// What a search finds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search_value: Option<ValueHead>,
    /// How the next moves go: the value, averaged over the near future.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_term: Option<ValueHead>,
    /// How many plies the game has left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_left: Option<MovesLeftHead>,
    /// The value after each move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub move_value: Option<MoveValueHead>,
}

impl Heads {
    /// The heads that say win, draw and loss, with the names of their tensors.
    pub fn values(&self) -> [(&'static str, Option<ValueHead>); 3] {
        [("value", self.value), ("search_value", self.search_value), ("short_term", self.short_term)]
    }
}

/// A distribution over equal parts of what lies between losing and winning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketHead {
    /// How many parts.
    #[serde(default = "default_buckets")]
    pub buckets: usize,
}

fn default_buckets() -> usize {
    128
}

/// Logits of moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyHead {
    /// Which moves.
    pub kind: PolicyKind,
    /// With `attention`: numbers of a square, of its query and of its key.
    #[serde(default)]
    pub width: usize,
    /// With `attention`: further ones on the same squares, for other targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<PolicyTarget>,
}

/// What a policy beside the first one is taught.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyTarget {
    /// The same, softened.
    Soft,
    /// Moves of games that went better than thought.
    Optimistic,
    /// The opponent's answer.
    Opponent,
}

impl PolicyTarget {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Soft, Self::Optimistic, Self::Opponent];

    /// What its tensors are called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Soft => "soft_policy",
            Self::Optimistic => "optimistic_policy",
            Self::Opponent => "opponent_policy",
        }
    }
}

/// Which moves a policy numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// lc0's 1858, from pairs of squares.
    Attention,
    /// The 1968 of searchless chess, from the last token.
    Actions,
}

/// Win, draw and loss, and what else is known of them, from all squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueHead {
    /// Numbers that each square is pressed into.
    pub channels: usize,
    /// Numbers that the board is pressed into.
    pub hidden: usize,
    /// The square of the error that the value will have, as a chance from 0 to 1.
    #[serde(default)]
    pub error: bool,
    /// The value again, in so many buckets; none if zero.
    #[serde(default)]
    pub buckets: usize,
}

/// Plies that are left, from all squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovesLeftHead {
    /// Numbers that each square is pressed into.
    pub channels: usize,
    /// Numbers that the board is pressed into.
    pub hidden: usize,
}

/// A value for each of lc0's 1858 moves, from pairs of squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoveValueHead {
    /// Numbers of a square, of its query and of its key.
    pub width: usize,
}

/// Why a description is no architecture.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArchitectureError {
    /// It cannot be read.
    #[error("{0}")]
    Text(String),
    /// A number or a combination that makes no network.
    #[error("{key}: {problem}")]
    Impossible {
        /// Which key.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

impl Architecture {
    /// Reads a description in TOML.
    pub fn from_toml(text: &str) -> Result<Self, ArchitectureError> {
        let architecture: Self =
            toml::from_str(text).map_err(|error| ArchitectureError::Text(error.to_string()))?;
        architecture.check()?;
        Ok(architecture)
    }

    /// The description in TOML.
    pub fn to_toml(&self) -> String {
        // Every value of these types has a form in TOML; the round trip is tested.
        toml::to_string(self).unwrap_or_default()
    }

    /// Tokens that pass through the body.
    pub fn tokens(&self) -> usize {
        match self.input {
            Input::Text if self.heads.action_value.is_some() => TEXT_TOKENS + 1,
            Input::Text => TEXT_TOKENS,
            Input::Squares | Input::Planes | Input::LonePlanes => SQUARES,
        }
    }

    /// Numbers of the code of the whole board that the embedding joins to the squares: somebody else's can be added to it
    /// ([`crate::Inputs::Coded`]). None where the embedding looks at each square alone.
    pub fn board_code(&self) -> Option<usize> {
        match self.embedding {
            Embedding::DenseBoard(board) => Some(SQUARES * board.channels),
            Embedding::Positions => None,
        }
    }

    /// The factor of each branch before it joins the row.
    pub fn branch_factor(&self) -> f32 {
        if self.body.norm.deepnorm { (2.0 * self.body.layers as f32).powf(-0.25) } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_goes_to_text_and_back() {
        for preset in Preset::ALL {
            let architecture = preset.architecture();
            assert_eq!(Architecture::from_toml(&architecture.to_toml()).unwrap(), architecture);
        }
    }
}
