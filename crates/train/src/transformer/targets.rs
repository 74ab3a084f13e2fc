//! Training targets of a transformer, and the weights of their losses.

use super::samples::SampleShape;
use crate::kinds::{kinds, table_field};
use crate::recipe::{ALMOST_ONE, RecipeError, check_fraction, within};
use crate::schedule::Schedule;
use serde::{Deserialize, Serialize};
use tandem_transformer::encoding::buckets;
use tandem_transformer::{Architecture, FeedForward, Heads, PolicyTarget};

/// The table `targets` of a transformer's recipe: how labels are made of records, and how much each head
/// counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Targets {
    /// Weight of the game result in the target win probability, from 0 (score only) to 1 (result only);
    /// default 0. A record that has only one of the two uses that one.
    pub wdl: Schedule,
    /// The same weight in the target of the value heads, which is win, draw and loss; default 1.
    pub value_wdl: f64,
    /// Centipawns per unit of the sigmoid that maps scores to win probabilities, default 271.6.
    pub scale: f64,
    /// Label smoothing of policy and value targets: the fraction that is spread evenly over all possible
    /// classes; default 0.
    pub label_smoothing: f64,
    /// Encoding of a win probability as a target over buckets; HL-Gauss with a deviation of 0.75 buckets by
    /// default.
    pub buckets: BucketTarget,
    /// Weights of the heads' losses in the total; 0 disables a head.
    pub weights: HeadWeights,
}

kinds! {
    /// Encoding of a win probability as a target over buckets.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub enum BucketTarget {
        /// HL-Gauss: a normal distribution around the value, so that neighbouring buckets cost less than
        /// distant ones.
        HlGauss = "hl-gauss" {
            /// Standard deviation of the distribution in buckets, default 0.75.
            sigma: f64 = buckets::HL_GAUSS_SIGMA,
        },
        /// One-hot: all probability in the bucket that contains the value, as in a plain classifier.
        CrossEntropy = "cross-entropy",
    }
}

table_field!(BucketTarget);

/// Weights of the heads in the total loss. Heads that a network does not have are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HeadWeights {
    /// Win probability after the move in the input, default 1.
    pub action_value: f64,
    /// Win probability of the position by its buckets, default 1.
    pub state_value: f64,
    /// Best move, as the record has it, default 1.
    pub policy: f64,
    /// Softened policy: the policy target at a higher temperature; default 8, as in lc0.
    pub soft_policy: f64,
    /// Optimistic policy, which favours moves of games that went better than expected; default 1.
    pub optimistic_policy: f64,
    /// Policy of the opponent's reply, an auxiliary task; default 0.1.
    pub opponent_policy: f64,
    /// Result of the game as win, draw and loss, default 1.
    pub value: f64,
    /// Win, draw and loss by the score of a search, default 1.
    pub search_value: f64,
    /// Win, draw and loss by the scores of the next plies, default 1.
    pub short_term: f64,
    /// Predicted errors of the value heads, default 1; their targets follow the value heads as these improve.
    pub error: f64,
    /// Buckets of the value heads, an auxiliary task; default 0.1.
    pub value_buckets: f64,
    /// Plies to the end of the game, an auxiliary task; default 1.
    pub moves_left: f64,
    /// Value after each move, trained for the move that was played; default 1.
    pub move_value: f64,
    /// Load-balancing loss of experts, default 0.01: the penalty for an unequal number of tokens per expert.
    pub load_balance: f64,
    /// Router z-loss of experts, default 0.001: the penalty for large router logits.
    pub router_z: f64,
}

impl HeadWeights {
    /// Weight of the loss of an auxiliary policy head, by the target that it is trained on.
    pub fn auxiliary_policy(&self, target: PolicyTarget) -> f64 {
        match target {
            PolicyTarget::Soft => self.soft_policy,
            PolicyTarget::Optimistic => self.optimistic_policy,
            PolicyTarget::Opponent => self.opponent_policy,
        }
    }

