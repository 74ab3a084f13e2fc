//! Positions as networks read them, and chances to win as networks tell them.
//!
//! - [`text`]: the 77 tokens of searchless chess;
//! - [`squares`]: 19 numbers for each square;
//! - [`planes`]: lc0's 112 planes, as so many numbers for each square;
//! - [`buckets`]: chances to win as equal parts of what lies between losing and winning.
//!
//! All write into memory of the caller's, every number of it.
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

use crate::architecture::SQUARES;
use tandem_chess::BitBoard;

/// A row of numbers for each square, from a1 to h8 as the side to move sees the board: for Black the ranks are flipped,
/// the files are not.
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

    /// Writes ones into a channel of some squares.
    fn mark(&mut self, channel: usize, squares: BitBoard) {
        for square in squares {
            self.numbers[square as usize * self.channels + channel] = 1.0;
        }
    }

    /// Writes one number into a channel of all squares.
    fn broadcast(&mut self, channel: usize, number: f32) {
        self.numbers.iter_mut().skip(channel).step_by(self.channels).for_each(|place| *place = number);
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
