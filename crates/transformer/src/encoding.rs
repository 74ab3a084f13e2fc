//! Positions as networks read them, and chances to win as networks tell them.
//!
//! - [`text`]: the 77 tokens of searchless chess;
//! - [`squares`]: 19 numbers for each square;
//! - [`planes`]: lc0's 112 planes, as so many numbers for each square;
//! - [`buckets`]: chances to win as equal parts of what lies between losing and winning;
//! - [`outcomes`]: scores as chances of a win, a draw and a loss.
//!
//! All write into memory of the caller's, every number of it. What has numbers for each square can also be written as
//! [`Masks`], a twentieth of the size: a set of squares and one number for each channel.
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
pub mod outcomes;
pub mod planes;
pub mod squares;
pub mod text;

use crate::architecture::SQUARES;
use tandem_chess::BitBoard;

/// Channels of the squares from a1 to h8 as the side to move sees the board: for Black the ranks are flipped, the files are
/// not. An encoding says what is on; how it is kept is the business of whoever implements this.
trait Channels {
    /// Writes ones into a channel of some squares.
    fn mark(&mut self, channel: usize, squares: BitBoard);

    /// Writes one number into a channel of all squares.
    fn broadcast(&mut self, channel: usize, number: f32);
}

/// A row of numbers for each square.
struct Rows<'a> {
    numbers: &'a mut [f32],
    channels: usize,
}

impl<'a> Rows<'a> {
    /// Rows of zeros.
    fn new(numbers: &'a mut [f32], channels: usize) -> Self {
        assert_eq!(numbers.len(), SQUARES * channels, "64 squares of {channels} numbers");
        numbers.fill(0.0);
        Self { numbers, channels }
    }
}

impl Channels for Rows<'_> {
    fn mark(&mut self, channel: usize, squares: BitBoard) {
        for square in squares {
            self.numbers[square as usize * self.channels + channel] = 1.0;
        }
    }

    fn broadcast(&mut self, channel: usize, number: f32) {
        self.numbers.iter_mut().skip(channel).step_by(self.channels).for_each(|place| *place = number);
    }
}

/// The same in less room: for each channel the squares on which it is not zero, a1 in the lowest bit, and the number that
/// it has there.
#[derive(Debug)]
pub struct Masks<'a> {
    /// The squares of each channel.
    pub squares: &'a mut [u64],
    /// The number of each channel.
    pub levels: &'a mut [f32],
}

impl<'a> Masks<'a> {
    /// Channels without a square.
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

    /// The rows of numbers that the masks stand for, those of a1 first.
    ///
    /// # Panics
    /// If there is no room for 64 rows of a number for each channel.
    pub fn expand(squares: &[u64], levels: &[f32], out: &mut [f32]) {
        let channels = squares.len();
        assert_eq!(out.len(), SQUARES * channels, "64 squares of {channels} numbers");
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
    use std::path::PathBuf;
    use tandem_chess::random::SplitMix;
    use tandem_chess::{Board, Position};

    /// A file of the data for tests, where it is at hand: set `TANDEM_DATA` to a folder that has it, or put it at
    /// `../shared/data` beside the repository.
    pub(super) fn data(name: &str) -> Option<PathBuf> {
        let data = std::env::var_os("TANDEM_DATA")
            .map(PathBuf::from)
            .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")));
        let path = data.join(name);
        if !path.exists() {
            eprintln!("skipped: {} is missing", path.display());
            return None;
        }
        Some(path)
    }

    /// What was written down from searchless chess itself.
    pub(super) fn golden() -> Option<serde_json::Value> {
        let text = std::fs::read(data("../reference/golden/golden_searchless.json")?).unwrap();
        Some(serde_json::from_slice(&text).unwrap())
    }

    /// Plays by chance: from the usual position, or one of Chess960 for each side.
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

        /// Masks and rows are two ways to keep the same numbers.
        #[test]
        fn masks_stand_for_the_same_rows(seed: u64) {
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

        /// A lone position is a game's with everything but the board itself left out.
        #[test]
        fn a_lone_position_has_no_history(seed: u64) {
            let mut masks = [0x5A; planes::CHANNELS];
            let mut levels = [f32::NAN; planes::CHANNELS];
            let [mut rows, mut lone, mut expanded] = [(); 3].map(|()| vec![0.0; SQUARES * planes::CHANNELS]);
            random_game(seed, 200, |position| {
                planes::encode(position, planes::HistoryFill::Always, &mut rows);
                rows.chunks_exact_mut(planes::CHANNELS).for_each(|row| row[planes::HISTORY].fill(0.0));
                planes::encode_lone(position.board(), &mut lone);
                assert_eq!(lone, rows, "{}", position.fen());
                planes::encode_lone_masks(position.board(), &mut masks, &mut levels);
                Masks::expand(&masks, &levels, &mut expanded);
                assert_eq!(expanded, rows, "{}", position.fen());
            });
        }

        /// Whatever was in memory before, all of it is written, with numbers a network can read.
        #[test]
        fn every_position_of_every_game_is_encoded(seed: u64) {
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
