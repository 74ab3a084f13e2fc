//! Zobrist keys: one for the whole position, and one for each group of pieces that a history table is indexed
//! by.

use crate::{Board, Changes, Color, Move, Piece, Placed, Rank, Square, get_pawn_attacks};
use tandem_util::random::SplitMix;

/// Zobrist keys (64-bit hashes) of groups of pieces. Each is the XOR of its pieces' Zobrist numbers, so
/// adding and removing a piece are the same operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// Zobrist key of the pawns of both sides.
    pub pawn: u64,
    /// Zobrist key of the knights, bishops and kings of both sides.
    pub minor: u64,
    /// Zobrist key of the rooks, queens and kings of both sides.
    pub major: u64,
    /// Zobrist keys of all pieces but the pawns, for White and for Black.
    pub non_pawn: [u64; 2],
}

impl Keys {
    /// Updates all keys by the changes of a move.
    #[inline]
    pub(crate) fn update(&mut self, changes: &Changes) {
        match (changes.removed(), changes.added()) {
            // The common case: a piece moves from one square to another, and may capture something there.
            ([removed, rest @ ..], [added]) if removed.piece == added.piece => {
                self.toggle_number(removed.color, removed.piece, number_of(*removed) ^ number_of(*added));
                if let [victim] = rest {
                    self.toggle(*victim);
                }
            }
            (removed, added) => removed.iter().chain(added).for_each(|&placed| self.toggle(placed)),
        }
    }

    /// Adds a piece to its keys or removes it.
    #[inline]
    fn toggle(&mut self, placed: Placed) {
        self.toggle_number(placed.color, placed.piece, number_of(placed));
    }

    /// XORs the Zobrist number of a piece into every key that the piece belongs to. Masks are looked up
    /// instead of branching, because a processor predicts the kind of the next piece to move badly.
    #[inline]
    fn toggle_number(&mut self, color: Color, piece: Piece, number: u64) {
        let [pawn, minor, major, white, black] = BELONGS[color as usize][piece as usize];
        self.pawn ^= number & pawn;
        self.minor ^= number & minor;
        self.major ^= number & major;
        self.non_pawn[0] ^= number & white;
        self.non_pawn[1] ^= number & black;
    }

    /// Zobrist key of all pieces on the board, without side to move, castling and en passant rights.
    #[inline]
    pub fn pieces(&self) -> u64 {
        self.pawn ^ self.non_pawn[0] ^ self.non_pawn[1]
    }

    /// Keys of a position, computed from scratch.
    pub(crate) fn of(board: &Board) -> Self {
        let mut keys = Self::default();
        for color in Color::ALL {
            for piece in Piece::ALL {
                for square in board.colored_pieces(color, piece) {
                    keys.toggle(Placed { piece, color, square });
                }
            }
        }
        keys
    }
}

/// Zobrist number of a piece on a square.
#[inline]
pub(crate) fn piece_number(color: Color, piece: Piece, square: Square) -> u64 {
    PIECES[color as usize][piece as usize][square as usize]
}

#[inline]
fn number_of(placed: Placed) -> u64 {
    piece_number(placed.color, placed.piece, placed.square)
}

/// Contribution of the castling rights to the key of the position.
pub(crate) fn castling_number(board: &Board) -> u64 {
    let mut number = 0;
    for color in Color::ALL {
        let rights = board.castle_rights(color);
        for file in [rights.short, rights.long].into_iter().flatten() {
            number ^= CASTLING[color as usize][file as usize];
        }
    }
    number
}

/// Contribution of the side to move and en passant to the key of the position.
#[inline]
pub(crate) fn turn_number(board: &Board) -> u64 {
    let mut number = if board.side_to_move() == Color::Black { BLACK_TO_MOVE } else { 0 };
    if let Some(target) = en_passant_target(board) {
        number ^= EN_PASSANT[target.file() as usize];
    }
    number
}

/// Zobrist number of Black to move: the change of the key by a null move, en passant apart.
pub(crate) const fn side_number() -> u64 {
    BLACK_TO_MOVE
}

