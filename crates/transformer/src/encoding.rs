//! Positions as network inputs, and win probabilities as network outputs and targets.
//!
//! - [`text`]: the 77 tokens of searchless chess;
//! - [`squares`]: 19 channels for each square;
//! - [`planes`]: lc0's 112 planes, as channels of each square;
//! - [`buckets`]: win probabilities as a distribution over equal intervals;
//! - [`wdl`]: scores in centipawns as probabilities of win, draw and loss.
//!
//! All encoders write every element of a buffer of the caller's. Encodings with channels for each square can
//! also be written as [`Masks`], which take a twentieth of the memory: a set of squares and one value for
//! each channel.
//!
//! ```
//! use tandem_chess::Position;
//! use tandem_transformer::encoding::text;
//!
//! let mut tokens = [0; text::TOKENS];
//! text::encode(Position::startpos().board(), &mut tokens);
//! assert_eq!(text::ALPHABET[usize::from(tokens[1])], b'w');
//! ```

pub mod buckets;
pub mod planes;
pub mod squares;
pub mod text;
pub mod wdl;

use crate::architecture::SQUARES;
use tandem_chess::BitBoard;

/// Destination of an encoding: channels of the squares a1 to h8 as the side to move sees the board (for Black
/// the ranks are flipped, the files are not). It separates what is encoded from the memory layout.
trait Channels {
    /// Sets a channel to one on some squares.
    fn mark(&mut self, channel: usize, squares: BitBoard);

    /// Sets a channel to one value on all squares.
    fn broadcast(&mut self, channel: usize, number: f32);
}

/// Dense layout: all channels of a square, then those of the next square.
struct DenseChannels<'a> {
    values: &'a mut [f32],
    channels: usize,
}

impl<'a> DenseChannels<'a> {
    fn new(values: &'a mut [f32], channels: usize) -> Self {
        assert_eq!(values.len(), SQUARES * channels, "64 squares of {channels} values");
        values.fill(0.0);
        Self { values, channels }
    }
}

impl Channels for DenseChannels<'_> {
    fn mark(&mut self, channel: usize, squares: BitBoard) {
        for square in squares {
            self.values[square as usize * self.channels + channel] = 1.0;
        }
    }

    fn broadcast(&mut self, channel: usize, number: f32) {
        self.values.iter_mut().skip(channel).step_by(self.channels).for_each(|place| *place = number);
    }
}

/// Sparse layout of an encoding: for each channel (input value of a square) the squares on which it is not
/// zero, and the one value that it has on them.
#[derive(Debug)]
pub struct Masks<'a> {
    /// For each channel its squares as a bitboard, a1 in the lowest bit, as the side to move sees the board.
    pub squares: &'a mut [u64],
    /// For each channel its value on the squares of its bitboard.
    pub levels: &'a mut [f32],
}

impl<'a> Masks<'a> {
    /// Clears the bitboards and sets all values to one.
    fn new(squares: &'a mut [u64], levels: &'a mut [f32], channels: usize) -> Self {
        assert_eq!(
            (squares.len(), levels.len()),
            (channels, channels),
            "a mask and a level for each channel"
        );
        squares.fill(0);
        levels.fill(1.0);
        Self { squares, levels }
    }

    /// Expands masks (see [`Masks`]) to the dense layout in `out`: all channels of a1, then those of b1 and
    /// so on.
    ///
    /// # Panics
    /// If `out` does not have 64 values for each channel.
    pub fn expand(squares: &[u64], levels: &[f32], out: &mut [f32]) {
        let channels = squares.len();
        assert_eq!(out.len(), SQUARES * channels, "64 squares of {channels} values");
        for (square, row) in out.chunks_exact_mut(channels).enumerate() {
            for ((number, mask), level) in row.iter_mut().zip(squares).zip(levels) {
                *number = (mask >> square & 1) as f32 * level;
            }
        }
    }
}

