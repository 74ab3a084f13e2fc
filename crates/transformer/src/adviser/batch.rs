//! Positions on their way into a network, in whatever form it reads them.

use crate::architecture::SQUARES;
use crate::encoding::{planes, squares, text};
use crate::{Input, Inputs, Network, Outputs, Scratch};
use tandem_chess::Position;

/// Positions as one network reads them.
#[derive(Debug, Default)]
pub(super) struct Batch {
    tokens: Vec<u16>,
    rows: Vec<f32>,
}

impl Batch {
    pub(super) fn clear(&mut self) {
        self.tokens.clear();
        self.rows.clear();
    }

    /// Adds a position with the game that led to it.
    pub(super) fn push(&mut self, network: &Network, position: &Position) {
        let board = position.board();
        match network.architecture().input {
            Input::Text => text::encode(board, more(&mut self.tokens, text::TOKENS)),
            Input::Squares => squares::encode(board, more(&mut self.rows, SQUARES * squares::CHANNELS)),
            Input::Planes => {
                // As lc0 plays.
                let fill = planes::HistoryFill::default();
                planes::encode(position, fill, more(&mut self.rows, SQUARES * planes::CHANNELS));
            }
            Input::LonePlanes => planes::encode_lone(board, more(&mut self.rows, SQUARES * planes::CHANNELS)),
        }
    }

    /// Makes it one position alone.
    pub(super) fn of(&mut self, network: &Network, position: &Position) -> &mut Self {
        self.clear();
        self.push(network, position);
        self
    }

    /// What the network says of them: of each position, or of each action of each.
    pub(super) fn ask<'a>(
        &self,
        network: &Network,
        actions: &[&[u16]],
        scratch: &'a mut Scratch,
    ) -> &'a [Outputs] {
        let inputs = match network.architecture().input {
            Input::Text => Inputs::Text { tokens: &self.tokens, actions },
            Input::Squares | Input::Planes | Input::LonePlanes => Inputs::Squares(&self.rows),
        };
        network.run(&inputs, scratch).expect("positions are encoded for the network that reads them")
    }
}

/// Room for more numbers at the end.
fn more<T: Clone + Default>(numbers: &mut Vec<T>, count: usize) -> &mut [T] {
    let old = numbers.len();
    numbers.resize(old + count, T::default());
    &mut numbers[old..]
}
