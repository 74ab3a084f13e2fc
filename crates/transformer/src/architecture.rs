//! The architecture of a network, as data that is read from and written to TOML.
//!
//! One set of blocks makes both families: networks that read a position and a move as text and return a win
//! probability (`searchless-9m`), and networks with a token for each square, smolgen and a policy head
//! (`bt3`, `bt4`).

mod check;
mod presets;
mod tensors;

pub(crate) use check::{MAX_COUNT, impossible, sized, within};
pub use presets::Preset;
pub(crate) use tensors::List;
pub use tensors::TensorSpec;

use crate::blocks::{Attention, FeedForward};
use crate::encoding::{planes, squares};
use serde::{Deserialize, Serialize};
use tandem_chess::move_map::searchless;
use thiserror::Error;

/// Squares of a board, and tokens of a network that reads squares.
pub(crate) const SQUARES: usize = 64;
/// Number of leading channels (input values) of a square that encode its piece; the dense-board embedding
/// reads only these.
pub const PIECE_CHANNELS: usize = 12;
/// Tokens of a position as text: 77 characters of the FEN after a leading zero token.
pub(crate) const TEXT_TOKENS: usize = 78;
/// Entries of the embedding table that text tokens, actions and buckets share.
pub(crate) const VOCABULARY: usize = searchless::COUNT;

/// Sizes and kinds of all layers of a network, read from TOML by [`Self::from_toml`], which also checks that
/// the parts fit together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// Encoding of the position that the network reads.
    pub input: Input,
    /// First layers, which turn the input into one vector for each token.
    pub embedding: Embedding,
    /// The transformer blocks, of which all have the same sizes.
    pub body: Body,
    /// Output heads; at least one is needed. Those of text and of squares cannot be mixed.
    pub heads: Heads,
}

/// Encoding of the position that a network reads. See [`crate::encoding`] for the exact layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// A FEN as 77 tokens; a network with an action-value head also reads a move as one more token.
    Text,
    /// A token for each square as the side to move sees it, with 19 input values (channels): pieces,
    /// castling, en passant, clock.
    Squares,
    /// A token for each square with lc0's 112 planes: eight positions of the game, castling, clock.
    Planes,
    /// The same 112 planes for a single position: the planes of the seven positions before it and of
    /// repetitions are zero.
    #[serde(alias = "lone-planes")] // language: old name
    PlanesSingle,
}

impl Input {
    /// Number of input values (channels) of a square, for networks with a token for each square; `None` for
    /// text.
    pub fn channels(self) -> Option<usize> {
        match self {
            Self::Text => None,
            Self::Squares => Some(squares::CHANNELS),
            Self::Planes | Self::PlanesSingle => Some(planes::CHANNELS),
        }
    }
}

/// First layers of a network, which turn the input into one vector for each token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Embedding {
    /// A table lookup for each token of text, times the square root of the width, or a linear layer on each
    /// square's channels; a learned vector for each place in the sequence is added.
    Positions,
    /// BT3's embedding: one dense layer reads the pieces of the whole board, and its outputs are concatenated
    /// to the channels of each square; a gate for each square and a feed-forward layer follow.
    DenseBoard(DenseBoard),
}

/// Sizes of BT3's dense-board embedding, which reads the whole board before the first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenseBoard {
    /// Outputs of the dense layer over the whole board, for each of the 64 squares.
    pub channels: usize,
    /// Hidden width of the embedding's feed-forward layer, which is dense and has biases.
    pub feed_forward: usize,
}

/// The transformer blocks, all of one size: attention and a feed-forward layer, each with a norm and a
/// residual connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Body {
    /// Model width: number of values that each token carries from block to block (the residual stream).
    pub width: usize,
    /// Number of transformer blocks, from 1 to 256.
    pub layers: usize,
    /// Number of attention heads, which must divide the width.
    pub heads: usize,
    /// Attention mask; full attention by default. `prefix` needs an action-value head.
    #[serde(default)]
    pub mask: Mask,
    /// Activation function of the feed-forward layers, the embedding and the heads.
    pub activation: Activation,
    /// Normalisation layers of the blocks and of the embedding.
    pub norm: Norm,
    /// Attention layers, with or without additional logits for pairs of squares.
    pub attention: Attention,
    /// Feed-forward layers, dense, gated, or a mixture of experts.
    pub feed_forward: FeedForward,
}

/// Attention mask: the set of tokens that each token attends to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mask {
    /// Every token attends to every token, in both directions. The only mask for squares.
    #[default]
    Full,
    /// The tokens of the position do not attend to the move, so they are computed once for all moves.
    Prefix,
}

