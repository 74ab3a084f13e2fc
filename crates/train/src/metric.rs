//! The registry of metrics: every figure by which networks of any kind are compared, declared once with its tag
//! in logs, its label in tables and its unit. Log lines, TensorBoard tags, JSON lines and tables derive from it.

use crate::transformer::HeadWeights;

/// Unit of a metric, which decides how its values are written for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// A plain number with this many decimal places.
    Plain(usize),
    /// A fraction from 0 to 1, written as a percentage with two decimal places.
    Fraction,
    /// Centipawns with one decimal place.
    Centipawns,
}

/// Declares the heads of transformers: variant, key in `targets.weights` and start of the tag in logs, and label
/// of the loss in tables.
macro_rules! heads {
    ($($(#[$doc:meta])* $variant:ident, $name:ident, $label:literal;)*) => {
        /// A head of a network that has a loss of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Head {
            $($(#[$doc])* $variant,)*
        }

        impl Head {
            /// All heads, in the order in which their losses stand among the metrics.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Name of the head: its key in `targets.weights`, and the start of its tag in logs.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($name),)*
                }
            }

            /// Weight of the head's loss in the total, as the recipe has it.
            pub fn weight(self, weights: &HeadWeights) -> f64 {
                match self {
                    $(Self::$variant => weights.$name,)*
                }
            }

            /// Label of the head's loss in tables.
            fn loss_label(self) -> &'static str {
                match self {
                    $(Self::$variant => $label,)*
                }
            }
        }
    };
}

heads! {
    /// Win probability after the move in the input: cross-entropy over its buckets.
    ActionValue, action_value, "bucket loss";
    /// Win probability of the side to move: cross-entropy over its buckets.
    StateValue, state_value, "state value loss";
    /// Best move: cross-entropy over the legal moves, so illegal moves do not count.
    Policy, policy, "policy loss";
    /// Best move, with the target softened by [`SOFT_TEMPERATURE`](crate::transformer::SOFT_TEMPERATURE):
    /// cross-entropy over the legal moves.
    SoftPolicy, soft_policy, "soft policy loss";
    /// Best move, weighted by how much better the game ended than the value head expected: cross-entropy over
    /// the legal moves.
    OptimisticPolicy, optimistic_policy, "optimistic policy loss";
    /// The opponent's reply: cross-entropy over all moves, because the legal replies are not known.
    OpponentPolicy, opponent_policy, "opponent policy loss";
    /// Result of the game: cross-entropy over win, draw and loss.
    Value, value, "value loss";
    /// Win, draw and loss by the score of a search: cross-entropy.
    SearchValue, search_value, "search value loss";
    /// Win, draw and loss by the scores of the next plies: cross-entropy.
    ShortTerm, short_term, "short-term loss";
    /// Predicted squared errors of the three value heads: squared difference to the errors that they made,
    /// summed over the heads.
    Error, error, "error loss";
    /// Buckets of the three value heads: cross-entropy, summed over the heads.
    ValueBuckets, value_buckets, "value bucket loss";
    /// Plies to the end of the game: Huber loss in units of
    /// [`MOVES_LEFT_UNIT`](crate::transformer::MOVES_LEFT_UNIT) plies, with
    /// [`MOVES_LEFT_HUBER_DELTA`](crate::transformer::MOVES_LEFT_HUBER_DELTA) as δ.
    MovesLeft, moves_left, "moves-left loss";
    /// Value after the move that was played, from −1 to 1: squared error.
    MoveValue, move_value, "move value loss";
}

