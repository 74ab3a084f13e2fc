//! Move maps: the indices of moves in the outputs of two families of networks, [`lc0`] and [`searchless`].
//!
//! Both lists begin with the 1792 pairs of squares that a queen or a knight could connect, each in its own
//! order, and end with promotions. The lists are generated here from that rule instead of being stored.

pub mod lc0;
pub mod searchless;

pub use lc0::PolicyIndex;
pub use searchless::ActionIndex;

use crate::{Piece, Square};

/// Number of pairs of squares that a queen or a knight could connect.
const PAIRS: usize = 1792;

/// Table entry for pairs of squares that no piece could connect.
const NO_INDEX: u16 = u16::MAX;

/// An indexed move, as square numbers from 0 and a promotion.
#[derive(Clone, Copy)]
struct IndexedMove {
    from: u8,
    to: u8,
    promotion: Option<Piece>,
}

impl IndexedMove {
    const EMPTY: Self = Self { from: 0, to: 0, promotion: None };

    fn from(self) -> Square {
        Square::index(usize::from(self.from))
    }

    fn to(self) -> Square {
        Square::index(usize::from(self.to))
    }

    /// Text of the move, for example `a7a8q`.
    fn text(self) -> String {
        let mut text = format!("{}{}", self.from(), self.to());
        text.extend(self.promotion.map(char::from));
        text
    }
}

const fn is_queen_move(from: usize, to: usize) -> bool {
    let (files, ranks) = ((from % 8).abs_diff(to % 8), (from / 8).abs_diff(to / 8));
    from != to && (files == 0 || ranks == 0 || files == ranks)
}

const fn is_knight_move(from: usize, to: usize) -> bool {
    let (files, ranks) = ((from % 8).abs_diff(to % 8), (from / 8).abs_diff(to / 8));
    files * ranks == 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};
    use std::fs;
    use tandem_util::test_data;

    /// SHA-256 of lines that are joined by line feeds, without one at the end.
    pub(super) fn checksum(lines: &[String]) -> String {
        Sha256::digest(lines.join("\n")).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads a file of reference values, which lie beside the test data.
    pub(super) fn golden(name: &str) -> String {
        fs::read_to_string(test_data::path(&format!("../reference/golden/{name}"))).unwrap()
    }

    /// Positions with castling, promotions and en passant, for both sides.
    pub(super) const POSITIONS: [&str; 8] = [
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
        "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1",
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 0 1",
        "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N w - - 0 1",
        "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
        "1rk1r3/8/8/8/8/8/8/1RK1R3 w EBeb - 0 1",
        "4k1r1/8/8/8/8/8/8/1R2K1R1 w BGg - 0 1",
    ];

    #[test]
    fn the_number_of_pairs_is_1792() {
        let pairs = (0..64).flat_map(|from| (0..64).map(move |to| (from, to)));
        assert_eq!(
            pairs.filter(|&(from, to)| is_queen_move(from, to) || is_knight_move(from, to)).count(),
            PAIRS
        );
    }
}