/// Activation function. Kernels approximate it within 4e-7 of the larger of |x| and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// SiLU or swish: x times the logistic function of x.
    Silu,
    /// Mish: x times tanh(log(1 + e^x)).
    Mish,
    /// GELU: x times the cumulative normal distribution at x (exact, not the tanh approximation).
    Gelu,
    /// The square of ReLU: max(x, 0)². Cheap, and sparse like ReLU.
    SquaredRelu,
    /// Rectified linear unit: max(x, 0). Exact in every precision.
    Relu,
}

/// Normalisation layers: one kind and one position for the embedding and all blocks. Smolgen has layer norms
/// of its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Norm {
    /// Layer norm, which lc0 uses, or RMS norm, which is cheaper.
    pub kind: NormKind,
    /// Position relative to the residual branch: `pre` or `post`.
    pub place: NormPlace,
    /// Added to the variance before its square root is taken, from 0 to 1 exclusive; 1e-5 by default.
    #[serde(default = "default_epsilon")]
    pub epsilon: f32,
    /// DeepNorm, only with `post`: each branch is scaled by (2 layers)^-1/4 before it is added to the
    /// residual stream.
    #[serde(default)]
    pub deepnorm: bool,
    /// Adds another norm after the last block, as pre-norm networks usually have it.
    #[serde(default)]
    pub last: bool,
}

fn default_epsilon() -> f32 {
    1e-5
}

/// Kind of normalisation. Statistics are taken over the width of each token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormKind {
    /// Layer norm: subtract the mean, divide by the standard deviation, multiply by a scale, add an offset.
    Layer,
    /// RMS norm: divide by the root mean square, multiply by a scale.
    Rms,
}

/// Position of a norm relative to the branch that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormPlace {
    /// Pre-norm: before attention or the feed-forward layer, on a copy of the residual stream.
    Pre,
    /// Post-norm: after the branch has been added to the residual stream.
    Post,
}

/// Output heads of a network. Heads that are absent from the TOML are not built; at least one must be
/// present.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heads {
    /// Win probability after a given move, as a distribution over buckets (equal intervals). Only for text,
    /// and then the only head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_value: Option<BucketHead>,
    /// Win probability of the position, as a distribution over buckets (equal intervals). Only for text;
    /// [`ValueHead::buckets`] does the same for squares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_value: Option<BucketHead>,
    /// Policy: a logit for each move, legal or not, which [`crate::legal`] turns into probabilities of the
    /// legal ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyHead>,
    /// Game result: logits of win, draw and loss for the side to move, from all squares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<ValueHead>,
    /// Result that a search of the position estimates: logits of win, draw and loss for the side to move,
    /// from all squares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search_value: Option<ValueHead>,
    /// Short-term value: logits of win, draw and loss for the side to move, trained on an average over the
    /// next positions of the game.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_term: Option<ValueHead>,
    /// Expected number of plies until the end of the game, from all squares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_left: Option<MovesLeftHead>,
    /// Value for the side to move after each of its moves, from -1 (loss) to 1 (win), in a single forward
    /// pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub move_value: Option<MoveValueHead>,
}

impl Heads {
    /// The three value heads (game result, search result, short-term), each with the prefix of its tensors'
    /// names; `None` for those that the network lacks.
    pub fn values(&self) -> [(&'static str, Option<ValueHead>); 3] {
        [("value", self.value), ("search_value", self.search_value), ("short_term", self.short_term)]
    }
}

/// Head that outputs a distribution of the win probability, from 0 to 1, over equal intervals (buckets).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketHead {
    /// Number of intervals (logits), from 2 to 1968; 128 by default.
    #[serde(default = "default_buckets")]
    pub buckets: usize,
}

fn default_buckets() -> usize {
    128
}

/// Policy head: logits of moves for the main target and for optional auxiliary ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyHead {
    /// Move encoding, which also decides how the logits are computed.
    pub kind: PolicyKind,
    /// Length of the query and key vectors that each square gets, for [`PolicyKind::Attention`]; 0 otherwise.
    #[serde(default)]
    pub width: usize,
    /// Auxiliary policies on the same squares, trained on other targets, for [`PolicyKind::Attention`] only.
    /// Empty by default. The old key `beside` of earlier files and recipes is still read.
    #[serde(default, alias = "beside", skip_serializing_if = "Vec::is_empty")] // language: old name
    pub aux_targets: Vec<PolicyTarget>,
}

/// Training target of an auxiliary policy head, which is used in training only: moves are chosen by the main
/// policy alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyTarget {
    /// The same probabilities as the main policy's target, flattened by a temperature.
    Soft,
    /// Moves of games, weighted more where the game went better than the value head expected.
    Optimistic,
    /// The opponent's reply to the move of the game.
    Opponent,
}

impl PolicyTarget {
    /// All targets, in the order in which lc0's files are searched for them.
    pub const ALL: [Self; 3] = [Self::Soft, Self::Optimistic, Self::Opponent];

