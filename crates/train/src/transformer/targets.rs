//! What a transformer should come to.

use crate::recipe::{ALMOST_ONE, RecipeError, check_share, within};
use crate::schedule::{Schedule, number_or_schedule};
use serde::{Deserialize, Serialize};
use tandem_transformer::PolicyTarget;
use tandem_transformer::encoding::buckets;

/// What a transformer should come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Targets {
    /// The share of the game's result in the chance to win; the rest is the score's. Where a record has one of the two, that
    /// counts alone.
    #[serde(deserialize_with = "number_or_schedule")]
    pub result_share: Schedule,
    /// The same in what the value heads learn of the game's end: win, draw and loss.
    pub value_result_share: f64,
    /// Centipawns that stand for one before the sigmoid.
    pub scale: f64,
    /// This share of a policy's or a result's target is spread over all that could have been.
    pub label_smoothing: f64,
    /// How a chance to win is told in buckets.
    pub buckets: BucketTarget,
    /// How much each head counts.
    pub weights: HeadWeights,
}

/// How a chance to win is told in buckets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum BucketTarget {
    /// A normal distribution around it, so that buckets near by are less wrong than others.
    HlGauss {
        /// Its deviation in buckets.
        #[serde(default = "usual_sigma")]
        sigma: f64,
    },
    /// The one bucket that it falls into.
    CrossEntropy,
}

/// How much each head counts in the loss. Those that a network lacks are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HeadWeights {
    /// The chance to win after a move.
    pub action_value: f64,
    /// The chance to win.
    pub state_value: f64,
    /// The move.
    pub policy: f64,
    /// The move, softened.
    pub soft_policy: f64,
    /// The move in games that went better than thought.
    pub optimistic_policy: f64,
    /// The opponent's answer.
    pub opponent_policy: f64,
    /// How the game ends.
    pub value: f64,
    /// What a search finds.
    pub search_value: f64,
    /// How the next moves go.
    pub short_term: f64,
    /// The errors that the value heads foretell of themselves.
    pub error: f64,
    /// The value heads' buckets.
    pub value_buckets: f64,
    /// Plies that are left.
    pub moves_left: f64,
    /// The value after each move.
    pub move_value: f64,
    /// Tokens shared out unequally among experts.
    pub load_balance: f64,
    /// Large logits of the routers.
    pub router_z: f64,
}

impl HeadWeights {
    /// That of a policy beside the first one.
    pub fn beside(&self, target: PolicyTarget) -> f64 {
        match target {
            PolicyTarget::Soft => self.soft_policy,
            PolicyTarget::Optimistic => self.optimistic_policy,
            PolicyTarget::Opponent => self.opponent_policy,
        }
    }

    /// All of them with their keys.
    fn keyed(&self) -> [(&'static str, f64); 15] {
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

fn usual_sigma() -> f64 {
    buckets::SPREAD
}

impl Default for Targets {
    fn default() -> Self {
        Self {
            result_share: Schedule::Constant { value: 0.0 },
            value_result_share: 1.0,
            // The curve of searchless chess.
            scale: 271.6,
            label_smoothing: 0.0,
            buckets: BucketTarget::HlGauss { sigma: usual_sigma() },
            weights: HeadWeights::default(),
        }
    }
}

impl Default for HeadWeights {
    /// Those that lc0's networks are trained with; experts as in Switch transformers and ST-MoE.
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
    /// Whether its numbers can be.
    pub(super) fn check(&self) -> Result<(), RecipeError> {
        check_share("targets.result_share", &self.result_share)?;
        within("targets.value_result_share", self.value_result_share, 0.0, 1.0)?;
        within("targets.scale", self.scale, 1.0, 1e6)?;
        within("targets.label_smoothing", self.label_smoothing, 0.0, ALMOST_ONE)?;
        if let BucketTarget::HlGauss { sigma } = self.buckets {
            within("targets.buckets.sigma", sigma, 0.01, 1000.0)?;
        }
        for (key, weight) in self.weights.keyed() {
            within(key, weight, 0.0, 1e6)?;
        }
        Ok(())
    }
}