/// Declares the metrics that are not losses of heads: variant, tag in logs after `validation/`, label in tables,
/// and unit. All are means over the positions that have the labels and outputs they need, except the correlation.
macro_rules! metrics {
    ($($(#[$doc:meta])* $variant:ident, $tag:literal, $label:literal, $unit:expr;)*) => {
        /// A figure by which networks are compared: the mean over the samples, or over the positions, that have
        /// the labels and outputs it needs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Metric {
            /// The loss of a transformer's head, without its weight in the total.
            Loss(Head),
            $($(#[$doc])* $variant,)*
        }

        /// The metrics without the losses of heads, in the order of their indices.
        enum Other {
            $($variant,)*
        }

        const OTHERS: &[Metric] = &[$(Metric::$variant,)*];

        impl Metric {
            /// Index of the metric in the order of [`Metric::all`], which is its place in arrays of sums.
            pub(crate) fn index(self) -> usize {
                match self {
                    Self::Loss(head) => head as usize,
                    $(Self::$variant => Head::ALL.len() + Other::$variant as usize,)*
                }
            }

            /// Tag, label and unit of the metric.
            fn info(self) -> (String, &'static str, Unit) {
                match self {
                    Self::Loss(head) => (format!("{}_loss", head.name()), head.loss_label(), Unit::Plain(4)),
                    $(Self::$variant => ($tag.into(), $label, $unit),)*
                }
            }
        }
    };
}

metrics! {
    /// Training loss of an NNUE or a selector: the validation loss that decides on the best checkpoint.
    TargetLoss, "loss", "loss", Unit::Plain(6);
    /// Mean absolute error of the network's scores against the labels' scores. Labels beyond
    /// [`MAX_LABEL_CENTIPAWNS`](crate::MAX_LABEL_CENTIPAWNS) are left out.
    Mae, "mae", "MAE", Unit::Centipawns;
    /// Fraction of decisive games in which the sign of the score favours the winner; a score of exactly zero
    /// counts half.
    SignAccuracy, "sign_accuracy", "sign accuracy", Unit::Fraction;
    /// Fraction of games that ended as [`likely_outcome`](crate::likely_outcome) predicts from the network's
    /// score.
    WdlAccuracy, "wdl_accuracy", "WDL accuracy", Unit::Fraction;
    /// Pearson correlation of the network's scores with the labels', both in centipawns, from -1 to 1. Labels
    /// beyond [`MAX_LABEL_CENTIPAWNS`](crate::MAX_LABEL_CENTIPAWNS) are left out.
    Correlation, "correlation", "correlation", Unit::Plain(4);
    /// Fraction of samples whose most probable bucket is that of the label.
    BucketTop1, "bucket_top1", "bucket top 1", Unit::Fraction;
    /// Fraction of samples whose label is among the five most probable buckets.
    BucketTop5, "bucket_top5", "bucket top 5", Unit::Fraction;
    /// Fraction of positions in which the most probable legal move is the label.
    PolicyTop1, "policy_top1", "top 1", Unit::Fraction;
    /// Fraction of positions in which the label is among the three most probable moves.
    PolicyTop3, "policy_top3", "top 3", Unit::Fraction;
    /// Fraction of positions in which the label is among the five most probable moves.
    PolicyTop5, "policy_top5", "top 5", Unit::Fraction;
    /// Fraction of positions in which the policy gives the label more than 1 %.
    PolicyAbove1, "policy_above_1", "above 1 %", Unit::Fraction;
    /// Fraction of positions in which the policy gives the label more than 2 %.
    PolicyAbove2, "policy_above_2", "above 2 %", Unit::Fraction;
    /// Fraction of positions in which the policy gives the label more than 5 %.
    PolicyAbove5, "policy_above_5", "above 5 %", Unit::Fraction;
    /// Fraction of positions in which the policy gives the label more than 10 %.
    PolicyAbove10, "policy_above_10", "above 10 %", Unit::Fraction;
    /// The policy's loss minus the entropy of its smoothed target, which no policy can go below.
    ReduciblePolicyLoss, "reducible_policy_loss", "reducible loss", Unit::Plain(4);
    /// Expected effort of a search to find the move of the record: the mean of 1 / (the policy's probability
    /// of it + 0.003), from about 1 to 333.
    SearchPolicyLoss, "search_policy_loss", "search loss", Unit::Plain(4);
    /// Fraction of samples in which the most probable outcome (win, draw or loss) is that of the label.
    ValueAccuracy, "value_accuracy", "WDL accuracy", Unit::Fraction;
    /// Mean squared error of the predicted value against the label, both from −1 for a loss to 1 for a win.
    /// For networks without a value head, the value is the win probability of their buckets, scaled to the
    /// same range.
    ValueError, "value_mse", "value MSE", Unit::Plain(4);
    /// Fraction of positions in which the move that the network scores highest is a best one, among positions
    /// whose moves all have labels.
    ActionAccuracy, "action_accuracy", "best action", Unit::Fraction;
    /// Kendall's τ-b between the network's order of the moves and the labels', among positions whose moves
    /// all have labels.
    KendallTau, "kendall_tau", "Kendall tau", Unit::Plain(4);
    /// Kendall's τ as searchless chess computes it, for comparison with its published figures.
    SearchlessTau, "searchless_tau", "searchless tau", Unit::Plain(4);
}

/// Number of metrics, which is the length of a group's sums.
pub(crate) const NUM_METRICS: usize = Head::ALL.len() + OTHERS.len();

impl Metric {
    /// All metrics, the losses of the heads first, then the others.
    pub fn all() -> impl Iterator<Item = Self> {
        Head::ALL.iter().copied().map(Self::Loss).chain(OTHERS.iter().copied())
    }

    /// Tag of the metric in logs, after `validation/`: for example `policy_loss` or `policy_top1`.
    pub fn tag(self) -> String {
        self.info().0
    }

    /// Label of the metric in lines and tables, for example `top 1`.
    pub fn label(self) -> &'static str {
        self.info().1
    }

    fn unit(self) -> Unit {
        self.info().2
    }

    /// Factor by which values are multiplied for people, and their number of decimal places: fractions are
    /// shown as percentages.
    pub fn scale(self) -> (f64, usize) {
        match self.unit() {
            Unit::Plain(places) => (1.0, places),
            Unit::Fraction => (100.0, 2),
            Unit::Centipawns => (1.0, 1),
        }
    }

    /// Heading of a column with the metric: the label, and the unit if the cells lack it.
    pub fn column(self) -> String {
        match self.unit() {
            Unit::Centipawns => format!("{} cp", self.label()),
            _ => self.label().into(),
        }
    }

    /// A value as the cell of such a column, or `-` if it is missing.
    pub fn cell(self, value: Option<f64>) -> String {
        let Some(value) = value else { return "-".into() };
        let (factor, places) = self.scale();
        let suffix = if self.unit() == Unit::Fraction { " %" } else { "" };
        format!("{:.places$}{suffix}", factor * value)
    }

    /// A value with its unit, for a line of text.
    pub fn text(self, value: f64) -> String {
        let cell = self.cell(Some(value));
        if self.unit() == Unit::Centipawns { cell + " cp" } else { cell }
    }
}
