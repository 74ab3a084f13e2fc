//! Results of a forward pass, as plain values and logits; [`crate::legal`] and [`crate::encoding`] turn them
//! into probabilities.

use crate::PolicyTarget;

/// Outputs of all heads for a position, or for a move of it. Fields of heads that the network lacks are
/// empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outputs {
    /// Logits of the win probability after the move, over the buckets of the head.
    pub action_value: Vec<f32>,
    /// Logits of the win probability of the position, over the buckets of the head.
    pub state_value: Vec<f32>,
    /// Policy logits, by move index in lc0's order or in that of searchless chess (see
    /// [`crate::PolicyKind`]).
    pub policy: Vec<f32>,
    /// Logits of the auxiliary policies, in the architecture's order.
    pub aux_policies: Vec<(PolicyTarget, Vec<f32>)>,
    /// Value heads: game result, search result and short-term value.
    pub values: [Option<ValueOutput>; 3],
    /// Expected number of plies until the end of the game, not negative.
    pub moves_left: Option<f32>,
    /// Value after each of lc0's 1858 moves, from -1 to 1.
    pub move_value: Vec<f32>,
}

/// Outputs of one value head, for the side to move.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueOutput {
    /// Logits of win, draw and loss; their softmax are the probabilities.
    pub wdl: [f32; 3],
    /// Expected squared error of the value, from 0 to 1.
    pub error: Option<f32>,
    /// Logits of the value distribution over buckets; empty if the head has none.
    pub buckets: Vec<f32>,
}
