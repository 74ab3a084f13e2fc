//! Results of a forward pass, as plain values and logits; [`crate::legal`] and [`crate::encoding`] turn them
//! into probabilities.

use crate::PolicyTarget;

/// Outputs of all heads for a position, or for a move of it. Fields of heads that the network lacks are
/// empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outputs {
    /// Logits of the mover's win probability after the move, one for each interval of the head (see
    /// [`crate::BucketHead`]).
    pub action_value: Vec<f32>,
    /// Logits of the win probability for the side to move, one for each interval of the head (see
    /// [`crate::BucketHead`]).
    pub state_value: Vec<f32>,
    /// Policy logits, one for each move of lc0's list or of that of searchless chess (see
    /// [`crate::PolicyKind`]), legal or not.
    pub policy: Vec<f32>,
    /// Logits of the auxiliary policies with their targets, in the order of
    /// [`crate::PolicyHead::aux_targets`].
    pub aux_policies: Vec<(PolicyTarget, Vec<f32>)>,
    /// Outputs of the value heads for game result, search result and short-term value; `None` for those that
    /// the network lacks.
    pub values: [Option<ValueOutput>; 3],
    /// Expected number of plies until the end of the game, at least 0; `None` without this head.
    pub moves_left: Option<f32>,
    /// Value for the side to move after each of lc0's 1858 moves, legal or not, from -1 (loss) to 1 (win).
    pub move_value: Vec<f32>,
}

/// Outputs of one value head, for the side to move.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueOutput {
    /// Logits of win, draw and loss; their softmax are the probabilities.
    pub wdl: [f32; 3],
    /// Expected squared error of the value, from 0 to 1; `None` if the head has no error output.
    pub error: Option<f32>,
    /// Logits of the distribution of the value, one for each interval; empty if the head has none.
    pub buckets: Vec<f32>,
}