    /// Prefix of the names of this head's tensors, for example `soft_policy`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Soft => "soft_policy",
            Self::Optimistic => "optimistic_policy",
            Self::Opponent => "opponent_policy",
        }
    }
}

/// Set of moves over which a policy head has logits. Each kind goes with one kind of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// lc0's 1858 moves, from the products of a query and a key for each pair of squares.
    Attention,
    /// The 1968 moves of searchless chess, from one linear layer on the last token.
    Actions,
}

/// Value head over all squares: win, draw and loss, with an optional error estimate and distribution of the
/// value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueHead {
    /// Number of values that each square is compressed to, before the squares are concatenated.
    pub channels: usize,
    /// Number of hidden values, computed from the compressed squares of the whole board.
    pub hidden: usize,
    /// Adds an output for the expected squared error of the head's value, from 0 to 1.
    #[serde(default)]
    pub error: bool,
    /// Adds a distribution of the value over this number of equal intervals; 0 for none, at most 1968.
    #[serde(default)]
    pub buckets: usize,
}

/// Moves-left head: expected number of plies (moves of one side) until the end of the game, computed from all
/// squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovesLeftHead {
    /// Number of values that each square is compressed to, before the squares are concatenated.
    pub channels: usize,
    /// Number of hidden values, computed from the compressed squares of the whole board.
    pub hidden: usize,
}

/// A value for each of lc0's 1858 moves, from the products of a query and a key for each pair of squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoveValueHead {
    /// Length of the query and key vectors that each square gets.
    pub width: usize,
}

/// Error for a description that is not a valid architecture, with the key at fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArchitectureError {
    /// The text is not TOML, or has an unknown key or a value of the wrong type.
    #[error("{0}")]
    Text(String),
    /// A value, or a combination of values, of which no network can be built.
    #[error("{key}: {problem}")]
    Impossible {
        /// The key as a path in the TOML, for example `body.heads`.
        key: &'static str,
        /// The reason, which follows the key in the message.
        problem: String,
    },
}

impl Architecture {
    /// Parses a description in TOML and checks it.
    ///
    /// # Errors
    /// If the text cannot be parsed or has an unknown key, or if [`Self::check`] refuses the result.
    pub fn from_toml(text: &str) -> Result<Self, ArchitectureError> {
        let architecture: Self =
            toml::from_str(text).map_err(|error| ArchitectureError::Text(error.to_string()))?;
        architecture.check()?;
        Ok(architecture)
    }

    /// The description in TOML, which [`Self::from_toml`] reads back to an equal architecture.
    pub fn to_toml(&self) -> String {
        // Every value of these types can be written as TOML; a test covers the round trip.
        toml::to_string(self).unwrap_or_default()
    }

    /// Sequence length of the body: 64 for squares, 78 for text, 79 for text with a move.
    pub fn tokens(&self) -> usize {
        match self.input {
            Input::Text if self.heads.action_value.is_some() => TEXT_TOKENS + 1,
            Input::Text => TEXT_TOKENS,
            Input::Squares | Input::Planes | Input::PlanesSingle => SQUARES,
        }
    }

    /// Number of values of a board code: the outputs of the dense-board layer for all squares of a position.
    /// A code that was computed elsewhere, for example from an NNUE accumulator, can be added to it
    /// ([`crate::Inputs::Coded`]). `None` if the embedding reads each square alone.
    pub fn board_code(&self) -> Option<usize> {
        match self.embedding {
            Embedding::DenseBoard(board) => Some(SQUARES * board.channels),
            Embedding::Positions => None,
        }
    }

    /// Factor by which the output of attention or of a feed-forward layer is multiplied before it is added to
    /// the residual stream: (2 layers)^-1/4 with DeepNorm, else 1.
    pub fn branch_factor(&self) -> f32 {
        if self.body.norm.deepnorm { (2.0 * self.body.layers as f32).powf(-0.25) } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_survive_a_round_trip_through_toml() {
        for preset in Preset::ALL {
            let architecture = preset.architecture();
            assert_eq!(Architecture::from_toml(&architecture.to_toml()).unwrap(), architecture);
        }
    }

    #[test]
    fn old_spellings_are_read_and_both_at_once_are_refused() {
        let new = Preset::Bt4.toml().replace("\"planes\"", "\"planes-single\"");
        let old = new
            .replace("aux_targets", "beside") // language: old name
            .replace("planes-single", "lone-planes"); // language: old name
        assert_ne!(old, new);
        assert_eq!(Architecture::from_toml(&old).unwrap(), Architecture::from_toml(&new).unwrap());
        let both = new.replace("aux_targets =", "beside = [], aux_targets ="); // language: old name
        let error = Architecture::from_toml(&both).unwrap_err().to_string();
        assert!(error.contains("duplicate"), "{error}");
    }
}