/// Square behind a pawn that has just jumped, if it can really be captured there. Positions that differ only
/// in a right that cannot be exercised are the same position under the repetition rule.
#[inline]
pub fn en_passant_target(board: &Board) -> Option<Square> {
    let us = board.side_to_move();
    let target = Square::new(board.en_passant()?, Rank::Sixth.relative_to(us));
    let mut pawns = (get_pawn_attacks(target, !us) & board.colored_pieces(us, Piece::Pawn)).into_iter();
    pawns.any(|from| board.is_legal(Move { from, to: target, promotion: None })).then_some(target)
}

/// Mask of all ones for each key (pawn, minor, major, White's and Black's non-pawn key) that a piece of a
/// colour belongs to.
static BELONGS: [[[u64; 5]; 6]; 2] = {
    const ALL: u64 = u64::MAX;
    let (white, black) = ([ALL, 0], [0, ALL]);
    let mut table = [[[0; 5]; 6]; 2];
    let mut color = 0;
    while color < 2 {
        let [w, b] = if color == Color::White as usize { white } else { black };
        table[color][Piece::Pawn as usize] = [ALL, 0, 0, 0, 0];
        table[color][Piece::Knight as usize] = [0, ALL, 0, w, b];
        table[color][Piece::Bishop as usize] = [0, ALL, 0, w, b];
        table[color][Piece::Rook as usize] = [0, 0, ALL, w, b];
        table[color][Piece::Queen as usize] = [0, 0, ALL, w, b];
        table[color][Piece::King as usize] = [0, ALL, ALL, w, b];
        color += 1;
    }
    table
};

struct Numbers {
    pieces: [[[u64; 64]; 6]; 2],
    castling: [[u64; 8]; 2],
    en_passant: [u64; 8],
    black_to_move: u64,
}

const fn numbers() -> Numbers {
    // SplitMix never repeats an output within its period, so no two numbers are equal.
    let mut random = SplitMix::new(0x7A4D_E300u64.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut numbers = Numbers {
        pieces: [[[0; 64]; 6]; 2],
        castling: [[0; 8]; 2],
        en_passant: [0; 8],
        black_to_move: random.next_u64(),
    };
    let mut i = 0;
    while i < 2 * 6 * 64 {
        numbers.pieces[i / 384][(i / 64) % 6][i % 64] = random.next_u64();
        i += 1;
    }
    i = 0;
    while i < 16 {
        numbers.castling[i / 8][i % 8] = random.next_u64();
        i += 1;
    }
    i = 0;
    while i < 8 {
        numbers.en_passant[i] = random.next_u64();
        i += 1;
    }
    numbers
}

const NUMBERS: Numbers = numbers();
static PIECES: [[[u64; 64]; 6]; 2] = NUMBERS.pieces;
static CASTLING: [[u64; 8]; 2] = NUMBERS.castling;
static EN_PASSANT: [u64; 8] = NUMBERS.en_passant;
const BLACK_TO_MOVE: u64 = NUMBERS.black_to_move;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn all_numbers_differ() {
        let mut seen = HashSet::new();
        for number in PIECES.iter().flatten().flatten().chain(CASTLING.iter().flatten()).chain(&EN_PASSANT) {
            assert!(seen.insert(*number));
        }
        assert!(seen.insert(BLACK_TO_MOVE));
    }

    #[test]
    fn an_unusable_en_passant_right_is_not_in_the_key() {
        let usable: Board = "4k3/8/8/8/3pP3/8/8/4K3 b - e3 0 1".parse().unwrap();
        let unusable: Board = "4k3/8/8/8/4P3/8/p7/4K3 b - e3 0 1".parse().unwrap();
        // The pawn on d4 is pinned along the rank once both pawns leave it.
        let pinned: Board = "8/8/8/8/k2pP2R/8/8/4K3 b - e3 0 1".parse().unwrap();
        assert_eq!(en_passant_target(&usable), Some(Square::E3));
        assert_eq!(en_passant_target(&unusable), None);
        assert_eq!(en_passant_target(&pinned), None);
    }
}
