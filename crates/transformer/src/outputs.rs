//! What a network says of a position.

use crate::PolicyTarget;

/// What a network says of a position. Heads that it lacks are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outputs {
    /// Logits of the chance to win after the move that was read.
    pub action_value: Vec<f32>,
    /// Logits of the chance to win.
    pub state_value: Vec<f32>,
    /// Logits of the moves, by their numbers in lc0's order or that of searchless chess.
    pub policy: Vec<f32>,
    /// Policies for other targets, in the architecture's order.
    pub beside: Vec<(PolicyTarget, Vec<f32>)>,
    /// How the game ends, what a search finds, how the next moves go.
    pub values: [Option<ValueOutput>; 3],
    /// Plies that are left.
    pub moves_left: Option<f32>,
    /// For each of lc0's moves the value after it, from -1 to 1.
    pub move_value: Vec<f32>,
}

/// What a head of values says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueOutput {
    /// Logits of win, draw and loss.
    pub wdl: [f32; 3],
    /// The square of the error that the value will have, as a chance from 0 to 1.
    pub error: Option<f32>,
    /// Logits of the value in buckets.
    pub buckets: Vec<f32>,
}
