//! Looking on while a network runs.

/// Somebody who looks on while a network runs, by [`crate::Network::run_observed`]. The unit type sees nothing and costs
/// nothing.
pub trait Observer {
    /// A block begins: what comes next is of this layer.
    fn layer(&mut self, _layer: usize) {}

    /// A head of attention has looked from some tokens. In the last layer of a network that reads text only those tokens
    /// look that a head of outputs reads.
    fn look(&mut self, _look: &Look<'_>) {}
}

impl Observer for () {}

/// What a head of attention saw from some tokens of a position that follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// Which position.
    pub position: usize,
    /// For a network that reads each move with a position of its own, which of the position's moves.
    pub action: Option<usize>,
    /// Which head.
    pub head: usize,
    /// The first token that looks. Where the position does not see its moves, those are tokens after its own.
    pub first: usize,
    /// How many tokens each sees. A move that nobody sees sees itself last.
    pub seen: usize,
    /// A row of at least so many numbers for each token that looks.
    pub(super) scores: &'a [f32],
    pub(super) columns: usize,
    /// What the numbers of each row are to be multiplied by.
    pub(super) factors: &'a [f32],
    pub(super) added: Option<&'a [f32]>,
}

impl Look<'_> {
    /// The tokens that look, and for each by what weights it sees: they add up to one.
    pub fn weights(&self) -> impl Iterator<Item = (usize, impl Iterator<Item = f32>)> {
        let rows = self.scores.chunks_exact(self.columns).zip(self.factors).enumerate();
        rows.map(|(index, (row, factor))| {
            (self.first + index, row[..self.seen].iter().map(move |score| score * factor))
        })
    }

    /// The same for the logits of pairs that smolgen or a learned table added before the weights were made of them, if
    /// the network has either.
    pub fn added(&self) -> Option<impl Iterator<Item = (usize, &[f32])>> {
        let rows = self.added?.chunks_exact(self.seen).take(self.factors.len()).enumerate();
        Some(rows.map(|(index, row)| (self.first + index, row)))
    }
}
