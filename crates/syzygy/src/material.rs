//! The pieces of both sides, by which tables are named and found.

use std::fmt;
use std::hash::{Hash, Hasher};
use tandem_chess::{Board, Color, Piece};

/// Largest number of pieces, kings included, for which tables exist.
pub(crate) const MAX_PIECES: usize = 7;

/// Pieces besides the king in the order of a table's name, with their letters.
const KINDS: [(Piece, char); 5] =
    [(Piece::Queen, 'Q'), (Piece::Rook, 'R'), (Piece::Bishop, 'B'), (Piece::Knight, 'N'), (Piece::Pawn, 'P')];

/// Bits of the count of each kind of piece.
const COUNT_BITS: u32 = 3;

/// Pieces of one side besides the king: a count of three bits for each kind, indexed by [`Piece`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Side(u16);

impl Side {
    #[inline]
    fn of(board: &Board, color: Color) -> Self {
        let ours = board.colors(color);
        let count = |piece: Piece| ((board.pieces(piece) & ours).len() as u16) << (COUNT_BITS * piece as u32);
        Self(KINDS.iter().fold(0, |counts, &(piece, _)| counts | count(piece)))
    }

    fn add(&mut self, piece: Piece) {
        self.0 += 1 << (COUNT_BITS * piece as u32);
    }

    fn count(self, piece: Piece) -> usize {
        usize::from(self.0 >> (COUNT_BITS * piece as u32) & ((1 << COUNT_BITS) - 1))
    }

    /// Number of pieces, the king included.
    fn pieces(self) -> usize {
        1 + KINDS.iter().map(|&(piece, _)| self.count(piece)).sum::<usize>()
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = KINDS.iter().map(|&(piece, letter)| letter.to_string().repeat(self.count(piece)));
        write!(f, "K{}", letters.collect::<String>())
    }
}

/// Pieces of both sides, at most seven. Its text is the name of a table, for example `KRPvKR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Material {
    white: Side,
    black: Side,
}

impl Material {
    /// Material of two kings.
    pub(crate) const BARE_KINGS: Self = Self { white: Side(0), black: Side(0) };

    /// Material of a board with at most seven pieces.
    #[inline]
    pub(crate) fn of(board: &Board) -> Self {
        debug_assert!(board.occupied().len() as usize <= MAX_PIECES);
        Self { white: Side::of(board, Color::White), black: Side::of(board, Color::Black) }
    }

    /// Reads the name of a table; `None` if it is not one, or has more than seven pieces.
    pub fn parse(name: &str) -> Option<Self> {
        let (white, black) = name.split_once('v')?;
        let side = |letters: &str| {
            let mut side = Side::default();
            for letter in letters.strip_prefix('K')?.chars() {
                side.add(KINDS.iter().find(|&&(_, known)| known == letter)?.0);
            }
            Some(side)
        };
        // Also keeps the counts within their bits.
        if name.len() > MAX_PIECES + 1 {
            return None;
        }
        Some(Self { white: side(white)?, black: side(black)? })
    }

    /// Material of two kings and these other pieces. At most seven may be given, kings included.
    pub(crate) fn from_pieces(pieces: impl IntoIterator<Item = (Color, Piece)>) -> Self {
        let mut material = Self::BARE_KINGS;
        for (color, piece) in pieces {
            if piece != Piece::King {
                match color {
                    Color::White => material.white.add(piece),
                    Color::Black => material.black.add(piece),
                }
            }
        }
        material
    }

    /// The same pieces with the colours exchanged.
    #[inline]
    #[must_use]
    pub fn swapped(self) -> Self {
        Self { white: self.black, black: self.white }
    }

    /// True if both sides have the same pieces.
    #[inline]
    pub fn is_symmetric(self) -> bool {
        self.white == self.black
    }

    /// Number of pieces of a kind that one side has.
    pub fn count(self, color: Color, piece: Piece) -> usize {
        match (piece, color) {
            (Piece::King, _) => 1,
            (_, Color::White) => self.white.count(piece),
            (_, Color::Black) => self.black.count(piece),
        }
    }

    /// Number of pieces of both sides, kings included.
    pub fn pieces(self) -> usize {
        self.white.pieces() + self.black.pieces()
    }

    /// True if any side has pawns.
    pub fn has_pawns(self) -> bool {
        Color::ALL.into_iter().any(|color| self.count(color, Piece::Pawn) > 0)
    }

    /// True if any side has exactly one piece of some kind, besides its king.
    pub(crate) fn has_unique_piece(self) -> bool {
        KINDS.iter().any(|&(piece, _)| Color::ALL.into_iter().any(|color| self.count(color, piece) == 1))
    }
}

impl Hash for Material {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(u32::from(self.white.0) << 16 | u32::from(self.black.0));
    }
}

impl fmt::Display for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}v{}", self.white, self.black)
    }
}

/// Hash of [`Material`]: one multiplication, because it is computed for each probe.
#[derive(Default)]
pub(crate) struct MaterialHasher(u64);

impl Hasher for MaterialHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    #[inline]
    fn finish(&self) -> u64 {
        // The table of the standard library uses the lowest and the highest bits, and only the higher bits of a
        // product depend on all bits of its factors.
        self.0.rotate_left(26)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for name in ["KvK", "KQvK", "KRPvKR", "KQRBNPvK", "KPPvKPPP", "KvKQ"] {
            assert_eq!(Material::parse(name).unwrap().to_string(), name);
        }
        assert_eq!(Material::parse("KPRvKNB").unwrap().to_string(), "KRPvKBN", "in the order of value");
        for name in
            ["", "v", "KQK", "QvK", "KvQ", "KQvKx", "kqvk", "KKvK", "KQQQQQQQvK", "KQQQQQQvKQ", "KévK"]
        {
            assert_eq!(Material::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_board_has_the_material_of_its_pieces() {
        let board: Board = "8/2p5/3k4/8/8/3PP3/4K2R/8 w - - 0 1".parse().unwrap();
        let material = Material::of(&board);
        assert_eq!(material, Material::parse("KRPPvKP").unwrap());
        assert_eq!(material.pieces(), 6);
        assert!(material.has_pawns() && material.has_unique_piece() && !material.is_symmetric());
        assert_eq!(material.swapped().to_string(), "KPvKRPP");
        assert_eq!(Material::parse("KPvKP").unwrap().swapped().to_string(), "KPvKP");
        assert!(!Material::parse("KNNvKBB").unwrap().has_unique_piece());
    }
}
