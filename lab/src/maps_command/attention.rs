//! Collects the attention of every head in one forward pass, by squares of the board.

use std::collections::BTreeMap;
use tandem_chess::{Color, Square};
use tandem_transformer::encoding::text;
use tandem_transformer::{Architecture, AttentionObserver, AttentionView, Input};

/// The meaning of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A square of the board.
    Square(Square),
    /// The move, for a network that reads one.
    Move,
    /// Another part of the text input, for example the castling rights.
    Text,
}

impl TokenKind {
    /// The meaning of a token, given the side to move.
    fn of(token: usize, input: Input, side: Color) -> Self {
        match input {
            Input::Text if token >= text::TOKENS => Self::Move,
            Input::Text => text::square_of(token).map_or(Self::Text, Self::Square),
            // The board is encoded from the view of the side to move.
            Input::Squares | Input::Planes | Input::PlanesSingle => {
                let flipped = if side == Color::White { 0 } else { 56 };
                Square::try_index(token ^ flipped).map_or(Self::Text, Self::Square)
            }
        }
    }
}

/// A value for each square.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SquareMap {
    pub(super) squares: [f32; 64],
    /// The sum over the move and the rest of the text.
    pub(super) other_tokens: f32,
}

impl SquareMap {
    const ZERO: Self = Self { squares: [0.0; 64], other_tokens: 0.0 };

    fn add(&mut self, kind: TokenKind, value: f32) {
        match kind {
            TokenKind::Square(square) => self.squares[square as usize] += value,
            TokenKind::Move | TokenKind::Text => self.other_tokens += value,
        }
    }

    /// The mean of some fields; zero if there are none.
    fn mean<'a>(fields: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let weight = 1.0 / fields.clone().count().max(1) as f32;
        let mut mean = Self::ZERO;
        for field in fields {
            mean.squares.iter_mut().zip(&field.squares).for_each(|(sum, value)| *sum += weight * value);
            mean.other_tokens += weight * field.other_tokens;
        }
        mean
    }
}

/// The quantity that is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Quantity {
    /// Attention weights: the distribution over all tokens that each square attends to, 100 % in total
    Attention,
    /// Logits (attention biases) that smolgen or a learned bias adds to the attention between each pair of
    /// squares, minus their mean
    #[value(alias = "smolgen", alias = "bias")]
    Pairs,
}

/// The attention of one head.
#[derive(Clone, Debug, Default)]
pub(super) struct HeadMap {
    /// The query of each row with the values of all keys.
    pub(super) rows: Vec<(TokenKind, SquareMap)>,
}

impl HeadMap {
    /// The row of a query; `None` if the head has none for it.
    pub(super) fn from(&self, kind: TokenKind) -> Option<&SquareMap> {
        self.rows.iter().find(|(from, _)| *from == kind).map(|(_, field)| field)
    }

    /// True if squares are queries. In the last layer of a network that reads text they are not.
    pub(super) fn has_squares(&self) -> bool {
        self.rows.iter().any(|(from, _)| matches!(from, TokenKind::Square(_)))
    }

    /// The mean over the queries: over the squares if there are any, otherwise over all rows.
    pub(super) fn mean(&self) -> SquareMap {
        let squares = self.has_squares();
        let counts = |from: &TokenKind| matches!(from, TokenKind::Square(_)) || !squares;
        SquareMap::mean(self.rows.iter().filter(|(from, _)| counts(from)).map(|(_, field)| field))
    }
}

/// Observes the forward pass of one position, with at most one move of it.
pub(super) struct AttentionCollector {
    show: Quantity,
    input: Input,
    side: Color,
    layer: usize,
    /// The collected attention by layer and head.
    pub(super) heads: BTreeMap<(usize, usize), HeadMap>,
}

impl AttentionCollector {
    pub(super) fn new(show: Quantity, architecture: &Architecture, side: Color) -> Self {
        Self { show, input: architecture.input, side, layer: 0, heads: BTreeMap::new() }
    }

    fn field(&self, values: impl Iterator<Item = f32>) -> SquareMap {
        let mut field = SquareMap::ZERO;
        for (token, value) in values.enumerate() {
            field.add(TokenKind::of(token, self.input, self.side), value);
        }
        field
    }
}

impl AttentionObserver for AttentionCollector {
    fn layer(&mut self, layer: usize) {
        self.layer = layer;
    }

    fn attention(&mut self, view: &AttentionView<'_>) {
        let mut rows = Vec::new();
        match self.show {
            Quantity::Attention => {
                let rows_of_weights = view.weights();
                rows.extend(rows_of_weights.map(|(token, weights)| (token, self.field(weights))));
            }
            Quantity::Pairs => {
                for (token, logits) in view.added_logits().into_iter().flatten() {
                    // A value that is the same for all squares changes no weight, because of the softmax.
                    let mean = logits.iter().sum::<f32>() / logits.len() as f32;
                    rows.push((token, self.field(logits.iter().map(|logit| logit - mean))));
                }
            }
        }
        let (input, side) = (self.input, self.side);
        let by_kind = rows.into_iter().map(|(token, field)| (TokenKind::of(token, input, side), field));
        self.heads.entry((self.layer, view.head)).or_default().rows.extend(by_kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_squares_as_each_input_encodes_them() {
        use TokenKind::*;
        let of = |token, input, side| TokenKind::of(token, input, side);
        assert_eq!(of(0, Input::Planes, Color::White), Square(tandem_chess::Square::A1));
        assert_eq!(of(0, Input::Squares, Color::Black), Square(tandem_chess::Square::A8));
        assert_eq!(of(63, Input::Planes, Color::Black), Square(tandem_chess::Square::H1));
        assert_eq!(of(2, Input::Text, Color::Black), Square(tandem_chess::Square::A8));
        assert_eq!(of(65, Input::Text, Color::White), Square(tandem_chess::Square::H1));
        assert_eq!(
            [1, 66, 77, 78].map(|token| of(token, Input::Text, Color::White)),
            [Text, Text, Text, Move]
        );
    }

    #[test]
    fn the_mean_is_over_squares_if_they_are_queries() {
        let field = |value| SquareMap { squares: [value; 64], other_tokens: value };
        let mut map = HeadMap { rows: vec![(TokenKind::Move, field(8.0))] };
        assert_eq!(map.mean(), field(8.0));
        map.rows.push((TokenKind::Square(Square::E4), field(2.0)));
        map.rows.push((TokenKind::Square(Square::A1), field(4.0)));
        assert_eq!(map.mean(), field(3.0));
        assert_eq!(map.from(TokenKind::Square(Square::A1)), Some(&field(4.0)));
    }
}
