//! Observing attention weights during a forward pass, for visualisation and analysis.

/// Receives the attention weights of a forward pass from [`crate::Network::run_observed`]. The unit type `()`
/// ignores them at no cost.
pub trait AttentionObserver {
    /// Called before the views of each block; the first block has index 0.
    fn layer(&mut self, _layer: usize) {}

    /// Called after a head has computed its weights for some tokens. In the last layer of a network that
    /// reads text, only the tokens that output heads read are queries.
    fn attention(&mut self, _view: &AttentionView<'_>) {}
}

impl AttentionObserver for () {}

/// Attention weights of one head for consecutive query tokens of a position.
#[derive(Clone, Copy, Debug)]
pub struct AttentionView<'a> {
    /// Index of the position in the input of this forward pass.
    pub position: usize,
    /// Index of the move in the position's list of moves, for a network that computes a whole sequence for
    /// each move; `None` for others.
    pub action: Option<usize>,
    /// Index of the head within its layer, from 0.
    pub head: usize,
    /// Index of the first query token. If position tokens do not attend to moves, the moves follow the
    /// position's tokens.
    pub first: usize,
    /// Number of tokens that each query attends to. A move to which no other token attends has itself as the
    /// last of them.
    pub num_keys: usize,
    /// Unnormalised weights: a row of `columns` values for each query, of which the first `num_keys` count.
    pub(crate) scores: &'a [f32],
    pub(crate) columns: usize,
    /// Factor that normalises each row.
    pub(crate) factors: &'a [f32],
    pub(crate) added: Option<&'a [f32]>,
}

impl AttentionView<'_> {
    /// Query tokens, each with its attention weights, which add up to one.
    pub fn weights(&self) -> impl Iterator<Item = (usize, impl Iterator<Item = f32>)> {
        let rows = self.scores.chunks_exact(self.columns).zip(self.factors).enumerate();
        rows.map(|(index, (row, factor))| {
            (self.first + index, row[..self.num_keys].iter().map(move |score| score * factor))
        })
    }

    /// Query tokens, each with the logits that smolgen or a learned table added before the softmax; `None` if
    /// the network has neither.
    pub fn added_logits(&self) -> Option<impl Iterator<Item = (usize, &[f32])>> {
        let rows = self.added?.chunks_exact(self.num_keys).take(self.factors.len()).enumerate();
        Some(rows.map(|(index, row)| (self.first + index, row)))
    }
}
