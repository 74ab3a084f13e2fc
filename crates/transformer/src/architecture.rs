//! What a network is made of, as data.
//!
//! One set of blocks makes both families: networks that read a position as text and a move, and answer with the chance
//! to win (`searchless-9m`), and networks with a token for each square, smolgen and a policy (`bt3`, `bt4`).

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

/// More than any network of the field has, and little enough that all products fit.
const MAX_SIZE: usize = 1 << 16;
/// The same for layers, and for experts of each: a hostile description must not list billions of tensors.
const MAX_COUNT: usize = 256;
/// All tensors together: as many as a file's header has room for.
const MAX_TENSORS: usize = 100_000;
/// All numbers together: ten times as many as the largest network of the field has.
const MAX_NUMBERS: usize = 1 << 31;

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

    /// Whether it can be built.
    pub fn check(&self) -> Result<(), ArchitectureError> {
        let impossible =
            |key, problem: &str| Err(ArchitectureError::Impossible { key, problem: problem.into() });
        let sized = |key: &'static str, size: usize| within(key, size, MAX_SIZE);
        let Self { input, embedding, body, heads } = self;
        let text = *input == Input::Text;
        sized("body.width", body.width)?;
        within("body.layers", body.layers, MAX_COUNT)?;
        sized("body.heads", body.heads)?;
        if !body.width.is_multiple_of(body.heads) {
            return impossible("body.heads", "they must share the width in equal parts");
        }
        if !(body.norm.epsilon > 0.0 && body.norm.epsilon < 1.0) {
            return impossible("body.norm.epsilon", "must be between 0 and 1");
        }
        if body.norm.deepnorm && body.norm.place == NormPlace::Pre {
            return impossible("body.norm.deepnorm", "belongs to norms after the branch: place = \"post\"");
        }
        if body.mask == Mask::Prefix && heads.action_value.is_none() {
            return impossible("body.mask", "prefix is for networks of action values, which read a move");
        }
        if let Embedding::DenseBoard(board) = embedding {
            if text {
                return impossible("embedding.kind", "dense-board needs a token for each square");
            }
            sized("embedding.channels", board.channels)?;
            sized("embedding.feed_forward", board.feed_forward)?;
        }
        match &body.attention {
            Attention::Plain { .. } => {}
            _ if text => {
                return impossible("body.attention.kind", "pairs of squares need a token for each square");
            }
            Attention::Bias { .. } => {}
            Attention::Smolgen(smolgen) => {
                sized("body.attention.compressed", smolgen.compressed)?;
                sized("body.attention.hidden", smolgen.hidden)?;
                sized("body.attention.generated", smolgen.generated)?;
            }
        }
        match &body.feed_forward {
            FeedForward::Dense { width, .. } | FeedForward::Gated { width, .. } => {
                sized("body.feed_forward.width", *width)?;
            }
            FeedForward::Experts(experts) => {
                sized("body.feed_forward.width", experts.width)?;
                within("body.feed_forward.count", experts.count, MAX_COUNT)?;
                if !(1..=experts.count).contains(&experts.chosen) {
                    return impossible("body.feed_forward.chosen", "must be from 1 to count");
                }
            }
        }
        self.check_heads(text)?;
        let tensors = self.tensors();
        if tensors.len() > MAX_TENSORS {
            let problem = format!("{} tensors are too many: {MAX_TENSORS} are the most", tensors.len());
            return impossible("body", &problem);
        }
        let numbers: usize = tensors.iter().map(TensorSpec::len).sum();
        if numbers > MAX_NUMBERS {
            let problem = format!("{numbers} numbers are too many for a network: {MAX_NUMBERS} are the most");
            return impossible("body", &problem);
        }
        Ok(())
    }

    fn check_heads(&self, text: bool) -> Result<(), ArchitectureError> {
        let impossible =
            |key, problem: &str| Err(ArchitectureError::Impossible { key, problem: problem.into() });
        let Heads { action_value, state_value, policy, moves_left, move_value, .. } = &self.heads;
        let values = self.heads.values();
        let of_text = [("heads.action_value", action_value), ("heads.state_value", state_value)];
        for (key, head) in of_text {
            if let Some(head) = head {
                if !text {
                    return impossible(key, "needs input = \"text\"");
                }
                if !(2..=VOCABULARY).contains(&head.buckets) {
                    return impossible(key, "buckets must be from 2 to 1968");
                }
            }
        }
        if action_value.is_some() && (state_value.is_some() || policy.is_some()) {
            return impossible("heads.action_value", "stands alone: the last token is a move");
        }
        let of_squares = [
            ("heads.value", values[0].1.is_some()),
            ("heads.search_value", values[1].1.is_some()),
            ("heads.short_term", values[2].1.is_some()),
            ("heads.moves_left", moves_left.is_some()),
            ("heads.move_value", move_value.is_some()),
        ];
        for (key, there) in of_squares {
            if there && text {
                return impossible(key, "needs a token for each square");
            }
        }
        for ((_, head), [channels, hidden, buckets]) in values.iter().zip(VALUE_KEYS) {
            let Some(head) = head else { continue };
            within(channels, head.channels, MAX_SIZE)?;
            within(hidden, head.hidden, MAX_SIZE)?;
            if head.buckets > VOCABULARY {
                return impossible(buckets, "must be at most 1968");
            }
        }
        if let Some(head) = moves_left {
            within("heads.moves_left.channels", head.channels, MAX_SIZE)?;
            within("heads.moves_left.hidden", head.hidden, MAX_SIZE)?;
        }
        if let Some(head) = move_value {
            within("heads.move_value.width", head.width, MAX_SIZE)?;
        }
        match policy {
            Some(PolicyHead { kind: PolicyKind::Attention, width, beside }) => {
                if beside.iter().enumerate().any(|(index, target)| beside[..index].contains(target)) {
                    return impossible("heads.policy.beside", "names one twice");
                }
                if text {
                    return impossible("heads.policy.kind", "attention needs a token for each square");
                }
                within("heads.policy.width", *width, MAX_SIZE)?;
            }
            Some(PolicyHead { kind: PolicyKind::Actions, beside, width }) => {
                if !text {
                    return impossible("heads.policy.kind", "actions need input = \"text\"");
                }
                if !beside.is_empty() {
                    return impossible("heads.policy.beside", "belongs to kind = \"attention\"");
                }
                if *width != 0 {
                    return impossible("heads.policy.width", "belongs to kind = \"attention\"");
                }
            }
            None => {}
        }
        let any = action_value.is_some()
            || state_value.is_some()
            || policy.is_some()
            || of_squares.iter().any(|&(_, there)| there);
        if any { Ok(()) } else { impossible("heads", "a network without a head says nothing") }
    }
}

