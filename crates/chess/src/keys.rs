//! Zobrist keys: one for the whole position, and one for each group of pieces that a history table may ask for.

use crate::{Board, Changes, Color, Move, Piece, Placed, Rank, Square, get_pawn_attacks};

/// Keys of the groups of pieces in a position. Each is the exclusive or of its pieces' numbers, so it is
/// updated by the same operation when a piece comes and when it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// Pawns of both sides.
    pub pawn: u64,
    /// Knights, bishops and kings of both sides.
    pub minor: u64,
    /// Rooks, queens and kings of both sides.
    pub major: u64,
    /// Everything but the pawns, by colour.
    pub non_pawn: [u64; 2],
}

impl Keys {
    /// Follows a move.
    #[inline]
    pub(crate) fn update(&mut self, changes: &Changes) {
        match (changes.removed(), changes.added()) {
            // Nearly always: a piece goes from one square to another, and may take something there.
            ([gone, rest @ ..], [come]) if gone.piece == come.piece => {
                self.toggle_number(gone.color, gone.piece, number_of(*gone) ^ number_of(*come));
                if let [victim] = rest {
                    self.toggle(*victim);
                }
            }
            (gone, come) => gone.iter().chain(come).for_each(|&placed| self.toggle(placed)),
        }
    }

    /// Puts a piece on the board or takes it off.
    #[inline]
    fn toggle(&mut self, placed: Placed) {
        self.toggle_number(placed.color, placed.piece, number_of(placed));
    }

    /// Enters the number of a piece into every key that the piece belongs to. These are looked up rather than
    /// branched on: the kind of the next piece to move is what a processor guesses worst.
    #[inline]
    fn toggle_number(&mut self, color: Color, piece: Piece, number: u64) {
        let [pawn, minor, major, white, black] = BELONGS[color as usize][piece as usize];
        self.pawn ^= number & pawn;
        self.minor ^= number & minor;
        self.major ^= number & major;
        self.non_pawn[0] ^= number & white;
        self.non_pawn[1] ^= number & black;
    }

    /// The key of all pieces, without side to move, castling and en passant.
    #[inline]
    pub fn pieces(&self) -> u64 {
        self.pawn ^ self.non_pawn[0] ^ self.non_pawn[1]
    }

    /// Keys of a position, computed from nothing.
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

/// The number of one piece on one square.
#[inline]
pub(crate) fn piece_number(color: Color, piece: Piece, square: Square) -> u64 {
    PIECES[color as usize][piece as usize][square as usize]
}

#[inline]
fn number_of(placed: Placed) -> u64 {
    piece_number(placed.color, placed.piece, placed.square)
}

/// What castling rights add to the key of the pieces.
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

/// What the side to move and en passant add to the key of the pieces.
#[inline]
pub(crate) fn turn_number(board: &Board) -> u64 {
    let mut number = if board.side_to_move() == Color::Black { BLACK_TO_MOVE } else { 0 };
    if let Some(target) = en_passant_target(board) {
        number ^= EN_PASSANT[target.file() as usize];
    }
    number
}

/// The number of Black to move: what a null move changes in the key, en passant apart.
pub(crate) const fn side_number() -> u64 {
    BLACK_TO_MOVE
}

/// The square behind a pawn that has just jumped, if it can really be taken there: two positions that differ only in a
/// right nobody can exercise are the same position.
#[inline]
pub fn en_passant_target(board: &Board) -> Option<Square> {
    let us = board.side_to_move();
    let target = Square::new(board.en_passant()?, Rank::Sixth.relative_to(us));
    let mut pawns = (get_pawn_attacks(target, !us) & board.colored_pieces(us, Piece::Pawn)).into_iter();
    pawns.any(|from| board.is_legal(Move { from, to: target, promotion: None })).then_some(target)
}

/// All ones for each key (pawn, minor, major, White's and Black's others) that a piece of a colour belongs to.
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

/// SplitMix64: every output of a counter is distinct, so no two numbers are equal.
const fn split_mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

const fn numbers() -> Numbers {
    let mut numbers = Numbers {
        pieces: [[[0; 64]; 6]; 2],
        castling: [[0; 8]; 2],
        en_passant: [0; 8],
        black_to_move: split_mix(0x7A4D_E301),
    };
    let mut counter = 0x7A4D_E302;
    let mut i = 0;
    while i < 2 * 6 * 64 {
        numbers.pieces[i / 384][(i / 64) % 6][i % 64] = split_mix(counter);
        counter += 1;
        i += 1;
    }
    i = 0;
    while i < 16 {
        numbers.castling[i / 8][i % 8] = split_mix(counter);
        counter += 1;
        i += 1;
    }
    i = 0;
    while i < 8 {
        numbers.en_passant[i] = split_mix(counter);
        counter += 1;
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
    fn an_en_passant_right_that_nobody_can_use_is_not_in_the_key() {
        let usable: Board = "4k3/8/8/8/3pP3/8/8/4K3 b - e3 0 1".parse().unwrap();
        let unusable: Board = "4k3/8/8/8/4P3/8/p7/4K3 b - e3 0 1".parse().unwrap();
        // The pawn on d4 is pinned along the rank once both pawns leave it.
        let pinned: Board = "8/8/8/8/k2pP2R/8/8/4K3 b - e3 0 1".parse().unwrap();
        assert_eq!(en_passant_target(&usable), Some(Square::E3));
        assert_eq!(en_passant_target(&unusable), None);
        assert_eq!(en_passant_target(&pinned), None);
    }
}
