//! Positions on their way into a network, in whatever form it reads them.

use crate::architecture::SQUARES;
use crate::encoding::{planes, squares, text};
use crate::{Input, Inputs};
use tandem_chess::Position;

/// Positions as networks of one input read them. Its memory is kept from one use to the next.
///
/// ```
/// use tandem_chess::Position;
/// use tandem_transformer::{Batch, Isa, Network, Precision, Preset, Scratch, Weights};
///
/// let mut architecture = Preset::BtSmall.architecture();
/// architecture.body.layers = 1;
/// let network = Network::new(&Weights::random(architecture, 1), Precision::F32, Isa::best());
/// let mut batch = Batch::new(network.architecture().input);
/// batch.push(&Position::startpos());
/// let mut scratch = Scratch::default();
/// assert_eq!(network.run(&batch.inputs(&[]), &mut scratch)?.len(), 1);
/// # Ok::<(), tandem_transformer::InputError>(())
/// ```
#[derive(Debug)]
pub struct Batch {
    input: Input,
    tokens: Vec<u16>,
    rows: Vec<f32>,
}

impl Batch {
    /// No positions yet.
    pub fn new(input: Input) -> Self {
        Self { input, tokens: Vec::new(), rows: Vec::new() }
    }

    /// Forgets the positions.
    pub fn clear(&mut self) {
        self.tokens.clear();
        self.rows.clear();
    }

    /// Adds a position with the game that led to it.
    pub fn push(&mut self, position: &Position) {
        let board = position.board();
        match self.input {
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
    pub fn of(&mut self, position: &Position) -> &mut Self {
        self.clear();
        self.push(position);
        self
    }

    /// The positions for a network to read; with a list of moves for each, for a network of action values.
    pub fn inputs<'a>(&'a self, actions: &'a [&'a [u16]]) -> Inputs<'a> {
        match self.input {
            Input::Text => Inputs::Text { tokens: &self.tokens, actions },
            Input::Squares | Input::Planes | Input::LonePlanes => Inputs::Squares(&self.rows),
        }
    }

    /// The positions with somebody else's code of each board.
    pub fn coded<'a>(&'a self, codes: &'a [f32]) -> Inputs<'a> {
        Inputs::Coded { squares: &self.rows, codes }
    }
}

/// Room for more numbers at the end.
fn more<T: Clone + Default>(numbers: &mut Vec<T>, count: usize) -> &mut [T] {
    let old = numbers.len();
    numbers.resize(old + count, T::default());
    &mut numbers[old..]
}