    /// Weights that no loss of a network is multiplied by, although they are neither 0 nor at their defaults;
    /// each with the full key in a recipe.
    fn without_head(&self, architecture: &Architecture) -> impl Iterator<Item = &'static str> {
        let Heads {
            action_value,
            state_value,
            policy,
            value,
            search_value,
            short_term,
            moves_left,
            move_value,
        } = &architecture.heads;
        let aux = |target| policy.as_ref().is_some_and(|head| head.aux_targets.contains(&target));
        let values = [value, search_value, short_term].map(Option::as_ref);
        let experts = matches!(architecture.body.feed_forward, FeedForward::Experts(_));
        let has_loss = [
            action_value.is_some(),
            state_value.is_some(),
            policy.is_some(),
            aux(PolicyTarget::Soft),
            aux(PolicyTarget::Optimistic),
            aux(PolicyTarget::Opponent),
            value.is_some(),
            search_value.is_some(),
            short_term.is_some(),
            values.iter().flatten().any(|head| head.error),
            values.iter().flatten().any(|head| head.buckets > 0),
            moves_left.is_some(),
            move_value.is_some(),
            experts,
            experts,
        ];
        let (weights, defaults) = (self.with_keys(), Self::default().with_keys());
        let all = weights.into_iter().zip(defaults).zip(has_loss);
        all.filter(|((weight, default), has_loss)| !has_loss && weight.1 != 0.0 && weight != default)
            .map(|((weight, _), _)| weight.0)
    }

    /// All weights with their full keys in a recipe, for messages about values out of range.
    fn with_keys(&self) -> [(&'static str, f64); 15] {
        [
            ("targets.weights.action_value", self.action_value),
            ("targets.weights.state_value", self.state_value),
            ("targets.weights.policy", self.policy),
            ("targets.weights.soft_policy", self.soft_policy),
            ("targets.weights.optimistic_policy", self.optimistic_policy),
            ("targets.weights.opponent_policy", self.opponent_policy),
            ("targets.weights.value", self.value),
            ("targets.weights.search_value", self.search_value),
            ("targets.weights.short_term", self.short_term),
            ("targets.weights.error", self.error),
            ("targets.weights.value_buckets", self.value_buckets),
            ("targets.weights.moves_left", self.moves_left),
            ("targets.weights.move_value", self.move_value),
            ("targets.weights.load_balance", self.load_balance),
            ("targets.weights.router_z", self.router_z),
        ]
    }
}

impl Default for Targets {
    fn default() -> Self {
        Self {
            wdl: Schedule::Constant { value: 0.0 },
            value_wdl: 1.0,
            // The scale of searchless chess.
            scale: 271.6,
            label_smoothing: 0.0,
            buckets: BucketTarget::HlGauss { sigma: buckets::HL_GAUSS_SIGMA },
            weights: HeadWeights::default(),
        }
    }
}

impl Default for HeadWeights {
    /// As lc0's networks are trained; for experts as in Switch Transformers and ST-MoE.
    fn default() -> Self {
        Self {
            action_value: 1.0,
            state_value: 1.0,
            policy: 1.0,
            soft_policy: 8.0,
            optimistic_policy: 1.0,
            opponent_policy: 0.1,
            value: 1.0,
            search_value: 1.0,
            short_term: 1.0,
            error: 1.0,
            value_buckets: 0.1,
            moves_left: 1.0,
            move_value: 1.0,
            load_balance: 0.01,
            router_z: 0.001,
        }
    }
}

impl Targets {
    /// Checks the ranges of all values; the error names the key and its range.
    pub(super) fn check(&self) -> Result<(), RecipeError> {
        check_fraction("targets.wdl", &self.wdl)?;
        within("targets.value_wdl", self.value_wdl, 0.0, 1.0)?;
        within("targets.scale", self.scale, 1.0, 1e6)?;
        within("targets.label_smoothing", self.label_smoothing, 0.0, ALMOST_ONE)?;
        if let BucketTarget::HlGauss { sigma } = self.buckets {
            within("targets.buckets.sigma", sigma, 0.01, 1000.0)?;
        }
        for (key, weight) in self.weights.with_keys() {
            within(key, weight, 0.0, 1e6)?;
        }
        Ok(())
    }
    /// Refuses values other than the defaults that have no effect on a network, because it lacks the heads
    /// that they are about.
    pub(super) fn check_heads(&self, architecture: &Architecture) -> Result<(), RecipeError> {
        let invalid = |key, problem: &str| Err(RecipeError::Invalid { key, problem: problem.into() });
        if let Some(key) = self.weights.without_head(architecture).next() {
            return invalid(
                key,
                "it has no effect: the network has no such head; leave it out, or set it to 0",
            );
        }
        let heads = &architecture.heads;
        let shape = SampleShape::of(architecture);
        let values = heads.values().map(|(_, head)| head);
        let has_buckets = heads.action_value.is_some()
            || heads.state_value.is_some()
            || values.iter().flatten().any(|head| head.buckets > 0);
        let has_classes = heads.policy.is_some() || values.iter().any(Option::is_some);
        let default = Self::default();
        for (key, has_effect, is_default) in [
            ("targets.wdl", shape.win_probability, self.wdl == default.wdl),
            ("targets.scale", shape.win_probability, self.scale == default.scale),
            ("targets.value_wdl", shape.wdl, self.value_wdl == default.value_wdl),
            ("targets.buckets", has_buckets, self.buckets == default.buckets),
            ("targets.label_smoothing", has_classes, self.label_smoothing == default.label_smoothing),
        ] {
            if !has_effect && !is_default {
                return invalid(key, "it has no effect: the network has no head whose target it changes");
            }
        }
        Ok(())
    }
}
