//! How the squares of a board look at each other in each head.

use std::collections::BTreeMap;
use tandem_chess::{Color, Square};
use tandem_transformer::encoding::text;
use tandem_transformer::{Architecture, Input, Look, Observer};

/// What a token stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A square of the board.
    Square(Square),
    /// The move, for a network that reads one.
    Move,
    /// Another part of the text.
    Text,
}

impl Place {
    /// That of a token, for the side to move.
    fn of(token: usize, input: Input, side: Color) -> Self {
        match input {
            Input::Text if token >= text::TOKENS => Self::Move,
            Input::Text => text::square_of(token).map_or(Self::Text, Self::Square),
            // The board is seen from the side to move.
            Input::Squares | Input::Planes | Input::LonePlanes => {
                let flipped = if side == Color::White { 0 } else { 56 };
                Square::try_index(token ^ flipped).map_or(Self::Text, Self::Square)
            }
        }
    }
}

/// A number for each square.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) squares: [f32; 64],
    /// What the rest of the text and the move have together.
    pub(super) elsewhere: f32,
}

impl Field {
    const ZERO: Self = Self { squares: [0.0; 64], elsewhere: 0.0 };

    fn add(&mut self, place: Place, number: f32) {
        match place {
            Place::Square(square) => self.squares[square as usize] += number,
            Place::Move | Place::Text => self.elsewhere += number,
        }
    }

    /// The mean of some.
    fn mean<'a>(fields: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let share = 1.0 / fields.clone().count().max(1) as f32;
        let mut mean = Self::ZERO;
        for field in fields {
            mean.squares.iter_mut().zip(&field.squares).for_each(|(sum, number)| *sum += share * number);
            mean.elsewhere += share * field.elsewhere;
        }
        mean
    }
}

/// What is gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Show {
    /// By what weights squares see each other
    Attention,
    /// What smolgen or a learned bias adds for each pair of squares, whatever their contents say
    #[value(alias = "smolgen", alias = "bias")]
    Pairs,
}

/// What one head does.
#[derive(Clone, Debug, Default)]
pub(super) struct HeadMap {
    /// Who looks, and what is in sight.
    pub(super) rows: Vec<(Place, Field)>,
}

impl HeadMap {
    /// What is seen from a place.
    pub(super) fn from(&self, place: Place) -> Option<&Field> {
        self.rows.iter().find(|(from, _)| *from == place).map(|(_, field)| field)
    }

    /// Whether squares look. In the last layer of a network that reads text they do not.
    pub(super) fn has_squares(&self) -> bool {
        self.rows.iter().any(|(from, _)| matches!(from, Place::Square(_)))
    }

    /// What is seen on average, from the squares, or where they do not look from whoever does.
    pub(super) fn mean(&self) -> Field {
        let squares = self.has_squares();
        let counts = |from: &Place| matches!(from, Place::Square(_)) || !squares;
        Field::mean(self.rows.iter().filter(|(from, _)| counts(from)).map(|(_, field)| field))
    }
}

/// Gathers what heads do with one position, and at most one move of it.
pub(super) struct Gather {
    show: Show,
    input: Input,
    side: Color,
    layer: usize,
    /// By layer and head.
    pub(super) heads: BTreeMap<(usize, usize), HeadMap>,
}

impl Gather {
    pub(super) fn new(show: Show, architecture: &Architecture, side: Color) -> Self {
        Self { show, input: architecture.input, side, layer: 0, heads: BTreeMap::new() }
    }

    fn field(&self, numbers: impl Iterator<Item = f32>) -> Field {
        let mut field = Field::ZERO;
        for (token, number) in numbers.enumerate() {
            field.add(Place::of(token, self.input, self.side), number);
        }
        field
    }
}

impl Observer for Gather {
    fn layer(&mut self, layer: usize) {
        self.layer = layer;
    }

    fn look(&mut self, look: &Look<'_>) {
        let mut rows = Vec::new();
        match self.show {
            Show::Attention => {
                let seen = look.weights();
                rows.extend(seen.map(|(token, weights)| (token, self.field(weights))));
            }
            Show::Pairs => {
                for (token, logits) in look.added().into_iter().flatten() {
                    // What is the same for all squares changes no weight.
                    let mean = logits.iter().sum::<f32>() / logits.len() as f32;
                    rows.push((token, self.field(logits.iter().map(|logit| logit - mean))));
                }
            }
        }
        let (input, side) = (self.input, self.side);
        let places = rows.into_iter().map(|(token, field)| (Place::of(token, input, side), field));
        self.heads.entry((self.layer, look.head)).or_default().rows.extend(places);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_squares_as_each_input_has_them() {
        use Place::*;
        let of = |token, input, side| Place::of(token, input, side);
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
    fn a_mean_is_of_the_squares_if_they_look() {
        let field = |number| Field { squares: [number; 64], elsewhere: number };
        let mut map = HeadMap { rows: vec![(Place::Move, field(8.0))] };
        assert_eq!(map.mean(), field(8.0));
        map.rows.push((Place::Square(Square::E4), field(2.0)));
        map.rows.push((Place::Square(Square::A1), field(4.0)));
        assert_eq!(map.mean(), field(3.0));
        assert_eq!(map.from(Place::Square(Square::A1)), Some(&field(4.0)));
    }
}
