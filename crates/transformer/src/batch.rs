//! Positions encoded for a forward pass, in the layout that the network's input asks for.

use crate::architecture::SQUARES;
use crate::encoding::{planes, squares, text};
use crate::{Input, Inputs};
use tandem_chess::Position;

/// Encoded positions for networks of one [`Input`]. Its memory is reused after [`Self::clear`].
///
/// ```
/// use tandem_chess::Position;
/// use tandem_transformer::{Isa, Network, PositionBatch, Precision, Preset, Scratch, Weights};
///
/// let mut architecture = Preset::BtSmall.architecture();
/// architecture.body.layers = 1;
/// let network = Network::new(&Weights::random(architecture, 1), Precision::F32, Isa::best());
/// let mut batch = PositionBatch::new(network.architecture().input);
/// batch.push(&Position::startpos());
/// let mut scratch = Scratch::default();
/// assert_eq!(network.run(&batch.inputs(&[]), &mut scratch)?.len(), 1);
/// # Ok::<(), tandem_transformer::InputError>(())
/// ```
#[derive(Debug)]
pub struct PositionBatch {
    input: Input,
    tokens: Vec<u16>,
    rows: Vec<f32>,
}

impl PositionBatch {
    /// An empty batch of positions, encoded for networks whose input is `input`.
    pub fn new(input: Input) -> Self {
        Self { input, tokens: Vec::new(), rows: Vec::new() }
    }

    /// Removes all positions and keeps their memory for the next ones.
    pub fn clear(&mut self) {
        self.tokens.clear();
        self.rows.clear();
    }

    /// Encodes and adds a position; networks that read history also see the game that led to it.
    pub fn push(&mut self, position: &Position) {
        let board = position.board();
        match self.input {
            Input::Text => text::encode(board, more(&mut self.tokens, text::TOKENS)),
            Input::Squares => squares::encode(board, more(&mut self.rows, SQUARES * squares::CHANNELS)),
            Input::Planes => {
                // The default of lc0 when it plays.
                let fill = planes::HistoryFill::default();
                planes::encode(position, fill, more(&mut self.rows, SQUARES * planes::CHANNELS));
            }
            Input::PlanesSingle => {
                planes::encode_single(board, more(&mut self.rows, SQUARES * planes::CHANNELS));
            }
        }
    }

    /// Replaces the contents by a single position, for example for one call of [`Self::inputs`].
    pub fn of(&mut self, position: &Position) -> &mut Self {
        self.clear();
        self.push(position);
        self
    }

    /// The positions as network inputs. `actions` has a list of moves for each position for networks with an
    /// action-value head, and is empty for all others.
    pub fn inputs<'a>(&'a self, actions: &'a [&'a [u16]]) -> Inputs<'a> {
        match self.input {
            Input::Text => Inputs::Text { tokens: &self.tokens, actions },
            Input::Squares | Input::Planes | Input::PlanesSingle => Inputs::Squares(&self.rows),
        }
    }

    /// The positions with an external board code ([`crate::Architecture::board_code`] values, see
    /// [`Inputs::Coded`]) for each of them, one after the other in `codes`.
    pub fn coded<'a>(&'a self, codes: &'a [f32]) -> Inputs<'a> {
        Inputs::Coded { squares: &self.rows, codes }
    }
}

/// Appends `count` default values and returns them to be written.
fn more<T: Clone + Default>(values: &mut Vec<T>, count: usize) -> &mut [T] {
    let old = values.len();
    values.resize(old + count, T::default());
    &mut values[old..]
}