impl Channels for Masks<'_> {
    fn mark(&mut self, channel: usize, squares: BitBoard) {
        self.squares[channel] |= squares.0;
    }

    fn broadcast(&mut self, channel: usize, number: f32) {
        self.squares[channel] = u64::MAX;
        self.levels[channel] = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tandem_chess::{Board, Position};
    use tandem_util::random::SplitMix;
    use tandem_util::test_data;

    /// Reference values that were recorded from the code of searchless chess.
    pub(super) fn golden() -> serde_json::Value {
        let text = std::fs::read(test_data::path("../reference/golden/golden_searchless.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    /// Plays random moves, from the standard position or a random one of Chess960.
    pub(super) fn random_game(seed: u64, plies: usize, mut visit: impl FnMut(&mut Position)) {
        let mut random = SplitMix::new(seed);
        let mut position = match seed % 2 {
            0 => Position::startpos(),
            _ => Board::double_chess960_startpos(random.below(960), random.below(960)).into(),
        };
        for _ in 0..plies {
            visit(&mut position);
            let moves = position.legal_moves();
            if moves.is_empty() {
                break;
            }
            position.play(moves[random.below(moves.len() as u32) as usize]);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Masks and dense rows are two layouts of the same encoding.
        #[test]
        fn masks_expand_to_the_dense_encoding(seed: u64) {
            let mut masks = [0x5A; planes::CHANNELS];
            let mut levels = [f32::NAN; planes::CHANNELS];
            let mut rows = vec![0.0; SQUARES * planes::CHANNELS];
            let mut expanded = rows.clone();
            random_game(seed, 200, |position| {
                planes::encode(position, planes::HistoryFill::default(), &mut rows);
                planes::encode_masks(position, planes::HistoryFill::default(), &mut masks, &mut levels);
                Masks::expand(&masks, &levels, &mut expanded);
                assert_eq!(expanded, rows, "{}", position.fen());
                let len = SQUARES * squares::CHANNELS;
                let (masks, levels) = (&mut masks[..squares::CHANNELS], &mut levels[..squares::CHANNELS]);
                squares::encode(position.board(), &mut rows[..len]);
                squares::encode_masks(position.board(), masks, levels);
                Masks::expand(masks, levels, &mut expanded[..len]);
                assert_eq!(expanded[..len], rows[..len], "{}", position.fen());
            });
        }

        /// A single position is encoded as the game is, with all but the current board left out.
        #[test]
        fn a_single_position_has_no_history(seed: u64) {
            let mut masks = [0x5A; planes::CHANNELS];
            let mut levels = [f32::NAN; planes::CHANNELS];
            let [mut rows, mut lone, mut expanded] = [(); 3].map(|()| vec![0.0; SQUARES * planes::CHANNELS]);
            random_game(seed, 200, |position| {
                planes::encode(position, planes::HistoryFill::Always, &mut rows);
                rows.chunks_exact_mut(planes::CHANNELS).for_each(|row| row[planes::HISTORY].fill(0.0));
                planes::encode_single(position.board(), &mut lone);
                assert_eq!(lone, rows, "{}", position.fen());
                planes::encode_single_masks(position.board(), &mut masks, &mut levels);
                Masks::expand(&masks, &levels, &mut expanded);
                assert_eq!(expanded, rows, "{}", position.fen());
            });
        }

        /// All of the buffer is overwritten, with values in the range that a network expects.
        #[test]
        fn encoders_overwrite_the_whole_buffer(seed: u64) {
            let mut tokens = [0; text::TOKENS];
            let mut rows = vec![f32::NAN; SQUARES * planes::CHANNELS];
            random_game(seed, 200, |position| {
                tokens.fill(u16::MAX);
                text::encode(position.board(), &mut tokens);
                assert!(tokens.iter().all(|&token| usize::from(token) < text::ALPHABET.len()));
                rows.fill(f32::NAN);
                planes::encode(position, planes::HistoryFill::default(), &mut rows);
                assert!(rows.iter().all(|number| (0.0..=100.0).contains(number)));
                let rows = &mut rows[..SQUARES * squares::CHANNELS];
                rows.fill(f32::NAN);
                squares::encode(position.board(), rows);
                assert!(rows.iter().all(|number| (0.0..=1.0).contains(number)));
            });
        }
    }
}
