//! The metrics of a transformer: the loss of each head, and accuracies that people compare networks by. The
//! names here are those of the keys in `targets.weights`, of the log and of TensorBoard.

use super::targets::HeadWeights;

/// A head of a network that has a loss of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Head {
    /// Win probability after the move in the input: cross-entropy over its buckets.
    ActionValue,
    /// Win probability of the side to move: cross-entropy over its buckets.
    StateValue,
    /// Best move: cross-entropy over the legal moves, so illegal moves do not count.
    Policy,
    /// Best move, with the target softened by [`SOFT_TEMPERATURE`](super::SOFT_TEMPERATURE): cross-entropy
    /// over the legal moves.
    SoftPolicy,
    /// Best move, weighted by how much better the game ended than the value head expected: cross-entropy over
    /// the legal moves.
    OptimisticPolicy,
    /// The opponent's reply: cross-entropy over all moves, because the legal replies are not known.
    OpponentPolicy,
    /// Result of the game: cross-entropy over win, draw and loss.
    Value,
    /// Win, draw and loss by the score of a search: cross-entropy.
    SearchValue,
    /// Win, draw and loss by the scores of the next plies: cross-entropy.
    ShortTerm,
    /// Predicted squared errors of the three value heads: squared difference to the errors that they made,
    /// summed over the heads.
    Error,
    /// Buckets of the three value heads: cross-entropy, summed over the heads.
    ValueBuckets,
    /// Plies to the end of the game: Huber loss in units of [`MOVES_LEFT_UNIT`](super::MOVES_LEFT_UNIT)
    /// plies, with [`MOVES_LEFT_HUBER_DELTA`](super::MOVES_LEFT_HUBER_DELTA) as δ.
    MovesLeft,
    /// Value after the move that was played, from −1 to 1: squared error.
    MoveValue,
}

impl Head {
    /// All heads, in the order in which their losses stand among the metrics.
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

    /// Name of the head: its key in `targets.weights`, and the start of its tag in logs.
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

    /// Weight of the head's loss in the total, as the recipe has it.
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

/// A figure by which networks are compared: the mean over the samples, or over the positions, that have the
/// labels and outputs it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// The loss of a head, without its weight in the total.
    Loss(Head),
    /// Fraction of samples whose most probable bucket is that of the label.
    BucketTop1,
    /// Fraction of samples whose label is among the five most probable buckets.
    BucketTop5,
    /// Fraction of positions in which the most probable legal move is the label.
    PolicyTop1,
    /// Fraction of positions in which the label is among the three most probable moves.
    PolicyTop3,
    /// Fraction of positions in which the label is among the five most probable moves.
    PolicyTop5,
    /// Fraction of positions in which the policy gives the label more than 1 %.
    PolicyAbove1,
    /// Fraction of positions in which the policy gives the label more than 2 %.
    PolicyAbove2,
    /// Fraction of positions in which the policy gives the label more than 5 %.
    PolicyAbove5,
    /// Fraction of positions in which the policy gives the label more than 10 %.
    PolicyAbove10,
    /// The policy's loss minus the entropy of its smoothed target, which no policy can go below.
    ReduciblePolicyLoss,
    /// Expected effort of a search to find the move of the record: the mean of 1 / (the policy's probability
    /// of it + 0.003), from about 1 to 333.
    SearchPolicyLoss,
    /// Fraction of samples in which the most probable outcome (win, draw or loss) is that of the label.
    ValueAccuracy,
    /// Mean squared error of the predicted value against the label, both from −1 for a loss to 1 for a win.
    /// For networks without a value head, the value is the win probability of their buckets, scaled to the
    /// same range.
    ValueError,
    /// Fraction of positions in which the move that the network scores highest is a best one, among positions
    /// whose moves all have labels.
    ActionAccuracy,
    /// Kendall's τ-b between the network's order of the moves and the labels', among positions whose moves
    /// all have labels.
    KendallTau,
    /// Kendall's τ as searchless chess computes it, for comparison with its published figures.
    SearchlessTau,
}

const HEADS: usize = Head::ALL.len();
const OTHERS: [Metric; 16] = [
    Metric::BucketTop1,
    Metric::BucketTop5,
    Metric::PolicyTop1,
    Metric::PolicyTop3,
    Metric::PolicyTop5,
    Metric::PolicyAbove1,
    Metric::PolicyAbove2,
    Metric::PolicyAbove5,
    Metric::PolicyAbove10,
    Metric::ReduciblePolicyLoss,
    Metric::SearchPolicyLoss,
    Metric::ValueAccuracy,
    Metric::ValueError,
    Metric::ActionAccuracy,
    Metric::KendallTau,
    Metric::SearchlessTau,
];
/// Number of metrics, which is the length of a group's means.
pub(super) const NUM_METRICS: usize = HEADS + OTHERS.len();

impl Metric {
    /// All metrics, the losses of the heads first, then the accuracies.
    pub fn all() -> impl Iterator<Item = Self> {
        Head::ALL.into_iter().map(Self::Loss).chain(OTHERS)
    }

    /// Tag of the metric in logs, after `validation/`: for example `policy_loss` or `policy_top1`.
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

    /// Index of the metric in the order of [`Metric::all`], which is its place in arrays of sums.
    pub(super) fn index(self) -> usize {
        match self {
            Self::Loss(head) => head as usize,
            other => HEADS + OTHERS.iter().position(|metric| *metric == other).unwrap_or_default(),
        }
    }
}