/// What is wrong with the sizes of the value heads is told by these.
const VALUE_KEYS: [[&str; 3]; 3] = [
    ["heads.value.channels", "heads.value.hidden", "heads.value.buckets"],
    ["heads.search_value.channels", "heads.search_value.hidden", "heads.search_value.buckets"],
    ["heads.short_term.channels", "heads.short_term.hidden", "heads.short_term.buckets"],
];

fn within(key: &'static str, size: usize, most: usize) -> Result<(), ArchitectureError> {
    if (1..=most).contains(&size) {
        return Ok(());
    }
    Err(ArchitectureError::Impossible { key, problem: format!("{size} is not from 1 to {most}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(preset: Preset, from: &str, to: &str) -> String {
        let text = preset.architecture().to_toml();
        assert!(text.contains(from), "{text}");
        Architecture::from_toml(&text.replacen(from, to, 1)).unwrap_err().to_string()
    }

    #[test]
    fn a_description_goes_to_text_and_back() {
        for preset in Preset::ALL {
            let architecture = preset.architecture();
            assert_eq!(Architecture::from_toml(&architecture.to_toml()).unwrap(), architecture);
        }
    }

    #[test]
    fn what_makes_no_network_is_told_by_its_key() {
        let told = [
            (Preset::Byte, "heads = 4", "heads = 5", "body.heads: they must share"),
            (Preset::Byte, "chosen = 2", "chosen = 9", "body.feed_forward.chosen"),
            (Preset::Byte, "width = 64", "width = 0", "body.width: 0 is not from 1"),
            (Preset::Byte, "buckets = 128", "buckets = 1", "heads.action_value: buckets"),
            (
                Preset::BtSmall,
                "input = \"lone-planes\"",
                "input = \"text\"",
                "embedding.kind: dense-board needs",
            ),
            (Preset::BtSmall, "layers = 8", "layers = 99999999", "body.layers: 99999999 is not"),
            (Preset::BtSmall, "place = \"post\"", "place = \"pre\"", "body.norm.deepnorm"),
            (Preset::BtSmall, "layers = 8", "layers = 8\nlairs = 9", "unknown field `lairs`"),
        ];
        for (preset, from, to, expected) in told {
            let message = changed(preset, from, to);
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn what_is_too_large_is_told_before_anything_is_made() {
        let told = |preset: Preset, change: &dyn Fn(&mut Architecture)| {
            let mut architecture = preset.architecture();
            change(&mut architecture);
            architecture.check().unwrap_err().to_string()
        };
        let message = told(Preset::BtSmall, &|network| network.body.width = MAX_SIZE);
        assert!(message.contains("numbers are too many for a network"), "{message}");
        let message = told(Preset::Byte, &|network| {
            network.body.layers = MAX_COUNT;
            if let FeedForward::Experts(experts) = &mut network.body.feed_forward {
                experts.count = MAX_COUNT;
            }
        });
        assert!(message.contains("tensors are too many"), "{message}");
        let message = told(Preset::BtSmall, &|network| {
            network.heads.short_term = Some(ValueHead { channels: 8, hidden: 0, error: false, buckets: 0 });
        });
        assert_eq!(message, "heads.short_term.hidden: 0 is not from 1 to 65536");
    }
}
