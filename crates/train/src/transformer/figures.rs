//! What is measured of a transformer.

use super::targets::HeadWeights;

/// A part of a network that has a loss of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Head {
    /// The chance to win after a move: surprise at the bucket.
    ActionValue,
    /// The chance to win: surprise at the bucket.
    StateValue,
    /// The move: surprise, of legal moves alone.
    Policy,
    /// The same, softened.
    SoftPolicy,
    /// The move in games that went better than thought.
    OptimisticPolicy,
    /// The opponent's answer: surprise, of all moves.
    OpponentPolicy,
    /// How the game ends: surprise.
    Value,
    /// What a search finds: surprise.
    SearchValue,
    /// How the next moves go: surprise.
    ShortTerm,
    /// Foretold errors of the three values: the squares of the differences to the squares of the errors, added up.
    Error,
    /// Buckets of the three values: surprise, added up.
    ValueBuckets,
    /// Plies that are left: the square of the difference, in [`MOVES_LEFT_UNIT`](super::MOVES_LEFT_UNIT)s, bent at [`MOVES_LEFT_BEND`](super::MOVES_LEFT_BEND).
    MovesLeft,
    /// The value after the move that was played: the square of the difference.
    MoveValue,
}

impl Head {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::ActionValue,
        Self::StateValue,
        Self::Policy,
        Self::SoftPolicy,
        Self::OptimisticPolicy,
        Self::OpponentPolicy,
        Self::Value,
        Self::SearchValue,
        Self::ShortTerm,
        Self::Error,
        Self::ValueBuckets,
        Self::MovesLeft,
        Self::MoveValue,
    ];

    /// What it is called in a recipe's weights.
    pub fn name(self) -> &'static str {
        match self {
            Self::ActionValue => "action_value",
            Self::StateValue => "state_value",
            Self::Policy => "policy",
            Self::SoftPolicy => "soft_policy",
            Self::OptimisticPolicy => "optimistic_policy",
            Self::OpponentPolicy => "opponent_policy",
            Self::Value => "value",
            Self::SearchValue => "search_value",
            Self::ShortTerm => "short_term",
            Self::Error => "error",
            Self::ValueBuckets => "value_buckets",
            Self::MovesLeft => "moves_left",
            Self::MoveValue => "move_value",
        }
    }

    /// How much it counts.
    pub fn weight(self, weights: &HeadWeights) -> f64 {
        match self {
            Self::ActionValue => weights.action_value,
            Self::StateValue => weights.state_value,
            Self::Policy => weights.policy,
            Self::SoftPolicy => weights.soft_policy,
            Self::OptimisticPolicy => weights.optimistic_policy,
            Self::OpponentPolicy => weights.opponent_policy,
            Self::Value => weights.value,
            Self::SearchValue => weights.search_value,
            Self::ShortTerm => weights.short_term,
            Self::Error => weights.error,
            Self::ValueBuckets => weights.value_buckets,
            Self::MovesLeft => weights.moves_left,
            Self::MoveValue => weights.move_value,
        }
    }
}

/// Something that is measured. Each is a mean over the samples, or the positions, that have what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Figure {
    /// The loss of a head.
    Loss(Head),
    /// How often the likeliest bucket is the right one.
    BucketTop1,
    /// How often the right bucket is among the five likeliest.
    BucketTop5,
    /// How often the likeliest legal move is the right one.
    PolicyTop1,
    /// How often the right move is among the three likeliest.
    PolicyTop3,
    /// Among the five.
    PolicyTop5,
    /// How often the right move has more than 1 %.
    PolicyAbove1,
    /// More than 2 %.
    PolicyAbove2,
    /// More than 5 %.
    PolicyAbove5,
    /// More than 10 %.
    PolicyAbove10,
    /// The policy's loss less what no policy could avoid.
    ReduciblePolicyLoss,
    /// How long a search would take to find the right move: the mean of 1 / (its share + 0.003).
    SearchPolicyLoss,
    /// How often the likeliest end is the likeliest one of the target.
    ValueAccuracy,
    /// The mean square of the value's error, from −1 for a loss to 1 for a win; that of the chance to win in buckets where a
    /// network has no value.
    ValueError,
    /// In positions whose moves are all judged: how often the best one in the network's eyes is a best one.
    ActionAccuracy,
    /// There: how the network's order of moves agrees with the right one, as Kendall's τ-b.
    KendallTau,
    /// The same as searchless chess computes it, for comparing with its figures.
    SearchlessTau,
}

const HEADS: usize = Head::ALL.len();
const OTHERS: [Figure; 16] = [
    Figure::BucketTop1,
    Figure::BucketTop5,
    Figure::PolicyTop1,
    Figure::PolicyTop3,
    Figure::PolicyTop5,
    Figure::PolicyAbove1,
    Figure::PolicyAbove2,
    Figure::PolicyAbove5,
    Figure::PolicyAbove10,
    Figure::ReduciblePolicyLoss,
    Figure::SearchPolicyLoss,
    Figure::ValueAccuracy,
    Figure::ValueError,
    Figure::ActionAccuracy,
    Figure::KendallTau,
    Figure::SearchlessTau,
];
/// How many there are.
pub(super) const FIGURES: usize = HEADS + OTHERS.len();

impl Figure {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        Head::ALL.into_iter().map(Self::Loss).chain(OTHERS)
    }

    /// What it is called in logs.
    pub fn name(self) -> String {
        let name = match self {
            Self::Loss(head) => return format!("{}_loss", head.name()),
            Self::BucketTop1 => "bucket_top1",
            Self::BucketTop5 => "bucket_top5",
            Self::PolicyTop1 => "policy_top1",
            Self::PolicyTop3 => "policy_top3",
            Self::PolicyTop5 => "policy_top5",
            Self::PolicyAbove1 => "policy_above_1",
            Self::PolicyAbove2 => "policy_above_2",
            Self::PolicyAbove5 => "policy_above_5",
            Self::PolicyAbove10 => "policy_above_10",
            Self::ReduciblePolicyLoss => "reducible_policy_loss",
            Self::SearchPolicyLoss => "search_policy_loss",
            Self::ValueAccuracy => "value_accuracy",
            Self::ValueError => "value_mse",
            Self::ActionAccuracy => "action_accuracy",
            Self::KendallTau => "kendall_tau",
            Self::SearchlessTau => "searchless_tau",
        };
        name.into()
    }

    /// Where it stands among all.
    pub(super) fn place(self) -> usize {
        match self {
            Self::Loss(head) => head as usize,
            other => HEADS + OTHERS.iter().position(|figure| *figure == other).unwrap_or_default(),
        }
    }
}
